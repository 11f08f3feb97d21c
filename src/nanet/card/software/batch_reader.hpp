// SPDX-License-Identifier: Apache-2.0
// Batch reader: reads a card's sources (sockets, queues) in the card's thread or in separate threads, which
// never sleep. Reading threads validate each batch and pass it to the card's thread through a ring.
//
// A Batch has: Source, a copyable handle; most, handed_at_once, first_request: numbers of packets to request;
// read(source, index, requested): false if there was none; source(): that index; before(): a time before
// read(); emptied(): everything that arrived before that time has been read; packets(): number of packets;
// next_request(handed): packets to request next; validate(rules, ahead, lane); copied(): the reading thread
// has copied all its packets to their segments; fetch(payloads), fetch_to_write(): prefetches; release(): its
// packets are no longer used, called by the thread that reads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nanet/card/software/segments_ahead.hpp"
#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/stats/polling_stops.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

template <class Batch>
class BatchReader {
 public:
  using Source = typename Batch::Source;

  // Sources outlive the reader. threads: number of reading threads, which share the sources and validate by
  // `rules`. 0: the caller's thread reads. cpus: their cores, in order; threads beyond the list are not
  // pinned. ahead: segments that the threads write; outlives the reader; nullptr: none. stops:
  // records of the caller's thread and of the reading threads, or nullptr. Throws std::system_error (no such
  // core).
  explicit BatchReader(std::vector<Source> sources, std::size_t threads = 0, std::span<const int> cpus = {},
                       const wire::mgp::Rules& rules = {}, SegmentsAhead* ahead = nullptr,
                       stats::PollingThreads* stops = nullptr)
      : sources_(std::move(sources)),
        rules_(rules),
        ahead_(threads <= SegmentsAhead::most_lanes ? ahead : nullptr),
        stops_(stops ? &stops->card() : nullptr),
        requested_(sources_.size(), Batch::first_request),
        read_up_to_(sources_.size(), 0),
        stamp_(sources_.size(), 0),
        empty_(sources_.size()) {
    threads = std::min(threads, sources_.size());
    for (std::size_t t = 0; t < threads; ++t) {
      lanes_.push_back(std::make_unique<Lane>(static_cast<std::uint8_t>(t)));
      Lane& lane = *lanes_.back();
      for (std::size_t s = t; s < sources_.size(); s += threads) lane.sources.push_back(s);
      if (ahead_) ahead_->add(lane.writing);
      if (stops) lane.stops = &stops->add("read " + std::to_string(t), t < cpus.size() ? cpus[t] : -1);
    }
    for (std::size_t t = 0; t < threads; ++t) {
      Lane& lane = *lanes_[t];
      lane.thread = std::jthread([this, &lane] { run(lane); });
      try {
        if (t < cpus.size() && cpus[t] >= 0) os::pin_thread(lane.thread.native_handle(), cpus[t]);
      } catch (...) {
        ending_ = true;
        throw;
      }
    }
  }
  ~BatchReader() { ending_.store(true, std::memory_order_release); }
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  // One round: calls f(batch) for each batch read since the last round; true if there was any. f returns the
  // time stamp of the batch's last packet. Everything that arrived before read_up_to(source) has then been
  // delivered.
  template <class F>
  bool round(const F& f) noexcept {
    return threaded() ? hand_over(f) : read_all(f);
  }
  Nanoseconds read_up_to(std::size_t source) const noexcept { return read_up_to_[source]; }
  // The same over all sources; without sources, the current time.
  Nanoseconds read_up_to() const noexcept {
    return sources_.empty() ? os::monotonic_now() : *std::min_element(read_up_to_.begin(), read_up_to_.end());
  }
  // A time of the last round, without reading the clock where the caller's thread reads.
  Nanoseconds last_round() const noexcept {
    return threaded() || sources_.empty() ? os::monotonic_now() : own_.before();
  }
  bool threaded() const noexcept { return !lanes_.empty(); }

 private:
  // Interval of reports that a source is empty: each report costs both threads a cache miss.
  static constexpr Nanoseconds report_every = 2'000;
  // Small batches of a lane: one thread places packets while the other reads.
  static constexpr std::size_t ring_entries = 16;

  // A reading thread and its ring of batches.
  struct Lane {
    explicit Lane(std::uint8_t number) : writing(number) {
      ring.reserve(ring_entries);
      while (ring.size() < ring_entries) ring.emplace_back(Batch::handed_at_once).make_room_to_validate();
    }
    std::vector<Batch> ring;
    std::vector<std::size_t> sources;
    SegmentsAhead::Lane writing;
    stats::PollingStops* stops = nullptr;
    alignas(64) std::atomic<std::uint64_t> filled{0};
    alignas(64) std::atomic<std::uint64_t> emptied{0};
    std::jthread thread;
    alignas(64) bool payloads = true;  // the card's thread is likely to read them
  };

  template <class F>
  bool read_all(const F& f) noexcept {
    bool any = false;
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      const bool found = own_.read(sources_[s], s, requested_[s]);
      // Up to the first batch, no work lies between this time and the end of the last round.
      if (stops_ && !any) stops_->time(own_.before());
      if (found) {
        any = true;
        deliver(own_, f);
        requested_[s] = own_.next_request(false);
        own_.release();
      } else {
        requested_[s] = Batch::first_request;
        read_up_to_[s] = own_.before();
      }
    }
    return any;
  }
  template <class F>
  bool hand_over(const F& f) noexcept {
    bool any = false;
    for (const auto& lane : lanes_) {
      // Time stamps first: batches read before them are then in the ring.
      for (const std::size_t s : lane->sources) stamp_[s] = empty_[s].at.load(std::memory_order_acquire);
      const std::uint64_t there = lane->filled.load(std::memory_order_acquire);
      const std::uint64_t from = lane->emptied.load(std::memory_order_relaxed);
      if (from < there) lane->ring[from % ring_entries].fetch(lane->payloads);
      // A stop shows in a backlog: it ends here, before the work that it has left.
      if (stops_ && !any && there - from > 1) stops_->time(os::monotonic_now());
      for (std::uint64_t i = from; i < there; ++i) {
        if (i + 1 < there) lane->ring[(i + 1) % ring_entries].fetch(lane->payloads);
        const Batch& batch = lane->ring[i % ring_entries];
        deliver(batch, f);
        lane->payloads = !batch.copied();
        lane->emptied.store(i + 1, std::memory_order_release);
      }
      for (const std::size_t s : lane->sources)
        if (stamp_[s] > read_up_to_[s]) read_up_to_[s] = stamp_[s];
      any |= there != from;
    }
    return any;
  }
  template <class F>
  void deliver(const Batch& batch, const F& f) noexcept {
    if (stops_) stops_->worked(batch.packets());
    const Nanoseconds last = f(batch);
    // Not emptied: everything before the last time stamp has been read.
    Nanoseconds& read_up_to = read_up_to_[batch.source()];
    read_up_to = std::max(read_up_to, batch.emptied() || batch.before() < last ? batch.before() : last);
  }
  void run(Lane& lane) noexcept {
    std::uint64_t filled = 0, released = 0, fetched = ~std::uint64_t{0};
    struct Port {
      std::size_t source, requested = Batch::first_request;
      Nanoseconds reported = 0;
    };
    std::vector<Port> ports;
    for (const std::size_t s : lane.sources) ports.push_back({s});
    const auto emptied = [&] {
      const std::uint64_t count = lane.emptied.load(std::memory_order_acquire);
      while (released != count) lane.ring[released++ % ring_entries].release();
      return count;
    };
    while (!ending_.load(std::memory_order_acquire)) {
      for (Port& port : ports) {
        while (filled - emptied() == ring_entries) {
          if (ending_.load(std::memory_order_acquire)) return;
          if (lane.stops) lane.stops->worked(stats::PollingStops::unbounded);
          os::spin();
        }
        Batch& batch = lane.ring[filled % ring_entries];
        if (fetched != filled) batch.fetch_to_write();
        fetched = filled;
        const bool found = batch.read(sources_[port.source], port.source, port.requested);
        if (lane.stops) lane.stops->time(batch.before());
        if (found) {
          port.requested = batch.next_request(true);
          batch.validate(rules_, ahead_, lane.writing);
          if (lane.stops) lane.stops->worked(batch.packets());
          lane.filled.store(++filled, std::memory_order_release);
          continue;
        }
        port.requested = Batch::first_request;
        if (batch.before() - port.reported < report_every) continue;
        port.reported = batch.before();
        empty_[port.source].at.store(port.reported, std::memory_order_release);
      }
    }
  }

  std::vector<Source> sources_;
  wire::mgp::Rules rules_;
  SegmentsAhead* ahead_;
  stats::PollingStops* stops_;          // of the caller's thread
  std::vector<std::size_t> requested_;  // per source: packets to request next, in the caller's thread
  std::vector<Nanoseconds> read_up_to_, stamp_;
  struct alignas(64) Empty {
    std::atomic<Nanoseconds> at{0};
  };
  std::vector<Empty> empty_;  // per source: time at which its thread found it empty
  Batch own_;
  std::atomic<bool> ending_{false};
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace nanet::card
