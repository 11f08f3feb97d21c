// SPDX-License-Identifier: Apache-2.0
// Executor interface: consumes the event queues of a CLOP, builds, reconstructs, posts answers, returns
// buffers. Accesses only contract memory and the trace table. CPU executors are declared here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/contract/mailbox.hpp"
#include "nanet/rich/algorithm.hpp"
#include "nanet/trigger/account/trace.hpp"
#include "nanet/trigger/executors/frame_processor.hpp"

namespace nanet::trigger {

struct ExecutorOptions {
  ProcessOptions process;
  unsigned threads = 1;      // 1: run to completion in the card's thread; more: number of worker threads
  std::vector<int> pin;      // cores of the workers, cyclic; empty: not pinned
  bool busy = false;         // workers never sleep
  Nanoseconds deadline = 0;  // after a frame's first packet; 0: none, no frame is skipped
  bool slices = true;        // poll() works for a limited time; false: deadlines stop meanwhile
  RingSink* sink = nullptr;
  std::uint64_t reference = 0;  // an n within 2^31 of the first event's
  bool mailboxes = false;       // the card writes to mailboxes
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string_view name() const noexcept = 0;
  // Starts the threads or kernels; they are resident on return.
  virtual void start() = 0;
  // Run-to-completion executors process events here, in the card's thread: with a deadline and `slices` for a
  // limited time, so that the card can send and receive in between. Returns true if work was done.
  virtual bool poll() noexcept { return false; }
  // True: poll() does the work, and the card's thread may block when idle.
  virtual bool in_card_thread() const noexcept { return false; }
  // Finishes all events written so far and ends the threads.
  virtual void stop() noexcept = 0;
  // Physics counts of each thread.
  virtual std::vector<const Physics*> physics() const = 0;
  // True if the card lapped this reader in the queue; the reader has stopped.
  virtual bool event_overrun() const noexcept = 0;
  // Memory that frames are read from: host; pinned (mapped, read by the GPU); device (filled by the copy
  // engine).
  virtual std::string_view memory() const noexcept { return "host"; }
  // Mailboxes that the card is to use, one per device; empty: none.
  virtual std::vector<contract::Mailbox> mailboxes() const { return {}; }
  // Their memory: gpu, pinned or off, with the reason after a colon.
  virtual std::string mailbox() const { return "off"; }
  // Additional results by name. Thread-safe.
  virtual std::map<std::string, double> figures() const { return {}; }
  // Reason for degraded operation; empty: none.
  virtual std::string trouble() const { return {}; }
};

// Factory of another executor; parameters as for make_cpu_executor.
using ExecutorMaker =
    std::function<std::unique_ptr<Executor>(const ExecutorOptions& options, std::vector<contract::View> views,
                                            const rich::Reconstructor& algorithm, TraceTable& traces)>;

// algorithm: cloned for every thread. views: one per consumer device.
std::unique_ptr<Executor> make_cpu_executor(const ExecutorOptions& options, std::vector<contract::View> views,
                                            const rich::Reconstructor& algorithm, TraceTable& traces);

// Batch executor for replays: builds frames in the card's thread. Reconstructs the events of many frames in
// one call, as a GPU requires. Same answers as the run-to-completion executor. Gather mode `frame`, one
// device.
std::unique_ptr<Executor> make_batch_executor(const ExecutorOptions& options, contract::View view,
                                              std::unique_ptr<rich::Reconstructor> algorithm,
                                              TraceTable& traces);

}  // namespace nanet::trigger
