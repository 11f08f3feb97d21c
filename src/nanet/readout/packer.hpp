// SPDX-License-Identifier: Apache-2.0
// Packer: physics events to MGP packets; fragments per board and frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "nanet/rich/generator.hpp"
#include "nanet/units.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::readout {

struct PackOptions {
  bool merged = false;  // one stream of whole events (board 0xFF), truncated to 32 hits
  bool fixed = false;   // fixed 32-hit slots
  bool pad = false;     // pad every datagram of the run to max_payload with zeros (flag b6): equal sizes
  std::uint16_t max_payload = wire::mgp::default_max_payload;
};

// Number of streams: boards of the detector, or the merged one.
inline unsigned streams_of(const rich::GeneratorOptions& generator, const PackOptions& pack) {
  return pack.merged ? 1 : generator.detector->boards();
}
inline std::uint8_t encoding_of(const rich::GeneratorOptions& generator) {
  return generator.detector->wide() ? wire::mgp::wide_hit_encoding : wire::mgp::hit_encoding;
}

struct FramePacket {
  BoardId board = 0;
  std::uint32_t offset = 0;  // into PackedFrame::bytes
  std::uint16_t size = 0;    // of the datagram, padding included
};

// One frame of detector time: all packets of all boards, by board and index. Headers are complete except for
// sequence number and burst. Both are 0 here; stamp() sets them before sending.
struct PackedFrame {
  Frame frame = 0;  // frame of the source, counted from 0 regardless of bursts
  std::vector<FramePacket> packets;
  std::vector<std::byte> bytes;
  std::uint32_t fragments[max_boards] = {};  // per board (merged: [0])
  std::uint32_t hits[max_boards] = {};
  std::vector<std::uint32_t> truth;  // indices into FrameSource::events() of this frame's physics events
};

// Sets frame, sequence and burst of a packet, and the frame part of the timestamps of its events.
void stamp(std::byte* datagram, Frame frame, Sequence sequence, std::uint8_t burst) noexcept;
// Writes an SOB (16 B) or EOB (40 B) datagram of one board.
std::size_t make_sob(std::byte* datagram, BoardId board, std::uint8_t burst,
                     std::uint8_t encoding = wire::mgp::hit_encoding) noexcept;
std::size_t make_eob(std::byte* datagram, BoardId board, std::uint8_t burst, Frame last_frame,
                     Sequence sequence, const wire::mgp::EobCounts& counts,
                     std::uint8_t encoding = wire::mgp::hit_encoding) noexcept;

// Generates and packs consecutive frames. The board's clock decides the frame of a fragment.
class FrameSource {
 public:
  // After max_events physics events, all frames are empty.
  FrameSource(const rich::GeneratorOptions& generator, const PackOptions& pack,
              std::uint64_t max_events = std::numeric_limits<std::uint64_t>::max());
  ~FrameSource();
  FrameSource(const FrameSource&) = delete;
  FrameSource& operator=(const FrameSource&) = delete;
  void next(PackedFrame& frame);
  // Physics events of the last frame returned, in time order (truth).
  const std::vector<rich::TrueEvent>& events() const;
  // True when all max_events events and their fragments have been returned.
  bool done() const;

 private:
  struct State;
  State* state_;
};

}  // namespace nanet::readout
