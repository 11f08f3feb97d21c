// SPDX-License-Identifier: Apache-2.0
// Merger of the answers of K trigger nodes into one stream, in order of burst and frame. A node that holds up
// the others for too long counts as silent and is no longer waited for.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "nanet/units.hpp"
#include "nanet/wire/dealing.hpp"

namespace nanet::l0tp {

struct MergerOptions {
  unsigned nodes = 1;
  // An answer waits this long for the previous frames of other nodes; then these nodes are silent.
  Nanoseconds silence = 1'000'000'000;
  Frame burst_frames = 0;              // frames per burst, if known
  std::size_t most_bytes = 128 << 20;  // of waiting answers; beyond, the wait ends
};

// Position of an answer in the run. Bursts count from 0, the burst of the first answer.
struct Position {
  std::uint64_t burst = 0;
  Frame frame = 0;
  auto operator<=>(const Position&) const = default;
};

class Merger {
 public:
  // Called with each answer in order. behind: an answer that arrived after a later one was passed on.
  using Sink =
      std::function<void(Position, std::span<const std::byte> answer, Nanoseconds arrival, bool behind)>;

  struct NodeState {
    bool seen = false, silent = false;
    std::uint64_t silences = 0, returns = 0;
    Position newest;  // last answer received
  };

  Merger(const MergerOptions& options, Sink sink);

  // Takes one answer of `frame`; it is passed on once no earlier answer is expected.
  void take(std::span<const std::byte> answer, Frame frame, Nanoseconds arrival);
  // Ends waits that are too long. now: all answers that arrived before have been taken.
  void advance(Nanoseconds now);
  // Passes on all waiting answers.
  void flush();

  const NodeState& node(unsigned k) const noexcept { return nodes_[k].state; }
  std::uint64_t duplicates() const noexcept { return duplicates_; }  // among the waiting answers
  std::size_t waiting() const noexcept { return waiting_; }

 private:
  struct Held {
    Position at;
    Nanoseconds arrival = 0;
    std::vector<std::byte> bytes;
  };
  struct Node {
    NodeState state;
    std::deque<Held> queue;  // in order of position
  };

  std::uint64_t burst_of(const NodeState& node, Frame frame) const noexcept;
  Position next_of(const NodeState& node) const noexcept;
  bool blocks(const Node& node, Position position) const noexcept;
  Node* first_waiting() noexcept;
  void release();
  void pass_on(Node& node);
  void silence_blocking(Position position) noexcept;

  MergerOptions options_;
  Sink sink_;
  std::vector<Node> nodes_;
  std::vector<std::vector<std::byte>> spare_;
  bool any_ = false, passed_any_ = false;
  Position leader_, passed_;  // newest received, newest passed on
  std::uint64_t duplicates_ = 0;
  std::size_t waiting_ = 0, bytes_ = 0;
};

}  // namespace nanet::l0tp
