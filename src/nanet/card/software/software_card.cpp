// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/software/software_card.hpp"

#include <algorithm>
#include <ctime>
#include <stdexcept>
#include <string>

#include "nanet/card/software/transmit_thread.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::card {
namespace {

constexpr std::size_t packets_between_answers = 4;  // about a microsecond of placement

}  // namespace

void SoftwarePort::open(const ClopOptions& options, std::uint8_t number, std::unique_ptr<Transmit> transmit) {
  transmit_ = std::move(transmit);
  if (options.threads > 1) {
    const int cpu = options.thread_cpus.empty() ? -1 : options.thread_cpus[0];
    transmit_ = std::make_unique<TransmitThread>(std::move(transmit_), cpu,
                                                 options.stops ? &options.stops->add("send", cpu) : nullptr);
  }
  ClopOptions timed = options;
  timed.clock = os::monotonic_now;
  stream_ = std::make_unique<SoftwareStream>(timed, number, *transmit_);
  counters_ = &stream_->counters();
}

std::size_t SoftwarePort::reading_threads(const ClopOptions& options) {
  return options.threads > 2 ? options.threads - 2 : 0;
}

std::span<const int> SoftwarePort::reading_cpus(const ClopOptions& options) {
  const std::span<const int> cpus = options.thread_cpus;
  return cpus.subspan(std::min<std::size_t>(1, cpus.size()));
}

void SoftwarePort::packet(std::span<const std::byte> datagram, const wire::mgp::Checked* checked,
                          Nanoseconds stamp, const WrittenSegment& written) noexcept {
  if (checked)
    stream_->receiver().checked_packet(datagram, *checked, written, stamp);
  else
    stream_->receiver().packet(datagram, stamp, written);
  // Ready answers leave before the rest of the batch is processed.
  if (++placed_ >= packets_between_answers) send_answers();
}

bool SoftwarePort::send_answers() noexcept {
  placed_ = 0;
  return !stream_->passed_all() && stream_->sender().poll(os::monotonic_now(), os::monotonic_now) > 0;
}

SoftwareCard::~SoftwareCard() {
  stop();
}

Stream& SoftwareCard::open_stream(const ClopOptions& options, std::vector<wire::Endpoint>& local) {
  if (options.allocator && !options.allocator->cpu_accessible())
    throw std::invalid_argument("the " + std::string(name()) +
                                " card writes with a CPU, which cannot access this memory");
  ports_.push_back(open_port(options, next_stream_++, local));
  return ports_.back()->stream();
}

void SoftwareCard::close_stream(Stream& stream) noexcept {
  std::erase_if(ports_, [&](const auto& p) { return &p->stream() == &stream; });
}

bool SoftwareCard::receive() noexcept {
  bool any = false;
  for (auto& port : ports_) {
    any |= port->read();
    port->stream().receiver().expire(port->read_up_to());
  }
  quiet_ = !any;
  return any;
}

bool SoftwareCard::send() noexcept {
  bool any = false;
  for (auto& port : ports_) {
    port->stream().sender().linger(quiet_ && !port->threaded());
    any |= port->send_answers();
  }
  return any;
}

void SoftwareCard::wait(Nanoseconds limit) noexcept {
  PollSet set;
  const Nanoseconds now = os::monotonic_now();
  Nanoseconds until = now + limit;
  bool threaded = false;
  for (auto& port : ports_) {
    threaded |= port->threaded();
    port->watch(set);
    until =
        std::min({until, port->stream().receiver().next_timer(), port->stream().sender().next_deadline()});
  }
  if (until <= now) return;
  // With reading threads, ppoll cannot wait for packets: look at intervals.
  constexpr Nanoseconds look = 50'000;
  const Nanoseconds left = threaded ? std::min(until - now, look) : until - now;
  const timespec time{left / 1'000'000'000, left % 1'000'000'000};
  const auto fds = set.fds();
  ppoll(fds.data(), threaded ? 0 : fds.size(), &time, nullptr);
}

void SoftwareCard::drain() noexcept {
  // Reads packets that have arrived so far; a sender that never stops must not keep the card from ending.
  const Nanoseconds began = os::monotonic_now(), until = began + 1'000'000'000;
  for (auto& port : ports_) port->begin_drain();
  const auto unread = [&](const auto& port) { return port->threaded() && port->read_up_to() < began; };
  while ((receive() || std::any_of(ports_.begin(), ports_.end(), unread)) && os::monotonic_now() < until)
    send();
  for (auto& port : ports_) port->stream().receiver().drain(os::monotonic_now());
}

bool SoftwareCard::passed_all() const noexcept {
  return std::all_of(ports_.begin(), ports_.end(), [](const auto& p) { return p->stream().passed_all(); });
}

double SoftwareCard::backlog() const noexcept {
  double most = 0;
  for (const auto& port : ports_) most = std::max(most, port->backlog());
  return most;
}

}  // namespace nanet::card
