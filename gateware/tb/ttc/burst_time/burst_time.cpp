// SPDX-License-Identifier: SHL-2.1
// Harness of burst_time: bursts with and without SOB, with a second one, unseen by the boards, and with wrong
// numbers; random packets in and out of time; frames to close, answers overdue. Arguments: bursts, L in
// periods, close_ticks, answer_ticks, seed.
#include <deque>

#include "harness.hpp"

namespace {

constexpr int settle = 1023;

enum Kind { normal, no_sob, second_sob, unseen, wrong_number, kinds };

}  // namespace

int main(int argc, char** argv) {
  const auto bursts = bench::argument(argc, argv, 1);
  const auto latency = static_cast<std::int64_t>(bench::argument(argc, argv, 2));
  const auto close_ticks = static_cast<std::int64_t>(bench::argument(argc, argv, 3));
  const auto answer_ticks = static_cast<std::int64_t>(bench::argument(argc, argv, 4));
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 5)};

  std::uint8_t sobs = 0, number = static_cast<std::uint8_t>(random());
  std::uint32_t timestamp = 0;
  bool lost = true;
  std::uint64_t base = 0, mismatches = 0, expected = 0, ticks = 0, outside = 0, inside = 0, overdues = 0;
  // Time of the newest burst and of the one before, where it is certain.
  bool steady = false, timed = false, before_timed = false;
  std::uint8_t before_sobs = 0;
  std::deque<bool> due(1, false);  // out_of_time of the packets on their way

  dut->latency = static_cast<unsigned>(latency);
  dut->close_ticks = static_cast<unsigned>(close_ticks);
  dut->answer_ticks = static_cast<unsigned>(answer_ticks);
  dut->burst_begins = dut->packet_placed = 0;
  dut->burst_number = 0;
  dut->burst_base = dut->sender_next = 0;
  dut->packet_burst = 0;
  dut->packet_frame = 0;
  dut->now = std::uint64_t{lost} << 52;
  dut.reset();

  bool of_newest = true, sob = false;
  int since = 0;  // cycles since the last event
  const auto cycle = [&] {
    const std::int64_t last = timestamp;  // with which a packet is compared
    if (++ticks % 4 == 0) ++timestamp;
    if (sob) {
      timestamp = 18;
      ++sobs;
      lost = false;
      since = 0;
    }
    sob = false;
    dut->now = std::uint64_t{lost} << 52 | std::uint64_t{sobs} << 44 | timestamp;
    if (since == 0) of_newest = base == 0 || random() % 2;
    dut->sender_next = of_newest ? base + random() % 1000 : base - 1 - random() % 1000;

    // Packets around both limits, some of another burst.
    const bool placed = random() % 4 == 0;
    const std::int64_t around = random() % 2 ? last : last - latency;
    const std::int64_t frame = std::max<std::int64_t>(0, around / 256 - 2 + static_cast<int>(random() % 5));
    const bool other = random() % 8 == 0;
    const bool out = frame * 256 > last || frame * 256 + 255 < last - latency;
    dut->packet_placed = placed && steady && since > 4;
    dut->packet_burst = static_cast<std::uint8_t>(number + other);
    dut->packet_frame = static_cast<unsigned>(frame);
    due.push_back(dut->packet_placed && out && !other && timed && !lost);
    (out ? outside : inside) += dut->packet_placed && timed;

    // What closes: the last frame for which (frame + 1) * 256 + close_ticks <= now.
    std::int64_t closes = 0;
    if (close_ticks && timed && !lost)
      while ((closes + 1) * 256 + close_ticks <= timestamp) ++closes;

    dut.cycle();
    mismatches += dut->burst_mismatch;
    CHECK(dut->out_of_time == due.front(), "cycle %lu: out of time %d", ticks, dut->out_of_time);
    due.pop_front();
    if (steady && since > 4) {
      CHECK(dut->close_frames == (timed && !lost ? closes : 0), "period %u: %u of %ld frames to close",
            timestamp, dut->close_frames, static_cast<long>(closes));
      const bool overdue = answer_ticks && timed && !lost && of_newest && timestamp >= answer_ticks;
      CHECK(dut->overdue_valid == overdue, "period %u: answers overdue %d", timestamp, dut->overdue_valid);
      CHECK(!overdue || dut->overdue_frame == (timestamp - answer_ticks) / 256,
            "period %u: answers overdue up to frame %u", timestamp, dut->overdue_frame);
      overdues += overdue;
      CHECK(dut->close_burst == number, "frames of burst %u, not %u", dut->close_burst, number);
      const bool want = of_newest ? timed : before_timed && before_sobs == sobs;
      CHECK(dut->timed == want, "cycle %lu: timed %d of %s burst", ticks, dut->timed,
            of_newest ? "the newest" : "the older");
      CHECK(dut->burst == (sobs & 1), "low bit of the SOBs");
    }
    ++since;
  };
  const auto idle = [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) cycle();
  };
  const auto begin = [&](unsigned step) {
    number = static_cast<std::uint8_t>(number + step);
    base += 1000 + random() % 100;
    dut->burst_begins = 1;
    dut->burst_number = number;
    dut->burst_base = base;
    cycle();
    dut->burst_begins = 0;
    since = 0;
  };

  bool apart = false;  // an SOB too many
  for (std::uint64_t k = 0; k < bursts; ++k) {
    const Kind kind = k == 0 ? normal : static_cast<Kind>(random() % kinds);
    const bool was = timed && !apart;
    steady = false;
    if (kind == unseen) {  // a burst of which the boards send nothing
      sob = true;
      idle(2000 + random() % 2000);
      ++number;
    }
    const std::uint8_t sobs_before = sobs;
    // The boards' packets and the SOB in either order.
    const bool sob_first = random() % 2;
    if (kind != no_sob && sob_first) {
      sob = true;
      idle(1 + random() % 500);
    }
    const unsigned step = kind == wrong_number ? 2 + static_cast<unsigned>(random() % 200) : 1;
    begin(step);
    idle(2 + random() % 400);
    if (kind != no_sob && !sob_first) sob = true;
    idle(settle + 20);
    // A second SOB in the burst before counts for this one.
    const bool mismatch = step != (kind != no_sob) + unsigned{apart};
    before_timed = was;
    before_sobs = kind == unseen ? static_cast<std::uint8_t>(sobs_before - 1) : sobs_before;
    timed = !mismatch;
    expected += mismatch;
    apart = false;
    since = 0;
    steady = true;
    CHECK(mismatches == expected, "burst %lu, kind %d: %lu of %lu mismatches", k, kind, mismatches, expected);
    for (int part = 0; part < 3; ++part) {
      since = 0;
      idle(1000 + random() % static_cast<std::uint64_t>(4 * (latency + close_ticks + 1000)));
    }
    if (random() % 4 == 0) {  // lost time: decisions are untimed by `lost`, packets are not compared
      steady = false;
      lost = true;
      idle(10);
      since = 0;
      steady = true;
      idle(300);
    }
    if (kind == second_sob) {
      steady = false;
      sob = true;
      idle(10);
      timed = false;
      apart = true;
      since = 0;
      steady = true;
      idle(500);
    }
  }
  CHECK(mismatches == expected, "%lu of %lu mismatches", mismatches, expected);
  CHECK(answer_ticks ? overdues > bursts : overdues == 0, "%lu cycles with overdue answers", overdues);
  CHECK(outside > bursts && inside > bursts, "%lu packets out of time, %lu in time", outside, inside);
  std::printf("bursts %lu mismatches %lu packets %lu out of time %lu\n", bursts, mismatches, inside + outside,
              outside);
  return 0;
}
