// SPDX-License-Identifier: SHL-2.1
// Harness of trigger_tap: random primitives in MTP packets, sent or discarded; decisions equal to the C++
// masks. Arguments: primitives, seed.
#include <cstring>
#include <deque>
#include <vector>

#include "harness.hpp"
#include "nanet/ttc/masks.hpp"
#include "nanet/wire/mtp.hpp"

int main(int argc, char** argv) {
  using namespace nanet;
  const auto wanted = bench::argument(argc, argv, 1);
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 2)};
  std::array<ttc::TriggerMask, ttc::Masks::count> masks;
  for (unsigned i = 0; i < masks.size(); ++i) {
    ttc::TriggerMask& mask = masks[i];
    mask.care = static_cast<std::uint16_t>(random() & random());
    mask.value = static_cast<std::uint16_t>(random() & mask.care);
    mask.kind = random() & 63;
    mask.downscale = i == 0 ? 0 : i < 6 ? 1 : static_cast<std::uint32_t>(1 + random() % 1000);
  }
  ttc::Masks model(masks);
  struct Want {
    bool timed, burst;
    std::uint32_t timestamp;
    unsigned kind;
  };
  std::deque<Want> expected;
  std::uint64_t primitives = 0, decisions = 0, seen = 0, packets = 0, overflow = 0;
  dut->word_valid = dut->sent = dut->discarded = dut->decision_ready = dut->mask_write = 0;
  dut.reset();
  // The configuration is written at any time without packets, one field after the other.
  const auto write_mask = [&](unsigned index, const ttc::TriggerMask& mask) {
    const std::uint32_t fields[3] = {std::uint32_t{mask.value} << 16 | mask.care, mask.kind, mask.downscale};
    for (unsigned field = 0; field < 3; ++field) {
      dut->mask_write = 1U << field;
      dut->mask_index = index;
      dut->mask_word = fields[field];
      dut.cycle();
    }
    dut->mask_write = 0;
  };
  for (unsigned i = 0; i < masks.size(); ++i) write_mask(i, masks[i]);
  dut.reset();  // which leaves the masks
  const auto cycle = [&] {
    dut->decision_ready = random() % 8 != 0;
    dut.settle();
    if (dut->decision_valid && dut->decision_ready) {
      CHECK(!expected.empty(), "a decision too many");
      const Want want = expected.front();
      expected.pop_front();
      const std::uint64_t bits = std::uint64_t{want.timed} << 39 | std::uint64_t{want.burst} << 38 |
                                 std::uint64_t{want.timestamp} << 6 | want.kind;
      CHECK(dut->decision == bits, "decision %lx, model %lx", static_cast<unsigned long>(dut->decision),
            bits);
      ++decisions;
    }
    dut.cycle();
    seen += dut->count_primitive;
    overflow += dut->count_overflow;
  };
  while (primitives < wanted) {
    std::vector<wire::mtp::Primitive> list(random() % 3 ? random() % 80 : random() % 256);
    for (auto& p : list) {
      p = {static_cast<std::uint16_t>(random()), static_cast<std::uint8_t>(random()),
           static_cast<FineTime>(random())};
      if (p.id < 0x100) p.id = 0x4000;
    }
    std::array<std::byte, wire::mtp::max_bytes + 32> bytes{};
    const Frame frame = random() & 0xFFFFFF;
    const std::size_t length =
        wire::mtp::encode(bytes.data(), frame, list.data(), static_cast<unsigned>(list.size()));
    dut->timed = random() & 1;
    dut->burst = random() & 1;
    for (std::size_t at = 0; at < length; at += 32) {
      dut->word_valid = 1;
      dut->word_bytes = length - at < 32 ? length - at : 32;
      std::memcpy(&dut->word[0], bytes.data() + at, 32);
      cycle();
      dut->word_valid = 0;
      if (random() % 4 == 0) cycle();
    }
    const bool sent = random() % 8 != 0;
    dut->sent = sent;
    dut->discarded = !sent;
    if (sent) {
      ++packets;
      for (const auto& p : list) {
        ++primitives;
        if (const auto kind = model.decide(p.id))
          expected.push_back({bool(dut->timed), bool(dut->burst), frame << 8 | p.timestamp, *kind});
      }
    }
    cycle();
    dut->sent = dut->discarded = 0;
    // A primitive in four cycles: the line time of its 32 B.
    const unsigned pause = static_cast<unsigned>(4 * list.size() + list.size() / 4 + random() % 40);
    for (unsigned i = 0; i < pause; ++i) cycle();
  }
  for (int i = 0; i < 10'000; ++i) cycle();
  CHECK(expected.empty() && seen == primitives && overflow == 0,
        "%zu decisions missing, %lu of %lu primitives, overflow %lu", expected.size(), seen, primitives,
        overflow);

  // Without pauses: whole packets are lost and counted, and the tap goes on.
  std::uint64_t sent = 0;
  for (int packet = 0; packet < 60; ++packet) {
    for (int word = 0; word < 33; ++word) {
      dut->word_valid = 1;
      dut->word_bytes = 32;
      for (int i = 0; i < 8; ++i) dut->word[i] = word == 0 && i < 3 ? 0 : 0x4000'0000;
      dut->decision_ready = 0;
      dut.cycle();
      overflow += dut->count_overflow;
    }
    dut->word_valid = 0;
    dut->sent = 1;
    dut.cycle();
    overflow += dut->count_overflow;
    dut->sent = 0;
    ++sent;
  }
  dut.cycle();
  overflow += dut->count_overflow;
  CHECK(overflow > 0 && overflow < sent, "overflow %lu of %lu", overflow, sent);
  std::printf("primitives %lu decisions %lu packets %lu\n", primitives, decisions, packets);
  return 0;
}
