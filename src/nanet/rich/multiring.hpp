// SPDX-License-Identifier: Apache-2.0
// MULTIRING, the production algorithm: adds rings one by one by likelihood and keeps the best few sets. The
// odds decide the number of rings. Description: docs/algorithms.md.
#pragma once

#include <type_traits>

#include "nanet/rich/multiring_pairs.hpp"

namespace nanet::rich {

// Units that work on an event: 32 lanes alone, or several warps (multiring_team.hpp), with the same bits.
// index: of the caller; sync(): makes writes visible to all units.
struct Alone {
  static constexpr bool alone = true;
  NANET_HD static int index() { return 0; }
  NANET_HD static int size() { return 1; }
  NANET_HD static void sync() {}
};

// Reconstruction of one event.
template <class L, class Team = Alone>
class MultiringEvent : protected MultiringPairs<L> {
 protected:
  using Hand = MultiringPairs<L>;
  using typename Hand::F;
  using typename Hand::I;
  using typename Hand::M;
  using typename Hand::Row;
  using typename Hand::RowF;
  using typename Hand::RowI;
  using typename Hand::RowM;
  using typename Hand::Scratch;
  using typename Hand::State;
  using Board = Multiring::Board;
  // Lanes for 16 circles: a warp with two lanes for each, or half of the CPU's lanes.
  using Half = typename L::Half;
  using HalfF = typename Half::F;
  static constexpr auto of_half =
      lane_is_thread<L> ? MultiringSearch<Half>::Shared::by_two : MultiringSearch<Half>::Shared::by_one;

 public:
  // scratch: of the caller's lanes; board: shared by the team.
  NANET_HD MultiringEvent(const MultiringParameters& parameters, const EventView& event, const Point* plane,
                          Scratch& scratch, Board& board, const Team& team = {})
      : Hand(parameters, event, plane, scratch),
        b_(board),
        team_(team),
        breadth_(static_cast<int>(parameters.breadth)) {}

  // unsettled: begin() has found before that a search is needed.
  NANET_HD void run(Rings& out, bool unsettled = false) {
    if (unsettled) start(false);
    if (unsettled || begin()) {
      search();
    } else if constexpr (!lane_is_thread<L>) {  // the best rings are the current ones
      finish();
      return write(out);
    }
    end(out);
  }

  // The reconstruction in three parts, one per kernel; Board::kept carries the state between them.
  // Returns true if a search is needed.
  NANET_HD bool begin() {
    const bool few = hits_ < static_cast<std::int32_t>(p_.min_hits) || hits_ < 3;
    const bool settled =
        few || (!above(hits_ - most_stray, p_.r_max * p_.r_max * model_.photons) && one_clean_ring());
    start(settled);
    return !settled;
  }
  // Starts without rings: extends the best states by the best candidates for one more ring.
  NANET_HD void search() {
    copy(b_.kept.best, s_.now[0]);
    int states = 1;
    if constexpr (!lane_is_thread<L>) held_ = -1;
    NANET_ROLLED
    for (unsigned level = 0; level < max_rings && states > 0; ++level)
      states = next_states(states, cost_of(level));
  }
  NANET_HD void end(Rings& out) {
    take(b_.kept.best);
    if (!b_.kept.settled) split();
    finish();
    write(out);
  }

 protected:
  // Starts from the current rings.
  NANET_HD void start(bool settled) {
    L::sync();
    for (int k = 0; k <= static_cast<int>(max_rings); ++k) L::put(b_.kept.best_of + k, k ? nothing : 0.0f);
    put(b_.kept.settled, std::int32_t{settled});
    save(b_.kept.best, 0.0f);
  }

  using Hand::above;
  using Hand::adjacent;
  using Hand::copy;
  using Hand::count_;
  using Hand::crowded;
  using Hand::distance;
  using Hand::expected;
  using Hand::hits_;
  using Hand::inverse;
  using Hand::look_beside;
  using Hand::model_;
  using Hand::one_clean_ring;
  using Hand::others;
  using Hand::p_;
  using Hand::part;
  using Hand::polish_all;
  using Hand::popcount;
  using Hand::put;
  using Hand::put_pair;
  using Hand::put_ring;
  using Hand::r_min_;
  using Hand::ring;
  using Hand::rows_;
  using Hand::s_;
  using Hand::save;
  using Hand::search_over;
  using Hand::standing;
  using Hand::sum_rings;
  using Hand::take;
  using Hand::take_rings;
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

  NANET_HD bool lead() const { return team_.index() == 0; }
  NANET_HD float cost_of(unsigned level) const { return level == 0 ? model_.first_cost : model_.ring_cost; }

  // Records the best value for each number of rings. One unit.
  NANET_HD void note(int count, float v) {
    const bool gains = v > b_.kept.best_of[count];
    L::sync();
    if (gains) L::put(b_.kept.best_of + count, v);
    L::sync();
  }

  // Caps the values of this number of rings and more, for dropped states. One unit.
  NANET_HD void no_better(int count, float v) {
    NANET_ROLLED
    for (; count <= static_cast<int>(max_rings); ++count) {
      const bool larger = b_.kept.best_of[count] > v;
      L::sync();
      if (larger) L::put(b_.kept.best_of + count, v);
    }
    L::sync();
  }

  // ---- The search.

  // Extends the states in s_.now by one ring, most promising candidates first, until enough distinct states
  // exist. Returns their number.
  NANET_HD int next_states(int states, float cost) {
    std::uint32_t candidates = 0;
    int in_hand = -1;
    NANET_ROLLED
    for (int n = 0; n < states; ++n) {
      int i = n;
      if constexpr (lane_is_thread<L>) {
        take(s_.now[i]);
      } else {
        if (n <= held_) i = n == 0 ? held_ : n - 1;
        if (i != held_) take(s_.now[i]);
      }
      in_hand = i;
      candidates |= find(look_beside(-1, -1), i, s_.now[i].value, cost);
    }
    int found = 0;
    [[maybe_unused]] int held_slot = -1;  // of the state held, in s_.next
    std::uint32_t slots = 0;
    while (candidates && found < breadth_) {
      const int first = most_promising(candidates);
      candidates &= ~(1u << first);
      const Multiring::Candidate more = b_.candidate[first];
      const float before = s_.now[more.state].value;
      if (more.promise < before - patience) break;
      if (more.state != in_hand) take_rings(s_.now[more.state]);
      const float v = with(more.circle, more.state == in_hand ? count_ : 0);
      in_hand = held_slot = -1;
      if (v > before && known(s_.next, slots, found, v)) continue;
      note(count_, v);
      if (!(v > before)) continue;
      save(s_.next[found], v);
      slots |= static_cast<std::uint32_t>(found) << 4 * found;
      held_slot = found++;
    }
    const int chosen = select(s_.next, slots, found);
    if constexpr (!lane_is_thread<L>) held_ = -1;
    NANET_ROLLED
    for (int i = 0; i < chosen; ++i) {
      const int slot = static_cast<int>(slots >> 4 * i & 15u);
      copy(s_.next[slot], s_.now[i]);
      if constexpr (!lane_is_thread<L>)
        if (slot == held_slot) held_ = i;
    }
    return chosen;
  }

  // Adds the ring to the current set and polishes all rings; returns their value. first: ring from which on
  // intensities are missing.
  NANET_HD float with(const Circle3& more, int first) {
    L::sync();
    put_ring(count_, more);
    ++count_;
    sum_rings(first);
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
  // slots: positions in `next` of the states found so far, four bits each.
  NANET_HD static bool known(const State* next, std::uint32_t slots, int found, float v) {
    NANET_ROLLED
    for (int i = 0; i < found; ++i, slots >>= 4)
      if (next[slots & 15u].value > v - 0.05f && next[slots & 15u].value < v + 0.05f) return true;
    return false;
  }
  // Reduces `slots` to the best of these states, best first; keeps the best of all. Returns their number.
  NANET_HD int select(const State* next, std::uint32_t& slots, int found) {
    int states = 0;
    float last = 1e30f, first = 0.0f;
    std::uint32_t chosen = 0;
    for (; states < breadth_; ++states) {
      int best = -1;
      NANET_ROLLED
      for (int i = 0; i < found; ++i) {
        const int slot = static_cast<int>(slots >> 4 * i & 15u);
        if (next[slot].value < last && (best < 0 || next[slot].value > next[best].value)) best = slot;
      }
      if (best < 0) break;
      last = next[best].value;
      if (states == 0) first = last;
      if (last < first - margin) break;
      chosen |= static_cast<std::uint32_t>(best) << 4 * states;
      if (states == 0 && lead() && first > b_.kept.best.value) copy(next[best], b_.kept.best);
    }
    slots = chosen;
    return states;
  }

  NANET_HD LaneCircles<L> no_circles() const { return {F(p_.centre_x), F(0.0f), F(100.0f)}; }
  // 32 seeds and their approximate gain. hits: as look_beside() leaves them. Lanes without a circle take one
  // of 32 further pairs. If these do not suffice, the gain is `nothing`.
  NANET_HD NANET_CPU_INLINED F seeds(const MultiringHits& hits, int round, std::int32_t open,
                                     LaneCircles<L>& c) const {
    const MultiringSeeds<L> from{hits, open, r_min_, p_.r_max, inverse(static_cast<float>(open))};
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
        search_over(hits).support(c, 18.0f * p_.model.scale) + model_.template standing<L>(c.x, c.y, c.r);
    return L::select(good | filled, gain, F(nothing));
  }
  NANET_HD static void better_of(LaneCircles<L>& best, F& best_gain, const LaneCircles<L>& c, const F& gain) {
    const M is_better = gain > best_gain;
    best_gain = L::select(is_better, gain, best_gain);
    best.x = L::select(is_better, c.x, best.x);
    best.y = L::select(is_better, c.y, best.y);
    best.r = L::select(is_better, c.r, best.r);
  }

  // Searches for one more ring, of this cost, in addition to those of a state; worth: its value. Stores the
  // best distinct rings as candidates; returns one bit per candidate.
  NANET_HD NANET_INLINED std::uint32_t find(std::int32_t open, int state, float worth, float cost) {
    if (open < 3) return 0;
    LaneCircles<L> best = no_circles();
    F best_gain{nothing};
    NANET_ROLLED
    for (int round = 0; round < Multiring::rounds; ++round) {
      LaneCircles<L> c;
      const F gain = seeds(s_.hits, round, open, c);
      better_of(best, best_gain, c, gain);
    }
    return choose(s_.hits, best, best_gain, state, worth, cost);
  }
  NANET_HD std::uint32_t choose(const MultiringHits& hits, LaneCircles<L> best, F best_gain, int state,
                                float worth, float cost) {
    const float before = worth - cost;
    LaneCircles<Half> circles;
    HalfF gain;
    if constexpr (lane_is_thread<L>) {
      better_half(best, best_gain);
      circles = best;
      gain = best_gain;
    } else {
      better_of_halves(best, best_gain, circles, gain);
    }
    if (!(before + Half::max(gain) > worth - patience)) return 0;
    refine<Half, of_half>(hits, circles, gain);
    L::sync();
    std::uint32_t candidates = 0;
    NANET_ROLLED
    for (int i = 0; i < Multiring::ways; ++i) {
      Circle3 c;
      const float most = pick<Half>(circles, gain, c);
      if (!(most > nothing)) break;
      const int at = state * Multiring::ways + i;
      put(b_.candidate[at], {c, before + most, state});
      candidates |= 1u << at;
    }
    L::sync();
    return candidates;
  }
  // Each half takes the better of two lanes.
  NANET_HD static void better_half(LaneCircles<L>& best, F& best_gain) {
    const F other = L::other_half(best_gain);
    const M keep = (best_gain > other) | ((best_gain == other) & (L::lane() < I(16)));
    best.x = L::select(keep, best.x, L::other_half(best.x));
    best.y = L::select(keep, best.y, L::other_half(best.y));
    best.r = L::select(keep, best.r, L::other_half(best.r));
    best_gain = L::max(best_gain, other);
  }
  // The same with one of the halves as the result: the CPU.
  NANET_HD static void better_of_halves(const LaneCircles<L>& of, const F& of_gain, LaneCircles<Half>& best,
                                        HalfF& best_gain) {
    const auto half = [](const F& v, int h) { return L::template part<Half>(v, h); };
    const HalfF low = half(of_gain, 0), high = half(of_gain, 1);
    const auto keep = low >= high;
    best.x = Half::select(keep, half(of.x, 0), half(of.x, 1));
    best.y = Half::select(keep, half(of.y, 0), half(of.y, 1));
    best.r = Half::select(keep, half(of.r, 0), half(of.r, 1));
    best_gain = Half::max(low, high);
  }
  // One step of each circle, and its gain.
  template <class Of, typename MultiringSearch<Of>::Shared shared>
  NANET_HD void refine(const MultiringHits& hits, LaneCircles<Of>& c, typename Of::F& gain) const {
    using OfF = typename Of::F;
    const auto good = gain > OfF(nothing);
    const MultiringSearch<Of> search = Hand::template search_over<Of>(hits);
    search.template step<shared>(c, 16.0f * p_.model.scale);
    gain = Of::select(
        good,
        search.template gain<shared>(c, 13.5f * p_.model.scale) + model_.template standing<Of>(c.x, c.y, c.r),
        OfF(nothing));
  }
  // Takes the best circle, and removes those like it. Returns its gain; `nothing`: there was none.
  template <class Of>
  NANET_HD static float pick(const LaneCircles<Of>& of, typename Of::F& gain, Circle3& c) {
    using OfF = typename Of::F;
    const float most = Of::max(gain);
    const int lane = first_lane<Of>(gain == OfF(most));
    c = {Of::at(of.x, lane), Of::at(of.y, lane), Of::at(of.r, lane)};
    const OfF dx = of.x - OfF(c.x), dy = of.y - OfF(c.y), dr = of.r - OfF(c.r);
    const auto same = Of::fma(dx, dx, Of::fma(dy, dy, dr * dr)) < OfF(150.0f);
    gain = Of::select(same, OfF(nothing), gain);
    return most;
  }

  // Splits rings with too many hits into two; re-pairs adjacent rings, which may have exchanged halves.
  NANET_HD void split() {
    NANET_ROLLED
    for (int k = 0; k < count_; ++k)
      if (crowded(k)) try_pair(k, k);
    NANET_ROLLED
    for (int a = 0; a < count_; ++a) {
      NANET_ROLLED
      for (int b = a + 1; b < count_; ++b)
        if (adjacent(a, b)) try_pair(a, b);
    }
  }
  NANET_HD void try_pair(int a, int b) {
    float v;
    if (!put_pair(a, b, v)) return;
    if (keeps(count_, v, b_.kept.best.value))
      save(b_.kept.best, v);
    else
      take(b_.kept.best);
  }
  // Notes the value of a pair; returns true if it is better. One unit.
  NANET_HD bool keeps(int count, float v, float best) {
    const bool gains = v > best + better;
    note(count, gains || v < best ? v : best);
    return gains;
  }
  // ---- Final steps.

  // Polishes the rings and drops those whose gain is below their cost. All units hold the same rings.
  NANET_HD void finish() {
    if (count_ > 0) {
      polish_rings(2);
      if (lead()) note(count_, value());
    }
    while (count_ > 0) {
      FixedSum<Row, 18> stray;
      NANET_ROLLED
      for (std::int32_t row = 0; row < rows_; ++row) {
        const RowM is = RowI(row * Row::count) + Row::lane() < RowI(hits_);
        stray.add(Row::select(is, Row::reciprocal(others(row, -1, -1)), RowF(0.0f)));
      }
      const float strays = stray.total(terms()) * model_.per_noise;  // in units of the expected ones
      NANET_ROLLED
      for (int k = team_.index(); k < count_; k += team_.size()) L::put(b_.gain + k, gain_of(k, strays));
      meet();
      int worst = -1;
      float least = 0.0f;
      NANET_ROLLED
      for (int k = 0; k < count_; ++k) {
        if (b_.gain[k] < least) {
          least = b_.gain[k];
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
      polish_rings(1);
      if (lead()) {
        const float rest = count_ ? value() : 0.0f;
        note(count_, rest);
        no_better(count_ + 1, rest + least);
      }
    }
  }
  // Gain from ring k, its cost included. strays: sum of the hits' shares of the noise.
  NANET_HD float gain_of(int k, float strays) const {
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
    if (hits < static_cast<std::int32_t>(p_.min_hits)) return nothing;
    float gain =
        change.total(terms()) + standing(ring(k)) - (count_ == 1 ? model_.first_cost : model_.ring_cost);
    if (count_ == 1 && strays > 1.0f)
      gain -= p_.noise_adaption *
              Hand::Few::at(logarithm<typename Hand::Few>(typename Hand::FewF(strays)), 0) *
              share.total(terms());
    return gain;
  }
  // polish_all(); a team takes the sums of a ring per unit.
  NANET_HD void polish_rings(int times) {
    if constexpr (Team::alone) {
      polish_all(times);
    } else {
      if (count_ == 0) return;
      NANET_ROLLED
      for (int i = 0; i < times; ++i) {
        turn_ ^= 1u;  // of two memories: others may still read the sums of the last time
        std::int32_t (*const total)[8] = team_.memory->total[turn_];
        NANET_ROLLED
        for (int k = team_.index(); k < count_; k += team_.size()) {
          std::int32_t mine[8];
          Hand::step_sums(Hand::unit(k), s_.r[k], k, Hand::per_step_width * p_.model.per_scale, mine);
          for (int j = 0; j < 8; ++j) put(total[k][j], mine[j]);
        }
        meet();
        if constexpr (lane_is_thread<L>) {
          const int k = L::lane() & (static_cast<int>(max_rings) - 1);
          std::int32_t mine[8];
          for (int j = 0; j < 8; ++j) mine[j] = total[k][j];
          const Circle3 from = ring(k);
          const typename Hand::FewCircles c = Hand::solved(mine, terms(), {from.x, from.y, from.r});
          L::sync();
          if (L::lane() < count_) {
            s_.x[k] = c.x;
            s_.y[k] = c.y;
            s_.r[k] = c.r;
          }
          L::sync();
        } else {
          std::int32_t all[max_rings][8];
          std::memcpy(all, total, sizeof all);
          Hand::put_solved(all);
        }
        sum_rings();
      }
    }
  }
  NANET_HD void meet() const {
    L::sync();
    team_.sync();
  }

  NANET_HD void write(Rings& out) {
    NANET_ROLLED
    for (int k = team_.index(); k < count_; k += team_.size()) {
      std::int32_t on = 0;
      FixedSum<Row, 18> off2;  // in units of reach^2
      NANET_ROLLED
      for (std::int32_t row = 0; row < rows_; ++row) {
        const RowF off = distance(row, s_.x[k], s_.y[k]) - RowF(s_.r[k]);
        const RowM is = part(row, k) > RowF(own_share);
        on += popcount(Row::ballot(is));
        off2.add(Row::select(is, off * off * RowF(p_.model.per_reach2), RowF(0.0f)));
      }
      put(b_.hits[k], on);
      L::put(b_.chi2 + k, off2.total(terms()));
    }
    meet();
    if (!lead()) return;
    if constexpr (lane_is_thread<L>) {
      if (L::lane() < count_) write_ring(L::lane(), out);
      if (L::lane() >= count_ && L::lane() < static_cast<int>(max_rings)) out.ring[L::lane()] = {};
    } else {
      for (int k = 0; k < static_cast<int>(max_rings); ++k) out.ring[k] = {};
      for (int k = 0; k < count_; ++k) write_ring(k, out);
    }
    bool ambiguous = false;
    for (int k = 0; k <= static_cast<int>(max_rings); ++k)
      if (k != count_ && b_.kept.best_of[k] > b_.kept.best_of[count_] - p_.ambiguity_margin) ambiguous = true;
    put(out.count, static_cast<std::uint8_t>(count_));
    put(out.ambiguous, ambiguous);
    put(out.primitive, std::uint16_t{0});
    L::sync();
  }
  // Puts ring k at its place: by hits, then radius. One lane.
  NANET_HD void write_ring(int k, Rings& out) const {
    const std::int32_t hits = b_.hits[k];
    int place = 0;
    for (int other = 0; other < count_; ++other) {
      const bool alike = b_.hits[other] == hits;
      place += b_.hits[other] > hits || (alike && s_.r[other] > s_.r[k]) ||
               (alike && s_.r[other] == s_.r[k] && other < k);
    }
    out.ring[place] = {
        s_.x[k], s_.y[k], s_.r[k],
        hits > 3 ? b_.chi2[k] / (p_.model.per_reach2 * p_.model.sigma2 * static_cast<float>(hits - 3)) : 0.0f,
        static_cast<std::uint8_t>(hits)};
  }

  Board& b_;
  // The CPU: state whose rings and intensities are current between levels, taken first; -1: none.
  int held_ = -1;
  const Team team_;
  const int breadth_;
  unsigned turn_ = 0;
};

template <class L>
NANET_HD void Multiring::operator()(const EventView& event, const Point* plane, Scratch& scratch,
                                    Rings& rings) const {
  MultiringEvent<L>(parameters, event, plane, scratch, scratch.board).run(rings);
}

}  // namespace nanet::rich
