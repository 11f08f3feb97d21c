// SPDX-License-Identifier: Apache-2.0
// Replay of recorded traffic.
#include "nanet/trigger/replay/replay.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "nanet/card/registry.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/trigger/live/trigger.hpp"

namespace nanet::trigger {

// Ring rows per number, kept until the sender passes it in order.
class Replay::Rows final : public RingSink {
 public:
  explicit Rows(const card::Stream& stream) : stream_(stream) {}

  void frame(std::uint64_t n, const Row* rows, std::uint32_t count) override {
    std::vector<Kept> kept;
    kept.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i)
      kept.push_back({rows[i].time, rows[i].hits, rows[i].primitive, *rows[i].rings});
    const std::lock_guard lock(mutex_);
    waiting_.emplace(n, std::move(kept));
  }
  void passed(std::uint64_t n) {
    const std::lock_guard lock(mutex_);
    const auto it = waiting_.find(n);
    if (it == waiting_.end()) return;
    for (const Kept& k : it->second) append(burst_of(n), k);
    waiting_.erase(it);
  }
  RingColumns take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(columns_, {});
  }

 private:
  struct Kept {
    Lsb time;
    std::uint16_t hits, primitive;
    rich::Rings rings;
  };
  std::uint16_t burst_of(std::uint64_t n) {
    const auto& bursts = stream_.receive_status().bursts();
    while (burst_ + 1 < bursts.size() && bursts[burst_ + 1].base <= n) ++burst_;
    return bursts.empty() ? std::uint16_t{0} : static_cast<std::uint16_t>(bursts[burst_].number);
  }
  void append(std::uint16_t burst, const Kept& k) {
    const unsigned rows = std::max<unsigned>(k.rings.count, 1);
    for (unsigned i = 0; i < rows; ++i) {
      const bool ring = k.rings.count > 0;
      const float none = std::numeric_limits<float>::quiet_NaN();
      columns_.burst.push_back(burst);
      columns_.event.push_back(event_);
      columns_.timestamp.push_back(static_cast<std::uint32_t>(k.time >> 8));
      columns_.fine_time.push_back(static_cast<std::uint8_t>(k.time));
      columns_.ring.push_back(ring ? static_cast<std::uint8_t>(i) : 255);
      columns_.n_rings.push_back(k.rings.count);
      columns_.x.push_back(ring ? k.rings.ring[i].x : none);
      columns_.y.push_back(ring ? k.rings.ring[i].y : none);
      columns_.r.push_back(ring ? k.rings.ring[i].r : none);
      columns_.chi2_ndf.push_back(ring ? k.rings.ring[i].chi2_ndf : none);
      columns_.n_hits.push_back(ring ? k.rings.ring[i].hits : 0);
      columns_.event_hits.push_back(k.hits);
      columns_.primitive.push_back(k.primitive);
    }
    ++event_;
  }

  const card::Stream& stream_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<Kept>> waiting_;
  RingColumns columns_;
  std::uint64_t event_ = 0;
  std::size_t burst_ = 0;
};

// Transmit side of a replay: a capture, or none.
class Replay::Answers final : public card::Transmit {
 public:
  // Opens the capture, overwriting an existing file. Throws std::system_error.
  void open(const std::string& path) {
    if (!path.empty()) file_ = std::make_unique<wire::PcapWriter>(path);
  }
  std::size_t send(std::span<const card::Datagram> batch) noexcept override {
    if (file_ && !trouble_) {
      try {
        for (const auto& d : batch)
          file_->write_udp(time, {0x7F000001, wire::mgp::default_port}, {0x7F000001, 58914},
                           {d.data, d.bytes});
      } catch (...) {
        trouble_ = std::current_exception();
      }
    }
    return batch.size();
  }
  std::uint32_t destinations() const noexcept override { return 1; }
  void close() {
    if (trouble_) std::rethrow_exception(trouble_);
    if (file_) file_->close();
  }
  Nanoseconds time = 0;  // time of the last record read

 private:
  std::unique_ptr<wire::PcapWriter> file_;
  std::exception_ptr trouble_;
};

// Observer that runs the accounting, then releases the rows.
class Replay::Follower final : public card::FrameObserver {
 public:
  Follower(Accounting& accounting, Rows* rows) : accounting_(accounting), rows_(rows) {}
  void passed(std::uint64_t n, card::Outcome outcome, Nanoseconds, Nanoseconds,
              Nanoseconds) noexcept override {
    accounting_.passed(n, outcome, 0, 0, 0);
    if (rows_) rows_->passed(n);
  }
  void reaped(std::uint64_t n) noexcept override { accounting_.reaped(n); }

 private:
  Accounting& accounting_;
  Rows* rows_;
};

namespace {

std::vector<std::string> captures(const ReplayOptions& options) {
  std::vector<std::string> all{options.pcap};
  all.insert(all.end(), options.more.begin(), options.more.end());
  return all;
}

}  // namespace

Replay::Replay(const ReplayOptions& options) : options_(options), reader_(captures(options)) {
  const rich::Geometry& geometry = *options.process.detector;
  const auto algorithm = rich::make_reconstructor(options.algorithm, options.parameters, geometry);
  if (options.device && options.threads > 1)
    throw std::invalid_argument("trigger.threads = " + std::to_string(options.threads) +
                                ": must be 1 where a device reconstructs");
  if (!std::has_single_bit(options.clop.devices))  // buffers are divided among the devices
    throw std::invalid_argument("devices = " + std::to_string(options.clop.devices) +
                                " must be a power of two: 1, 2, 4 ...");
  if (options.device && options.clop.gather == contract::Gather::packets)
    throw std::invalid_argument(
        "gather = packets: a device replays whole frames: use --device cpu, or --gather frame");
  card::ClopOptions clop = options.clop;
  if (options.detect_merged && looks_merged()) clop.rules.boards = 0;
  clop.deadline = 0;
  // Enough buffers for the open window of 1024 frames plus a gap of the same size. No more, so that buffers
  // are still in the cache when read.
  const bool by_frame = clop.gather == contract::Gather::frame;
  clop.buffers = std::max<std::uint32_t>(clop.buffers, (by_frame ? 4096 : 256) / std::max(clop.devices, 1u));
  answers_ = std::make_unique<Answers>();
  const card::CardKind& kind = card::card_kind(options.card);
  if (!kind.open_playback) {
    own_stream_ = std::make_unique<card::SoftwareStream>(clop, 0, *answers_, true);
    stream_ = own_stream_.get();
  } else {
    if (!options.keep_bad.empty())
      throw std::invalid_argument("keep_bad = " + options.keep_bad + ": the " + options.card +
                                  " card counts refused packets and keeps none: use --card socket");
    playback_ = kind.open_playback(clop, options.port, *answers_);
    stream_ = &playback_->stream();
  }
  traces_ = std::make_unique<TraceTable>(stream_->table().slots());
  accounting_ = std::make_unique<Accounting>(stream_->counters(), *traces_, options.process.window_lsb);
  if (options.rings) rows_ = std::make_unique<Rows>(*stream_);
  follower_ = std::make_unique<Follower>(*accounting_, rows_.get());
  stream_->observe(follower_.get());
  ExecutorOptions execute;
  execute.process = options.process;
  if (options.conditions) conditions_ = std::make_unique<ConditionsStore>(options.conditions);
  execute.process.conditions = conditions_.get();
  execute.threads = options.threads;
  execute.pin = options.pin;
  execute.sink = rows_.get();
  if (options.threads <= 1 && !options.executor) execute.process.indices = stream_->keep_indices();
  execute.mailboxes = options.mailboxes && stream_->writes_mailboxes();
  if (options.executor)
    executor_ = options.executor(execute, stream_->views(), *algorithm, *traces_);
  else if (options.device)
    executor_ =
        make_batch_executor(execute, stream_->views()[0], options.device(*algorithm, geometry), *traces_);
  else
    executor_ = make_cpu_executor(execute, stream_->views(), *algorithm, *traces_);
  if (const auto mailboxes = executor_->mailboxes(); !mailboxes.empty()) stream_->use_mailboxes(mailboxes);
  answers_->open(options.mtp);  // last, so that rejected options leave an existing file untouched
}

bool Replay::looks_merged() noexcept {
  wire::mgp::Rules merged = options_.clop.rules;
  merged.boards = 0;
  wire::PcapRecord record;
  unsigned found = 0, looked = 0;
  while (looked < 1000 && reader_.next(record)) {
    const wire::UdpFrame frame = wire::parse_udp_frame(record.frame, record.original, options_.port);
    if (frame.reason != wire::NotMgp::none) continue;
    ++looked;
    if (wire::mgp::validate(frame.payload, merged).refusal == wire::mgp::Refusal::none) ++found;
  }
  reader_.rewind();
  return found > 0 && 2 * found > looked;
}

Replay::~Replay() {
  executor_->stop();
}

void Replay::run() {
  std::unique_ptr<wire::PcapWriter> bad;
  std::exception_ptr trouble;
  if (!options_.keep_bad.empty()) bad = std::make_unique<wire::PcapWriter>(options_.keep_bad);
  const Nanoseconds started = os::monotonic_now();
  if (playback_)
    run_card();
  else
    run_receiver(bad.get(), trouble);
  stream_->reap_all();
  accounting_->check();
  elapsed_s_ = static_cast<double>(os::monotonic_now() - started) * 1e-9;
  answers_->close();
  if (bad) bad->close();
  if (trouble) std::rethrow_exception(trouble);
}

void Replay::run_receiver(wire::PcapWriter* bad, std::exception_ptr& trouble) {
  if (bad) {
    own_stream_->receiver().on_refused(
        [this, bad, &trouble](std::span<const std::byte> datagram, wire::mgp::Refusal, Nanoseconds stamp) {
          try {
            bad->write_udp(stamp, {0x7F000001, options_.port}, {0x7F000001, options_.port}, datagram);
          } catch (...) {
            trouble = std::current_exception();
          }
        });
  }
  const auto no_clock = [this] { return answers_->time; };
  card::Receiver& receiver = own_stream_->receiver();
  card::Sender& sender = own_stream_->sender();
  card::FrameTable& table = stream_->table();
  const auto work = [&] {
    receiver.expire(answers_->time);
    executor_->poll();
    sender.poll(answers_->time, no_clock);
  };
  receiver.on_full([&] {
    work();
    std::this_thread::yield();
  });
  executor_->start();
  wire::PcapRecord record;
  std::uint32_t since = 0;
  while (!stopping_.load(std::memory_order_relaxed) && reader_.next(record)) {
    answers_->time = record.time_ns;
    read_.fetch_add(record.frame.size() + 16, std::memory_order_relaxed);
    const wire::UdpFrame frame = wire::parse_udp_frame(record.frame, record.original, options_.port);
    if (frame.reason != wire::NotMgp::none) {
      ++not_mgp_[static_cast<std::size_t>(frame.reason)];
      continue;
    }
    receiver.packet(frame.payload, record.time_ns);
    // Reads one frame of packets at a time, so that buffers are still in the cache when read.
    if (++since < 8 && table.end - table.next <= table.slots() / 2) continue;
    since = 0;
    work();
    // Lagging workers delay the reader; no frame is dropped for lack of a buffer.
    while (table.end - table.next > table.slots() / 4 &&
           table.status(table.next) == card::FrameTable::Status::closed) {
      work();
      std::this_thread::yield();
    }
  }
  receiver.drain(answers_->time);
  while (!stream_->passed_all()) {
    work();
    if (!stream_->passed_all()) std::this_thread::yield();
  }
  executor_->stop();
  receiver.expire(answers_->time);
}

// Replay through an autonomous card, which only needs the frames.
void Replay::run_card() {
  const auto work = [&] {
    playback_->work();
    executor_->poll();
  };
  executor_->start();
  wire::PcapRecord record;
  while (!stopping_.load(std::memory_order_relaxed) && reader_.next(record)) {
    answers_->time = record.time_ns;
    read_.fetch_add(record.frame.size() + 16, std::memory_order_relaxed);
    while (!playback_->frame(record.frame, record.original)) work();
  }
  while (!playback_->decided()) work();
  playback_->drain();
  while (!playback_->passed_all()) work();
  executor_->stop();
  playback_->settle();
  const auto not_mgp = playback_->not_mgp();
  for (std::size_t i = 0; i < not_mgp.size(); ++i) not_mgp_[i] += not_mgp[i];
}

Account Replay::account() const {
  Account a = Account::of(stream_->counters(), *accounting_);
  for (std::size_t i = 0; i < a.not_mgp.size(); ++i) a.not_mgp[i] = not_mgp_[i];
  return a;
}

double Replay::progress() const noexcept {
  return reader_.bytes() ? std::min(1.0, static_cast<double>(read_.load(std::memory_order_relaxed)) /
                                             static_cast<double>(reader_.bytes()))
                         : 1.0;
}

RingColumns Replay::take_rings() {
  return rows_ ? rows_->take() : RingColumns{};
}

}  // namespace nanet::trigger
