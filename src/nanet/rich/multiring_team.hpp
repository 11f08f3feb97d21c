// SPDX-License-Identifier: Apache-2.0
// MULTIRING by several units (warps of a GPU), for the time of one event: a unit per round of seeds, per half
// of a state's candidates, per candidate and per ring, and up to four per pair of rings. Same bits as by one.
#pragma once

#include "nanet/rich/multiring.hpp"

namespace nanet::rich {

// Working memory that the units share; each has a Scratch in addition.
struct MultiringTeamMemory {
  using State = Multiring::State;
  static constexpr int slots = Multiring::max_breadth * Multiring::ways;  // candidates at a time
  static constexpr int pieces = Multiring::max_breadth * Multiring::rounds;
  static constexpr int ring_count = static_cast<int>(max_rings);
  static constexpr int pairs = ring_count + ring_count * (ring_count - 1) / 2;  // of put_pair()
  static constexpr int split_pairs = 2;  // up to so many are searched by several units each

  Multiring::Board board;
  State state[2][slots];  // of a level by candidate, and of the level before
  std::int32_t open[slots];
  struct Circles {
    alignas(64) float x[lane_count], y[lane_count], r[lane_count], gain[lane_count];
  };
  // Of a pair of rings, by quarter of the hits.
  struct PairSearch {
    alignas(64) float sums[quarters][pair_words][lane_count], gain[quarters][lane_count];
  };
  union {
    Circles seeds[pieces];
    PairSearch pair_search;
  };
  Circles refined[Multiring::max_breadth];  // candidates of a state, in lanes 0 - 15
  // By lane: of a candidate that was tried its promise, the value of its state, and the value of both; of a
  // pair that was tried its value. Others: MultiringEvent::nothing.
  alignas(64) float promise[lane_count], before[lane_count], value[lane_count], pair_value[lane_count];
  alignas(64) float crowded[lane_count];  // by ring: 1 or 0
  struct Found {
    Circle3 ring[2];
    bool any;
  } found[split_pairs];
  State pair[pairs];
  std::int32_t total[2][max_rings][8];
};

// Team: index() of the calling unit, size(), sync(), memory. size(): at least breadth * Multiring::ways, as a
// candidate's hits stay in the scratch of its unit.
template <class L, class Team>
class MultiringTeamEvent : private MultiringEvent<L, Team> {
  using Event = MultiringEvent<L, Team>;
  using typename Event::F;
  using typename Event::I;
  using typename Event::Scratch;
  using typename Event::State;
  using Memory = MultiringTeamMemory;

 public:
  // scratch: of the units, by index.
  NANET_HD MultiringTeamEvent(const MultiringParameters& parameters, const EventView& event,
                              const Point* plane, Scratch* scratch, const Team& team)
      : Event(parameters, event, plane, scratch[team.index()], team.memory->board, team),
        scratch_(scratch),
        m_(*team.memory) {}

  // unsettled: begin() has found before that a search is needed.
  NANET_HD void run(Rings& out, bool unsettled = false) {
    if (this->lead()) {
      if (unsettled)
        this->start(false);
      else
        this->begin();
    }
    meet();
    if (!kept().settled) {
      search();
      meet();
    }
    take(kept().best);
    if (!kept().settled) split();
    this->finish();
    this->write(out);
  }

 private:
  using Event::b_;
  using Event::breadth_;
  using Event::count_;
  using Event::look_beside;
  using Event::meet;
  using Event::s_;
  using Event::save;
  using Event::take;
  using Event::team_;
  using typename Event::M;

  NANET_HD Multiring::Kept& kept() const { return b_.kept; }
  // Runs of(i) for i < n, i by unit.
  template <class Of>
  NANET_HD void share(int n, const Of& of) const {
    for (int i = team_.index(); i < n; i += team_.size()) of(i);
    meet();
  }

  // As Event::search(). Tries all candidates of a level at once, and discards those that a unit alone would
  // not have tried.
  NANET_HD void search() {
    if (this->lead()) {
      count_ = 0;
      this->sum_rings();
      save(m_.state[1][0], 0.0f);
      this->put(m_.open[0], look_beside(-1, -1));
      for (float* all : {m_.promise, m_.before, m_.value}) L::store(all, F(Event::nothing));
    }
    meet();
    int states = 1;
    std::uint32_t slots = 0;  // in `now`, four bits each
    NANET_ROLLED
    for (unsigned level = 0; level < max_rings; ++level) {
      const State* const now = m_.state[~level & 1u];
      State* const next = m_.state[level & 1u];
      find_circles(now, slots, states, this->cost_of(level));
      share(breadth_ * Multiring::ways, [&](int c) {
        float promise = Event::nothing, before = 0.0f, v = Event::nothing;
        const int i = c / Multiring::ways;
        if (i < states) {
          const State& from = now[slots >> 4 * i & 15u];
          before = from.value;
          Circle3 more{};
          const float gain = candidate(i, c % Multiring::ways, more);
          if (gain > Event::nothing) promise = before - this->cost_of(level) + gain;
          if (promise >= before - Event::patience) {
            this->take_rings(from);
            v = this->with(more, 0);
            save(next[c], v);
            if (v > before && level + 1 < max_rings) this->put(m_.open[c], look_beside(-1, -1));
          }
        }
        L::put(m_.promise + c, promise);
        L::put(m_.before + c, before);
        L::put(m_.value + c, v);
      });
      states = found(next, slots, static_cast<int>(level) + 1);
      if (states == 0) break;
    }
  }
  // Circles for one more ring in addition to those of each state; of each state the hits are open in the
  // scratch of the unit of its slot.
  NANET_HD void find_circles(const State* now, std::uint32_t slots, int states, float cost) {
    const auto hits = [&](int i) -> const MultiringHits& { return scratch_[slots >> 4 * i & 15u].hits; };
    const auto open = [&](int i) { return m_.open[slots >> 4 * i & 15u]; };
    share(states * Multiring::rounds, [&](int p) {
      const int i = p % states;
      if (open(i) < 3) return;
      LaneCircles<L> c;
      const F gain = this->seeds(hits(i), p / states, open(i), c);
      Memory::Circles& to = m_.seeds[p];
      L::store(to.x, c.x);
      L::store(to.y, c.y);
      L::store(to.r, c.r);
      L::store(to.gain, gain);
    });
    share(2 * states, [&](int p) {
      const int i = p % states, half = p / states;
      LaneCircles<L> best = this->no_circles();
      F best_gain{Event::nothing};
      if (open(i) >= 3) {
        NANET_ROLLED
        for (int round = 0; round < Multiring::rounds; ++round) {
          const Memory::Circles& of = m_.seeds[round * states + i];
          const LaneCircles<L> c{L::load(of.x), L::load(of.y), L::load(of.r)};
          Event::better_of(best, best_gain, c, L::load(of.gain));
        }
        Event::better_half(best, best_gain);
        // Four lanes hold the same circle, one of this half.
        const I from = (L::lane() & I(7)) + I(8 * half);
        best = {L::shuffle(best.x, from), L::shuffle(best.y, from), L::shuffle(best.r, from)};
        const float most = L::max(best_gain), worth = now[slots >> 4 * i & 15u].value;
        best_gain = L::shuffle(best_gain, from);
        if (worth - cost + most > worth - Event::patience)
          this->template refine<L, MultiringSearch<L>::Shared::by_four>(hits(i), best, best_gain);
        else
          best_gain = F(Event::nothing);
      }
      Memory::Circles& to = m_.refined[i];
      const M here = (L::lane() >> 3) == I(half);
      L::store(to.x, best.x, here);
      L::store(to.y, best.y, here);
      L::store(to.r, best.r, here);
      L::store(to.gain, best_gain, here);
    });
  }
  // The best circle of a state, or the best unlike it. Returns its gain; `nothing`: there is none.
  NANET_HD float candidate(int state, int way, Circle3& c) const {
    const Memory::Circles& of = m_.refined[state];
    const LaneCircles<L> all{L::load(of.x), L::load(of.y), L::load(of.r)};
    F gain = L::select(L::lane() < I(16), L::load(of.gain), F(Event::nothing));
    float most = Event::nothing;
    NANET_ROLLED
    for (int i = 0; i <= way; ++i) {
      most = Event::template pick<L>(all, gain, c);
      if (!(most > Event::nothing)) break;
    }
    return most;
  }
  // Best new states of a level, with `count` rings, best first, in `slots`; their number. A lane per
  // candidate; all units compute the same.
  NANET_HD int found(const State* next, std::uint32_t& slots, int count) {
    const F promise = L::load(m_.promise), before = L::load(m_.before), value = L::load(m_.value);
    float values[Memory::slots], promises[Memory::slots];
    NANET_UNROLLED
    for (int c = 0; c < Memory::slots; c += 4) {
      four(m_.promise + c, promises + c);
      four(m_.value + c, values + c);
    }
    // Per candidate, a bit for each that is more promising, is better, has nearly the same value.
    const F low = value - F(0.05f), high = value + F(0.05f);
    I earlier{0}, above{0}, alike{0}, own{0};
    NANET_UNROLLED
    for (int c = 0; c < Memory::slots; ++c) {
      const F p{promises[c]}, v{values[c]};
      const I bit{1 << c};
      const M is_before = L::lane() > I(c);
      earlier = earlier | L::select((p > promise) | ((p == promise) & is_before), bit, I(0));
      above = above | L::select((v > value) | ((v == value) & is_before), bit, I(0));
      alike = alike | L::select((v > low) & (v < high), bit, I(0));
      own = own | L::select(L::lane() == I(c), bit, I(0));
    }
    // A unit alone stops at the first hopeless candidate.
    const M hopeless = promise < before - F(Event::patience);
    const I all_hopeless{static_cast<std::int32_t>(L::ballot(hopeless))};
    const M tried = (promise > F(Event::nothing)) & (((earlier | own) & all_hopeless) == I(0));
    const M gains = tried & (value > before);
    const I gaining{static_cast<std::int32_t>(L::ballot(gains))};
    const I rank = L::popcount(earlier & gaining);
    std::int32_t good = 0;
    if (L::any(gains & ((alike & earlier & gaining) > I(0)))) {
      NANET_ROLLED
      for (int r = 0; r < Memory::slots; ++r) {
        if (Event::popcount(good) == breadth_) break;
        good |= static_cast<std::int32_t>(L::ballot(gains & (rank == I(r)) & ((alike & I(good)) == I(0))));
      }
    } else {
      good = static_cast<std::int32_t>(L::ballot(gains & (rank < I(breadth_))));
    }
    const M chosen = (own & I(good)) > I(0);
    if (this->lead()) {
      const M noted = tried & (chosen | !gains) & (L::popcount(earlier & I(good)) < I(breadth_));
      this->note(count, L::max(L::select(noted, value, F(Event::nothing))));
    }
    slots = 0;
    if (good == 0) return 0;
    const float first = L::max(L::select(chosen, value, F(Event::nothing)));
    const M stays = chosen & !(value < F(first - Event::margin));
    const I place = L::popcount(above & I(good));
    const int states = Event::popcount(L::ballot(stays));
    NANET_ROLLED
    for (int i = 0; i < states; ++i)
      slots |= static_cast<std::uint32_t>(first_lane<L>(stays & (place == I(i)))) << 4 * i;
    if (this->lead() && first > kept().best.value) Event::copy(next[slots & 15u], kept().best);
    return states;
  }
  NANET_HD static void four(const float* from, float* to) {
    float v[4];
    L::four(from, v);
    for (int k = 0; k < 4; ++k) to[k] = v[k];
  }

  // As Event::split(), all pairs from the same set at once: those before the first better one are rejected,
  // those behind it start from the better set.
  NANET_HD void split() {
    for (int from = 0;;) {
      share(count_, [&](int k) { L::put(m_.crowded + k, this->crowded(k) ? 1.0f : 0.0f); });
      const std::uint32_t tried = pairs_to_try() & ~0u << from;
      if (tried == 0) return;
      if (this->lead()) L::store(m_.pair_value, F(Event::nothing));
      meet();
      if (Event::popcount(tried) <= Memory::split_pairs && team_.size() >= Memory::split_pairs)
        try_together(tried);
      else
        try_apart(tried);
      const float best = kept().best.value;
      const F value = L::load(m_.pair_value);
      const std::uint32_t all = L::ballot(value > F(Event::nothing)),
                          gains = L::ballot(value > F(best + Event::better)) & all;
      const int winner = gains ? lowest_bit(gains) : Memory::pairs;
      meet();
      if (this->lead()) {
        for (std::uint32_t rest = all; rest; rest &= rest - 1) {
          const int p = lowest_bit(rest);
          if (p <= winner) this->keeps(m_.pair[p].count, L::at(value, p), best);
        }
        if (gains) Event::copy(m_.pair[winner], kept().best);
      }
      meet();
      take(kept().best);
      if (!gains) return;
      from = winner + 1;
    }
  }
  // A bit per pair to try. All units compute the same.
  NANET_HD std::uint32_t pairs_to_try() const {
    // Pairs by number, as split() of a unit alone tries them: each ring alone, then a < b.
    static_assert(Memory::ring_count == 4);
    static constexpr std::int32_t first[lane_count] = {0, 1, 2, 3, 0, 0, 0, 1, 1, 2},
                                  second[lane_count] = {0, 1, 2, 3, 1, 2, 3, 2, 3, 3};
    const I a = L::gather(first, L::lane()), b = L::gather(second, L::lane());
    const M near = this->adjacent(rings_at(a), rings_at(b)), crowded = L::load(m_.crowded) > F(0.0f);
    return L::ballot((L::lane() < I(Memory::pairs)) & (b < I(count_)) &
                     (((a == b) & crowded) | ((a < b) & near)));
  }
  NANET_HD LaneCircles<L> rings_at(const I& k) const {
    return {L::gather(s_.x, k), L::gather(s_.y, k), L::gather(s_.r, k)};
  }
  NANET_HD static void rings_of(int pair, int& a, int& b) {
    a = b = pair;
    if (pair < Memory::ring_count) return;
    int rest = pair - Memory::ring_count;
    for (a = 0; rest >= Memory::ring_count - 1 - a; ++a) rest -= Memory::ring_count - 1 - a;
    b = a + 1 + rest;
  }
  // A unit per pair.
  NANET_HD void try_apart(std::uint32_t tried) {
    bool in_hand = true;
    int i = 0;
    NANET_ROLLED
    for (; tried; tried &= tried - 1, ++i) {
      if (i % team_.size() != team_.index()) continue;
      if (!in_hand) take(kept().best);
      in_hand = false;
      const int p = lowest_bit(tried);
      int a, b;
      rings_of(p, a, b);
      float v;
      if (!this->put_pair(a, b, v)) continue;
      save(m_.pair[p], v);
      L::put(m_.pair_value + p, v);
    }
    meet();
  }
  // Up to four units search for a pair, one after the other; then each pair is polished by a unit.
  NANET_HD void try_together(std::uint32_t tried) {
    const int units = team_.size() < quarters ? team_.size() : quarters;
    int i = 0;
    NANET_ROLLED
    for (std::uint32_t rest = tried; rest; rest &= rest - 1, ++i) {
      auto& shared = m_.pair_search;
      int a, b;
      rings_of(lowest_bit(rest), a, b);
      const bool works = team_.index() < units;
      LaneCircles<L> pair[2];
      const MultiringSearch<L> search = this->search_over(s_.hits);
      if (works) {
        this->pairs_beside(a, b, pair);
        look_beside(a, b);
        NANET_ROLLED
        for (int q = team_.index(); q < quarters; q += units)
          search.pair_sums(pair, this->pair_step_width(), q, shared.sums[q][0], false);
      }
      meet();
      if (works) {
        search.template step_pair<quarters>(pair, shared.sums[0][0]);
        NANET_ROLLED
        for (int q = team_.index(); q < quarters; q += units)
          L::store(shared.gain[q], search.gain(pair, this->pair_gain_width(), q));
      }
      meet();
      if (team_.index() != i) continue;
      F gain{0.0f};
      NANET_ROLLED
      for (int q = 0; q < quarters; ++q) gain = gain + L::load(shared.gain[q]);
      Circle3 ring[2] = {};
      this->put(m_.found[i].any, this->best_pair(pair, gain, ring));
      for (int k = 0; k < 2; ++k) this->put(m_.found[i].ring[k], ring[k]);
    }
    L::sync();
    if (team_.index() < i && m_.found[team_.index()].any) {
      if (team_.index() == 1) tried &= tried - 1;
      const int p = lowest_bit(tried);
      int a, b;
      rings_of(p, a, b);
      const float v = this->with_pair(a, b, m_.found[team_.index()].ring);
      save(m_.pair[p], v);
      L::put(m_.pair_value + p, v);
    }
    meet();
  }

  Scratch* const scratch_;
  Memory& m_;
};

}  // namespace nanet::rich
