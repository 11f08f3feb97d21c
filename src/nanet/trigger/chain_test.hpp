// SPDX-License-Identifier: Apache-2.0
// Replay chain for unit tests and the fuzzer: receiver, executor, sender and accounting without files.
// Datagrams in, MTP packets out.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "nanet/card/software/software_stream.hpp"
#include "nanet/os/region_allocator.hpp"
#include "nanet/trigger/account/accounting.hpp"
#include "nanet/trigger/account/burst_reports.hpp"
#include "nanet/trigger/executors/executor.hpp"

namespace nanet::trigger {

class Chain {
 public:
  using Packets = std::vector<std::vector<std::byte>>;

  // threads 0: the batch executor. A deadline above 0: frames time out, and executors skip late ones.
  explicit Chain(const card::ClopOptions& clop, const rich::Reconstructor& algorithm, unsigned threads = 1,
                 const ProcessOptions& process = {}, const ExecutorMaker& make = {},
                 ConditionsStore* conditions = nullptr)
      : stream_(clop, 0, outlet_, clop.deadline <= 0),
        traces_(stream_.table().slots(), clop.allocator ? *clop.allocator : os::host_allocator()),
        accounting_(stream_.counters(), traces_, process.window_lsb, clop.deadline) {
    bursts_ = std::make_unique<BurstReports>(stream_.counters(), accounting_, choke_, conditions);
    stream_.observe(bursts_.get());
    stream_.receiver().observe_bursts(bursts_.get());
    ExecutorOptions options;
    options.process = process;
    options.process.conditions = conditions;
    options.threads = threads;
    options.deadline = clop.deadline;
    if (threads <= 1 && !make) options.process.indices = stream_.keep_indices();
    options.mailboxes = stream_.writes_mailboxes();
    executor_ = make      ? make(options, stream_.views(), algorithm, traces_)
                : threads ? make_cpu_executor(options, stream_.views(), algorithm, traces_)
                          : make_batch_executor(options, stream_.views()[0], algorithm.clone(), traces_);
    if (const auto mailboxes = executor_->mailboxes(); !mailboxes.empty()) stream_.use_mailboxes(mailboxes);
    executor_->start();
    stream_.receiver().on_full([this] {
      turn();
      std::this_thread::yield();
    });
  }
  ~Chain() { executor_->stop(); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  static card::ClopOptions options(std::uint8_t boards = 0xF) {
    card::ClopOptions o;
    o.rules.boards = boards;
    o.buffers = 4096;
    o.deadline = 0;
    return o;
  }

  void packet(std::span<const std::byte> datagram) {
    now_ += 1000;
    stream_.receiver().packet(datagram, now_);
    if (++since_ < 8 && stream_.table().end - stream_.table().next <= stream_.table().slots() / 2) return;
    since_ = 0;
    turn();
  }
  void turn() {
    stream_.receiver().expire(now_);
    executor_->poll();
    stream_.sender().poll(now_, [this] { return now_; });
    bursts_->settle(stream_.table().settled());
  }
  // Restarts the executor; it must find all unfinished events.
  void restart() {
    executor_->stop();
    executor_->start();
  }
  // Returns when every frame that needs an answer is answered.
  void drain() {
    stream_.receiver().drain(now_);
    while (!stream_.passed_all()) {
      turn();
      std::this_thread::yield();
    }
    executor_->stop();
    stream_.receiver().expire(now_);
    stream_.sender().reap_all();
    bursts_->finish();
  }

  Account account() const { return Account::of(stream_.counters(), accounting_); }
  const Accounting& accounting() const { return accounting_; }
  const Packets& sent() const { return outlet_.sent; }
  const Executor& executor() const { return *executor_; }
  card::Stream& stream() { return stream_; }
  BurstReports& bursts() { return *bursts_; }

 private:
  struct Outlet final : card::Transmit {
    std::size_t send(std::span<const card::Datagram> batch) noexcept override {
      for (const auto& d : batch) sent.emplace_back(d.data, d.data + d.bytes);
      return batch.size();
    }
    std::uint32_t destinations() const noexcept override { return 1; }
    Packets sent;
  };

  Outlet outlet_;
  card::SoftwareStream stream_;
  TraceTable traces_;
  Accounting accounting_;
  Choke choke_{ChokeOptions{}};
  std::unique_ptr<BurstReports> bursts_;
  std::unique_ptr<Executor> executor_;
  Nanoseconds now_ = 0;
  unsigned since_ = 0;
};

}  // namespace nanet::trigger
