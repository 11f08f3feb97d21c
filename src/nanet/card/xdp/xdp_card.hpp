// SPDX-License-Identifier: Apache-2.0
// XDP card: AF_XDP sockets on all receive queues of the listening interfaces, without the kernel's UDP stack.
#pragma once

#include <memory>

#include "nanet/card/card.hpp"
#include "nanet/card/raw/frame_source.hpp"

namespace nanet::card {

std::unique_ptr<Card> open_xdp_card();
// Network side of the card alone: an OpenRawPort. Throws std::invalid_argument or std::system_error with the
// remedy.
RawPort open_xdp_port(const ClopOptions& options, Counters* const& counters);

}  // namespace nanet::card
