// SPDX-License-Identifier: Apache-2.0
// Playback: feeds a hardware card with the frames of a capture instead of a network, for `nanet replay`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nanet/card/stream.hpp"
#include "nanet/card/transmit.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::card {

class Playback {
 public:
  virtual ~Playback() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual Stream& stream() noexcept = 0;
  // Takes one captured frame, `original` bytes long on the wire. Returns false if full: call work() and
  // retry.
  virtual bool frame(std::span<const std::byte> frame, std::size_t original) noexcept = 0;
  // Advances the card.
  virtual void work() noexcept = 0;
  // True if the card has processed all its frames. A frame may wait for a buffer that a consumer holds;
  // work() continues with it.
  virtual bool decided() noexcept = 0;
  // Closes all open frames; requires decided(), and no frame may follow. passed_all() is true once every
  // frame that needs an answer has been passed.
  virtual void drain() noexcept = 0;
  virtual bool passed_all() const noexcept = 0;
  // Reads all counters; requires an idle card.
  virtual void settle() noexcept = 0;
  // As Card::figures().
  virtual std::vector<std::pair<std::string, double>> figures() const { return {}; }
  // Frames that were not UDP packets to the MGP port, by reason.
  virtual std::array<std::uint64_t, wire::not_mgp_count> not_mgp() const noexcept = 0;
};

// Datagrams that the card sends go to `transmit`, which outlives the playback. port: UDP port of MGP packets.
using PlaybackMaker = std::function<std::unique_ptr<Playback>(const ClopOptions& options, std::uint16_t port,
                                                              Transmit& transmit)>;

}  // namespace nanet::card
