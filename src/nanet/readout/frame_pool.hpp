// SPDX-License-Identifier: Apache-2.0
// Frame pool: frames generated once and sent repeatedly. The packets of each board are contiguous, so that
// neighbours leave as one train without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nanet/readout/packer.hpp"
#include "nanet/readout/truth.hpp"

namespace nanet::readout {

class FramePool {
 public:
  struct Slot {
    std::uint64_t offset = 0;  // into the stream's bytes
    std::uint32_t size = 0;    // of the datagram
  };
  struct BoardFrame {
    std::uint32_t first = 0, packets = 0;  // slots of the frame
    std::uint32_t fragments = 0, hits = 0;
  };

  // Generates `frames` (>= 1) frames. `keep_truth`: fill truth() with their events.
  FramePool(const rich::GeneratorOptions& generator, const PackOptions& pack, std::uint32_t frames,
            bool keep_truth);

  std::uint32_t frames() const { return frames_; }
  unsigned streams() const { return static_cast<unsigned>(streams_.size()); }
  BoardId board(unsigned stream) const { return streams_[stream].board; }
  const BoardFrame& board_frame(unsigned stream, std::uint32_t frame) const {
    return streams_[stream].frames[frame];
  }
  std::span<const Slot> packets(unsigned stream, std::uint32_t frame) const {
    const BoardFrame& f = board_frame(stream, frame);
    return {streams_[stream].slots.data() + f.first, f.packets};
  }
  std::byte* bytes(unsigned stream, const Slot& slot) { return streams_[stream].bytes.data() + slot.offset; }
  // Physics events of the frame with at least one hit; only these are sent.
  std::uint32_t events(std::uint32_t frame) const { return events_[frame]; }
  const TruthColumns& truth() const { return truth_; }

 private:
  struct Stream {
    BoardId board = 0;
    std::vector<std::byte> bytes;
    std::vector<Slot> slots;
    std::vector<BoardFrame> frames;
  };
  std::uint32_t frames_;
  std::vector<Stream> streams_;
  std::vector<std::uint32_t> events_;
  TruthColumns truth_;
};

}  // namespace nanet::readout
