// SPDX-License-Identifier: Apache-2.0
// Atomic operations of libfabric on arrays of its datatypes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nanet/fabric/libfabric.hpp"

namespace nanet::fabric {

enum class AtomicKind : std::uint8_t { base, fetch, compare };

std::size_t datatype_bytes(fi_datatype datatype) noexcept;
bool atomic_valid(fi_datatype datatype, fi_op op, AtomicKind kind) noexcept;
// Largest operand of one operation.
std::size_t atomic_bytes(AtomicKind kind) noexcept;
// Executes the operation on `bytes` at `target`. previous: receives the values before it, or nullptr.
void apply_atomic(fi_datatype datatype, fi_op op, std::byte* target, const std::byte* operand,
                  const std::byte* comparand, std::byte* previous, std::size_t bytes) noexcept;

}  // namespace nanet::fabric
