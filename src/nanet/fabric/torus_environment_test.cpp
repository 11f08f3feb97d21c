// SPDX-License-Identifier: Apache-2.0
// Runs the fabric's tests over a torus of cards, in a separate process, if NANET_TEST_BACKEND is "model".
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "nanet/torus/card/server.hpp"

namespace nanet::fabric::testing {
namespace {

class Torus : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* const backend = std::getenv("NANET_TEST_BACKEND");
    if (backend == nullptr || std::string_view(backend) != "model") return;
    const std::string path = "/dev/shm/nanet-torus-test-" + std::to_string(getpid());
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      torus::card::ServerOptions o;
      o.path = path;
      o.model.lattice.size = {2, 2, 2};
      o.model.timing = torus::reliable_timing;
      torus::card::Server server(o);
      static volatile sig_atomic_t stop = 0;
      signal(SIGTERM, [](int) { stop = 1; });
      if (write(ready[1], "r", 1) != 1) _exit(1);
      while (stop == 0) server.run(100'000'000);
      server.~Server();
      _exit(0);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    setenv("FI_NANET_TORUS", path.c_str(), 1);
  }
  void TearDown() override {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_EQ(status, 0);
  }

 private:
  pid_t pid_ = -1;
};

// GoogleTest takes environments before main() alone where it has main().
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
[[maybe_unused]] const ::testing::Environment* const torus_environment =
    ::testing::AddGlobalTestEnvironment(new Torus);

}  // namespace
}  // namespace nanet::fabric::testing
