// SPDX-License-Identifier: Apache-2.0
// Trigger processor: set-up, run loop, end of run.
#include "nanet/trigger/live/trigger.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>

#include "nanet/contract/atomic.hpp"
#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/region_allocator.hpp"

namespace nanet::trigger {

void BadPackets::add(std::span<const std::byte> datagram, Nanoseconds stamp) noexcept {
  if (ring_.empty()) return;
  Packet& p = ring_[count_++ % ring_.size()];
  p.stamp = stamp;
  p.size = static_cast<std::uint32_t>(std::min(datagram.size(), p.bytes.size()));
  std::memcpy(p.bytes.data(), datagram.data(), p.size);
}

void BadPackets::write(const std::string& path, std::uint16_t port) const {
  wire::PcapWriter file(path);
  const os::ClockOffset clock;
  const std::int64_t realtime = -clock.to_monotonic(0);
  for (std::size_t i = count_ > ring_.size() ? count_ - ring_.size() : 0; i < count_; ++i) {
    const Packet& p = ring_[i % ring_.size()];
    file.write_udp(p.stamp + realtime, {0x7F000001, port}, {0x7F000001, port}, {p.bytes.data(), p.size});
  }
  file.close();
}

namespace {

// Passes of the loop of the card's thread, for its record of stops. The readers count the packets.
class Passes {
 public:
  // stops: nullptr: not recorded.
  Passes(stats::PollingStops* stops, const card::Counters& counters) : stops_(stops), counters_(counters) {}
  // Takes the current pass out of the record, if `does`: it sleeps, or does work without a small bound.
  void unbounded(bool does = true) noexcept {
    if (stops_ && does) stops_->worked(stats::PollingStops::unbounded);
  }
  void end(Nanoseconds now) noexcept {
    if (!stops_) return;
    const std::uint64_t bursts = counters_.bursts;
    const std::uint64_t items = counters_.frames_in + counters_.frames_out + counters_.frames_incomplete +
                                counters_.frames_overrun +
                                counters_.lost[static_cast<std::size_t>(card::Lost::socket_overflow)];
    stops_->worked(items - items_);
    unbounded(bursts != bursts_);
    items_ = items;
    bursts_ = bursts;
    stops_->time(now);
  }

 private:
  stats::PollingStops* stops_;
  const card::Counters& counters_;
  std::uint64_t items_ = 0, bursts_ = 0;
};

}  // namespace

Trigger::Trigger(const TriggerOptions& options)
    : options_(options), card_(card::open_card(options.card)), choke_(options.choke) {
  const auto algorithm =
      rich::make_reconstructor(options.algorithm, options.parameters, *options.process.detector);
  // Cores in order of use: the card's thread, its additional threads, the workers.
  const std::size_t beside = options.clop.threads - 1;
  card::ClopOptions clop = options.clop;
  for (std::size_t i = 1; i <= beside && i < options.pin.size(); ++i)
    clop.thread_cpus.push_back(options.pin[i]);
  if (options.stops) {
    stops_ = std::make_unique<stats::PollingThreads>(options.pin.empty() ? -1 : options.pin[0]);
    clop.stops = stops_.get();
  }
  clop_ = &card_->register_clop(clop);
  card::Stream& stream = card_->stream(*clop_);
  if (stops_ && !stream.has_packet_hooks())
    throw std::invalid_argument("stops: the " + std::string(card_->name()) +
                                " card has no polling threads: use --card socket, or leave out --stops");
  os::RegionAllocator* const allocator =
      clop.allocator && clop.allocator->cpu_accessible() ? clop.allocator : &os::host_allocator();
  traces_ = std::make_unique<TraceTable>(stream.table().slots(), *allocator);
  accounting_ = std::make_unique<Accounting>(stream.counters(), *traces_, options.process.window_lsb,
                                             clop.deadline, clop.gather == contract::Gather::packets);
  if (options.conditions) conditions_ = std::make_unique<ConditionsStore>(options.conditions);
  bursts_ = std::make_unique<BurstReports>(stream.counters(), *accounting_, choke_, conditions_.get());
  stream.observe(bursts_.get());
  stream.receive_status().observe_bursts(&burst_forwarder_);
  if (!stream.has_packet_hooks() && (!options.record.folder.empty() || !options.keep_bad.empty()))
    throw std::invalid_argument("record, keep_bad: the " + std::string(card_->name()) +
                                " card hands out no copies of packets: use --card socket");
  if (!options.final.boards.empty()) open_final(stream);
  if (!options.choke.frames.empty() && !(final_ && final_->card()))
    throw std::invalid_argument(
        "final.choke: no card chokes its final trigger here: use --card gateware, or leave it out");
  ExecutorOptions execute;
  execute.process = options.process;
  execute.process.conditions = conditions_.get();
  execute.threads = options.threads;
  execute.deadline = clop.deadline;
  execute.slices = !card_->simulated();
  if (options.pin.size() > 1 + beside)
    execute.pin.assign(options.pin.begin() + 1 + static_cast<std::ptrdiff_t>(beside), options.pin.end());
  execute.busy = options.busy;
  if (options.threads <= 1 && !options.executor) execute.process.indices = stream.keep_indices();
  execute.mailboxes = stream.writes_mailboxes();
  executor_ = options.executor ? options.executor(execute, stream.views(), *algorithm, *traces_)
                               : make_cpu_executor(execute, stream.views(), *algorithm, *traces_);
  if (const auto mailboxes = executor_->mailboxes(); !mailboxes.empty()) stream.use_mailboxes(mailboxes);
  if (!options.record.folder.empty()) {
    RecordOptions record = options.record;
    if (!options.clop.listen.empty()) record.to = clop_->local(0);
    recorder_ = std::make_unique<Recorder>(record);
    stream.observe_packets(recorder_.get());
  }
  if (!options.keep_bad.empty()) {
    bad_ = std::make_unique<BadPackets>(options.keep_bad_count);
    wire::PcapWriter(options.keep_bad).close();  // an unwritable path fails now, not at the end of the run
    stream.on_refused([this](std::span<const std::byte> datagram, wire::mgp::Refusal, Nanoseconds stamp) {
      bad_->add(datagram, stamp);
    });
  }
}

void Trigger::open_final(card::Stream& stream) {
  const FinalTriggerOptions& final = options_.final;
  const bool by_frames = options_.clop.gather == contract::Gather::frame;
  if (by_frames && final.time && final.latency > 0) {
    auto time = std::make_unique<ExperimentTime>(*final.time, final.latency);
    if (stream.limit_answers(time.get())) {
      accounting_->limit_answers(time.get());
      time_ = std::move(time);
    }
  }
  if (by_frames && options_.clop.threads > 1) {
    final_threads_ = std::make_unique<FinalThreads>(final, options_.pin);
    if (stream.observe_answers(final_threads_.get())) return;
    final_threads_.reset();
  }
  final_ = std::make_unique<FinalTrigger>(final);
  if (by_frames && stream.observe_answers(final_.get())) return;
  if (by_frames && final.late.downscale != 0)
    throw std::invalid_argument("final.late = pass: the " + std::string(card_->name()) +
                                " card drops late frames: use --card socket, or --late drop");
  if (by_frames)
    final_->use_card(stream.release_triggers({final.masks, final.latency, final.min_ticks, final.close_ticks},
                                             final_.get()));
  if (!final_->card())
    throw std::invalid_argument(
        "final.boards: the final trigger needs gather mode frame, and a software card or the simulated "
        "card: use --gather frame and --card socket");
}

Trigger::~Trigger() {
  request_stop();
  if (thread_.joinable()) thread_.join();
}

void Trigger::start() {
  if (running_) return;
  executor_->start();  // throws before anything runs
  stopping_ = false;
  running_ = true;
  started_ = os::monotonic_now();
  thread_ = std::jthread([this] { run(); });
}

void Trigger::run() noexcept {
  try {
    if (!options_.pin.empty()) os::pin_this_thread(options_.pin[0]);
  } catch (const std::system_error& error) {
    trouble_ = error.what();  // continues unpinned
  }
  const bool inline_work = executor_->in_card_thread();
  card::Stream& stream = card_->stream(*clop_);
  Nanoseconds checked = 0, looked = 0;
  Passes passes(stops_ ? &stops_->card() : nullptr, stream.counters());
  const auto round = [&] {
    const bool received = card_->receive();
    contract::relax(traces_->progress().newest, stream.table().end);
    const bool worked = executor_->poll();
    passes.unbounded(worked);
    const bool sent = card_->send();
    return received | worked | sent;
  };
  while (!stopping_.load(std::memory_order_relaxed)) {
    const bool any = round();
    if (!any && !options_.busy) {
      // Workers post without waking this thread: poll soon while answers are pending.
      const bool owed = !card_->passed_all();
      passes.unbounded();
      card_->wait(owed && !inline_work ? 20'000 : 50'000'000);
    }
    passes.unbounded(bursts_->settle(stream.table().settled()));
    const Nanoseconds now = os::monotonic_now();
    passes.end(now);
    note_times(stream, now);
    if (now - looked > 1'000'000) {
      looked = now;
      passes.unbounded();
      look(stream, now);
    }
    if (now - checked > 100'000'000) {
      checked = now;
      passes.unbounded();
      accounting_->check();
    }
  }
  card_->drain();
  while (!card_->passed_all()) {
    const bool worked = executor_->poll();
    if (!card_->send() && !worked) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  executor_->stop();
  stream.use_mailboxes({});  // reading threads live on, the executor's memory does not
  stream.reap_all();
  accounting_->check();
  const Nanoseconds ended = os::monotonic_now();
  note_times(stream, ended);
  look(stream, ended);
  bursts_->finish();
  if (final_threads_) final_threads_->stop();
  if (recorder_) recorder_->stop();
  if (bad_) {
    try {
      bad_->write(options_.keep_bad,
                  options_.clop.listen.empty() ? wire::mgp::default_port : options_.clop.listen[0].port);
    } catch (const std::exception& error) {
      trouble_ = error.what();
    }
  }
  running_.store(false, std::memory_order_release);
}

void Trigger::note_times(const card::Stream& stream, Nanoseconds now) noexcept {
  const std::uint64_t answers = stream.counters().frames_out;
  // A card of gateware counts packets when its counters are read, bytes at once.
  if (first_packet_ == 0 && (stream.counters().bytes_in | stream.counters().packets_in) != 0)
    first_packet_ = now;
  if (answers == answers_) return;
  answers_ = answers;
  last_answer_ = now;
}

void Trigger::look(card::Stream& stream, Nanoseconds now) noexcept {
  if (time_) time_->poll(now);
  choke_.update(std::max(fill_(stream), card_->backlog()), now, stream.table().end);
  if (final_ && final_->card()) stream.choke_triggers(choke_.on());
}

State Trigger::state() const noexcept {
  if (started_ == 0) return State::ready;
  if (!running_.load(std::memory_order_acquire)) return State::stopped;
  if (stopping_.load(std::memory_order_relaxed)) return State::draining;
  return bursts_->in_burst() ? State::burst : State::waiting;
}

bool Trigger::join(double timeout_s) {
  const Nanoseconds until = os::monotonic_now() + static_cast<Nanoseconds>(timeout_s * 1e9);
  while (running_.load(std::memory_order_acquire)) {
    if (os::monotonic_now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (thread_.joinable()) thread_.join();
  return true;
}

Account Trigger::account() const {
  Account account = Account::of(clop_->counters(), *accounting_);
  account.not_mgp = card_->not_mgp();
  return account;
}

double Trigger::elapsed_s() const noexcept {
  const Nanoseconds first = first_packet_, last = last_answer_;
  return first == 0 ? 0 : static_cast<double>(std::max<Nanoseconds>(last - first, 0)) * 1e-9;
}

std::vector<wire::Endpoint> Trigger::listening() const {
  std::vector<wire::Endpoint> out;
  for (std::size_t i = 0; i < options_.clop.listen.size(); ++i) out.push_back(clop_->local(i));
  return out;
}

}  // namespace nanet::trigger
