// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/raw/raw_card.hpp"

#include <algorithm>

#include "nanet/card/raw/frame_reader.hpp"
#include "nanet/card/socket/socket_reader.hpp"

namespace nanet::card {
namespace {

// Intervals of system calls that almost never find anything: reading the sockets, and the drop counts.
constexpr Nanoseconds sockets_every = 100'000, drops_every = 100'000'000;

}  // namespace

class RawCard::Port final : public SoftwarePort {
 public:
  Port(RawCard& card, const ClopOptions& options, std::uint8_t number)
      : not_mgp_(card.not_mgp_),
        stops_(options.stops ? &options.stops->card() : nullptr),
        network_(card.open_(options, counters_)) {
    open(options, number, std::move(network_.transmit));
    drops_.resize(network_.sources.size(), 0);
    std::vector<FrameSource*> sources;
    for (const auto& source : network_.sources) sources.push_back(source.get());
    std::vector<int> fds;
    for (const os::Fd& fd : network_.sockets) fds.push_back(fd.get());
    sockets_ = std::make_unique<SocketReader>(std::move(fds));
    frames_ = std::make_unique<FrameReader>(std::move(sources), reading_threads(options),
                                            reading_cpus(options), options.rules, nullptr, options.stops);
  }
  ~Port() override { close_transmit(); }  // before its sources

  bool read() noexcept override {
    bool any = frames_->round([this](const FrameBatch& batch) { return take(batch); });
    const Nanoseconds now = frames_->last_round();
    if (now >= sockets_due_ && !network_.sockets.empty()) {
      sockets_due_ = now + sockets_every;
      any |= sockets_->round([this](const SocketBatch& batch) { return take(batch); });
    }
    if (now >= drops_due_) {
      drops_due_ = now + drops_every;
      count_drops();
    }
    return any;
  }
  Nanoseconds read_up_to() const noexcept override { return frames_->read_up_to(); }
  bool threaded() const noexcept override { return frames_->threaded(); }
  void watch(PollSet& set) noexcept override {
    for (const auto& source : network_.sources) set.add(source->wait_fd());
    for (const os::Fd& fd : network_.sockets) set.add(fd.get());
    sockets_due_ = 0;
  }
  void begin_drain() noexcept override { sockets_due_ = drops_due_ = 0; }
  double backlog() const noexcept override {
    double most = 0;
    for (const auto& source : network_.sources) most = std::max(most, source->backlog());
    return most;
  }
  const RawPort& network() const noexcept { return network_; }

 private:
  Nanoseconds take(const FrameBatch& batch) noexcept {
    Nanoseconds stamp = 0;
    for (std::size_t i = 0; i < batch.frames(); ++i) {
      batch.fetch_frame(i + 1);
      stamp = batch.stamp(i);
      const wire::UdpFrame udp = batch.udp(i);
      if (udp.reason == wire::NotMgp::none)
        packet(udp.payload, batch.checked(i), stamp ? stamp : batch.before());
      else
        ++not_mgp_[static_cast<std::size_t>(udp.reason)];
    }
    // Without a stamp, nothing more is known about a queue that has not been emptied.
    return stamp ? stamp : frames_->read_up_to(batch.source());
  }
  Nanoseconds take(const SocketBatch& batch) noexcept {
    unbounded();
    for (std::size_t i = 0; i < batch.messages(); ++i)
      batch.datagrams(
          i, [&](std::span<const std::byte> datagram) { packet(datagram, nullptr, batch.before()); });
    return batch.before();
  }
  // Takes the current pass out of the record of stops.
  void unbounded() noexcept {
    if (stops_) stops_->worked(stats::PollingStops::unbounded);
  }
  void count_drops() noexcept {
    unbounded();
    for (std::size_t s = 0; s < network_.sources.size(); ++s) {
      const std::uint64_t drops = network_.sources[s]->drops();
      counters_->lost[static_cast<std::size_t>(Lost::ring_overflow)] += drops - drops_[s];
      drops_[s] = drops;
    }
  }

  std::array<stats::Counter, wire::not_mgp_count>& not_mgp_;  // of the card
  stats::PollingStops* stops_;                                // of the card's thread
  RawPort network_;
  std::unique_ptr<SocketReader> sockets_;
  std::unique_ptr<FrameReader> frames_;
  std::vector<std::uint64_t> drops_;  // per source, counted so far
  Nanoseconds sockets_due_ = 0, drops_due_ = 0;
};

RawCard::RawCard(std::string name, OpenRawPort open) : name_(std::move(name)), open_(std::move(open)) {}
RawCard::~RawCard() {
  stop();
}

std::unique_ptr<SoftwarePort> RawCard::open_port(const ClopOptions& options, std::uint8_t number,
                                                 std::vector<wire::Endpoint>& local) {
  auto port = std::make_unique<Port>(*this, options, number);
  local = port->network().local;
  return port;
}

std::array<std::uint64_t, wire::not_mgp_count> RawCard::not_mgp() const noexcept {
  std::array<std::uint64_t, wire::not_mgp_count> out{};
  std::copy(not_mgp_.begin(), not_mgp_.end(), out.begin());
  return out;
}

std::vector<std::pair<std::string, double>> RawCard::figures() const {
  std::vector<std::pair<std::string, double>> all;
  for (const auto& port : ports()) {
    const auto& figures = static_cast<const Port&>(*port).network().figures;
    if (!figures) continue;
    auto more = figures();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace nanet::card
