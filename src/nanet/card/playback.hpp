// SPDX-License-Identifier: Apache-2.0
// A card that is given a capture's frames in place of a network's: how `nanet replay` runs one that receives
// and sends by itself.
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
#include "nanet/wire/ethernet.hpp"

namespace nanet::card {

class Playback {
 public:
  virtual ~Playback() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual Stream& stream() noexcept = 0;
  // Takes one captured frame, `original` bytes long on the wire. False: there is no room for it now; work(),
  // then offer it again.
  virtual bool frame(std::span<const std::byte> frame, std::size_t original) noexcept = 0;
  // Lets the card work for a while.
  virtual void work() noexcept = 0;
  // Whether the card is done with all frames it has taken. One may wait for a buffer that a consumer has:
  // work() goes on with it.
  virtual bool decided() noexcept = 0;
  // No frame will follow, and all are decided on: closes what is open. passed_all() is true once every owed
  // number has been passed.
  virtual void drain() noexcept = 0;
  virtual bool passed_all() const noexcept = 0;
  // Reads all counters, when the card is at rest.
  virtual void settle() noexcept = 0;
  // As Card::figures().
  virtual std::vector<std::pair<std::string, double>> figures() const { return {}; }
  // Frames that were no UDP packets to the MGP port.
  virtual std::array<std::uint64_t, wire::not_mgp_count> not_mgp() const noexcept = 0;
};

// What was sent goes to `transmit`, which outlives the playback; port: the one that MGP packets go to.
using PlaybackMaker = std::function<std::unique_ptr<Playback>(const ClopOptions& options, std::uint16_t port,
                                                              Transmit& transmit)>;

// kind: one that was added. Throws std::invalid_argument naming the kinds there are.
std::unique_ptr<Playback> open_playback(std::string_view kind, const ClopOptions& options, std::uint16_t port,
                                        Transmit& transmit);
void add_playback(std::string kind, PlaybackMaker make);

}  // namespace nanet::card
