// SPDX-License-Identifier: Apache-2.0
// Frame builder for the usual frame: one or two packed packets per board, in order of time, every event with
// ascending PM IDs. Same events as merge.hpp, which builds any other frame. Included by frame.hpp.
//
// The latency is the longest chain of dependent instructions, of five cycles each. Packets are therefore not
// followed from fragment to fragment: all possible fragments are read at once, and one thread follows every
// fourth of a board.
#pragma once

#include "nanet/gpu/frame/workspace.hpp"

namespace nanet::gpu {

class QuickMerge {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};  // not the usual frame
  static constexpr std::uint32_t room = 1024;               // fragments that the tables must hold

  // in: the bytes, in shared memory at `at`. tables: in shared memory. conditions: per PM, or null.
  __device__ QuickMerge(const Bytes& in, const std::byte* at, const Tables& tables, Merge& merge,
                        std::uint32_t window, const std::int16_t* conditions)
      : in_(in), at_(at), t_(tables), m_(merge), window_(window), conditions_(conditions) {}

  // Fills event and pm of the tables, and pm_used.
  // Returns the number of events, or `none`. All threads.
  __device__ std::uint32_t build() const {
    if (blockDim.x != threads || in_.boards > boards) return none;
    Packets packets;
    if (!list(packets)) return none;
    follow(packets);
    if (!read(packets)) return none;
    if (!join(packets)) return none;
    const std::uint32_t events = number();
    return unpack(packets) && finish(events) ? events : none;
  }

 private:
  static constexpr unsigned all = ~0u, boards = 4, threads = 512, most = 128;  // most: fragments of a board
  // A position is an offset in a packet, in half words. Beyond the last fragment: `end`.
  static constexpr std::uint32_t positions = 1024, end = positions - 1, header = 8, longest = 2 * end;
  static constexpr unsigned stride = 4;  // fragments from one that is followed to the next
  static constexpr std::uint32_t absent = absent_member;
  static_assert(boards == join_boards && most == usual_members);
  // Fragment in a word: position, hits from bit 10, truncation at bit 16.
  static constexpr unsigned hits_at = 10, truncated_at = 16;

  // The packets of one board. stop, last: end in bytes, and highest position of a fragment, of the first and
  // of the last packet; second: position of the second one's first fragment.
  struct Packets {
    const std::byte* at;
    unsigned board;
    std::uint32_t index;  // fragment of this thread
    std::uint32_t counts[2], stop[2], last[2], second;
    __device__ std::uint32_t count() const { return counts[0] + counts[1]; }
    __device__ std::uint32_t first() const { return counts[0] ? header : counts[1] ? second : end; }
  };

  // Working memory, in that of the tables until they are filled. For each position the next fragment's, and
  // that of the fourth from there; for each fragment its time, word, first hit, sum of the time differences,
  // and first and last PM ID.
  __device__ std::uint16_t* next(unsigned board) const {
    return reinterpret_cast<std::uint16_t*>(t_.fragment) + positions * board;
  }
  __device__ std::uint16_t* fourth(unsigned board) const { return next(boards + board); }
  __device__ std::uint16_t* time(unsigned board) const {
    return reinterpret_cast<std::uint16_t*>(t_.key) + most * board;
  }
  __device__ std::uint16_t* out(unsigned board) const { return time(boards + board); }
  __device__ std::uint16_t* followed(unsigned board) const { return out(0) + 2 * most / stride * board; }
  __device__ std::uint32_t* fragment(unsigned board) const {
    return reinterpret_cast<std::uint32_t*>(t_.member) + most * board;
  }
  __device__ std::int32_t* difference(unsigned board) const {
    return reinterpret_cast<std::int32_t*>(t_.fragment) + most * board;
  }
  __device__ std::uint32_t* edges(unsigned board) const {
    return reinterpret_cast<std::uint32_t*>(t_.fragment) + most * (boards + board);
  }
  // Members of the event that begins with a fragment, by rank; then by number.
  __device__ std::uint32_t* members() const { return t_.slot; }
  __device__ std::uint32_t* event_members() const { return t_.slot + threads; }
  static_assert(2 * boards * positions * sizeof(std::uint16_t) <= room * sizeof(Fragment));
  static_assert(boards * most * sizeof(std::uint32_t) <= room * sizeof(std::uint16_t));
  static_assert(boards * most == threads && 2 * threads <= room);

  // f(positions, valid) for the thread's share of a packet's positions, several at a time, so that their
  // loads overlap. A position that is not valid repeats another one.
  static constexpr unsigned together = 4;
  template <class F>
  __device__ static void each_position(const Packets& p, const F& f) {
    for (std::uint32_t from = header + p.index; from <= p.last[1]; from += together * most) {
      std::uint32_t j[together];
      bool is[together];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) {
        j[k] = from + k * most;
        is[k] = j[k] <= p.last[1];
        if (!is[k]) j[k] = from;
      }
      f(j, is);
    }
  }

  // Checks the packets of the thread's board, and finds what follows each position.
  __device__ bool list(Packets& p) const {
    p.board = threadIdx.x / most;
    p.index = threadIdx.x % most;
    p.at = at_ + std::size_t{p.board} * in_.stride;
    NANET_UNROLLED
    for (unsigned q = 0; q < 2; ++q) p.counts[q] = p.stop[q] = p.last[q] = 0;
    p.second = end;
    std::uint32_t bytes = 0;
    NANET_UNROLLED
    for (unsigned b = 0; b < boards; ++b)
      if (b == p.board && b < in_.boards) bytes = in_.bytes[b];
    bool other = bytes > longest;
    std::uint32_t at = 0, sequence = 0;
    NANET_UNROLLED
    for (unsigned q = 0; q < 2; ++q) {
      if (other || at >= bytes) continue;
      other = at + 16 > bytes;
      if (other) continue;
      const std::uint32_t first = full_word(p.at + at), second = full_word(p.at + at + 4),
                          number = full_word(p.at + at + 8);
      const std::uint32_t length = second & 0xFFFF, count = second >> 16 & 0xFF;
      other = (first >> 28 & 1) || length < 16 || at + length > bytes || length % 2 || number < sequence;
      if (other) continue;
      p.counts[q] = count;
      p.stop[q] = at + length;
      p.last[q] = (at + length - 8) / 2;
      if (q > 0 && count > 0) p.second = at / 2 + header;
      sequence = number;
      at += (length + 15) / 16 * 16;
    }
    other |= at < bytes || p.count() > most;
    if (other) p.counts[0] = p.counts[1] = p.last[0] = p.last[1] = 0;
    if (p.stop[1] == 0) p.last[1] = p.last[0];
    std::uint16_t* const to = next(p.board);
    each_position(p, [&](const std::uint32_t (&j)[together], const bool (&is)[together]) {
      std::uint32_t after[together];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) after[k] = j[k] + 4 + one_byte(p.at + 2 * j[k] + 5);
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) {
        const std::uint32_t beyond = j[k] <= p.last[0] ? p.second : end;
        const std::uint32_t last = j[k] <= p.last[0] ? p.last[0] : p.last[1];
        if (is[k]) to[j[k]] = static_cast<std::uint16_t>(after[k] <= last ? after[k] : beyond);
      }
    });
    if (p.index == 0) {
      to[end] = end;
      m_.count[p.board] = p.count();
    }
    members()[threadIdx.x] = none;
    if (threadIdx.x == 0) m_.pm_used = m_.duplicates = m_.masked = 0;
    return !__syncthreads_or(other);
  }

  // Follows every fourth fragment.
  __device__ void follow(const Packets& p) const {
    const std::uint16_t* const one = next(p.board);
    std::uint16_t* const four = fourth(p.board);
    each_position(p, [&](const std::uint32_t (&j)[together], const bool (&is)[together]) {
      std::uint32_t at[together];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) at[k] = j[k];
      NANET_UNROLLED
      for (unsigned hop = 0; hop < stride; ++hop) NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) at[k] = one[at[k]];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k)
        if (is[k]) four[j[k]] = static_cast<std::uint16_t>(at[k]);
    });
    __syncthreads();
    if (p.index == 0) {
      std::uint16_t* const to = followed(p.board);
      std::uint32_t n = 0;
      for (std::uint32_t at = p.first() <= p.last[1] ? p.first() : end; at != end && n <= most / stride;
           at = four[at])
        to[n++] = static_cast<std::uint16_t>(at);
      m_.payloads[p.board] = n;
    }
    __syncthreads();
  }

  // Reads the thread's fragment.
  __device__ bool read(const Packets& p) const {
    const std::uint32_t leads = m_.payloads[p.board], lead = p.index / stride;
    std::uint32_t at = end;
    if (lead < leads) at = followed(p.board)[lead];
    NANET_UNROLLED
    for (unsigned hop = 0; hop + 1 < stride; ++hop)
      if (hop < p.index % stride) at = next(p.board)[at];
    const bool is = p.index < p.count(), early = p.index < p.counts[0];
    bool other = (at != end) != is || leads > most / stride || (is && (at < p.second) != early);
    std::uint32_t opened = 0xFFFF;
    if (is && !other) {
      const std::byte* const from = p.at + 2 * at;
      const std::uint32_t low = half_word(from), head = half_word(from + 4), rest = half_word(from + 6);
      const std::uint32_t stored = head >> 8;
      other = stored > max_fragment_hits || 2 * (at + 4 + stored) > (early ? p.stop[0] : p.stop[1]);
      opened = (low & 0xFF) << 8 | (head & 0xFF);
      const std::uint32_t truncated = (rest >> 8 & 1) != 0 || (rest & 0xFF) > stored ? 1 : 0;
      fragment(p.board)[p.index] = at | stored << hits_at | truncated << truncated_at;
    }
    time(p.board)[p.index] = static_cast<std::uint16_t>(opened);
    return !__syncthreads_or(other);
  }

  // Joins fragments into events.
  __device__ bool join(const Packets& p) const {
    std::uint32_t count[boards];
    NANET_UNROLLED
    for (unsigned c = 0; c < boards; ++c) count[c] = m_.count[c];
    const auto times_of = [&](unsigned c) {
      return FragmentTimes<1>{reinterpret_cast<const std::byte*>(time(c))};
    };
    const auto counts = [&](unsigned board) {
      std::uint32_t own = count[0];
      NANET_UNROLLED
      for (unsigned c = 1; c < join_boards; ++c) own = c == board ? count[c] : own;
      return own;
    };
    const FragmentJoin<decltype(times_of), decltype(counts)> joiner(times_of, counts, window_);
    const auto begun = [&](std::uint32_t number, std::uint32_t of) { members()[number] = of; };
    using Place = typename FragmentJoin<decltype(times_of), decltype(counts)>::Place;
    const Place own[] = {{p.board, p.index, true}};
    const bool disorder = p.index < p.count() && !joiner(own, begun);
    return !__syncthreads_or(disorder);
  }

  // Numbers and opens the events. Returns how many there are.
  __device__ std::uint32_t number() const {
    const unsigned lane = threadIdx.x & 31u, warp = threadIdx.x >> 5;
    const std::uint32_t mine = members()[threadIdx.x];
    const unsigned vote = __ballot_sync(all, mine != none);
    if (lane == 0) m_.room[warp] = __popc(vote);
    __syncthreads();
    const std::uint32_t there = lane < threads / 32 ? m_.room[lane] : 0;
    const std::uint32_t before = __reduce_add_sync(all, lane < warp ? there : 0);
    const std::uint32_t events = __reduce_add_sync(all, there);
    if (mine != none) open(before + __popc(vote & ((1u << lane) - 1)), mine);
    __syncthreads();
    return events;
  }
  __device__ void open(std::uint32_t e, std::uint32_t members_of) const {
    std::uint32_t word[boards], hits = 0, opened = none, mask = 0, truncated = 0;
    NANET_UNROLLED
    for (unsigned c = 0; c < boards; ++c) {
      const std::uint32_t member = members_of >> 8 * c & 0xFF;
      const bool is = member != absent;
      word[c] = is ? fragment(c)[member] : 0;
      const std::uint32_t at = is ? time(c)[member] : none;
      opened = at < opened ? at : opened;
      hits += word[c] >> hits_at & 63;
      mask |= static_cast<std::uint32_t>(is) << c;
      truncated |= word[c] >> truncated_at;
    }
    BuiltEvent event;
    event.first = atomicAdd(&m_.pm_used, hits);
    event.time = event.opened = static_cast<std::uint16_t>(opened);
    event.hits = static_cast<std::uint16_t>(hits);
    event.members = static_cast<std::uint16_t>(e);
    event.primitive = 0;
    event.boards = static_cast<std::uint8_t>(mask);
    event.truncated = static_cast<std::uint8_t>(truncated);
    std::uint32_t to = event.first;
    NANET_UNROLLED
    for (unsigned c = 0; c < boards; ++c) {
      const std::uint32_t member = members_of >> 8 * c & 0xFF;
      if (member != absent) out(c)[member] = static_cast<std::uint16_t>(to);
      to += word[c] >> hits_at & 63;
    }
    t_.event[e] = event;
    event_members()[e] = members_of;
  }

  // Unpacks the hits, two threads per fragment.
  __device__ bool unpack(const Packets& p) const {
    constexpr unsigned at_once = most / 2, in_flight = 4;
    bool careful = false;
    for (std::uint32_t from = 0; from < p.count(); from += at_once) {
      const std::uint32_t i = from + p.index / 2;
      const bool upper = p.index % 2, is = i < p.count();
      const std::uint32_t word = is ? fragment(p.board)[i] : 0;
      const std::uint32_t stored = word >> hits_at & 63, half = (stored + 1) / 2, begin = upper ? half : 0,
                          stop = upper ? stored : half;
      const std::byte* const hits = p.at + 2 * ((word & end) + 4);
      PmId* const pm = t_.pm + (is ? out(p.board)[i] : 0);
      std::int32_t sum = 0, last = -1;
      if (upper && half) last = static_cast<std::int32_t>(half_word(hits + 2 * half - 2) & 0x7FF);
      std::uint32_t first = 0;
      for (std::uint32_t h = begin; h < stop; h += in_flight) {
        std::uint32_t hit[in_flight];
        NANET_UNROLLED
        for (unsigned k = 0; k < in_flight; ++k) hit[k] = half_word(hits + 2 * (h + k < stop ? h + k : h));
        NANET_UNROLLED
        for (unsigned k = 0; k < in_flight; ++k) {
          if (h + k >= stop) continue;
          const auto id = static_cast<std::int32_t>(hit[k] & 0x7FF);
          careful |= id <= last || id >= static_cast<std::int32_t>(pm_count);
          last = id;
          if (h + k == 0) first = static_cast<std::uint32_t>(id);
          sum += (static_cast<std::int16_t>(hit[k]) >> 11) * 4;
          pm[h + k] = static_cast<PmId>(id);
          if (conditions_) {
            const std::int32_t t0 = conditions_[id];
            careful |= t0 == masked_pm;
            sum -= t0;
          }
        }
      }
      sum += __shfl_xor_sync(all, sum, 1);
      const std::int32_t other = __shfl_xor_sync(all, last, 1);
      if (is && !upper) {
        if (stored > 1) last = other;
        difference(p.board)[i] = sum;
        edges(p.board)[i] = first | static_cast<std::uint32_t>(last) << 16;
      }
    }
    return !__syncthreads_or(careful);
  }

  // Mean times of the events; false if an event's PM IDs do not ascend from board to board.
  __device__ bool finish(std::uint32_t events) const {
    bool careful = false;
    for (std::uint32_t e = Block::spread(threadIdx.x); e < events; e += threads) {
      const std::uint32_t members_of = event_members()[e];
      std::int32_t sum = 0, last = -1;
      NANET_UNROLLED
      for (unsigned c = 0; c < boards; ++c) {
        const std::uint32_t member = members_of >> 8 * c & 0xFF;
        if (member == absent) continue;
        const std::uint32_t stored = fragment(c)[member] >> hits_at & 63, ids = edges(c)[member];
        if (stored == 0) continue;
        sum += difference(c)[member] + static_cast<std::int32_t>(stored * time(c)[member]);
        careful |= static_cast<std::int32_t>(ids & 0xFFFF) <= last;
        last = static_cast<std::int32_t>(ids >> 16);
      }
      BuiltEvent& event = t_.event[e];
      if (event.hits) event.time = Merger<Block>::mean_time(sum, event.hits);
    }
    return !__syncthreads_or(careful);
  }

  const Bytes in_;
  const std::byte* at_;
  const Tables t_;
  Merge& m_;
  std::uint32_t window_;
  const std::int16_t* conditions_;
};

}  // namespace nanet::gpu
