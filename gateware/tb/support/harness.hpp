// SPDX-License-Identifier: SHL-2.1
// Helpers of the C++ harnesses: clock, reset, arguments, checks.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "Vdut.h"
#include "verilated.h"

namespace bench {

inline unsigned long argument(int argc, char** argv, int index) {
  if (index >= argc) {
    std::fprintf(stderr, "argument %d is missing\n", index);
    std::exit(2);
  }
  return std::strtoul(argv[index], nullptr, 0);
}

// Module with one clock `clk`.
class Dut {
 public:
  Dut(int argc, char** argv) {
    context_.commandArgs(argc, argv);
    context_.randReset(2);
    context_.randSeed(1);
  }
  Vdut* operator->() noexcept { return &dut_; }
  // Sets the inputs before, samples registered outputs after.
  void cycle() {
    dut_.clk = 0;
    dut_.eval();
    dut_.clk = 1;
    dut_.eval();
    ++cycles_;
  }
  // Combinational outputs of the present inputs.
  void settle() {
    dut_.clk = 0;
    dut_.eval();
  }
  void reset() {
    dut_.rst = 1;
    for (int i = 0; i < 4; ++i) cycle();
    dut_.rst = 0;
  }
  std::uint64_t cycles() const noexcept { return cycles_; }

 private:
  VerilatedContext context_;
  Vdut dut_{&context_};
  std::uint64_t cycles_ = 0;
};

#define CHECK(condition, ...)                                              \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::fprintf(stderr, __VA_ARGS__);                                   \
      std::fputc('\n', stderr);                                            \
      std::exit(1);                                                        \
    }                                                                      \
  } while (0)

}  // namespace bench
