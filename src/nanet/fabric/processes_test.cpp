// SPDX-License-Identifier: Apache-2.0
// Endpoints in two processes: transfers with one copy and by packets, and the death of a peer.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "nanet/fabric/fabric_test.hpp"

namespace nanet::fabric::testing {
namespace {

// A child process with an endpoint that has the parent in its address vector.
class Child {
 public:
  Child(Side& side, const std::function<void(Side&, fi_addr_t)>& body) {
    int up[2], down[2];
    EXPECT_EQ(pipe(up), 0);
    EXPECT_EQ(pipe(down), 0);
    const std::uint64_t own = side.name();
    pid_ = fork();
    if (pid_ == 0) {
      auto* const child = new Side;  // not closed: the process ends by signal or _exit
      const std::uint64_t name = child->name();
      if (write(up[1], &name, sizeof name) != sizeof name) _exit(3);
      char go = 0;
      if (read(down[0], &go, 1) != 1) _exit(4);
      body(*child, child->insert(own));
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    std::uint64_t name = 0;
    EXPECT_EQ(read(up[0], &name, sizeof name), ssize_t{sizeof name});
    address = side.insert(name);
    EXPECT_EQ(write(down[1], "g", 1), 1);
    for (const int fd : {up[0], up[1], down[0], down[1]}) close(fd);
  }
  ~Child() {
    if (pid_ > 0) kill();
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    join();
  }
  int join() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }
  fi_addr_t address = FI_ADDR_UNSPEC;

 private:
  pid_t pid_ = -1;
};

TEST(Processes, LargeMessagesCrossBothWays) {
  Side side;
  const auto sent = pattern(4'000'000, 3);
  Child child(side, [&](Side& c, fi_addr_t parent) {
    std::vector<std::byte> got(sent.size());
    fi_cq_tagged_entry e;
    EXPECT_EQ(fi_trecv(c.ep, got.data(), got.size(), nullptr, parent, 1, 0, nullptr), 0);
    EXPECT_EQ(c.wait(c.rx, e), 1);
    EXPECT_EQ(got, sent);
    EXPECT_EQ(fi_tsend(c.ep, got.data(), got.size(), nullptr, parent, 2, nullptr), 0);
    EXPECT_EQ(c.wait(c.tx, e), 1);
  });
  fi_cq_tagged_entry e;
  std::vector<std::byte> got(sent.size());
  ASSERT_EQ(fi_tsend(side.ep, sent.data(), sent.size(), nullptr, child.address, 1, nullptr), 0);
  ASSERT_EQ(side.wait(side.tx, e), 1);
  ASSERT_EQ(fi_trecv(side.ep, got.data(), got.size(), nullptr, child.address, 2, 0, nullptr), 0);
  ASSERT_EQ(side.wait(side.rx, e), 1);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(child.join(), 0);
}

TEST(Processes, DeathFailsItsOperationsAndNoOthers) {
  Side side;
  Child victim(side, [](Side&, fi_addr_t) { pause(); });
  Child survivor(side, [](Side& c, fi_addr_t parent) {
    int value = 0;
    fi_cq_tagged_entry e;
    EXPECT_EQ(fi_trecv(c.ep, &value, 4, nullptr, parent, 1, 0, nullptr), 0);
    EXPECT_EQ(c.wait(c.rx, e), 1);
    EXPECT_EQ(fi_tsend(c.ep, &value, 4, nullptr, parent, 2, nullptr), 0);
    EXPECT_EQ(c.wait(c.tx, e), 1);
  });
  const auto large = pattern(1'000'000);
  int lost = 0, kept = 0, value = 8, got = 0;
  // The rendezvous waits for the victim, which never answers.
  ASSERT_EQ(fi_tsend(side.ep, large.data(), large.size(), nullptr, victim.address, 1, &lost), 0);
  ASSERT_EQ(fi_trecv(side.ep, &got, 4, nullptr, survivor.address, 2, 0, &kept), 0);
  victim.kill();
  fi_cq_tagged_entry e;
  ASSERT_EQ(side.wait(side.tx, e), -FI_EAVAIL);
  const fi_cq_err_entry error = side.error(side.tx);
  EXPECT_EQ(error.op_context, &lost);
  EXPECT_EQ(error.err, FI_ECONNRESET);
  ASSERT_EQ(fi_tinject(side.ep, &value, 4, survivor.address, 1), 0);
  ASSERT_EQ(side.wait(side.rx, e), 1);
  EXPECT_EQ(e.op_context, &kept);
  EXPECT_EQ(got, 8);
  // Later operations to the dead peer fail at once.
  ASSERT_EQ(fi_tsend(side.ep, &value, 4, nullptr, victim.address, 1, &lost), 0);
  ASSERT_EQ(side.wait(side.tx, e), -FI_EAVAIL);
  EXPECT_EQ(side.error(side.tx).err, FI_EHOSTUNREACH);
  EXPECT_EQ(survivor.join(), 0);
}

// Addresses of a torus are taken again: an operation to the new owner must not fail with the old one.
TEST(Processes, TheNextOwnerOfAnAddressIsReached) {
  Side side;
  for (int i = 0; i < 150; ++i) {  // more processes than a torus of the tests has ports
    Child child(side, [](Side& c, fi_addr_t parent) {
      int value = 0;
      fi_cq_tagged_entry e;
      EXPECT_EQ(fi_trecv(c.ep, &value, 4, nullptr, parent, 1, 0, nullptr), 0);
      EXPECT_EQ(c.wait(c.rx, e), 1);
      EXPECT_EQ(fi_tinject(c.ep, &value, 4, parent, 2), 0);
    });
    int got = -1;
    fi_cq_tagged_entry e;
    ASSERT_EQ(fi_tsend(side.ep, &i, 4, nullptr, child.address, 1, nullptr), 0);
    ASSERT_EQ(side.wait(side.tx, e), 1) << fi_strerror(side.error(side.tx).err);
    ASSERT_EQ(fi_trecv(side.ep, &got, 4, nullptr, child.address, 2, 0, nullptr), 0);
    ASSERT_EQ(side.wait(side.rx, e), 1);
    EXPECT_EQ(got, i);
    EXPECT_EQ(child.join(), 0);
  }
}

TEST(Processes, WhatTheDeadHadSentStillArrives) {
  Side side;
  Child child(side, [](Side& c, fi_addr_t parent) {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(fi_tinject(c.ep, &i, 4, parent, 1), 0);
    kill(getpid(), SIGKILL);
  });
  child.join();
  for (int i = 0; i < 10; ++i) {
    int got = -1;
    fi_cq_tagged_entry e;
    ASSERT_EQ(fi_trecv(side.ep, &got, 4, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), 0);
    ASSERT_EQ(side.wait(side.rx, e), 1);
    EXPECT_EQ(got, i);
  }
}

}  // namespace
}  // namespace nanet::fabric::testing
