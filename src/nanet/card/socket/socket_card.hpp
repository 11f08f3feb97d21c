// SPDX-License-Identifier: Apache-2.0
// Socket card: kernel UDP sockets are the network side, the card's thread is the DMA engine. Further threads
// can take over the system calls.
#pragma once

#include <memory>
#include <vector>

#include "nanet/card/card.hpp"
#include "nanet/card/socket/socket_reader.hpp"
#include "nanet/card/transmit.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::card {

// Sends through one connected socket per destination. `counters` is read at each error and may be set later.
// Throws std::system_error.
std::unique_ptr<Transmit> open_transmit(const std::vector<wire::Endpoint>& destinations,
                                        Counters* const& counters);

class SocketCard final : public Card {
 public:
  SocketCard();
  ~SocketCard() override;

  std::string_view name() const noexcept override { return "socket"; }
  bool receive() noexcept override;
  bool send() noexcept override;
  void wait(Nanoseconds limit) noexcept override;
  void drain() noexcept override;
  bool passed_all() const noexcept override;
  double backlog() const noexcept override;

 protected:
  Stream& open_stream(const ClopOptions& options, std::vector<wire::Endpoint>& local) override;
  void close_stream(Stream& stream) noexcept override;

 private:
  struct Port;
  Nanoseconds take(Port& port, const SocketBatch& batch) noexcept;
  static bool send_answers(Port& port) noexcept;
  static Nanoseconds read_up_to(const Port& port) noexcept;

  std::vector<std::unique_ptr<Port>> ports_;
  os::ClockOffset clock_;
  std::uint8_t next_stream_ = 0;
};

}  // namespace nanet::card
