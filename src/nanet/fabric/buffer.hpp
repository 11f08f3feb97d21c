// SPDX-License-Identifier: Apache-2.0
// Scatter-gather list of an operation.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "nanet/fabric/capabilities.hpp"

namespace nanet::fabric {

struct Buffer {
  std::array<iovec, max_iov> iov;  // the first `count` are valid
  unsigned count;
  std::size_t bytes;

  Buffer() noexcept : count(0), bytes(0) {}
  Buffer(const void* at, std::size_t size) noexcept : count(1), bytes(size) {
    iov[0] = {const_cast<void*>(at), size};
  }
  Buffer(const iovec* from, std::size_t n) noexcept : count(static_cast<unsigned>(n)), bytes(0) {
    for (unsigned i = 0; i < count; ++i) bytes += (iov[i] = from[i]).iov_len;
  }
  Buffer(const Buffer& other) noexcept : count(other.count), bytes(other.bytes) {
    std::copy_n(other.iov.begin(), count, iov.begin());
  }
  Buffer& operator=(const Buffer& other) noexcept {
    count = other.count;
    bytes = other.bytes;
    std::copy_n(other.iov.begin(), count, iov.begin());
    return *this;
  }

  std::byte* first() const noexcept { return count > 0 ? static_cast<std::byte*>(iov[0].iov_base) : nullptr; }

  // Copies n bytes from `offset` of the list to `to`.
  void gather(std::size_t offset, std::byte* to, std::size_t n) const noexcept {
    each(offset, n, [&](std::byte* at, std::size_t part) {
      std::memcpy(to, at, part);
      to += part;
    });
  }
  // Copies n bytes to `offset` of the list; what exceeds the list is dropped.
  void scatter(std::size_t offset, const std::byte* from, std::size_t n) const noexcept {
    each(offset, n, [&](std::byte* at, std::size_t part) {
      std::memcpy(at, from, part);
      from += part;
    });
  }

 private:
  template <class F>
  void each(std::size_t offset, std::size_t n, F&& f) const noexcept {
    for (unsigned i = 0; i < count && n > 0; ++i) {
      if (offset >= iov[i].iov_len) {
        offset -= iov[i].iov_len;
        continue;
      }
      const std::size_t part = std::min(n, iov[i].iov_len - offset);
      f(static_cast<std::byte*>(iov[i].iov_base) + offset, part);
      n -= part;
      offset = 0;
    }
  }
};

}  // namespace nanet::fabric
