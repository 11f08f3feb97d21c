// SPDX-License-Identifier: Apache-2.0
// MULTIRING by several units (warps of a GPU), for the time of one event: a unit per round of seeds, per
// candidate and per ring. Same bits as by one.
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

  Multiring::Board board;
  State state[2][slots];  // of a level by candidate, and of the level before
  std::int32_t open[slots];
  std::uint32_t candidates[Multiring::max_breadth];  // one bit per candidate of a state
  alignas(64) float circle[pieces][4][lane_count];   // seeds: x, y, r in mm, and gain
  // By lane: of a candidate that was tried its promise, the value of its state, and the value of both; of a
  // pair that was tried its value. Others: MultiringEvent::nothing.
  alignas(64) float promise[lane_count], before[lane_count], value[lane_count], pair_value[lane_count];
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
      L::store(m_.promise, F(Event::nothing));
      L::store(m_.value, F(Event::nothing));
    }
    meet();
    int states = 1;
    std::uint32_t slots = 0;  // in `now`, four bits each
    NANET_ROLLED
    for (unsigned level = 0; level < max_rings; ++level) {
      const State* const now = m_.state[~level & 1u];
      State* const next = m_.state[level & 1u];
      const std::uint32_t candidates = candidates_of(now, slots, states, this->cost_of(level));
      share(Memory::slots, [&](int c) {
        float promise = Event::nothing, before = 0.0f, v = Event::nothing;
        if (candidates >> c & 1u) {
          const Multiring::Candidate more = b_.candidate[c];
          const State& from = now[slots >> 4 * more.state & 15u];
          promise = more.promise;
          before = from.value;
          if (promise >= before - Event::patience) {
            take(from);
            v = this->with(more.circle);
            save(next[c], v);
            if (v > before && level + 1 < max_rings) this->put(m_.open[c], look_beside(-1, -1));
          }
        }
        L::put(m_.promise + c, promise);
        L::put(m_.before + c, before);
        L::put(m_.value + c, v);
      });
      states = found(next, slots);
      if (states == 0) break;
    }
  }
  // One bit per candidate; of each state the hits are open in the scratch of the unit of its slot.
  NANET_HD std::uint32_t candidates_of(const State* now, std::uint32_t slots, int states, float cost) {
    const auto hits = [&](int i) -> const MultiringHits& { return scratch_[slots >> 4 * i & 15u].hits; };
    const auto open = [&](int i) { return m_.open[slots >> 4 * i & 15u]; };
    share(states * Multiring::rounds, [&](int p) {
      const int i = p % states;
      if (open(i) < 3) return;
      LaneCircles<L> c;
      const F gain = this->seeds(hits(i), p / states, open(i), c);
      float* const at = m_.circle[p][0];
      L::store(at, c.x);
      L::store(at + lane_count, c.y);
      L::store(at + 2 * lane_count, c.r);
      L::store(at + 3 * lane_count, gain);
    });
    share(states, [&](int i) {
      std::uint32_t candidates = 0;
      if (open(i) >= 3) {
        LaneCircles<L> best = this->no_circles();
        F best_gain{Event::nothing};
        NANET_ROLLED
        for (int round = 0; round < Multiring::rounds; ++round) {
          const float* const at = m_.circle[round * states + i][0];
          const LaneCircles<L> c{L::load(at), L::load(at + lane_count), L::load(at + 2 * lane_count)};
          Event::better_of(best, best_gain, c, L::load(at + 3 * lane_count));
        }
        candidates = this->choose(hits(i), best, best_gain, i, now[slots >> 4 * i & 15u].value, cost);
      }
      this->put(m_.candidates[i], candidates);
    });
    std::uint32_t candidates = 0;
    NANET_ROLLED
    for (int i = 0; i < states; ++i) candidates |= m_.candidates[i];
    return candidates;
  }
  // Best new states of a level, best first, in `slots`; their number. All units compute the same.
  NANET_HD int found(const State* next, std::uint32_t& slots) {
    F promise = L::load(m_.promise), good{Event::nothing};
    const F before = L::load(m_.before), value = L::load(m_.value);
    int states = 0;
    NANET_ROLLED
    while (states < breadth_) {
      const float most = L::max(promise);
      if (!(most > Event::nothing)) break;
      const int c = first_lane<L>(promise == F(most));
      const typename Event::M here = L::lane() == I(c);
      promise = L::select(here, F(Event::nothing), promise);
      const float from = L::at(before, c), v = L::at(value, c);
      if (most < from - Event::patience) break;
      const bool gains = v > from;
      if (gains && L::any((good > F(v - 0.05f)) & (good < F(v + 0.05f)))) continue;
      if (this->lead()) this->note(next[c].count, v);
      if (!gains) continue;
      good = L::select(here, value, good);
      ++states;
    }
    slots = 0;
    float first = 0.0f;
    int chosen = 0;
    NANET_ROLLED
    for (; chosen < states; ++chosen) {
      const float most = L::max(good);
      const int c = first_lane<L>(good == F(most));
      if (chosen == 0) first = most;
      if (most < first - Event::margin) break;
      good = L::select(L::lane() == I(c), F(Event::nothing), good);
      slots |= static_cast<std::uint32_t>(c) << 4 * chosen;
    }
    if (chosen > 0 && this->lead() && first > kept().best.value) Event::copy(next[slots & 15u], kept().best);
    return chosen;
  }

  // As Event::split(), all pairs from the same set at once: those before the first better one are rejected,
  // those behind it start from the better set.
  NANET_HD void split() {
    constexpr int single = Memory::ring_count;
    if (this->lead()) L::store(m_.pair_value, F(Event::nothing));
    meet();
    for (int from = 0;;) {
      const float best = kept().best.value;
      bool in_hand = true;
      for (int p = from + team_.index(); p < Memory::pairs; p += team_.size()) {
        if (!in_hand) take(kept().best);
        int a = p, b = p;
        bool tries;
        if (p < single) {
          tries = p < count_ && this->crowded(p);
        } else {
          int rest = p - single;
          for (a = 0; rest >= single - 1 - a; ++a) rest -= single - 1 - a;
          b = a + 1 + rest;
          tries = b < count_ && this->adjacent(a, b);
        }
        float v = Event::nothing;
        if (tries) {
          in_hand = false;
          if (this->put_pair(a, b, v)) save(m_.pair[p], v);
        }
        L::put(m_.pair_value + p, v);
      }
      meet();
      const F value = L::load(m_.pair_value);
      const std::uint32_t all = L::ballot(value > F(Event::nothing)) & ~0u << from;
      if (all == 0) {
        if (!in_hand) take(kept().best);
        return;
      }
      const std::uint32_t gains = L::ballot(value > F(best + Event::better)) & all;
      const int winner = gains ? lowest_bit(gains) : Memory::pairs;
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

  Scratch* const scratch_;
  Memory& m_;
};

}  // namespace nanet::rich
