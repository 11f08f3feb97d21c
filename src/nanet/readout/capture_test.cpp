// SPDX-License-Identifier: Apache-2.0
// Tests of generated captures: bursts, markers, counts and truth.
#include "nanet/readout/capture.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

namespace nanet::readout {
namespace {

namespace mgp = wire::mgp;

TEST(Capture, BurstsCountsAndTruth) {
  const std::string path = testing::TempDir() + "nanet_capture_test.pcap";
  CaptureOptions options;
  options.events = 2000;
  options.burst_frames = 10;
  options.truth_hits = true;
  CaptureWriter writer(options, path);
  std::uint64_t last_event = 0, events = 0, rows = 0, hits = 0, last_time = 0;
  while (writer.next(7)) {
    const TruthColumns& truth = writer.truth();
    for (std::size_t i = 0; i < truth.event.size(); ++i) {
      if (rows++ == 0 || truth.event[i] != last_event) ++events;
      last_event = truth.event[i];
      EXPECT_LT(truth.timestamp[i] >> 8, 10u);
      const std::uint64_t time =
          (truth.burst[i] * 10ull << 16) + truth.timestamp[i] * 256ull + truth.fine_time[i];
      EXPECT_GE(time, last_time);
      last_time = time;
      EXPECT_EQ(truth.ring[i] == no_ring, truth.particle[i] == no_particle);
      EXPECT_EQ(truth.ring[i] == no_ring, truth.n_hits[i] == 0);
    }
    for (std::size_t i = 0; i < writer.hits().event.size(); ++i) {
      EXPECT_LT(writer.hits().time[i], 10 * frame_ns + 5);
      EXPECT_GT(writer.hits().time[i], -5);
      ++hits;
    }
  }
  EXPECT_EQ(events, 2000u);
  EXPECT_EQ(last_event, 1999u);
  const CaptureTotals& totals = writer.totals();
  EXPECT_EQ(totals.events, 2000u);
  EXPECT_GE(hits, totals.hits);
  EXPECT_EQ(totals.bursts, (totals.frames + 9) / 10);

  wire::PcapReader reader(path);
  wire::PcapRecord record;
  std::uint64_t packets = 0, fragments = 0, stored = 0, bytes = 0, last_ns = 0;
  Sequence sequence[4] = {};
  unsigned burst[4] = {}, sobs = 0, eobs = 0;
  mgp::EobCounts counts[4];
  while (reader.next(record)) {
    const wire::UdpFrame udp = wire::parse_udp_frame(record.frame, record.original, mgp::default_port);
    ASSERT_EQ(udp.reason, wire::NotMgp::none);
    const mgp::Checked checked = mgp::validate(udp.payload, {});
    ASSERT_EQ(checked.refusal, mgp::Refusal::none);
    const mgp::Header& h = checked.header;
    EXPECT_EQ(udp.source.port, 50000 + h.board);
    EXPECT_GE(static_cast<std::uint64_t>(record.time_ns), last_ns);
    last_ns = static_cast<std::uint64_t>(record.time_ns);
    ++packets;
    bytes += udp.payload.size();
    if (h.has(mgp::flag::sob)) {
      EXPECT_EQ(h.burst, sobs++ / 4);
      sequence[h.board] = 0;
      counts[h.board] = {};
    }
    EXPECT_EQ(h.sequence, sequence[h.board]++);
    EXPECT_EQ(h.burst, burst[h.board]);
    counts[h.board].events += checked.fragments;
    counts[h.board].hits += checked.hits;
    counts[h.board].frames += h.has(mgp::flag::last);
    ++counts[h.board].packets;
    fragments += checked.fragments;
    stored += checked.hits;
    if (h.has(mgp::flag::eob)) {
      EXPECT_EQ(mgp::decode_eob(udp.payload.data()), counts[h.board]);
      EXPECT_EQ(h.frame + 1, counts[h.board].frames);
      ++burst[h.board];
      ++eobs;
    }
  }
  EXPECT_EQ(packets, totals.packets);
  EXPECT_EQ(bytes, totals.bytes);
  EXPECT_EQ(fragments, totals.fragments);
  EXPECT_EQ(stored, totals.hits);
  EXPECT_EQ(sobs, 4 * totals.bursts);
  EXPECT_EQ(eobs, sobs);
  std::filesystem::remove(path);
}

TEST(Capture, OptionsOutOfRange) {
  CaptureOptions options;
  EXPECT_THROW(CaptureWriter(options, "/dev/null"), std::invalid_argument);  // no events
  options.events = 1;
  options.generator.rings = 5;
  try {
    CaptureWriter writer(options, "/dev/null");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "--rings = 5: must be from 0 to 4");
  }
  options.generator.rings = 1;
  EXPECT_THROW(CaptureWriter(options, "/nowhere/x.pcap"), std::system_error);
}

}  // namespace
}  // namespace nanet::readout
