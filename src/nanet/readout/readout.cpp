// SPDX-License-Identifier: Apache-2.0
// Emulated readout boards: set-up, threads, and replay of a capture.
#include "nanet/readout/readout.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "nanet/card/card.hpp"
#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/readout/capture.hpp"
#include "nanet/readout/pacer.hpp"
#include "nanet/readout/tx_path.hpp"

namespace nanet::readout {
namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();
static_assert(max_batch * wire::mgp::max_packets_per_frame <= PacketSender::max_packets);
// Maximum lead over the slowest thread, in frames, in addition to a batch. Shorter than a trigger's timeout
// at the experiment's frame rate.
constexpr unsigned leash = 15;

Nanoseconds to_ns(double seconds) {
  return static_cast<Nanoseconds>(seconds * 1e9);
}

void check_options(const ReadoutOptions& o) {
  const auto refuse = [](const std::string& what) { throw std::invalid_argument(what); };
  if (o.nodes.empty() ||
      std::any_of(o.nodes.begin(), o.nodes.end(), [](const auto& node) { return node.empty(); }))
    refuse("to: no destination is given; give HOST:PORT[,HOST:PORT...], once per node");
  if (o.nodes.size() > wire::max_nodes)
    refuse("to: " + std::to_string(o.nodes.size()) + " nodes are given; give at most " +
           std::to_string(wire::max_nodes));
  if (o.nodes.size() > 1 && !o.pcap.empty())
    refuse("pcap = '" + o.pcap +
           "': a capture keeps its sequence numbers, so it goes to one node; give to once");
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
  const std::string late = "late_us = " + std::to_string(o.late_us);
  if (!(o.late_us >= 0)) refuse(late + ": give microseconds, 0 for no list");
  if (o.late_us > 0 && o.times.empty()) refuse(late + " needs the send times: give times");
  if (o.late_us > 0 && (!o.pcap.empty() || o.faults.any()))
    refuse(late + ": late packets of a capture or a fault are not listed; leave one of them out");
  if (o.batch_frames < 1 || o.batch_frames > max_batch)
    refuse("batch_frames = " + std::to_string(o.batch_frames) + ": give 1 to " + std::to_string(max_batch));
  const std::string threads = "threads = " + std::to_string(o.threads) + ": ";
  if (!o.pcap.empty()) {
    if (o.threads != 1) refuse(threads + "a capture leaves in its own order, by one thread; give 1");
  } else if (const std::size_t most = streams_of(o.generator, o.pack); o.threads < 1 || o.threads > most) {
    refuse(threads + (most > 1 ? "each thread has separate boards; give 1 to " + std::to_string(most)
                               : "a merged stream is sent by one thread; give 1"));
  }
  if (!o.final.listen.empty()) {
    if (!o.pcap.empty()) refuse("pcap = '" + o.pcap + "' in final mode: boards keep generated events only");
    if (o.nodes.size() > 1) refuse("to: final mode has one trigger node; give to once");
    if (o.speed == 0) refuse("speed = 0 in final mode: the boards' clock needs a speed above 0");
    if (o.pack.merged || o.pack.fixed)
      refuse("boards, slots: final mode sends packed fragments of every board; leave both out");
  }
  for (const int cpu : o.pin)
    if (cpu < 0) refuse("pin = " + std::to_string(cpu) + ": give the number of a CPU, 0 or more");
}

}  // namespace

Readout::Readout(const ReadoutOptions& options)
    : options_((check_options(options), options)),
      schedule_(options.speed, options.burst_frames, options.burst_gap_s * 1e9) {
  // Sockets first: their errors are reported before the pool is generated.
  const std::size_t streams =
      options_.pcap.empty() ? streams_of(options_.generator, options_.pack) : options_.nodes.front().size();
  for (std::size_t s = 0; s < streams; ++s)
    for (const auto& node : options_.nodes)
      senders_.push_back(std::make_unique<PacketSender>(node[s % node.size()], options_.segmentation));

  if (!options_.pcap.empty()) {
    recording_ = std::make_unique<Recording>(options_.pcap, options_.pcap_port);
    limit_ = recording_->frames();
  } else {
    pool_ = std::make_unique<FramePool>(options_.generator, options_.pack, options_.pool_frames,
                                        options_.keep_truth);
    limit_ = no_limit;
    if (options_.bursts > 0) limit_ = options_.bursts * options_.burst_frames;
    if (options_.duration_s > 0)
      limit_ = std::min(limit_, schedule_.frames_within(to_ns(options_.duration_s)));
    if (options_.events > 0) limit_ = std::min(limit_, frames_for_events());
  }
  if (!options_.times.empty())
    times_ = std::make_unique<TimesWriter>(options_.times, limit_, to_ns(options_.late_us * 1e-6));
  if (recording_) return;
  // A batch contains each pool frame at most once.
  const unsigned most = std::min<unsigned>(options_.batch_frames, pool_->frames());
  const unsigned batch = schedule_.batch(to_ns(options_.batch_us * 1e-6), most);
  lockstep_ = std::make_unique<Lockstep>(options_.threads, batch + leash);
  const auto nodes = static_cast<unsigned>(options_.nodes.size());
  if (!options_.final.listen.empty()) {
    std::size_t bytes = 0;
    for (std::uint32_t f = 0; f < pool_->frames(); ++f)
      for (const FramePool::Slot& slot : pool_->packets(0, f)) bytes += slot.size;
    final_ = std::make_unique<FinalBoards>(options_.final, pool_->streams(), period_ns / options_.speed,
                                           bytes / pool_->frames() + 1, options_.faults,
                                           static_cast<unsigned>(options_.threads));
  }
  const Run run{options_,     schedule_,  *pool_, senders_, nodes, times_.get(),
                final_.get(), *lockstep_, stop_,  limit_,   batch, most};
  for (std::size_t t = 0; t < options_.threads; ++t) boards_.push_back(std::make_unique<Boards>(run, t));
}

Readout::~Readout() {
  request_stop();
}

void Readout::start() {
  if (!threads_.empty()) throw std::logic_error("a readout runs once");
  at_work_.store(options_.threads, std::memory_order_release);
  if (final_) start_final();
  for (std::size_t t = 0; t < options_.threads; ++t) {
    try {
      threads_.emplace_back([this, t] { run(t); });
    } catch (...) {  // threads already started end without sending
      request_stop();
      at_work_ -= options_.threads - t;
      start_.store(os::monotonic_now(), std::memory_order_release);
      start_.notify_all();
      throw;
    }
  }
}

// The boards answer for the latency after the last frame, then the run has ended.
void Readout::start_final() {
  const unsigned answering = final_->threads();
  at_work_.fetch_add(answering, std::memory_order_release);
  for (unsigned t = 0; t < answering; ++t)
    threads_.emplace_back([this, t, answering] {
      final_->run(t, [this, answering] { return at_work_.load(std::memory_order_acquire) <= answering; });
      at_work_.fetch_sub(1, std::memory_order_release);
    });
}

void Readout::join() {
  for (std::jthread& thread : threads_)
    if (thread.joinable()) thread.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

// Starts the schedule when the last thread is ready.
Nanoseconds Readout::started_together() {
  if (++ready_ == options_.threads) {
    start_.store(os::monotonic_now(), std::memory_order_release);
    start_.notify_all();
  }
  start_.wait(0, std::memory_order_acquire);
  return start_.load(std::memory_order_acquire);
}

void Readout::run(std::size_t thread) {
  const auto guarded = [this](const auto& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(failing_);
      if (!failure_) failure_ = std::current_exception();
      request_stop();
    }
  };
  guarded([&] {
    if (thread < options_.pin.size()) os::pin_this_thread(options_.pin[thread]);
  });
  const Nanoseconds start = started_together();
  guarded([&] {
    if (recording_)
      run_recording(start);
    else
      boards_[thread]->send(start);
  });
  if (lockstep_) lockstep_->left(thread);
  at_work_.fetch_sub(1, std::memory_order_release);
}

ReadoutCounters Readout::counters() const noexcept {
  ReadoutCounters all;
  const auto add = [&all](const Tally& t) {
    all.fragments += t.fragments;
    all.behind_max_ns = std::max<std::uint64_t>(all.behind_max_ns, t.behind_max_ns);
    all.elapsed_ns = std::max<std::uint64_t>(all.elapsed_ns, t.elapsed_ns);
    for (std::size_t i = 0; i < fault_count; ++i) all.faults[i] += t.faults[i];
  };
  const Tally* slowest = &recorded_;
  if (recording_) {
    add(recorded_);
    all.skipped_records = recording_->skipped();
  } else {
    slowest = &boards_.front()->tally();
    for (const auto& boards : boards_) {
      add(boards->tally());
      if (boards->tally().frames < slowest->frames) slowest = &boards->tally();
    }
  }
  all.frames = slowest->frames;
  std::copy(slowest->dealt.begin(), slowest->dealt.end(), all.dealt.begin());
  all.events = slowest->events;
  all.bursts = slowest->bursts;
  return all;
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
template <class Count>
std::uint64_t Readout::sum_to(unsigned node, const Count& count) const noexcept {
  std::uint64_t n = 0;
  for (std::size_t s = node; s < senders_.size(); s += options_.nodes.size()) n += count(*senders_[s]);
  return n;
}
std::uint64_t Readout::packets_to(unsigned node) const noexcept {
  return sum_to(node, [](const PacketSender& sender) { return sender.packets(); });
}
std::uint64_t Readout::errors_to(unsigned node, SendError error) const noexcept {
  return sum_to(node, [error](const PacketSender& sender) { return sender.errors(error); });
}
double Readout::refused_share(unsigned node) const noexcept {
  const auto all = sum_to(node, [](const PacketSender& sender) { return sender.later_flushes(); });
  const auto refused = sum_to(node, [](const PacketSender& sender) { return sender.refused_flushes(); });
  return all > 0 ? static_cast<double>(refused) / static_cast<double>(all) : 0.0;
}
bool Readout::segmenting() const noexcept {
  return std::all_of(senders_.begin(), senders_.end(),
                     [](const auto& sender) { return sender->segmenting(); });
}

std::uint64_t Readout::frames_for_events() const {
  std::uint64_t index = 0, events = 0;
  std::uint64_t per_pass = 0;
  for (std::uint32_t f = 0; f < pool_->frames(); ++f) per_pass += pool_->events(f);
  if (per_pass == 0) throw std::invalid_argument("events: the pool holds none; raise rate or pool_frames");
  while (events < options_.events) events += pool_->events(schedule_.frame(index++) % pool_->frames());
  return index;
}

void Readout::run_recording(Nanoseconds start) {
  const Pacer pacer(options_.spin);
  std::vector<std::size_t> all(senders_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  TxPath tx_path(senders_, all, options_.faults, times_.get());
  const auto publish = [&](Nanoseconds now) {
    recorded_.elapsed_ns.set(static_cast<std::uint64_t>(now - start));
    for (std::size_t f = 0; f < fault_count; ++f)
      recorded_.faults[f].set(tx_path.count(static_cast<Fault>(f)));
  };
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
  recorded_.bursts.set(recording_->bursts());

  for (std::size_t i = 0; i < packets.size() && !stop_.load(std::memory_order_relaxed);) {
    // Packets due within one batch time leave together, when the last of them is due.
    std::size_t end = i + 1;
    while (end < packets.size() && end - i < most && due(packets[end]) - due(packets[i]) <= batch_ns) ++end;
    const Nanoseconds planned = due(packets[end - 1]);
    const Nanoseconds now = pacer.wait(planned, stop_);
    if (now < planned || now >= stop_at) break;
    if (options_.speed > 0 && now - planned > static_cast<Nanoseconds>(recorded_.behind_max_ns))
      recorded_.behind_max_ns.set(static_cast<std::uint64_t>(now - planned));
    for (; i < end; ++i) {
      const RecordedPacket& p = packets[i];
      const auto stream = static_cast<std::uint8_t>(p.board == merged_board ? 0 : p.board % senders_.size());
      if (!p.marker) {
        tx_path.release(p.frame);
        recorded_.fragments += p.fragments;
        for (; frames_seen <= p.frame; ++frames_seen) events += recording_->events()[frames_seen];
      }
      tx_path.take({p.frame, p.data, p.size, stream, p.marker});
    }
    tx_path.deliver();
    recorded_.frames.set(frames_seen);
    recorded_.events.set(events);
    publish(now);
    if (options_.events > 0 && events >= options_.events) break;
  }
  tx_path.flush();
  tx_path.deliver();
  publish(os::monotonic_now());
}

}  // namespace nanet::readout
