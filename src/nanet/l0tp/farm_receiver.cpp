// SPDX-License-Identifier: Apache-2.0
// Farm of the final trigger: sockets, thread, comparison with the truth.
#include "nanet/l0tp/farm_receiver.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "nanet/os/clock.hpp"
#include "nanet/os/socket.hpp"

namespace nanet::l0tp {
namespace {

constexpr std::size_t slot_bytes = 2048;
constexpr unsigned batch = 256;
constexpr int poll_ms = 20;
constexpr Nanoseconds drain_ns = 200'000'000;

}  // namespace

void KeptShare::end_frame(Frame next) {
  for (; frame_ < next; ++frame_) {
    for (std::size_t r = 0; r < truth_.size(); ++r)
      if (truth_[r]) counts_[r].expected += truth_[r]->at(bursts_, frame_).size();
    for (const std::uint16_t time : kept_) {
      Lsb least = Pairing::pair_lsb + 1;
      std::size_t nearest = truth_.size();
      for (std::size_t r = 0; r < truth_.size(); ++r) {
        if (!truth_[r]) continue;
        const auto times = truth_[r]->at(bursts_, frame_);
        const auto after = std::lower_bound(times.begin(), times.end(), time);
        const Lsb distance = std::min(after != times.end() ? Lsb{*after} - time : least,
                                      after != times.begin() ? Lsb{time} - *(after - 1) : least);
        if (distance < least) {
          least = distance;
          nearest = r;
        }
      }
      if (nearest < truth_.size()) ++counts_[nearest].kept;
    }
    kept_.clear();
  }
}

void KeptShare::closed(const ttc::Farm::Closed& event) {
  const auto frame = static_cast<Frame>(event.time / lsb_per_frame);
  if (any_ && event.burst != burst_) {
    end_frame(frame_ + 1);
    bursts_ += static_cast<std::uint8_t>(event.burst - burst_);
    frame_ = 0;
  }
  any_ = true;
  burst_ = event.burst;
  if (frame < frame_) return;  // out of order: a repeated trigger
  if (frame > frame_) end_frame(frame);
  if (event.complete) kept_.push_back(static_cast<std::uint16_t>(event.time % lsb_per_frame));
}

FarmCheck::FarmCheck(const FarmOptions& options)
    : farm_(options.boards, options.open), kept_(options.truth), truth_(options.truth[0] != nullptr) {
  if (truth_) farm_.on_closed([this](const ttc::Farm::Closed& event) { kept_.closed(event); });
}

void FarmCheck::triggers(std::span<const std::byte> datagram) noexcept {
  wire::trigger::Header header;
  const auto refusal = wire::trigger::decode(datagram, header, triggers_.data());
  ++counts_.datagrams;
  if (refusal != wire::trigger::Refusal::none) {
    ++counts_.refused_datagrams[static_cast<std::size_t>(refusal)];
    return;
  }
  const auto step = static_cast<std::int32_t>(header.sequence - sequence_);
  if (begun_ && step <= 0) {
    ++counts_.datagrams_out_of_order;
    return;
  }
  if (begun_) counts_.datagrams_lost += static_cast<std::uint32_t>(step - 1);
  begun_ = true;
  sequence_ = header.sequence;
  for (unsigned i = 0; i < header.count; ++i) {
    const wire::trigger::Trigger& t = triggers_[i];
    number_ = wire::trigger::event_number(number_, t.event);
    farm_.triggered(number_, t.timestamp, header.burst, t.fine);
  }
}

void FarmCheck::finish() noexcept {
  farm_.end();
  kept_.finish();
}

FarmCheck::Counts FarmCheck::counts() const {
  Counts counts = counts_;
  counts.events = farm_.counts();
  for (std::size_t i = 0; i < counts.refused_packets.size(); ++i)
    counts.refused_packets[i] = farm_.refusals()[i];
  counts.answers.assign(farm_.answers().begin(), farm_.answers().end());
  for (std::size_t r = 0; r < counts.kept.size(); ++r) counts.kept[r] = kept_.counts(r);
  return counts;
}

FarmReceiver::FarmReceiver(const FarmOptions& options)
    : options_(options),
      packets_(os::open_udp_receiver(options.listen, {.buffer_bytes = options.buffer_bytes})),
      triggers_(
          os::open_udp_receiver({options.listen.address, static_cast<std::uint16_t>(options.listen.port + 1)},
                                {.buffer_bytes = options.buffer_bytes})),
      endpoint_(os::local_endpoint(packets_.get())),
      check_(options),
      bytes_(batch * slot_bytes) {}

FarmReceiver::~FarmReceiver() {
  stop();
}

void FarmReceiver::start() {
  thread_ = std::thread([this] { run(); });
}

void FarmReceiver::stop() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

// A board answers after its trigger has left for the farm: MEPs are read first, then the triggers, and the
// MEPs are taken last.
bool FarmReceiver::round() {
  std::array<std::size_t, batch> sizes{};
  unsigned packets = 0;
  while (packets < batch) {
    const ssize_t n = recv(packets_.get(), bytes_.data() + packets * slot_bytes, slot_bytes, MSG_DONTWAIT);
    if (n < 0) break;
    sizes[packets++] = static_cast<std::size_t>(n);
  }
  const std::lock_guard lock(mutex_);
  std::array<std::byte, slot_bytes> datagram;
  bool any = packets > 0;
  for (ssize_t n; (n = recv(triggers_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT)) >= 0;
       any = true)
    check_.triggers(std::span(datagram).first(static_cast<std::size_t>(n)));
  for (unsigned i = 0; i < packets; ++i) check_.answers({bytes_.data() + i * slot_bytes, sizes[i]});
  return any;
}

void FarmReceiver::run() {
  while (!stop_.load(std::memory_order_relaxed)) {
    if (round()) continue;
    std::array<pollfd, 2> wait{{{packets_.get(), POLLIN, 0}, {triggers_.get(), POLLIN, 0}}};
    (void)poll(wait.data(), wait.size(), poll_ms);
  }
  const Nanoseconds end = os::monotonic_now() + drain_ns;
  while (round() && os::monotonic_now() < end) {
  }
  const std::lock_guard lock(mutex_);
  check_.finish();
}

FarmCheck::Counts FarmReceiver::counts() const {
  const std::lock_guard lock(mutex_);
  return check_.counts();
}

}  // namespace nanet::l0tp
