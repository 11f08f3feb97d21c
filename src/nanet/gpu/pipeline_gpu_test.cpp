// SPDX-License-Identifier: Apache-2.0
// GPU pipeline against the CPU: equal packets in equal order for any input; restart, faults and a hanging
// GPU.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <random>
#include <set>

#include "nanet/contract/memory.hpp"
#include "nanet/gpu/device.hpp"
#include "nanet/gpu/device_region_allocator.hpp"
#include "nanet/gpu/kernels/registry.hpp"
#include "nanet/gpu/pipeline.hpp"
#include "nanet/os/region_allocator.hpp"
#include "nanet/readout/packer.hpp"
#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::gpu {
namespace {

using trigger::Bytes;
using trigger::Chain;
namespace flag = wire::mgp::flag;

constexpr Mode modes[] = {Mode::persistent, Mode::launch};

class GpuPipeline : public testing::Test {
 protected:
  void SetUp() override {
    const gpu::Devices found = gpu::devices();
    if (found.found.empty()) GTEST_SKIP() << "no GPU: " << found.trouble;
  }
};

trigger::ExecutorMaker maker(const PipelineOptions& options) {
  PipelineOptions patient = options;
  if (std::getenv("NANET_PATIENT")) patient.stall = 60'000'000'000;  // sanitizers are slow
  return Pipeline::maker(patient);
}

// Frames of the toy Monte Carlo, from four boards.
std::vector<Bytes> generated(Frame frames) {
  std::vector<Bytes> out;
  for (unsigned b = 0; b < 4; ++b) out.push_back(trigger::mgp_marker(flag::sob, b, 0, 0));
  readout::FrameSource source({}, {});
  readout::PackedFrame frame;
  Sequence sequence[4] = {1, 1, 1, 1};
  for (Frame f = 0; f < frames; ++f) {
    source.next(frame);
    for (const auto& p : frame.packets) {
      readout::stamp(frame.bytes.data() + p.offset, f, sequence[p.board]++, 0);
      out.emplace_back(frame.bytes.begin() + p.offset, frame.bytes.begin() + p.offset + p.size);
    }
  }
  for (unsigned b = 0; b < 4; ++b) out.push_back(trigger::mgp_marker(flag::eob, b, frames - 1, sequence[b]));
  return out;
}

// Few and many events, close together and apart, hits in any order, packets lost, duplicated and damaged.
std::vector<Bytes> random_traffic(unsigned seed, Frame frames) {
  std::mt19937 random(seed);
  std::vector<Bytes> out;
  for (Frame f = 0; f < frames; ++f)
    for (unsigned b = 0; b < 4; ++b) {
      const auto packets = 1 + static_cast<unsigned>(random() % 2);
      for (unsigned p = 0; p < packets; ++p) {
        if (random() % 30 == 0) continue;
        out.push_back(trigger::mgp_packet(b, f, 2 * f + p + 1, trigger::random_events(random, b, 25),
                                          p + 1 == packets ? flag::last : 0, p));
        if (random() % 30 == 0) out.back()[random() % out.back().size()] ^= std::byte{16};
      }
    }
  return out;
}

// Frames as from a detector: up to three packets per board, in order of time, PM IDs ascending; with now and
// then another order, a changed byte, or more fragments than usual.
std::vector<Bytes> usual_traffic(unsigned seed, Frame frames) {
  std::mt19937 random(seed);
  std::vector<Bytes> out;
  std::array<Sequence, 4> sequence{};
  for (Frame f = 0; f < frames; ++f) {
    std::vector<int> times(random() % (random() % 20 ? 70 : 170));
    for (int& t : times) t = static_cast<int>(random() % (random() % 4 ? 65536 : 3000));
    for (unsigned b = 0; b < 4; ++b) {
      std::vector<trigger::TestEvent> events;
      for (const int t : times) {
        if (random() % 5 == 0) continue;
        trigger::TestEvent& e = events.emplace_back();
        e.time = static_cast<std::uint16_t>(std::clamp(t + static_cast<int>(random() % 21) - 10, 0, 65535));
        e.flags = random() % 50 == 0;
        std::set<unsigned> pms;
        for (auto hits = random() % (random() % 10 ? 8 : 33); hits > 0; --hits)
          pms.insert(std::min(512 * b + static_cast<unsigned>(random() % 512), pm_count - 1u));
        for (const unsigned pm : pms) e.hits.push_back({pm, 4 * (static_cast<int>(random() % 32) - 16)});
        if (random() % 3000 == 0) std::shuffle(e.hits.begin(), e.hits.end(), random);
      }
      if (random() % 50) std::ranges::stable_sort(events, {}, &trigger::TestEvent::time);
      const std::size_t packets = events.size() > 30 || random() % 4 == 0 ? 1 + random() % 3 : 1;
      std::vector<Bytes> sent;
      for (std::size_t p = 0, from = 0; p < packets; ++p) {
        const std::size_t to =
            p + 1 == packets ? events.size() : from + random() % (events.size() - from + 1);
        const std::vector part(events.begin() + static_cast<std::ptrdiff_t>(from),
                               events.begin() + static_cast<std::ptrdiff_t>(to));
        sent.push_back(trigger::mgp_packet(b, f, ++sequence[b], part, p + 1 == packets ? flag::last : 0,
                                           static_cast<unsigned>(p)));
        from = to;
      }
      if (random() % 30 == 0) std::ranges::reverse(sent);
      for (Bytes& packet : sent) {
        if (random() % 200 == 0) packet[random() % packet.size()] ^= std::byte{16};
        out.push_back(std::move(packet));
      }
    }
  }
  return out;
}

// Frames of one board in slots. Most events have PM IDs in ascending order; their times are in any order.
std::vector<Bytes> random_slots(unsigned seed, Frame frames, std::uint8_t burst = 0) {
  std::mt19937 random(seed);
  std::vector<Bytes> out = {trigger::mgp_marker(flag::sob, merged_board, 0, 0, burst)};
  for (Frame f = 0; f < frames; ++f) {
    std::vector<trigger::TestEvent> events(random() % 21);
    for (trigger::TestEvent& e : events) {
      e.time = static_cast<std::uint16_t>(random() % 4 ? random() : random() % 50);
      e.flags = random() % 10 == 0;
      std::set<unsigned> pms;
      for (auto hits = random() % 33; hits > 0; --hits) pms.insert(random() % pm_count);
      for (const unsigned pm : pms) e.hits.push_back({pm, 4 * (static_cast<int>(random() % 32) - 16)});
      if (random() % 400 == 0) std::shuffle(e.hits.begin(), e.hits.end(), random);
    }
    out.push_back(trigger::mgp_packet(merged_board, f, f + 1, events, flag::last | flag::fixed, 0, burst));
  }
  out.push_back(trigger::mgp_marker(flag::eob, merged_board, frames - 1, frames + 1, burst));
  return out;
}
constexpr MailboxMemory mailboxes[] = {MailboxMemory::automatic, MailboxMemory::pinned, MailboxMemory::off};

struct Result {
  Chain::Packets sent;
  trigger::Account account;
  std::uint64_t rings = 0;
  std::map<std::string, double> figures;
};

Result run(const std::vector<Bytes>& packets, const char* algorithm, const trigger::ExecutorMaker& make,
           const card::ClopOptions& clop = Chain::options(), std::size_t restart_every = 0) {
  const auto reconstructor = rich::make_reconstructor(algorithm, {}, rich::Geometry::make());
  Chain chain(clop, *reconstructor, 1, {}, make);
  for (std::size_t i = 0; i < packets.size(); ++i) {
    chain.packet(packets[i]);
    if (restart_every && i % restart_every == restart_every - 1) chain.restart();
  }
  chain.drain();
  // All times of a frame are of one clock, whichever warp has taken them.
  constexpr Nanoseconds hour = 3'600'000'000'000;
  for (const trigger::Stage s : {trigger::Stage::build, trigger::Stage::reconstruct})
    EXPECT_LT(chain.accounting().stage(s).max(), hour);
  Result result{chain.sent(), chain.account(), 0, chain.executor().figures()};
  for (const trigger::Physics* p : chain.executor().physics())
    for (unsigned r = 1; r <= rich::max_rings; ++r) result.rings += r * p->rings_per_event[r];
  EXPECT_FALSE(chain.executor().event_overrun());
  return result;
}

void expect_same(const Result& gpu, const Result& cpu) {
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
  EXPECT_EQ(gpu.rings, gpu.account.rings);  // the monitor's
}

// Hit times average to the event's time, so the mean lateness is zero.
TEST_F(GpuPipeline, SampledEventsHaveTheTimesOfTheirHits) {
  const auto packets = generated(3000);
  constexpr std::pair<Mode, bool> inputs[] = {
      {Mode::persistent, false}, {Mode::persistent, true}, {Mode::launch, false}};
  for (const auto& [mode, merged] : inputs) {
    PipelineOptions options;
    options.mode = mode;
    options.merged_buffers = merged;
    SCOPED_TRACE(std::string(name_of(mode)) + (merged ? ", merged" : ""));
    auto clop = Chain::options();
    clop.merge = merged;
    const auto algorithm = rich::make_reconstructor("math", {}, rich::Geometry::make());
    Chain chain(clop, *algorithm, 1, {}, maker(options));
    for (const Bytes& packet : packets) chain.packet(packet);
    chain.drain();
    std::size_t events = 0;
    for (const trigger::Physics* p : chain.executor().physics())
      for (const stats::EventSample& event : p->events()) {
        ++events;
        int sum = 0;
        for (unsigned i = 0; i < event.hits; ++i) {
          ASSERT_NE(event.late[i], stats::EventSample::no_time);
          sum += event.late[i];
        }
        EXPECT_LE(2 * std::abs(sum), static_cast<int>(event.hits));
      }
    EXPECT_GT(events, 20u);
  }
}

TEST_F(GpuPipeline, MathAnswersAsTheCpuDoes) {
  const auto packets = generated(3000);
  const Result cpu = run(packets, "math", {});
  EXPECT_GT(cpu.account.primitives_out, 150'000u);
  for (const Mode mode : modes) {
    PipelineOptions options;
    options.mode = mode;
    SCOPED_TRACE(name_of(mode));
    expect_same(run(packets, "math", maker(options)), cpu);
  }
}

TEST_F(GpuPipeline, SlotsOfOneBoardAreAnsweredAsTheCpuDoes) {
  const auto packets = random_slots(21, 6000);
  const Result cpu = run(packets, "math", {}, Chain::options(0));
  EXPECT_GT(cpu.account.rings, 1000u);
  for (const MailboxMemory mailbox : mailboxes) {
    PipelineOptions options;
    options.mailbox = mailbox;
    SCOPED_TRACE(static_cast<int>(mailbox));
    expect_same(run(packets, "math", maker(options), Chain::options(0)), cpu);
  }
}

TEST_F(GpuPipeline, AnyTrafficThroughAnyMailboxIsAnsweredAsTheCpuDoes) {
  const auto packets = random_traffic(31, 3000);
  const Result cpu = run(packets, "math", {});
  for (const MailboxMemory mailbox : mailboxes) {
    PipelineOptions options;
    options.mailbox = mailbox;
    SCOPED_TRACE(static_cast<int>(mailbox));
    expect_same(run(packets, "math", maker(options)), cpu);
  }
}

TEST_F(GpuPipeline, EveryAlgorithmAnswersAsTheCpuDoes) {
  const auto packets = generated(100);
  for (const std::string& name : kernel_names()) {
    SCOPED_TRACE(name);
    const Result cpu = run(packets, name.c_str(), {});
    for (const Mode mode : {Mode::persistent, Mode::launch}) {
      PipelineOptions options;
      options.mode = mode;
      SCOPED_TRACE(name_of(mode));
      expect_same(run(packets, name.c_str(), maker(options)), cpu);
    }
  }
}

TEST_F(GpuPipeline, AnyTrafficIsAnsweredAsTheCpuDoes) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    const auto packets = random_traffic(seed, 1000);
    const Result cpu = run(packets, "math", {});
    EXPECT_GT(cpu.account.duplicate_hits, 100u);
    for (const Mode mode : modes) {
      PipelineOptions options;
      options.mode = mode;
      SCOPED_TRACE(name_of(mode));
      expect_same(run(packets, "math", maker(options)), cpu);
    }
  }
}

TEST_F(GpuPipeline, UsualTrafficIsAnsweredAsTheCpuDoes) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    const auto packets = usual_traffic(seed, 1000);
    const Result cpu = run(packets, "math", {});
    EXPECT_GT(cpu.sent.size(), 900u);
    for (const Mode mode : modes) {
      PipelineOptions options;
      options.mode = mode;
      SCOPED_TRACE(name_of(mode));
      expect_same(run(packets, "math", maker(options)), cpu);
    }
  }
}

card::ClopOptions merging() {
  auto clop = Chain::options();
  clop.merge = true;
  return clop;
}

TEST_F(GpuPipeline, MergedFramesAreAnsweredAsTheCpuDoes) {
  for (const auto& packets : {generated(3000), usual_traffic(41, 2000), random_traffic(42, 1000)}) {
    const Result segments = run(packets, "math", {}), cpu = run(packets, "math", {}, merging());
    expect_same(cpu, segments);
    for (const MailboxMemory mailbox : mailboxes) {
      PipelineOptions options;
      options.merged_buffers = true;
      options.mailbox = mailbox;
      SCOPED_TRACE(static_cast<int>(mailbox));
      expect_same(run(packets, "math", maker(options), merging()), cpu);
    }
  }
}

TEST_F(GpuPipeline, MergedFramesForEveryAlgorithm) {
  const auto packets = generated(100);
  for (const std::string& name : kernel_names()) {
    SCOPED_TRACE(name);
    const Result cpu = run(packets, name.c_str(), {}, merging());
    PipelineOptions options;
    options.merged_buffers = true;
    expect_same(run(packets, name.c_str(), maker(options), merging()), cpu);
  }
}

TEST_F(GpuPipeline, MergedFramesAfterStopsAndOnTwoQueues) {
  const auto packets = usual_traffic(43, 6000);
  auto clop = merging();
  const Result cpu = run(packets, "math", {}, clop);
  PipelineOptions options;
  options.merged_buffers = true;
  expect_same(run(packets, "math", maker(options), clop, 5000), cpu);
  clop.devices = 2;
  expect_same(run(packets, "math", maker(options), clop), cpu);
}

TEST_F(GpuPipeline, GatherModePackets) {
  auto clop = Chain::options();
  clop.gather = contract::Gather::packets;
  clop.packets = 20;
  clop.buffers = 256;
  const auto packets = generated(500);
  const Result cpu = run(packets, "math", {}, clop);
  for (const Mode mode : modes) {
    PipelineOptions options;
    options.mode = mode;
    SCOPED_TRACE(name_of(mode));
    expect_same(run(packets, "math", maker(options), clop), cpu);
  }
}

// New conditions in each burst; more bursts than the GPU keeps tables for.
class GpuPipelineOfBoards : public GpuPipeline, public ::testing::WithParamInterface<unsigned> {};

TEST_P(GpuPipelineOfBoards, ConditionsAndDownscalingAreThoseOfTheCpu) {
  constexpr Frame frames = 40;
  std::mt19937 random(13);
  std::vector<Bytes> packets;
  const auto clop = Chain::options(static_cast<std::uint8_t>(GetParam()));
  for (std::uint8_t burst = 0; burst < 20; ++burst) {
    if (GetParam() == 0) {
      const auto more = random_slots(burst, frames, burst);
      packets.insert(packets.end(), more.begin(), more.end());
      continue;
    }
    for (unsigned b = 0; b < 4; ++b) packets.push_back(trigger::mgp_marker(flag::sob, b, 0, 0, burst));
    for (Frame f = 0; f < frames; ++f)
      for (unsigned b = 0; b < 4; ++b)
        packets.push_back(
            trigger::mgp_packet(b, f, f + 1, trigger::random_events(random, b, 25), flag::last, 0, burst));
    for (unsigned b = 0; b < 4; ++b)
      packets.push_back(trigger::mgp_marker(flag::eob, b, frames - 1, frames + 1, burst));
  }
  const auto made = [](unsigned i) {
    trigger::Conditions c;
    for (unsigned pm = i; pm < pm_count; pm += 40) c.masked[pm] = 1;
    for (std::size_t pm = 0; pm < pm_count; ++pm) c.t0[pm] = static_cast<std::int16_t>((pm * i) % 300 - 150);
    return std::make_shared<trigger::Conditions>(c);
  };
  trigger::ProcessOptions process;
  process.downscale.factor = {2, 3, 1, 5};
  const auto run_bursts = [&](const trigger::ExecutorMaker& make, const card::ClopOptions& of) {
    const auto algorithm = rich::make_reconstructor("math", {}, rich::Geometry::make());
    trigger::ConditionsStore store(made(1));
    Chain chain(of, *algorithm, 1, process, make, &store);
    const std::size_t per_burst = packets.size() / 20;
    for (std::size_t i = 0; i < packets.size(); ++i) {
      if (i % per_burst == per_burst / 2) store.offer(made(static_cast<unsigned>(2 + i / per_burst)));
      chain.packet(packets[i]);
      // An executor that lags by more bursts than the store keeps uses other conditions; this is correct.
      while (chain.stream().table().end - chain.stream().table().next > 5 * frames) {
        chain.turn();
        std::this_thread::yield();
      }
    }
    chain.drain();
    Result result{chain.sent(), chain.account(), 0, chain.executor().figures()};
    for (const trigger::Physics* p : chain.executor().physics())
      for (unsigned r = 1; r <= rich::max_rings; ++r) result.rings += r * p->rings_per_event[r];
    EXPECT_EQ(store.changes(), 19u);
    return result;
  };
  const Result cpu = run_bursts({}, clop);
  EXPECT_GT(cpu.account.masked_hits, 1000u);
  EXPECT_GT(cpu.account.downscaled[0] + cpu.account.downscaled[1], 1000u);
  for (const Mode mode : modes) {
    PipelineOptions options;
    options.mode = mode;
    SCOPED_TRACE(name_of(mode));
    expect_same(run_bursts(maker(options), clop), cpu);
  }
  if (GetParam() == 0) return;
  auto merging = clop;
  merging.merge = true;
  PipelineOptions options;
  options.merged_buffers = true;
  expect_same(run_bursts(maker(options), merging), cpu);
}

INSTANTIATE_TEST_SUITE_P(Boards, GpuPipelineOfBoards, ::testing::Values(0xFu, 0u));

TEST_F(GpuPipeline, StopsAndStartsAgain) {
  const auto packets = random_traffic(9, 400);
  const Result cpu = run(packets, "math", {});
  for (const Mode mode : modes) {
    PipelineOptions options;
    options.mode = mode;
    SCOPED_TRACE(name_of(mode));
    const Result again = run(packets, "math", maker(options), Chain::options(), 311);
    expect_same(again, cpu);
    EXPECT_EQ(again.figures.at("gpu_faults"), 0);
  }
}

TEST_F(GpuPipeline, MoreFramesThanBuffersAndTwoQueues) {
  const auto packets = random_traffic(10, 9000);
  const Result cpu = run(packets, "math", {});
  PipelineOptions options;
  options.blocks = 20;
  expect_same(run(packets, "math", maker(options)), cpu);
  auto clop = Chain::options();
  clop.devices = 2;  // both on one GPU if there is only one
  expect_same(run(packets, "math", maker(options), clop), cpu);
}

TEST_F(GpuPipeline, AStalledGpuIsReplacedByTheCpu) {
  const auto packets = random_traffic(11, 1000);
  const Result cpu = run(packets, "math", {});
  PipelineOptions options;
  options.injection = {Injection::Kind::hang, 300};
  const Result over = run(packets, "math", maker(options));
  expect_same(over, cpu);
  EXPECT_EQ(over.figures.at("gpu_faults"), 1);
  EXPECT_EQ(over.figures.at("gpu_lost"), 1);
}

// A card with GPUDirect receives this descriptor; not every driver exports one.
TEST_F(GpuPipeline, MemoryForACardThatWritesToTheGpu) {
  DeviceRegionAllocator place(0);
  contract::Shape shape;
  shape.buffers = shape.descriptors = 64;
  shape.events = 256;
  const contract::Memory memory(shape, place);
  EXPECT_FALSE(place.cpu_accessible());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.region()) % 4096, 0u);
  const int fd = place.dma_buf();
  RecordProperty("dma_buf", fd);
  std::printf("dma-buf: %s\n", fd >= 0 ? "exported" : "not to be had from this driver");
  if (fd >= 0) {
    EXPECT_EQ(close(fd), 0);
  }
}

// The fault destroys the context: a separate process.
TEST_F(GpuPipeline, AFaultingKernelIsReplacedByTheCpu) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto child = [] {
    const auto packets = random_traffic(12, 1000);
    const Result cpu = run(packets, "math", {});
    PipelineOptions options;
    options.injection = {Injection::Kind::fault, 300};
    const Result over = run(packets, "math", maker(options));
    const bool right = over.sent == cpu.sent && over.account.balances() && over.figures.at("gpu_faults") == 1;
    std::fprintf(stderr, right ? "taken over\n" : "wrong\n");
    std::_Exit(right ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "taken over");
}

// Conditions: some masked PMs, a time offset for each PM.
std::shared_ptr<const trigger::Conditions> some_conditions() {
  trigger::Conditions c;
  for (unsigned pm = 5; pm < pm_count; pm += 7) c.masked[pm] = 1;
  for (std::size_t pm = 0; pm < pm_count; ++pm) c.t0[pm] = static_cast<std::int16_t>(pm % 200) - 100;
  return std::make_shared<trigger::Conditions>(c);
}

// kind none: on the CPU. Otherwise the second half of the packets follows after recovery.
Result run_until_back(const std::vector<Bytes>& packets, Injection::Kind kind, const char* algorithm,
                      std::uint32_t devices, bool merge = false) {
  const auto reconstructor = rich::make_reconstructor(algorithm, {}, rich::Geometry::make());
  auto clop = Chain::options();
  clop.devices = devices;
  clop.merge = merge;
  clop.allocator = &os::shared_allocator();
  PipelineOptions options;
  options.merged_buffers = merge;
  options.injection = {kind, 300};
  if (kind == Injection::Kind::fault) options.stall = 500'000;  // lost before the driver reports the fault
  options.recovery.command = {RECOVERY_PROGRAM};
  options.recovery.algorithm = algorithm;
  trigger::ProcessOptions process;
  process.downscale.factor = {1, 2, 1, 1};
  trigger::ConditionsStore store(some_conditions());
  const bool cpu = kind == Injection::Kind::none;
  Chain chain(clop, *reconstructor, 1, process, cpu ? trigger::ExecutorMaker{} : maker(options), &store);
  for (std::size_t i = 0; i < packets.size(); ++i) {
    for (int ms = 0; !cpu && i == packets.size() / 2 && ms < 60'000; ++ms) {
      chain.turn();
      if (const auto figures = chain.executor().figures();
          figures.at("gpu_recoveries") == 1 && figures.at("gpu_lost") == 0)
        break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    chain.packet(packets[i]);
  }
  chain.drain();
  return {chain.sent(), chain.account(), 0, chain.executor().figures()};
}

bool right(const Result& back, const Result& cpu) {
  for (const auto& [name, value] : back.figures) std::fprintf(stderr, "%s %g\n", name.c_str(), value);
  return back.sent == cpu.sent && back.account.balances() && cpu.account.masked_hits > 1000 &&
         back.account.masked_hits == cpu.account.masked_hits && back.figures.at("gpu_faults") == 1 &&
         back.figures.at("gpu_recoveries") == 1 && back.figures.at("gpu_lost") == 0;
}

TEST_F(GpuPipeline, AStalledGpuReturnsInASeparateProcess) {
  const auto packets = random_traffic(14, 2000);
  const Result cpu = run_until_back(packets, Injection::Kind::none, "math", 1);
  for (const std::uint32_t devices : {1u, 2u})
    EXPECT_TRUE(right(run_until_back(packets, Injection::Kind::hang, "math", devices), cpu));
}

TEST_F(GpuPipeline, AStalledGpuTakesMergedFramesAgain) {
  const auto packets = usual_traffic(16, 2000);
  const Result cpu = run_until_back(packets, Injection::Kind::none, "math", 1, true);
  EXPECT_TRUE(right(run_until_back(packets, Injection::Kind::hang, "math", 1, true), cpu));
}

TEST_F(GpuPipeline, AFaultedGpuReturnsInASeparateProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto child = [] {
    const auto packets = random_traffic(15, 2000);
    const bool back = right(run_until_back(packets, Injection::Kind::fault, "tripl", 1),
                            run_until_back(packets, Injection::Kind::none, "tripl", 1));
    std::fprintf(stderr, back ? "came back\n" : "wrong\n");
    std::_Exit(back ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "came back");
}

}  // namespace
}  // namespace nanet::gpu
