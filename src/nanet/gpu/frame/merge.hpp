// SPDX-License-Identifier: Apache-2.0
// Frame builder of a thread block: merges the boards' fragments into events (docs/formats.md, Merging),
// bit-identical to frame_builder.hpp. Fragments separated by a gap larger than the window form independent
// clusters; one thread takes each cluster.
#pragma once

#include "nanet/contract/layout.hpp"
#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/frame/block.hpp"
#include "nanet/gpu/frame/conditions.hpp"
#include "nanet/gpu/frame/tables.hpp"
#include "nanet/rich/ring.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::gpu {

// Hits of an event with duplicate, unordered, invalid, masked or too many ones, kept one by one. One thread.
template <class B>
class HitKeeper {
 public:
  // conditions: per PM, or null.
  NANET_DEVICE HitKeeper(PmId* pm, const std::int16_t* conditions) : pm_(pm), conditions_(conditions) {}

  // time: of the fragment.
  NANET_DEVICE void add(std::uint32_t word, std::uint16_t time) {
    const std::uint32_t id = word & 0x7FF;
    const std::int32_t offset = conditions_ ? conditions_[id] : 0;
    if (offset == masked_pm) {
      ++masked_;
      return;
    }
    std::uint32_t at = kept_;
    while (at > 0 && pm_[at - 1] > id) --at;
    if (at > 0 && pm_[at - 1] == id) {
      ++twice_;
      return;
    }
    if (id >= pm_count || kept_ == max_event_hits) return;
    for (std::uint32_t j = kept_++; j > at; --j) pm_[j] = pm_[j - 1];
    pm_[at] = static_cast<PmId>(id);
    sum_ += time + (static_cast<std::int16_t>(word) >> 11) * 4 - offset;
  }
  // Sum of the times of the hits kept.
  NANET_DEVICE std::int32_t sum() const { return sum_; }
  // Counts the others; returns the number of hits kept.
  NANET_DEVICE std::uint32_t count(Merge& counts) const {
    if (twice_) B::add(counts.duplicates, twice_);
    if (masked_) B::add(counts.masked, masked_);
    return kept_;
  }

 private:
  PmId* pm_;
  const std::int16_t* conditions_;
  std::uint32_t kept_ = 0, twice_ = 0, masked_ = 0;
  std::int32_t sum_ = 0;
};

template <class B>
class Merger {
 public:
  using Payload = Merge::Payload;

  // conditions: per PM, or null.
  NANET_DEVICE Merger(const Bytes& in, Merge& shared, std::uint32_t window, const std::int16_t* conditions)
      : in_(in), m_(shared), conditions_(conditions), window_(window), lists_(lists_for(in.boards)) {}

  // Lists the packets. Returns the required table size in fragments, in every thread.
  NANET_DEVICE std::uint32_t list() {
    B::each([&](unsigned t) {
      for (unsigned b = t >> 5; b < lists_; b += B::threads() >> 5)
        if ((t & 31) == 0) list_board(b);
      if (t == 0) m_.gaps = m_.pm_used = m_.duplicates = m_.masked = 0;
    });
    std::uint32_t most = 0;
    for (unsigned b = 0; b < lists_; ++b) most = m_.count[b] > most ? m_.count[b] : most;
    return most * lists_;
  }

  // Fills the tables, with a separate share for each board. Returns the number of events, in every thread.
  NANET_DEVICE std::uint32_t build(const Tables& tables) {
    t_ = tables;
    share_ = tables.fragments / lists_;
    // The position of a fragment follows from the one before it: one thread per payload follows the chain.
    B::each([&](unsigned t) {
      for (std::uint32_t q = t; q < lists_ * max_payloads; q += B::threads()) {
        const unsigned b = q % lists_, p = q / lists_;
        if (p < m_.payloads[b]) walk(b, m_.payload[b][p]);
      }
    });
    each_fragment([&](unsigned b, std::uint32_t i, std::uint32_t earlier) {
      t_.slot[earlier + i] = 0;
      read(b, i);
    });
    if (m_.gaps) close_gaps();
    for (unsigned b = 0; b < lists_; ++b)
      if (m_.unordered[b]) sort_board(b);
    if (lists_ == 1)
      return assemble<1>();
    else if (lists_ == 4)
      return assemble<4>();
    else
      return assemble<max_boards>();
  }

  // Last step of one event; any thread, after build().
  NANET_DEVICE void finish(BuiltEvent& event) const {
    if (lists_ == 1)
      finish<1>(event);
    else if (lists_ == 4)
      finish<4>(event);
    else
      finish<max_boards>(event);
  }

  // Mean of the times of an event's hits, rounded half up. hits: not 0.
  NANET_DEVICE static std::uint16_t mean_time(std::int32_t sum, std::uint32_t hits) {
    const std::int32_t twice = 2 * sum + static_cast<std::int32_t>(hits);
    const auto divisor = static_cast<std::int32_t>(2 * hits);
#ifdef __CUDA_ARCH__
    // Times are below 2^17, so that the quotient of floats is off by less than one.
    std::int32_t mean =
        static_cast<std::int32_t>(__fdividef(static_cast<float>(twice), static_cast<float>(divisor)));
    const std::int32_t rest = twice - mean * divisor;
    mean += (rest >= divisor) - (rest < 0);
    if (twice < 0) mean = 0;
#else
    const std::int32_t mean = twice < 0 ? 0 : twice / divisor;
#endif
    return static_cast<std::uint16_t>(mean < lsb_per_frame ? mean : lsb_per_frame - 1);
  }

  // Sorts key[0 .. n - 1], all distinct; capacity: the next power of two.
  NANET_NOINLINE NANET_DEVICE static void sort(std::uint32_t* key, std::uint32_t n) {
    std::uint32_t size = 1;
    while (size < n) size *= 2;
    B::each([&](unsigned t) {
      for (std::uint32_t i = n + t; i < size; i += B::threads()) key[i] = ~std::uint32_t{0};
    });
    for (std::uint32_t run = 2; run <= size; run *= 2)
      for (std::uint32_t step = run / 2; step > 0; step /= 2)
        B::each([&](unsigned t) {
          for (std::uint32_t k = t; k < size / 2; k += B::threads()) {
            const std::uint32_t i = (k / step) * 2 * step + k % step, j = i + step;
            const bool up = (i & run) == 0;
            const std::uint32_t a = key[i], b = key[j];
            if ((a > b) == up) {
              key[i] = b;
              key[j] = a;
            }
          }
        });
  }

 private:
  NANET_DEVICE std::uint32_t base(unsigned b) const { return b * share_; }

  // f(board, i, fragments of earlier boards) for each fragment i of each board; boards in parallel.
  template <class F>
  NANET_DEVICE void each_fragment(const F& f) const {
    lanes_of_fragments(
        0, [&](unsigned b, std::uint32_t i, std::uint32_t earlier, unsigned) { f(b, i, earlier); });
  }
  // The same with 2^bits lanes per fragment.
  template <class F>
  NANET_DEVICE void lanes_of_fragments(unsigned bits, const F& f) const {
    const unsigned boards = lists_ == 1 ? 0 : lists_ == 4 ? 2 : 3;  // log2 of the number of lists
    const unsigned side = contract::exponent(B::threads()) - boards;
    static_assert(max_boards == 8);
    B::each([&](unsigned t) {
      const unsigned b = t >> side;
      if (b >= lists_) return;  // threads beyond a power of two
      std::uint32_t earlier = 0;
      for (unsigned c = 0; c < b; ++c) earlier += m_.count[c];
      const std::uint32_t lanes = m_.count[b] << bits;
      for (std::uint32_t x = t & ((1u << side) - 1); x < lanes; x += 1u << side)
        f(b, x >> bits, earlier, x & ((1u << bits) - 1));
    });
  }

  // Lists the payloads of one board by sequence number. One thread.
  NANET_DEVICE void list_board(unsigned b) {
    Payload* const list = m_.payload[b];
    std::uint32_t n = 0;
    std::uint32_t bytes = 0;
    NANET_UNROLLED
    for (unsigned c = 0; c < max_boards; ++c)
      if (c == b && c < in_.boards) bytes = in_.bytes[c];
    const std::uint32_t begin = b * in_.stride;
    const std::byte* const segment = in_.at + begin;
    for (std::uint32_t at = 0; at + 16 <= bytes && n < max_payloads;) {
      const std::uint32_t word = full_word(segment + at), next = full_word(segment + at + 4);
      const std::uint32_t length = next & 0xFFFF;
      Payload p;
      p.sequence = full_word(segment + at + 8);
      if (length < 16 || at + length > bytes) break;
      p.at = begin + at;
      p.length = static_cast<std::uint16_t>(length);
      p.fixed = (word >> 28) & 1;
      const std::uint32_t said = next >> 16 & 0xFF,
                          fit = p.fixed ? (length - 16u) / fixed_slot_bytes : (length - 16u) / 8;
      p.most = static_cast<std::uint8_t>(said < fit ? said : fit);
      p.start = 0;
      p.walked = p.most;
      p.sound = p.most;
      std::uint32_t i = n++;
      for (; i > 0 && list[i - 1].sequence > p.sequence; --i) list[i] = list[i - 1];
      list[i] = p;
      at += (length + 15) / 16 * 16;
    }
    std::uint32_t start = 0;
    for (std::uint32_t p = 0; p < n; ++p) {
      list[p].start = static_cast<std::uint16_t>(start);
      start += list[p].most;
    }
    m_.payloads[b] = n;
    m_.count[b] = start;
    m_.unordered[b] = 0;
  }

  // Finds the fragments of one packed payload. One thread.
  NANET_DEVICE void walk(unsigned b, Payload& p) {
    if (p.fixed) return;
    Fragment* const out = t_.fragment + base(b) + p.start;
    const std::byte* const in = in_.at;
    const std::uint32_t most = p.most, last = p.at + p.length - 8u;
    std::uint32_t at = p.at + 16, n = 0;
    for (; n < most && at <= last; ++n) {
      const std::uint32_t stored = one_byte(in + at + 5);
      out[n].hits = at + 8;
      at += 8 + 2 * stored;
    }
    if (n == most) return;
    p.walked = static_cast<std::uint16_t>(n);
    p.sound = n;
    m_.gaps = 1;
  }

  // Reads fragment i of a board; safe on any bytes. One thread.
  NANET_DEVICE void read(unsigned b, std::uint32_t i) {
    const std::uint32_t q = payload_of(b, i);
    Payload& p = m_.payload[b][q];
    const std::uint32_t within = i - p.start, end = p.at + p.length;
    const bool fixed = p.fixed;
    if (within >= p.walked) return;
    const std::uint32_t at = begin_of(b, i, p);
    const std::uint32_t low = half_word(in_.at + at), head = half_word(in_.at + at + 4),
                        rest = half_word(in_.at + at + 6);
    const std::uint32_t stored = head >> 8, bytes = fixed ? fixed_slot_bytes : 8 + 2 * stored;
    if (stored > max_fragment_hits || end - at < bytes) {
      B::least(p.sound, within);
      m_.gaps = 1;
      return;
    }
    const auto time = static_cast<std::uint16_t>((low & 0xFF) << 8 | (head & 0xFF));
    Fragment& fragment = t_.fragment[base(b) + i];
    if (fixed) fragment.hits = at + 8;
    fragment.time = time;
    fragment.stored = static_cast<std::uint8_t>(stored);
    fragment.truncated = (rest >> 8 & 1) != 0 || (rest & 0xFF) > stored ? 1 : 0;
    if (i == 0) return;
    // Another thread may be writing the neighbouring fragment; the bytes are constant.
    const Payload& before = m_.payload[b][within ? q : payload_of(b, i - 1)];
    if (i - 1 - before.start < before.walked && time < time_at(begin_of(b, i - 1, before)))
      m_.unordered[b] = 1;
  }
  NANET_DEVICE std::uint32_t payload_of(unsigned b, std::uint32_t i) const {
    std::uint32_t q = 0;
    while (q + 1 < m_.payloads[b] && i >= m_.payload[b][q + 1].start) ++q;
    return q;
  }
  NANET_DEVICE std::uint32_t begin_of(unsigned b, std::uint32_t i, const Payload& p) const {
    return p.fixed ? p.at + 16 + fixed_slot_bytes * (i - p.start) : t_.fragment[base(b) + i].hits - 8;
  }
  NANET_DEVICE std::uint16_t time_at(std::uint32_t at) const {
    return static_cast<std::uint16_t>((half_word(in_.at + at) & 0xFF) << 8 | one_byte(in_.at + at + 4));
  }

  // Closes gaps left by payloads with fewer valid events than stated. The card refuses such payloads.
  NANET_DEVICE void close_gaps() {
    B::each([&](unsigned t) {
      for (unsigned b = t; b < lists_; b += B::threads()) {
        std::uint32_t to = 0;
        m_.unordered[b] = 0;
        for (std::uint32_t p = 0; p < m_.payloads[b]; ++p)
          for (std::uint32_t i = 0; i < m_.payload[b][p].sound; ++i, ++to) {
            t_.fragment[base(b) + to] = t_.fragment[base(b) + m_.payload[b][p].start + i];
            if (to > 0 && t_.fragment[base(b) + to].time < t_.fragment[base(b) + to - 1].time)
              m_.unordered[b] = 1;
          }
        m_.count[b] = to;
      }
    });
  }

  // Sorts the fragments of a board by time; stable.
  NANET_DEVICE void sort_board(unsigned b) {
    const std::uint32_t n = m_.count[b];
    Fragment* const fragment = t_.fragment + base(b);
    Fragment* const copy = reinterpret_cast<Fragment*>(t_.event);
    B::each([&](unsigned t) {
      for (std::uint32_t i = t; i < n; i += B::threads()) {
        t_.key[i] = static_cast<std::uint32_t>(fragment[i].time) << 16 | i;
        copy[i] = fragment[i];
      }
    });
    sort(t_.key, n);
    B::each([&](unsigned t) {
      for (std::uint32_t i = t; i < n; i += B::threads()) fragment[i] = copy[t_.key[i] & 0xFFFF];
    });
  }

  template <unsigned lists>
  NANET_DEVICE std::uint32_t assemble() {
    join<lists>();
    std::uint32_t fragments = 0;
    for (unsigned b = 0; b < lists; ++b) fragments += m_.count[b];
    const std::uint32_t events =
        B::number(t_.slot, fragments, m_.room,
                  [&](std::uint32_t number, std::uint32_t index) { open<lists>(index, number); });
    // With few fragments, several threads unpack each.
    unsigned bits = 0;
    while (bits < 4 && (fragments << (bits + 1)) <= B::threads()) ++bits;
    lanes_of_fragments(bits, [&](unsigned b, std::uint32_t i, std::uint32_t, unsigned lane) {
      unpack(t_.fragment[base(b) + i], lane, 1u << bits);
    });
    return events;
  }

  // A fragment without another one within the window before it starts a cluster. Its thread processes the
  // cluster event by event, like the CPU frame builder. The number of fragments in earlier events numbers the
  // events.
  template <unsigned lists>
  NANET_DEVICE void join() {
    std::uint32_t count[lists];
    NANET_UNROLLED
    for (unsigned c = 0; c < lists; ++c) count[c] = m_.count[c];
    each_fragment([&](unsigned own, std::uint32_t i, std::uint32_t) {
      const Fragment* const mine = t_.fragment + base(own) + i;
      const std::uint32_t time = mine->time;
      if (i > 0 && time - mine[-1].time <= window_) return;
      // at[c]: number of fragments of board c before this one; binary searches of all boards in parallel.
      std::uint32_t at[lists], above[lists];
      NANET_UNROLLED
      for (unsigned c = 0; c < lists; ++c) {
        at[c] = c == own ? i : 0;
        above[c] = c == own ? i : count[c];
      }
      for (bool searching = lists > 1; searching;) {
        std::uint32_t middle[lists], there[lists];
        NANET_UNROLLED
        for (unsigned c = 0; c < lists; ++c) {
          middle[c] = (at[c] + above[c]) / 2;
          there[c] = t_.fragment[base(c) + middle[c]].time;
        }
        searching = false;
        NANET_UNROLLED
        for (unsigned c = 0; c < lists; ++c) {
          const bool open = at[c] < above[c], up = open && there[c] < time + (c < own);
          at[c] = up ? middle[c] + 1 : at[c];
          above[c] = open && !up ? middle[c] : above[c];
          searching |= at[c] < above[c];
        }
      }
      bool begins = true;
      NANET_UNROLLED
      for (unsigned c = 0; c < lists; ++c)
        if (c != own && at[c] > 0 && time - t_.fragment[base(c) + at[c] - 1].time <= window_) begins = false;
      if (begins) cluster<lists>(at, count, time);
    });
  }
  template <unsigned lists>
  NANET_DEVICE void cluster(std::uint32_t (&at)[lists], const std::uint32_t (&count)[lists],
                            std::uint32_t latest) {
    constexpr std::uint32_t none = ~std::uint32_t{0};
    for (;;) {
      std::uint32_t head[lists], first = none, number = 0;
      NANET_UNROLLED
      for (unsigned c = 0; c < lists; ++c) {
        head[c] = t_.fragment[base(c) + (at[c] < count[c] ? at[c] : 0)].time;
        if (at[c] >= count[c]) head[c] = none;
        first = head[c] < first ? head[c] : first;
        number += at[c];
      }
      if (first == none || (first > latest && first - latest > window_)) return;
      t_.slot[number] = 1;
      NANET_UNROLLED
      for (unsigned c = 0; c < lists; ++c) {
        const bool take = head[c] != none && head[c] - first <= window_;
        t_.member[number * lists + c] = take ? static_cast<std::uint16_t>(base(c) + at[c]) : no_fragment;
        if (take && head[c] > latest) latest = head[c];
        at[c] += take;
      }
    }
  }

  // Opens event `index` from fragment list `number` and reserves space for its hits.
  template <unsigned lists>
  NANET_DEVICE void open(std::uint32_t index, std::uint32_t number) {
    std::uint32_t member[lists], stored[lists];
    BuiltEvent event;
    std::uint32_t hits = 0, opened = ~std::uint32_t{0}, boards = 0;
    NANET_UNROLLED
    for (unsigned b = 0; b < lists; ++b) member[b] = t_.member[number * lists + b];
    NANET_UNROLLED
    for (unsigned b = 0; b < lists; ++b) {
      const bool is = member[b] != no_fragment;
      const Fragment& p = t_.fragment[is ? member[b] : 0];
      stored[b] = is ? p.stored : 0;
      const std::uint32_t time = is ? p.time : ~std::uint32_t{0};
      hits += stored[b];
      opened = time < opened ? time : opened;
      boards |= static_cast<std::uint32_t>(is) << b;
    }
    event.first = B::add(m_.pm_used, hits);
    event.time = event.opened = static_cast<std::uint16_t>(opened);
    event.hits = 0;
    event.members = static_cast<std::uint16_t>(number);
    event.primitive = 0;
    event.boards = static_cast<std::uint8_t>(boards);
    event.truncated = 0;
    std::uint32_t out = event.first;
    NANET_UNROLLED
    for (unsigned b = 0; b < lists; ++b) {
      if (member[b] != no_fragment) {
        t_.fragment[member[b]].out = out;
        t_.fragment[member[b]].sum = 0;
      }
      out += stored[b];
    }
    t_.event[index] = event;
  }

  // Unpacks one lane's share of the hits of a fragment.
  NANET_DEVICE void unpack(Fragment& p, unsigned lane, unsigned lanes) const {
    const std::byte* const in = in_.at + p.hits;
    const std::uint32_t stored = p.stored;
    PmId* const pm = t_.pm + p.out;
    std::int32_t differences = 0;
    bool disorder = false;
    constexpr unsigned together = 4;  // reads in flight before the first write
    for (std::uint32_t i = lane; i < stored; i += together * lanes) {
      std::uint32_t word[together], before[together];
      NANET_UNROLLED
      for (unsigned j = 0; j < together; ++j) {
        const std::uint32_t at = i + j * lanes < stored ? i + j * lanes : i;
        word[j] = half_word(in + 2 * at);
        before[j] = at ? half_word(in + 2 * at - 2) & 0x7FF : 0;
      }
      NANET_UNROLLED
      for (unsigned j = 0; j < together; ++j) {
        if (i + j * lanes >= stored) continue;
        const std::uint32_t id = word[j] & 0x7FF;
        pm[i + j * lanes] = static_cast<PmId>(id);
        differences += static_cast<std::int16_t>(word[j]) >> 11;
        disorder |= (i + j * lanes > 0 && id <= before[j]) || id >= pm_count;
      }
    }
    const std::uint32_t sum = static_cast<std::uint32_t>(differences) + (disorder ? Fragment::disorder : 0);
    if (sum) B::add(p.sum, sum);
  }

  template <unsigned lists>
  NANET_DEVICE void finish(BuiltEvent& event) const {
    const std::uint16_t* const member = t_.member + std::size_t{event.members} * lists;
    std::uint32_t at[lists];
    std::int32_t sum = 0;
    std::uint8_t truncated = 0;
    std::uint32_t hits = 0, last = 0;  // last: last PM ID so far, plus one
    bool disorder = false;
    Fragment fragment[lists];
    NANET_UNROLLED
    for (unsigned b = 0; b < lists; ++b) at[b] = member[b];
    NANET_UNROLLED
    for (unsigned b = 0; b < lists; ++b) fragment[b] = t_.fragment[at[b] == no_fragment ? 0 : at[b]];
    NANET_UNROLLED
    for (unsigned b = 0; b < lists; ++b) {
      if (at[b] == no_fragment) continue;
      const Fragment& p = fragment[b];
      truncated |= p.truncated;
      if (p.stored == 0) continue;
      disorder |= p.disordered();
      disorder |= t_.pm[p.out] < last;
      last = t_.pm[p.out + p.stored - 1] + 1u;
      sum += p.times();
      hits += p.stored;
    }
    event.truncated = truncated;
    disorder |= hits > max_event_hits;
    if (conditions_ && !disorder) {
      std::int32_t offsets = 0;
      for (std::uint32_t i = 0; i < hits; ++i) {
        const std::int32_t offset = conditions_[t_.pm[event.first + i]];
        offsets += offset;
        disorder |= offset == masked_pm;
      }
      sum -= offsets;
    }
    if (disorder) hits = careful(event, sum);
    event.hits = static_cast<std::uint16_t>(hits);
    event.time = event.opened;
    if (hits == 0) return;
    event.time = mean_time(sum, hits);
  }

  // Unpacks an event with duplicate, unordered, invalid, masked or too many hits. Returns the number of hits
  // kept.
  NANET_DEVICE std::uint32_t careful(const BuiltEvent& event, std::int32_t& sum) const {
    const std::uint16_t* const member = t_.member + std::size_t{event.members} * lists_;
    HitKeeper<B> keeper(t_.pm + event.first, conditions_);  // rewritten from the bytes of the fragments
    for (unsigned b = 0; b < lists_; ++b) {
      if (member[b] == no_fragment) continue;
      const Fragment& p = t_.fragment[member[b]];
      for (std::uint32_t i = 0; i < p.stored; ++i) keeper.add(half_word(in_.at + p.hits + 2 * i), p.time);
    }
    sum = keeper.sum();
    return keeper.count(m_);
  }

  Bytes in_;
  Merge& m_;
  Tables t_;
  const std::int16_t* conditions_;
  std::uint32_t window_, share_ = 0;  // share_: of each board in the tables
  unsigned lists_;
};

struct Merged {
  std::uint32_t events;
  bool small;  // in the small tables
};

// Merges any frame; small: of `room` fragments, used if they suffice. Not inlined: one copy of this code is
// enough for the few frames that need it, and the others then fit the instruction cache. All threads.
template <class B>
NANET_NOINLINE NANET_DEVICE Merged merge_any(const Bytes in, Merge& merge, const Tables small,
                                             std::uint32_t room, const Tables large, std::uint32_t window,
                                             const std::int16_t* conditions) {
  Merger<B> merger(in, merge, window, conditions);
  const bool few = merger.list() <= room;
  const Tables tables = few ? small : large;
  const std::uint32_t events = merger.build(tables);
  B::each([&](unsigned t) {
    for (std::uint32_t e = B::spread(t); e < events; e += B::threads()) merger.finish(tables.event[e]);
  });
  return {events, few};
}

}  // namespace nanet::gpu
