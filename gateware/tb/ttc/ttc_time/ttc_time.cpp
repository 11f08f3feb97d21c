// SPDX-License-Identifier: SHL-2.1
// Harness of ttc_time: equal to BurstTime at every tick, with bursts, slips, lost locks and wrong bunch
// resets. Arguments: frames of 256 periods, seed.
#include "harness.hpp"
#include "nanet/ttc/burst_time.hpp"

int main(int argc, char** argv) {
  using nanet::ttc::Command;
  const auto frames = bench::argument(argc, argv, 1);
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 2)};
  constexpr std::uint32_t offset = 21;
  constexpr std::uint16_t orbit = 3564;
  dut->offset = offset;
  dut->orbit = orbit;
  dut->tick = dut->frame_valid = dut->slip = 0;
  dut->number = 0;
  dut->locked = 1;
  dut.reset();
  nanet::ttc::BurstTime model(offset, orbit);
  model.lock(true);
  nanet::ttc::BurstTime::Counts seen;
  std::uint64_t slips = 0, slips_sent = 0;
  std::uint32_t bits = 0;
  for (std::uint64_t period = 0; period < frames * 256; ++period) {
    if (period % 64 == 0) bits = static_cast<std::uint32_t>(random());
    Command command;
    bool valid = false;
    if (model.now().bunch + 1 == orbit && bits % 64 != 1) {  // the regular bunch reset
      valid = true;
      command = {false, nanet::ttc::bunch_reset};
    } else if (bits % 4096 == 7 && period % 64 == 5) {
      valid = true;
      command = {bool(bits & 1 << 20), static_cast<std::uint32_t>(random() & 0xFF)};
    } else if (period % 1'000'000 == 100) {
      valid = true;
      command = {false, period % 2'000'000 == 100 ? nanet::ttc::start_of_burst : nanet::ttc::end_of_burst};
    }
    const bool slip = bits % 65536 == 77 && period % 64 == 9;
    const bool drop = bits % 65536 == 99 && period % 64 == 9;
    dut->tick = 1;
    dut->number = period & 15;
    dut->frame_valid = valid;
    dut->frame = std::uint64_t{command.addressed} << 33 | command.data;
    dut->slip = slip;
    dut->locked = !drop;
    dut.cycle();
    model.tick(valid ? &command : nullptr);
    model.lock(!drop);
    if (slip) model.slip();
    slips_sent += slip;
    const auto& want = model.now();
    const std::uint64_t now = dut->now;
    const std::uint64_t expected = std::uint64_t{want.locked} << 54 | std::uint64_t{want.in_burst} << 53 |
                                   std::uint64_t{want.lost} << 52 | std::uint64_t{want.burst} << 44 |
                                   std::uint64_t{want.bunch} << 32 | want.timestamp;
    CHECK(dut->now_tick && dut->now_number == (period & 15), "period %lu: no tick", period);
    CHECK(now == expected, "period %lu: now %lx, model %lx", period, now, expected);
    const unsigned counts = dut->counts;  // starts, ends, start_in_burst, bunch_errors, slips, lock_losses
    seen.starts += counts >> 5 & 1;
    seen.ends += counts >> 4 & 1;
    seen.start_in_burst += counts >> 3 & 1;
    seen.bunch_errors += counts >> 2 & 1;
    slips += counts >> 1 & 1;
    CHECK(dut->sob == (counts >> 5 & 1) && dut->eob == (counts >> 4 & 1), "period %lu: sob, eob", period);
    for (unsigned idle = random() % 64 == 0 ? 2 : 1; idle > 0; --idle) {  // ticks are two cycles apart
      dut->tick = dut->frame_valid = dut->slip = 0;
      dut.cycle();
      CHECK(!dut->now_tick && (dut->now | std::uint64_t{drop} << 54) >= (now & ~(std::uint64_t{1} << 52)),
            "idle cycle");
    }
  }
  CHECK(seen == model.counts(), "counts %lu %lu %lu %lu", seen.starts, seen.ends, seen.start_in_burst,
        seen.bunch_errors);
  CHECK(slips == slips_sent, "slips %lu of %lu", slips, slips_sent);
  std::printf("periods %lu starts %lu ends %lu twice %lu bunch %lu slips %lu\n", frames * 256, seen.starts,
              seen.ends, seen.start_in_burst, seen.bunch_errors, slips);
  return 0;
}
