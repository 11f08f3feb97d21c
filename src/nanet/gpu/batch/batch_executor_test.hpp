// SPDX-License-Identifier: Apache-2.0
// Scenarios of the executor cuda-batch, with a GPU or with a reconstructor that needs none: the answers and
// the account are those of a CPU executor. Detector: 256 x 256 pixels, so that all PM IDs of 16 bits occur.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nanet/gpu/pipeline.hpp"
#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::gpu {

inline constexpr int pixel_side = 256;
inline constexpr unsigned pixel_boards = 4, pixels_per_board = pixel_side * pixel_side / pixel_boards;

// Pixels 4 mm apart.
inline rich::Geometry pixels() {
  rich::Geometry g;
  g.shift = {{0, 0}};
  for (int i = 0; i < pixel_side * pixel_side; ++i) {
    const int column = i % pixel_side, row = i / pixel_side;
    g.disk.push_back({4.0f * static_cast<float>(column) - 510.0f, 4.0f * static_cast<float>(row) - 510.0f});
    g.disk_of.push_back(0);
  }
  g.common = g.disk;
  g.first_of_board.clear();
  for (unsigned b = 0; b <= pixel_boards; ++b) g.first_of_board.push_back(pixels_per_board * b);
  g.rings.channels = static_cast<float>(pixel_side * pixel_side);
  g.rings.centres = 1000;  // of POMH and DOMH, so that the CPU takes seconds
  g.rings.beside = pixel_side * pixel_side / 2;
  return g;
}

// PM IDs of 15 photons on a circle, ascending; repeated ones stay.
inline std::vector<PmId> pixels_of_ring(std::mt19937& random) {
  std::uniform_real_distribution<float> radius(20, 180), centre(-300, 300), angle(0, 6.2831853f);
  const float r = radius(random), x = centre(random), y = centre(random);
  std::vector<PmId> pm;
  for (int k = 0; k < 15; ++k) {
    const float a = angle(random);
    const auto column = static_cast<int>((x + r * std::cos(a) + 512.0f) / 4.0f);
    const auto row = static_cast<int>((y + r * std::sin(a) + 512.0f) / 4.0f);
    pm.push_back(static_cast<PmId>(pixel_side * row + column));
  }
  std::sort(pm.begin(), pm.end());
  return pm;
}

namespace batch_test {

using trigger::Bytes;
using trigger::Chain;
namespace mgp = wire::mgp;

struct Fragment {
  std::uint16_t time;
  std::vector<PmId> pm;
};

inline Bytes packet(unsigned board, Frame frame, const std::vector<Fragment>& fragments, std::uint8_t burst) {
  mgp::Header h;
  h.board = static_cast<BoardId>(board);
  h.flags = mgp::flag::last;
  h.frame = frame;
  h.sequence = frame + 1;
  h.burst = burst;
  h.encoding = mgp::wide_hit_encoding;
  Bytes bytes(8192);
  mgp::PacketWriter writer(bytes.data(), bytes.size(), h);
  for (const Fragment& f : fragments) {
    const auto hits = static_cast<std::uint8_t>(f.pm.size());
    writer.add(frame << 8 | f.time >> 8, static_cast<FineTime>(f.time), f.pm, hits);
  }
  bytes.resize(writer.finish());
  return bytes;
}

inline Bytes marker(std::uint8_t flags, unsigned board, Frame frame, Sequence sequence, std::uint8_t burst) {
  Bytes bytes = trigger::mgp_marker(flags, board, frame, sequence, burst);
  mgp::Header h = mgp::decode_header(bytes.data());
  h.encoding = mgp::wide_hit_encoding;
  mgp::encode_header(bytes.data(), h);
  return bytes;
}

// Bursts with lost and damaged packets: events of one ring or two, hits in any order in a few of them.
inline std::vector<Bytes> traffic(unsigned seed, Frame frames, unsigned bursts = 1) {
  std::mt19937 random(seed);
  std::vector<Bytes> out;
  for (unsigned u = 0; u < bursts; ++u) {
    const auto burst = static_cast<std::uint8_t>(u);
    for (unsigned b = 0; b < pixel_boards; ++b) out.push_back(marker(mgp::flag::sob, b, 0, 0, burst));
    for (Frame f = 0; f < frames; ++f) {
      std::vector<Fragment> fragments[pixel_boards];
      std::vector<unsigned> times(random() % 25);
      for (unsigned& t : times) t = static_cast<unsigned>(random() % (random() % 3 ? 65500 : 300));
      std::sort(times.begin(), times.end());
      for (const unsigned t : times) {
        std::vector<PmId> pm = pixels_of_ring(random);
        if (random() % 3 == 0)
          for (const PmId more : pixels_of_ring(random)) pm.push_back(more);
        if (random() % 10) std::sort(pm.begin(), pm.end());
        for (unsigned b = 0; b < pixel_boards; ++b) {
          Fragment fragment{static_cast<std::uint16_t>(t + random() % 30), {}};
          for (const PmId one : pm)
            if (one / pixels_per_board == b) fragment.pm.push_back(one);
          if (!fragment.pm.empty()) fragments[b].push_back(std::move(fragment));
        }
      }
      for (unsigned b = 0; b < pixel_boards; ++b) {
        if (random() % 40 == 0) continue;
        out.push_back(packet(b, f, fragments[b], burst));
        if (random() % 40 == 0) out.back()[random() % 15] ^= std::byte{16};  // all but the burst number
      }
    }
    for (unsigned b = 0; b < pixel_boards; ++b)
      out.push_back(marker(mgp::flag::eob, b, frames - 1, frames + 1, burst));
  }
  return out;
}

inline const std::shared_ptr<const rich::Geometry>& detector() {
  static const auto made = std::make_shared<const rich::Geometry>(pixels());
  return made;
}

inline card::ClopOptions clop_options() {
  card::ClopOptions o = Chain::options();
  o.rules.encoding = mgp::wide_hit_encoding;
  o.rules.first_pm.fill(detector()->first_of_board.back());
  std::copy(detector()->first_of_board.begin(), detector()->first_of_board.end(), o.rules.first_pm.begin());
  return o;
}

struct Result {
  Chain::Packets sent;
  trigger::Account account;
  std::uint64_t rings = 0, beyond = 0;  // of the monitor; beyond: hits at PM IDs from pm_count on
  std::map<std::string, double> figures;
  std::string trouble;
};

struct Run {
  std::vector<Bytes> packets;
  std::string algorithm = "math";
  card::ClopOptions clop = clop_options();
  trigger::ProcessOptions process{};
  std::size_t restart_every = 0;
  // Conditions of the run and of every burst from the second on; null: none.
  std::shared_ptr<const trigger::Conditions> (*conditions)(unsigned burst) = nullptr;
  unsigned bursts = 1;

  Result operator()(const trigger::ExecutorMaker& make) const {
    const auto reconstructor = rich::make_reconstructor(algorithm, {}, *detector());
    trigger::ProcessOptions of_detector = process;
    of_detector.detector = detector();
    std::unique_ptr<trigger::ConditionsStore> store;
    if (conditions) store = std::make_unique<trigger::ConditionsStore>(conditions(0));
    Chain chain(clop, *reconstructor, 1, of_detector, make, store.get());
    if (make) {
      EXPECT_EQ(chain.executor().name(), "cuda-batch");
      EXPECT_EQ(chain.executor().memory(), "host");
      EXPECT_EQ(chain.executor().mailbox(), "off");
    }
    const std::size_t per_burst = packets.size() / bursts;
    for (std::size_t i = 0; i < packets.size(); ++i) {
      if (store && i % per_burst == per_burst / 2)
        store->offer(conditions(static_cast<unsigned>(1 + i / per_burst)));
      chain.packet(packets[i]);
      if (restart_every && i % restart_every == restart_every - 1) chain.restart();
      // Conditions are kept for a limited number of bursts.
      while (store && chain.stream().table().end - chain.stream().table().next > 100) {
        chain.turn();
        std::this_thread::yield();
      }
    }
    chain.drain();
    Result result{
        chain.sent(), chain.account(), 0, 0, chain.executor().figures(), chain.executor().trouble()};
    for (const trigger::Physics* p : chain.executor().physics()) {
      for (unsigned r = 1; r <= rich::max_rings; ++r) result.rings += r * p->rings_per_event[r];
      for (const stats::Counter& cell : p->beyond()) result.beyond += cell;
    }
    EXPECT_FALSE(chain.executor().event_overrun());
    return result;
  }
};

inline void expect_same(const Result& gpu, const Result& cpu) {
  EXPECT_TRUE(gpu.account.balances());
  ASSERT_EQ(gpu.sent.size(), cpu.sent.size());
  for (std::size_t i = 0; i < cpu.sent.size(); ++i) ASSERT_EQ(gpu.sent[i], cpu.sent[i]) << "packet " << i;
  EXPECT_EQ(gpu.account.events_built, cpu.account.events_built);
  EXPECT_EQ(gpu.account.primitives_out, cpu.account.primitives_out);
  EXPECT_EQ(gpu.account.rings, cpu.account.rings);
  EXPECT_EQ(gpu.account.duplicate_hits, cpu.account.duplicate_hits);
  EXPECT_EQ(gpu.account.split_at_frame_edge, cpu.account.split_at_frame_edge);
  EXPECT_EQ(gpu.account.below_min_hits, cpu.account.below_min_hits);
  EXPECT_EQ(gpu.account.masked_hits, cpu.account.masked_hits);
  EXPECT_EQ(gpu.account.downscaled, cpu.account.downscaled);
  EXPECT_EQ(gpu.rings, gpu.account.rings);
  EXPECT_EQ(gpu.rings, cpu.rings);
  EXPECT_EQ(gpu.beyond, cpu.beyond);
}

inline void any_traffic(const PipelineOptions& options, const std::string& algorithm, Frame frames) {
  const Run run{.packets = traffic(1, frames), .algorithm = algorithm};
  const Result cpu = run({}), gpu = run(Pipeline::maker(options));
  EXPECT_GT(cpu.account.rings, frames);
  EXPECT_GT(cpu.account.duplicate_hits, 0u);
  EXPECT_GT(cpu.beyond, frames);
  expect_same(gpu, cpu);
  EXPECT_EQ(gpu.figures.at("gpu_faults"), 0);
  EXPECT_EQ(gpu.trouble, "");
}

inline void merged_buffers(const PipelineOptions& options) {
  Run run{.packets = traffic(2, 400)};
  const Result segments = run({});
  run.clop.merge = true;
  const Result merged = run(Pipeline::maker(options));
  EXPECT_LT(merged.account.frames_unmerged, merged.account.frames_in / 2);
  expect_same(merged, segments);
}

inline std::shared_ptr<const trigger::Conditions> conditions_of(unsigned burst) {
  auto c = std::make_shared<trigger::Conditions>();
  for (std::size_t pm = burst; pm < c->masked.size(); pm += 40) c->masked[pm] = 1;
  for (std::size_t pm = 0; pm < c->t0.size(); ++pm)
    c->t0[pm] = static_cast<std::int16_t>((pm * (burst + 1)) % 300) - 150;
  return c;
}

inline void conditions_and_downscaling(const PipelineOptions& options) {
  constexpr unsigned bursts = 12;
  Run run{.packets = traffic(3, 40, bursts), .conditions = conditions_of, .bursts = bursts};
  run.process.downscale.factor = {2, 3, 1, 5};
  const Result cpu = run({});
  EXPECT_GT(cpu.account.masked_hits, 1000u);
  EXPECT_GT(cpu.account.downscaled[0] + cpu.account.downscaled[1], 1000u);
  expect_same(run(Pipeline::maker(options)), cpu);
}

// More frames than buffers.
inline void two_queues_restarted(const PipelineOptions& options) {
  Run run{.packets = traffic(4, 2500)};
  const Result cpu = run({});
  run.clop.buffers = 2048;
  run.clop.devices = 2;  // both on one GPU if there is only one
  run.restart_every = 1311;
  const Result gpu = run(Pipeline::maker(options));
  expect_same(gpu, cpu);
  EXPECT_EQ(gpu.figures.at("gpu_faults"), 0);
}

// options: of a device that fails during the run.
inline void lost_device(const PipelineOptions& options, const std::string& why) {
  Run run{.packets = traffic(5, 800)};
  const Result cpu = run({});
  for (const std::uint32_t devices : {1u, 2u}) {
    run.clop.devices = devices;
    const Result over = run(Pipeline::maker(options));
    expect_same(over, cpu);
    EXPECT_GE(over.figures.at("gpu_faults"), 1);
    EXPECT_LE(over.figures.at("gpu_faults"), devices);
    EXPECT_EQ(over.figures.at("gpu_lost"), 1);
    EXPECT_EQ(over.figures.at("gpu_recoveries"), 0);
    EXPECT_EQ(over.trouble, why);
  }
}

// The receive events carry stamps of the simulated clock, so every frame has waited for long.
inline void late_frames_are_skipped(const PipelineOptions& options) {
  constexpr Frame frames = 3000;
  card::ClopOptions clop = clop_options();
  clop.rules.boards = 1;
  clop.deadline = 10'000'000;
  clop.timeout = 5'000'000;
  trigger::ProcessOptions process;
  process.detector = detector();
  Chain chain(clop, *rich::make_reconstructor("math", {}, *detector()), 1, process, Pipeline::maker(options));
  chain.packet(packet(0, 0, {{700, {2}}}, 0));
  while (!chain.stream().passed_all()) chain.turn();  // from now on the executor has a clock
  for (Frame f = 1; f < frames; ++f) chain.packet(packet(0, f, {{700, {2}}}, 0));
  chain.drain();
  const trigger::Account account = chain.account();
  EXPECT_TRUE(account.balances());
  EXPECT_EQ(account.frames_in, frames);
  EXPECT_EQ(account.frames_late, frames - 1);
  EXPECT_EQ(account.events_built, 1u);
  EXPECT_EQ(account.answers_after_deadline, 0u);
  EXPECT_EQ(chain.sent().size(), frames);
}

}  // namespace batch_test
}  // namespace nanet::gpu
