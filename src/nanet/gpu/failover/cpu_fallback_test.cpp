// SPDX-License-Identifier: Apache-2.0
// CPU fallback after a stop between claim and finish of an entry: packets equal those of a CPU executor byte
// for byte. A host executor that stops replaces the GPU.
#include "nanet/gpu/failover/cpu_fallback.hpp"

#include <gtest/gtest.h>

#include "nanet/contract/consumer.hpp"
#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::gpu {
namespace {

using trigger::Bytes;

// State of the last claimed frame at the stop.
enum class Left { untouched, posted, returned };

class Mortal final : public trigger::Executor {
 public:
  Mortal(Left left, std::uint64_t frames, bool wanted, const trigger::ExecutorOptions& options,
         std::vector<contract::View> views, const rich::Reconstructor& algorithm, trigger::TraceTable& traces)
      : left_(left),
        frames_(frames),
        fallback_(wanted, options, views, algorithm, traces),
        process_(views[0].shape, algorithm.clone(), options.process),
        traces_(traces),
        next_(views.size(), 0),
        views_(std::move(views)) {}

  std::string_view name() const noexcept override { return "mortal"; }
  void start() override {}
  void stop() noexcept override { fallback_.stop(); }
  bool event_overrun() const noexcept override { return false; }
  std::string trouble() const override { return fallback_.trouble(); }
  std::vector<const trigger::Physics*> physics() const override {
    std::vector<const trigger::Physics*> all{&process_.physics()};
    fallback_.append_physics(all);
    return all;
  }
  std::map<std::string, double> figures() const override {
    std::map<std::string, double> all;
    fallback_.append_figures(all);
    return all;
  }
  bool poll() noexcept override {
    if (fallback_.lost()) return false;
    for (std::size_t d = 0; d < views_.size(); ++d) {
      contract::Event event;
      while (contract::poll_event(views_[d], next_[d], event) == contract::Poll::event) {
        if (event.type == static_cast<std::uint8_t>(contract::EventType::receive_done) &&
            !answer(views_[d], event)) {
          EXPECT_TRUE(fallback_.lose("it died"));
          EXPECT_FALSE(fallback_.lose("once more"));
          fallback_.activate();
          fallback_.activate();
          return true;
        }
        contract::release(*views_[d].finished, ++next_[d]);
      }
    }
    return true;
  }

 private:
  // False: stopped before the end.
  bool answer(const contract::View& view, const contract::Event& event) {
    const bool last = frames_-- == 0;
    if (last && left_ == Left::untouched) return false;
    const std::uint64_t n = event.n;
    trigger::Trace& trace = traces_[n];
    const std::uint32_t bytes = process_(view, event, n, trace);
    contract::post(view, n, view.send_buffer(event.buffer), bytes, 0, event.buffer);
    if (last && left_ == Left::posted) return false;
    contract::return_buffer(view, n);
    return !last;
  }

  const Left left_;
  std::uint64_t frames_;
  CpuFallback fallback_;
  trigger::FrameProcessor process_;
  trigger::TraceTable& traces_;
  std::vector<std::uint64_t> next_;
  std::vector<contract::View> views_;
};

struct Result {
  trigger::Chain::Packets sent;
  trigger::Account account;
  std::map<std::string, double> figures;
  std::string trouble;
};

Result run(const std::vector<Bytes>& packets, std::uint32_t devices, const trigger::ExecutorMaker& make) {
  const auto algorithm = rich::make_reconstructor("math", {}, rich::Geometry::make());
  auto options = trigger::Chain::options();
  options.devices = devices;
  trigger::Chain chain(options, *algorithm, 1, {}, make);
  for (const Bytes& packet : packets) chain.packet(packet);
  chain.drain();
  return {chain.sent(), chain.account(), chain.executor().figures(), chain.executor().trouble()};
}

TEST(CpuFallback, EveryFrameIsAnsweredAsByACpuAlone) {
  const auto packets = trigger::random_burst(11, 200);
  for (const std::uint32_t devices : {1u, 2u}) {
    const Result alone = run(packets, devices, {});
    ASSERT_EQ(alone.sent.size(), 200u);
    for (const Left left : {Left::untouched, Left::posted, Left::returned})
      for (const std::uint64_t after : {0u, 1u, 77u, 199u}) {
        const Result died =
            run(packets, devices, [&](const auto& execute, auto views, const auto& algorithm, auto& traces) {
              return std::make_unique<Mortal>(left, after, true, execute, std::move(views), algorithm,
                                              traces);
            });
        EXPECT_EQ(died.sent, alone.sent) << "after " << after << " left " << static_cast<int>(left);
        EXPECT_TRUE(died.account.balances());
        EXPECT_EQ(died.account.frames_answered, 200u);
        EXPECT_EQ(died.figures.at("gpu_lost"), 1.0);
        EXPECT_EQ(died.figures.at("gpu_faults"), 2.0);
        EXPECT_EQ(died.trouble, "it died");
      }
  }
}

}  // namespace
}  // namespace nanet::gpu
