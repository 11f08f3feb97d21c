// SPDX-License-Identifier: Apache-2.0
// Device library for RDMA on GPUs: kernels, emulated cards, copy engine. Two nodes on one GPU; with a second
// GPU, also one on each.
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "nanet/gpu/memory.hpp"
#include "nanet/gpu/rdma/cases_test.hpp"
#include "nanet/gpu/rdma/gpu_nodes.cuh"

namespace nanet::gpu {
namespace {

struct Script {
  const Step* steps;
  unsigned count, room;
  Outcome* outcomes;
  unsigned* made;
};

__global__ void play(const Rdma rdma, const Script* scripts) {
  __shared__ RdmaWork work;
  __shared__ RdmaEvent event;
  const Script& s = scripts[blockIdx.x];
  run_script(rdma, work, event, s.steps, s.count, s.outcomes, s.room, *s.made);
}

enum class Where { one_gpu, two_gpus, host_memory };

template <Where where>
class GpuMachine {
 public:
  using Nodes = GpuRdma;
  explicit GpuMachine(const RdmaOptions& options)
      : nodes_(placed(options)), arena_(pinned_array<std::byte>(room)) {
    for (unsigned n = 0; n < nodes_.nodes(); ++n) {
      require(cudaSetDevice(nodes_.gpu(n)), "GPU");
      streams_.push_back(stream());
    }
  }
  ~GpuMachine() {
    nodes_.stop();
    for (void* at : device_) cudaFree(at);
    for (void* at : host_) cudaFreeHost(at);
  }
  GpuMachine(const GpuMachine&) = delete;
  GpuMachine& operator=(const GpuMachine&) = delete;

  std::byte* allocate(unsigned node, std::size_t bytes) {
    void* at = nullptr;
    require(cudaSetDevice(nodes_.gpu(node)), "GPU");
    if (where == Where::host_memory && node == 1) {
      require(cudaHostAlloc(&at, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "host memory");
      host_.push_back(at);
    } else {
      require(cudaMalloc(&at, bytes), "GPU memory");
      device_.push_back(at);
    }
    return static_cast<std::byte*>(at);
  }
  RdmaKey register_memory(unsigned node, std::byte* at, std::size_t bytes,
                          std::uint8_t rights = read_and_write) {
    return nodes_.register_memory(node, at, bytes, rights);
  }
  void unregister_memory(unsigned node, RdmaKey key) { nodes_.unregister_memory(node, key); }
  void write(std::byte* to, const cases::Bytes& from) { copy(to, from.data(), from.size()); }
  cases::Bytes read(const std::byte* from, std::size_t bytes) {
    cases::Bytes out(bytes);
    copy(out.data(), from, bytes);
    return out;
  }
  void start() { nodes_.start(); }
  RdmaCounters counters(unsigned node) { return nodes_.counters(node); }

  // As in HostMachine.
  std::vector<std::vector<Outcome>> run(const std::vector<cases::Block>& blocks,
                                        const std::function<cases::Block()>& last = nullptr,
                                        bool stop = false) {
    used_ = 0;
    std::vector<Script> scripts(blocks.size());
    for (unsigned n = nodes_.nodes(); n-- > 0;) {  // node 0 last: the others wait for it
      std::vector<std::size_t> mine;
      for (std::size_t b = 0; b < blocks.size(); ++b)
        if (blocks[b].node == n) mine.push_back(b);
      launch(n, blocks, mine, scripts);
    }
    finish(0);
    if (last) {
      std::vector<Script> one(1);
      launch(0, {last()}, {0}, one);
      finish(0);
    }
    if (stop) nodes_.stop();
    std::vector<std::vector<Outcome>> outcomes;
    for (unsigned n = 0; n < nodes_.nodes(); ++n) finish(n);
    for (const Script& s : scripts) outcomes.emplace_back(s.outcomes, s.outcomes + *s.made);
    return outcomes;
  }
  std::vector<std::vector<Outcome>> run_and_stop(const std::vector<cases::Block>& blocks) {
    return run(blocks, nullptr, true);
  }

 private:
  static constexpr std::size_t room = 128u << 20;

  static RdmaOptions placed(RdmaOptions options) {
    for (std::size_t n = 0; n < options.gpus.size(); ++n)
      options.gpus[n] = where == Where::two_gpus ? static_cast<int>(n % 2) : 0;
    return options;
  }
  template <class T>
  T* take(std::size_t entries) {
    const std::size_t bytes = (entries * sizeof(T) + 127) / 128 * 128;
    if (used_ + bytes > room) throw std::runtime_error("the test needs a larger arena");
    T* const at = reinterpret_cast<T*>(arena_.get() + used_);
    used_ += bytes;
    return at;
  }
  void launch(unsigned node, const std::vector<cases::Block>& blocks, const std::vector<std::size_t>& mine,
              std::vector<Script>& scripts) {
    if (mine.empty()) return;
    Script* const list = take<Script>(mine.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const std::vector<Step>& steps = blocks[mine[i]].steps;
      Step* const to = take<Step>(steps.size());
      std::copy(steps.begin(), steps.end(), to);
      const auto outcomes = static_cast<unsigned>(steps.size() + 10'000);
      list[i] = {to, static_cast<unsigned>(steps.size()), outcomes, take<Outcome>(outcomes),
                 take<unsigned>(1)};
      *list[i].made = 0;
      scripts[mine[i]] = list[i];
    }
    require(cudaSetDevice(nodes_.gpu(node)), "GPU");
    play<<<static_cast<unsigned>(mine.size()), 128, 0, streams_[node].get()>>>(nodes_.argument(node), list);
    require(cudaGetLastError(), "starting the blocks of a node");
  }
  // Waits for the blocks of a node; stops the cards if they wait for a lost event.
  void finish(unsigned node) {
    using namespace std::chrono;
    const auto until = steady_clock::now() + seconds(60);
    cudaError_t status = cudaErrorNotReady;
    while ((status = cudaStreamQuery(streams_[node].get())) == cudaErrorNotReady &&
           steady_clock::now() < until)
      std::this_thread::sleep_for(microseconds(100));
    if (status == cudaErrorNotReady) {
      ADD_FAILURE() << "the blocks of node " << node << " do not end";
      nodes_.stop();
      status = cudaStreamSynchronize(streams_[node].get());
    }
    require(status, "the blocks of a node");
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    require(cudaSetDevice(nodes_.gpu(0)), "GPU");
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, streams_[0].get()), "a copy");
    require(cudaStreamSynchronize(streams_[0].get()), "a copy");
  }

  GpuRdma nodes_;
  PinnedArray<std::byte> arena_;
  std::size_t used_ = 0;
  std::vector<Stream> streams_;
  std::vector<void*> device_, host_;
};

int gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

template <class Machine>
class GpuRdmaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus() == 0) GTEST_SKIP() << "no GPU";
    if (std::is_same_v<Machine, GpuMachine<Where::two_gpus>> && gpus() < 2)
      GTEST_SKIP() << "needs a second GPU";
  }
};
using Machines =
    testing::Types<GpuMachine<Where::one_gpu>, GpuMachine<Where::two_gpus>, GpuMachine<Where::host_memory>>;
struct Names {
  template <class Machine>
  static std::string GetName(int) {
    if (std::is_same_v<Machine, GpuMachine<Where::one_gpu>>) return "OneGpu";
    return std::is_same_v<Machine, GpuMachine<Where::two_gpus>> ? "TwoGpus" : "HostMemory";
  }
};
TYPED_TEST_SUITE(GpuRdmaTest, Machines, Names);

TYPED_TEST(GpuRdmaTest, TransfersOfAllSizesAndAlignments) {
  cases::transfers_of_all_sizes_and_alignments<TypeParam>(3000, 200'000);
}
TYPED_TEST(GpuRdmaTest, EventsHaveTheirFields) {
  cases::events_have_their_fields<TypeParam>();
}
TYPED_TEST(GpuRdmaTest, FaultsHaveNames) {
  cases::faults_have_names<TypeParam>();
}
TYPED_TEST(GpuRdmaTest, RingsWrapAround) {
  cases::rings_wrap_around<TypeParam>(4000);
}
TYPED_TEST(GpuRdmaTest, ANodeThatDoesNotReadStopsOnlyItsOwnEvents) {
  cases::a_node_that_does_not_read_stops_only_its_own_events<TypeParam>();
}
TYPED_TEST(GpuRdmaTest, BlocksShareANode) {
  cases::blocks_share_a_node<TypeParam>(8, 5, 500);
}
TYPED_TEST(GpuRdmaTest, StoppingEndsWaitingBlocks) {
  cases::stopping_ends_waiting_blocks<TypeParam>();
}
TYPED_TEST(GpuRdmaTest, RandomDescriptorsEndWithTheExpectedReason) {
  cases::random_descriptors_end_with_the_expected_reason<TypeParam>(5000);
}

// Many copies by the copy engine wait at once; small puts between them keep the order.
TYPED_TEST(GpuRdmaTest, TheCopyEngineKeepsTheOrder) {
  RdmaOptions options;
  options.copy_engine_from = 65536;
  TypeParam machine(options);
  constexpr std::size_t size = 1u << 20;
  std::byte* const here = machine.allocate(0, 2 * size);
  std::byte* const there = machine.allocate(1, size);
  machine.register_memory(0, here, 2 * size);
  const RdmaKey key = machine.register_memory(1, there, size);
  std::mt19937 random(21);
  const cases::Bytes first = cases::random_bytes(random, size), second = cases::random_bytes(random, size);
  machine.write(here, first);
  machine.write(here + size, second);
  machine.start();
  std::vector<Step> steps;
  for (unsigned i = 0; i < 200; ++i)
    steps.push_back(
        cases::signal_step(1, key, 0, here + (i % 2) * size, size, i, torus::put_flag::completed));
  steps.push_back(cases::signal_step(1, key, 3, here, 5, cases::last_mark));
  steps.push_back(cases::step(Step::Call::quiet));
  const auto outcomes = machine.run({{0, steps}, {1, {cases::until_step(cases::last_mark)}}});
  EXPECT_EQ(outcomes[0].back().yes, 1u);
  ASSERT_EQ(outcomes[1].size(), 201u);
  for (unsigned i = 0; i < 200; ++i) EXPECT_EQ(outcomes[1][i].event.immediate, i);
  cases::Bytes wanted = second;
  std::copy(first.begin(), first.begin() + 5, wanted.begin() + 3);
  EXPECT_TRUE(machine.read(there, size) == wanted);
  EXPECT_EQ(machine.counters(0).by_copy_engine, 200u);
}

TEST(GpuRdmaMemory, OnlyMemoryThatTheGpuReachesIsRegistered) {
  if (gpus() == 0) GTEST_SKIP() << "no GPU";
  GpuRdma nodes{RdmaOptions{}};
  const std::vector<std::byte> pageable(64);
  EXPECT_THROW(nodes.register_memory(0, pageable.data(), 64), std::invalid_argument);
  const DeviceArray<std::byte> device = device_array<std::byte>(4096);
  const PinnedArray<std::byte> pinned = pinned_array<std::byte>(4096);
  EXPECT_NO_THROW(nodes.register_memory(0, pinned.get(), 4096, -1, read_and_write));
  EXPECT_NO_THROW(nodes.register_memory(0, device.get(), 4096, 0, read_and_write));
  EXPECT_THROW(nodes.register_memory(0, pinned.get(), 4096, 0, read_and_write), std::invalid_argument);
  EXPECT_THROW(nodes.register_memory(0, device.get(), 4096, -1, read_and_write), std::invalid_argument);
  EXPECT_THROW(nodes.register_memory(0, device.get(), 0), std::invalid_argument);
  EXPECT_THROW(nodes.register_memory(0, device.get(), std::size_t{1} << 40), std::invalid_argument);
  nodes.start();
  nodes.stop();
  nodes.start();  // again
  // Freeing memory waits for kernels that stay resident.
  nodes.stop();
}

TEST(GpuRdmaMemory, AGpuThatIsNotThereIsRefused) {
  if (gpus() == 0) GTEST_SKIP() << "no GPU";
  RdmaOptions options;
  options.gpus = {0, 99};
  EXPECT_THROW(GpuRdma{options}, std::runtime_error);
  static_cast<void>(cudaGetLastError());
}

}  // namespace
}  // namespace nanet::gpu
