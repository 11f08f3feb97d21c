// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/playback.hpp"

#include <utility>

#include "nanet/card/kinds.hpp"

namespace nanet::card {
namespace {

Kinds<PlaybackMaker>& kinds() {
  static Kinds<PlaybackMaker> all("socket");  // which replays by itself
  return all;
}

}  // namespace

void add_playback(std::string kind, PlaybackMaker make) {
  kinds().add(std::move(kind), std::move(make));
}

std::unique_ptr<Playback> open_playback(std::string_view kind, const ClopOptions& options, std::uint16_t port,
                                        Transmit& transmit) {
  return kinds().at(kind)(options, port, transmit);
}

}  // namespace nanet::card
