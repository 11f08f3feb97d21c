// SPDX-License-Identifier: Apache-2.0
// Fault injection between board and card. A fault depends on seed, stream and packet only, so runs repeat.
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
  unsigned delay_frames = 50;  // how much later a delayed packet is sent
  bool markers = false;        // SOB and EOB too
  bool any() const;
};
// Reads "drop=0.01,dup=1e-3": sets the probabilities named. Throws std::invalid_argument that names the value
// and the remedy.
void parse_faults(std::string_view text, FaultOptions& options);

// One datagram on its way out. `frame` counts from 0 over the run; `marker`: SOB or EOB, which belong to no
// frame.
struct OutPacket {
  std::uint64_t frame = 0;
  const std::byte* data = nullptr;
  std::uint32_t size = 0;
  std::uint8_t stream = 0;  // socket it leaves by
  bool marker = false;
};

class FaultLine {
 public:
  FaultLine(const FaultOptions& options, unsigned streams);

  // Takes the next packet of a stream and appends to `out` the packets to send now, in order: none, the
  // packet, its duplicate, a corrupted copy, delayed packets. Their `data` is valid until recycle().
  void take(const OutPacket& packet, std::vector<OutPacket>& out);
  // Appends the delayed packets whose time has come when frame `frame` is about to be sent.
  void release(std::uint64_t frame, std::vector<OutPacket>& out);
  // Appends everything still held (before the EOB, and at the end).
  void flush(std::vector<OutPacket>& out);
  // Call once what was appended has been sent: its buffers are used again.
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
  std::deque<Held> delayed_;                 // due in order: all wait equally long
  std::vector<std::vector<std::byte>> lent_, spare_;
  std::uint64_t counts_[fault_count] = {};
};

}  // namespace nanet::readout
