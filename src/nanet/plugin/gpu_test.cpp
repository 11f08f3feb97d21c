// SPDX-License-Identifier: Apache-2.0
// Tests of plug-ins on a GPU: same bytes as the CPU, from every executor and from the batch kernel.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "nanet/gpu/batch/reconstructor.hpp"
#include "nanet/gpu/device.hpp"
#include "nanet/gpu/pipeline.hpp"
#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::plugin {
namespace {

using trigger::Bytes;
using trigger::Chain;

class PluginOnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const gpu::Devices found = gpu::devices();
    if (found.found.empty()) GTEST_SKIP() << "no GPU: " << found.trouble;
    const char* const elsewhere = std::getenv("NANET_PLUGIN_DIR");  // for runs without the build folder
    const std::string folder = elsewhere ? elsewhere : PLUGIN_DIR;
    algorithm_ = rich::make_reconstructor(folder + "/test_gpu_" + GetParam() + ".so", {}, geometry_);
  }
  rich::Geometry geometry_ = rich::Geometry::make();
  std::unique_ptr<rich::Reconstructor> algorithm_;
};

std::vector<Bytes> traffic(Frame frames) {
  std::mt19937 random(17);
  std::vector<Bytes> out;
  for (Frame f = 0; f < frames; ++f)
    for (unsigned b = 0; b < 4; ++b)
      out.push_back(
          trigger::mgp_packet(b, f, f + 1, trigger::random_events(random, b, 25), wire::mgp::flag::last));
  return out;
}

struct Result {
  Chain::Packets sent;
  trigger::Account account;
  double faults = 0;
};

Result run(const std::vector<Bytes>& packets, const rich::Reconstructor& algorithm,
           const trigger::ExecutorMaker& make) {
  Chain chain(Chain::options(), algorithm, 1, {}, make);
  for (const Bytes& packet : packets) chain.packet(packet);
  chain.drain();
  const auto figures = chain.executor().figures();
  return {chain.sent(), chain.account(), figures.contains("gpu_faults") ? figures.at("gpu_faults") : 0};
}

TEST_P(PluginOnGpu, EveryExecutorAnswersAsTheCpu) {
  const auto packets = traffic(1000);
  const Result cpu = run(packets, *algorithm_, {});
  EXPECT_TRUE(cpu.account.balances());
  EXPECT_GT(cpu.account.primitives_out, 20'000u);
  for (const auto mode : {gpu::Mode::persistent, gpu::Mode::launch}) {
    SCOPED_TRACE(gpu::name_of(mode));
    gpu::PipelineOptions options;
    options.mode = mode;
    const Result gpu = run(packets, *algorithm_, gpu::Pipeline::maker(options));
    EXPECT_TRUE(gpu.account.balances());
    EXPECT_EQ(gpu.faults, 0);
    EXPECT_EQ(gpu.account.rings, cpu.account.rings);
    ASSERT_EQ(gpu.sent.size(), cpu.sent.size());
    for (std::size_t i = 0; i < cpu.sent.size(); ++i) ASSERT_EQ(gpu.sent[i], cpu.sent[i]) << "packet " << i;
  }
}

TEST_P(PluginOnGpu, BatchesGiveTheSameBits) {
  std::mt19937 random(18);
  std::vector<std::uint32_t> first{0};
  std::vector<PmId> pm;
  constexpr std::uint32_t events = 40'000;  // spans several launches
  for (std::uint32_t e = 0; e < events; ++e) {
    const auto step = 1 + static_cast<unsigned>(random() % 400);
    for (unsigned p = static_cast<unsigned>(random() % step); p < pm_count && pm.size() - first.back() < 128;
         p += step)
      pm.push_back(static_cast<PmId>(p));
    first.push_back(static_cast<std::uint32_t>(pm.size()));
  }
  std::vector<rich::Rings> cpu(events), gpu(events);
  (*algorithm_)({events, first.data(), pm.data()}, cpu.data());
  const auto on_device = gpu::make_reconstructor(*algorithm_, geometry_, 0);
  (*on_device)({events, first.data(), pm.data()}, gpu.data());
  ASSERT_EQ(on_device->failed(), nullptr);
  unsigned decided = 0, rings = 0;
  for (std::uint32_t e = 0; e < events; ++e) {
    ASSERT_EQ(gpu[e].primitive, cpu[e].primitive) << e;
    ASSERT_EQ(gpu[e].count, cpu[e].count) << e;
    for (unsigned r = 0; r < cpu[e].count; ++r) ASSERT_EQ(gpu[e].ring[r].r, cpu[e].ring[r].r) << e;
    decided += cpu[e].primitive != 0;
    rings += cpu[e].count;
  }
  EXPECT_EQ(decided, std::strcmp(GetParam(), "multiplicity") == 0 ? events : 0u);
  EXPECT_EQ(rings > 0, std::strcmp(GetParam(), "wide") == 0);
}

INSTANTIATE_TEST_SUITE_P(Gpu, PluginOnGpu, testing::Values("multiplicity", "wide"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace nanet::plugin
