// SPDX-License-Identifier: Apache-2.0
// Device library for RDMA with a host thread per block and per emulated card.
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "nanet/contract/atomic.hpp"
#include "nanet/gpu/rdma/cases_test.hpp"
#include "nanet/gpu/rdma/host_nodes.hpp"

namespace nanet::gpu {
namespace {

class HostMachine {
 public:
  using Nodes = HostRdma;
  explicit HostMachine(const RdmaOptions& options) : nodes_(options) {}
  std::byte* allocate(unsigned, std::size_t bytes) {
    return memory_.emplace_back(new std::byte[bytes + 64]).get();
  }
  RdmaKey register_memory(unsigned node, std::byte* at, std::size_t bytes,
                          std::uint8_t rights = read_and_write) {
    return nodes_.register_memory(node, at, bytes, rights);
  }
  void unregister_memory(unsigned node, RdmaKey key) { nodes_.unregister_memory(node, key); }
  static void write(std::byte* to, const cases::Bytes& from) { std::memcpy(to, from.data(), from.size()); }
  static cases::Bytes read(const std::byte* from, std::size_t bytes) { return {from, from + bytes}; }
  void start() { nodes_.start(); }
  RdmaCounters counters(unsigned node) { return nodes_.counters(node); }

  // Outcomes of each block. last: a further block of node 0, after the end of its others.
  std::vector<std::vector<Outcome>> run(const std::vector<cases::Block>& blocks,
                                        const std::function<cases::Block()>& last = nullptr,
                                        bool stop = false) {
    std::vector<std::vector<Outcome>> outcomes(blocks.size());
    const std::jthread watchdog([this](const std::stop_token& done) {
      for (unsigned i = 0; i < 6000 && !done.stop_requested(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (!done.stop_requested()) nodes_.interrupt();  // blocks that wait for a lost event end
    });
    {
      std::vector<std::jthread> threads, first;
      for (std::size_t b = 0; b < blocks.size(); ++b)
        (blocks[b].node == 0 ? first : threads).emplace_back([&, b] { outcomes[b] = play(blocks[b]); });
      first.clear();  // joins
      if (last) play(last());
      if (stop) nodes_.stop();
    }
    return outcomes;
  }
  std::vector<std::vector<Outcome>> run_and_stop(const std::vector<cases::Block>& blocks) {
    return run(blocks, nullptr, true);
  }
  HostRdma& nodes() { return nodes_; }

 private:
  std::vector<Outcome> play(const cases::Block& block) {
    std::vector<Outcome> outcomes(block.steps.size() + 10'000);
    RdmaWork work;
    RdmaEvent event;
    unsigned made = 0;
    run_script(nodes_.argument(block.node), work, event, block.steps.data(),
               static_cast<unsigned>(block.steps.size()), outcomes.data(),
               static_cast<unsigned>(outcomes.size()), made);
    outcomes.resize(made);
    return outcomes;
  }

  std::vector<std::unique_ptr<std::byte[]>> memory_;
  HostRdma nodes_;  // ends before the memory that it uses
};

TEST(HostRdma, TransfersOfAllSizesAndAlignments) {
  cases::transfers_of_all_sizes_and_alignments<HostMachine>(2000, 100'000);
}
TEST(HostRdma, EventsHaveTheirFields) {
  cases::events_have_their_fields<HostMachine>();
}
TEST(HostRdma, FaultsHaveNames) {
  cases::faults_have_names<HostMachine>();
}
TEST(HostRdma, RingsWrapAround) {
  cases::rings_wrap_around<HostMachine>(4000);
}
TEST(HostRdma, ANodeThatDoesNotReadStopsOnlyItsOwnEvents) {
  cases::a_node_that_does_not_read_stops_only_its_own_events<HostMachine>();
}
TEST(HostRdma, BlocksShareANode) {
  cases::blocks_share_a_node<HostMachine>(4, 3, 1000);
}
TEST(HostRdma, StoppingEndsWaitingBlocks) {
  cases::stopping_ends_waiting_blocks<HostMachine>();
}
TEST(HostRdma, RandomDescriptorsEndWithTheExpectedReason) {
  cases::random_descriptors_end_with_the_expected_reason<HostMachine>(5000);
}

TEST(HostRdma, DoorbellCountsEntriesWithInlinePayload) {
  for (const bool shared : {false, true}) {
    RdmaOptions options;
    options.shared = shared;
    HostMachine machine(options);
    std::byte* const here = machine.allocate(0, 256);
    std::byte* const there = machine.allocate(1, 256);
    const RdmaKey key = machine.register_memory(1, there, 256);
    machine.start();
    machine.run({{0,
                  {cases::put_step(1, key, 0, here, 65, torus::put_flag::inline_payload),
                   cases::put_step(1, key, 0, here, 192, torus::put_flag::inline_payload),
                   cases::put_step(1, key, 0, nullptr, 0), cases::step(Step::Call::quiet)}}});
    EXPECT_EQ(contract::acquire(machine.nodes().control(0).doorbell), 3u + 4 + 1);
  }
}

TEST(HostRdma, DoorbellNeverGoesBack) {
  RdmaOptions options;
  options.shared = true;
  options.entries = 16;
  HostMachine machine(options);
  std::byte* const here = machine.allocate(0, 256);
  std::byte* const there = machine.allocate(1, 256);
  const RdmaKey key = machine.register_memory(1, there, 256);
  machine.start();
  const std::uint32_t& doorbell = machine.nodes().control(0).doorbell;
  std::uint32_t back = 0;
  {
    const std::jthread monitor([&](const std::stop_token& done) {
      for (std::uint32_t last = 0; !done.stop_requested();) {
        const std::uint32_t now = contract::acquire(doorbell);
        back += now < last;
        last = now;
      }
    });
    std::vector<Step> steps;
    for (unsigned i = 0; i < 1000; ++i)
      steps.push_back(cases::put_step(1, key, 0, here, 1 + i % 192, torus::put_flag::inline_payload));
    machine.run({{0, steps}, {0, steps}, {0, steps}, {0, steps}});
  }
  EXPECT_EQ(back, 0u);
  std::uint32_t entries = 0;
  for (unsigned i = 0; i < 1000; ++i) entries += 4 * (1 + (1 + i % 192 + 63) / 64);
  EXPECT_EQ(contract::acquire(doorbell), entries);
}

TEST(HostRdma, BadOptionsAndRangesAreRefused) {
  const auto options = [](auto change) {
    RdmaOptions o;
    change(o);
    return o;
  };
  EXPECT_THROW(HostRdma(options([](RdmaOptions& o) { o.gpus.clear(); })), std::invalid_argument);
  EXPECT_THROW(HostRdma(options([](RdmaOptions& o) { o.gpus.resize(17); })), std::invalid_argument);
  EXPECT_THROW(HostRdma(options([](RdmaOptions& o) { o.entries = 12; })), std::invalid_argument);
  EXPECT_THROW(HostRdma(options([](RdmaOptions& o) { o.events = 2; })), std::invalid_argument);
  EXPECT_THROW(HostRdma(options([](RdmaOptions& o) { o.buffers = 33; })), std::invalid_argument);
  EXPECT_THROW(HostRdma(options([](RdmaOptions& o) { o.buffers = 1024; })), std::invalid_argument);
  HostRdma nodes(options([](RdmaOptions& o) { o.buffers = 32; }));
  std::byte some[64];
  EXPECT_THROW(nodes.register_memory(0, some, 0), std::invalid_argument);
  EXPECT_THROW(nodes.register_memory(0, some, std::size_t{1} << 48), std::invalid_argument);
  EXPECT_THROW(nodes.unregister_memory(0, 1), std::invalid_argument);
  RdmaKey key = 0;
  for (unsigned i = 0; i < 32; ++i) key = nodes.register_memory(1, some + i, 1);
  EXPECT_THROW(nodes.register_memory(1, some, 1), std::length_error);
  nodes.unregister_memory(1, key);
  EXPECT_EQ(nodes.register_memory(1, some, 64),
            reinterpret_cast<std::uintptr_t>(some) | std::uint64_t{2} << 48);
}

}  // namespace
}  // namespace nanet::gpu
