// SPDX-License-Identifier: Apache-2.0
// Columns of rings of plain arrays: a row per ring, and one per event without rings.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "nanet/rich/ring.hpp"

namespace nanet::python {

// Memory of columns, in huge pages where the kernel permits. Keeps up to 64 MiB of freed memory for the next
// columns: the page faults of new memory take a quarter of the time of a fast algorithm.
class ColumnMemory {
 public:
  static constexpr std::size_t huge = 2 << 20, large = 256 << 10, most_kept = 64 << 20;

  // Rounds `bytes` up to the size of the block.
  static void* take(std::size_t& bytes) {
    const std::size_t unit = bytes >= huge ? huge : bytes >= large ? large : 64;
    bytes = std::max<std::size_t>((bytes + unit - 1) / unit * unit, unit);
    if (bytes >= large) {
      Kept& k = kept();
      const std::lock_guard lock(k.mutex);
      const auto block = std::find_if(k.blocks.begin(), k.blocks.end(), [&](const auto& b) {
        return b.second >= bytes && b.second <= bytes + bytes / 4;
      });
      if (block != k.blocks.end()) {
        void* const p = block->first;
        bytes = block->second;
        k.bytes -= bytes;
        k.blocks.erase(block);
        return p;
      }
    }
    void* const p = std::aligned_alloc(unit, bytes);
    if (p == nullptr) throw std::bad_alloc();
    if (unit == huge) (void)madvise(p, bytes, MADV_HUGEPAGE);
    return p;
  }
  static void give_back(void* p, std::size_t bytes) noexcept {
    if (p == nullptr) return;
    if (bytes >= large) {
      Kept& k = kept();
      const std::lock_guard lock(k.mutex);
      if (k.bytes + bytes <= most_kept && k.blocks.size() < k.blocks.capacity()) {
        k.blocks.emplace_back(p, bytes);
        k.bytes += bytes;
        return;
      }
    }
    std::free(p);
  }

 private:
  struct Kept {
    Kept() { blocks.reserve(most_kept / large); }
    std::mutex mutex;
    std::vector<std::pair<void*, std::size_t>> blocks;
    std::size_t bytes = 0;
  };
  static Kept& kept() {
    static Kept& all = *new Kept;  // outlives the arrays of Python
    return all;
  }
};

// Owned block of column memory.
class ColumnBlock {
 public:
  ColumnBlock() = default;
  explicit ColumnBlock(std::size_t bytes) : bytes_(bytes), memory_(ColumnMemory::take(bytes_)) {}
  ColumnBlock(ColumnBlock&& other) noexcept
      : bytes_(std::exchange(other.bytes_, 0)), memory_(std::exchange(other.memory_, nullptr)) {}
  ColumnBlock& operator=(ColumnBlock&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~ColumnBlock() { ColumnMemory::give_back(memory_, bytes_); }
  void* data() const noexcept { return memory_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_ = 0;
  void* memory_ = nullptr;
};

// Column that grows without initialising its values.
template <class T>
class Column {
 public:
  using Value = T;

  void reserve(std::size_t rows) {
    if (rows * sizeof(T) <= block_.bytes()) return;
    ColumnBlock moved(rows * sizeof(T));
    std::copy_n(data(), size_, static_cast<T*>(moved.data()));
    block_ = std::move(moved);
  }
  T* extend(std::size_t rows) {
    const std::size_t room = block_.bytes() / sizeof(T);
    if (size_ + rows > room) reserve(std::max(size_ + rows, room + room / 4));
    size_ += rows;
    return data() + size_ - rows;
  }
  std::size_t size() const noexcept { return size_; }
  T* data() const noexcept { return static_cast<T*>(block_.data()); }
  ColumnBlock release() {
    size_ = 0;
    return std::move(block_);
  }

 private:
  ColumnBlock block_;
  std::size_t size_ = 0;
};

// A row per ring, and one with ring = 255 per event without rings.
struct RingRows {
  static constexpr std::uint8_t no_ring = 255;

  Column<std::uint64_t> event;
  Column<std::uint32_t> timestamp;  // the same numbers
  Column<std::uint8_t> ring, n_rings, n_hits;
  Column<float> x, y, r, chi2_ndf;
  Column<std::uint16_t> event_hits;

  std::size_t size() const { return event.size(); }

  // each(name, column of each of the rows) for every column.
  template <class Each, class... Rows>
  static void each(Each&& each, Rows&... rows) {
    each("event", rows.event...);
    each("timestamp", rows.timestamp...);
    each("ring", rows.ring...);
    each("n_rings", rows.n_rings...);
    each("n_hits", rows.n_hits...);
    each("x", rows.x...);
    each("y", rows.y...);
    each("r", rows.r...);
    each("chi2_ndf", rows.chi2_ndf...);
    each("event_hits", rows.event_hits...);
  }

  void reserve(std::size_t rows) {
    each([rows](const char*, auto& column) { column.reserve(rows); }, *this);
  }

  // first: offsets of the events' hits.
  void add(const std::uint32_t* id, const std::uint32_t* first, const rich::Rings* rings,
           std::uint32_t events) {
    std::size_t rows = 0;
    for (std::uint32_t i = 0; i < events; ++i) rows += std::max<std::size_t>(rings[i].count, 1);
    std::uint64_t* const e = event.extend(rows);
    std::uint32_t* const t = timestamp.extend(rows);
    std::uint16_t* const seen = event_hits.extend(rows);
    std::uint8_t *const k = ring.extend(rows), *const of = n_rings.extend(rows),
                        *const hits = n_hits.extend(rows);
    float *const cx = x.extend(rows), *const cy = y.extend(rows), *const cr = r.extend(rows),
                 *const chi2 = chi2_ndf.extend(rows);
    constexpr float none = std::numeric_limits<float>::quiet_NaN();
    const auto put = [&](std::size_t row, const rich::Rings& found, unsigned j) {
      const bool there = found.count > 0;
      const rich::Ring one = there ? found.ring[j] : rich::Ring{none, none, none, none, 0};
      k[row] = there ? static_cast<std::uint8_t>(j) : no_ring;
      of[row] = found.count;
      hits[row] = one.hits;
      cx[row] = one.x;
      cy[row] = one.y;
      cr[row] = one.r;
      chi2[row] = one.chi2_ndf;
    };
    if (rows == events) {  // a row per event: the columns of the events are filled by vectors
      for (std::uint32_t i = 0; i < events; ++i) {
        e[i] = t[i] = id[i];
        seen[i] = static_cast<std::uint16_t>(first[i + 1] - first[i]);
      }
      for (std::uint32_t i = 0; i < events; ++i) put(i, rings[i], 0);
      return;
    }
    std::size_t row = 0;
    for (std::uint32_t i = 0; i < events; ++i) {
      const unsigned some = std::max<unsigned>(rings[i].count, 1);
      for (unsigned j = 0; j < some; ++j, ++row) {
        e[row] = t[row] = id[i];
        seen[row] = static_cast<std::uint16_t>(first[i + 1] - first[i]);
        put(row, rings[i], j);
      }
    }
  }
};

}  // namespace nanet::python
