// SPDX-License-Identifier: Apache-2.0
// MATH on a CPU: sums by table, an event after the other; then the fit, one event per vector lane, with the
// bits of the per-event function. Events are grouped by hit count, so that the loops over their hits have
// predictable ends.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/math.hpp"
#include "nanet/rich/reconstructor.hpp"

namespace nanet::rich {
namespace {

// Two vectors of AVX-512; one vector of others.
constexpr unsigned lanes = host_lanes::width == 16 ? 32 : host_lanes::width;
using Lanes = VectorLanes<lanes>;
using F = Lanes::F;
using I = Lanes::I;

// Terms of a PM in the sums (Math::word), so that a hit takes one addition. Without sign: the sum of a field
// may pass the end of its word, where moments_of_words() ignores it.
using Words = std::uint32_t __attribute__((vector_size(4 * Math::words)));
Words words_of(const Math::Position& p) {
  Math::WholeSums s;
  s.add(Math::pair(p));
  Words words;
  for (unsigned i = 0; i < Math::words; ++i) words[i] = static_cast<std::uint32_t>(Math::word(s, i));
  return words;
}

// Transposes eight rows of eight words.
inline __attribute__((always_inline)) void transpose(const Words* row, Words (&word)[8]) {
  Words pair[8], four[8];
  for (int i = 0; i < 8; i += 2) {
    pair[i] = __builtin_shufflevector(row[i], row[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pair[i + 1] = __builtin_shufflevector(row[i], row[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      four[i + 2 * j] = __builtin_shufflevector(pair[i + j], pair[i + 2 + j], 0, 1, 8, 9, 4, 5, 12, 13);
      four[i + 2 * j + 1] = __builtin_shufflevector(pair[i + j], pair[i + 2 + j], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; ++i) {
    word[i] = __builtin_shufflevector(four[i], four[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    word[i + 4] = __builtin_shufflevector(four[i], four[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

constexpr std::uint32_t chunk = 256;  // events sorted together by hit count

class MathBatch final : public Reconstructor {
 public:
  MathBatch(const Math& math, const Geometry& geometry) : math_(math) {
    math_.use(geometry);
    const std::vector<Point> plane = plane_table(geometry);
    if (math_.whole) {
      std::vector<Words> table;
      for (const Point& p : plane) table.push_back(words_of(math_.position(p)));
      whole_ = std::make_shared<const std::vector<Words>>(std::move(table));
    } else {
      std::vector<Math::Position> table;
      for (const Point& p : plane) table.push_back(math_.position(p));
      positions_ = std::make_shared<const std::vector<Math::Position>>(std::move(table));
    }
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

  // Fits up to `lanes` events.
  template <class Batch>
  void fit(const Batch& batch, const std::uint32_t* event, unsigned events, Rings* rings) noexcept {
    std::uint32_t valid = 0;
    for (unsigned lane = 0; lane < events; ++lane) {  // other lanes keep the numbers of an earlier group
      const std::uint32_t hits = hits_of(batch, event[lane]);
      count_[lane] = static_cast<float>(hits);
      valid |= std::uint32_t{sum(batch, batch.first[event[lane]], hits, lane)} << lane;
    }
    const Math::Moments<Lanes> moments = sums_are_words(batch) ? of_words() : of_moments();
    Math::Fit<Lanes> fit;
    const std::uint32_t good = Lanes::ballot(math_.solve(moments, Lanes::load(count_.data()), fit)) & valid;
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

  bool sums_are_words(const EventBatch&) const noexcept { return math_.whole; }
  static bool sums_are_words(const PointBatch&) noexcept { return false; }

  // Adds the hits of one event into the sums of a lane. Returns false if the event has no ring.
  bool sum(const EventBatch& batch, std::uint32_t from, std::uint32_t hits, unsigned lane) noexcept {
    const PmId* const pm = batch.pm + from;
    if (math_.whole) {
      const Words* const table = whole_->data();
      Words a{}, b{};
      std::uint32_t i = 0;
      for (; i + 4 <= hits; i += 4) {
        a += table[pm[i]];
        b += table[pm[i + 1]];
        a += table[pm[i + 2]];
        b += table[pm[i + 3]];
      }
      for (; i < hits; ++i) a += table[pm[i]];
      words_[lane] = a + b;
      return true;
    }
    Math::Sums sums;
    for (std::uint32_t i = 0; i < hits; ++i) sums.add((*positions_)[pm[i]]);
    put(math_, sums, lane);
    return true;
  }
  // Hits at free positions: the scale depends on the detector and on the event.
  bool sum(const PointBatch& batch, std::uint32_t from, std::uint32_t hits, unsigned lane) noexcept {
    const auto point = [&](std::uint32_t i) { return Point{batch.x[from + i], batch.y[from + i]}; };
    Math math = math_;
    if (!math.reach(point, hits)) return false;
    Math::Sums sums;
    for (std::uint32_t i = 0; i < hits; ++i) sums.add(math.position(point(i)));
    put(math, sums, lane);
    return true;
  }

  void put(const Math& math, const Math::Sums& sums, unsigned lane) noexcept {
    const Math::Moments<OneLane> m = math.moments(sums);
    const float values[] = {m.x, m.k, m.xx, m.xk, m.kk, m.xw, m.kw, m.zw};
    for (unsigned i = 0; i < 8; ++i) moments_[i][lane] = values[i];
  }
  Math::Moments<Lanes> of_moments() const noexcept {
    Math::Moments<Lanes> m;
    F* const to[] = {&m.x, &m.k, &m.xx, &m.xk, &m.kk, &m.xw, &m.kw, &m.zw};
    for (unsigned i = 0; i < 8; ++i) *to[i] = Lanes::load(moments_[i].data());
    return m;
  }

  Math::Moments<Lanes> of_words() const noexcept {
    alignas(64) std::array<std::array<std::int32_t, rows>, Math::words> column;
    for (unsigned from = 0; from < rows; from += 8) {
      Words word[8];
      transpose(words_.data() + from, word);
      for (unsigned i = 0; i < 8; ++i) std::memcpy(column[i].data() + from, &word[i], sizeof word[i]);
    }
    I word[Math::words];
    for (unsigned i = 0; i < Math::words; ++i) word[i] = Lanes::load(column[i].data());
    return Math::moments_of_words<Lanes>(word);
  }

  static constexpr unsigned rows = lanes < 8 ? 8 : lanes;

  Math math_;
  // By hit word, shared by all clones; one of the two.
  std::shared_ptr<const std::vector<Words>> whole_;
  std::shared_ptr<const std::vector<Math::Position>> positions_;
  // By lane: sums as words, or moments; number of hits.
  alignas(64) std::array<Words, rows> words_{};
  alignas(64) std::array<std::array<float, lanes>, 8> moments_{};
  alignas(64) std::array<float, lanes> count_{};
  std::array<std::uint32_t, chunk> order_{};
  std::array<std::uint8_t, chunk> hits_{};
};

}  // namespace

std::unique_ptr<Reconstructor> Math::batch_reconstructor(const Math& math, const Geometry& geometry) {
  return std::make_unique<MathBatch>(math, geometry);
}

}  // namespace nanet::rich
