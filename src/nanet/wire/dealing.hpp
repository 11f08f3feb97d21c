// SPDX-License-Identifier: Apache-2.0
// Dealing of frames to K trigger nodes: frame f of a burst goes to node f mod K, SOB and EOB go to all nodes.
#pragma once

#include "nanet/units.hpp"

namespace nanet::wire {

inline constexpr unsigned max_nodes = 64;

// Node of a frame.
constexpr unsigned node_of(Frame frame, unsigned nodes) noexcept {
  return nodes == 1 ? 0 : frame % nodes;
}

// Share of one node. Its frames have indices without gaps: 0, 1, 2, ... in each burst.
struct Dealing {
  unsigned node = 0, nodes = 1;

  constexpr bool owns(Frame frame) const noexcept { return node_of(frame, nodes) == node; }
  // Index of a frame of this node.
  constexpr Frame index(Frame frame) const noexcept { return nodes == 1 ? frame : frame / nodes; }
  // Frame of an index.
  constexpr Frame frame(Frame index) const noexcept { return index * nodes + node; }
  // Number of frames of this node in a burst with the last frame `last`.
  constexpr Frame frames(Frame last) const noexcept { return last < node ? 0 : index(last - node) + 1; }
};

}  // namespace nanet::wire
