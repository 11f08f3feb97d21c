// SPDX-License-Identifier: Apache-2.0
// See readout.hpp. A batch is stamped, then timed, then sent stream by stream; the pool's bytes are sent from
// where they lie.
#include "nanet/readout/readout.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "nanet/readout/capture.hpp"

namespace nanet::readout {
namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();
// Frames per batch at most, even when behind: a train of full packets holds 44.
constexpr unsigned max_batch = 44;
static_assert(max_batch * wire::mgp::max_packets_per_frame <= PacketSender::max_packets);

Nanoseconds to_ns(double seconds) {
  return static_cast<Nanoseconds>(seconds * 1e9);
}

void check_options(const ReadoutOptions& o) {
  const auto refuse = [](const std::string& what) { throw std::invalid_argument(what); };
  if (o.destinations.empty()) refuse("to: no destination is given; give HOST:PORT[,HOST:PORT...]");
  if (!(o.speed >= 0))
    refuse("speed = " + std::to_string(o.speed) + ": give a number above 0, or 0 for no pacing");
  if (!(o.duration_s >= 0))
    refuse("duration = " + std::to_string(o.duration_s) + ": give seconds, 0 for no limit");
  if (!(o.burst_gap_s >= 0))
    refuse("burst_gap = " + std::to_string(o.burst_gap_s) + ": give seconds, 0 or more");
  if (!(o.batch_us >= 0))
    refuse("batch_us = " + std::to_string(o.batch_us) + ": give microseconds, 0 or more");
  if (o.burst_frames < 1 || o.burst_frames > 1u << 24)
    refuse("burst_frames = " + std::to_string(o.burst_frames) +
           ": give 1 to 16777216 (a frame number has 24 bits)");
  if (o.pool_frames < 1 || o.pool_frames > 1u << 20)
    refuse("pool_frames = " + std::to_string(o.pool_frames) + ": give 1 to 1048576");
  if (o.pcap.empty()) check(o.generator, o.pack, o.burst_frames);
  if (!o.times.empty() && o.pcap.empty() && (o.duration_s <= 0 || o.speed == 0) && o.events == 0 &&
      o.bursts == 0)
    refuse("times = '" + o.times +
           "' has one entry per frame: say how many with events, bursts, or duration at a speed");
}

}  // namespace

Readout::Readout(const ReadoutOptions& options)
    : options_((check_options(options), options)),
      schedule_(options.speed, options.burst_frames, options.burst_gap_s * 1e9),
      faults_(options.faults, options.pcap.empty() ? (options.pack.merged ? 1u : max_boards)
                                                   : static_cast<unsigned>(options.destinations.size())) {
  const auto& destinations = options_.destinations;
  // Sockets first: what is wrong with them shows before the pool is made.
  const std::size_t streams = !options_.pcap.empty() ? destinations.size()
                              : options_.pack.merged ? 1
                                                     : (pm_count + pms_per_board - 1) / pms_per_board;
  for (std::size_t s = 0; s < streams; ++s)
    senders_.push_back(
        std::make_unique<PacketSender>(destinations[s % destinations.size()], options_.segmentation));
  boards_.resize(streams);

  if (!options_.pcap.empty()) {
    recording_ = std::make_unique<Recording>(options_.pcap, options_.pcap_port);
    limit_ = recording_->frames();
    counters_.skipped_records.set(recording_->skipped());
  } else {
    pool_ = std::make_unique<FramePool>(options_.generator, options_.pack, options_.pool_frames,
                                        options_.keep_truth);
    limit_ = no_limit;
    if (options_.bursts > 0) limit_ = options_.bursts * options_.burst_frames;
    if (options_.duration_s > 0)
      limit_ = std::min(limit_, schedule_.frames_within(to_ns(options_.duration_s)));
    if (options_.events > 0) limit_ = std::min(limit_, frames_for_events());
  }
  if (!options_.times.empty()) times_ = std::make_unique<TimesWriter>(options_.times, limit_);
}

Readout::~Readout() {
  request_stop();
  if (thread_.joinable()) thread_.join();
}

void Readout::start() {
  if (thread_.joinable()) throw std::logic_error("a readout runs once");
  running_.store(true, std::memory_order_release);
  thread_ = std::thread([this] {
    try {
      run();
    } catch (...) {
      failure_ = std::current_exception();
    }
    running_.store(false, std::memory_order_release);
  });
}

void Readout::join() {
  if (thread_.joinable()) thread_.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

std::uint64_t Readout::packets() const noexcept {
  std::uint64_t n = 0;
  for (const auto& sender : senders_) n += sender->packets();
  return n;
}
std::uint64_t Readout::bytes() const noexcept {
  std::uint64_t n = 0;
  for (const auto& sender : senders_) n += sender->bytes();
  return n;
}
std::uint64_t Readout::messages() const noexcept {
  std::uint64_t n = 0;
  for (const auto& sender : senders_) n += sender->messages();
  return n;
}
std::uint64_t Readout::errors(SendError error) const noexcept {
  std::uint64_t n = 0;
  for (const auto& sender : senders_) n += sender->errors(error);
  return n;
}
bool Readout::segmenting() const noexcept {
  return std::all_of(senders_.begin(), senders_.end(),
                     [](const auto& sender) { return sender->segmenting(); });
}

void Readout::run() {
  counters_.started_ns.set(static_cast<std::uint64_t>(card::monotonic_now()));
  if (recording_)
    run_recording();
  else
    run_pool();
  publish(card::monotonic_now());
}

void Readout::publish(Nanoseconds now) {
  counters_.elapsed_ns.set(static_cast<std::uint64_t>(now) - counters_.started_ns);
  for (std::size_t i = 0; i < fault_count; ++i) counters_.faults[i].set(faults_.count(static_cast<Fault>(i)));
}

std::uint64_t Readout::frames_for_events() const {
  std::uint64_t index = 0, events = 0;
  std::uint64_t per_pass = 0;
  for (std::uint32_t f = 0; f < pool_->frames(); ++f) per_pass += pool_->events(f);
  if (per_pass == 0) throw std::invalid_argument("events: the pool holds none; raise rate or pool_frames");
  while (events < options_.events) events += pool_->events(schedule_.frame(index++) % pool_->frames());
  return index;
}

void Readout::run_pool() {
  const Pacer pacer(options_.spin);
  const unsigned ceiling = std::min<unsigned>(max_batch, pool_->frames());  // a pool frame is once in a batch
  const unsigned batch = schedule_.batch(to_ns(options_.batch_us * 1e-6), ceiling);
  const Nanoseconds start = card::monotonic_now();
  const Nanoseconds stop_at =
      options_.duration_s > 0 ? start + to_ns(options_.duration_s) : std::numeric_limits<Nanoseconds>::max();

  std::uint64_t index = 0;
  while (index < limit_ && !stop_.load(std::memory_order_relaxed)) {
    Nanoseconds now = pacer.wait(start + schedule_.due(index), stop_);
    if (stop_.load(std::memory_order_relaxed) || (index > 0 && now >= stop_at)) break;
    send_sob(index);
    ++counters_.bursts;
    const std::uint64_t end = std::min(limit_, schedule_.burst_end(index));
    while (index < end) {
      unsigned frames = static_cast<unsigned>(std::min<std::uint64_t>(batch, end - index));
      const Nanoseconds due = start + schedule_.due(index + frames - 1);
      now = pacer.wait(due, stop_);
      if (stop_.load(std::memory_order_relaxed) || now >= stop_at) {
        // What is due by now still goes, so that a run that was not behind sends what was planned.
        const Nanoseconds until = std::min(now, stop_at - 1);
        while (frames > 0 && start + schedule_.due(index + frames - 1) > until) --frames;
        if (frames == 0) break;
      } else if (options_.speed > 0 && now - due > static_cast<Nanoseconds>(counters_.behind_max_ns)) {
        counters_.behind_max_ns.set(static_cast<std::uint64_t>(now - due));
      }
      while (frames < ceiling && index + frames < end && start + schedule_.due(index + frames) <= now)
        ++frames;
      if (options_.faults.any())
        send_frames_with_faults(index, frames);
      else
        send_frames(index, frames, now);
      index += frames;
      publish(now);
      if (stop_.load(std::memory_order_relaxed) || now >= stop_at) break;
    }
    if (schedule_.first_of_burst(index) && index < end)
      break;  // stopped before the burst's first frame: no EOB is owed
    pacer.wait(start + schedule_.end(index - 1), stop_);
    send_eob(index - 1);
    if (now >= stop_at) break;
  }
}

std::byte* Readout::stamp_packet(unsigned stream, const FramePool::Slot& slot, std::uint64_t index) {
  std::byte* bytes = pool_->bytes(stream, slot);
  stamp(bytes, schedule_.frame(index), boards_[stream].sequence++, burst_number(index));
  return bytes;
}

void Readout::count_frame(std::uint32_t pool_frame) {
  ++counters_.frames;
  counters_.events += pool_->events(pool_frame);
  for (unsigned s = 0; s < pool_->streams(); ++s) {
    const FramePool::BoardFrame& f = pool_->board_frame(s, pool_frame);
    wire::mgp::EobCounts& counts = boards_[s].counts;
    ++counts.frames;
    counts.packets += f.packets;
    counts.events += f.fragments;
    counts.hits += f.hits;
    counters_.fragments += f.fragments;
  }
}

void Readout::send_frames(std::uint64_t index, unsigned frames, Nanoseconds now) {
  for (unsigned s = 0; s < pool_->streams(); ++s) {
    for (std::uint64_t i = index; i < index + frames; ++i) {
      const std::uint32_t f = schedule_.frame(i) % pool_->frames();
      for (const FramePool::Slot& slot : pool_->packets(s, f))
        senders_[s]->push(stamp_packet(s, slot, i), slot.size);
    }
  }
  for (unsigned s = 0; s < pool_->streams(); ++s) {
    if (times_ && (s == 0 || s + 1 == pool_->streams())) {
      now = card::monotonic_now();
      for (std::uint64_t i = index; i < index + frames; ++i) {
        if (s == 0) times_->first(i, now);
        if (s + 1 == pool_->streams()) times_->last(i, now);
      }
    }
    senders_[s]->flush();
  }
  for (std::uint64_t i = index; i < index + frames; ++i) count_frame(schedule_.frame(i) % pool_->frames());
}

void Readout::send_frames_with_faults(std::uint64_t index, unsigned frames) {
  for (std::uint64_t i = index; i < index + frames; ++i) {
    const std::uint32_t f = schedule_.frame(i) % pool_->frames();
    faults_.release(i, out_);
    for (unsigned s = 0; s < pool_->streams(); ++s)
      for (const FramePool::Slot& slot : pool_->packets(s, f))
        faults_.take({i, stamp_packet(s, slot, i), slot.size, static_cast<std::uint8_t>(s), false}, out_);
    count_frame(f);
  }
  deliver();
}

void Readout::deliver() {
  for (std::size_t s = 0; s < senders_.size(); ++s) {
    const Nanoseconds now = card::monotonic_now();
    for (const OutPacket& packet : out_) {
      if (packet.stream != s) continue;
      if (times_ && !packet.marker) times_->packet(packet.frame, now);
      senders_[s]->push(packet.data, packet.size);
    }
    senders_[s]->flush();
  }
  out_.clear();
  faults_.recycle();
}

void Readout::send_marker(unsigned stream, std::uint64_t index, std::size_t size) {
  ++boards_[stream].sequence;
  ++boards_[stream].counts.packets;
  faults_.take({index, boards_[stream].marker, static_cast<std::uint32_t>(size),
                static_cast<std::uint8_t>(stream), true},
               out_);
}

void Readout::send_sob(std::uint64_t index) {
  for (unsigned s = 0; s < pool_->streams(); ++s) {
    boards_[s].sequence = 0;
    boards_[s].counts = {};
    send_marker(s, index, make_sob(boards_[s].marker, pool_->board(s), burst_number(index)));
  }
  deliver();
}

void Readout::send_eob(std::uint64_t index) {
  faults_.flush(out_);
  for (unsigned s = 0; s < pool_->streams(); ++s) {
    wire::mgp::EobCounts counts = boards_[s].counts;
    ++counts.packets;  // the EOB itself
    send_marker(s, index,
                make_eob(boards_[s].marker, pool_->board(s), burst_number(index), schedule_.frame(index),
                         boards_[s].sequence, counts));
  }
  faults_.flush(out_);  // an EOB is not held back beyond its burst
  deliver();
}

void Readout::run_recording() {
  const Pacer pacer(options_.spin);
  const Nanoseconds start = card::monotonic_now();
  const Nanoseconds stop_at =
      options_.duration_s > 0 ? start + to_ns(options_.duration_s) : std::numeric_limits<Nanoseconds>::max();
  const Nanoseconds batch_ns = to_ns(options_.batch_us * 1e-6);
  const auto& packets = recording_->packets();
  const auto due = [&](const RecordedPacket& p) {
    return options_.speed == 0
               ? start
               : start + static_cast<Nanoseconds>(static_cast<double>(p.time_ns) / options_.speed);
  };
  constexpr std::size_t most = 256;  // packets per batch
  std::uint64_t frames_seen = 0, events = 0;
  counters_.bursts.set(recording_->bursts());

  for (std::size_t i = 0; i < packets.size() && !stop_.load(std::memory_order_relaxed);) {
    // Packets due within a batch's time of the first leave together, when the last of them is due.
    std::size_t end = i + 1;
    while (end < packets.size() && end - i < most && due(packets[end]) - due(packets[i]) <= batch_ns) ++end;
    const Nanoseconds planned = due(packets[end - 1]);
    const Nanoseconds now = pacer.wait(planned, stop_);
    if (now < planned || now >= stop_at) break;
    if (options_.speed > 0 && now - planned > static_cast<Nanoseconds>(counters_.behind_max_ns))
      counters_.behind_max_ns.set(static_cast<std::uint64_t>(now - planned));
    for (; i < end; ++i) {
      const RecordedPacket& p = packets[i];
      const auto stream = static_cast<std::uint8_t>(p.board == merged_board ? 0 : p.board % senders_.size());
      if (!p.marker) {
        faults_.release(p.frame, out_);
        counters_.fragments += p.fragments;
        for (; frames_seen <= p.frame; ++frames_seen) events += recording_->events()[frames_seen];
      }
      faults_.take({p.frame, p.data, p.size, stream, p.marker}, out_);
    }
    deliver();
    counters_.frames.set(frames_seen);
    counters_.events.set(events);
    publish(now);
    if (options_.events > 0 && events >= options_.events) break;
  }
  faults_.flush(out_);
  deliver();
}

}  // namespace nanet::readout
