// SPDX-License-Identifier: Apache-2.0
// Stream: one registered CLOP. Holds the contract memory of each consumer device, the frame table, the
// counters and the receive status. Software and hardware datapaths derive from it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nanet/card/answer_deadline.hpp"
#include "nanet/card/card_trigger.hpp"
#include "nanet/card/counters.hpp"
#include "nanet/card/frame_table.hpp"
#include "nanet/card/observers.hpp"
#include "nanet/card/receive_status.hpp"
#include "nanet/contract/memory.hpp"
#include "nanet/contract/recent_indices.hpp"
#include "nanet/os/region_allocator.hpp"
#include "nanet/stats/polling_stops.hpp"
#include "nanet/wire/dealing.hpp"
#include "nanet/wire/ethernet.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

// Options of a CLOP.
struct ClopOptions {
  std::vector<wire::Endpoint> listen;        // one socket each: one per board or link, or one for all
  std::vector<wire::Endpoint> destinations;  // table of UDP endpoints that descriptors index
  contract::Gather gather = contract::Gather::frame;
  std::uint32_t packets = 1;           // payloads per buffer (gather packets)
  std::uint32_t buffers = 0;           // N, a power of two; 0: default_buffers()
  std::uint32_t segment_bytes = 8192;  // per board and frame
  bool merge = false;                  // write merged buffers (gather frame)
  std::int32_t window_lsb = 41;        // merging window
  std::uint32_t devices = 1;           // consumer devices, numbered n mod devices
  wire::mgp::Rules rules;
  wire::Dealing dealing;  // this node's share of the frames
  Nanoseconds timeout = 20'000'000;
  Nanoseconds deadline = 50'000'000;
  Nanoseconds burst_silence = 1'000'000'000;
  int socket_buffer_bytes = 64 << 20;
  int busy_poll_us = 0;  // os::set_busy_poll()
  // Software cards. 1: the card's thread does everything; 2: a second thread sends; 3 and more: the others
  // read, at most one per socket or queue. The additional threads never sleep. thread_cpus: cores of the
  // sending thread, then of the reading threads; threads beyond the list are not pinned.
  unsigned threads = 1;
  std::vector<int> thread_cpus;
  // Software cards: stops of the card's thread and of the additional threads, which add themselves. Outlives
  // the card, whose driver calls card().time() after each round. nullptr: not recorded.
  stats::PollingThreads* stops = nullptr;
  // Allocator of the CLOPs' memory; nullptr: host memory. The socket card writes with a CPU and refuses
  // memory that a CPU cannot access.
  os::RegionAllocator* allocator = nullptr;
  Nanoseconds (*clock)() noexcept = nullptr;  // clock of the event times; set by the card
};

// Smallest power of two that holds twice the frames of one deadline, at least 2048.
std::uint32_t default_buffers(Nanoseconds deadline, std::uint32_t devices = 1);
// Throws std::invalid_argument, naming the required N, when deadline x frame rate > N / 2.
void check_buffers(std::uint32_t buffers, Nanoseconds deadline, std::uint32_t devices = 1);

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  virtual ReceiveStatus& receive_status() noexcept = 0;
  const ReceiveStatus& receive_status() const noexcept { return const_cast<Stream*>(this)->receive_status(); }
  virtual void observe(FrameObserver* observer) noexcept { receive_status().observe(observer); }
  // True if packets pass through software, so that observe_packets() and on_refused() take effect.
  virtual bool has_packet_hooks() const noexcept { return false; }
  virtual void observe_packets(PacketObserver*) noexcept {}
  virtual void on_refused(const RefusedPacketHook&) {}
  // Sets the observer of the packets that leave. Returns false if they do not pass through software.
  virtual bool observe_answers(AnswerObserver*) noexcept { return false; }
  // Sets a limit beside the answers' deadline. Returns false if the card does not apply it.
  virtual bool limit_answers(const AnswerLimit*) noexcept { return false; }
  // Lets the card decide and release the final triggers; its counts, which are valid as long as the stream.
  // Returns nullptr for a card without this unit. Called before the first packet. Throws
  // std::invalid_argument for settings that the card does not support.
  virtual const CardTriggerCounts* release_triggers(const CardTriggerOptions&, TriggerObserver*) {
    return nullptr;
  }
  // Choke of such a card: while on, and for L after, no trigger is released. Called in the card's thread.
  virtual void choke_triggers(bool) noexcept {}
  // Consumers' mailboxes, one per device: the card writes to them from now on, and sends answers found in
  // them. Returns false if the card writes to no mailbox. Called before the first packet, and without
  // mailboxes at the end, before their memory ends.
  virtual bool use_mailboxes(std::span<const contract::Mailbox>) noexcept { return false; }
  // True if use_mailboxes() has an effect.
  virtual bool writes_mailboxes() const noexcept { return false; }
  // Keeps the indices of the newest frames, for consumers in the card's thread; valid as long as the stream.
  // Returns nullptr where packets do not pass through software as frames. Called before the first packet.
  virtual const contract::RecentIndices* keep_indices() { return nullptr; }
  // Reports late frames whose buffers have been returned (FrameObserver::reaped). Called at the end of a run.
  virtual void reap_all() noexcept {}

  FrameTable& table() noexcept { return table_; }
  const FrameTable& table() const noexcept { return table_; }
  Counters& counters() noexcept { return counters_; }
  const Counters& counters() const noexcept { return counters_; }
  const contract::View& view(std::size_t device = 0) const { return memory_[device]->view(); }
  std::vector<contract::View> views() const { return consumers_.views; }
  std::vector<std::unique_ptr<contract::Memory>>& memory() noexcept { return memory_; }
  const ClopOptions& options() const noexcept { return options_; }
  // Every frame number that needs an answer has been passed and accounted for.
  bool passed_all() const noexcept { return table_.settled() == table_.end; }

 protected:
  // Throws std::invalid_argument (options) or std::system_error (no memory).
  explicit Stream(const ClopOptions& options);
  Consumers& consumers() noexcept { return consumers_; }

 private:
  ClopOptions options_;
  std::vector<std::unique_ptr<contract::Memory>> memory_;
  Consumers consumers_;
  FrameTable table_;
  Counters counters_;
};

}  // namespace nanet::card
