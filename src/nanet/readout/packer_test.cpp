// SPDX-License-Identifier: Apache-2.0
// Tests of the packer in every mode; each packet must pass the validation of the card.
#include "nanet/readout/packer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace nanet::readout {
namespace {

namespace mgp = wire::mgp;

struct Sent {
  Lsb time;
  std::vector<std::uint16_t> words;
  unsigned seen, flags;
};

struct Stream {
  std::map<unsigned, std::vector<Sent>> fragments;  // by board
  std::vector<rich::TrueEvent> events;
  std::vector<std::uint64_t> frame_of_event;
  unsigned packets = 0;
};

// Takes `frames` frames and checks every packet.
Stream take(FrameSource& source, unsigned frames, const PackOptions& options) {
  Stream stream;
  PackedFrame frame;
  mgp::Rules rules;
  rules.boards = options.merged ? 0 : 0xF;
  rules.max_payload = options.max_payload;
  for (unsigned f = 0; f < frames; ++f) {
    source.next(frame);
    EXPECT_EQ(frame.frame, f);
    std::map<unsigned, unsigned> next_index, fragments, hits;
    std::map<unsigned, bool> last_seen, board_truncated;
    unsigned last_board = 0;
    std::size_t end = 0;
    for (const FramePacket& packet : frame.packets) {
      const std::span<const std::byte> datagram(frame.bytes.data() + packet.offset, packet.size);
      EXPECT_EQ(packet.offset, end);
      end = packet.offset + packet.size;
      const mgp::Checked checked = mgp::validate(datagram, rules);
      EXPECT_EQ(checked.refusal, mgp::Refusal::none) << mgp::name(checked.refusal);
      const mgp::Header& h = checked.header;
      EXPECT_EQ(h.board, packet.board);
      EXPECT_EQ(h.frame, f);
      EXPECT_EQ(h.index, next_index[h.board]++);
      EXPECT_FALSE(last_seen[h.board]);
      last_seen[h.board] = h.has(mgp::flag::last);
      EXPECT_EQ(h.has(mgp::flag::fixed), options.fixed);
      EXPECT_EQ(h.has(mgp::flag::padded), options.pad);
      EXPECT_EQ(packet.size, options.pad ? options.max_payload : h.length);
      for (std::size_t i = h.length; i < packet.size; ++i) EXPECT_EQ(datagram[i], std::byte{0});
      EXPECT_GE(h.board, last_board);
      last_board = h.board;
      mgp::FragmentReader reader(datagram.data(), datagram.size(), h);
      mgp::Fragment fragment;
      std::vector<Sent>& sent = stream.fragments[h.board];
      while (reader.next(fragment)) {
        Sent s{static_cast<Lsb>(fragment.timestamp) * 256 + fragment.fine, {}, fragment.seen, fragment.flags};
        for (unsigned i = 0; i < fragment.stored; ++i)
          s.words.push_back(mgp::load<std::uint16_t>(fragment.hits + 2 * i));
        EXPECT_TRUE(sent.empty() || sent.back().time <= s.time);
        EXPECT_GT(fragment.stored, 0);
        ++fragments[h.board];
        hits[h.board] += fragment.stored;
        sent.push_back(std::move(s));
      }
      ++stream.packets;
    }
    EXPECT_EQ(end, frame.bytes.size());
    for (unsigned b = 0; b < (options.merged ? 1u : 4u); ++b) {
      const unsigned board = options.merged ? merged_board : b;
      EXPECT_TRUE(last_seen[board]);  // an empty frame is sent too
      EXPECT_EQ(frame.fragments[b], fragments[board]);
      EXPECT_EQ(frame.hits[b], hits[board]);
    }
    EXPECT_EQ(frame.truth.size(), source.events().size());
    for (const rich::TrueEvent& event : source.events()) {
      EXPECT_EQ(std::floor(event.time_ns / frame_ns), f);
      stream.events.push_back(event);
    }
  }
  return stream;
}

// Expected data of an event: board -> PM -> earliest time.
std::map<unsigned, std::map<PmId, double>> expected(const rich::TrueEvent& event, bool merged) {
  std::map<unsigned, std::map<PmId, double>> boards;
  for (const rich::TrueHit& hit : event.hits) {
    auto& pms = boards[merged ? merged_board : hit.pm / pms_per_board];
    const auto [at, fresh] = pms.emplace(hit.pm, hit.time_ns);
    if (!fresh) at->second = std::min(at->second, hit.time_ns);
  }
  return boards;
}

void check_against_truth(const PackOptions& options, double noise, unsigned frames) {
  rich::GeneratorOptions generator;
  generator.noise = noise;
  FrameSource source(generator, options);
  const Stream stream = take(source, frames, options);
  ASSERT_GT(stream.events.size(), 30u * frames);

  std::map<unsigned, std::multimap<Lsb, Sent>> left;
  for (const auto& [board, fragments] : stream.fragments) {
    for (const Sent& sent : fragments) left[board].emplace(sent.time, sent);
  }
  std::size_t missing = 0, truncated = 0;
  for (const rich::TrueEvent& event : stream.events) {
    for (const auto& [board, pms] : expected(event, options.merged)) {
      std::vector<std::pair<PmId, double>> hits(pms.begin(), pms.end());
      const std::size_t seen = hits.size();
      if (hits.size() > 32) hits.resize(32);
      double mean = 0;
      for (const auto& hit : hits) mean += hit.second / lsb_ns;
      const auto time = std::max<Lsb>(0, std::llround(mean / static_cast<double>(hits.size())));
      const auto [low, high] = left[board].equal_range(time);
      auto found = high;
      for (auto at = low; at != high; ++at) {
        const Sent& sent = at->second;
        if (sent.words.size() != hits.size() || sent.seen != seen) continue;
        bool same = true;
        for (std::size_t i = 0; i < hits.size(); ++i) {
          same &= mgp::hit_pm(sent.words[i]) == hits[i].first;
          const double difference = hits[i].second / lsb_ns - static_cast<double>(time);
          same &= std::fabs(mgp::hit_lsb(sent.words[i]) - std::clamp(difference, -64.0, 60.0)) <= 2.001;
        }
        EXPECT_EQ(sent.flags, seen > 32 ? 1u : 0u);
        if (same) found = at;
      }
      if (found == high) {
        ++missing;  // in the frame after the last
        EXPECT_GE(time + 1, static_cast<Lsb>(frames) * lsb_per_frame);
        continue;
      }
      truncated += seen > 32;
      left[board].erase(found);
    }
  }
  EXPECT_LT(missing, 12u);
  for (const auto& [board, fragments] : left) {  // of an event in the next frame
    for (const auto& [time, sent] : fragments) EXPECT_GT(time, static_cast<Lsb>(frames) * lsb_per_frame - 60);
  }
  if (options.merged || noise > 50) {
    EXPECT_GT(truncated, 0u);
  }
}

TEST(Packer, FourBoards) {
  check_against_truth({}, 1, 60);
}
TEST(Packer, Merged) {
  check_against_truth({.merged = true}, 1, 60);
}
TEST(Packer, FixedSlots) {
  check_against_truth({.fixed = true}, 1, 40);
}
TEST(Packer, FixedMergedPadded) {
  check_against_truth({.merged = true, .fixed = true, .pad = true}, 1, 20);
}
TEST(Packer, Padded) {
  check_against_truth({.pad = true}, 1, 40);
}
TEST(Packer, SmallPackets) {
  check_against_truth({.max_payload = 400}, 1, 20);
}
TEST(Packer, ManyHits) {
  check_against_truth({.max_payload = 8000}, 90, 20);
}

TEST(Packer, TooManyPacketsAreTruncated) {
  rich::GeneratorOptions generator;
  generator.rate = 100e6;
  const PackOptions options{.fixed = true};
  FrameSource source(generator, options);
  PackedFrame frame;
  source.next(frame);
  unsigned packets[4] = {};
  for (const FramePacket& packet : frame.packets) {
    const mgp::Header h = mgp::decode_header(frame.bytes.data() + packet.offset);
    EXPECT_TRUE(h.has(mgp::flag::truncated));
    EXPECT_EQ(h.has(mgp::flag::last), ++packets[h.board] == 16);
    EXPECT_EQ(h.events, 20);
  }
  for (const unsigned n : packets) EXPECT_EQ(n, 16u);
}

TEST(Packer, EmptyFramesAndTheEnd) {
  rich::GeneratorOptions generator;
  generator.rate = 2e4;  // one event in eight frames
  FrameSource source(generator, {}, 10);
  PackedFrame frame;
  std::size_t events = 0, empty = 0, frames = 0;
  while (!source.done()) {
    source.next(frame);
    ++frames;
    events += source.events().size();
    if (!source.events().empty()) continue;
    ++empty;
    EXPECT_GE(frame.packets.size(), 4u);
  }
  EXPECT_EQ(events, 10u);
  EXPECT_GT(empty, 20u);
  EXPECT_LT(frames, 300u);
  source.next(frame);  // and further empty frames, without limit
  EXPECT_EQ(frame.packets.size(), 4u);
  EXPECT_EQ(frame.bytes.size(), 4 * mgp::header_bytes);
}

TEST(Packer, StampSetsFrameSequenceBurstAndNothingElse) {
  for (const bool fixed : {false, true}) {
    FrameSource source({}, {.fixed = fixed});
    PackedFrame frame;
    source.next(frame);
    for (const FramePacket& packet : frame.packets) {
      std::vector<std::byte> before(frame.bytes.begin() + packet.offset,
                                    frame.bytes.begin() + packet.offset + packet.size);
      std::vector<std::byte> after = before;
      stamp(after.data(), 0xABCDEF, 77, 200);
      const mgp::Header h = mgp::decode_header(after.data());
      EXPECT_EQ(h.frame, 0xABCDEFu);
      EXPECT_EQ(h.sequence, 77u);
      EXPECT_EQ(h.burst, 200);
      mgp::Rules rules;
      rules.max_frames = 1u << 24;
      EXPECT_EQ(mgp::validate(after, rules).refusal, mgp::Refusal::none);
      stamp(after.data(), 0, 0, 0);
      EXPECT_EQ(after, before);
    }
  }
}

TEST(Packer, BurstMarkers) {
  std::byte marker[mgp::eob_bytes];
  ASSERT_EQ(make_sob(marker, 2, 9), 16u);
  mgp::Checked checked = mgp::validate({marker, 16}, {});
  EXPECT_EQ(checked.refusal, mgp::Refusal::none);
  EXPECT_TRUE(checked.header.has(mgp::flag::sob));
  EXPECT_EQ(checked.header.sequence, 0u);
  EXPECT_EQ(checked.header.burst, 9);
  const mgp::EobCounts counts{1000, 1002, 64000, 1260000};
  ASSERT_EQ(make_eob(marker, 3, 9, 999, 1001, counts), 40u);
  checked = mgp::validate({marker, 40}, {});
  EXPECT_EQ(checked.refusal, mgp::Refusal::none);
  EXPECT_TRUE(checked.header.has(mgp::flag::eob));
  EXPECT_EQ(checked.header.frame, 999u);
  EXPECT_EQ(checked.header.sequence, 1001u);
  EXPECT_EQ(mgp::decode_eob(marker), counts);
}

}  // namespace
}  // namespace nanet::readout
