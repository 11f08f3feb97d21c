// SPDX-License-Identifier: Apache-2.0
// Detector conditions: masked photomultipliers and time offset (T0) of each channel. A change takes effect
// with the next burst for all threads, never within a burst.
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

// By PM ID, of 11 or 16 bits.
struct Conditions {
  static constexpr std::size_t pms = 65536;

  std::array<std::uint8_t, pms> masked{};  // 1: hits are dropped
  std::array<std::int16_t, pms> t0{};      // LSB, subtracted from hit times
  std::string name;                        // shown in results
};

// Passes conditions from the loading thread to the frame builders.
class ConditionsStore {
 public:
  // initial: conditions from the first frame on.
  explicit ConditionsStore(std::shared_ptr<const Conditions> initial);

  // Offers conditions for the next burst. The last offer within a burst wins. Thread-safe.
  void offer(std::shared_ptr<const Conditions> next);
  // Called by the card's thread when a burst begins, before any of its frames is closed. base: n of its frame
  // 0; answered: numbers below are answered. Postpones an offer by one burst while lagging consumers need the
  // oldest conditions kept.
  void burst_began(std::uint64_t base, std::uint64_t answered) noexcept;
  // changed(from, conditions): called at once with the current conditions. Later calls come from the card's
  // thread at each change, before any frame of the burst is closed. Register before the run; must not block.
  using Observer = std::function<void(std::uint64_t from, const Conditions& conditions)>;
  void follow(Observer observer);
  // Conditions of the newest burst.
  std::shared_ptr<const Conditions> current() const;
  // Number of changes since the start.
  std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_relaxed); }

 private:
  friend class ConditionsReader;
  struct Epoch {
    std::uint64_t from = 0;
    std::shared_ptr<const Conditions> conditions;
  };
  // Number of changes kept for lagging consumers. The card keeps at most two bursts open; 16 leaves a wide
  // margin.
  static constexpr std::size_t epochs = 16;

  std::vector<Observer> observers_;
  mutable std::mutex mutex_;  // held to copy a few pointers, once per change
  std::shared_ptr<const Conditions> offered_;
  std::array<Epoch, epochs> epoch_;  // newest first
  std::atomic<std::uint64_t> version_{1}, changes_{0};
  std::atomic<bool> pending_{false};
};

// Per-thread view of the store; locks only after a change.
class ConditionsReader {
 public:
  // store: nullptr means no conditions; otherwise outlives the reader.
  explicit ConditionsReader(const ConditionsStore* store) noexcept : store_(store) {}
  // Conditions of number n, or nullptr. Valid until the next call.
  const Conditions* at(std::uint64_t n) noexcept {
    if (!store_) return nullptr;
    if (store_->version_.load(std::memory_order_acquire) != version_) refresh();
    const Conditions* oldest = nullptr;
    for (const auto& epoch : epoch_) {
      if (epoch.conditions) oldest = epoch.conditions.get();
      if (epoch.from <= n) break;
    }
    return oldest;  // n is older than all kept changes and already answered: use the oldest
  }

 private:
  void refresh() noexcept;

  const ConditionsStore* store_;
  std::uint64_t version_ = 0;
  std::array<ConditionsStore::Epoch, ConditionsStore::epochs> epoch_;
};

}  // namespace nanet::trigger
