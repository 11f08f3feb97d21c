// SPDX-License-Identifier: Apache-2.0
// Torus model: communication of a parallel program, and bit errors of reliable links.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>

#include "nanet/torus/engine.hpp"

namespace nanet::torus {

void Model::Engine::damage(std::span<const LinkErrors> errors) {
  for (const LinkErrors& e : errors) {
    check(e.node < nodes_ && e.port < 6, "link " + std::to_string(e.node) + ", " + std::to_string(e.port) +
                                             ": must be a node of the lattice and a port below 6");
    check(e.word_rate >= 0 && e.word_rate <= 0.1,
          "word_rate = " + std::to_string(e.word_rate) + ": must be 0 to 0.1");
    check(t_.cell_words > 0, "word_rate: only the reliable link repeats cells; set link = reliable");
  }
  errors_.assign(errors.begin(), errors.end());
}

// A damaged cell and all behind it are sent again after a round trip.
Model::Engine::Repetition Model::Engine::repeat(std::uint32_t link, std::uint32_t words) {
  Repetition delay;
  for (const LinkErrors& e : errors_) {
    if (e.node * 6 + e.port != link || now_ < e.from || now_ >= e.to) continue;
    const std::uint32_t cells = t_.cells(words);
    const std::uint32_t window = (t_.retry_cycles + t_.cell_words) / (t_.cell_words + 1);
    for (std::uint32_t cell = 0; cell < cells; ++cell) {
      const std::uint32_t length = std::min(t_.cell_words, words - cell * t_.cell_words) + 1;
      const double sound = std::pow(1 - e.word_rate, length);
      while (error_random_.uniform() >= sound) {
        const std::uint32_t again = std::min(std::max(window, 1u), cells - cell);
        ++cells_damaged_;
        cells_resent_ += again;
        resent_[link] += again;
        delay.tail += t_.retry_cycles + length;
        if (cell == 0) delay.header += t_.retry_cycles + length;
      }
    }
  }
  return delay;
}

void Model::Engine::start(const Program& program) {
  check(program.iterations > 0 && program.iterations <= 1'000'000,
        "iterations = " + std::to_string(program.iterations) + ": must be 1 to 1000000");
  check(program.packets > 0 && program.packets <= 10'000,
        "packets = " + std::to_string(program.packets) + ": must be 1 to 10000");
  traffic_ = nullptr;
  deliveries_.clear();
  measure_from_ = 0;
  measure_to_ = never;
  steps_.clear();
  Step halo{program.packets, words_of(program.payload_bytes), 0};
  for (unsigned d = 0; d < 3; ++d)
    if (o_.lattice.size[d] > 1) halo.ports |= static_cast<std::uint8_t>(0b1001u << d);
  check(halo.ports != 0, "size = 1x1x1: a program needs neighbours; choose a larger lattice");
  steps_.push_back(halo);
  if (program.transpose && o_.lattice.size[0] == o_.lattice.size[2] && o_.lattice.size[0] > 1)
    steps_.push_back({program.packets, halo.words, 0});
  for (unsigned d = 0; program.sum && d < 3; ++d)
    for (unsigned k = 1; k < o_.lattice.size[d]; ++k)
      steps_.push_back({1, words_of(16), static_cast<std::uint8_t>(1u << d)});
  // A node is ahead of those it sends to by less than two iterations: it waits for their packets of each
  // step, in rings of the sum for those of every node.
  received_steps_ = std::bit_ceil(2 * static_cast<std::uint32_t>(steps_.size()) + 1);
  received_.assign(std::size_t{nodes_} * received_steps_, 0);
  rank_.assign(nodes_, {});
  last_step_ = program.iterations * static_cast<std::uint32_t>(steps_.size());
  compute_cycles_ = program.compute_cycles;
  reset();
  for (std::uint32_t n = 0; n < nodes_; ++n) next_of_program(n, 0);
}

// The node's next packet, or its wait for others.
void Model::Engine::next_of_program(std::uint32_t n, std::uint64_t not_before) {
  Source& s = source_[n];
  Rank& rank = rank_[n];
  rank.ready = std::max(rank.ready, not_before);
  while (rank.step < last_step_) {
    const Step& step = steps_[rank.step % steps_.size()];
    const Coordinates& at = place_[n];
    auto targets = static_cast<std::uint32_t>(std::popcount(step.ports));
    if (step.ports == 0) targets = at[0] != at[2];
    if (rank.sent < step.packets * targets) {
      std::uint32_t bits = step.ports;
      for (std::uint32_t k = rank.sent % targets; k > 0; --k) bits &= bits - 1;
      s.to = step.ports == 0 ? o_.lattice.index({at[2], at[1], at[0]})
                             : far_[n * 6 + static_cast<std::uint32_t>(std::countr_zero(bits))];
      s.words = step.words;
      s.id = rank.step;
      s.created = std::max(now_, rank.ready);
      ++rank.sent;
      wait_for(n, s.created);
      return;
    }
    std::uint32_t& received = received_[std::size_t{n} * received_steps_ + rank.step % received_steps_];
    if (received < rank.sent) {
      rank.waiting = true;
      break;
    }
    received = 0;
    rank.sent = 0;
    ++rank.step;
    if (rank.step % steps_.size() == 0) rank.ready = std::max(rank.ready, now_ + compute_cycles_);
  }
  s.created = never;
}

// A packet of a step has arrived at node n.
void Model::Engine::arrived(std::uint32_t n, std::uint32_t step) {
  ++received_[std::size_t{n} * received_steps_ + step % received_steps_];
  if (!rank_[n].waiting) return;
  rank_[n].waiting = false;
  next_of_program(n, now_ + 1);
}

Progress Model::Engine::advance(std::uint64_t cycles) {
  check(!steps_.empty(), "advance: no program was started; call start first");
  Progress p = progress_of(loop(now_ + cycles));
  std::uint32_t least = last_step_;
  for (const Rank& rank : rank_) least = std::min(least, rank.step);
  p.iterations = least / steps_.size();
  p.done = least == last_step_;
  p.deadlocked = !p.done && wheel_.pending() == 0;
  return p;
}

Progress Model::Engine::progress_of(const LoadResult& r) const {
  Progress p;
  p.cycles = now_;
  p.packets = r.packets;
  p.words = delivered_words_;
  p.cells_sent = cells_sent_;
  p.cells_damaged = cells_damaged_;
  p.cells_resent = cells_resent_;
  p.events = r.events;
  p.mean_cycles = r.mean_cycles;
  p.p99_cycles = r.p99_cycles;
  p.max_cycles = r.max_cycles;
  return p;
}

}  // namespace nanet::torus
