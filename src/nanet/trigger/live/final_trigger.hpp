// SPDX-License-Identifier: Apache-2.0
// Final trigger: reads the answers as they leave, decides by masks, and sends a trigger datagram per frame to
// every board and to the farm. With a card that releases the triggers it sends those, and compares them.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "nanet/card/card_trigger.hpp"
#include "nanet/card/observers.hpp"
#include "nanet/os/fd.hpp"
#include "nanet/stats/counter.hpp"
#include "nanet/stats/counter_list.hpp"
#include "nanet/trigger/live/experiment_time.hpp"
#include "nanet/ttc/decisions.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::trigger {

struct FinalTriggerOptions {
  std::vector<wire::Endpoint> boards;  // empty: no final trigger, or the farm's datagrams alone
  wire::Endpoint farm;                 // of MEPs; takes datagrams at the next port. Port 0: no farm
  std::array<ttc::TriggerMask, ttc::Masks::count> masks{};
  ttc::LatePass late;  // of software cards
  Timestamp min_ticks = 3;
  Timestamp latency = 0;      // L
  Timestamp close_ticks = 0;  // see card::CardTriggerOptions
  std::uint8_t source = rich_source;
  std::optional<ExperimentTimeOptions> time;  // sets a deadline to the answers of a software card
};

// All calls in the card's thread.
class FinalTrigger final : public card::AnswerObserver, public card::TriggerObserver {
 public:
  // Throws std::system_error (socket).
  explicit FinalTrigger(const FinalTriggerOptions& options);

  // Frames n >= base belong to burst `number`.
  void burst_began(std::uint32_t number, std::uint64_t base) noexcept;
  void sent(std::uint64_t n, std::span<const std::byte> packet) noexcept override;
  bool wants_late() const noexcept override { return options_.late.downscale != 0; }
  void passed_late(std::uint64_t n, Frame frame, const card::FramePeriods& periods) noexcept override;
  // Sends a trigger that the card has released. Its fine time is that of the same decision made here, from
  // the packet that has left the card: the pulse carries none.
  void answered(std::span<const std::byte> packet) noexcept override;
  void released(std::uint8_t burst, Timestamp t, std::uint8_t kind) noexcept override;
  void flush() noexcept override;

  // Counts of a card that decides; nullptr: this object decides.
  void use_card(const card::CardTriggerCounts* counts);
  const card::CardTriggerCounts* card() const noexcept { return card_; }

  // As ttc::Decisions::Counts, readable from any thread. With a card: its releases so far, and those without
  // an equal decision made here before.
  struct Counters {
#define NANET_LINE(name, metric, text) stats::Counter name;
#define NANET_SKIP(name, metric, text)
    NANET_FINAL_COUNTERS(NANET_LINE)
    NANET_CARD_TRIGGER_COUNTERS(NANET_SKIP, NANET_LINE)
#undef NANET_SKIP
#undef NANET_LINE
  };
  const Counters& counters() const noexcept { return counters_; }

 private:
  static constexpr unsigned batch = 64;  // datagrams
  void begin_burst_of(std::uint64_t n) noexcept;
  void queue_frame(Frame frame, std::span<const wire::trigger::Trigger> triggers) noexcept;
  void queue(std::uint8_t burst, Frame frame, std::span<const wire::trigger::Trigger> triggers) noexcept;
  void queue_released() noexcept;
  void send() noexcept;
  struct Burst {
    std::uint64_t base;
    std::uint8_t number;
  };

  FinalTriggerOptions options_;
  ttc::Decisions decisions_;
  os::Fd socket_;
  std::vector<sockaddr_in> to_;  // the farm first: it has the trigger before an answer arrives
  std::array<wire::mtp::TimedPrimitive, wire::mtp::max_primitives> primitives_{};
  std::vector<std::array<std::byte, wire::trigger::max_bytes>> bytes_;
  std::vector<iovec> vectors_;
  std::vector<mmsghdr> messages_;
  unsigned used_ = 0;
  std::uint32_t sequence_ = 0;
  std::array<Burst, 16> begun_{};  // bursts that begin with a later frame
  unsigned bursts_ = 0;
  std::uint8_t burst_ = 0;
  const card::CardTriggerCounts* card_ = nullptr;
  std::array<wire::trigger::Trigger, wire::trigger::max_triggers> released_{};  // of one frame
  unsigned waiting_ = 0;
  std::uint8_t released_burst_ = 0;
  std::vector<wire::trigger::Trigger> decided_;  // with a card: by period mod its size
  Frame decided_frame_ = 0;
  Counters counters_;
};

}  // namespace nanet::trigger
