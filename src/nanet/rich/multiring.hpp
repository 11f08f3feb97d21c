// SPDX-License-Identifier: Apache-2.0
// MULTIRING, the production algorithm: adds rings one by one by likelihood and keeps the best few sets. The
// odds decide the number of rings. Description: docs/algorithms.md.
#pragma once

#include <type_traits>

#include "nanet/rich/multiring_hand.hpp"

namespace nanet::rich {

// Execution unit of an event: 32 lanes alone, or several warps (gpu/kernels/multiring_team.cuh). Both give
// the same bits. index: warp of the caller. sync(): makes writes visible to the whole team.
struct Alone {
  static constexpr bool alone = true;
  NANET_HD static int index() { return 0; }
  NANET_HD static void sync() {}
};

// Reconstruction of one event.
template <class L, class Team = Alone>
class MultiringEvent : private MultiringHand<L> {
  using Hand = MultiringHand<L>;
  using typename Hand::F;
  using typename Hand::I;
  using typename Hand::M;
  using typename Hand::Row;
  using typename Hand::RowF;
  using typename Hand::RowI;
  using typename Hand::RowM;
  using typename Hand::Scratch;
  using typename Hand::State;
  using Board = std::conditional_t<Team::alone, decltype(Scratch::board), Multiring::Board>;

 public:
  // scratch: of the caller's lanes; board: shared by the team.
  NANET_HD MultiringEvent(const MultiringParameters& parameters, const EventView& event, const Point* plane,
                          Scratch& scratch, Board& board, const Team& team = {})
      : Hand(parameters, event, plane, scratch),
        b_(board),
        team_(team),
        breadth_(static_cast<int>(parameters.breadth)) {}

  NANET_HD void run(Rings& out) {
    if (lead()) begin();
    team_.sync();
    if (!b_.kept.settled) {
      search();
      team_.sync();
    }
    if (lead()) end(out);
  }

  // The reconstruction in three parts, one per kernel; Board::kept carries the state between them.
  // Returns true if a search is needed.
  NANET_HD bool begin() {
    L::sync();
    for (int k = 0; k <= static_cast<int>(max_rings); ++k) L::put(b_.kept.best_of + k, k ? nothing : 0.0f);
    const bool few = hits_ < static_cast<std::int32_t>(p_.min_hits) || hits_ < 3;
    const bool settled = few || one_clean_ring();
    put(b_.kept.settled, std::int32_t{settled});
    save(b_.kept.best, 0.0f);
    return !settled;
  }
  // Starts without rings: extends the best states by the best candidates for one more ring.
  NANET_HD void search() {
    if (lead()) copy(b_.kept.best, b_.now[0]);
    team_.sync();
    int states = 1;
    NANET_ROLLED
    for (unsigned level = 0; level < max_rings && states > 0; ++level) {
      const float cost = level == 0 ? model_.first_cost : model_.ring_cost;
      if constexpr (Team::alone)
        states = next_states(states, cost);
      else
        states = next_states_in_team(states, cost);
    }
  }
  NANET_HD void end(Rings& out) {
    take(b_.kept.best);
    if (!b_.kept.settled) split();
    finish();
    write(out);
  }

 private:
  using Hand::copy;
  using Hand::count_;
  using Hand::distance;
  using Hand::expected;
  using Hand::hits_;
  using Hand::inverse;
  using Hand::look_beside;
  using Hand::model_;
  using Hand::others;
  using Hand::p_;
  using Hand::polish_all;
  using Hand::popcount;
  using Hand::put;
  using Hand::put_ring;
  using Hand::r_min_;
  using Hand::ring;
  using Hand::rows_;
  using Hand::s_;
  using Hand::save;
  using Hand::standing;
  using Hand::step;
  using Hand::sum_rings;
  using Hand::take;
  using Hand::terms;
  using Hand::uniform_root;
  using Hand::value;

  static constexpr float nothing = -1e30f;
  // Minimum probability that a ring made a hit, for the hit to count for the ring. At crossings a hit may
  // count for two rings.
  static constexpr float own_share = 0.3f;
  static constexpr float better = 0.1f;    // minimum gain of a change
  static constexpr float patience = 3.0f;  // allowed deficit of a candidate before polishing
  static constexpr float margin = 10.0f;   // states this far below the best are dropped

  // Records the best value for each number of rings.
  NANET_HD void note(int count, float v) {
    const bool gains = v > b_.kept.best_of[count];
    L::sync();
    if (gains) L::put(b_.kept.best_of + count, v);
    L::sync();
  }

  // Caps the values of this number of rings and more, for dropped states.
  NANET_HD void no_better(int count, float v) {
    NANET_ROLLED
    for (; count <= static_cast<int>(max_rings); ++count) {
      const bool above = b_.kept.best_of[count] > v;
      L::sync();
      if (above) L::put(b_.kept.best_of + count, v);
    }
    L::sync();
  }

  // ---- The search.

  // Tests for a single ring with hardly any other hits. If true, the ring is in the current set.
  NANET_HD bool one_clean_ring() {
    F v[8];
    for (F& each : v) each = F(0.0f);
    float sum[8];
    NANET_ROLLED
    for (std::int32_t row = 0; row * lanes_step < hits_; ++row) {
      const M is = I(row * lanes_step) + L::lane() < I(hits_);
      const F x = L::select(is, L::load(s_.hits.x + row * lanes_step) - F(p_.centre_x), F(0.0f));
      const F y = L::select(is, L::load(s_.hits.y + row * lanes_step), F(0.0f));
      const F z = L::fma(x, x, y * y);
      v[0] = v[0] + x;
      v[1] = v[1] + y;
      v[2] = L::fma(x, x, v[2]);
      v[3] = L::fma(y, y, v[3]);
      v[4] = L::fma(x, y, v[4]);
      v[5] = L::fma(x, z, v[5]);
      v[6] = L::fma(y, z, v[6]);
    }
    L::sum(v, sum);
    // MATH: moments about the centroid, one 2 x 2 system.
    const float per_n = inverse(static_cast<float>(hits_)), mx = sum[0] * per_n, my = sum[1] * per_n;
    const float xx = fused(-sum[0], mx, sum[2]), yy = fused(-sum[1], my, sum[3]),
                xy = fused(-sum[0], my, sum[4]);
    const float z = sum[2] + sum[3];
    const float ez = 0.5f * (sum[5] - mx * z), fz = 0.5f * (sum[6] - my * z);
    const float det = fused(xx, yy, -(xy * xy)), trace = xx + yy;
    if (!(det > 1e-5f * trace * trace)) return false;
    const float per_det = inverse(det);
    const float cx = fused(ez, yy, -(fz * xy)) * per_det, cy = fused(fz, xx, -(ez * xy)) * per_det;
    const float dx = cx - mx, dy = cy - my;
    const float r = uniform_root(fused(dx, dx, fused(dy, dy, trace * per_n)));
    if (!(r > r_min_ && r < 1.2f * p_.r_max)) return false;
    count_ = 1;
    Circle3 found{cx + p_.centre_x, cy, r < p_.r_max ? r : p_.r_max};
    found = step(found, p_.model.per_scale / 40.0f);
    found = step(found, p_.model.per_scale / 20.0f);
    put_ring(0, found);
    L::sync();
    sum_rings();
    if (look_beside(-1, -1) > 2) return clear();
    polish_all(1);
    const std::int32_t open = look_beside(-1, -1);
    const float likely = expected(ring(0)), on = static_cast<float>(hits_ - open);
    if (open > 2 || hits_ - open < 8 || on > likely + 1.5f * uniform_root(likely)) return clear();
    return true;
  }
  NANET_HD bool clear() {
    count_ = 0;
    return false;
  }

  // Extends the states in b_.now by one ring, most promising candidates first, until enough distinct states
  // exist. Returns their number.
  NANET_HD int next_states(int states, float cost) {
    std::uint32_t candidates = 0;
    int in_hand = -1;
    NANET_ROLLED
    for (int i = 0; i < states; ++i) {
      take(b_.now[i]);
      in_hand = i;
      candidates |= find(look_beside(-1, -1), i, b_.now[i].value - cost);
    }
    int found = 0;
    std::uint32_t slots = 0;
    while (candidates && found < breadth_) {
      const int first = most_promising(candidates);
      candidates &= ~(1u << first);
      const Multiring::Candidate more = b_.candidate[first];
      const float before = b_.now[more.state].value;
      if (more.promise < before - patience) break;
      if (more.state != in_hand) take(b_.now[more.state]);
      in_hand = -1;
      const float v = with(more.circle);
      if (v > before && known(slots, found, v)) continue;
      note(count_, v);
      if (!(v > before)) continue;
      save(b_.next[found], v);
      slots |= static_cast<std::uint32_t>(found) << 4 * found;
      ++found;
    }
    return select(slots, found);
  }
  // The same for a team: one warp per round of seeds of each state, then one per candidate. A team tries more
  // candidates than 32 lanes alone; the surplus is discarded.
  NANET_HD int next_states_in_team(int states, float cost) {
    int in_hand = -1;
    std::int32_t open = 0;
    NANET_ROLLED
    for (int p = team_.index(); p < states * Multiring::rounds; p += team_.size()) {
      if (p % states != in_hand) {
        in_hand = p % states;
        take(b_.now[in_hand]);
        open = look_beside(-1, -1);
      }
      if (open < 3) continue;
      LaneCircles<L> c;
      const F gain = seeds(p / states, open, c);
      team_.keep(p, c.x, c.y, c.r, gain);
    }
    team_.sync();
    NANET_ROLLED
    for (int i = team_.index(); i < states; i += team_.size()) {
      if (i != in_hand) {
        in_hand = i;
        take(b_.now[in_hand]);
        open = look_beside(-1, -1);
      }
      std::uint32_t candidates = 0;
      if (open >= 3) {
        LaneCircles<L> best = no_circles();
        F best_gain{nothing};
        NANET_ROLLED
        for (int round = 0; round < Multiring::rounds; ++round) {
          LaneCircles<L> c;
          F gain;
          team_.kept(round * states + i, c.x, c.y, c.r, gain);
          better_of(best, best_gain, c, gain);
        }
        candidates = choose(best, best_gain, i, b_.now[i].value - cost);
      }
      put(b_.candidates[i], candidates);
    }
    team_.sync();
    std::uint32_t candidates = 0;
    NANET_ROLLED
    for (int i = 0; i < states; ++i) candidates |= b_.candidates[i];
    NANET_ROLLED
    for (int c = team_.index(); c < Multiring::max_breadth * Multiring::ways; c += team_.size()) {
      if (!(candidates >> c & 1u)) continue;
      const Multiring::Candidate more = b_.candidate[c];
      if (more.promise < b_.now[more.state].value - patience) continue;
      if (more.state != in_hand) take(b_.now[more.state]);
      in_hand = -1;
      save(b_.next[c], with(more.circle));
    }
    team_.sync();
    int found = 0;
    std::uint32_t slots = 0;
    while (candidates && found < breadth_) {
      const int c = most_promising(candidates);
      candidates &= ~(1u << c);
      const float before = b_.now[b_.candidate[c].state].value;
      if (b_.candidate[c].promise < before - patience) break;
      const float v = b_.next[c].value;
      if (v > before && known(slots, found, v)) continue;
      if (lead()) note(b_.next[c].count, v);
      if (!(v > before)) continue;
      slots |= static_cast<std::uint32_t>(c) << 4 * found;
      ++found;
    }
    team_.sync();
    const int chosen = select(slots, found);
    team_.sync();
    return chosen;
  }
  NANET_HD bool lead() const { return team_.index() == 0; }

  // Adds the ring to the current set and polishes all rings; returns their value.
  NANET_HD float with(const Circle3& more) {
    L::sync();
    put_ring(count_, more);
    ++count_;
    sum_rings(count_ - 1);
    polish_all(1);
    return value();
  }
  NANET_HD int most_promising(std::uint32_t candidates) const {
    int first = -1;
    NANET_ROLLED
    for (int c = 0; candidates >> c; ++c)
      if ((candidates >> c & 1u) && (first < 0 || b_.candidate[c].promise > b_.candidate[first].promise))
        first = c;
    return first;
  }
  // slots: positions in b_.next of the states found so far, four bits each.
  NANET_HD bool known(std::uint32_t slots, int found, float v) const {
    NANET_ROLLED
    for (int i = 0; i < found; ++i, slots >>= 4)
      if (b_.next[slots & 15u].value > v - 0.05f && b_.next[slots & 15u].value < v + 0.05f) return true;
    return false;
  }
  // Moves the best of these states to b_.now.
  NANET_HD int select(std::uint32_t slots, int found) {
    int states = 0;
    float last = 1e30f, first = 0.0f;
    for (; states < breadth_; ++states) {
      int best = -1;
      NANET_ROLLED
      for (int i = 0; i < found; ++i) {
        const int slot = static_cast<int>(slots >> 4 * i & 15u);
        if (b_.next[slot].value < last && (best < 0 || b_.next[slot].value > b_.next[best].value))
          best = slot;
      }
      if (best < 0) break;
      last = b_.next[best].value;
      if (states == 0) first = last;
      if (last < first - margin) break;
      if (!lead()) continue;
      copy(b_.next[best], b_.now[states]);
      if (states == 0 && first > b_.kept.best.value) copy(b_.next[best], b_.kept.best);
    }
    return states;
  }

  NANET_HD LaneCircles<L> no_circles() const { return {F(p_.centre_x), F(0.0f), F(100.0f)}; }
  NANET_HD MultiringSearch<L> search_in_hand() const {
    return {model_, s_.hits, (hits_ + 3) / 4, r_min_, p_.r_max};
  }
  // 32 seeds and their approximate gain. Lanes without a circle take one of 32 further pairs. If these do not
  // suffice, the gain is `nothing`.
  NANET_HD F seeds(int round, std::int32_t open, LaneCircles<L>& c) const {
    const MultiringSeeds<L> from{s_.hits, open, r_min_, p_.r_max, inverse(static_cast<float>(open))};
    LaneCircles<L> other;
    const M also = from.pair((2 * round + 1) * lanes_step, other);
    M good;
    if (round == 0)
      good = from.triplet(0, c);
    else
      good = from.pair(2 * round * lanes_step, c);
    const std::uint32_t word = L::ballot(also), gaps = ~L::ballot(good);
    // A search starts from fewer than max_rings rings.
    float* const at_x = s_.intensity[max_rings - 1];
    float *const at_y = at_x + lanes_step, *const at_r = at_y + lanes_step;
    L::sync();
    L::append(at_x, other.x, also, word);
    L::append(at_y, other.y, also, word);
    L::append(at_r, other.r, also, word);
    L::sync();
    const I place = L::rank_of_set(gaps), at = place & I(lanes_step - 1);
    const M filled = (!good) & (place < I(popcount(word)));
    const LaneCircles<L> none = no_circles();
    c.x = L::select(good, c.x, L::select(filled, L::gather(at_x, at, lanes_step), none.x));
    c.y = L::select(good, c.y, L::select(filled, L::gather(at_y, at, lanes_step), none.y));
    c.r = L::select(good, c.r, L::select(filled, L::gather(at_r, at, lanes_step), none.r));
    const F gain =
        search_in_hand().support(c, 18.0f * p_.model.scale) + model_.template standing<L>(c.x, c.y, c.r);
    return L::select(good | filled, gain, F(nothing));
  }
  NANET_HD static void better_of(LaneCircles<L>& best, F& best_gain, const LaneCircles<L>& c, const F& gain) {
    const M is_better = gain > best_gain;
    best_gain = L::select(is_better, gain, best_gain);
    best.x = L::select(is_better, c.x, best.x);
    best.y = L::select(is_better, c.y, best.y);
    best.r = L::select(is_better, c.r, best.r);
  }

  // Searches for one more ring in addition to those of a state. before: value of the state with its cost
  // included. Stores the best distinct rings as candidates; returns one bit per candidate.
  NANET_HD NANET_NOINLINE std::uint32_t find(std::int32_t open, int state, float before) {
    if (open < 3) return 0;
    LaneCircles<L> best = no_circles();
    F best_gain{nothing};
    NANET_ROLLED
    for (int round = 0; round < Multiring::rounds; ++round) {
      LaneCircles<L> c;
      const F gain = seeds(round, open, c);
      better_of(best, best_gain, c, gain);
    }
    return choose(best, best_gain, state, before);
  }
  NANET_HD std::uint32_t choose(LaneCircles<L> best, F best_gain, int state, float before) {
    // Each half takes the better of two lanes.
    const F other = L::other_half(best_gain);
    const M keep = (best_gain > other) | ((best_gain == other) & (L::lane() < I(16)));
    best.x = L::select(keep, best.x, L::other_half(best.x));
    best.y = L::select(keep, best.y, L::other_half(best.y));
    best.r = L::select(keep, best.r, L::other_half(best.r));
    best_gain = L::max(best_gain, other);
    if (!(before + L::max(best_gain) > b_.now[state].value - patience)) return 0;
    const M good = best_gain > F(nothing);
    const MultiringSearch<L> search = search_in_hand();
    search.step(best, 16.0f * p_.model.scale);
    best_gain = L::select(
        good, search.gain(best, 13.5f * p_.model.scale) + model_.template standing<L>(best.x, best.y, best.r),
        F(nothing));
    L::sync();
    std::uint32_t candidates = 0;
    NANET_ROLLED
    for (int i = 0; i < Multiring::ways; ++i) {
      const float most = L::max(best_gain);
      if (!(most > nothing)) break;
      const int lane = first_lane<L>(best_gain == F(most));
      const Circle3 c{L::at(best.x, lane), L::at(best.y, lane), L::at(best.r, lane)};
      const int at = state * Multiring::ways + i;
      put(b_.candidate[at], {c, before + most, state});
      candidates |= 1u << at;
      const F dx = best.x - F(c.x), dy = best.y - F(c.y), dr = best.r - F(c.r);
      const M same = L::fma(dx, dx, L::fma(dy, dy, dr * dr)) < F(150.0f);
      best_gain = L::select(same, F(nothing), best_gain);
    }
    L::sync();
    return candidates;
  }

  // Probability that ring k made each hit of a row.
  NANET_HD RowF part(std::int32_t row, int k) const {
    const RowF own = Row::load(s_.intensity[k] + row * Row::count);
    return own * Row::reciprocal(own + others(row, k, k));
  }

  // Splits rings with too many hits into two; re-pairs adjacent rings, which may have exchanged halves.
  NANET_HD void split() {
    NANET_ROLLED
    for (int k = 0; k < count_; ++k) {
      if (count_ == static_cast<int>(max_rings)) break;
      FixedSum<Row, 18> on;
      NANET_ROLLED
      for (std::int32_t row = 0; row < rows_; ++row) on.add(part(row, k));
      const float likely = expected(ring(k));
      if (on.total(terms()) < likely + 1.5f * uniform_root(likely)) continue;
      try_pair(k, k);
    }
    NANET_ROLLED
    for (int a = 0; a < count_; ++a) {
      NANET_ROLLED
      for (int b = a + 1; b < count_; ++b) {
        const Circle3 one = ring(a), other = ring(b);
        const float dx = one.x - other.x, dy = one.y - other.y, dr = one.r - other.r;
        if (fused(dx, dx, dy * dy) < 35.0f * 35.0f && dr < 40.0f && dr > -40.0f) try_pair(a, b);
      }
    }
  }
  // Tries two rings in place of a and b (a = b: one ring). They lie side by side around the middle of a and
  // b, in 16 directions at two distances.
  NANET_HD NANET_NOINLINE void try_pair(int a, int b) {
    const Circle3 one = ring(a), other = ring(b);
    look_beside(a, b);
    const MultiringSearch<L> search = search_in_hand();
    const float x = 0.5f * (one.x + other.x), y = 0.5f * (one.y + other.y), r = 0.5f * (one.r + other.r);
    F cosine, sine;
    directions(cosine, sine);
    LaneCircles<L> pair[2] = {{F(x) + cosine, F(y) + sine, F(r)}, {F(x) - cosine, F(y) - sine, F(r)}};
    search.step_pair(pair, 13.0f * p_.model.scale);
    const F gain = search.gain(pair, 13.5f * p_.model.scale) +
                   model_.template standing<L>(pair[0].x, pair[0].y, pair[0].r) +
                   model_.template standing<L>(pair[1].x, pair[1].y, pair[1].r);
    const int lane = first_lane<L>(gain == F(L::max(gain)));
    if (lane >= lanes_step) return;
    put_ring(a, {L::at(pair[0].x, lane), L::at(pair[0].y, lane), L::at(pair[0].r, lane)});
    if (a == b) ++count_;
    put_ring(a == b ? count_ - 1 : b,
             {L::at(pair[1].x, lane), L::at(pair[1].y, lane), L::at(pair[1].r, lane)});
    L::sync();
    sum_rings();
    polish_all(1);
    const float v = value(), best = b_.kept.best.value;
    const bool gains = v > best + better;
    note(count_, gains || v < best ? v : best);
    if (gains)
      save(b_.kept.best, v);
    else
      take(b_.kept.best);
  }
  // Directions over half a turn in steps of 1/16; 10 mm in lanes 0 - 15, 22 mm in lanes 16 - 31.
  NANET_HD static void directions(F& cosine, F& sine) {
    constexpr float table[32] = {
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

  // ---- Final steps.

  // Polishes the rings and drops those whose gain is below their cost.
  NANET_HD void finish() {
    if (count_ > 0) {
      polish_all(2);
      note(count_, value());
    }
    while (count_ > 0) {
      FixedSum<Row, 18> stray;
      NANET_ROLLED
      for (std::int32_t row = 0; row < rows_; ++row) {
        const RowM is = RowI(row * Row::count) + Row::lane() < RowI(hits_);
        stray.add(Row::select(is, Row::reciprocal(others(row, -1, -1)), RowF(0.0f)));
      }
      const float strays = stray.total(terms()) * model_.per_noise;  // in units of the expected ones
      int worst = -1;
      float least = 0.0f;
      NANET_ROLLED
      for (int k = 0; k < count_; ++k) {
        FixedSum<Row, 16> change;
        FixedSum<Row, 18> share;
        std::int32_t hits = 0;
        NANET_ROLLED
        for (std::int32_t row = 0; row < rows_; ++row) {
          const RowF own = Row::load(s_.intensity[k] + row * Row::count), rest = others(row, k, k);
          const RowF of = own * Row::reciprocal(own + rest);
          change.add(logarithm<Row>(Row::fma(own, Row::reciprocal(rest), RowF(1.0f))));
          share.add(of);
          hits += popcount(Row::ballot(of > RowF(own_share)));
        }
        float gain =
            change.total(terms()) + standing(ring(k)) - (count_ == 1 ? model_.first_cost : model_.ring_cost);
        if (count_ == 1 && strays > 1.0f)
          gain -= p_.noise_adaption * Row::at(logarithm<Row>(RowF(strays)), 0) * share.total(terms());
        if (hits < static_cast<std::int32_t>(p_.min_hits)) gain = nothing;
        if (gain < least) {
          least = gain;
          worst = k;
        }
      }
      if (worst < 0) break;
      // The last ring moves to the place of the dropped ring.
      const Circle3 last = ring(count_ - 1);
      L::sync();
      put_ring(worst, last);
      L::sync();
      --count_;
      sum_rings();
      polish_all(1);
      const float rest = count_ ? value() : 0.0f;
      note(count_, rest);
      no_better(count_ + 1, rest + least);
    }
  }

  NANET_HD void write(Rings& out) {
    Rings rings;
    std::int32_t hits[max_rings];
    float chi2[max_rings];  // in units of reach^2
    NANET_ROLLED
    for (int k = 0; k < count_; ++k) {
      std::int32_t on = 0;
      FixedSum<Row, 18> off2;
      NANET_ROLLED
      for (std::int32_t row = 0; row < rows_; ++row) {
        const RowF off = distance(row, s_.x[k], s_.y[k]) - RowF(s_.r[k]);
        const RowM is = part(row, k) > RowF(own_share);
        on += popcount(Row::ballot(is));
        off2.add(Row::select(is, off * off * RowF(p_.model.per_reach2), RowF(0.0f)));
      }
      hits[k] = on;
      chi2[k] = off2.total(terms());
    }
    bool used[max_rings] = {};
    NANET_ROLLED
    for (int place = 0; place < count_; ++place) {
      int first = -1;
      NANET_ROLLED
      for (int k = 0; k < count_; ++k) {
        if (used[k]) continue;
        if (first < 0 || hits[k] > hits[first] || (hits[k] == hits[first] && s_.r[k] > s_.r[first]))
          first = k;
      }
      used[first] = true;
      rings.ring[place] = {s_.x[first], s_.y[first], s_.r[first],
                           hits[first] > 3 ? chi2[first] / (p_.model.per_reach2 * p_.model.sigma2 *
                                                            static_cast<float>(hits[first] - 3))
                                           : 0.0f,
                           static_cast<std::uint8_t>(hits[first])};
    }
    rings.count = static_cast<std::uint8_t>(count_);
    for (int k = 0; k <= static_cast<int>(max_rings); ++k)
      if (k != count_ && b_.kept.best_of[k] > b_.kept.best_of[count_] - p_.ambiguity_margin)
        rings.ambiguous = true;
    write_rings<L>(rings, out);
  }

  Board& b_;
  const Team team_;
  const int breadth_;
};

template <class L>
NANET_HD void Multiring::operator()(const EventView& event, const Point* plane, Scratch& scratch,
                                    Rings& rings) const {
  MultiringEvent<L>(parameters, event, plane, scratch, scratch.board).run(rings);
}

}  // namespace nanet::rich
