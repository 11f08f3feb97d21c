// SPDX-License-Identifier: Apache-2.0
// Test traffic: small MGP packets for the tests of the trigger.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "nanet/wire/mgp.hpp"

namespace nanet::trigger {

struct TestHit {
  unsigned pm;
  int lsb = 0;  // after the event time, a multiple of 4
};
struct TestEvent {
  std::uint16_t time;  // LSB since the start of the frame
  std::vector<TestHit> hits;
  std::uint8_t flags = 0;
};
using Bytes = std::vector<std::byte>;

inline Bytes mgp_packet(unsigned board, Frame frame, Sequence sequence, const std::vector<TestEvent>& events,
                        std::uint8_t flags = 0, unsigned index = 0, std::uint8_t burst = 0) {
  wire::mgp::Header h;
  h.board = static_cast<BoardId>(board);
  h.flags = flags;
  h.frame = frame;
  h.sequence = sequence;
  h.index = static_cast<std::uint8_t>(index);
  h.burst = burst;
  Bytes bytes(8192);
  wire::mgp::PacketWriter writer(bytes.data(), bytes.size(), h);
  for (const TestEvent& e : events) {
    std::vector<std::uint16_t> words;
    for (const TestHit& hit : e.hits)
      words.push_back(wire::mgp::hit_word(static_cast<PmId>(hit.pm), hit.lsb / 4));
    writer.add(frame << 8 | e.time >> 8, static_cast<FineTime>(e.time), words,
               static_cast<std::uint8_t>(words.size()), e.flags);
  }
  bytes.resize(writer.finish());
  return bytes;
}

inline Bytes mgp_marker(std::uint8_t flags, unsigned board, Frame frame, Sequence sequence,
                        std::uint8_t burst = 0) {
  wire::mgp::Header h;
  h.board = static_cast<BoardId>(board);
  h.flags = flags;
  h.frame = frame;
  h.sequence = sequence;
  h.burst = burst;
  h.length = static_cast<std::uint16_t>(flags & wire::mgp::flag::eob ? wire::mgp::eob_bytes
                                                                     : wire::mgp::header_bytes);
  Bytes bytes(h.length);
  wire::mgp::encode_header(bytes.data(), h);
  if (flags & wire::mgp::flag::eob) wire::mgp::encode_eob(bytes.data(), {frame + 1, sequence + 1, 0, 0});
  return bytes;
}

// Fragments of random events of one board, few or many of them close together; hits unordered, with
// duplicates.
inline std::vector<TestEvent> random_events(std::mt19937& random, unsigned board, unsigned most) {
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  std::vector<TestEvent> events(below(most + 1));
  const unsigned around = below(65536);
  const unsigned pms = std::min(512u, static_cast<unsigned>(pm_count) - 512 * board);
  for (TestEvent& e : events) {
    e.time = static_cast<std::uint16_t>(below(2) ? below(65536) : std::min(around + below(120), 65535u));
    e.flags = below(10) == 0;
    e.hits.resize(below(3) ? below(9) : below(33));
    for (TestHit& hit : e.hits) hit = {512 * board + below(pms), 4 * (static_cast<int>(below(32)) - 16)};
    if (below(2))
      std::sort(e.hits.begin(), e.hits.end(), [](const TestHit& a, const TestHit& b) { return a.pm < b.pm; });
  }
  return events;
}

// Burst 0 with random events of four boards, SOB to EOB, one packet per board and frame.
inline std::vector<Bytes> random_burst(unsigned seed, Frame frames) {
  namespace flag = wire::mgp::flag;
  std::mt19937 random(seed);
  std::vector<Bytes> out;
  for (unsigned b = 0; b < 4; ++b) out.push_back(mgp_marker(flag::sob, b, 0, 0));
  for (Frame f = 0; f < frames; ++f)
    for (unsigned b = 0; b < 4; ++b)
      out.push_back(mgp_packet(b, f, f + 1, random_events(random, b, 8), flag::last));
  for (unsigned b = 0; b < 4; ++b) out.push_back(mgp_marker(flag::eob, b, frames - 1, frames + 1));
  return out;
}

}  // namespace nanet::trigger
