// SPDX-License-Identifier: Apache-2.0
// Emulated L0 trigger processor: socket and receiving thread. Arrival times are kernel time stamps, so reads
// need not be prompt.
#include "nanet/l0tp/l0tp.hpp"

#include <poll.h>
#include <sys/prctl.h>

#include <ctime>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "nanet/os/socket.hpp"

namespace nanet::l0tp {
namespace {

constexpr unsigned batch_packets = 128;
constexpr std::size_t slot_bytes =
    2048;  // above the maximum of MTP packets: longer ones are refused by length
constexpr Nanoseconds gather_ns = 500'000;  // pause after a round with packets
constexpr int poll_ms = 20;                 // maximum delay of a stop request
constexpr Nanoseconds refresh_ns = 100'000'000;

Nanoseconds to_ns(double seconds) {
  return static_cast<Nanoseconds>(seconds * 1e9);
}

}  // namespace

L0tp::L0tp(const L0tpOptions& options)
    : options_(options),
      socket_(os::open_udp_receiver(
          options.listen, {.buffer_bytes = options.buffer_bytes, .timestamps = options.kernel_stamps})),
      endpoint_(os::local_endpoint(socket_.get())),
      buffer_granted_(os::receive_buffer(socket_.get())),
      times_(options.times.empty() ? std::nullopt : std::make_optional<std::string>(options.times)),
      check_(options.truth.get(), times_ ? &*times_ : nullptr,
             {.nodes = options.nodes,
              .silence = to_ns(options.node_silence_s),
              .burst_frames = options.burst_frames}) {}

L0tp::~L0tp() {
  request_stop();
  if (thread_.joinable()) thread_.join();
}

void L0tp::start() {
  if (thread_.joinable()) throw std::logic_error("an L0 trigger processor runs once");
  running_.store(true, std::memory_order_release);
  thread_ = std::thread([this] {
    try {
      run();
    } catch (...) {
      failure_ = std::current_exception();
    }
    running_.store(false, std::memory_order_release);
  });
}

void L0tp::join() {
  if (thread_.joinable()) thread_.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

double L0tp::elapsed_s() const noexcept {
  const L0tpCounters& c = check_.counters();
  return static_cast<double>(c.last_packet_ns - c.first_packet_ns) * 1e-9;
}

unsigned L0tp::receive(os::DatagramBatch& batch) noexcept {
  const unsigned n = batch.read(socket_.get());
  if (n == 0) return 0;
  const Nanoseconds now = os::monotonic_now();
  clock_.refresh_if_older(now, refresh_ns);
  // The sender creates the times file before its first packet, so the file exists once a packet arrives.
  if (times_ && (!times_->mapped() || check_.counters().packets == 0)) times_->refresh();
  for (unsigned i = 0; i < n; ++i) {
    const os::ReceiveInfo info = batch.info(i);
    if (info.has_overflow) check_.counters().socket_overflow.set(info.overflow);
    const Nanoseconds arrival = info.realtime_ns != 0 ? clock_.arrival(info.realtime_ns, now) : now;
    check_.packet(batch.bytes(i), arrival, batch.source(i));
  }
  check_.publish();
  return n;
}

void L0tp::run() {
  prctl(PR_SET_TIMERSLACK, 1UL);
  os::DatagramBatch batch(batch_packets, slot_bytes);
  const Nanoseconds start = os::monotonic_now();
  constexpr Nanoseconds forever = std::numeric_limits<Nanoseconds>::max();
  const Nanoseconds end = options_.duration_s > 0 ? start + to_ns(options_.duration_s) : forever;
  const Nanoseconds idle = options_.idle_s > 0 ? to_ns(options_.idle_s) : forever;
  Nanoseconds last_packet = forever, refreshed = 0;

  while (!stop_.load(std::memory_order_relaxed)) {
    const Nanoseconds now = os::monotonic_now();
    if (now >= end || (last_packet != forever && now - last_packet >= idle)) break;
    if (times_ && now - refreshed >= refresh_ns) {
      times_->refresh();
      refreshed = now;
    }
    unsigned got = 0, n = 0;
    do {
      n = receive(batch);
      got += n;
    } while (batch.full());
    if (options_.nodes > 1) {
      check_.advance(now);  // the socket was found empty after `now`
      check_.publish();
    }
    if (got > 0) last_packet = os::monotonic_now();
    if (options_.busy) continue;
    if (got > 0 && options_.kernel_stamps) {
      const timespec pause{0, gather_ns};
      nanosleep(&pause, nullptr);
    } else {
      pollfd wait{socket_.get(), POLLIN, 0};
      (void)poll(&wait, 1, poll_ms);
    }
  }
  // Datagrams that arrived before the stop request; a sender that continues does not delay the end.
  const Nanoseconds drained = os::monotonic_now() + refresh_ns;
  while (receive(batch) > 0 && os::monotonic_now() < drained) {
  }
  if (times_) times_->refresh();
  check_.finish();
}

}  // namespace nanet::l0tp
