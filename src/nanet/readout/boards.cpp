// SPDX-License-Identifier: Apache-2.0
// Readout boards of one thread: a batch is stamped, timed, then sent stream by stream from the pool's memory.
#include "nanet/readout/boards.hpp"

#include <algorithm>
#include <limits>

#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::readout {
namespace {

constexpr Nanoseconds patience_ns = 20'000;  // spin time before a short sleep, waiting for a slower thread

}  // namespace

Boards::Boards(const Run& run, std::size_t thread)
    : run_(run),
      thread_(thread),
      step_(run.options.threads),
      tx_path_(run.senders, senders_of_thread(), run.options.faults, run.times),
      boards_(run.senders.size()) {}

std::vector<std::size_t> Boards::senders_of_thread() const {
  std::vector<std::size_t> mine;
  each_sender([&](unsigned s, unsigned k) { mine.push_back(sender_of(s, k)); });
  return mine;
}

void Boards::publish(Nanoseconds now) {
  tally_.elapsed_ns.set(static_cast<std::uint64_t>(now - start_));
  for (std::size_t i = 0; i < fault_count; ++i) tally_.faults[i].set(tx_path_.count(static_cast<Fault>(i)));
}

// Number of the `frames` from `index` on that keep this thread within the leash, at least one; waits if
// necessary. The wait ends, since all threads send every frame that one thread has started.
unsigned Boards::within_reach(std::uint64_t index, unsigned frames) {
  if (step_ == 1) return frames;
  if (reach_ < index + frames) reach_ = run_.lockstep.reach();
  for (Nanoseconds began = 0; reach_ <= index; reach_ = run_.lockstep.reach()) {
    const Nanoseconds now = os::monotonic_now();
    if (began == 0) began = now;
    if (run_.options.spin || now - began < patience_ns) {
      os::spin();
    } else {
      const timespec nap{0, patience_ns};
      nanosleep(&nap, nullptr);
    }
  }
  return static_cast<unsigned>(std::min<std::uint64_t>(frames, reach_ - index));
}

void Boards::send(Nanoseconds start) {
  start_ = start;
  const Pacer pacer(run_.options.spin);
  const Schedule& schedule = run_.schedule;
  const double seconds = run_.options.duration_s;
  const Nanoseconds stop_at =
      seconds > 0 ? start + static_cast<Nanoseconds>(seconds * 1e9) : std::numeric_limits<Nanoseconds>::max();
  const auto due = [&](std::uint64_t index) { return start + schedule.due(index); };
  const auto over = [&](Nanoseconds now) {
    return run_.stop.load(std::memory_order_relaxed) || now >= stop_at;
  };

  std::uint64_t index = 0, limit = run_.limit;
  while (index < limit) {
    Nanoseconds now = pacer.wait(due(index), run_.stop);
    // A burst that has begun has at least one frame: all threads send what one thread has started.
    const bool none = run_.stop.load(std::memory_order_relaxed) || (index > 0 && now >= stop_at);
    if ((none ? run_.lockstep.end() : run_.lockstep.claim(index + 1)) <= index) break;
    send_sob(index);
    ++tally_.bursts;
    std::uint64_t end = std::min(limit, schedule.burst_end(index));
    while (index < end) {
      auto frames = static_cast<unsigned>(std::min<std::uint64_t>(run_.batch, end - index));
      const Nanoseconds planned = due(index + frames - 1);
      now = pacer.wait(planned, run_.stop);
      const bool last = over(now);
      if (last) {
        // Frames due by now are still sent, so that a run on schedule sends its planned number.
        const Nanoseconds until = std::min(now, stop_at - 1);
        while (frames > 0 && due(index + frames - 1) > until) --frames;
      } else if (run_.options.speed > 0 && now - planned > static_cast<Nanoseconds>(tally_.behind_max_ns)) {
        tally_.behind_max_ns.set(static_cast<std::uint64_t>(now - planned));
      }
      while (frames < run_.most && index + frames < end && due(index + frames) <= now) ++frames;
      std::uint64_t to = run_.lockstep.claim(index + frames);
      if (last) to = run_.lockstep.end();
      if (last || to < index + frames) {
        limit = std::min(limit, to);
        end = std::min(end, to);
        if (index >= end) break;
        frames = static_cast<unsigned>(std::min<std::uint64_t>(run_.most, end - index));
      }
      frames = within_reach(index, frames);
      if (run_.options.faults.any())
        send_frames_with_faults(index, frames);
      else
        send_frames(index, frames);
      index += frames;
      run_.lockstep.sent(thread_, index);
      publish(now);
    }
    pacer.wait(start + schedule.end(index - 1), run_.stop);
    send_eob(index - 1);
  }
  publish(os::monotonic_now());
}

std::byte* Boards::stamp_packet(unsigned stream, const FramePool::Slot& slot, std::uint64_t index) {
  std::byte* bytes = run_.pool.bytes(stream, slot);
  stamp(bytes, run_.schedule.frame(index), boards_[sender_of(stream, node_of(index))].sequence++,
        burst_number(index));
  if (run_.final) run_.final->keep(stream, {bytes, slot.size});
  return bytes;
}

void Boards::count_frame(std::uint64_t index) {
  const std::uint32_t pool_frame = run_.schedule.frame(index) % run_.pool.frames();
  const unsigned node = node_of(index);
  ++tally_.frames;
  ++tally_.dealt[node];
  tally_.events += run_.pool.events(pool_frame);
  each_stream([&](unsigned s) {
    const FramePool::BoardFrame& f = run_.pool.board_frame(s, pool_frame);
    wire::mgp::EobCounts& counts = boards_[sender_of(s, node)].counts;
    ++counts.frames;
    counts.packets += f.packets;
    counts.events += f.fragments;
    counts.hits += f.hits;
    tally_.fragments += f.fragments;
  });
}

void Boards::send_frames(std::uint64_t index, unsigned frames) {
  each_stream([&](unsigned s) {
    for (std::uint64_t i = index; i < index + frames; ++i) {
      const std::uint32_t f = run_.schedule.frame(i) % run_.pool.frames();
      for (const FramePool::Slot& slot : run_.pool.packets(s, f))
        run_.senders[sender_of(s, node_of(i))]->push(stamp_packet(s, slot, i), slot.size);
    }
  });
  const bool listed = run_.times && run_.options.late_us > 0;
  each_sender([&](unsigned s, unsigned k) {
    const auto each_frame = [&](const auto& f) {
      for (std::uint64_t i = index; i < index + frames; ++i)
        if (node_of(i) == k) f(i);
    };
    const bool first = s == thread_, last = s + step_ >= run_.pool.streams();
    if (run_.times && (first || last)) {
      const Nanoseconds now = os::monotonic_now();
      each_frame([&](std::uint64_t i) {
        if (first) run_.times->first(i, now);
        if (last) run_.times->last(i, now);
      });
    }
    run_.senders[sender_of(s, k)]->flush();
    if (!listed) return;
    const Nanoseconds now = os::monotonic_now();
    each_frame([&](std::uint64_t i) { run_.times->sent(i, s, now); });
  });
  for (std::uint64_t i = index; i < index + frames; ++i) count_frame(i);
}

void Boards::send_frames_with_faults(std::uint64_t index, unsigned frames) {
  for (std::uint64_t i = index; i < index + frames; ++i) {
    const std::uint32_t f = run_.schedule.frame(i) % run_.pool.frames();
    tx_path_.release(i);
    each_stream([&](unsigned s) {
      for (const FramePool::Slot& slot : run_.pool.packets(s, f))
        tx_path_.take({i, stamp_packet(s, slot, i), slot.size,
                       static_cast<std::uint8_t>(sender_of(s, node_of(i))), false});
    });
    count_frame(i);
  }
  tx_path_.deliver();
}

void Boards::send_marker(unsigned stream, unsigned node, std::uint64_t index, std::size_t size) {
  const unsigned sender = sender_of(stream, node);
  ++boards_[sender].sequence;
  ++boards_[sender].counts.packets;
  tx_path_.take({index, boards_[sender].marker, static_cast<std::uint32_t>(size),
                 static_cast<std::uint8_t>(sender), true});
}

void Boards::send_sob(std::uint64_t index) {
  each_sender([&](unsigned s, unsigned k) {
    Board& board = boards_[sender_of(s, k)];
    board.sequence = 0;
    board.counts = {};
    // A frame leaves at its end by the boards' clock, hence period 0 is a frame before the SOB packet.
    if (run_.final)
      run_.final->begin(
          s, burst_number(index),
          start_ + run_.schedule.due(index) - static_cast<Nanoseconds>(run_.schedule.frame_wall_ns()));
    send_marker(
        s, k, index,
        make_sob(board.marker, run_.pool.board(s), burst_number(index), encoding_of(run_.options.generator)));
  });
  tx_path_.deliver();
}

void Boards::send_eob(std::uint64_t index) {
  tx_path_.flush();
  each_sender([&](unsigned s, unsigned k) {
    Board& board = boards_[sender_of(s, k)];
    wire::mgp::EobCounts counts = board.counts;
    ++counts.packets;  // the EOB itself
    send_marker(s, k, index,
                make_eob(board.marker, run_.pool.board(s), burst_number(index), run_.schedule.frame(index),
                         board.sequence, counts, encoding_of(run_.options.generator)));
  });
  tx_path_.flush();  // the EOB leaves with its burst
  tx_path_.deliver();
}

}  // namespace nanet::readout
