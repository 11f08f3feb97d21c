// SPDX-License-Identifier: Apache-2.0
// CLOP buffer in a thread block: copies the bytes once, since the buffer may be overwritten while it is read,
// and runs FrameWork per frame (gather frame: one frame; packets: one per payload).
#pragma once

#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/frame/fragment_work.hpp"
#include "nanet/gpu/frame/frame.hpp"
#include "nanet/gpu/frame/mailbox_units.hpp"

namespace nanet::gpu {

// Without a mailbox.
struct NoLines {
  static constexpr bool prepared = false;
  NANET_DEVICE static constexpr bool used() { return false; }
  NANET_DEVICE static constexpr void await_entry() {}
  NANET_DEVICE static constexpr std::uint32_t bytes(unsigned) { return 0; }
  NANET_DEVICE static constexpr std::uint32_t early() { return 0; }
  NANET_DEVICE static constexpr std::uint32_t mark() { return 0; }
  struct Unit {
    std::uint32_t word[4];
  };
  NANET_DEVICE static Unit segment(unsigned, std::uint32_t) { return {}; }
  NANET_DEVICE static Unit index(unsigned, std::uint32_t) { return {}; }
  NANET_DEVICE static constexpr bool merged() { return false; }
  NANET_DEVICE static constexpr std::uint32_t rows() { return 0; }
  NANET_DEVICE static constexpr std::uint32_t hits() { return 0; }
  NANET_DEVICE static constexpr std::uint32_t most_merged_bytes() { return 0; }
  NANET_DEVICE static Unit merged_unit(std::uint32_t) { return {}; }
};

// Flags of a frame: a board or a part of its data is missing.
NANET_HD inline constexpr bool is_incomplete(std::uint16_t flags) {
  return !(flags & contract::event_flag::complete) || (flags & contract::event_flag::truncated);
}

// merges: as in FrameWork.
template <class A, class B, bool merges = false>
class BufferWork : public MailboxUnits<B> {
  using Units = MailboxUnits<B>;
  using Units::sizes_, Units::s_, Units::small_, Units::room_;

 public:
  // small: sizes.shared_bytes(), large: sizes.large_bytes(), both on a 16 B boundary. room: capacity of the
  // small tables in fragments.
  NANET_DEVICE BufferWork(const contract::Shape& shape, const BufferSizes& sizes, FrameShared& shared,
                          std::byte* small, std::byte* large, std::uint32_t room)
      : Units(sizes, shared, small, room),
        buffer_bytes_(shape.buffer_bytes()),
        packets_(shape.packets),
        slot_bytes_(shape.slot_bytes),
        large_(large) {}

#ifdef __CUDACC__

  // Memory of a call for events in slots, without conditions.
  __device__ SlotsCall<A> slots_call(const typename PlaneOf<A>::type* plane) const
    requires Summed<A>
  {
    return FrameWork<A, B>::slots_call(s_, small_tables(), plane, nullptr);
  }
  // The events that finish() has left, for an object of another function.
  __device__ void resume(FrameWork<A, B, merges>& work, std::uint32_t frame) const {
    work.adopt(s_.large ? large_tables() : small_tables(), s_.built, frame);
  }
  // A frame of one board whose events answer_slots() has finished; sampled: its bytes are copied from the
  // mailbox. All threads.
  template <class Lines>
  __device__ void adopt(FrameWork<A, B>& work, const Lines& lines, std::uint32_t events, std::uint32_t frame,
                        bool sampled) {
    Bytes in;
    if (sampled && !take(lines, in)) in.shared = false;
    work.adopt(in, small_tables(), events, frame);
  }

#endif

  // bytes: sum over the boards, or of a merged frame, from the queue entry. copy(to, from, n): called by all
  // threads, n a multiple of 16; copy.wait(): waits for this thread's copies. lines: a frame's segments in a
  // mailbox. answer: place of the packet in the mailbox. answered: the frame has been adopted, and its packet
  // written to `answer`. sampled(work, frame): gather packets, called after each payload, whose rows the next
  // one overwrites. Leaves packet, counts and trace (except n, frame, seen and posted) in shared memory.
  template <class Copy, class Clock, class Sampled, class Lines = NoLines, class Answer = AnswerLines>
  NANET_DEVICE NANET_INLINED void run(FrameWork<A, B, merges>& work, const std::byte* buffer,
                                      std::uint16_t flags, std::uint32_t frame, std::uint32_t bytes,
                                      const Copy& copy, const Clock& clock, const Sampled& sampled,
                                      const Lines& lines = {}, const Answer& answer = {},
                                      bool answered = false) {
    if constexpr (!Lines::prepared) work.begin();
    const bool whole = sizes_.frame;
    Payloads payloads;
    if (!whole) payloads.start = payloads.began = clock();
    // One pass for a frame, one per payload otherwise: a single call of work() keeps the code small.
    while (!answered) {
      Bytes in;
      std::uint32_t of = frame;
      bool incomplete = false;
      if constexpr (merges) {
        incomplete = is_incomplete(flags);
        MergedRows rows;
        bool there = take_rows(lines, rows);
        if (!there) {
          lines.await_entry();
          there = gather_rows(buffer, bytes, copy, rows);
        }
        if (there) {
          answered = work.work_rows(rows, small_tables(), frame, incomplete, clock, answer);
          break;
        }
        in = gather(buffer, bytes, copy);
      } else if (whole) {
        if (!lines.used() || !take(lines, in)) {
          lines.await_entry();
          in = gather(buffer, bytes, copy);
        }
        incomplete = is_incomplete(flags);
        if constexpr (Summed<A> && B::has_warps)
          answered = work.work_slots(in, small_, small_tables(), frame, incomplete, clock, answer);
        if (answered) break;
      } else if (!next(payloads, buffer, copy, in, of)) {
        break;
      }
      Nanoseconds built = 0, reconstructed = 0;  // valid in thread 0
      work.work(in, small_, small_tables(), room_, large_tables(), of, incomplete, clock, built,
                reconstructed);
      if (whole) {
        B::one([&] {
          s_.trace.built = built;
          s_.trace.reconstructed = reconstructed;
        });
        break;
      }
      payloads.build += built - payloads.start;
      payloads.reconstruct += reconstructed - built;
      payloads.start = clock();
      sampled(work, of);
      B::each([](unsigned) {});  // the next payload's tables overwrite these
    }
    if (!whole)
      B::one([&] {
        s_.trace.built = payloads.began + payloads.build;
        s_.trace.reconstructed = s_.trace.built + payloads.reconstruct;
      });
    finish(work, frame, answered, answer);
  }

 private:
  // Counts of a frame whose events are finished, and its packet, unless `answered`.
  template <class Answer>
  NANET_DEVICE NANET_INLINED void finish(FrameWork<A, B, merges>& work, std::uint32_t frame, bool answered,
                                         const Answer& answer) {
    trigger::Trace& trace = s_.trace;
    if (answered) B::each([](unsigned) {});  // note_edges() reads the events of the first warp
    B::one([&] {
      s_.built = work.events();
      s_.large = work.tables().event != small_tables().event;
      work.finish(frame);
      trace.events = s_.events;
      trace.primitives = s_.primitives;
      trace.below_min_hits = s_.below;
      trace.mtp_overflow = s_.overflow;
      trace.rings = s_.rings;
      trace.duplicate_hits = s_.duplicates;
      trace.masked_hits = s_.masked;
      for (unsigned k = 0; k < trigger::primitive_kinds; ++k) trace.downscaled[k] = s_.downscaled[k];
    });
    if (!answered) {
      B::each([](unsigned) {});
      B::each([&](unsigned t) { answer.write(s_.packet, s_.words, t, B::threads()); });
    }
    B::each([&](unsigned t) {
      if (t != 32) return;  // a warp other than thread 0's
      if (sizes_.frame)
        work.note_edges(trace);
      else
        trace.lows = trace.highs = 0;
    });
  }
  // Segments of a frame from a mailbox. Returns false if a unit does not arrive.
  template <class Lines>
  NANET_DEVICE bool take(const Lines& lines, Bytes& in) {
    in.boards = sizes_.boards;
    in.at = small_;
    in.stride = sizes_.stride;
    in.shared = true;
    bool fits = true;
    NANET_UNROLLED
    for (unsigned b = 0; b < max_boards; ++b) {
      if (b > 0 && sizes_.lists == 1) break;  // the usual case is short
      if (b >= sizes_.boards) continue;
      in.bytes[b] = lines.bytes(b);
      fits = fits && in.bytes[b] <= Units::longest();
    }
    if (!fits) return false;
    B::each([&](unsigned t) {
      if (!Units::take(t, lines)) s_.units_missing = 1;
    });
    return s_.units_missing == 0;
  }

 public:
  NANET_DEVICE void prepare(unsigned t) const {
    Units::prepare(t, small_tables());
    if constexpr (Summed<A>) IndexedFrame<A, B>::prepare(t, small_tables());
  }
  // Computed where they are used: a few additions, instead of registers that the whole loop of a resident
  // kernel would keep, or spill.
  NANET_DEVICE Tables small_tables() const {
    return lay_out(small_ + shared_raw_bytes, shared_fragments, sizes_.lists, shared_raw_bytes / 2);
  }
  // Work on the fragments of the held frame. plane, conditions: as in Workspace.
  NANET_DEVICE FragmentWork<A, B> fragment_work(const Tables& tables, const typename PlaneOf<A>::type* plane,
                                                std::uint32_t window, const std::int16_t* conditions) const {
    return {sizes_.boards, s_, small_, sizes_.stride, tables, plane, window, conditions};
  }
  // Whether the held frame is that of an event line, and complete. A group, or all.
  template <class Lines>
  NANET_DEVICE bool is_held(const Lines& lines) const {
    return !B::look(s_.units_missing) && s_.held.template is_of<B>(sizes_.boards, lines);
  }
  // Drops the work on the held frame. A step of the threads of C.
  template <class C>
  NANET_DEVICE void drop() const {
    std::uint32_t* const slot = small_tables().slot;
    C::each([&](unsigned t) {
      for (std::uint32_t x = t; x < IndexedFragments<B>::all; x += C::threads()) slot[x] = 0;
      if (t == 0) s_.held.unusual = s_.careful = s_.merge.pm_used = 0;
    });
  }
  // Number of the held frame, by its first board's packet.
  NANET_DEVICE std::uint32_t frame_by_header() const { return full_word(small_ + 12) & 0xFFFFFF; }
  // Events of the held frame, a usual one, whose fragments have been read and joined, by the threads of C.
  // frame, incomplete: used for exact sums only.
  template <class C, class Beside>
  NANET_DEVICE NANET_INLINED BuiltFrame build(const FrameWork<A, B, merges>& work, std::uint32_t frame,
                                              bool incomplete, const Beside& beside) const {
    if constexpr (Summed<A>) static_assert(sums_fit(1, 1) && sums_fit(join_boards, join_boards));
    const std::uint32_t unusual = B::look(s_.held.unusual), total = B::look(s_.held.total);
    if (unusual) {
      beside();
      return {};
    }
    return work.template build_indexed<C>(held(), small_, small_tables(), total, frame, incomplete, beside);
  }
  // Exact sums: counts these events, and writes the packet to `answer` if they are in order; returns whether
  // they are. By the threads of C. frame, incomplete: those of build().
  template <class C, class Clock, class Answer>
  NANET_DEVICE NANET_INLINED bool answer(const FrameWork<A, B, merges>& work, const BuiltFrame& built,
                                         std::uint32_t frame, bool incomplete, const Clock& clock,
                                         const Answer& answer) const
    requires Summed<A>
  {
    return work.template answer_indexed<C>(held(), small_, small_tables(), built, frame, incomplete, clock,
                                           answer);
  }
  // The rest of the held frame, whose events have been built: as run(). answered: result of answer(). All
  // threads.
  template <class Clock, class Answer>
  NANET_DEVICE NANET_INLINED void finish_built(FrameWork<A, B, merges>& work, std::uint32_t events,
                                               bool answered, std::uint16_t flags, std::uint32_t frame,
                                               const Clock& clock, const Answer& answer) {
    work.finish_indexed(held(), small_tables(), events, frame, is_incomplete(flags), clock, answered);
    finish(work, frame, answered, answer);
  }

 private:
  NANET_DEVICE Bytes held() const { return s_.held.bytes(sizes_.boards, small_, sizes_.stride); }
  // Segments of a frame. The header may hold any bytes, so its lengths are limited to the segment.
  template <class Copy>
  NANET_DEVICE Bytes gather(const std::byte* buffer, std::uint32_t bytes, const Copy& copy) {
    std::byte* const header = reinterpret_cast<std::byte*>(s_.packet);  // not yet in use
    // The boards' shares are nearly equal; one board's is known.
    const std::uint32_t likely =
        sizes_.boards == 1 ? bytes : (bytes >> (sizes_.boards > 4 ? 3 : 2)) + bytes / 16 + 192;
    std::uint32_t ahead = likely < ahead_bytes ? (likely + 15) / 16 * 16 : ahead_bytes;
    if (ahead > sizes_.stride) ahead = sizes_.stride;
    copy(header, buffer, contract::frame_header_bytes);
    for (unsigned b = 0; b < sizes_.boards; ++b)
      copy(small_ + std::size_t{b} * sizes_.stride, segment(buffer, b), ahead);
    copy.wait();
    B::each([](unsigned) {});
    Bytes in;
    in.boards = sizes_.boards;
    in.at = small_;
    in.stride = sizes_.stride;
    bool fits = true, more = false;
    NANET_UNROLLED
    for (unsigned b = 0; b < max_boards; ++b) {
      if (b >= sizes_.boards) continue;
      const std::uint32_t said = full_word(header + 8 + 4 * b) & 0xFFFF;
      in.bytes[b] = said < sizes_.segment ? said : sizes_.segment;
      fits = fits && in.bytes[b] <= sizes_.stride;
      more = more || in.bytes[b] > ahead;
    }
    in.shared = fits;
    if (!fits) {
      in.at = large_;
      in.stride = sizes_.large_stride;
    }
    if (!fits || more) {
      const std::uint32_t from = fits ? ahead : 0;
      NANET_UNROLLED
      for (unsigned b = 0; b < max_boards; ++b)
        if (b < sizes_.boards && in.bytes[b] > from)
          copy(const_cast<std::byte*>(in.at) + std::size_t{b} * in.stride + from, segment(buffer, b) + from,
               (in.bytes[b] + 15) / 16 * 16 - from);
      copy.wait();
      B::each([](unsigned) {});
    }
    return in;
  }
  NANET_DEVICE const std::byte* segment(const std::byte* buffer, unsigned b) const {
    return buffer + contract::frame_header_bytes + std::size_t{b} * sizes_.segment;
  }

  // Rows and hits of a merged frame in the CLOP, copied as if the layout and the number of rows were known:
  // one PCIe wait. Returns false for segments.
  template <class Copy>
  NANET_DEVICE bool gather_rows(const std::byte* buffer, std::uint32_t bytes, const Copy& copy,
                                MergedRows& rows) {
    static_assert(merged_bytes <= shared_raw_bytes && contract::merged_rows <= shared_fragments);
    using Header = contract::FrameHeader;
    constexpr std::uint32_t usual_hits_at = sizeof(Header) + merged_hits_at;
    std::byte* const header = reinterpret_cast<std::byte*>(s_.packet);  // not yet in use
    // An event usually has more than 8 hits in the mean.
    const std::uint32_t data =
        bytes < sizeof(Header) ? 0 : bytes - static_cast<std::uint32_t>(sizeof(Header));
    const std::uint32_t early_rows = sixteens(data / 2, merged_hits_at),
                        early_hits = usual_hits_at + merged_bytes - merged_hits_at <= buffer_bytes_
                                         ? sixteens(data, merged_bytes - merged_hits_at)
                                         : 0;
    copy(header, buffer, sizeof(Header));
    copy(small_, buffer + sizeof(Header), early_rows);
    copy(small_ + merged_hits_at, buffer + usual_hits_at, early_hits);
    B::each([&](unsigned t) {
      prepare_rows(t);
      copy.wait();
    });
    const std::uint32_t layout = full_word(header + offsetof(Header, layout)) & 0xFF,
                        events = half_word(header + offsetof(Header, events)),
                        hits = half_word(header + offsetof(Header, hits)),
                        room = half_word(header + offsetof(Header, rows));
    if (layout != static_cast<std::uint32_t>(contract::Layout::merged)) {
      B::each([](unsigned) {});  // the segments' header overwrites this one
      return false;
    }
    const auto extent = contract::MergedExtent::of(events, room, hits, buffer_bytes_);
    const std::uint32_t row_bytes = sizeof(contract::MergedRow) * extent.rows,
                        hit_bytes =
                            sixteens(sizeof(std::uint16_t) * extent.hits, merged_bytes - merged_hits_at);
    const std::uint32_t had = extent.hits_at == usual_hits_at ? early_hits : 0;
    if (row_bytes > early_rows || hit_bytes > had) {
      if (row_bytes > early_rows)
        copy(small_ + early_rows, buffer + sizeof(Header) + early_rows, row_bytes - early_rows);
      if (hit_bytes > had)
        copy(small_ + merged_hits_at + had, buffer + extent.hits_at + had, hit_bytes - had);
      B::each([&](unsigned) { copy.wait(); });
    }
    rows = {small_, small_ + merged_hits_at, extent.rows, extent.hits};
    return true;
  }
  // Multiple of 16 for `bytes`, not above `most`.
  NANET_DEVICE static std::uint32_t sixteens(std::uint32_t bytes, std::size_t most) {
    return bytes < most ? (bytes + 15) / 16 * 16 : static_cast<std::uint32_t>(most);
  }
  // MergedFrame adds time offsets there.
  NANET_DEVICE void prepare_rows(unsigned t) const {
    for (std::uint32_t e = t; e < contract::merged_rows; e += B::threads()) small_tables().key[e] = 0;
  }

  // The same from the mailbox. Returns false if they are not there, or a unit does not arrive.
  template <class Lines>
  NANET_DEVICE bool take_rows(const Lines& lines, MergedRows& rows) {
    if (!lines.merged()) return false;
    const std::uint32_t events = lines.rows(), hits = lines.hits();
    const auto row_bytes = static_cast<std::uint32_t>(sizeof(contract::MergedRow)) * events;
    const std::uint32_t bytes = row_bytes + 2 * hits;
    if (events > contract::merged_rows || hits > contract::merged_hits || bytes > lines.most_merged_bytes())
      return false;
    B::each([&](unsigned t) {
      prepare_rows(t);
      for (std::uint32_t u = t; u * contract::unit_data_bytes < bytes; u += B::threads())
        if (!take_row_unit(lines, u, row_bytes, bytes)) s_.units_missing = 1;
    });
    if (s_.units_missing) return false;
    rows = {small_, small_ + merged_hits_at, events, hits};
    return true;
  }
  template <class Lines>
  NANET_DEVICE bool take_row_unit(const Lines& lines, std::uint32_t u, std::uint32_t row_bytes,
                                  std::uint32_t bytes) const {
    for (unsigned look = 0; look < contract::most_unit_reads; ++look) {
      const typename Lines::Unit unit = lines.merged_unit(u);
      if (unit.word[3] != lines.mark()) continue;
      NANET_UNROLLED
      for (std::uint32_t i = 0; i < contract::unit_data_bytes / 4; ++i) {
        const auto at = static_cast<std::uint32_t>(contract::unit_data_bytes * u + 4 * i);
        if (at >= bytes) break;
        std::byte* const to = small_ + (at < row_bytes ? at : merged_hits_at + (at - row_bytes));
        *reinterpret_cast<std::uint32_t*>(to) = unit.word[i];
      }
      return true;
    }
    return false;
  }

  // Progress in a buffer of gather mode packets, whose payloads are processed one by one. Times: in thread 0.
  struct Payloads {
    std::uint32_t next = 0, copied = 0, first = 0;  // first: of those copied to `at`
    Nanoseconds build = 0, reconstruct = 0, start = 0, began = 0;
  };
  // Next payload and its frame; false after the last.
  template <class Copy>
  NANET_DEVICE bool next(Payloads& p, const std::byte* buffer, const Copy& copy, Bytes& in,
                         std::uint32_t& frame) {
    if (p.next == packets_) return false;
    const bool fits = sizes_.large_stride <= shared_raw_bytes;
    std::byte* const at = fits ? small_ : large_;
    if (p.next == p.copied) {
      const std::uint32_t at_once = fits ? shared_raw_bytes / sizes_.large_stride : 1;
      const std::uint32_t n = packets_ - p.next < at_once ? packets_ - p.next : at_once;
      copy(at, buffer + std::size_t{p.next} * slot_bytes_, n * slot_bytes_);
      copy.wait();
      B::each([](unsigned) {});
      p.first = p.next;
      p.copied = p.next + n;
    }
    in.boards = 1;
    in.at = at + std::size_t{p.next - p.first} * slot_bytes_;
    in.shared = fits;
    in.stride = sizes_.large_stride;
    in.bytes[0] = full_word(in.at + 4) & 0xFFFF;
    if (in.bytes[0] < wire::mgp::header_bytes || in.bytes[0] > slot_bytes_)
      return false;  // the rest is empty
    frame = full_word(in.at + 12) & 0xFFFFFF;
    ++p.next;
    return true;
  }

  // Whether the sums of IndexedFrame fit in the small tables, from Tables::member on.
  NANET_HD static constexpr bool sums_fit(unsigned boards, unsigned lists) {
    return IndexedFrame<A, B>::sums_bytes(boards) <=
           round_up(sizeof(std::uint16_t) * shared_fragments * lists) +
               round_up(sizeof(PmId) * (shared_raw_bytes / 2));
  }
  NANET_DEVICE Tables large_tables() const {
    return lay_out(large_ + std::size_t{sizes_.large_stride} * sizes_.boards, sizes_.fragments, sizes_.lists,
                   sizes_.large_hits());
  }

  std::size_t buffer_bytes_;
  std::uint32_t packets_, slot_bytes_;
  std::byte* large_;
};

}  // namespace nanet::gpu
