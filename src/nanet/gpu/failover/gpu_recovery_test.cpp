// SPDX-License-Identifier: Apache-2.0
// GPU recovery process under failures: packets equal those of a CPU executor byte for byte. A CPU replaces
// the device; the process is real.
#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <sstream>

#include "nanet/gpu/failover/failover.hpp"
#include "nanet/os/region_allocator.hpp"
#include "nanet/trigger/chain_test.hpp"
#include "nanet/trigger/traffic_test.hpp"

namespace nanet::gpu {
namespace {

using trigger::Bytes;
using trigger::Chain;

RecoveryOptions recovery_options() {
  RecoveryOptions recovery;
  recovery.command = {RECOVERY_PROGRAM};
  recovery.algorithm = "math";
  recovery.device = -1;
  recovery.pause = 1'000'000;
  return recovery;
}

// A device that fails at its start.
class Lost final : public trigger::Executor {
 public:
  Lost(const RecoveryOptions& recovery, const trigger::ExecutorOptions& execute,
       const std::vector<contract::View>& views, const rich::Reconstructor& algorithm,
       trigger::TraceTable& traces)
      : failover_({true, recovery}, execute, views, algorithm, traces) {}
  ~Lost() override { stop(); }
  std::string_view name() const noexcept override { return "lost"; }
  void start() override {
    if (!failover_.lost()) failover_.lose("it was lost");
    failover_.take_over([looks = 0]() mutable { return ++looks > 2; });
  }
  void stop() noexcept override { failover_.stop(); }
  bool event_overrun() const noexcept override { return failover_.event_overrun(); }
  std::string trouble() const override { return failover_.trouble(); }
  std::vector<const trigger::Physics*> physics() const override {
    std::vector<const trigger::Physics*> all;
    failover_.append_physics(all);
    return all;
  }
  std::map<std::string, double> figures() const override {
    std::map<std::string, double> all;
    failover_.append_figures(all);
    return all;
  }
  bool possible() const { return failover_.can_recover(); }

 private:
  Failover failover_;
};

// Recovery processes that are children of this process.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  DIR* const tasks = opendir("/proc/self/task");
  if (!tasks) return found;
  while (const dirent* entry = readdir(tasks)) {  // NOLINT(concurrency-mt-unsafe): of this thread
    std::ifstream list(std::string("/proc/self/task/") + entry->d_name + "/children");
    for (pid_t pid = 0; list >> pid;) found.push_back(pid);
  }
  closedir(tasks);
  return found;
}

bool wait_for(const std::function<bool()>& what) {
  for (int i = 0; i < 20'000; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

struct Result {
  Chain::Packets sent;
  trigger::Account account;
  std::map<std::string, double> figures;
  std::string trouble;
  std::uint64_t monitored = 0;  // events in the monitor's counts
};

// meanwhile(chain, i): called before packet i.
Result run(const std::vector<Bytes>& packets, std::uint32_t devices, const trigger::ExecutorMaker& make,
           const std::function<void(Chain&, std::size_t)>& meanwhile = {}) {
  const auto algorithm = rich::make_reconstructor("math", {}, rich::Geometry::make());
  auto options = Chain::options();
  options.devices = devices;
  options.buffers = 512;
  options.allocator = &os::shared_allocator();
  Chain chain(options, *algorithm, 1, {}, make);
  for (std::size_t i = 0; i < packets.size(); ++i) {
    if (meanwhile) meanwhile(chain, i);
    chain.packet(packets[i]);
  }
  chain.drain();
  Result result{chain.sent(), chain.account(), chain.executor().figures(), chain.executor().trouble()};
  for (const trigger::Physics* p : chain.executor().physics())
    for (const auto& count : p->rings_per_event) result.monitored += count;
  return result;
}

trigger::ExecutorMaker lost(const RecoveryOptions& recovery) {
  return [recovery](const auto& execute, const auto& views, const auto& algorithm, auto& traces) {
    return std::make_unique<Lost>(recovery, execute, views, algorithm, traces);
  };
}

// Number of times the device has started to work.
void expect_at_work(Chain& chain, double returns) {
  EXPECT_TRUE(wait_for([&] {
    chain.turn();
    const auto figures = chain.executor().figures();
    return figures.at("gpu_recoveries") == returns && figures.at("gpu_lost") == 0;
  })) << chain.executor().trouble();
}

TEST(GpuRecovery, ADeviceInAnotherProcessAnswersAsACpuAlone) {
  const auto packets = trigger::random_burst(19, 600);
  for (const std::uint32_t devices : {1u, 2u}) {
    const Result alone = run(packets, devices, {});
    const Result back = run(packets, devices, lost(recovery_options()), [&](Chain& chain, std::size_t i) {
      if (i == 1000) expect_at_work(chain, 1);
    });
    ASSERT_EQ(back.sent.size(), 600u);
    EXPECT_EQ(back.sent, alone.sent);
    EXPECT_TRUE(back.account.balances());
    EXPECT_EQ(back.figures.at("gpu_faults"), 1.0);
    EXPECT_EQ(back.figures.at("gpu_recoveries"), 1.0);
    EXPECT_EQ(back.figures.at("gpu_lost"), 0.0);
    EXPECT_GT(back.figures.at("gpu_fallback_s"), 0.0);
    EXPECT_EQ(back.trouble, "it was lost");
    EXPECT_EQ(back.monitored, back.account.events_built);
  }
  EXPECT_TRUE(children().empty());
}

TEST(GpuRecovery, AKilledProcessLosesNothingAndIsReplaced) {
  const auto packets = trigger::random_burst(19, 3000);
  const Result alone = run(packets, 1, {});
  double returns = 0;
  const Result killed = run(packets, 1, lost(recovery_options()), [&](Chain& chain, std::size_t i) {
    if (i % 2500 == 0) {
      expect_at_work(chain, ++returns);
    } else if (i % 2500 == 1500) {  // during its work: the packets
      const auto processes = children();
      ASSERT_EQ(processes.size(), 1u);
      kill(processes[0], SIGKILL);
    }
  });
  ASSERT_EQ(killed.sent.size(), 3000u);
  EXPECT_EQ(killed.sent, alone.sent);
  EXPECT_TRUE(killed.account.balances());
  EXPECT_EQ(killed.account.frames_answered, 3000u);
  EXPECT_EQ(killed.figures.at("gpu_recoveries"), returns);
  EXPECT_EQ(killed.figures.at("gpu_faults"), returns + 1);
  EXPECT_NE(killed.trouble.find("signal 9"), std::string::npos) << killed.trouble;
  EXPECT_TRUE(children().empty());
}

TEST(GpuRecovery, CountsStayWhenItIsLostAgainAndAgain) {
  const auto packets = trigger::random_burst(19, 1200);
  const Result alone = run(packets, 1, {});
  double times = 0;
  RecoveryOptions missing = recovery_options();
  missing.command = {"/nowhere/at/all"};  // the CPU answers everything
  const Result often = run(packets, 1, lost(missing), [&](Chain& chain, std::size_t i) {
    if (i % 400 != 399) return;
    chain.restart();  // a different executor continues each time
    ++times;
  });
  EXPECT_GE(times, 12);
  EXPECT_EQ(often.sent, alone.sent);
  EXPECT_EQ(often.monitored, often.account.events_built);
}

TEST(GpuRecovery, AStalledProcessIsReplaced) {
  const auto packets = trigger::random_burst(19, 300);
  const Result alone = run(packets, 1, {});
  const Result stood = run(packets, 1, lost(recovery_options()), [&](Chain& chain, std::size_t i) {
    if (i == 100) expect_at_work(chain, 1);
    if (i == 600) {
      for (const pid_t process : children()) kill(process, SIGSTOP);
      EXPECT_TRUE(wait_for([&] { return chain.executor().figures().at("gpu_faults") == 2; }));
    }
  });
  EXPECT_EQ(stood.sent, alone.sent);
  EXPECT_TRUE(stood.account.balances());
  EXPECT_TRUE(children().empty());
}

TEST(GpuRecovery, StopsAndStartsAgain) {
  const auto packets = trigger::random_burst(19, 400);
  const Result alone = run(packets, 1, {});
  const Result again = run(packets, 1, lost(recovery_options()), [&](Chain& chain, std::size_t i) {
    if (i == 400 || i == 1200) expect_at_work(chain, i == 400 ? 1 : 2);
    if (i == 800) chain.restart();
  });
  EXPECT_EQ(again.sent, alone.sent);
  EXPECT_EQ(again.figures.at("gpu_faults"), 1.0);
  EXPECT_EQ(again.monitored, again.account.events_built);
}

TEST(GpuRecovery, AFailingProcessReportsWhyAndTheCpuContinues) {
  const auto packets = trigger::random_burst(19, 200);
  const Result alone = run(packets, 1, {});
  RecoveryOptions wrong = recovery_options();
  wrong.algorithm = "none_such";
  const auto says = [](const char* what) {
    return [what](Chain& chain, std::size_t i) {
      if (i != 400) return;
      EXPECT_TRUE(wait_for([&] { return chain.executor().trouble().find(what) != std::string::npos; }))
          << chain.executor().trouble();
    };
  };
  const Result named = run(packets, 1, lost(wrong), says("none_such"));
  EXPECT_EQ(named.sent, alone.sent);
  EXPECT_EQ(named.figures.at("gpu_recoveries"), 0.0);
  wrong.command = {"/nowhere/at/all"};
  EXPECT_EQ(run(packets, 1, lost(wrong), says("cannot come back")).sent, alone.sent);
}

TEST(GpuRecovery, PrivateMemoryIsNotHandedOver) {
  const auto algorithm = rich::make_reconstructor("math", {}, rich::Geometry::make());
  bool possible = true;
  Chain chain(Chain::options(), *algorithm, 1, {},
              [&](const auto& execute, const auto& views, const auto& reconstructor, auto& traces) {
                auto made = std::make_unique<Lost>(recovery_options(), execute, views, reconstructor, traces);
                possible = made->possible();
                return made;
              });
  EXPECT_FALSE(possible);
}

}  // namespace
}  // namespace nanet::gpu
