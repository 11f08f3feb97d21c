// SPDX-License-Identifier: Apache-2.0
// One event per vector lane, so that each lane adds up its hits in the order of the per-event function and
// rounds as it does. Events are grouped by hit count, so that the lanes of a group end nearly together.
#include "nanet/rich/math_batch.hpp"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace nanet::rich {
namespace {

constexpr unsigned lanes = 16;
using Floats = float __attribute__((vector_size(lanes * sizeof(float))));
using Ints = std::int32_t __attribute__((vector_size(lanes * sizeof(std::int32_t))));

// Hit number i of each of the sixteen events: first interleaved as they are looked up, then all x, all y.
struct alignas(64) Row {
  Point point[lanes];
};
static_assert(sizeof(Row) == 2 * sizeof(Floats));
struct alignas(64) Planes {
  Floats x, y;
};

// One more than any PM ID that eleven bits can hold: an unchecked hit word cannot reach past the table.
constexpr std::size_t table_size = 2048;
constexpr std::uint32_t chunk = 256;  // events sorted by hit count together

// Correctly rounded in every lane, whatever the instruction. Spelt out, since g++ 12 takes the lanes one by
// one.
inline void square_root(Floats& value) {
#if defined(__AVX512F__)
  value = reinterpret_cast<Floats>(_mm512_maskz_sqrt_ps(0xFFFF, reinterpret_cast<__m512>(value)));
#elif defined(__AVX__)
  __m256 half[2];
  std::memcpy(half, &value, sizeof value);
  for (__m256& h : half) h = _mm256_sqrt_ps(h);
  std::memcpy(&value, half, sizeof value);
#elif defined(__SSE2__)
  __m128 quarter[4];
  std::memcpy(quarter, &value, sizeof value);
  for (__m128& q : quarter) q = _mm_sqrt_ps(q);
  std::memcpy(&value, quarter, sizeof value);
#else
  for (unsigned lane = 0; lane < lanes; ++lane) value[lane] = __builtin_sqrtf(value[lane]);
#endif
}

class MathBatch final : public Reconstructor {
 public:
  MathBatch(const Math& math, const Point* plane, std::size_t points) : math_(math) {
    std::copy_n(plane, points, plane_.begin());
  }
  std::string_view name() const noexcept override { return Math::name; }
  std::unique_ptr<Reconstructor> clone() const override {
    return std::make_unique<MathBatch>(math_, plane_.data(), plane_.size());
  }

  void operator()(const EventBatch& batch, Rings* rings) noexcept override {
    for (std::uint32_t from = 0; from < batch.events; from += chunk) {
      const std::uint32_t events = std::min(chunk, batch.events - from);
      const std::uint32_t fitted = sort_by_hits(batch, from, events, rings);
      for (std::uint32_t at = 0; at < fitted; at += lanes) {
        fit(batch, &order_[at], std::min(lanes, fitted - at), rings);
      }
    }
  }

 private:
  static std::uint32_t hits_of(const EventBatch& batch, std::uint32_t event) {
    return std::min(batch.first[event + 1] - batch.first[event], static_cast<std::uint32_t>(max_event_hits));
  }

  // Fills order_ with the events that have enough hits, fewest first, and gives their number; the others have
  // no ring.
  std::uint32_t sort_by_hits(const EventBatch& batch, std::uint32_t from, std::uint32_t events,
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
      if (hits_[i] >= least) order_[start[hits_[i]]++] = from + i;
    }
    return fitted;
  }

  // Fits `events` (1 - 16) events, ordered by hits.
  void fit(const EventBatch& batch, const std::uint32_t* event, unsigned events, Rings* rings) noexcept {
    Ints hits{};
    std::array<const PmId*, lanes> pm;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const std::uint32_t e =
          event[lane < events ? lane : 0];  // an empty lane fits the first event; nobody looks
      pm[lane] = batch.pm + batch.first[e];
      hits[lane] = static_cast<std::int32_t>(hits_of(batch, e));
    }
    const std::int32_t shared = hits[0], most = hits[events - 1];  // rows that all lanes have; that any has
    for (unsigned lane = 0; lane < events; ++lane) {
      const PmId* const ids = pm[lane];
      for (std::int32_t i = 0; i < hits[lane]; ++i) rows_[i].point[lane] = plane_[ids[i]];
    }
    const Floats n = __builtin_convertvector(hits, Floats);

    // Up to row `shared` all lanes are in use; from there on a lane that has ended adds +0.0, which changes
    // no bit.
    Floats sum_x{}, sum_y{};
    for (std::int32_t i = 0; i < most; ++i) {
      Floats low, high;
      Row& row = rows_[i];
      std::memcpy(&low, row.point, sizeof low);
      std::memcpy(&high, row.point + lanes / 2, sizeof high);
      const Floats x =
          __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      const Floats y =
          __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
      planes_[i].x = x;
      planes_[i].y = y;
      if (i < shared) {
        sum_x += x;
        sum_y += y;
      } else {
        const Ints live = i < hits;
        sum_x += live ? x : Floats{};
        sum_y += live ? y : Floats{};
      }
    }
    const Floats mean_x = sum_x / n, mean_y = sum_y / n;

    Floats uu{}, vv{}, uv{}, uz{}, vz{};
    const auto moments = [&](Floats u, Floats v) __attribute__((always_inline)) {
      const Floats u2 = u * u, v2 = v * v, z = u2 + v2;
      uu += u2;
      vv += v2;
      uv += u * v;
      uz += u * z;
      vz += v * z;
    };
    for (std::int32_t i = 0; i < shared; ++i) moments(planes_[i].x - mean_x, planes_[i].y - mean_y);
    for (std::int32_t i = shared; i < most; ++i) {
      const Ints live = i < hits;
      moments(live ? planes_[i].x - mean_x : Floats{}, live ? planes_[i].y - mean_y : Floats{});
    }
    const Floats det = uu * vv - uv * uv, trace = uu + vv;
    Ints good = det > Math::flat * (trace * trace);
    const Floats half = 0.5f / (good ? det : Floats{} + 1.0f);
    const Floats a = (uz * vv - vz * uv) * half, b = (vz * uu - uz * uv) * half;
    Floats r = a * a + b * b + trace / n;
    square_root(r);
    good &= (r >= math_.parameters.r_min) & (r <= math_.parameters.r_max);
    const Floats x = mean_x + a, y = mean_y + b;

    Floats chi2{};
    for (std::int32_t i = 0; i < shared; ++i) {
      const Floats dx = planes_[i].x - x, dy = planes_[i].y - y;
      Floats off = dx * dx + dy * dy;
      square_root(off);
      off -= r;
      chi2 += off * off;
    }
    for (std::int32_t i = shared; i < most; ++i) {
      const Floats dx = planes_[i].x - x, dy = planes_[i].y - y;
      Floats off = dx * dx + dy * dy;
      square_root(off);
      off = (i < hits) ? off - r : Floats{};
      chi2 += off * off;
    }
    const Floats free = pixel_sigma_mm * pixel_sigma_mm * (n - 3.0f);
    const Floats chi2_ndf = (hits > 3) ? chi2 / ((hits > 3) ? free : Floats{} + 1.0f) : Floats{};

    for (unsigned lane = 0; lane < events; ++lane) {
      if (!good[lane]) continue;
      Rings& out = rings[event[lane]];
      out.count = 1;
      out.ring[0] = {x[lane], y[lane], r[lane], chi2_ndf[lane], static_cast<std::uint8_t>(hits[lane])};
    }
  }

  Math math_;
  std::array<Point, table_size> plane_{};
  std::array<Row, max_event_hits> rows_{};
  std::array<Planes, max_event_hits> planes_{};
  std::array<std::uint32_t, chunk> order_{};
  std::array<std::uint8_t, chunk> hits_{};
};

}  // namespace

std::unique_ptr<Reconstructor> make_math(const Math& math, const Geometry& geometry) {
  return std::make_unique<MathBatch>(math, geometry.common.data(), geometry.common.size());
}

}  // namespace nanet::rich
