// SPDX-License-Identifier: Apache-2.0
// MATH on a CPU: one event per vector lane, with the bits of the per-event function. Each lane adds its hits
// in the same order. Events are grouped by hit count, so that the lanes of a group end nearly together.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/math.hpp"
#include "nanet/rich/reconstructor.hpp"

namespace nanet::rich {
namespace {

// Two vectors of AVX-512, whose registers hold their moments; one vector of others: eight moments fill half
// of 16 registers.
constexpr unsigned lanes = host_lanes::width == 16 ? 32 : host_lanes::width;
using Lanes = VectorLanes<lanes>;
using F = Lanes::F;

// Hit number i of each event, interleaved during look-up; see slot().
struct alignas(64) Row {
  Point point[lanes];
};

// The same for hits at free positions.
struct alignas(64) FreeRow {
  float x[lanes], y[lanes];
};

constexpr std::uint32_t chunk = 256;  // events sorted together by hit count

class MathBatch final : public Reconstructor {
 public:
  MathBatch(const Math& math, const Geometry& geometry) : math_(math), plane_(plane_table(geometry)) {
    for (Point& p : plane_) p = {p.x - Math::origin_x, Math::rows(p.y)};
  }
  std::string_view name() const noexcept override { return Math::name; }
  std::unique_ptr<Reconstructor> clone() const override { return std::make_unique<MathBatch>(*this); }
  const void* value() const noexcept override { return &math_; }

  void operator()(const EventBatch& batch, Rings* rings) noexcept override { run(batch, rings); }
  void operator()(const PointBatch& batch, Rings* rings) noexcept override { run(batch, rings); }

 private:
  template <class Batch>
  void run(const Batch& batch, Rings* rings) noexcept {
    for (std::uint32_t from = 0; from < batch.events; from += chunk) {
      const std::uint32_t events = std::min(chunk, batch.events - from);
      // Prefetches: the events of a chunk are read out of order, which defeats the hardware prefetcher.
      if (from + events < batch.events) {
        const std::uint32_t next = std::min(chunk, batch.events - from - events);
        fetch(batch, batch.first[from + events], batch.first[from + events + next]);
      }
      const std::uint32_t fitted = sort_by_hits(batch, from, events, rings);
      for (std::uint32_t at = 0; at < fitted; at += lanes) {
        fit(batch, &order_[at], std::min(lanes, fitted - at), rings);
      }
    }
  }

  template <class T>
  static void fetch(const T* values, std::uint32_t from, std::uint32_t to) {
    for (; from < to; from += 64 / sizeof(T)) __builtin_prefetch(values + from);
  }
  static void fetch(const EventBatch& batch, std::uint32_t from, std::uint32_t to) {
    fetch(batch.pm, from, to);
  }
  static void fetch(const PointBatch& batch, std::uint32_t from, std::uint32_t to) {
    fetch(batch.x, from, to);
    fetch(batch.y, from, to);
  }

  template <class Batch>
  static std::uint32_t hits_of(const Batch& batch, std::uint32_t event) {
    return std::min(batch.first[event + 1] - batch.first[event], static_cast<std::uint32_t>(max_event_hits));
  }

  // Fills order_ with the events that have enough hits, by ascending hit count, and returns their number. The
  // other events have no ring.
  template <class Batch>
  std::uint32_t sort_by_hits(const Batch& batch, std::uint32_t from, std::uint32_t events,
                             Rings* rings) noexcept {
    std::array<std::uint16_t, max_event_hits + 2> start{};
    const std::uint32_t least = std::max(math_.parameters.min_hits, std::uint32_t{3});
    for (std::uint32_t i = 0; i < events; ++i) {
      hits_[i] = static_cast<std::uint8_t>(hits_of(batch, from + i));
      ++start[hits_[i] + 1u];
    }
    for (std::uint32_t n = 0; n < std::min(least, static_cast<std::uint32_t>(max_event_hits) + 1); ++n)
      start[n + 1] = 0;
    for (std::uint32_t n = 0; n <= max_event_hits; ++n)
      start[n + 1] = static_cast<std::uint16_t>(start[n + 1] + start[n]);
    const std::uint32_t fitted = start[max_event_hits + 1];
    for (std::uint32_t i = 0; i < events; ++i) {
      rings[from + i].count = 0;
      rings[from + i].ambiguous = false;
      rings[from + i].primitive = 0;
      if (hits_[i] >= least) order_[start[hits_[i]]++] = from + i;
    }
    return fitted;
  }

  // Fits up to `lanes` events, ordered by hit count.
  template <class Batch>
  void fit(const Batch& batch, const std::uint32_t* event, unsigned events, Rings* rings) noexcept {
    const std::uint32_t shared = hits_of(batch, event[0]);         // rows common to all lanes
    const std::uint32_t most = hits_of(batch, event[events - 1]);  // rows of the longest lane
    alignas(64) std::array<float, lanes> count;
    clear(batch, shared, most);
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const std::uint32_t e =
          event[lane < events ? lane : 0];  // an empty lane fits the first event; the result is unused
      const std::uint32_t hits = hits_of(batch, e);
      gather(batch, batch.first[e], hits, lane);
      count[lane] = static_cast<float>(hits);
    }
    Math::Moments<Lanes> moments;
    for (std::uint32_t i = 0; i < most; ++i) {
      F x, y;
      load(batch, i, x, y);
      moments.add(x, y);
    }
    Math::Fit<Lanes> fit;
    const std::uint32_t good = Lanes::ballot(math_.solve(moments, Lanes::load(count.data()), fit));
    alignas(64) std::array<float, lanes> x, y, r, chi2_ndf;
    Lanes::store(x.data(), fit.x);
    Lanes::store(y.data(), fit.y);
    Lanes::store(r.data(), fit.r);
    Lanes::store(chi2_ndf.data(), fit.chi2_ndf);
    for (unsigned lane = 0; lane < events; ++lane) {
      if (!(good >> lane & 1)) continue;
      Rings& out = rings[event[lane]];
      out.count = 1;
      out.ring[0] = {x[lane], y[lane], r[lane], chi2_ndf[lane],
                     static_cast<std::uint8_t>(hits_of(batch, event[lane]))};
    }
  }

  // From row `from` on, finished and empty lanes add hits at the origin, which change no bit.
  void clear(const EventBatch&, std::uint32_t from, std::uint32_t to) noexcept {
    std::memset(static_cast<void*>(rows_.data() + from), 0, (to - from) * sizeof(Row));
  }
  void clear(const PointBatch&, std::uint32_t from, std::uint32_t to) noexcept {
    for (std::uint32_t i = from; i < to; ++i) {
      std::fill_n(free_rows_[i].x, lanes, Math::origin_x);
      std::fill_n(free_rows_[i].y, lanes, Math::origin_y);
    }
  }

  void gather(const EventBatch& batch, std::uint32_t from, std::uint32_t hits, unsigned lane) noexcept {
    const PmId* const ids = batch.pm + from;
    const Point* const plane = plane_.data();
    for (std::uint32_t i = 0; i < hits; ++i) rows_[i].point[slot(lane)] = plane[ids[i]];
  }
  void gather(const PointBatch& batch, std::uint32_t from, std::uint32_t hits, unsigned lane) noexcept {
    const float* const x = batch.x + from;
    const float* const y = batch.y + from;
    for (std::uint32_t i = 0; i < hits; ++i) {
      free_rows_[i].x[lane] = x[i];
      free_rows_[i].y[lane] = y[i];
    }
  }

  void load(const EventBatch&, std::uint32_t row, F& x, F& y) const noexcept { split(rows_[row], x, y); }
  // With the arithmetic of the per-event function.
  void load(const PointBatch&, std::uint32_t row, F& x, F& y) const noexcept {
    x = Lanes::load(free_rows_[row].x) - F(Math::origin_x);
    y = Math::rows<Lanes>(Lanes::load(free_rows_[row].y));
  }

  // Position in a row of a lane's point: split() is then one shuffle of AVX2 for x and one for y.
  static constexpr unsigned slot(unsigned lane) {
    constexpr unsigned of_eight[] = {0, 1, 4, 5, 2, 3, 6, 7};
    return host_lanes::width == 8 ? of_eight[lane % 8] + lane / 8 * 8 : lane;
  }
  static void split(const Row& row, F& x, F& y) {
    constexpr int width = host_lanes::width;
    for (int h = 0; h < Lanes::vectors; ++h) {
      host_lanes::Floats low, high;
      std::memcpy(&low, row.point + width * h, sizeof low);
      std::memcpy(&high, row.point + width * h + width / 2, sizeof high);
      split(low, high, x.v[h], y.v[h]);
    }
  }
  template <class V>
  static void split(const V& low, const V& high, V& x, V& y) {
    if constexpr (sizeof(V) == 64) {
      x = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      y = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    } else if constexpr (sizeof(V) == 32) {
      x = __builtin_shufflevector(low, high, 0, 2, 8, 10, 4, 6, 12, 14);
      y = __builtin_shufflevector(low, high, 1, 3, 9, 11, 5, 7, 13, 15);
    } else {
      x = __builtin_shufflevector(low, high, 0, 2, 4, 6);
      y = __builtin_shufflevector(low, high, 1, 3, 5, 7);
    }
  }

  Math math_;
  std::vector<Point> plane_;  // relative to Math's origin, mm and rows
  std::array<Row, max_event_hits> rows_;
  std::array<FreeRow, max_event_hits> free_rows_;
  std::array<std::uint32_t, chunk> order_{};
  std::array<std::uint8_t, chunk> hits_{};
};

}  // namespace

std::unique_ptr<Reconstructor> Math::batch_reconstructor(const Math& math, const Geometry& geometry) {
  return std::make_unique<MathBatch>(math, geometry);
}

}  // namespace nanet::rich
