// SPDX-License-Identifier: Apache-2.0
// The frame builder of a thread block: merges the boards' fragments into events (docs/formats.md, Merging),
// the same events as trigger/build.hpp, bit for bit. Where fragments are farther apart than the window, what
// comes before and what comes after are independent: each such cluster is a thread's.
#pragma once

#include "nanet/contract/layout.hpp"
#include "nanet/loop/block.hpp"
#include "nanet/rich/ring.hpp"

namespace nanet::loop {

inline constexpr unsigned max_payloads = 64;  // of a board, as many as trigger/build.hpp looks at
inline constexpr std::uint16_t no_piece = 0xFFFF;

// A fragment.
struct Piece {
  std::uint32_t hits;  // offset of its hit words in the bytes
  std::uint16_t time;  // within the frame, LSB
  std::uint8_t stored, flags;
  std::uint32_t out;  // offset of its hits in Tables::pm
  std::int32_t sum;   // of its hits' times
};
namespace piece_flag {
inline constexpr std::uint8_t truncated = 1, disorder = 2;
}

// An event.
struct Row {
  std::uint32_t first;          // its hits are pm[first] .. pm[first + hits - 1]
  std::uint16_t time, opened;   // within the frame, LSB
  std::uint16_t hits, members;  // members: number of its list of pieces
  std::uint16_t primitive;
  std::uint8_t boards, truncated;
};
static_assert(sizeof(Piece) == 16 && sizeof(Row) == 16);

// Tables for as many fragments as bytes can hold; shared memory, or device memory for frames too large.
struct Tables {
  Piece* piece = nullptr;
  Row* row = nullptr;               // also room for sorting the pieces
  std::uint16_t* member = nullptr;  // lists x fragments
  std::uint32_t* slot = nullptr;    // fragments + 1
  std::uint32_t* key = nullptr;     // the power of two that holds the fragments
  PmId* pm = nullptr;               // as many as hit words fit into the bytes
};

NANET_HD inline constexpr std::size_t round_up(std::size_t bytes) {
  return (bytes + 15) / 16 * 16;
}

// fragments: a power of two; hits: hit words. Lays the tables out from `at` on, a 16 B boundary.
NANET_HD inline Tables lay_out(std::byte* at, std::uint32_t fragments, unsigned lists, std::uint32_t hits) {
  Tables t;
  t.piece = reinterpret_cast<Piece*>(at);
  at += sizeof(Piece) * fragments;
  t.row = reinterpret_cast<Row*>(at);
  at += sizeof(Row) * fragments;
  t.key = reinterpret_cast<std::uint32_t*>(at);
  at += sizeof(std::uint32_t) * fragments;
  t.slot = reinterpret_cast<std::uint32_t*>(at);
  at += round_up(sizeof(std::uint32_t) * (fragments + 1));
  t.member = reinterpret_cast<std::uint16_t*>(at);
  at += round_up(sizeof(std::uint16_t) * fragments * lists);
  t.pm = reinterpret_cast<PmId*>(at);
  static_cast<void>(hits);
  return t;
}
NANET_HD inline constexpr std::size_t table_bytes(std::uint32_t fragments, unsigned lists,
                                                  std::uint32_t hits) {
  return sizeof(Piece) * fragments + sizeof(Row) * fragments + sizeof(std::uint32_t) * fragments +
         round_up(sizeof(std::uint32_t) * (fragments + 1)) +
         round_up(sizeof(std::uint16_t) * fragments * lists) + round_up(sizeof(PmId) * hits);
}

// Lists of fragments are laid out for 1, 4 or 8 boards, so that loops over boards are of a fixed length.
NANET_HD inline constexpr unsigned lists_for(unsigned boards) {
  return boards == 1 ? 1 : boards <= 4 ? 4 : max_boards;
}

// What a block shares while it merges.
struct Merge {
  struct Payload {
    std::uint32_t at, sequence;   // offset in the bytes
    std::uint16_t length, start;  // start: of its pieces within the board's
    std::uint8_t events, fixed;
    std::uint16_t count;
  };
  Payload payload[max_boards][max_payloads];
  std::uint32_t payloads[max_boards];
  std::uint32_t base[max_boards + 1];  // of each board's pieces; the last: how many there can be
  std::uint32_t count[max_boards];     // pieces of each board
  std::uint32_t unordered[max_boards];
  std::uint32_t gaps, pieces, events, pm_used, duplicates;
  std::uint32_t room[33];
};

// The bytes of a frame, a copy that nobody else writes: those of board b from `at` + b x stride on.
struct Bytes {
  const std::byte* at = nullptr;
  std::uint32_t stride = 0;
  std::uint32_t bytes[max_boards] = {};
  unsigned boards = 0;
};

template <class B>
class Merger {
 public:
  using Payload = Merge::Payload;

  NANET_DEVICE Merger(const Bytes& in, Merge& shared, std::uint32_t window)
      : in_(in), m_(shared), window_(window), lists_(lists_for(in.boards)) {}

  // How many fragments there can be at most. Every thread gets it.
  NANET_DEVICE std::uint32_t list() {
    B::each([&](unsigned t) {
      for (unsigned b = t >> 5; b < lists_; b += B::threads() >> 5)
        if ((t & 31) == 0) list_board(b);
    });
    B::each([&](unsigned t) {
      if (t != 0) return;
      std::uint32_t at = 0;
      for (unsigned b = 0; b < lists_; ++b) {
        const std::uint32_t n = m_.base[b];
        m_.base[b] = at;
        at += n;
      }
      m_.base[lists_] = at;
      m_.gaps = m_.pm_used = m_.duplicates = 0;
    });
    return m_.base[lists_];
  }

  // Fills the tables; m_.events then says how many events there are.
  NANET_DEVICE void build(const Tables& tables) {
    t_ = tables;
    B::each([&](unsigned t) {
      for (std::uint32_t q = t; q < lists_ * max_payloads; q += B::threads()) {
        const unsigned b = q % lists_, p = q / lists_;
        if (p < m_.payloads[b]) walk(b, m_.payload[b][p]);
      }
    });
    if (m_.gaps) close_gaps();
    B::each([&](unsigned t) {
      for (std::uint32_t x = t; x < m_.base[lists_]; x += B::threads()) {
        t_.slot[x] = 0;
        const unsigned b = board_of(x);
        const std::uint32_t i = x - m_.base[b];
        if (i > 0 && i < m_.count[b] && t_.piece[x].time < t_.piece[x - 1].time) m_.unordered[b] = 1;
      }
      if (t != 0) return;
      m_.pieces = 0;
      for (unsigned b = 0; b < lists_; ++b) m_.pieces += m_.count[b];
    });
    for (unsigned b = 0; b < lists_; ++b)
      if (m_.unordered[b]) sort_board(b);
    if (lists_ == 1)
      join<1>();
    else if (lists_ == 4)
      join<4>();
    else
      join<max_boards>();
    B::scan(t_.slot, m_.pieces, m_.events, m_.room);
    B::each([&](unsigned t) {
      for (std::uint32_t x = t; x < m_.pieces; x += B::threads()) {
        const std::uint32_t after = x + 1 < m_.pieces ? t_.slot[x + 1] : m_.events;
        if (after != t_.slot[x]) open(t_.slot[x], x);
      }
    });
    B::each([&](unsigned t) {
      for (std::uint32_t x = t; x < m_.base[lists_]; x += B::threads()) {
        const unsigned b = board_of(x);
        if (x - m_.base[b] < m_.count[b]) unpack(t_.piece[x]);
      }
    });
  }

  // The last step, of one event; any thread, after build().
  NANET_DEVICE void finish(Row& row) const {
    const std::uint16_t* const member = t_.member + std::size_t{row.members} * lists_;
    std::int32_t sum = 0;
    std::uint32_t hits = 0, last = 0;  // last: one more than the last PM ID so far
    bool disorder = false;
    std::uint8_t truncated = 0;
    for (unsigned b = 0; b < lists_; ++b) {
      if (member[b] == no_piece) continue;
      const Piece& p = t_.piece[member[b]];
      truncated |= p.flags;
      if (p.stored == 0) continue;
      disorder |= t_.pm[p.out] < last;
      last = t_.pm[p.out + p.stored - 1] + 1u;
      sum += p.sum;
      hits += p.stored;
    }
    row.truncated = truncated & piece_flag::truncated;
    if (disorder || (truncated & piece_flag::disorder) || hits > max_event_hits) hits = careful(row, sum);
    row.hits = static_cast<std::uint16_t>(hits);
    row.time = row.opened;
    if (hits == 0) return;
    const std::int32_t twice = 2 * sum + static_cast<std::int32_t>(hits);  // the mean, rounded half up
    const std::int32_t mean = twice < 0 ? 0 : twice / static_cast<std::int32_t>(2 * hits);
    row.time = static_cast<std::uint16_t>(mean < lsb_per_frame ? mean : lsb_per_frame - 1);
  }

  // Sorts key[0 .. n - 1], all different; room up to the next power of two.
  NANET_DEVICE static void sort(std::uint32_t* key, std::uint32_t n) {
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
  NANET_DEVICE unsigned board_of(std::uint32_t x) const {
    unsigned b = 0;
    while (b + 1 < lists_ && x >= m_.base[b + 1]) ++b;
    return b;
  }

  // The payloads of one board in order of sequence number. One thread.
  NANET_DEVICE void list_board(unsigned b) {
    Payload* const list = m_.payload[b];
    std::uint32_t n = 0;
    if (b < in_.boards) {
      const std::uint32_t bytes = in_.bytes[b];
      const std::byte* const segment = in_.at + std::size_t{b} * in_.stride;
      for (std::uint32_t at = 0; at + 16 <= bytes && n < max_payloads;) {
        const std::uint32_t word = full_word(segment + at), next = full_word(segment + at + 4);
        const std::uint32_t length = next & 0xFFFF;
        if (length < 16 || at + length > bytes) break;
        Payload p;
        p.at = static_cast<std::uint32_t>(b * in_.stride + at);
        p.sequence = full_word(segment + at + 8);
        p.length = static_cast<std::uint16_t>(length);
        p.events = static_cast<std::uint8_t>(next >> 16);
        p.fixed = (word >> 24 & 0x10) != 0;
        p.start = p.count = 0;
        std::uint32_t i = n++;
        for (; i > 0 && list[i - 1].sequence > p.sequence; --i) list[i] = list[i - 1];
        list[i] = p;
        at += (length + 15) / 16 * 16;
      }
    }
    std::uint32_t start = 0;
    for (std::uint32_t p = 0; p < n; ++p) {
      list[p].start = static_cast<std::uint16_t>(start);
      start += most(list[p]);
    }
    m_.payloads[b] = n;
    m_.base[b] = m_.count[b] = start;
    m_.unordered[b] = 0;
  }
  // Events of a payload at most.
  NANET_DEVICE static std::uint32_t most(const Payload& p) {
    const std::uint32_t fit = (p.length - 16u) / 8;
    return p.events < fit ? p.events : fit;
  }

  // The fragments of one payload, safe on any bytes. One thread.
  NANET_DEVICE void walk(unsigned b, Payload& p) {
    Piece* const out = t_.piece + m_.base[b] + p.start;
    std::uint32_t at = p.at + 16;
    const std::uint32_t end = p.at + p.length;
    const bool fixed = p.fixed;
    std::uint32_t n = 0;
    for (; n < p.events && end - at >= 8; ++n) {
      const std::uint32_t stored = half_word(in_.at + at + 4) >> 8;
      const std::uint32_t bytes = fixed ? 72 : 8 + 2 * stored;
      if (stored > max_fragment_hits || end - at < bytes) break;
      const std::uint32_t fine = half_word(in_.at + at + 4) & 0xFF, low = half_word(in_.at + at) & 0xFF;
      const std::uint32_t rest = half_word(in_.at + at + 6);
      Piece piece;
      piece.hits = at + 8;
      piece.time = static_cast<std::uint16_t>(low << 8 | fine);
      piece.stored = static_cast<std::uint8_t>(stored);
      piece.flags = (rest >> 8 & 1) | ((rest & 0xFF) > stored) ? piece_flag::truncated : 0;
      piece.out = 0;
      piece.sum = 0;
      out[n] = piece;
      at += bytes;
    }
    p.count = static_cast<std::uint16_t>(n);
    if (n != most(p)) m_.gaps = 1;
  }

  // Payloads that hold fewer events than they say: the others move up. Never so with what the card lets by.
  NANET_DEVICE void close_gaps() {
    B::each([&](unsigned t) {
      for (unsigned b = t; b < lists_; b += B::threads()) {
        std::uint32_t to = 0;
        for (std::uint32_t p = 0; p < m_.payloads[b]; ++p)
          for (std::uint32_t i = 0; i < m_.payload[b][p].count; ++i, ++to)
            t_.piece[m_.base[b] + to] = t_.piece[m_.base[b] + m_.payload[b][p].start + i];
        m_.count[b] = to;
      }
    });
  }

  // Brings the pieces of a board into order of time, ties as they are.
  NANET_DEVICE void sort_board(unsigned b) {
    const std::uint32_t n = m_.count[b];
    Piece* const piece = t_.piece + m_.base[b];
    Piece* const copy = reinterpret_cast<Piece*>(t_.row);
    B::each([&](unsigned t) {
      for (std::uint32_t i = t; i < n; i += B::threads()) {
        t_.key[i] = static_cast<std::uint32_t>(piece[i].time) << 16 | i;
        copy[i] = piece[i];
      }
    });
    sort(t_.key, n);
    B::each([&](unsigned t) {
      for (std::uint32_t i = t; i < n; i += B::threads()) piece[i] = copy[t_.key[i] & 0xFFFF];
    });
  }

  // How many of board c's pieces come before time `time` (at_it: or at it).
  NANET_DEVICE std::uint32_t before(unsigned c, std::uint32_t time, bool at_it) const {
    const Piece* const piece = t_.piece + m_.base[c];
    const std::uint32_t limit = time + at_it;
    std::uint32_t low = 0, high = m_.count[c];
    while (low < high) {
      const std::uint32_t middle = (low + high) / 2;
      if (piece[middle].time < limit)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  // A piece with none at most a window before it begins a cluster; its thread takes the cluster event by
  // event, as trigger/build.hpp takes the frame. Events are numbered by how many pieces went to earlier ones.
  template <unsigned lists>
  NANET_DEVICE void join() {
    B::each([&](unsigned t) {
      for (std::uint32_t x = t; x < m_.base[lists]; x += B::threads()) {
        const unsigned own = board_of(x);
        const std::uint32_t i = x - m_.base[own];
        if (i >= m_.count[own]) continue;
        const std::uint32_t time = t_.piece[x].time;
        if (i > 0 && time - t_.piece[x - 1].time <= window_) continue;
        std::uint32_t at[lists];
        bool begins = true;
#ifdef __CUDACC__
#pragma unroll
#endif
        for (unsigned c = 0; c < lists; ++c) {
          at[c] = c == own ? i : before(c, time, c < own);
          if (c != own && at[c] > 0 && time - t_.piece[m_.base[c] + at[c] - 1].time <= window_)
            begins = false;
        }
        if (begins) cluster<lists>(at, time);
      }
    });
  }
  template <unsigned lists>
  NANET_DEVICE void cluster(std::uint32_t (&at)[lists], std::uint32_t latest) {
    constexpr std::uint32_t none = ~std::uint32_t{0};
    for (;;) {
      std::uint32_t head[lists], first = none, number = 0;
#ifdef __CUDACC__
#pragma unroll
#endif
      for (unsigned c = 0; c < lists; ++c) {
        head[c] = at[c] < m_.count[c] ? t_.piece[m_.base[c] + at[c]].time : none;
        first = head[c] < first ? head[c] : first;
        number += at[c];
      }
      if (first == none || (first > latest && first - latest > window_)) return;
      t_.slot[number] = 1;
#ifdef __CUDACC__
#pragma unroll
#endif
      for (unsigned c = 0; c < lists; ++c) {
        const bool take = head[c] != none && head[c] - first <= window_;
        t_.member[number * lists + c] = take ? static_cast<std::uint16_t>(m_.base[c] + at[c]) : no_piece;
        if (take && head[c] > latest) latest = head[c];
        at[c] += take;
      }
    }
  }

  // Row `event`, whose pieces are list `number`: room for its hits.
  NANET_DEVICE void open(std::uint32_t event, std::uint32_t number) {
    const std::uint16_t* const member = t_.member + std::size_t{number} * lists_;
    Row row;
    std::uint32_t hits = 0, opened = ~std::uint32_t{0}, boards = 0;
    for (unsigned b = 0; b < lists_; ++b) {
      if (member[b] == no_piece) continue;
      const Piece& p = t_.piece[member[b]];
      hits += p.stored;
      opened = p.time < opened ? p.time : opened;
      boards |= 1u << b;
    }
    row.first = B::add(m_.pm_used, hits);
    row.time = row.opened = static_cast<std::uint16_t>(opened);
    row.hits = 0;
    row.members = static_cast<std::uint16_t>(number);
    row.primitive = 0;
    row.boards = static_cast<std::uint8_t>(boards);
    row.truncated = 0;
    std::uint32_t out = row.first;
    for (unsigned b = 0; b < lists_; ++b) {
      if (member[b] == no_piece) continue;
      Piece& p = t_.piece[member[b]];
      p.out = out;
      out += p.stored;
    }
    t_.row[event] = row;
  }

  // The hits of one fragment. One thread.
  NANET_DEVICE void unpack(Piece& p) const {
    std::int32_t differences = 0;
    std::uint32_t least = 0;  // one more than the last PM ID
    bool disorder = false;
    for (std::uint32_t i = 0; i < p.stored; ++i) {
      const std::uint32_t word = half_word(in_.at + p.hits + 2 * i), pm = word & 0x7FF;
      t_.pm[p.out + i] = static_cast<PmId>(pm);
      differences += static_cast<std::int16_t>(word) >> 11;
      disorder |= pm < least || pm >= pm_count;
      least = pm + 1;
    }
    p.sum = 4 * differences + static_cast<std::int32_t>(p.stored) * p.time;
    if (disorder) p.flags |= piece_flag::disorder;
  }

  // An event whose hits are not all different, in order and on the lattice, or are too many. Returns how many
  // stay.
  NANET_DEVICE std::uint32_t careful(const Row& row, std::int32_t& sum) const {
    const std::uint16_t* const member = t_.member + std::size_t{row.members} * lists_;
    PmId* const pm = t_.pm + row.first;  // read from the bytes again, so it may be written over
    std::uint32_t kept = 0, twice = 0;
    sum = 0;
    for (unsigned b = 0; b < lists_; ++b) {
      if (member[b] == no_piece) continue;
      const Piece& p = t_.piece[member[b]];
      for (std::uint32_t i = 0; i < p.stored; ++i) {
        const std::uint32_t word = half_word(in_.at + p.hits + 2 * i), id = word & 0x7FF;
        std::uint32_t at = kept;
        while (at > 0 && pm[at - 1] > id) --at;
        if (at > 0 && pm[at - 1] == id) {
          ++twice;
          continue;
        }
        if (id >= pm_count || kept == max_event_hits) continue;
        for (std::uint32_t j = kept++; j > at; --j) pm[j] = pm[j - 1];
        pm[at] = static_cast<PmId>(id);
        sum += p.time + (static_cast<std::int16_t>(word) >> 11) * 4;
      }
    }
    if (twice) B::add(m_.duplicates, twice);
    return kept;
  }

  Bytes in_;
  Merge& m_;
  Tables t_;
  std::uint32_t window_;
  unsigned lists_;
};

}  // namespace nanet::loop
