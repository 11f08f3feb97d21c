// SPDX-License-Identifier: Apache-2.0
// Raw card: software datapath over queues of Ethernet frames. The card's thread takes frames, verifies their
// headers and checksums, and passes UDP payloads to the receiver.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "nanet/card/card.hpp"
#include "nanet/card/raw/frame_source.hpp"

namespace nanet::card {

class RawCard : public Card {
 public:
  RawCard(std::string name, OpenRawPort open);
  ~RawCard() override;

  std::string_view name() const noexcept override { return name_; }
  bool receive() noexcept override;
  bool send() noexcept override;
  void wait(Nanoseconds limit) noexcept override;
  void drain() noexcept override;
  bool passed_all() const noexcept override;
  double backlog() const noexcept override;
  std::array<std::uint64_t, wire::not_mgp_count> not_mgp() const noexcept override;

 protected:
  Stream& open_stream(const ClopOptions& options, std::vector<wire::Endpoint>& local) override;
  void close_stream(Stream& stream) noexcept override;

 private:
  struct Port;
  bool read(Port& port) noexcept;
  bool read_sockets(Port& port, Nanoseconds now) noexcept;
  void packet(Port& port, std::span<const std::byte> datagram, Nanoseconds stamp) noexcept;
  void count_drops(Port& port) noexcept;
  static bool send_answers(Port& port) noexcept;

  std::string name_;
  OpenRawPort open_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::array<stats::Counter, wire::not_mgp_count> not_mgp_;
  std::uint8_t next_stream_ = 0;
};

}  // namespace nanet::card
