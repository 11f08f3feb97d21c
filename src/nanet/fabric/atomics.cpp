// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/atomics.hpp"

#include <array>
#include <complex>
#include <cstring>
#include <type_traits>

#include "nanet/fabric/domain.hpp"
#include "nanet/fabric/packet.hpp"

namespace nanet::fabric {
namespace {

template <class T>
struct Type {
  using type = T;
};

// Calls f with the C++ type of a datatype.
template <class F>
auto with_type(fi_datatype datatype, F&& f) {
  switch (datatype) {
    case FI_INT8:
      return f(Type<std::int8_t>{});
    case FI_UINT8:
      return f(Type<std::uint8_t>{});
    case FI_INT16:
      return f(Type<std::int16_t>{});
    case FI_UINT16:
      return f(Type<std::uint16_t>{});
    case FI_INT32:
      return f(Type<std::int32_t>{});
    case FI_UINT32:
      return f(Type<std::uint32_t>{});
    case FI_INT64:
      return f(Type<std::int64_t>{});
    case FI_UINT64:
      return f(Type<std::uint64_t>{});
    case FI_FLOAT:
      return f(Type<float>{});
    case FI_DOUBLE:
      return f(Type<double>{});
    case FI_FLOAT_COMPLEX:
      return f(Type<std::complex<float>>{});
    case FI_DOUBLE_COMPLEX:
      return f(Type<std::complex<double>>{});
    case FI_LONG_DOUBLE:
      return f(Type<long double>{});
    case FI_LONG_DOUBLE_COMPLEX:
      return f(Type<std::complex<long double>>{});
    default:
      return f(Type<void>{});
  }
}

template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;

template <class T>
T truth(bool value) {
  return static_cast<T>(value ? 1 : 0);
}

// New value of one element; a: value in memory, b: operand, c: comparand.
template <class T>
T combine(fi_op op, T a, T b, T c) {
  switch (op) {
    case FI_SUM:
      return static_cast<T>(a + b);
    case FI_PROD:
      return static_cast<T>(a * b);
    case FI_LOR:
      return truth<T>(a != T{} || b != T{});
    case FI_LAND:
      return truth<T>(a != T{} && b != T{});
    case FI_LXOR:
      return truth<T>((a != T{}) != (b != T{}));
    case FI_ATOMIC_READ:
      return a;
    case FI_ATOMIC_WRITE:
      return b;
    case FI_CSWAP:
      return c == a ? b : a;
    case FI_CSWAP_NE:
      return c != a ? b : a;
    default:
      break;
  }
  if constexpr (!is_complex<T>) {
    switch (op) {
      case FI_MIN:
        return b < a ? b : a;
      case FI_MAX:
        return a < b ? b : a;
      case FI_CSWAP_LE:
        return c <= a ? b : a;
      case FI_CSWAP_LT:
        return c < a ? b : a;
      case FI_CSWAP_GE:
        return c >= a ? b : a;
      case FI_CSWAP_GT:
        return c > a ? b : a;
      default:
        break;
    }
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case FI_BOR:
        return static_cast<T>(a | b);
      case FI_BAND:
        return static_cast<T>(a & b);
      case FI_BXOR:
        return static_cast<T>(a ^ b);
      case FI_MSWAP:
        return static_cast<T>((b & c) | (a & ~c));
      default:
        break;
    }
  }
  return a;
}

// Signed sums and products wrap, as in hardware.
template <class T>
T wrap(fi_op op, T a, T b, T c) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (op == FI_SUM) return static_cast<T>(static_cast<U>(std::uint64_t(U(a)) + std::uint64_t(U(b))));
    if (op == FI_PROD) return static_cast<T>(static_cast<U>(std::uint64_t(U(a)) * std::uint64_t(U(b))));
  } else if constexpr (std::is_integral_v<T>) {
    if (op == FI_PROD) return static_cast<T>(std::uint64_t(a) * std::uint64_t(b));
  }
  return combine(op, a, b, c);
}

}  // namespace

std::size_t datatype_bytes(fi_datatype datatype) noexcept {
  return with_type(datatype, []<class T>(Type<T>) -> std::size_t {
    if constexpr (std::is_void_v<T>)
      return 0;
    else
      return sizeof(T);
  });
}

bool atomic_valid(fi_datatype datatype, fi_op op, AtomicKind kind) noexcept {
  const bool swap = op >= FI_CSWAP && op <= FI_MSWAP;
  if (swap != (kind == AtomicKind::compare) || op > FI_MSWAP) return false;
  if (op == FI_ATOMIC_READ && kind != AtomicKind::fetch) return false;
  return with_type(datatype, [op]<class T>(Type<T>) {
    if constexpr (std::is_void_v<T>) return false;
    if constexpr (std::is_integral_v<T>) return true;
    if (op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP) return false;
    if constexpr (is_complex<T>)
      return op != FI_MIN && op != FI_MAX && (op < FI_CSWAP_LE || op > FI_CSWAP_GT);
    return true;
  });
}

std::size_t atomic_bytes(AtomicKind kind) noexcept {
  return kind == AtomicKind::compare ? eager_bytes / 2 : eager_bytes;
}

void apply_atomic(fi_datatype datatype, fi_op op, std::byte* target, const std::byte* operand,
                  const std::byte* comparand, std::byte* previous, std::size_t bytes) noexcept {
  with_type(datatype, [&]<class T>(Type<T>) {
    if constexpr (!std::is_void_v<T>) {
      for (std::size_t at = 0; at < bytes; at += sizeof(T)) {
        T a, b{}, c{};
        std::memcpy(&a, target + at, sizeof a);
        if (op != FI_ATOMIC_READ) std::memcpy(&b, operand + at, sizeof b);
        if (op >= FI_CSWAP) std::memcpy(&c, comparand + at, sizeof c);
        if (previous != nullptr) std::memcpy(previous + at, &a, sizeof a);
        const T result = wrap<T>(op, a, b, c);
        if (op != FI_ATOMIC_READ) std::memcpy(target + at, &result, sizeof result);
      }
    }
  });
}

int query_atomic(fid_domain*, fi_datatype datatype, fi_op op, fi_atomic_attr* attr,
                 std::uint64_t flags) noexcept {
  const AtomicKind kind = (flags & FI_COMPARE_ATOMIC) != 0 ? AtomicKind::compare
                          : (flags & FI_FETCH_ATOMIC) != 0 ? AtomicKind::fetch
                                                           : AtomicKind::base;
  if (!atomic_valid(datatype, op, kind)) return -FI_EOPNOTSUPP;
  attr->size = datatype_bytes(datatype);
  attr->count = atomic_bytes(kind) / attr->size;
  return 0;
}

}  // namespace nanet::fabric
