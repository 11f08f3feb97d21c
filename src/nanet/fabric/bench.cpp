// SPDX-License-Identifier: Apache-2.0
// Probe of `nanet bench fabric`: two processes exchange tagged messages through one provider of libfabric.
// Arguments: provider, seconds of each measurement. Result: JSON on standard output.
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "nanet/fabric/libfabric.hpp"

namespace {

constexpr std::size_t small = 8, large = std::size_t{1} << 20, window = 32;
constexpr std::uint64_t ping_tag = 1, data_tag = 2, done_tag = 3;

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

void check(ssize_t result, const char* call) {
  if (result < 0) throw std::runtime_error(std::string(call) + ": " + fi_strerror(static_cast<int>(-result)));
}

struct Address {
  std::array<char, 256> bytes{};
  std::size_t size = 256;
};

class Endpoint {
 public:
  explicit Endpoint(const char* provider) : buffer_(2 * large), contexts_(2 * window) {
    fi_info* const hints = fi_allocinfo();
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(provider);
    // tcp: on this host only.
    const bool tcp = std::strstr(provider, "tcp") != nullptr || std::strcmp(provider, "net") == 0;
    check(fi_getinfo(FI_VERSION(1, 17), tcp ? "127.0.0.1" : nullptr, nullptr, tcp ? FI_SOURCE : 0, hints,
                     &info_),
          "fi_getinfo");
    fi_freeinfo(hints);
    check(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    check(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
    fi_cq_attr cq = {};
    cq.format = FI_CQ_FORMAT_TAGGED;
    cq.size = 4 * window;
    check(fi_cq_open(domain_, &cq, &queue_, nullptr), "fi_cq_open");
    fi_av_attr av = {};
    av.type = FI_AV_TABLE;
    check(fi_av_open(domain_, &av, &av_, nullptr), "fi_av_open");
    check(fi_endpoint(domain_, info_, &ep_, nullptr), "fi_endpoint");
    check(fi_ep_bind(ep_, &av_->fid, 0), "fi_ep_bind");
    check(fi_ep_bind(ep_, &queue_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_enable(ep_), "fi_enable");
  }

  Address name() const {
    Address a;
    check(fi_getname(&ep_->fid, a.bytes.data(), &a.size), "fi_getname");
    return a;
  }
  void connect(const Address& peer) {
    if (fi_av_insert(av_, peer.bytes.data(), 1, &peer_, 0, nullptr) != 1)
      throw std::runtime_error("fi_av_insert");
  }

  void send(std::size_t bytes, std::uint64_t tag) {
    post([&] { return fi_tsend(ep_, buffer_.data(), bytes, nullptr, peer_, tag, context()); }, "fi_tsend");
  }
  void receive(std::size_t bytes, std::uint64_t tag) {
    post([&] { return fi_trecv(ep_, buffer_.data() + large, bytes, nullptr, peer_, tag, 0, context()); },
         "fi_trecv");
  }
  // Waits for n completions of sends and receives together.
  void complete(unsigned n) {
    while (n > completed_) poll();
    completed_ -= n;
  }

 private:
  void* context() { return &contexts_[next_++ % contexts_.size()]; }
  template <class Call>
  void post(const Call& call, const char* name) {
    ssize_t result = 0;
    while ((result = call()) == -FI_EAGAIN) poll();
    check(result, name);
  }
  void poll() {
    std::array<fi_cq_tagged_entry, 16> entries;
    const ssize_t n = fi_cq_read(queue_, entries.data(), entries.size());
    if (n == -FI_EAGAIN) return;
    check(n, "fi_cq_read");
    completed_ += static_cast<unsigned>(n);
  }

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_av* av_ = nullptr;
  fid_ep* ep_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::vector<char> buffer_;
  std::vector<fi_context2> contexts_;
  std::size_t next_ = 0;
  unsigned completed_ = 0;
};

struct Result {
  double half_round_trip_us = 0, bandwidth = 0, messages = 0;
};

// Round trips with one message in flight.
double ping_pong(Endpoint& e, bool leader, unsigned count) {
  const double begin = now();
  for (unsigned i = 0; i < count; ++i) {
    e.receive(small, ping_tag);
    if (leader) {
      e.send(small, ping_tag);
      e.complete(2);
    } else {
      e.complete(1);
      e.send(small, ping_tag);
      e.complete(1);
    }
  }
  return now() - begin;
}

// Windows of messages one way, each acknowledged by a small message.
double stream(Endpoint& e, bool leader, std::size_t bytes, unsigned windows) {
  const double begin = now();
  for (unsigned i = 0; i < windows; ++i) {
    if (leader) {
      e.receive(small, done_tag);
      for (unsigned k = 0; k < window; ++k) e.send(bytes, data_tag);
      e.complete(window + 1);
    } else {
      for (unsigned k = 0; k < window; ++k) e.receive(bytes, data_tag);
      e.complete(window);
      e.send(small, done_tag);
      e.complete(1);
    }
  }
  return now() - begin;
}

// The leader decides how many iterations follow, and announces the number through a pipe.
template <class Run>
double measure(bool leader, int out, int in, double seconds, unsigned first, const Run& run) {
  unsigned count = first;
  for (;;) {
    if (leader ? write(out, &count, sizeof count) != sizeof count
               : read(in, &count, sizeof count) != sizeof count)
      throw std::runtime_error("the other process has ended");
    if (count == 0) return 0;
    const double took = run(count);
    if (!leader) continue;
    if (took >= seconds / 2) {
      const unsigned end = 0;
      if (write(out, &end, sizeof end) != sizeof end) throw std::runtime_error("the other process has ended");
      return took / count;
    }
    count = took <= 0 ? 2 * count : static_cast<unsigned>(count * std::min(10.0, 1.0 + seconds / took));
  }
}

void pin(bool leader) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  CPU_ZERO(&one);
  int wanted = leader ? 0 : 1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && wanted-- == 0) CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

void run(const char* provider, bool leader, int out, int in, double seconds) {
  pin(leader);
  Endpoint e(provider);
  const Address own = e.name();
  Address peer;
  if (write(out, &own, sizeof own) != sizeof own || read(in, &peer, sizeof peer) != sizeof peer)
    throw std::runtime_error("the other process has ended");
  e.connect(peer);
  ping_pong(e, leader, 200);  // connections, page faults
  Result r;
  r.half_round_trip_us =
      measure(leader, out, in, seconds, 200, [&](unsigned n) { return ping_pong(e, leader, n); }) / 2 * 1e6;
  const double per_window =
      measure(leader, out, in, seconds, 2, [&](unsigned n) { return stream(e, leader, large, n); });
  const double per_small =
      measure(leader, out, in, seconds, 20, [&](unsigned n) { return stream(e, leader, small, n); });
  if (!leader) return;
  r.bandwidth = static_cast<double>(window * large) / per_window;
  r.messages = static_cast<double>(window) / per_small;
  std::printf("{\"half_round_trip_us\": %.4f, \"bandwidth_bytes_per_s\": %.6g, \"messages_per_s\": %.6g}\n",
              r.half_round_trip_us, r.bandwidth, r.messages);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: nanet-fabric-bench PROVIDER SECONDS\n");
    return 2;
  }
  std::array<int, 2> down{}, up{};
  if (pipe(down.data()) != 0 || pipe(up.data()) != 0) return 2;
  const pid_t child = fork();
  const bool leader = child != 0;
  close(leader ? down[0] : down[1]);
  close(leader ? up[1] : up[0]);
  int status = 0;
  try {
    run(arguments[1], leader, leader ? down[1] : up[1], leader ? up[0] : down[0],
        std::strtod(arguments[2], nullptr));
  } catch (const std::exception& e) {
    if (leader) std::fprintf(stderr, "%s: %s\n", arguments[1], e.what());
    status = 1;
  }
  std::fflush(nullptr);
  if (!leader) _exit(status);
  if (status != 0) kill(child, SIGTERM);
  waitpid(child, nullptr, 0);
  _exit(status);  // without the providers' finalisers: both processes are done
}
