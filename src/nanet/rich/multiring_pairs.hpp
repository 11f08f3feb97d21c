// SPDX-License-Identifier: Apache-2.0
// MULTIRING: two rings in place of one ring or of two adjacent ones.
#pragma once

#include "nanet/rich/multiring_hand.hpp"

namespace nanet::rich {

template <class L>
class MultiringPairs : protected MultiringHand<L> {
 protected:
  using Hand = MultiringHand<L>;
  using Hand::count_;
  using Hand::expected;
  using typename Hand::F;
  using typename Hand::I;
  using typename Hand::M;
  using typename Hand::Row;
  using typename Hand::RowF;
  using MultiringHand<L>::MultiringHand;
  using Hand::hits_;
  using Hand::look_beside;
  using Hand::model_;
  using Hand::others;
  using Hand::p_;
  using Hand::polish_all;
  using Hand::put_ring;
  using Hand::r_min_;
  using Hand::ring;
  using Hand::rows_;
  using Hand::s_;
  using Hand::sum_rings;
  using Hand::terms;
  using Hand::uniform_root;
  using Hand::value;

  // Limits of adjacent rings, mm: distance of the centres, difference of the radii.
  static constexpr float near_centre = 35.0f, near_radius = 40.0f;

  // Probability that ring k made each hit of a row.
  NANET_HD RowF part(std::int32_t row, int k) const {
    const RowF own = Row::load(s_.intensity[k] + row * Row::count);
    return own * Row::reciprocal(own + others(row, k, k));
  }
  // Whether a ring has too many hits.
  NANET_HD bool crowded(int k) const {
    if (count_ == static_cast<int>(max_rings)) return false;
    FixedSum<Row, 18> on;
    NANET_ROLLED
    for (std::int32_t row = 0; row < rows_; ++row) on.add(part(row, k));
    const float likely = expected(ring(k));
    return !(on.total(terms()) < MultiringModel::most_hits(likely, uniform_root(likely)));
  }
  NANET_HD bool adjacent(int a, int b) const {
    const Circle3 one = ring(a), other = ring(b);
    const float dx = one.x - other.x, dy = one.y - other.y, dr = one.r - other.r;
    return fused(dx, dx, dy * dy) < near_centre * near_centre && dr < near_radius && dr > -near_radius;
  }
  NANET_HD static M adjacent(const LaneCircles<L>& one, const LaneCircles<L>& other) {
    const F dx = one.x - other.x, dy = one.y - other.y, dr = one.r - other.r;
    return (L::fma(dx, dx, dy * dy) < F(near_centre * near_centre)) & (dr < F(near_radius)) &
           (dr > F(-near_radius));
  }
  template <class Of = L>
  NANET_HD MultiringSearch<Of> search_over(const MultiringHits& hits) const {
    return {model_, hits, (hits_ + 3) / 4, r_min_, p_.r_max};
  }

  // Puts two rings in place of a and b (a = b: one ring); v: value of the set.
  NANET_HD NANET_INLINED bool put_pair(int a, int b, float& v) {
    Circle3 found[2];
    if (!find_pair(a, b, found)) {
      sum_rings();
      return false;
    }
    v = with_pair(a, b, found);
    return true;
  }
  NANET_HD float with_pair(int a, int b, const Circle3 (&found)[2]) {
    put_ring(a, found[0]);
    if (a == b) ++count_;
    put_ring(a == b ? count_ - 1 : b, found[1]);
    L::sync();
    sum_rings();
    polish_all(1);
    return value();
  }
  // Two rings side by side around the middle of a and b, in 16 directions at two distances.
  NANET_HD void pairs_beside(int a, int b, LaneCircles<L> (&pair)[2]) const {
    const Circle3 one = ring(a), other = ring(b);
    const float x = 0.5f * (one.x + other.x), y = 0.5f * (one.y + other.y), r = 0.5f * (one.r + other.r);
    F cosine, sine;
    directions(cosine, sine);
    pair[0] = {F(x) + cosine, F(y) + sine, F(r)};
    pair[1] = {F(x) - cosine, F(y) - sine, F(r)};
  }
  NANET_HD float pair_step_width() const { return 13.0f * p_.model.scale; }
  NANET_HD float pair_gain_width() const { return 13.5f * p_.model.scale; }
  // The best of them after one step. May overwrite the intensities.
  NANET_HD bool find_pair(int a, int b, Circle3 (&found)[2]) {
    LaneCircles<L> pair[2];
    pairs_beside(a, b, pair);
    look_beside(a, b);
    const MultiringSearch<L> search = search_over(s_.hits);
    F gain{0.0f};
    if constexpr (lane_is_thread<L>) {
      static_assert(sizeof s_.intensity >= pair_words * lane_count * sizeof(float));
      float* const room = s_.intensity[0];
      NANET_ROLLED
      for (std::int32_t q = 0; q < quarters; ++q) search.pair_sums(pair, pair_step_width(), q, room, q > 0);
      search.template step_pair<1>(pair, room);
      NANET_ROLLED
      for (std::int32_t q = 0; q < quarters; ++q) gain = gain + search.gain(pair, pair_gain_width(), q);
    } else {
      search.step_pair(pair, pair_step_width());
      gain = search.gain(pair, pair_gain_width());
    }
    L::sync();
    return best_pair(pair, gain, found);
  }
  // gain: of the hits.
  NANET_HD bool best_pair(const LaneCircles<L> (&pair)[2], const F& of_hits, Circle3 (&found)[2]) const {
    const F gain = of_hits + model_.template standing<L>(pair[0].x, pair[0].y, pair[0].r) +
                   model_.template standing<L>(pair[1].x, pair[1].y, pair[1].r);
    const int lane = first_lane<L>(gain == F(L::max(gain)));
    if (lane >= lanes_step) return false;
    NANET_UNROLLED
    for (int i = 0; i < 2; ++i)
      found[i] = {L::at(pair[i].x, lane), L::at(pair[i].y, lane), L::at(pair[i].r, lane)};
    return true;
  }
  // Directions over half a turn in steps of 1/16; 10 mm in lanes 0 - 15, 22 mm in lanes 16 - 31.
  NANET_HD static void directions(F& cosine, F& sine) {
    static constexpr float table[32] = {
        1.0f,         0.98078528f,  0.92387953f,  0.83146961f,  0.70710678f,  0.55557023f,  0.38268343f,
        0.19509032f,  0.0f,         -0.19509032f, -0.38268343f, -0.55557023f, -0.70710678f, -0.83146961f,
        -0.92387953f, -0.98078528f, 0.0f,         0.19509032f,  0.38268343f,  0.55557023f,  0.70710678f,
        0.83146961f,  0.92387953f,  0.98078528f,  1.0f,         0.98078528f,  0.92387953f,  0.83146961f,
        0.70710678f,  0.55557023f,  0.38268343f,  0.19509032f};
    const I way = L::lane() & I(15);
    const F length = L::select(L::lane() < I(16), F(10.0f), F(22.0f));
    cosine = L::gather(table, way) * length;
    sine = L::gather(table, way + I(16)) * length;
  }
};

}  // namespace nanet::rich
