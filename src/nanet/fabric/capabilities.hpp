// SPDX-License-Identifier: Apache-2.0
// Capabilities and limits of the provider.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nanet/fabric/libfabric.hpp"
#include "nanet/fabric/packet.hpp"

namespace nanet::fabric {

inline constexpr const char* fabric_name = "nanet";
inline constexpr const char* domain_name = "torus0";
inline constexpr std::uint32_t protocol = FI_PROV_SPECIFIC | 0x6e61;

inline constexpr std::size_t max_iov = 8;
inline constexpr std::size_t inject_bytes = eager_bytes;
inline constexpr std::size_t queue_size = 8192;  // operations that wait for a peer, per endpoint
inline constexpr std::size_t max_message = std::size_t{1} << 40;
inline constexpr std::size_t buffered_bytes = std::size_t{1} << 30;
inline constexpr std::size_t default_min_multi_recv = 64;

inline constexpr std::uint64_t primary_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
inline constexpr std::uint64_t direction_caps =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
inline constexpr std::uint64_t domain_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
inline constexpr std::uint64_t secondary_caps = FI_MULTI_RECV | FI_SOURCE | FI_FENCE | domain_caps;
inline constexpr std::uint64_t all_caps =
    primary_caps | direction_caps | secondary_caps | FI_DIRECTED_RECV | FI_SOURCE_ERR | FI_RMA_EVENT;
inline constexpr std::uint64_t default_caps =
    primary_caps | direction_caps | secondary_caps | FI_DIRECTED_RECV;
inline constexpr std::uint64_t tx_caps = primary_caps | FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
inline constexpr std::uint64_t rx_caps = primary_caps | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE |
                                         FI_MULTI_RECV | FI_SOURCE | FI_DIRECTED_RECV | FI_SOURCE_ERR |
                                         FI_RMA_EVENT;

inline constexpr std::uint64_t levels =
    FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
inline constexpr std::uint64_t tx_op_flags = FI_COMPLETION | FI_INJECT | levels;
inline constexpr std::uint64_t rx_op_flags =
    FI_COMPLETION | FI_MULTI_RECV | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;

// Direct access overtakes messages: an endpoint that must order RMA after messages uses packets.
inline constexpr std::uint64_t rma_after_send = FI_ORDER_RAS | FI_ORDER_WAS;
inline constexpr std::uint64_t all_orders =
    FI_ORDER_STRICT | FI_ORDER_DATA | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR |
    FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
inline constexpr std::uint64_t default_orders = all_orders & ~rma_after_send & ~std::uint64_t{FI_ORDER_DATA};

// Adds both directions to operations requested without direction.
constexpr std::uint64_t complete_caps(std::uint64_t caps) {
  if ((caps & primary_caps) == 0) caps |= primary_caps;
  if ((caps & (FI_MSG | FI_TAGGED)) != 0 && (caps & (FI_SEND | FI_RECV)) == 0) caps |= FI_SEND | FI_RECV;
  constexpr std::uint64_t rma = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  if ((caps & (FI_RMA | FI_ATOMIC)) != 0 && (caps & rma) == 0) caps |= rma;
  return caps;
}

}  // namespace nanet::fabric
