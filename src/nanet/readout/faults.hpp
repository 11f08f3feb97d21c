// SPDX-License-Identifier: Apache-2.0
// Fault injection between board and card. A fault depends only on seed, stream and packet, so runs are
// reproducible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "nanet/units.hpp"

namespace nanet::readout {

enum class Fault : std::uint8_t { drop, dup, reorder, corrupt, delay, none };
inline constexpr std::size_t fault_count = static_cast<std::size_t>(Fault::none);
std::string_view name(Fault fault);

struct FaultOptions {
  double probability[fault_count] = {};  // per packet
  std::uint64_t seed = 1;
  unsigned delay_frames = 50;  // delay of a delayed packet, in frames
  bool markers = false;        // also SOB and EOB
  bool any() const;
};
// Parses "drop=0.01,dup=1e-3" and sets these probabilities. Throws std::invalid_argument with the value and
// the remedy.
void parse_faults(std::string_view text, FaultOptions& options);

// One outgoing datagram. `frame` counts from 0 over the run; `marker`: SOB or EOB, outside any frame.
struct OutPacket {
  std::uint64_t frame = 0;
  const std::byte* data = nullptr;
  std::uint32_t size = 0;
  std::uint8_t stream = 0;  // sending socket
  bool marker = false;
};

class FaultLine {
 public:
  FaultLine(const FaultOptions& options, unsigned streams);

  // Takes the next packet of a stream and appends to `out` the packets to send now, in order. These are none,
  // the packet, its duplicate, a corrupted copy or delayed packets. Their `data` is valid until recycle().
  void take(const OutPacket& packet, std::vector<OutPacket>& out);
  // Appends the delayed packets that are due before frame `frame`.
  void release(std::uint64_t frame, std::vector<OutPacket>& out);
  // Appends all held packets (before the EOB, and at the end).
  void flush(std::vector<OutPacket>& out);
  // Releases the buffers of appended packets. Call once after sending.
  void recycle();

  std::uint64_t count(Fault fault) const { return counts_[static_cast<std::size_t>(fault)]; }

 private:
  struct Held {
    OutPacket packet;
    std::vector<std::byte> bytes;
    std::uint64_t due = 0;  // delayed: frame of the run; reordered: packet count of the stream
  };
  Held hold(const OutPacket& packet, std::uint64_t due);
  void emit(Held&& held, std::vector<OutPacket>& out);
  bool hit(Fault fault, std::uint64_t key);
  void emit_reordered(unsigned stream, std::vector<OutPacket>& out);

  FaultOptions options_;
  std::vector<std::uint64_t> taken_;         // packets per stream
  std::vector<std::deque<Held>> reordered_;  // per stream
  std::deque<Held> delayed_;                 // ordered by due frame: all have the same delay
  std::vector<std::vector<std::byte>> lent_, spare_;
  std::uint64_t counts_[fault_count] = {};
};

}  // namespace nanet::readout
