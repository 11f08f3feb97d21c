// SPDX-License-Identifier: SHL-2.1
// Harness of final_trigger with ttcrq_port and ttc_time: MTP packets in, pulses out in the experiment's
// clock. The delay from the SOB pin to a pulse, less t + L, is one number for all triggers. Arguments:
// triggers, period of clk_ttc in ps, seed.
#include <cstring>
#include <map>
#include <vector>

#include "harness.hpp"
#include "nanet/wire/mtp.hpp"

int main(int argc, char** argv) {
  using namespace nanet;
  const auto wanted = bench::argument(argc, argv, 1), ttc_ps = bench::argument(argc, argv, 2);
  constexpr unsigned latency = 1000;
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 3)};
  dut->clk = dut->clk_ttc = 0;
  dut->rst = dut->rst_ttc = 1;
  dut->bcr = dut->ecr = dut->word_valid = dut->sent = dut->read = 0;
  dut->burst = 1;
  dut->latency = latency;
  dut->eval();
  std::uint64_t clk_at = 3200, ttc_at = 1 + random() % ttc_ps, period = 0, sob = 0, cycle = 0;
  std::map<std::uint32_t, unsigned> held;  // timestamp -> types
  std::map<long, std::uint64_t> bins;      // pulse - SOB - t - L, in periods of clk_ttc
  std::uint64_t pulses = 0, placed = 0, frames = 0, slack_samples = 0;
  std::array<std::byte, wire::mtp::max_bytes + 32> bytes{};
  std::size_t length = 0, at = 0;
  const auto fast = [&] {
    dut->clk = 1;
    dut->eval();
    dut->clk = 0;
    dut->eval();
    ++cycle;
    const unsigned counts = dut->counts;
    CHECK(!((counts >> 2 | counts >> 5 | counts >> 6) & 1), "refused: counts %x at %u", counts,
          dut->timestamp);
    placed += counts >> 9 & 1;
  };
  while (pulses < wanted || !held.empty()) {  // the last packet leaves as a whole
    if (clk_at < ttc_at) {
      clk_at += 6400;
      dut->word_valid = dut->sent = 0;
      if (at < length) {
        dut->word_valid = 1;
        dut->word_bytes = length - at < 32 ? length - at : 32;
        std::memcpy(&dut->word[0], bytes.data() + at, 32);
        at += 32;
      } else if (length) {
        dut->sent = 1;
        length = at = 0;
      } else if (pulses < wanted && sob && !dut->lost && random() % 16 == 0 &&
                 dut->timestamp > 256 + frames * 256) {
        // The frame before the present one.
        frames = dut->timestamp / 256 - 1;
        std::map<std::uint8_t, unsigned> times;
        for (int i = random() % 320; i-- > 0;) times[static_cast<std::uint8_t>(random())] = random() & 1;
        std::vector<wire::mtp::Primitive> list;
        for (const auto& [time, odd] : times) {
          list.push_back({static_cast<std::uint16_t>(0x4000 | odd), time, 0});
          held[static_cast<std::uint32_t>(frames) << 8 | time] = odd ? 3 : 1;
        }
        length = wire::mtp::encode(bytes.data(), static_cast<Frame>(frames), list.data(),
                                   static_cast<unsigned>(list.size()));
        ++frames;
      }
      fast();
    } else {
      ttc_at += ttc_ps;
      ++period;
      const bool begin = sob == 0 && period > 200 && dut->ready;
      dut->rst = dut->rst_ttc = period < 12;
      dut->bcr = dut->ecr = begin;
      if (begin) sob = period;
      dut->clk_ttc = 1;
      dut->eval();
      dut->clk_ttc = 0;
      dut->eval();
      CHECK(!dut->missed, "a release missed its period %lu", period);
      if (dut->pulse && dut->kind != 0x22) {
        // Decided triggers leave in order of time.
        CHECK(!held.empty(), "a pulse without a trigger");
        CHECK(held.begin()->second == dut->kind, "type %x of %x", dut->kind, held.begin()->second);
        ++bins[static_cast<long>(period - sob - held.begin()->first) - static_cast<long>(latency)];
        held.erase(held.begin());
        ++pulses;
      }
    }
  }
  CHECK(bins.size() == 1, "%zu bins", bins.size());
  // The slack histogram holds every placed decision.
  for (int i = 0; i < 400; ++i) fast();
  const std::uint64_t decided = placed;
  for (unsigned bin = 0; bin < 128; ++bin) {
    dut->read = 1;
    dut->read_bin = bin;
    fast();
    dut->read = 0;
    for (int i = 0; i < 10 && !dut->read_valid; ++i) fast();
    CHECK(dut->read_valid, "bin %u", bin);
    slack_samples += dut->read_count;
    fast();
  }
  CHECK(slack_samples == decided, "slack %lu of %lu", slack_samples, decided);
  std::printf("pulses %lu offset %ld bins %zu slack %lu placed %lu\n", pulses, bins.begin()->first,
              bins.size(), slack_samples, decided);
  return 0;
}
