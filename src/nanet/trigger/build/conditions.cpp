// SPDX-License-Identifier: Apache-2.0
// Detector conditions: store with one epoch per change, and per-thread reader.
#include "nanet/trigger/build/conditions.hpp"

#include <algorithm>
#include <utility>

namespace nanet::trigger {

ConditionsStore::ConditionsStore(std::shared_ptr<const Conditions> initial) {
  epoch_[0] = {0, std::move(initial)};
}

void ConditionsStore::offer(std::shared_ptr<const Conditions> next) {
  const std::lock_guard lock(mutex_);
  offered_ = std::move(next);
  pending_.store(true, std::memory_order_release);
}

void ConditionsStore::burst_began(std::uint64_t base, std::uint64_t answered) noexcept {
  if (!pending_.load(std::memory_order_acquire)) return;
  // Only this thread writes the epochs.
  if (epoch_.back().conditions && epoch_[epochs - 2].from > answered) return;
  std::shared_ptr<const Conditions> oldest;  // freed after the lock is released
  {
    const std::lock_guard lock(mutex_);
    pending_.store(false, std::memory_order_relaxed);
    oldest = std::move(epoch_.back().conditions);
    std::move_backward(epoch_.begin(), epoch_.end() - 1, epoch_.end());
    epoch_[0] = {base, std::move(offered_)};
    changes_.store(changes() + 1, std::memory_order_relaxed);
    version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  for (const Observer& observer : observers_) observer(base, *epoch_[0].conditions);
}

void ConditionsStore::follow(Observer observer) {
  observer(epoch_[0].from, *epoch_[0].conditions);
  observers_.push_back(std::move(observer));
}

std::shared_ptr<const Conditions> ConditionsStore::current() const {
  const std::lock_guard lock(mutex_);
  return epoch_[0].conditions;
}

void ConditionsReader::refresh() noexcept {
  const std::lock_guard lock(store_->mutex_);
  epoch_ = store_->epoch_;
  version_ = store_->version_.load(std::memory_order_relaxed);
}

}  // namespace nanet::trigger
