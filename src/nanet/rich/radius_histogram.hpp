// SPDX-License-Identifier: Apache-2.0
// Histogram of hit distances to trial centres, with peak search; for HOUGH, POMH and DOMH.
#pragma once

#include "nanet/rich/refine.hpp"

namespace nanet::rich {

inline constexpr std::int32_t radius_bins = 32;
// Maximum votes per bin. A bin is one byte of an integer and must not reach its sign bit; further hits are
// ignored.
inline constexpr std::int32_t max_votes = 127;

// Bins in mm. The peak is the bin b with the largest n[b-2] + 2 n[b-1] + 3 n[b] + 2 n[b+1] + n[b+2]. The
// triangular weights allow for PM size, offset of the trial centre and hits at bin edges. They need two extra
// bins at either end.
struct RadiusBins {
  float low, per_width, width;
  NANET_HD RadiusBins(float r_min, float r_max, float wider) {
    width = wider * ((r_max - r_min) / 27.0f);
    low = r_min - 2.5f * width;
    per_width = 1.0f / width;
  }
  NANET_HD float middle(std::int32_t bin) const { return low + (static_cast<float>(bin) + 0.5f) * width; }
};

// Bin position of a distance: a bin number if 0 <= place < radius_bins.
template <class L>
NANET_HD inline typename L::F bin_place(const RadiusBins& bins, typename L::F dx, typename L::F dy) {
  return (L::sqrt(L::fma(dx, dx, dy * dy)) - typename L::F(bins.low)) * typename L::F(bins.per_width);
}

// Best peak of each lane; `code` increases with the trial order and resolves ties to the first.
template <class L>
struct Peak {
  typename L::I score{0}, code{0};
  NANET_HD void offer(const typename L::I& s, const typename L::I& c, const typename L::M& valid) {
    const typename L::M better = valid & (s > score);
    score = L::select(better, s, score);
    code = L::select(better, c, code);
  }
};
struct BestPeak {
  std::int32_t score = 0, code = 0;  // 0: none
};
// Highest peak over all lanes; ties go to the lowest code. Codes are below 2^20.
template <class L>
NANET_HD inline BestPeak best_peak(const Peak<L>& p) {
  using F = typename L::F;
  const float score = L::max(L::to_float(p.score));
  const F rest = L::to_float(typename L::I(1 << 20) - p.code);
  const float most = L::max(L::select(L::to_float(p.score) == F(score), rest, F(0.0f)));
  return {static_cast<std::int32_t>(score), (1 << 20) - static_cast<std::int32_t>(most)};
}

// One histogram and trial centre per lane: four bins per integer, all in registers.
template <class L>
struct RadiusHistogram {
  using F = typename L::F;
  using I = typename L::I;
  using M = typename L::M;
  static constexpr std::int32_t words = radius_bins / 4;
  I word[words];

  // Fills the histograms with the distances of all hits to the lanes' centres.
  NANET_HD void fill(const Hits& hits, std::int32_t n, const RadiusBins& bins, F x, F y) {
    for (std::int32_t k = 0; k < words; ++k) word[k] = I(0);
    for (std::int32_t i = 0; i < n && i < max_votes; ++i) {
      const F at = bin_place<L>(bins, F(hits.x[i]) - x, F(hits.y[i]) - y);
      const M inside = (at >= F(0.0f)) & (at < F(static_cast<float>(radius_bins)));
      const I bin = L::to_int(L::select(inside, at, F(4.0f * words)));  // outside: a non-existent word
      I one = L::select((bin & I(1)) != I(0), I(1 << 8), I(1));
      one = L::select((bin & I(2)) != I(0), one << 16, one);
      const I in = bin >> 2;
      for (std::int32_t k = 0; k < words; ++k) word[k] = word[k] + L::select(in == I(k), one, I(0));
    }
  }

  // Updates each lane's peak with its best bin; code: number of the lane's centre * radius_bins + bin.
  NANET_HD void find_peak(const I& centre, const M& valid, Peak<L>& peak) const {
    I n2(0), n1(0), box1(0), box2(0), score(0), best(0), best_bin(0);  // one and two bins ago
    for (std::int32_t b = 0; b < radius_bins; ++b) {
      const I n0 = (word[b / 4] >> (8 * (b % 4))) & I(0xFF);
      const I box0 = n0 + n1 + n2;
      score = box0 + box1 + box2;  // triangular sum around bin b - 2
      if (b >= 4) {
        const M better = score > best;
        best = L::select(better, score, best);
        best_bin = L::select(better, I(b - 2), best_bin);
      }
      n2 = n1;
      n1 = n0;
      box2 = box1;
      box1 = box0;
    }
    peak.offer(best, centre * I(radius_bins) + best_bin, valid);
  }
};

}  // namespace nanet::rich
