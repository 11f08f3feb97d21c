// SPDX-License-Identifier: Apache-2.0
// Recorder of raw packets: ring, series of files, writer thread.
#include "nanet/trigger/live/recorder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "nanet/os/clock.hpp"
#include "nanet/wire/pcap.hpp"

namespace nanet::trigger {
namespace {

namespace fs = std::filesystem;

enum class Kind : std::uint32_t { packet, bad_packet, burst, wrap };

struct EntryHeader {
  std::uint32_t size;  // size of the data that follows; burst: burst number
  Kind kind;
  Nanoseconds stamp;
};
static_assert(sizeof(EntryHeader) == 16);

constexpr std::size_t record_overhead = 16 + wire::udp_frame_overhead;
constexpr std::size_t pcap_header_bytes = 24;
constexpr std::size_t flush_bytes = std::size_t{512} << 10;  // smaller than the writer's buffer
constexpr Nanoseconds retry_after = 1'000'000'000;
constexpr unsigned bad_share = 8;  // refused packets use at most an eighth of the space
constexpr std::size_t most_files = 10'000;

constexpr std::size_t rounded(std::size_t bytes) {
  return (bytes + sizeof(EntryHeader) - 1) / sizeof(EntryHeader) * sizeof(EntryHeader);
}

}  // namespace

// Lock-free ring for one writer and one reader. An entry is a header and its bytes, contiguous.
class Recorder::Ring {
 public:
  explicit Ring(std::size_t bytes) : bytes_(std::bit_ceil(std::max<std::size_t>(bytes, 1 << 18))) {
    std::fill(bytes_.begin(), bytes_.end(), std::byte{1});  // populates the pages before the first packet
  }

  // Returns false if full.
  bool put(Kind kind, std::span<const std::byte> what, std::uint32_t size, Nanoseconds stamp) noexcept {
    const std::size_t need = sizeof(EntryHeader) + rounded(what.size());
    const std::size_t at = head_ & (bytes_.size() - 1), to_end = bytes_.size() - at;
    const std::size_t take = need > to_end ? need + to_end : need;
    if (head_ + take - tail_seen_ > bytes_.size()) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head_ + take - tail_seen_ > bytes_.size()) return false;
    }
    if (need > to_end) {
      header(at, {0, Kind::wrap, 0});
      head_ += to_end;
    }
    std::byte* const out = bytes_.data() + (head_ & (bytes_.size() - 1));
    const EntryHeader h{size, kind, stamp};
    std::memcpy(out, &h, sizeof h);
    if (!what.empty()) std::memcpy(out + sizeof h, what.data(), what.size());
    head_ += need;
    ready_.store(head_, std::memory_order_release);
    return true;
  }
  // Calls take(header, bytes) with the oldest entry; returns false if empty.
  template <class Take>
  bool get(Take take) noexcept {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == ready_.load(std::memory_order_acquire)) return false;
    EntryHeader h;
    std::memcpy(&h, bytes_.data() + (tail & (bytes_.size() - 1)), sizeof h);
    if (h.kind == Kind::wrap) {
      tail += bytes_.size() - (tail & (bytes_.size() - 1));
      std::memcpy(&h, bytes_.data() + (tail & (bytes_.size() - 1)), sizeof h);
    }
    const std::size_t size = h.kind == Kind::burst ? 0 : h.size;
    take(h, std::span<const std::byte>(bytes_.data() + (tail & (bytes_.size() - 1)) + sizeof h, size));
    tail_.store(tail + sizeof h + rounded(size), std::memory_order_release);
    return true;
  }

 private:
  void header(std::size_t at, const EntryHeader& h) noexcept { std::memcpy(&bytes_[at], &h, sizeof h); }

  std::vector<std::byte> bytes_;
  alignas(64) std::uint64_t head_ = 0;  // written by the writer
  std::uint64_t tail_seen_ = 0;
  alignas(64) std::atomic<std::uint64_t> ready_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};  // written by the reader
};

// Numbered files of one kind in a folder; removes the oldest above the size limit.
class Recorder::Series {
 public:
  Series(Recorder& recorder, const std::string& prefix, std::uint64_t limit, stats::Counter& written)
      : recorder_(recorder), prefix_(prefix), limit_(limit), written_(written) {
    std::vector<fs::directory_entry> found;
    for (const auto& entry : fs::directory_iterator(recorder.options_.folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && name.starts_with(prefix) && name.ends_with(".pcap") &&
          name.size() > prefix.size() + 6)
        found.push_back(entry);
    }
    std::sort(found.begin(), found.end());
    for (const auto& entry : found) {
      kept_.push_back({entry.path(), entry.file_size()});
      total_ += kept_.back().bytes;
      const std::string name = entry.path().filename().string();
      unsigned number = 0;
      if (std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number).ec == std::errc{})
        number_ = std::max(number_, number);
    }
  }
  ~Series() { close(); }

  // Throws std::system_error.
  void open() {
    ++number_;
    path_ = name();
    file_.emplace(path_.string());
    sound_ = size_ = pcap_header_bytes;
    make_room();
    ++recorder_.files;
  }
  // Starts a new file for the packets of the next burst.
  void burst(std::uint32_t number) noexcept {
    burst_ = number;
    if (!file_) return;
    if (size_ > pcap_header_bytes) return close();
    const fs::path renamed = name();  // the file is still empty
    std::error_code error;
    fs::rename(path_, renamed, error);
    if (!error) path_ = renamed;
  }
  void write(std::span<const std::byte> packet, Nanoseconds time) noexcept {
    if (!file_ && !reopen()) {
      ++recorder_.write_failed;
      return;
    }
    try {
      const wire::Endpoint& to = recorder_.options_.to;
      file_->write_udp(time, {0x7F000001, to.port}, to, packet);
      size_ += record_overhead + packet.size();
      ++waiting_;
      if (size_ - sound_ >= flush_bytes) flush();
      if (size_ >= recorder_.options_.file_bytes) close();
    } catch (const std::exception& error) {
      failed(error.what());
    }
  }
  // Syncs written packets to disk; failures count as not written.
  void sync() noexcept {
    if (!file_ || waiting_ == 0) return;
    try {
      flush();
    } catch (const std::exception& error) {
      failed(error.what());
    }
  }
  void close() noexcept {
    if (!file_) return;
    sync();
    if (!file_) return;  // after a failure
    file_.reset();
    keep();
  }
  std::string trouble() const {
    const std::lock_guard lock(mutex_);
    return trouble_;
  }

 private:
  struct File {
    fs::path path;
    std::uint64_t bytes;
  };

  fs::path name() const {
    std::array<char, 16> number{};
    std::snprintf(number.data(), number.size(), "%06u", number_);
    return fs::path(recorder_.options_.folder) /
           (prefix_ + number.data() + (burst_ ? "-burst" + std::to_string(*burst_) : "") + ".pcap");
  }
  bool reopen() noexcept {
    const Nanoseconds now = os::monotonic_now();
    if (now < retry_) return false;
    try {
      open();
      say("");
      return true;
    } catch (const std::exception& error) {
      file_.reset();
      retry_ = now + retry_after;
      say(error.what());
      return false;
    }
  }
  void flush() {
    file_->flush();
    written_ += waiting_;
    recorder_.bytes += size_ - sound_;
    sound_ = size_;
    waiting_ = 0;
    make_room();
  }
  // Disk full or lost: truncates the file after the last complete packet.
  void failed(const char* why) noexcept {
    recorder_.write_failed += waiting_;
    waiting_ = 0;
    file_.reset();
    std::error_code ignored;
    fs::resize_file(path_, sound_, ignored);
    size_ = sound_;
    keep();
    retry_ = os::monotonic_now() + retry_after;
    say(why);
  }
  void keep() noexcept {
    kept_.push_back({path_, size_});
    total_ += size_;
    sound_ = size_ = 0;
  }
  void make_room() noexcept {
    while (!kept_.empty() && (total_ + size_ > limit_ || kept_.size() >= most_files)) {
      std::error_code ignored;
      fs::remove(kept_.front().path, ignored);
      total_ -= kept_.front().bytes;
      kept_.pop_front();
      ++recorder_.files_removed;
    }
  }
  void say(const std::string& why) noexcept {
    const std::lock_guard lock(mutex_);
    trouble_ = why;
  }

  Recorder& recorder_;
  std::string prefix_;
  std::uint64_t limit_;
  stats::Counter& written_;
  std::optional<wire::PcapWriter> file_;
  std::optional<std::uint32_t> burst_;
  fs::path path_;
  unsigned number_ = 0;
  std::uint64_t size_ = 0, sound_ = 0, waiting_ = 0, total_ = 0;  // sound_: bytes on disk
  std::deque<File> kept_;
  Nanoseconds retry_ = 0;
  mutable std::mutex mutex_;  // guards trouble_
  std::string trouble_;
};

Recorder::Recorder(const RecordOptions& options) : options_(options) {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error) throw std::system_error(error, "record = " + options_.folder + ": the folder cannot be made");
  ring_ = std::make_unique<Ring>(options_.ring_bytes);
  const std::uint64_t for_bad = options_.limit_bytes / bad_share;
  options_.file_bytes = std::min(options_.file_bytes, std::max<std::uint64_t>(for_bad, 1 << 20));
  good_ = std::make_unique<Series>(*this, "raw-", options_.limit_bytes - for_bad, packets);
  bad_ = std::make_unique<Series>(*this, "bad-", for_bad, bad_packets);
  good_->open();
  thread_ = std::jthread([this] { run(); });
}

Recorder::~Recorder() {
  stop();
}

void Recorder::packet(std::span<const std::byte> datagram, bool refused, Nanoseconds stamp) noexcept {
  if (!ring_->put(refused ? Kind::bad_packet : Kind::packet, datagram,
                  static_cast<std::uint32_t>(datagram.size()), stamp))
    ++ring_full;
}

void Recorder::burst_began(std::uint32_t number) noexcept {
  ring_->put(Kind::burst, {}, number, 0);  // if the ring is full, the burst continues in the same file
}

bool Recorder::write_some() noexcept {
  bool any = false;
  const os::ClockOffset clock;  // current offset: the realtime clock may be set during a run
  const std::int64_t realtime = -clock.to_monotonic(0);
  for (unsigned i = 0; i < 4096; ++i) {
    const bool got = ring_->get([&](const EntryHeader& h, std::span<const std::byte> datagram) {
      if (h.kind == Kind::burst)
        good_->burst(h.size);
      else
        (h.kind == Kind::packet ? *good_ : *bad_).write(datagram, h.stamp + realtime);
    });
    if (!got) break;
    any = true;
  }
  return any;
}

void Recorder::run() noexcept {
  unsigned idle = 0;
  while (true) {
    const bool ending = ending_.load(std::memory_order_acquire);  // read before the ring is found empty
    if (write_some()) {
      idle = 0;
      continue;
    }
    if (ending) break;
    if (++idle == 100) {  // 0.1 s without packets: flush them to the file
      good_->sync();
      bad_->sync();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  good_->close();
  bad_->close();
}

void Recorder::stop() noexcept {
  ending_.store(true, std::memory_order_release);
  if (thread_.joinable()) thread_.join();
}

std::string Recorder::trouble() const {
  const std::string good = good_->trouble();
  return good.empty() ? bad_->trouble() : good;
}

}  // namespace nanet::trigger
