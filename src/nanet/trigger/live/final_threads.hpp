// SPDX-License-Identifier: Apache-2.0
// Threads of the final trigger: the answers are copied in the card's thread, decided and sent in others, one
// per destination. Each makes the same decisions: they cost less than a datagram.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "nanet/card/frame_periods.hpp"
#include "nanet/trigger/live/final_trigger.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::trigger {

class FinalThreads final : public card::AnswerObserver {
 public:
  // keep_off: CPUs of other threads. Throws std::system_error (socket, thread).
  FinalThreads(const FinalTriggerOptions& options, const std::vector<int>& keep_off);
  ~FinalThreads() override;

  // All in the card's thread, up to flush().
  void burst_began(std::uint32_t number, std::uint64_t base) noexcept;
  void sent(std::uint64_t n, std::span<const std::byte> packet) noexcept override;
  bool wants_late() const noexcept override { return first().wants_late(); }
  void passed_late(std::uint64_t n, Frame frame, const card::FramePeriods& periods) noexcept override;
  void flush() noexcept override {}
  // Sends the queued answers' triggers, and ends the threads.
  void stop() noexcept;

  // Decisions of the first thread: those of all.
  const FinalTrigger& first() const noexcept { return lines_.front()->trigger; }
  std::uint64_t datagrams() const noexcept;
  // Datagrams that the network rejected, and answers that found a full queue.
  std::uint64_t send_errors() const noexcept;

 private:
  static constexpr std::size_t room = 8192;  // entries: 50 ms at 10 MHz
  enum class Kind : std::uint8_t { answer, late, burst };
  struct Entry {
    std::uint64_t n = 0;                  // of the answer; base of a burst
    std::uint32_t number = 0, bytes = 0;  // of the burst, or frame without an answer; of the answer
    Kind kind = Kind::answer;
    card::FramePeriods periods;
    std::array<std::byte, wire::mtp::max_bytes> packet;
  };
  struct Line {
    explicit Line(const FinalTriggerOptions& options) : trigger(options), entries(room) {}
    FinalTrigger trigger;
    std::vector<Entry> entries;
    alignas(64) std::atomic<std::uint64_t> written{0};
    stats::Counter full;
    alignas(64) std::atomic<std::uint64_t> read{0};
    std::jthread thread;
  };
  template <class Fill>
  void push(const Fill& fill) noexcept;
  void run(Line& line, const std::vector<int>& keep_off) noexcept;

  std::vector<std::unique_ptr<Line>> lines_;
  std::atomic<bool> ending_{false};
};

}  // namespace nanet::trigger
