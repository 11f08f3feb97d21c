// SPDX-License-Identifier: Apache-2.0
// Tests of the dealing of frames to nodes.
#include "nanet/wire/dealing.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace nanet::wire {
namespace {

TEST(Dealing, EveryFrameHasOneNodeAndIndicesHaveNoGaps) {
  for (const unsigned nodes : {1u, 2u, 3u, 7u, max_nodes}) {
    std::vector<Frame> next(nodes, 0);
    for (Frame frame = 0; frame < 1000; ++frame) {
      unsigned owners = 0;
      for (unsigned k = 0; k < nodes; ++k) {
        const Dealing share{k, nodes};
        if (share.owns(frame)) {
          ++owners;
          EXPECT_EQ(k, frame % nodes);
          EXPECT_EQ(share.index(frame), next[k]);
          EXPECT_EQ(share.frame(next[k]), frame);
          ++next[k];
        }
        EXPECT_EQ(share.frames(frame), next[k]) << "node " << k << " of " << nodes << ", last " << frame;
      }
      EXPECT_EQ(owners, 1u);
    }
  }
}

TEST(Dealing, LargestFrameNumber) {
  const Dealing share{1, 2};
  const Frame last = 0xFFFFFF;
  EXPECT_TRUE(share.owns(last));
  EXPECT_EQ(share.frame(share.index(last)), last);
  EXPECT_EQ(share.frames(last), 1u << 23);
}

}  // namespace
}  // namespace nanet::wire
