// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/playback.hpp"

#include <map>
#include <stdexcept>
#include <utility>

namespace nanet::card {
namespace {

std::map<std::string, PlaybackMaker, std::less<>>& makers() {
  static std::map<std::string, PlaybackMaker, std::less<>> all;
  return all;
}

}  // namespace

void add_playback(std::string kind, PlaybackMaker make) {
  makers()[std::move(kind)] = std::move(make);
}

std::unique_ptr<Playback> open_playback(std::string_view kind, const ClopOptions& options, std::uint16_t port,
                                        Transmit& transmit) {
  if (const auto it = makers().find(kind); it != makers().end()) return it->second(options, port, transmit);
  std::string there = "socket";
  for (const auto& [name, make] : makers()) there += ", " + name;
  throw std::invalid_argument("card = " + std::string(kind) + " is not there; cards of this build: " + there);
}

}  // namespace nanet::card
