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

  // Fills event and pm of the tables, and pm_used; finish() completes an event.
  // Returns the number of events, or `none`. All threads.
  __device__ std::uint32_t build() const {
    if (blockDim.x != threads || in_.boards > boards) return none;
    Packet packet;
    if (!list(packet)) return none;
    follow(packet);
    if (!read(packet)) return none;
    if (!join(packet)) return none;
    const std::uint32_t events = number();
    return unpack(events) ? events : none;
  }

  // Last step of event e; any thread, after build().
  __device__ void finish(BuiltEvent& event, std::uint32_t e) const {
    if (event.hits)
      event.time = Merger<Block>::mean_time(static_cast<std::int32_t>(event_members()[e]), event.hits);
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
    for (std::uint32_t j = header + p.index; j <= p.last; j += most) {
      const std::uint32_t after = j + 4 + one_byte(p.at + 2 * j + 5);
      to[j] = static_cast<std::uint16_t>(after <= p.last ? after : end);
    }
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
    for (std::uint32_t j = header + p.index; j <= p.last; j += most) four[j] = one[one[one[one[j]]]];
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

  // Number of fragments of a board with a time below `limit`.
  __device__ static std::uint32_t below(const std::uint16_t* times, std::uint32_t count,
                                        std::uint32_t limit) {
    std::uint32_t n = 0;
    NANET_UNROLLED
    for (std::uint32_t step = most / 2; step > 0; step /= 2)
      if (times[n + step - 1] < limit) n += step;
    if (times[n] < limit) ++n;
    return n < count ? n : count;
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
        std::uint32_t at[boards], earlier[boards];
        NANET_UNROLLED
        for (unsigned c = 0; c < boards; ++c)
          at[c] = c == p.board ? i : below(time(c), count[c], opened + (c < p.board));
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
      const std::uint32_t members_of = event_members()[e];
      std::uint32_t from[boards], begin[boards];  // of its hits: offset in the bytes less 2 x `begin`
      std::uint32_t hits = 0, opened = none, mask = 0, truncated = 0;
      std::int32_t sum = 0;
      NANET_UNROLLED
      for (unsigned c = 0; c < boards; ++c) {
        const std::uint32_t member = members_of >> 8 * c & 0xFF;
        const bool is = member != absent;
        const std::uint32_t word = is ? fragment(c)[member] : 0, at = is ? time(c)[member] : none;
        const std::uint32_t stored = word >> hits_at & 63;
        begin[c] = hits;
        from[c] = in_.stride * c + 2 * ((word & end) + 4) - 2 * hits;
        hits += stored;
        opened = at < opened ? at : opened;
        sum += is ? static_cast<std::int32_t>(stored * at) : 0;
        mask |= static_cast<std::uint32_t>(is) << c;
        truncated |= word >> truncated_at;
      }
      careful |= hits > max_event_hits;
      std::uint32_t first = 0;
      if (lane == 0) first = atomicAdd(&m_.pm_used, hits);
      first = __shfl_sync(all, first, 0);
      std::int32_t late = 0;
      std::uint32_t last = 0;
      for (std::uint32_t h = lane; h - lane < hits; h += 32) {
        const bool is = h < hits;
        std::uint32_t at = from[0];
        NANET_UNROLLED
        for (unsigned c = 1; c < boards; ++c) at = h >= begin[c] ? from[c] : at;
        const std::uint32_t word = is ? half_word(at_ + (at + 2 * h)) : 0, id = word & 0x7FF;
        std::uint32_t before = __shfl_up_sync(all, id, 1);
        if (lane == 0) before = last;
        last = __shfl_sync(all, id, 31);
        careful |= is && (id >= pm_count || (h > 0 && id <= before));
        if (is) {
          t_.pm[first + h] = static_cast<PmId>(id);
          late += (static_cast<std::int16_t>(word) >> 11) * 4;
          if (conditions_) {
            const std::int32_t offset = conditions_[id];
            careful |= offset == masked_pm;
            late -= offset;
          }
        }
      }
      late = __reduce_add_sync(all, late);
      if (lane == 0) {
        BuiltEvent event;
        event.first = first;
        event.time = event.opened = static_cast<std::uint16_t>(opened);
        event.hits = static_cast<std::uint16_t>(hits);
        event.members = static_cast<std::uint16_t>(e);
        event.primitive = 0;
        event.boards = static_cast<std::uint8_t>(mask);
        event.truncated = static_cast<std::uint8_t>(truncated);
        t_.event[e] = event;
        event_members()[e] = static_cast<std::uint32_t>(sum + late);  // read by this warp alone
      }
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
