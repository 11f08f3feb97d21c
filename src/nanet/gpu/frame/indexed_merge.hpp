// SPDX-License-Identifier: Apache-2.0
// Frame builder for a frame with an index, for algorithms that take PM IDs. Same events as merge.hpp. Of the
// joined fragments (fragment_work.hpp) a thread per event opens it, and two per fragment unpack the hits.
// Included by frame.hpp.
#pragma once

#include "nanet/gpu/frame/indexed_fragments.hpp"
#include "nanet/gpu/frame/summed_frame.hpp"

namespace nanet::gpu {

template <class B>
class IndexedMerge {
  using Fragments = IndexedFragments<B>;

 public:
  // As IndexedFragments; Tables::slot is zero.
  NANET_DEVICE IndexedMerge(const Bytes& in, const std::byte* at, const Tables& tables, Merge& merge,
                            std::uint32_t window, const std::int16_t* conditions)
      : fragments_(in, at, tables, merge, window, conditions), t_(tables), m_(merge) {}

  // Checks a fragment's hits, and notes its Info.
  NANET_DEVICE static bool read(const Fragments& fragments, const Tables& tables, unsigned b, std::uint32_t i,
                                const IndexedBoard::Found& found) {
    return fragments.read(b, i, found, Fragments::infos(tables)[Fragments::entry(b, i)], [](const auto&) {});
  }
  // Fills event and pm of the tables, and pm_used. total: number of fragments. All threads.
  template <class Beside>
  NANET_DEVICE BuiltFrame build(std::uint32_t total, const Beside& beside) const {
    bool careful = false;
    B::one([&] { m_.pm_used = m_.duplicates = m_.masked = 0; });
    const std::uint32_t events = B::number_all(
        t_.slot, total, m_.room, Fragments::event_list(t_),
        [&](std::uint32_t slot, std::uint32_t e) { careful |= !open(e, ~t_.slot[slot]); }, beside);
    const bool disorder = B::any([&](unsigned t) {
      unpack(t);
      return careful;
    });
    return {disorder ? BuiltFrame::none : events, false};
  }

 private:
  static constexpr unsigned parts = 2;  // threads that unpack a fragment

  NANET_DEVICE std::uint32_t stored(unsigned b, std::uint32_t i) const {
    return Fragments::infos(t_)[Fragments::entry(b, i)].stored();
  }
  // Place of a fragment's hits in Tables::pm.
  NANET_DEVICE std::uint32_t& place(unsigned b, std::uint32_t i) const {
    return t_.key[b * Fragments::most + i];
  }

  // Event e of these members. Returns false if its PM IDs do not ascend.
  NANET_DEVICE bool open(std::uint32_t e, std::uint32_t members) const {
    const auto found = fragments_.event(members, [](std::uint32_t) {});
    BuiltEvent event;
    event.first = B::add(m_.pm_used, found.hits);
    event.time = static_cast<std::uint16_t>(found.time);
    event.opened = static_cast<std::uint16_t>(found.opened);
    event.hits = static_cast<std::uint16_t>(found.hits);
    event.members = static_cast<std::uint16_t>(e);
    event.primitive = 0;
    event.boards = static_cast<std::uint8_t>(found.boards);
    event.truncated = static_cast<std::uint8_t>(found.truncated);
    t_.event[e] = event;
    std::uint32_t to = event.first;
    Fragments::each_member(members, [&](unsigned c, std::uint32_t i) {
      place(c, i) = to;
      to += stored(c, i);
    });
    return found.usual;
  }
  NANET_DEVICE void unpack(unsigned t) const {
    constexpr unsigned together = 4;  // loads in flight
    const unsigned part = t % parts;
    fragments_.each(t / parts, B::threads() / parts, [&](unsigned b, std::uint32_t i) {
      const std::uint32_t n = stored(b, i);
      const std::byte* const hits = fragments_.hits_of(b, fragments_.offset(b, i));
      PmId* const to = t_.pm + place(b, i);
      for (std::uint32_t h = part; h < n; h += together * parts) {
        std::uint32_t word[together];
        NANET_UNROLLED
        for (unsigned k = 0; k < together; ++k) {
          const std::uint32_t at = h + k * parts;
          word[k] = half_word(hits + 2 * (at < n ? at : h));
        }
        NANET_UNROLLED
        for (unsigned k = 0; k < together; ++k)
          if (h + k * parts < n) to[h + k * parts] = static_cast<PmId>(word[k] & 0x7FF);
      }
      return true;
    });
  }

  const Fragments fragments_;
  const Tables& t_;
  Merge& m_;
};

}  // namespace nanet::gpu
