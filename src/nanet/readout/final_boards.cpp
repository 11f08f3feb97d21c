// SPDX-License-Identifier: Apache-2.0
// Readout boards in final mode. Kernel time stamps give the arrival of each trigger, so the decision between
// in time and late does not depend on when this thread runs.
#include "nanet/readout/final_boards.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <string>

#include "nanet/os/socket.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::readout {
namespace {

constexpr unsigned batch_datagrams = 64;
constexpr std::size_t slot_bytes = 2048;  // above the maximum of a trigger datagram
constexpr Nanoseconds nap_ns = 500'000;
constexpr Nanoseconds read_tai_every = 100'000'000;
// Delay of this thread that the stores bridge, up to 26 ms of the experiment: 25 MB of places a board.
constexpr Nanoseconds behind_ns = 250'000'000;
constexpr double behind_periods = 1 << 20;
constexpr std::size_t data_bytes =
    wire::mep::max_bytes - wire::mep::header_bytes - wire::mep::event_header_bytes;

Timestamp keep_periods(Timestamp latency, double period_ns) {
  const double behind = std::clamp(static_cast<double>(behind_ns) / period_ns, 1024.0, behind_periods);
  return static_cast<Timestamp>(std::min(static_cast<double>(latency) + behind, 67108864.0));
}

std::size_t memory_for(Timestamp keep, std::size_t frame_bytes) {
  return 2 * (std::size_t{keep} / periods_per_frame + 1) * frame_bytes + (1 << 20);
}

// Lock for a copy of one packet: a sleep would cost the sending thread a frame.
class ShortLock {
 public:
  void lock() noexcept {
    for (unsigned tries = 1; taken_.exchange(true, std::memory_order_acquire); ++tries)
      if (tries % 256 == 0) sched_yield();  // the other thread was stopped
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace

struct FinalBoards::Board {
  Board(unsigned number, const FinalOptions& options, double period_ns, Timestamp keep, std::size_t memory)
      : number(static_cast<std::uint8_t>(number)),
        socket(os::open_udp_receiver(options.listen[number], {.buffer_bytes = 8 << 20})),
        store(keep, memory),
        source(time, period_ns),
        table(options.latency),
        writer(packet, rich_source, static_cast<std::uint8_t>(number)) {}

  const std::uint8_t number;
  os::Fd socket;
  mutable ShortLock store_lock;  // guards the store; taken under the mutex, or alone
  ttc::FragmentStore store;
  mutable std::mutex mutex;  // guards all below
  ttc::TimeBase time;
  ttc::VirtualSource source;
  ttc::LatencyTable table;
  std::array<std::byte, wire::mep::max_bytes> packet{};
  wire::mep::Writer writer;
  std::array<wire::trigger::Trigger, wire::trigger::max_triggers> triggers{};
  std::array<std::byte, data_bytes> data{};
  Timestamp now = 0;
  bool begun = false;
  std::uint32_t sequence = 0, event = 0;
  FinalCounts counts;
};

FinalBoards::Thread::Thread() : batch(batch_datagrams, slot_bytes) {}

FinalBoards::FinalBoards(const FinalOptions& options, unsigned boards, double period_ns,
                         std::size_t frame_bytes, const FaultOptions& faults, unsigned threads)
    : options_(options),
      period_ns_(period_ns),
      farm_(os::open_udp_sender(options.farm)),
      faulty_(faults.any()),
      faults_(faults, boards),
      start_(os::monotonic_now()) {
  if (options.listen.size() != boards)
    throw std::invalid_argument("final.boards: " + std::to_string(options.listen.size()) +
                                " addresses are given; give one for each of " + std::to_string(boards) +
                                " boards");
  if (options.sync.port != 0) sync_ = os::open_udp_sender(options.sync);
  const Timestamp keep = keep_periods(options.latency, period_ns);
  for (unsigned b = 0; b < boards; ++b)
    boards_.push_back(std::make_unique<Board>(b, options, period_ns, keep, memory_for(keep, frame_bytes)));
  for (unsigned t = 0; t < (faulty_ ? 1 : std::max(threads, 1U)); ++t)
    threads_.push_back(std::make_unique<Thread>());
}

FinalBoards::~FinalBoards() = default;

void FinalBoards::begin(unsigned board, std::uint8_t burst, Nanoseconds sob) noexcept {
  Board& b = *boards_[board];
  const std::lock_guard lock(b.mutex);
  send(b);  // answers of the burst before
  b.source.start_of_burst(burst, sob);
  b.table.begin(burst);
  {
    const std::lock_guard store(b.store_lock);
    b.store.begin();
  }
  b.now = 0;
}

void FinalBoards::keep(unsigned board, std::span<const std::byte> packet) noexcept {
  Board& b = *boards_[board];
  const std::lock_guard lock(b.store_lock);
  b.store.put(packet);
}

// Frames of the experiment since the start.
std::uint64_t FinalBoards::frame_at(Nanoseconds now) const noexcept {
  return static_cast<std::uint64_t>(static_cast<double>(now - start_) / (period_ns_ * periods_per_frame));
}

void FinalBoards::receive(Thread& thread, Board& board, Nanoseconds now) noexcept {
  do {
    const unsigned n = thread.batch.read(board.socket.get());
    for (unsigned i = 0; i < n; ++i) {
      const os::ReceiveInfo info = thread.batch.info(i);
      const Nanoseconds arrival = info.realtime_ns != 0 ? thread.clock.arrival(info.realtime_ns, now) : now;
      const std::span<const std::byte> datagram = thread.batch.bytes(i);
      if (faulty_) {
        const auto bytes = static_cast<std::uint32_t>(datagram.size());
        faults_.take({frame_at(now), datagram.data(), bytes, board.number, false}, out_);
        deliver(thread, now);
      } else {
        accept(thread, board, datagram, arrival);
      }
    }
  } while (thread.batch.full());
}

void FinalBoards::deliver(Thread& thread, Nanoseconds now) noexcept {
  for (const OutPacket& packet : out_)
    accept(thread, *boards_[packet.stream], {packet.data, packet.size}, now);
  out_.clear();
  faults_.recycle();
}

void FinalBoards::accept(Thread& thread, Board& board, std::span<const std::byte> datagram,
                         Nanoseconds arrival) noexcept {
  const std::lock_guard lock(board.mutex);
  FinalCounts& counts = board.counts;
  ++counts.datagrams;
  wire::trigger::Header header;
  const auto refusal = wire::trigger::decode(datagram, header, board.triggers.data());
  if (refusal != wire::trigger::Refusal::none) {
    ++counts.refused[static_cast<std::size_t>(refusal)];
    return;
  }
  const auto step = static_cast<std::int32_t>(header.sequence - board.sequence);
  const bool newest = !board.begun || step > 0;
  if (newest) {
    if (board.begun) counts.lost += static_cast<std::uint32_t>(step - 1);
    board.sequence = header.sequence;
    board.begun = true;
  } else {
    ++counts.out_of_order;
  }
  // Triggers due before this one arrived are answered first: the board acts in the order of its clock.
  advance(board, board.time.at(arrival).value_or(0));
  Timestamp now = board.now;
  // A time stamp may be early by an error of the clock offset: then the present time counts.
  if (header.count > 0 && board.triggers[header.count - 1U].timestamp > now)
    now = std::max(now, board.time.at(os::monotonic_now()).value_or(0));
  for (unsigned i = 0; i < header.count; ++i) {
    const wire::trigger::Trigger& trigger = board.triggers[i];
    const std::uint64_t late = board.table.counts().late, timed = board.table.counts().untimed;
    const std::uint32_t number = wire::trigger::event_number(board.event, trigger.event);
    board.table.accept(header.burst, trigger, number, now);
    if (newest) board.event = number;
    if (board.table.counts().untimed != timed || trigger.timestamp > now) continue;
    const std::int64_t slack =
        std::int64_t{trigger.timestamp} + std::int64_t{options_.latency} - std::int64_t{now};
    const auto ns = static_cast<Nanoseconds>(std::llround(static_cast<double>(slack) * nanet::period_ns));
    if (board.table.counts().late != late) {
      thread.timing.late_by.add(-ns);
    } else {
      thread.timing.slack.add(ns);
      const Nanoseconds least = thread.slack_min.load(std::memory_order_relaxed);
      if (least < 0 || ns < least) thread.slack_min.store(ns, std::memory_order_relaxed);
    }
  }
}

// Under the board's lock. The clock never goes back, though a time stamp may lie before the last round.
void FinalBoards::advance(Board& board, Timestamp now) noexcept {
  board.now = std::max(board.now, now);
  board.table.advance(board.now, [&](const ttc::LatencyTable::Due& due) {
    const Timestamp t = due.trigger.timestamp;
    std::size_t used = 0;
    {
      const std::lock_guard lock(board.store_lock);
      used = board.store.get(t - std::min(t, final_window), t + final_window, board.data);
    }
    board.counts.empty += used == 0;
    const wire::mep::Event event{due.number, t, false, std::span(board.data).first(used)};
    if (board.writer.add(event)) return;
    send(board);
    board.writer.add(event);
  });
}

void FinalBoards::send(Board& board) noexcept {
  const auto packet = board.writer.finish();
  if (packet.empty()) return;
  if (::send(farm_.get(), packet.data(), packet.size(), MSG_DONTWAIT) < 0) {
    ++board.counts.send_errors;
    return;
  }
  ++board.counts.packets;
  board.counts.bytes += packet.size();
}

// The clock of board 0, which is that of all boards, at the begin of its present period.
void FinalBoards::send_sync(Nanoseconds now) noexcept {
  Board& board = *boards_[0];
  ttc::Sync sync;
  {
    const std::lock_guard lock(board.mutex);
    const auto period = board.time.at(now);
    if (!period) return;
    sync = {board.time.burst(), true, *period, board.time.local(*period), sync_sequence_++};
  }
  if (tai_read_ == 0 || now - tai_read_ > read_tai_every) {
    tai_offset_ = ttc::tai_offset();
    tai_read_ = now;
  }
  sync.sent_ns += tai_offset_;
  std::array<std::byte, ttc::sync_bytes> bytes;
  ttc::encode(bytes, sync);
  if (::send(sync_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) ++syncs_;
}

void FinalBoards::round(Nanoseconds now, unsigned number) noexcept {
  Thread& thread = *threads_[number];
  thread.clock.refresh_if_older(now);
  if (number == 0 && sync_.get() >= 0) send_sync(now);
  if (faulty_) {
    faults_.release(frame_at(now), out_);
    deliver(thread, now);
  }
  for (std::size_t b = number; b < boards_.size(); b += threads_.size()) {
    Board& board = *boards_[b];
    receive(thread, board, now);
    const std::lock_guard lock(board.mutex);
    if (const auto period = board.time.at(now)) advance(board, *period);
    send(board);
  }
}

void FinalBoards::run(unsigned thread, const std::function<bool()>& done) noexcept {
  prctl(PR_SET_TIMERSLACK, 1UL);
  const auto latency = static_cast<Nanoseconds>(options_.latency * period_ns_) + 20'000'000;
  for (Nanoseconds end = std::numeric_limits<Nanoseconds>::max();;) {
    const Nanoseconds now = os::monotonic_now();
    round(now, thread);
    if (now >= end) break;
    if (end == std::numeric_limits<Nanoseconds>::max() && done()) end = now + latency;
    const timespec nap{0, nap_ns};
    nanosleep(&nap, nullptr);
  }
  if (!faulty_) return;
  faults_.flush(out_);  // datagrams that are still delayed: late
  deliver(*threads_[thread], os::monotonic_now());
}

void FinalBoards::timing(FinalTiming& into) const noexcept {
  for (const auto& thread : threads_) {
    into.slack.merge(thread->timing.slack);
    into.late_by.merge(thread->timing.late_by);
  }
}

Nanoseconds FinalBoards::slack_min() const noexcept {
  Nanoseconds least = -1;
  for (const auto& thread : threads_) {
    const Nanoseconds found = thread->slack_min.load(std::memory_order_relaxed);
    if (found >= 0 && (least < 0 || found < least)) least = found;
  }
  return least;
}

FinalCounts FinalBoards::counts(unsigned board) const noexcept {
  const Board& b = *boards_[board];
  const std::lock_guard lock(b.mutex);
  FinalCounts counts = b.counts;
  counts.triggers = b.table.counts();
  const std::lock_guard store(b.store_lock);
  counts.overwritten = b.store.counts().overwritten + b.store.counts().no_room;
  return counts;
}

std::vector<wire::Endpoint> FinalBoards::listening() const {
  std::vector<wire::Endpoint> out;
  for (const auto& board : boards_) out.push_back(os::local_endpoint(board->socket.get()));
  return out;
}

}  // namespace nanet::readout
