// SPDX-License-Identifier: SHL-2.1
// Harness of trigger_out: two clocks at any phase; every pulse leaves in its period; late releases are
// dropped. Arguments: releases, period of clk_ttc in ps, seed.
#include <deque>

#include "harness.hpp"

int main(int argc, char** argv) {
  const auto wanted = bench::argument(argc, argv, 1), ttc_ps = bench::argument(argc, argv, 2);
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 3)};
  struct Release {
    std::uint64_t tick;
    unsigned kind;
    bool late;
  };
  std::deque<Release> pending;
  dut->clk = dut->clk_ttc = 0;
  dut->rst = dut->rst_ttc = 1;
  dut->tick_ttc = 1;
  dut->release_valid = 0;
  dut->number_ttc = 0;
  dut->eval();
  std::uint64_t clk_at = 3200, ttc_at = 1 + random() % ttc_ps, tick = 0, last = 0, given = 0, pulses = 0,
                missed = 0;
  unsigned pause = 100;
  while (pulses + missed < wanted) {
    if (clk_at < ttc_at) {
      clk_at += 6400;
      dut->release_valid = 0;
      // The card sees a period's number one to two periods later; it names the eighth period after that.
      if (tick > 20 && pause == 0 && given < wanted) {
        const bool late = random() % 50 == 0;
        const std::uint64_t seen = tick - 1 - random() % 2;
        std::uint64_t at = late ? tick - 3 : seen + 8 - random() % 2;
        if (at > last || late) {
          if (!late) last = at;
          dut->release_valid = 1;
          dut->released = (at & 15) << 6 | (given & 63);
          pending.push_back({at, static_cast<unsigned>(given & 63), late});
          ++given;
          pause = late ? 60 : 1 + random() % 12;
          if (random() % 16 == 0 && !late) pause = 40;
        }
      } else if (pause) {
        --pause;
      }
      // A late release behind others would wait for them; it comes alone, as after a stop of the card's
      // clock.
      if (dut->release_valid && pending.back().late && pending.size() > 1) {
        dut->release_valid = 0;
        pending.pop_back();
        --given;
        pause = 60;
      }
      dut->clk = 1;
      dut->eval();
      dut->clk = 0;
      dut->eval();
    } else {
      ttc_at += ttc_ps;
      dut->clk_ttc = 1;
      dut->eval();
      dut->clk_ttc = 0;
      ++tick;
      dut->number_ttc = tick & 15;
      dut->rst = dut->rst_ttc = tick < 12;
      dut->eval();
      if (dut->pulse) {
        CHECK(!pending.empty(), "a pulse without a release");
        const Release want = pending.front();
        pending.pop_front();
        CHECK(want.tick == tick && want.kind == dut->kind, "release for %lu in %lu, type %u", want.tick, tick,
              dut->kind);
        ++pulses;
      }
      if (dut->missed) {
        CHECK(!pending.empty() && pending.front().late, "missed at %lu", tick);
        pending.pop_front();
        ++missed;
      }
      CHECK(pending.empty() || pending.front().late || pending.front().tick >= tick,
            "release for %lu not out at %lu", pending.front().tick, tick);
    }
  }
  CHECK(missed > 0, "no late release tried");
  std::printf("pulses %lu missed %lu\n", pulses, missed);
  return 0;
}
