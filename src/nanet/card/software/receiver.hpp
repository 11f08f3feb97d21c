// SPDX-License-Identifier: Apache-2.0
// Receiver in gather mode `frame`: validates each packet, tracks bursts, sequence numbers and jumps, places
// payloads, closes frames and writes events. It has no socket and no clock: packets and times are arguments,
// so every rule of docs/formats.md can be tested to the nanosecond.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "nanet/card/counters.hpp"
#include "nanet/card/frame_table.hpp"
#include "nanet/card/observers.hpp"
#include "nanet/card/receive_status.hpp"
#include "nanet/card/software/frame_merger.hpp"
#include "nanet/card/software/segments_ahead.hpp"
#include "nanet/card/software/sequence.hpp"
#include "nanet/contract/producer.hpp"
#include "nanet/contract/recent_indices.hpp"
#include "nanet/wire/dealing.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::card {

struct ReceiverOptions {
  wire::mgp::Rules rules;
  std::uint8_t stream = 0;
  wire::Dealing dealing;                      // this node's share of the frames
  Nanoseconds timeout = 20'000'000;           // after a frame's first packet
  Nanoseconds burst_silence = 1'000'000'000;  // a burst ends this long after its last packet
  // Clock of the event times; nullptr: the time stamp of the packet, or the time, that closed the frame.
  Nanoseconds (*clock)() noexcept = nullptr;
  // Replay: frames close when complete, at EOB or SOB, or 1024 frames later; no clock is involved.
  bool replay = false;
  bool merge = false;  // write merged buffers
  std::int32_t window_lsb = 41;
};

// Interface common to both gather modes.
class Receiver : public ReceiveStatus {
 public:
  // Processes one UDP payload; stamp: its time of arrival. Refused and lost packets are counted by reason.
  void packet(std::span<const std::byte> datagram, Nanoseconds stamp,
              const WrittenSegment& written = {}) noexcept {
    const std::span<std::uint32_t> room(index_);
    checked_packet(datagram, wire::mgp::validate(datagram, options_.rules, room.first(listed_)), written,
                   stamp);
  }
  // Lists the fragments of packets that this thread validates, for the indices.
  void list_fragments() noexcept { listed_ = index_.size(); }
  // The same for a payload that another thread has validated by these rules. written: what it has written to
  // a mailbox.
  virtual void checked_packet(std::span<const std::byte> datagram, const wire::mgp::Checked& checked,
                              const WrittenSegment& written, Nanoseconds stamp) noexcept = 0;
  void checked_packet(std::span<const std::byte> datagram, const wire::mgp::Checked& checked,
                      Nanoseconds stamp) noexcept {
    checked_packet(datagram, checked, {}, stamp);
  }
  // Closes frames that have timed out. safe: time up to which all sockets have been read or found empty.
  virtual void expire(Nanoseconds safe) noexcept = 0;
  // Closes all open frames and bursts: no packet follows until a new burst.
  virtual void drain(Nanoseconds now) noexcept = 0;
  // Earliest time at which expire() may act; far in the future when nothing is open.
  virtual Nanoseconds next_timer() const noexcept = 0;
  // Called in the card's thread for each packet that validation refuses.
  void on_refused(RefusedPacketHook hook) { refused_ = std::move(hook); }
  // Replay: called repeatedly while a frame waits for an unanswered buffer or for room in the event queue.
  // The hook must let the consumer and the sender proceed. Without a hook such frames are overruns.
  void on_full(std::function<void()> hook) { full_ = std::move(hook); }
  // Called for every packet.
  void observe_packets(PacketObserver* observer) noexcept { packet_observer_ = observer; }

 protected:
  explicit Receiver(const ReceiverOptions& options) : options_(options) {}

  ReceiverOptions options_;
  std::array<std::uint32_t, wire::mgp::max_fragments> index_{};
  std::size_t listed_ = 0;  // of them, those that validation fills
  PacketObserver* packet_observer_ = nullptr;
  RefusedPacketHook refused_;
  std::function<void()> full_;
};

// Inside, frames are the indices of this node's frames (wire::Dealing), so that numbers have no gaps.
class FrameReceiver final : public Receiver {
 public:
  // consumers, table and counters outlive the receiver. They are shared with the sender, in the same thread.
  FrameReceiver(const ReceiverOptions& options, Consumers& consumers, FrameTable& table, Counters& counters);

  using Receiver::checked_packet;
  void checked_packet(std::span<const std::byte> datagram, const wire::mgp::Checked& checked,
                      const WrittenSegment& written, Nanoseconds stamp) noexcept override;
  void expire(Nanoseconds safe) noexcept override;
  void drain(Nanoseconds now) noexcept override;
  Nanoseconds next_timer() const noexcept override;
  std::int64_t missing() const noexcept override;

  // Reading threads write segments. Called before the first packet; ahead outlives the receiver.
  void write_ahead(SegmentsAhead& ahead) {
    ahead_ = &ahead;
    spoiled_.resize(2 * table_.slots());
  }

  // Keeps the indices of the newest frames, for a consumer in this thread. Called before the first packet.
  const contract::RecentIndices& keep_indices() {
    list_fragments();
    recent_ = std::make_unique<contract::RecentIndices>();
    return *recent_;
  }

  bool idle() const noexcept { return !current_.active && !old_.active; }

 private:
  using Header = wire::mgp::Header;
  struct Board {
    SequenceTracker sequence;
    bool has_frame = false, jumping = false, sob_pending = false, sob = false, eob = false;
    Frame newest = 0, jump_frame = 0;
    Frame eob_frames = 0;  // number of frames up to the last one
    Sequence jump_sequence = 0;
  };
  struct Burst {
    bool active = false;   // may have open frames
    bool ending = false;   // last frame fixed; no further frames
    bool over = false;     // older of two bursts: no packet is expected, not even an EOB
    bool started = false;  // a frame that needs an answer exists, or the SOB has arrived
    BurstEnd how = BurstEnd::eob;
    std::uint8_t number = 0;
    std::uint32_t extended = 0;
    std::uint64_t base = 0, open = 0;  // open: frames opened and not closed
    Frame next = 0;                    // frames below are known
    Nanoseconds last_packet = 0, close_at = 0;
    std::array<Board, max_boards> board;
  };
  struct Timer {
    std::uint64_t n;
    Nanoseconds first;
  };
  struct PendingOverrun {
    std::uint64_t n = 0;
    Frame frame = 0;
    std::uint32_t count = 0;
    Nanoseconds time = 0;
  };

  void receive(std::span<const std::byte> datagram, const wire::mgp::Checked& checked,
               Nanoseconds stamp) noexcept;
  void lose(Lost reason) noexcept { ++counters_.lost[static_cast<std::size_t>(reason)]; }
  // Also lists the packet.
  void lose(Lost reason, std::uint64_t n, unsigned board, Nanoseconds arrival) noexcept {
    note_lost({n, arrival, static_cast<std::uint8_t>(board), reason});
    lose(reason);
  }
  void refuse(std::span<const std::byte> datagram, wire::mgp::Refusal reason, Nanoseconds stamp) noexcept;
  bool of_a_third_burst(const Header& header) const noexcept;
  Burst* burst_of(const Header& header, Nanoseconds stamp) noexcept;
  Burst* closed_burst(Burst& burst, const Header& header, Nanoseconds stamp) noexcept;
  void begin(std::uint8_t number, Nanoseconds stamp, Nanoseconds first) noexcept;
  void marker(Burst& burst, const Header& header, Nanoseconds stamp) noexcept;
  void data(Burst& burst, const wire::mgp::Checked& checked, std::span<const std::byte> datagram,
            Nanoseconds stamp) noexcept;
  static void renew(Board& board, const Header& header) noexcept;
  static void remember(Board& board, const Header& header) noexcept;
  bool admit(Burst& burst, Board& board, const Header& header) noexcept;
  void other_node(Board& board, const Header& header) noexcept;
  void open_up_to(Burst& burst, Frame frame, Nanoseconds stamp) noexcept;
  void open(Burst& burst, Frame frame, Nanoseconds stamp) noexcept;
  void place(Burst& burst, std::uint64_t n, unsigned board, const wire::mgp::Checked& checked,
             std::span<const std::byte> datagram, Nanoseconds stamp) noexcept;
  void note_recent(std::uint64_t n, unsigned board, bool first, const wire::mgp::Checked& checked) noexcept;
  void close(std::uint64_t n, Nanoseconds now, bool timed_out) noexcept;
  contract::EventLine line_of(std::uint64_t n, std::size_t device) noexcept;
  // Index under way of a board, or nullptr.
  contract::MailboxWriter::Index* index_of(std::uint64_t n, unsigned board) noexcept {
    return indices_.empty() ? nullptr : &indices_[n & (indices_.size() - 1)][board];
  }
  void finish_segment(std::uint64_t n, unsigned board) noexcept;
  // n goes without mailbox: a segment of it may have had another content.
  void spoil(std::uint64_t n) noexcept {
    if (!spoiled_.empty()) spoiled_[n & (spoiled_.size() - 1)] = n + 1;
  }
  bool spoiled(std::uint64_t n) const noexcept {
    if (n >= current_.base && n < spoiled_below_) return true;
    return !spoiled_.empty() && spoiled_[n & (spoiled_.size() - 1)] == n + 1;
  }
  void close_all(const Burst& burst, Nanoseconds now) noexcept;
  void fix_last(Burst& burst, Nanoseconds stamp) noexcept;
  void finish_if_done(Burst& burst, Nanoseconds now) noexcept;
  void join_without_sob(Burst& burst, Frame frame) noexcept;
  void close_old_if_done(Nanoseconds now) noexcept;
  void close_overtaken(Nanoseconds now) noexcept;
  void publish_missing() noexcept;
  bool all_done(const Burst& old) const noexcept;
  contract::Event new_event(contract::EventType type, Nanoseconds now) const noexcept;
  void broadcast(const contract::Event& event) noexcept;
  bool live(const Timer& timer) const noexcept;
  void push_timer(std::uint64_t n, Nanoseconds first) noexcept;
  void overrun(std::uint64_t n, Frame frame, Nanoseconds stamp) noexcept;
  void flush_overrun(std::size_t device, bool force) noexcept;
  unsigned board_index(BoardId id) const noexcept { return id == merged_board ? 0 : id; }

  const Consumers& consumers_;
  const std::vector<contract::View>& devices_;
  std::vector<contract::EventWriter>& events_;
  std::vector<PendingOverrun> pending_;
  FrameTable& table_;
  Counters& counters_;
  std::unique_ptr<FrameMerger> merger_;  // or nullptr
  // By slot of the table and board; with mailboxes only.
  std::vector<std::array<contract::MailboxWriter::Index, contract::index_boards>> indices_;
  std::unique_ptr<contract::RecentIndices> recent_;  // or nullptr
  SegmentsAhead* ahead_ = nullptr;
  WrittenSegment written_;              // of the packet under way, until it is placed
  std::vector<std::uint64_t> spoiled_;  // n + 1; with `ahead_` only
  std::uint64_t spoiled_below_ = 0;     // so are these numbers of the current burst
  std::uint8_t expected_;
  bool any_burst_ = false, old_known_ = false;
  Burst current_, old_;
  std::int64_t missing_before_ = 0;
  std::uint32_t extended_ = 0;
  std::array<bool, 256> candidate_{};         // a packet of this new burst number has been seen
  std::array<std::uint8_t, 256> kept_sob_{};  // boards whose SOB was that packet
  std::array<Nanoseconds, 256> candidate_time_{};
  std::vector<Timer> timers_;  // ring
  std::size_t timer_head_ = 0, timer_tail_ = 0, timer_mask_;
};

}  // namespace nanet::card
