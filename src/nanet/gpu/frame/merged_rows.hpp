// SPDX-License-Identifier: Apache-2.0
// Rows and hits of a merged buffer (docs/formats.md, Merged buffer) in a thread block, and the events that
// they hold: the same as trigger::FrameBuilder::build_merged(), bit for bit.
#pragma once

#include "nanet/contract/layout.hpp"
#include "nanet/gpu/frame/block.hpp"
#include "nanet/gpu/frame/merge.hpp"
#include "nanet/gpu/frame/tables.hpp"

namespace nanet::gpu {

// Sum of the bytes of a word; sum of the products of two words' bytes.
NANET_HD inline std::uint32_t sum_bytes(std::uint32_t word) {
  const std::uint32_t pairs = (word & 0x00FF00FF) + (word >> 8 & 0x00FF00FF);
  return (pairs & 0xFFFF) + (pairs >> 16);
}
NANET_HD inline std::uint32_t dot_bytes(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  return __dp4a(a, b, 0u);
#else
  std::uint32_t sum = 0;
  for (unsigned shift = 0; shift < 32; shift += 8) sum += (a >> shift & 0xFF) * (b >> shift & 0xFF);
  return sum;
#endif
}

// contract::MergedRow in words.
struct alignas(16) RowWords {
  std::uint32_t word[4];

  NANET_HD std::uint32_t first() const { return word[0] & 0xFFFF; }
  NANET_HD std::int32_t sum() const { return static_cast<std::int16_t>(word[0] >> 16); }
  NANET_HD std::uint32_t opened() const { return word[1] & 0xFFFF; }
  NANET_HD std::uint32_t boards() const { return word[1] >> 16 & ((1u << contract::merged_boards) - 1); }
  NANET_HD std::uint32_t truncated() const { return word[1] >> 24 & contract::MergedRow::truncated; }
  NANET_HD std::uint32_t hits_of(unsigned b) const { return word[2] >> 8 * b & 0xFF; }
  NANET_HD std::uint32_t delay_of(unsigned b) const { return word[3] >> 8 * b & 0xFF; }
  NANET_HD std::uint32_t hits() const { return sum_bytes(word[2]); }
  NANET_HD std::uint32_t end() const { return first() + hits(); }
  // Sum of the times of its hits.
  NANET_HD std::int32_t times() const {
    return static_cast<std::int32_t>(hits() * opened() + dot_bytes(word[2], word[3])) + 4 * sum();
  }
  // Whether a board has more hits than a fragment.
  NANET_HD bool excess() const {
    constexpr std::uint32_t ones = 0x01010101, low = 0x7F * ones;
    static_assert(max_fragment_hits < 0x80);
    return ((word[2] | ((word[2] & low) + (0x7F - max_fragment_hits) * ones)) & ~low) != 0;
  }
};
static_assert(sizeof(RowWords) == sizeof(contract::MergedRow) && contract::merged_boards == 4);

// Copy of a frame's rows and hits; at: on a 16 B boundary, hits: on a 2 B boundary.
struct MergedRows {
  const std::byte* at = nullptr;  // null: none
  const std::byte* hits = nullptr;
  std::uint32_t rows = 0, words = 0;  // limits (contract::MergedExtent)

  NANET_HD RowWords row(std::uint32_t e) const {
    RowWords row;
#ifdef __CUDA_ARCH__
    row = reinterpret_cast<const RowWords*>(at)[e];
#else
    std::memcpy(&row, at + sizeof row * e, sizeof row);
#endif
    return row;
  }
  NANET_HD std::uint32_t hit(std::uint32_t i) const { return half_word(hits + 2 * i); }
  NANET_HD bool sound(std::uint32_t e, const RowWords& row) const {
    const std::uint32_t end = e ? this->row(e - 1).end() : 0;
    return contract::sound_row(row.first(), row.hits(), row.excess(), end, words);
  }
};

// Places of a frame in shared memory: rows, then hits.
inline constexpr std::size_t merged_hits_at = sizeof(contract::MergedRow) * contract::merged_rows;
inline constexpr std::size_t merged_bytes =
    merged_hits_at + sizeof(std::uint16_t) * std::size_t{contract::merged_hits};

// Builder of the events of a merged frame, for all algorithms and any rows.
template <class B>
class RowBuilder {
 public:
  // tables: of at least contract::merged_rows fragments and contract::merged_hits hits. conditions: per PM,
  // or null.
  NANET_DEVICE RowBuilder(const MergedRows& in, Merge& shared, const Tables& tables,
                          const std::int16_t* conditions)
      : in_(in), m_(shared), t_(tables), conditions_(conditions) {}

  // Fills event and pm of the tables; the hits of an event lie where its row says. Returns the number of
  // events, in every thread.
  NANET_DEVICE std::uint32_t build() const {
    std::uint32_t* const offsets = t_.key;    // sum of the hits' time offsets, by row
    std::uint32_t* const disorder = t_.slot;  // the event needs the careful way
    std::uint32_t& sound = m_.count[0];
    B::each([&](unsigned t) {
      for (std::uint32_t e = t; e < in_.rows; e += B::threads()) offsets[e] = disorder[e] = 0;
      if (t != 0) return;
      sound = in_.rows;
      m_.pm_used = in_.words;
      m_.duplicates = m_.masked = 0;
    });
    B::each([&](unsigned t) {
      for (std::uint32_t x = t; x < sum_parts * in_.rows; x += B::threads()) {
        const std::uint32_t e = x / sum_parts;
        const RowWords row = in_.row(e);
        // Rows that overlap an earlier one write the same words, before any is changed.
        if (!in_.sound(e, row))
          B::least(sound, e);
        else
          unpack(row, x % sum_parts, offsets[e], disorder[e]);
      }
    });
    const std::uint32_t events = sound;
    B::each([&](unsigned t) {
      for (std::uint32_t e = B::spread(t); e < events; e += B::threads())
        finish(e, static_cast<std::int32_t>(offsets[e]), disorder[e] != 0);
    });
    return events;
  }

 private:
  // Unpacks every eighth hit of a row.
  NANET_DEVICE void unpack(const RowWords& row, unsigned part, std::uint32_t& offsets,
                           std::uint32_t& disorder) const {
    const std::uint32_t first = row.first(), hits = row.hits();
    std::int32_t sum = 0;
    bool other = false;
    for (std::uint32_t i = part; i < hits; i += sum_parts) {
      const std::uint32_t id = in_.hit(first + i) & 0x7FF;
      other |= id >= pm_count || (i > 0 && id <= (in_.hit(first + i - 1) & 0x7FF));
      t_.pm[first + i] = static_cast<PmId>(id);
      if (!conditions_) continue;
      const std::int32_t offset = conditions_[id];
      other |= offset == masked_pm;
      sum += offset;
    }
    if (other) disorder = 1;
    if (sum) B::add(offsets, static_cast<std::uint32_t>(sum));
  }

  NANET_DEVICE void finish(std::uint32_t e, std::int32_t offsets, bool disorder) const {
    const RowWords row = in_.row(e);
    std::uint32_t hits = row.hits();
    std::int32_t sum = row.times() - offsets;
    if (disorder) hits = careful(row, sum);
    BuiltEvent event;
    event.first = row.first();
    event.opened = static_cast<std::uint16_t>(row.opened());
    event.time = hits ? Merger<B>::mean_time(sum, hits) : event.opened;
    event.hits = static_cast<std::uint16_t>(hits);
    event.members = static_cast<std::uint16_t>(e);
    event.primitive = 0;
    event.boards = static_cast<std::uint8_t>(row.boards());
    event.truncated = static_cast<std::uint8_t>(row.truncated());
    t_.event[e] = event;
  }

  // Unpacks an event with duplicate, unordered, invalid or masked hits. Returns the number of hits kept.
  NANET_DEVICE std::uint32_t careful(const RowWords& row, std::int32_t& sum) const {
    HitKeeper<B> keeper(t_.pm + row.first(), conditions_);
    std::uint32_t at = row.first();
    for (unsigned b = 0; b < contract::merged_boards; ++b) {
      const auto time = static_cast<std::uint16_t>(row.opened() + row.delay_of(b));
      for (std::uint32_t i = row.hits_of(b); i > 0; --i, ++at) keeper.add(in_.hit(at), time);
    }
    sum = keeper.sum();
    return keeper.count(m_);
  }

  const MergedRows in_;
  Merge& m_;
  const Tables t_;
  const std::int16_t* conditions_;
};

// Not inlined, as merge_any(). All threads.
template <class B>
NANET_NOINLINE NANET_DEVICE std::uint32_t build_rows(const MergedRows in, Merge& shared, const Tables tables,
                                                     const std::int16_t* conditions) {
  return RowBuilder<B>(in, shared, tables, conditions).build();
}

}  // namespace nanet::gpu
