// SPDX-License-Identifier: Apache-2.0
// Base of cards with a software datapath: ports read packets into their receiver, the card's thread closes
// frames, sends answers and waits.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nanet/card/card.hpp"
#include "nanet/card/software/software_stream.hpp"
#include "nanet/card/transmit.hpp"

namespace nanet::card {

// File descriptors to wait on.
class PollSet {
 public:
  void add(int fd) noexcept {
    if (fd >= 0 && count_ < fds_.size()) fds_[count_++] = {fd, POLLIN, 0};
  }
  std::span<pollfd> fds() noexcept { return {fds_.data(), count_}; }

 private:
  std::array<pollfd, 128> fds_;
  std::size_t count_ = 0;
};

// One CLOP of a card: its network side and its stream.
class SoftwarePort {
 public:
  virtual ~SoftwarePort() = default;
  SoftwarePort(const SoftwarePort&) = delete;
  SoftwarePort& operator=(const SoftwarePort&) = delete;

  // Passes available packets to the receiver; returns true if there were any.
  virtual bool read() noexcept = 0;
  // Every packet that arrived before this time has been passed on.
  virtual Nanoseconds read_up_to() const noexcept = 0;
  // Separate threads read: waiting on descriptors would not show what they have read.
  virtual bool threaded() const noexcept = 0;
  // Adds the descriptors that become readable when a packet arrives.
  virtual void watch(PollSet& set) noexcept = 0;
  // The next read() includes everything that is otherwise read at intervals.
  virtual void begin_drain() noexcept {}
  // Fill level (0 - 1) of the fullest input buffer.
  virtual double backlog() const noexcept = 0;

  SoftwareStream& stream() noexcept { return *stream_; }
  const SoftwareStream& stream() const noexcept { return *stream_; }
  bool send_answers() noexcept;

 protected:
  SoftwarePort() = default;
  // Opens the stream. transmit: sends in a separate thread if the options have one.
  void open(const ClopOptions& options, std::uint8_t number, std::unique_ptr<Transmit> transmit);
  // Ends the sending thread and closes the transmit path.
  void close_transmit() noexcept { transmit_.reset(); }
  // Number of reading threads, and their cores.
  static std::size_t reading_threads(const ClopOptions& options);
  static std::span<const int> reading_cpus(const ClopOptions& options);

  // One packet to the receiver. checked: its validation; nullptr: not validated.
  // written: what the thread that handed it over has written.
  void packet(std::span<const std::byte> datagram, const wire::mgp::Checked* checked, Nanoseconds stamp,
              const WrittenSegment& written = {}) noexcept;
  // Null until open(): a transmit path takes a reference before the counters exist.
  Counters* counters_ = nullptr;

 private:
  std::size_t placed_ = 0;                  // packets since answers were last polled
  std::unique_ptr<SoftwareStream> stream_;  // outlives its transmit path, which counts errors
  std::unique_ptr<Transmit> transmit_;
};

class SoftwareCard : public Card {
 public:
  ~SoftwareCard() override;

  bool receive() noexcept final;
  bool send() noexcept final;
  void wait(Nanoseconds limit) noexcept final;
  void drain() noexcept final;
  bool passed_all() const noexcept final;
  double backlog() const noexcept final;

 protected:
  // number: of the stream in events. local: receives the listening addresses. Throws as register_clop().
  virtual std::unique_ptr<SoftwarePort> open_port(const ClopOptions& options, std::uint8_t number,
                                                  std::vector<wire::Endpoint>& local) = 0;
  Stream& open_stream(const ClopOptions& options, std::vector<wire::Endpoint>& local) final;
  void close_stream(Stream& stream) noexcept final;
  std::span<const std::unique_ptr<SoftwarePort>> ports() const noexcept { return ports_; }

 private:
  std::vector<std::unique_ptr<SoftwarePort>> ports_;
  bool quiet_ = false;  // no packet has come in the last round
  std::uint8_t next_stream_ = 0;
};

}  // namespace nanet::card
