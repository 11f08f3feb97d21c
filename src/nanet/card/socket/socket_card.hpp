// SPDX-License-Identifier: Apache-2.0
// Socket card: kernel UDP sockets are the network side, the card's thread is the DMA engine. Further threads
// can take over the system calls.
#pragma once

#include <memory>
#include <vector>

#include "nanet/card/software/software_card.hpp"
#include "nanet/card/transmit.hpp"

namespace nanet::card {

// Sends through one connected socket per destination. `counters` is read at each error and may be set later.
// Throws std::system_error.
std::unique_ptr<Transmit> open_transmit(const std::vector<wire::Endpoint>& destinations,
                                        Counters* const& counters);

class SocketCard final : public SoftwareCard {
 public:
  std::string_view name() const noexcept override { return "socket"; }

 protected:
  std::unique_ptr<SoftwarePort> open_port(const ClopOptions& options, std::uint8_t number,
                                          std::vector<wire::Endpoint>& local) override;
};

}  // namespace nanet::card
