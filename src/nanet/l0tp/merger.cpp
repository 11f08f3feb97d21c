// SPDX-License-Identifier: Apache-2.0
// Merger of the answers of K trigger nodes: order, waits, silent nodes.
#include "nanet/l0tp/merger.hpp"

#include <algorithm>
#include <utility>

#include "nanet/l0tp/aligner.hpp"

namespace nanet::l0tp {
namespace {

// Largest distance in frames between two nodes of one burst, where the length of bursts is unknown: 0.1 s of
// detector time, more than two deadlines.
constexpr Frame largest_lead = 1 << 14;

}  // namespace

Merger::Merger(const MergerOptions& options, Sink sink)
    : options_(options), sink_(std::move(sink)), nodes_(options.nodes) {}

// A frame number names no burst. The answers of one node are in order, so a fall begins its next burst; a
// node without a previous answer is placed near the newest answer of all nodes.
std::uint64_t Merger::burst_of(const NodeState& node, Frame frame) const noexcept {
  if (!any_) return 0;
  const Frame half = options_.burst_frames ? options_.burst_frames / 2 : largest_lead;
  if (node.seen && !node.silent && node.newest.burst + 1 >= leader_.burst) {
    const Frame fall = std::min(Aligner::largest_fall, half);
    const bool fell = node.newest.frame > frame && node.newest.frame - frame > fall;
    return node.newest.burst + (fell ? 1 : 0);
  }
  if (leader_.frame > frame && leader_.frame - frame > half) return leader_.burst + 1;
  if (frame > leader_.frame && frame - leader_.frame > half && leader_.burst > 0) return leader_.burst - 1;
  return leader_.burst;
}

// Next answer of a node.
Position Merger::next_of(const NodeState& node) const noexcept {
  const Frame frame = node.newest.frame + options_.nodes;
  if (options_.burst_frames == 0 || frame < options_.burst_frames) return {node.newest.burst, frame};
  return {node.newest.burst + 1, frame % options_.nodes};
}

// True if the node still owes an answer before `position`.
bool Merger::blocks(const Node& node, Position position) const noexcept {
  if (!node.queue.empty() || node.state.silent) return false;
  return !node.state.seen || next_of(node.state) < position;
}

Merger::Node* Merger::first_waiting() noexcept {
  Node* first = nullptr;
  for (Node& node : nodes_)
    if (!node.queue.empty() && (!first || node.queue.front().at < first->queue.front().at)) first = &node;
  return first;
}

void Merger::take(std::span<const std::byte> answer, Frame frame, Nanoseconds arrival) {
  Node& node = nodes_[wire::node_of(frame, options_.nodes)];
  const Position at{burst_of(node.state, frame), frame};
  if (node.state.silent) {
    node.state.silent = false;
    ++node.state.returns;
  }
  node.state.newest = node.state.seen ? std::max(node.state.newest, at) : at;
  node.state.seen = true;
  leader_ = any_ ? std::max(leader_, at) : at;
  any_ = true;
  if (passed_any_ && at <= passed_) return sink_(at, answer, arrival, true);
  auto place = node.queue.end();
  while (place != node.queue.begin() && std::prev(place)->at > at) --place;
  if (place != node.queue.begin() && std::prev(place)->at == at) {
    ++duplicates_;
    return;
  }
  Held held{at, arrival, {}};
  if (!spare_.empty()) {
    held.bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  held.bytes.assign(answer.begin(), answer.end());
  bytes_ += answer.size();
  ++waiting_;
  node.queue.insert(place, std::move(held));
  release();
}

void Merger::pass_on(Node& node) {
  Held held = std::move(node.queue.front());
  node.queue.pop_front();
  bytes_ -= held.bytes.size();
  --waiting_;
  passed_any_ = true;
  passed_ = held.at;
  sink_(held.at, held.bytes, held.arrival, false);
  spare_.push_back(std::move(held.bytes));
}

void Merger::silence_blocking(Position position) noexcept {
  for (Node& node : nodes_)
    if (blocks(node, position)) {
      node.state.silent = true;
      ++node.state.silences;
    }
}

void Merger::release() {
  while (Node* const first = first_waiting()) {
    const Position at = first->queue.front().at;
    const auto blocking = [&](const Node& node) { return blocks(node, at); };
    if (std::any_of(nodes_.begin(), nodes_.end(), blocking)) {
      if (bytes_ <= options_.most_bytes) return;
      silence_blocking(at);
    }
    pass_on(*first);
  }
}

void Merger::advance(Nanoseconds now) {
  while (Node* const first = first_waiting()) {
    const Held& held = first->queue.front();
    if (held.arrival + options_.silence > now) return;
    silence_blocking(held.at);
    release();
  }
}

void Merger::flush() {
  while (Node* const first = first_waiting()) pass_on(*first);
}

}  // namespace nanet::l0tp
