// SPDX-License-Identifier: Apache-2.0
// Frame builder for the usual frame: one packed packet per board, in order of time, every event with
// ascending PM IDs. Same events as merge.hpp, which builds any other frame. Included by frame.hpp.
//
// The latency is the longest chain of dependent instructions, of five cycles each. Packets are therefore not
// followed from fragment to fragment: all possible fragments are read at once, and one thread follows every
// fourth of a board. A warp then reads an event, a lane per hit.
#pragma once

namespace nanet::gpu {

class QuickMerge {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};  // not the usual frame
  static constexpr std::uint32_t room = 1024;  // fragments that the tables must hold

  // in: the bytes, in shared memory at `at`. tables: in shared memory. conditions: per PM, or null.
  __device__ QuickMerge(const Bytes& in, const std::byte* at, const Tables& tables, Merge& merge,
                        std::uint32_t window, const std::int16_t* conditions)
      : in_(in), at_(at), t_(tables), m_(merge), window_(window), conditions_(conditions) {}

  // Fills event and pm of the tables, and pm_used.
  // Returns the number of events, or `none`. All threads.
  __device__ std::uint32_t build() const {
    if (blockDim.x != threads || in_.boards > boards) return none;
    Packet packet;
    if (!list(packet)) return none;
    follow(packet);
    if (!read(packet)) return none;
    if (!join(packet)) return none;
    const std::uint32_t events = number();
    if (!unpack(events)) return none;
    finish(events);
    return events;
  }

 private:
  static constexpr unsigned all = ~0u, boards = 4, threads = 512, most = 128;  // most: fragments of a board
  // A position is an offset in a packet, in half words. Beyond the last fragment: `end`.
  static constexpr std::uint32_t positions = 1024, end = positions - 1, header = 8, longest = 2 * end;
  static constexpr unsigned stride = 4;  // fragments from one that is followed to the next
  static constexpr std::uint32_t absent = 0xFF;
  // Fragment in a word: position, hits from bit 10, truncation at bit 16.
  static constexpr unsigned hits_at = 10, truncated_at = 16;

  struct Packet {
    const std::byte* at;
    unsigned board;
    std::uint32_t index, length, last, count;  // index: fragment of this thread; last: highest position
  };

  // Working memory, in that of the tables until they are filled.
  __device__ std::uint16_t* next(unsigned board) const {
    return reinterpret_cast<std::uint16_t*>(t_.fragment) + positions * board;
  }
  __device__ std::uint16_t* fourth(unsigned board) const { return next(boards + board); }
  __device__ std::uint16_t* time(unsigned board) const {
    return reinterpret_cast<std::uint16_t*>(t_.key) + most * board;
  }
  __device__ std::uint16_t* followed(unsigned board) const { return time(boards) + 2 * most / stride * board; }
  __device__ std::uint32_t* fragment(unsigned board) const {
    return reinterpret_cast<std::uint32_t*>(t_.member) + most * board;
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
  __device__ static void each_position(const Packet& p, const F& f) {
    for (std::uint32_t from = header + p.index; from <= p.last; from += together * most) {
      std::uint32_t j[together];
      bool is[together];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) {
        j[k] = from + k * most;
        is[k] = j[k] <= p.last;
        if (!is[k]) j[k] = from;
      }
      f(j, is);
    }
  }

  // Checks the packet of the thread's board, and finds what follows each position.
  __device__ bool list(Packet& p) const {
    p.board = threadIdx.x / most;
    p.index = threadIdx.x % most;
    p.at = at_ + std::size_t{p.board} * in_.stride;
    p.length = p.count = p.last = 0;
    std::uint32_t bytes = 0;
    NANET_UNROLLED
    for (unsigned b = 0; b < boards; ++b)
      if (b == p.board && b < in_.boards) bytes = in_.bytes[b];
    bool other = bytes > 0;
    if (bytes >= 16) {
      const std::uint32_t first = full_word(p.at), second = full_word(p.at + 4);
      const std::uint32_t length = second & 0xFFFF, count = second >> 16 & 0xFF;
      other = (first >> 28 & 1) || length < 16 || length > bytes || length > longest || length % 2 ||
              (length + 15) / 16 * 16 + 16 <= bytes || count > most;
      if (!other) {
        p.length = length;
        p.count = count;
        p.last = length >= 24 ? (length - 8) / 2 : 0;
      }
    }
    std::uint16_t* const to = next(p.board);
    each_position(p, [&](const std::uint32_t(&j)[together], const bool(&is)[together]) {
      std::uint32_t after[together];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) after[k] = j[k] + 4 + one_byte(p.at + 2 * j[k] + 5);
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k)
        if (is[k]) to[j[k]] = static_cast<std::uint16_t>(after[k] <= p.last ? after[k] : end);
    });
    if (p.index == 0) {
      to[end] = end;
      m_.count[p.board] = p.count;
    }
    members()[threadIdx.x] = none;
    if (threadIdx.x == 0) m_.pm_used = m_.duplicates = m_.masked = 0;
    return !__syncthreads_or(other);
  }

  // Follows every fourth fragment.
  __device__ void follow(const Packet& p) const {
    const std::uint16_t* const one = next(p.board);
    std::uint16_t* const four = fourth(p.board);
    each_position(p, [&](const std::uint32_t(&j)[together], const bool(&is)[together]) {
      std::uint32_t at[together];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k) at[k] = j[k];
      NANET_UNROLLED
      for (unsigned hop = 0; hop < stride; ++hop)
        NANET_UNROLLED
        for (unsigned k = 0; k < together; ++k) at[k] = one[at[k]];
      NANET_UNROLLED
      for (unsigned k = 0; k < together; ++k)
        if (is[k]) four[j[k]] = static_cast<std::uint16_t>(at[k]);
    });
    __syncthreads();
    if (p.index == 0) {
      std::uint16_t* const to = followed(p.board);
      std::uint32_t n = 0;
      for (std::uint32_t at = p.count && p.last >= header ? header : end; at != end && n <= most / stride;
           at = four[at])
        to[n++] = static_cast<std::uint16_t>(at);
      m_.payloads[p.board] = n;
    }
    __syncthreads();
  }

  // Reads the thread's fragment.
  __device__ bool read(const Packet& p) const {
    const std::uint32_t leads = m_.payloads[p.board], lead = p.index / stride;
    std::uint32_t at = end;
    if (lead < leads) at = followed(p.board)[lead];
    NANET_UNROLLED
    for (unsigned hop = 0; hop + 1 < stride; ++hop)
      if (hop < p.index % stride) at = next(p.board)[at];
    const bool is = p.index < p.count;
    bool other = (at != end) != is || leads > most / stride;
    std::uint32_t opened = 0xFFFF;
    if (is && !other) {
      const std::byte* const from = p.at + 2 * at;
      const std::uint32_t low = half_word(from), head = half_word(from + 4), rest = half_word(from + 6);
      const std::uint32_t stored = head >> 8;
      other = stored > max_fragment_hits || 2 * (at + 4 + stored) > p.length;
      opened = (low & 0xFF) << 8 | (head & 0xFF);
      const std::uint32_t truncated = (rest >> 8 & 1) != 0 || (rest & 0xFF) > stored ? 1 : 0;
      fragment(p.board)[p.index] = at | stored << hits_at | truncated << truncated_at;
    }
    time(p.board)[p.index] = static_cast<std::uint16_t>(opened);
    return !__syncthreads_or(other);
  }

  // at[c]: number of fragments of each board with a time below limit[c]; boards in parallel.
  __device__ void below(const std::uint32_t (&count)[boards], const std::uint32_t (&limit)[boards],
                        std::uint32_t (&at)[boards]) const {
    NANET_UNROLLED
    for (unsigned c = 0; c < boards; ++c) at[c] = 0;
    NANET_UNROLLED
    for (std::uint32_t step = most / 2; step > 0; step /= 2) {
      std::uint32_t there[boards];
      NANET_UNROLLED
      for (unsigned c = 0; c < boards; ++c) there[c] = time(c)[at[c] + step - 1];
      NANET_UNROLLED
      for (unsigned c = 0; c < boards; ++c) at[c] += there[c] < limit[c] ? step : 0;
    }
    NANET_UNROLLED
    for (unsigned c = 0; c < boards; ++c) {
      if (time(c)[at[c]] < limit[c]) ++at[c];
      if (at[c] > count[c]) at[c] = count[c];
    }
  }

  // Joins fragments into events: Merger::join().
  __device__ bool join(const Packet& p) const {
    std::uint32_t count[boards];
    NANET_UNROLLED
    for (unsigned c = 0; c < boards; ++c) count[c] = m_.count[c];
    const std::uint32_t i = p.index;
    bool disorder = false;
    if (i < p.count) {
      const std::uint16_t* const own = time(p.board);
      const std::uint32_t opened = own[i], before = i ? own[i - 1] : 0;
      disorder = i > 0 && before > opened;
      if (i == 0 || opened - before > window_) {
        std::uint32_t at[boards], earlier[boards], limit[boards];
        NANET_UNROLLED
        for (unsigned c = 0; c < boards; ++c) limit[c] = opened + (c < p.board);
        below(count, limit, at);
        NANET_UNROLLED
        for (unsigned c = 0; c < boards; ++c) at[c] = c == p.board ? i : at[c];
        NANET_UNROLLED
        for (unsigned c = 0; c < boards; ++c) earlier[c] = at[c] ? time(c)[at[c] - 1] : 0;
        bool begins = true;
        NANET_UNROLLED
        for (unsigned c = 0; c < boards; ++c)
          if (c != p.board && at[c] > 0 && opened - earlier[c] <= window_) begins = false;
        if (begins) cluster(at, count, opened);
      }
    }
    return !__syncthreads_or(disorder);
  }
  __device__ void cluster(std::uint32_t (&at)[boards], const std::uint32_t (&count)[boards],
                          std::uint32_t latest) const {
    for (;;) {
      std::uint32_t head[boards], first = none, number = 0;
      NANET_UNROLLED
      for (unsigned c = 0; c < boards; ++c) {
        head[c] = at[c] < count[c] ? time(c)[at[c]] : none;
        first = head[c] < first ? head[c] : first;
        number += at[c];
      }
      if (first == none || (first > latest && first - latest > window_)) return;
      std::uint32_t members_of = 0;
      NANET_UNROLLED
      for (unsigned c = 0; c < boards; ++c) {
        const bool take = head[c] != none && head[c] - first <= window_;
        members_of |= (take ? at[c] : absent) << 8 * c;
        if (take && head[c] > latest) latest = head[c];
        at[c] += take;
      }
      members()[number] = members_of;
    }
  }

  // Numbers the events. Returns how many there are.
  __device__ std::uint32_t number() const {
    const unsigned lane = threadIdx.x & 31u, warp = threadIdx.x >> 5;
    const std::uint32_t mine = members()[threadIdx.x];
    const unsigned vote = __ballot_sync(all, mine != none);
    if (lane == 0) m_.room[warp] = __popc(vote);
    __syncthreads();
    const std::uint32_t there = lane < threads / 32 ? m_.room[lane] : 0;
    const std::uint32_t before = __reduce_add_sync(all, lane < warp ? there : 0);
    const std::uint32_t events = __reduce_add_sync(all, there);
    if (mine != none) event_members()[before + __popc(vote & ((1u << lane) - 1))] = mine;
    __syncthreads();
    return events;
  }

  // Unpacks the events' hits, a warp per event.
  __device__ bool unpack(std::uint32_t events) const {
    const unsigned lane = threadIdx.x & 31u;
    bool careful = false;
    for (std::uint32_t e = threadIdx.x >> 5; e < events; e += threads / 32) {
      // Lane c < 4: the event's fragment of board c.
      const unsigned c = lane % boards;
      const std::uint32_t member = event_members()[e] >> 8 * c & 0xFF;
      const bool is = lane < boards && member != absent;
      const std::uint32_t word = is ? fragment(c)[member] : 0, at = is ? time(c)[member] : none;
      const std::uint32_t stored = word >> hits_at & 63;
      std::uint32_t sum = stored;  // of its hits and those of lower boards
      NANET_UNROLLED
      for (unsigned step = 1; step < boards; step *= 2) {
        const std::uint32_t lower = __shfl_up_sync(all, sum, step);
        sum += lane >= step ? lower : 0;
      }
      const std::uint32_t own = in_.stride * c + 2 * ((word & end) + 4) - 2 * (sum - stored);
      std::uint32_t from[boards], until[boards];  // from: offset of its hits in the bytes, less 2 x lower hits
      NANET_UNROLLED
      for (unsigned b = 0; b < boards; ++b) {
        from[b] = __shfl_sync(all, own, static_cast<int>(b));
        until[b] = __shfl_sync(all, sum, static_cast<int>(b));
      }
      const std::uint32_t hits = until[boards - 1];
      std::uint32_t first = 0;
      if (lane == 0) first = atomicAdd(&m_.pm_used, hits);
      std::uint32_t late = is ? stored * at : 0, last = 0;
      std::uint32_t ids[boards];
      static_assert(max_event_hits == 32 * boards && max_fragment_hits == 32);
      NANET_UNROLLED
      for (unsigned k = 0; k < boards; ++k) {
        ids[k] = 0;
        if (k > 0 && 32 * k >= hits) continue;
        const std::uint32_t h = 32 * k + lane;
        std::uint32_t offset = from[0];
        NANET_UNROLLED
        for (unsigned b = 1; b < boards; ++b) offset = h >= until[b - 1] ? from[b] : offset;
        const bool there = h < hits;
        const std::uint32_t hit = there ? half_word(at_ + (offset + 2 * h)) : 0, id = hit & 0x7FF;
        std::uint32_t before = __shfl_up_sync(all, id, 1);
        if (lane == 0) before = last;
        if (32 * (k + 1) < hits) last = __shfl_sync(all, id, 31);
        careful |= there && (id >= pm_count || (h > 0 && id <= before));
        ids[k] = id;
        if (there) late += static_cast<std::uint32_t>((static_cast<std::int16_t>(hit) >> 11) * 4);
        if (conditions_ && there) {
          const std::int32_t t0 = conditions_[id];
          careful |= t0 == masked_pm;
          late -= static_cast<std::uint32_t>(t0);
        }
      }
      late = __reduce_add_sync(all, late);
      const std::uint32_t opened = __reduce_min_sync(all, at), mask = __ballot_sync(all, is);
      const bool truncated = __any_sync(all, word >> truncated_at);
      first = __shfl_sync(all, first, 0);
      NANET_UNROLLED
      for (unsigned k = 0; k < boards; ++k)
        if (32 * k + lane < hits) t_.pm[first + 32 * k + lane] = static_cast<PmId>(ids[k]);
      if (lane == 0) {
        BuiltEvent event;
        event.first = first;
        event.time = event.opened = static_cast<std::uint16_t>(opened);
        event.hits = static_cast<std::uint16_t>(hits);
        event.members = static_cast<std::uint16_t>(e);
        event.primitive = 0;
        event.boards = static_cast<std::uint8_t>(mask);
        event.truncated = truncated;
        t_.event[e] = event;
        event_members()[e] = late;  // read by this warp alone
      }
    }
    return !__syncthreads_or(careful);
  }

  // Mean times of the events.
  __device__ void finish(std::uint32_t events) const {
    for (std::uint32_t e = Block::spread(threadIdx.x); e < events; e += threads) {
      BuiltEvent& event = t_.event[e];
      if (event.hits)
        event.time = Merger<Block>::mean_time(static_cast<std::int32_t>(event_members()[e]), event.hits);
    }
    __syncthreads();
  }

  const Bytes in_;
  const std::byte* at_;
  const Tables t_;
  Merge& m_;
  std::uint32_t window_;
  const std::int16_t* conditions_;
};

}  // namespace nanet::gpu
