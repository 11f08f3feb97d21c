// SPDX-License-Identifier: Apache-2.0
// Capture writer: generated events as the boards would send them, in a pcap file with burst markers, and
// their truth.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "nanet/readout/packer.hpp"
#include "nanet/readout/truth.hpp"
#include "nanet/wire/mgp.hpp"
#include "nanet/wire/pcap.hpp"

namespace nanet::readout {

struct CaptureOptions {
  rich::GeneratorOptions generator;
  PackOptions pack;
  std::uint64_t events = 0;
  Frame burst_frames = default_max_frames;
  bool truth = true, truth_hits = false;  // fill these columns
};

struct CaptureTotals {
  std::uint64_t events = 0, fragments = 0, hits = 0, packets = 0, frames = 0, bursts = 0,
                bytes = 0;  // bytes: UDP payload
};

// Board b sends from 127.0.0.1, port 50000 + b, to 127.0.0.1:58913. A record's time is a fixed start plus the
// detector time at the end of its frame. The fixed start makes the file reproducible from the seed; a board
// can send only after the frame has ended.
class CaptureWriter {
 public:
  static constexpr std::int64_t start_ns = 1'500'000'000'000'000'000;  // first SOB, since the epoch
  static constexpr std::uint16_t first_source_port = 50000;
  static constexpr std::uint64_t chunk_events = 200'000;  // columns for one call of next(), plus one frame

  // Throws std::system_error if the file cannot be created, std::invalid_argument for options out of range.
  CaptureWriter(const CaptureOptions& options, const std::string& path);
  // Writes up to `frames` frames, fewer if chunk_events are reached, and fills the columns with their events.
  // Returns false when everything is written and the file is closed. Throws std::system_error (disk full).
  bool next(std::uint32_t frames);

  const CaptureTotals& totals() const { return totals_; }
  const TruthColumns& truth() const { return truth_; }
  const HitColumns& hits() const { return hits_; }
  // Moves out the columns of the last chunk.
  TruthColumns take_truth() { return std::exchange(truth_, {}); }
  HitColumns take_hits() { return std::exchange(hits_, {}); }

 private:
  struct Board {
    Sequence sequence = 0;
    wire::mgp::EobCounts counts;
  };
  unsigned boards() const { return streams_of(options_.generator, options_.pack); }
  BoardId board_id(unsigned board) const {
    return options_.pack.merged ? merged_board : static_cast<BoardId>(board);
  }
  void send(unsigned board, std::int64_t time_ns, const std::byte* datagram, std::size_t size);
  void begin_burst(std::int64_t time_ns);
  void end_burst(std::int64_t time_ns, Frame last);

  CaptureOptions options_;
  FrameSource source_;
  wire::PcapWriter pcap_;
  PackedFrame frame_;
  std::array<Board, max_boards> board_;
  std::uint64_t burst_ = 0;
  bool finished_ = false;
  CaptureTotals totals_;
  TruthColumns truth_;
  HitColumns hits_;
};

// Throws std::invalid_argument with the option (as on the command line), its value and the remedy.
void check(const rich::GeneratorOptions& generator, const PackOptions& pack, Frame burst_frames);

}  // namespace nanet::readout
