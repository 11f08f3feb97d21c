// SPDX-License-Identifier: Apache-2.0
// XDP card: AF_XDP sockets on all receive queues of the listening interfaces, without the kernel's UDP stack.
#pragma once

#include <memory>

#include "nanet/card/card.hpp"

namespace nanet::card {

std::unique_ptr<Card> open_xdp_card();

}  // namespace nanet::card
