// SPDX-License-Identifier: Apache-2.0
// Event sample rings: seqlock slots, in-process ring, ring in shared memory.
#include "nanet/stats/event_sample.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace nanet::stats {

bool EventSlot::write(const EventSample& event) noexcept {
  std::uint64_t version = version_.load(std::memory_order_relaxed);
  if ((version & 1) != 0 ||
      !version_.compare_exchange_strong(version, version + 1, std::memory_order_acquire))
    return false;
  std::array<std::uint64_t, words> raw;
  std::memcpy(raw.data(), &event, sizeof event);
  for (std::size_t i = 0; i < words; ++i) word_[i].store(raw[i], std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
  return true;
}

bool EventSlot::read(EventSample& event) const noexcept {
  const std::uint64_t before = version_.load(std::memory_order_acquire);
  std::array<std::uint64_t, words> raw;
  for (std::size_t i = 0; i < words; ++i) raw[i] = word_[i].load(std::memory_order_acquire);
  std::memcpy(static_cast<void*>(&event), raw.data(), sizeof event);
  return (before & 1) == 0 && version_.load(std::memory_order_relaxed) == before;
}

void EventRing::push(const EventSample& event) noexcept {
  slot_[pushed_ % slots].write(event);
  ++pushed_;
}

std::vector<EventSample> EventRing::events() const {
  std::vector<EventSample> out;
  const std::uint64_t pushed = pushed_;
  EventSample event;
  for (std::uint64_t k = pushed > slots ? pushed - slots : 0; k < pushed; ++k)
    if (slot_[k % slots].read(event)) out.push_back(event);
  return out;
}

struct SharedEventRing::Memory {
  std::atomic<std::uint64_t> requested;              // written by the reader: highest serial requested
  alignas(64) std::atomic<std::uint64_t> published;  // written by the workers
  alignas(64) std::array<EventSlot, slots> slot;
};

std::size_t SharedEventRing::bytes() noexcept {
  return sizeof(Memory);
}

SharedEventRing::SharedEventRing(int fd) {
  void* const at = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "the monitor's shared memory cannot be mapped");
  memory_ = static_cast<Memory*>(at);
}

SharedEventRing::~SharedEventRing() {
  munmap(memory_, sizeof(Memory));
}

bool SharedEventRing::requested() const noexcept {
  return memory_->published.load(std::memory_order_relaxed) <
         memory_->requested.load(std::memory_order_relaxed);
}

void SharedEventRing::publish(const EventSample& event) noexcept {
  const std::uint64_t k = memory_->published.fetch_add(1, std::memory_order_relaxed);
  EventSample sample = event;
  sample.serial = k + 1;
  memory_->slot[k % slots].write(sample);  // a worker one lap behind may hold the slot: the sample is dropped
}

void SharedEventRing::request(std::uint32_t events) noexcept {
  memory_->requested.store(memory_->published.load(std::memory_order_relaxed) + std::min(events, slots / 2),
                           std::memory_order_relaxed);
}

std::vector<EventSample> SharedEventRing::take() {
  std::vector<EventSample> out;
  const std::uint64_t published = memory_->published.load(std::memory_order_acquire);
  EventSample event;
  for (std::uint64_t k = std::max(taken_, published > slots ? published - slots : 0); k < published; ++k)
    if (memory_->slot[k % slots].read(event) && event.serial == k + 1) out.push_back(event);
  taken_ = published;
  return out;
}

}  // namespace nanet::stats
