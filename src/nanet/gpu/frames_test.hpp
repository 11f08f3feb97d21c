// SPDX-License-Identifier: Apache-2.0
// Frames of four boards with segments of all lengths: of usual frames, within a segment of the mailbox, and
// beyond it.
#pragma once

#include <array>
#include <thread>
#include <vector>

#include "nanet/card/software/rig_test.hpp"

namespace nanet::gpu {

class TestFrames {
 public:
  using Packets = std::vector<std::vector<std::byte>>;

  // Every seventh frame has two packets of 1456 B per board, every eleventh three.
  explicit TestFrames(Frame frames) : packets_(frames) {
    for (Frame f = 0; f < frames; ++f)
      for (BoardId b = 0; b < 4; ++b) {
        const unsigned packets = f % 11 == 5 ? 3 : f % 7 == 3 ? 2 : 1;
        const unsigned events = packets > 1 ? 20 : 1 + f % 5 + b, hits = packets > 1 ? 32 : 3 + f % 3;
        for (unsigned p = 0; p < packets; ++p)
          packets_[f][b].push_back(card::build(
              {.board = b, .frame = f, .index = p, .last = p + 1 == packets, .events = events, .hits = hits},
              next_[b]++));
      }
  }
  Frame frames() const { return static_cast<Frame>(packets_.size()); }
  const Packets& packets(Frame f, BoardId b) const { return packets_[f][b]; }

  // Feeds all frames, as fast as the consumer returns buffers, and sends until all are answered.
  void pass(card::Rig& rig) const {
    const contract::View& view = rig.views[0];
    const std::uint32_t buffers = view.shape.buffers;
    rig.sobs();
    for (Frame f = 0; f < frames(); ++f) {
      const auto blocked = [&] {
        if (f < buffers) return false;
        return contract::acquire(view.returned[f % buffers]) != f - buffers + 1 ||
               rig.stream.table().settled() + buffers <= f ||
               contract::acquire(*view.finished) + buffers < 1 + 2 * std::uint64_t{f};
      };
      while (blocked()) {
        rig.send();
        std::this_thread::yield();
      }
      rig.now += 1000;
      for (BoardId b = 0; b < 4; ++b)
        for (const auto& bytes : packets(f, b)) rig.raw(bytes);
      rig.send();
    }
    for (BoardId b = 0; b < 4; ++b) rig.eob(b, frames() - 1, card::first_burst, next_[b]);
    rig.stream.receiver().expire(rig.now);
    rig.stream.receiver().drain(rig.now);
    while (!rig.stream.passed_all()) {
      rig.send();
      std::this_thread::yield();
    }
  }

 private:
  std::vector<std::array<Packets, 4>> packets_;
  std::array<Sequence, 4> next_{1, 1, 1, 1};  // the SOB is 0
};

}  // namespace nanet::gpu
