// SPDX-License-Identifier: SHL-2.1
// Harness of ttcrq_port: two clocks at any phase; every period and frame crosses once and in order; a stopped
// clock unlocks. Arguments: periods, period of clk_ttc in ps, seed.
#include <deque>

#include "harness.hpp"

int main(int argc, char** argv) {
  const auto periods = bench::argument(argc, argv, 1);
  const auto ttc_ps = bench::argument(argc, argv, 2);
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 3)};
  struct Pins {
    unsigned a, frame;
  };
  std::deque<Pins> sent;
  std::uint64_t clk_at = 3200, ttc_at = 1 + random() % ttc_ps, ticks = 0, frames = 0;
  dut->clk = dut->clk_ttc = 0;
  dut->rst = dut->rst_ttc = 1;
  dut->ready = 1;
  dut->bcr = dut->ecr = dut->brcst_strobe = dut->l1_accept = dut->brcst = 0;
  dut->eval();
  std::uint64_t edges = 0;
  const auto fast = [&] {  // rising edge of clk
    dut->clk = 1;
    dut->eval();
    dut->clk = 0;
    dut->eval();
    if (dut->tick) {
      CHECK(!sent.empty(), "a tick without a period");
      const Pins want = sent.front();
      sent.pop_front();
      CHECK(dut->number == (ticks & 15), "tick %lu: number %u", ticks, dut->number);
      CHECK((dut->pair >> 1 & 1) == want.a && (dut->pair & 1), "tick %lu: pair", ticks);
      CHECK(dut->frame_valid == (want.frame != 0), "tick %lu: frame_valid", ticks);
      if (want.frame) CHECK((dut->frame & 0xFFFFFFFF) == want.frame, "tick %lu: frame %x", ticks, want.frame);
      CHECK(!dut->slip && dut->locked, "tick %lu: slip", ticks);
      frames += want.frame != 0;
      ++ticks;
    }
  };
  while (edges < periods) {
    if (clk_at < ttc_at) {
      clk_at += 6400;
      fast();
    } else {
      ttc_at += ttc_ps;
      dut->rst = dut->rst_ttc = edges < 8;
      const bool live = edges >= 10;
      dut->l1_accept = random() % 3 == 0;
      dut->bcr = live && random() % 50 == 0;
      dut->ecr = live && random() % 50 == 0;
      dut->brcst_strobe = live && random() % 20 == 0;
      dut->brcst = 1 + random() % 63;
      dut->eval();
      if (edges >= 8)
        sent.push_back(
            {dut->l1_accept, (dut->brcst_strobe ? dut->brcst << 2U : 0U) | dut->ecr << 1U | dut->bcr});
      dut->clk_ttc = 1;
      dut->eval();
      dut->clk_ttc = 0;
      dut->eval();
      ++edges;
    }
  }
  CHECK(ticks + 12 > periods - 8, "%lu ticks of %lu periods", ticks, periods);
  for (int i = 0; i < 100; ++i) fast();
  CHECK(!dut->locked, "locked without a clock");
  std::printf("ticks %lu frames %lu\n", ticks, frames);
  return 0;
}
