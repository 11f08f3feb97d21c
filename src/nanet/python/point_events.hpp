// SPDX-License-Identifier: Apache-2.0
// Hits of plain arrays: reading, checking and numbering of events, chunk by chunk.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "nanet/units.hpp"

namespace nanet::python {

inline constexpr float most_mm = 10'000.0f;

[[noreturn]] inline void refuse(const std::string& sentence) {
  throw std::invalid_argument(sentence);
}

// Positions of the hits along one axis, as float. One of the two arrays is null.
class Axis {
 public:
  Axis(const char* name, const float* narrow, const double* wide)
      : name_(name), narrow_(narrow), wide_(wide) {}
  // Checked positions of hits from .. from + hits; valid until the next call with this buffer.
  const float* read(std::size_t from, std::size_t hits, std::vector<float>& buffer) const {
    const float* at = wide_ ? nullptr : narrow_ + from;
    if (wide_) {
      buffer.resize(std::max(buffer.size(), hits));
      const double* const in = wide_ + from;
      for (std::size_t i = 0; i < hits; ++i) buffer[i] = static_cast<float>(in[i]);
      at = buffer.data();
    }
    constexpr auto limit = std::bit_cast<std::uint32_t>(most_mm);
    std::uint32_t bad = 0;  // compares the bits: larger for infinities and NaN too
    for (std::size_t i = 0; i < hits; ++i)
      bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(at[i]) & 0x7FFFFFFFu) > limit);
    if (bad) name_the_bad(at, from, hits);
    return at;
  }

 private:
  [[noreturn]] void name_the_bad(const float* at, std::size_t from, std::size_t hits) const {
    std::size_t i = 0;
    while (i < hits && at[i] >= -most_mm && at[i] <= most_mm) ++i;
    std::ostringstream text;
    text << name_ << ": hit " << from + i << " is at " << at[i] << ": must be a position from -" << most_mm
         << " to " << most_mm << " mm";
    refuse(text.str());
  }

  const char* name_;
  const float* narrow_;
  const double* wide_;
};

// Events of a chunk: IDs, and offsets of their hits relative to the first one's.
struct Chunk {
  static constexpr std::uint32_t block = 64;  // Numbers looks for boundaries in this many hits at once

  explicit Chunk(std::uint32_t most_events)
      : most(most_events), id(most + 2 * block), first(most + 2 * block + 1) {}

  std::uint32_t most;  // events
  std::uint32_t events = 0;
  std::vector<std::uint32_t> id, first;
};

inline void check_hits(std::uint64_t event, std::uint64_t hits) {
  if (hits <= max_event_hits) return;
  std::ostringstream text;
  text << "event " << event << " has " << hits << " hits; an event has at most " << max_event_hits
       << ": select its hits first";
  refuse(text.str());
}

// Index of the largest difference of neighbours, first[0] .. first[events].
template <class T>
std::uint32_t longest(const T* first, std::uint32_t events) {
  std::uint32_t at = 0;
  for (std::uint32_t i = 1; i < events; ++i)
    if (first[i + 1] - first[i] > first[at + 1] - first[at]) at = i;
  return at;
}

// Event number of each hit, in ascending order.
template <class T>
class Numbers {
 public:
  Numbers(const T* values, std::size_t size) : values_(values), size_(size) {}

  std::size_t size() const { return size_; }
  // First hit of the event that holds hit `at`.
  std::size_t boundary(std::size_t at) const {
    while (at > 0 && at < size_ && values_[at] == values_[at - 1]) --at;
    return at;
  }
  static std::size_t hit(std::size_t at) { return at; }
  // Reads the events from hit `from` on, up to hit `to`; returns the hit behind them.
  std::size_t read(std::size_t from, std::size_t to, Chunk& out) const {
    const auto offset = [from](std::size_t at) { return static_cast<std::uint32_t>(at - from); };
    std::uint32_t* const id = out.id.data();
    std::uint32_t* const first = out.first.data();
    std::uint32_t n = 0;
    std::size_t at = from;
    T falls = from > 0 && values_[from] < values_[from - 1];
    // Events with equally many hits as the chunk before ended with: all hits but the last are compared with
    // the first only.
    for (const std::size_t hits = out.events ? first[out.events] - first[out.events - 1] : 1;
         n < out.most && to - at > hits; at += hits) {
      const T* const v = values_ + at;
      T other = 0;
      for (std::size_t k = 1; k < hits; ++k) other |= v[k] ^ v[0];
      if (other != 0 || v[hits] <= v[0]) break;
      id[n] = static_cast<std::uint32_t>(v[0]);
      first[n++] = offset(at);
    }
    if (n < out.most) {
      id[n] = static_cast<std::uint32_t>(values_[at]);
      first[n++] = offset(at++);
      at = search(at, to, from, n, falls, out);
    }
    out.events = n;
    first[n] = offset(at);
    if (n > out.most) {  // the last events are read again
      out.events = out.most;
      at = from + first[out.most];
    }
    if (falls) name_the_fall(from);
    check_range(from, at);
    const std::uint32_t most = longest(first, out.events);
    check_hits(id[most], first[most + 1] - first[most]);
    return at;
  }

 private:
  // Finds the events that start at hits `at` .. to, until the chunk is full; returns the hit behind the last
  // one searched. A block at a time without branches on the numbers: events of varying size defeat the
  // prediction of branches.
  std::size_t search(std::size_t at, std::size_t to, std::size_t from, std::uint32_t& n, T& falls,
                     Chunk& out) const {
    constexpr std::size_t furthest = std::size_t{1} << 31;  // offsets have 32 bits
    std::uint32_t* const id = out.id.data();
    std::uint32_t* const first = out.first.data();
    for (; n <= out.most && to - at >= Chunk::block && at - from < furthest; at += Chunk::block) {
      const T* const v = values_ + at;
      const T* const before = v - 1;
      alignas(64) std::uint8_t starts[Chunk::block];
      T fell = 0;
      for (unsigned k = 0; k < Chunk::block; ++k) starts[k] = v[k] != before[k];
      for (unsigned k = 0; k < Chunk::block; ++k) fell |= v[k] < before[k];
      falls |= fell;
      std::uint64_t mask = 0;  // bit k: starts[k]
      for (unsigned k = 0; k < Chunk::block; k += 8) {
        std::uint64_t eight;
        std::memcpy(&eight, starts + k, sizeof eight);
        mask |= (eight * 0x0102040810204080u >> 56) << k;
      }
      for (; mask; mask &= mask - 1) {
        const auto k = static_cast<unsigned>(std::countr_zero(mask));
        id[n] = static_cast<std::uint32_t>(v[k]);
        first[n++] = static_cast<std::uint32_t>(at + k - from);
      }
    }
    if (to - at >= Chunk::block) return at;
    for (; at < to; ++at) {
      if (values_[at] == values_[at - 1]) continue;
      falls |= values_[at] < values_[at - 1];
      id[n] = static_cast<std::uint32_t>(values_[at]);
      first[n++] = static_cast<std::uint32_t>(at - from);
    }
    return at;
  }
  // Of hits in order.
  void check_range(std::size_t from, std::size_t to) const {
    const auto good = [](T number) {
      bool is = true;
      if constexpr (std::is_signed_v<T>) is = number >= 0;
      if constexpr (sizeof(T) > 4) is = is && number <= T{0xFFFFFFFFu};
      return is;
    };
    if (good(values_[from]) && good(values_[to - 1])) return;
    while (good(values_[from])) ++from;
    std::ostringstream text;
    text << "event: hit " << from << " has number " << values_[from] << ": must be from 0 to 4294967295";
    refuse(text.str());
  }
  [[noreturn]] void name_the_fall(std::size_t from) const {
    std::size_t i = std::max<std::size_t>(from, 1);
    while (i + 1 < size_ && values_[i] >= values_[i - 1]) ++i;
    std::ostringstream text;
    text
        << "event: number " << values_[i] << " of hit " << i << " follows " << values_[i - 1]
        << ": the hits must be in order of event; sort x, y and event by numpy.argsort(event, kind='stable')";
    refuse(text.str());
  }

  const T* values_;
  std::size_t size_;
};

// First hit of each event, and the end of the last. number: of each event; null: its index.
class Offsets {
 public:
  Offsets(const std::int64_t* first, std::size_t events, const std::uint32_t* number)
      : first_(first), events_(events), number_(number) {}
  std::size_t size() const { return events_; }
  static std::size_t boundary(std::size_t at) { return at; }
  std::size_t hit(std::size_t at) const { return static_cast<std::size_t>(first_[at]); }
  std::size_t read(std::size_t from, std::size_t to, Chunk& out) const {
    const std::int64_t* const first = first_ + from;
    out.events = static_cast<std::uint32_t>(std::min<std::size_t>(out.most, to - from));
    const std::uint32_t most = longest(first, out.events);
    check_hits(from + most, static_cast<std::uint64_t>(first[most + 1] - first[most]));
    for (std::uint32_t i = 0; i < out.events; ++i)
      out.id[i] = number_ ? number_[from + i] : static_cast<std::uint32_t>(from + i);
    for (std::uint32_t i = 0; i <= out.events; ++i)
      out.first[i] = static_cast<std::uint32_t>(first[i] - first[0]);
    return from + out.events;
  }

 private:
  const std::int64_t* first_;
  std::size_t events_;
  const std::uint32_t* number_;
};

}  // namespace nanet::python
