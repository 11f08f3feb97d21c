// SPDX-License-Identifier: Apache-2.0
// Admission of frames to the simulated card, which is slower than the wire: under overload the simulation
// would fall behind the boards without limit. Frames that have waited too long are left out before the card.
// They are left out whole, so that no work goes into incomplete ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nanet/units.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::gateware {

class FrameAdmission {
 public:
  // longest: time that a packet may wait for the simulation. Then frames are left out until packets have
  // waited for a quarter of it only, so that a further pause leaves out nothing.
  explicit FrameAdmission(Nanoseconds longest) noexcept : longest_(longest) {}

  // Whether a packet that has waited for this time enters the card. The first packet of a frame decides for
  // all of them; SOB, EOB and packets without a header always enter.
  bool admits(std::span<const std::byte> datagram, Nanoseconds waited) noexcept {
    if (datagram.size() < wire::mgp::header_bytes) return true;
    const wire::mgp::Header header = wire::mgp::decode_header(datagram.data());
    if (header.has(wire::mgp::flag::sob | wire::mgp::flag::eob)) return true;
    const std::uint64_t frame = std::uint64_t{header.burst} << 24 | header.frame;
    Decision& decision = decisions_[frame % decisions_.size()];
    if (!decision.made || decision.frame != frame) {
      behind_ = waited > (behind_ ? longest_ / 4 : longest_);
      decision = {frame, true, !behind_};
    }
    return decision.admitted;
  }

 private:
  struct Decision {
    std::uint64_t frame = 0;
    bool made = false, admitted = false;
  };
  Nanoseconds longest_;
  bool behind_ = false;
  std::array<Decision, 1024> decisions_{};  // by frame; the boards are closer together
};

}  // namespace nanet::gateware
