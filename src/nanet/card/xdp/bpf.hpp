// SPDX-License-Identifier: Apache-2.0
// BPF: the system call, and an assembler for short programs, so that no compiler is needed at run time.
#pragma once

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nanet::card::xdp {

// Returns a file descriptor or 0; -1: errno is set.
inline int bpf(int command, bpf_attr& attributes) {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

// Assembler with forward jumps. A label is any number of the caller's; place() resolves its open jumps.
class Assembler {
 public:
  using Label = unsigned;

  void mov(unsigned to, unsigned from) { add(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
  void mov_value(unsigned to, std::int32_t value) { add(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value); }
  // An operation of linux/bpf.h (BPF_ADD, ...) on 64 bits.
  void operate(unsigned operation, unsigned to, unsigned from) {
    add(BPF_ALU64 | operation | BPF_X, to, from, 0, 0);
  }
  // NOLINTNEXTLINE(misc-redundant-expression): BPF_ADD and BPF_K are both 0
  void add_value(unsigned to, std::int32_t value) { operate_value(BPF_ADD, to, value); }
  void and_value(unsigned to, std::int32_t value) { operate_value(BPF_AND, to, value); }
  void operate_value(unsigned operation, unsigned to, std::int32_t value) {
    add(BPF_ALU64 | operation | BPF_K, to, 0, 0, value);
  }
  void load(unsigned size, unsigned to, unsigned base, std::int16_t offset) {
    add(BPF_LDX | BPF_MEM | size, to, base, offset, 0);
  }
  void store(unsigned size, unsigned base, std::int16_t offset, unsigned from) {
    add(BPF_STX | BPF_MEM | size, base, from, offset, 0);
  }
  void call(std::int32_t function) { add(BPF_JMP | BPF_CALL, 0, 0, 0, function); }
  void exit() { add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
  void load_map(unsigned to, int map) { load_pseudo(to, BPF_PSEUDO_MAP_FD, map); }
  // Address of the value of an array map with one entry.
  void load_map_value(unsigned to, int map) { load_pseudo(to, BPF_PSEUDO_MAP_VALUE, map); }
  void jump(Label label) { branch(BPF_JMP | BPF_JA, 0, 0, 0, label); }
  void jump_greater(unsigned a, unsigned b, Label label) {
    branch(BPF_JMP | BPF_JGT | BPF_X, a, b, 0, label);
  }
  // Compares 32 bits: a 64-bit comparison would extend the sign of `value`.
  void jump_not_equal(unsigned a, std::uint32_t value, Label label) {
    branch(BPF_JMP32 | BPF_JNE | BPF_K, a, 0, static_cast<std::int32_t>(value), label);
  }
  // Jumps to `label` since the last call land here.
  void place(Label label) {
    std::erase_if(open_, [&](const Open& jump) {
      if (jump.label != label) return false;
      code_[jump.at].off = static_cast<std::int16_t>(code_.size() - jump.at - 1);
      return true;
    });
  }
  std::span<const bpf_insn> code() const { return code_; }

 private:
  struct Open {
    std::size_t at;
    Label label;
  };
  void load_pseudo(unsigned to, unsigned kind, int map) {
    add(BPF_LD | BPF_IMM | BPF_DW, to, kind, 0, map);
    add(0, 0, 0, 0, 0);
  }
  void add(unsigned code, unsigned to, unsigned from, std::int16_t offset, std::int32_t value) {
    bpf_insn instruction{};
    instruction.code = static_cast<std::uint8_t>(code);
    instruction.dst_reg = static_cast<std::uint8_t>(to & 15U);
    instruction.src_reg = static_cast<std::uint8_t>(from & 15U);
    instruction.off = offset;
    instruction.imm = value;
    code_.push_back(instruction);
  }
  void branch(unsigned code, unsigned a, unsigned b, std::int32_t value, Label label) {
    open_.push_back({code_.size(), label});
    add(code, a, b, 0, value);
  }
  std::vector<bpf_insn> code_;
  std::vector<Open> open_;
};

}  // namespace nanet::card::xdp
