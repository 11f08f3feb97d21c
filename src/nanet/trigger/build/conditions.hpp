// SPDX-License-Identifier: Apache-2.0
// Running conditions of the detector: photomultipliers that are masked, and the time offset (T0) of each
// channel. New ones take effect with the next burst and never within one, whichever thread builds its frames.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "nanet/units.hpp"

namespace nanet::trigger {

inline constexpr std::int32_t max_t0_lsb = 1024;  // 99.8 ns

struct Conditions {
  std::array<std::uint8_t, pm_count> masked{};  // 1: its hits are dropped
  std::array<std::int16_t, pm_count> t0{};      // LSB, subtracted from the times of its hits
  std::string name;                             // what results call them by
};

// Hands conditions from whoever loads them to the frame builders.
class ConditionsStore {
 public:
  // initial: from the first frame on.
  explicit ConditionsStore(std::shared_ptr<const Conditions> initial);

  // Any thread: in effect from the next burst on. Of several offered within one burst the last counts.
  void offer(std::shared_ptr<const Conditions> next);
  // The card's thread, when a burst begins and before any frame of it is closed; base: n of its frame 0;
  // answered: numbers below are. What is offered waits for another burst where consumers lag by so many
  // bursts that conditions would be forgotten which they still need.
  void burst_began(std::uint64_t base, std::uint64_t answered) noexcept;
  // told(from, conditions), at once for the newest that are known, then in the card's thread whenever others
  // take effect, before any frame of theirs is closed. Before the run; must not block.
  using Told = std::function<void(std::uint64_t from, const Conditions& conditions)>;
  void follow(Told told);
  // In effect for the newest burst.
  std::shared_ptr<const Conditions> current() const;
  // How often others took effect.
  std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_relaxed); }

 private:
  friend class ConditionsReader;
  struct Epoch {
    std::uint64_t from = 0;
    std::shared_ptr<const Conditions> conditions;
  };
  // Bursts with conditions of their own that may be under way at once: far more than two, which the card
  // keeps open, for consumers that lag.
  static constexpr std::size_t epochs = 16;

  std::vector<Told> followers_;
  mutable std::mutex mutex_;  // held for the copy of a few pointers, once per change
  std::shared_ptr<const Conditions> offered_;
  std::array<Epoch, epochs> epoch_;  // newest first
  std::atomic<std::uint64_t> version_{1}, changes_{0};
  std::atomic<bool> pending_{false};
};

// A frame builder's own view of the store: no lock but after a change.
class ConditionsReader {
 public:
  // store: may be nullptr: none; else it outlives the reader.
  explicit ConditionsReader(const ConditionsStore* store) noexcept : store_(store) {}
  // Those of number n, or nullptr. Valid until the next call.
  const Conditions* at(std::uint64_t n) noexcept {
    if (!store_) return nullptr;
    if (store_->version_.load(std::memory_order_acquire) != version_) refresh();
    const Conditions* oldest = nullptr;
    for (const auto& epoch : epoch_) {
      if (epoch.conditions) oldest = epoch.conditions.get();
      if (epoch.from <= n) break;
    }
    return oldest;  // where n was answered without them long ago: the oldest that are known
  }

 private:
  void refresh() noexcept;

  const ConditionsStore* store_;
  std::uint64_t version_ = 0;
  std::array<ConditionsStore::Epoch, ConditionsStore::epochs> epoch_;
};

}  // namespace nanet::trigger
