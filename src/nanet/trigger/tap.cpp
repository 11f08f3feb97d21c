// SPDX-License-Identifier: Apache-2.0
#include "nanet/trigger/tap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "nanet/wire/mgp.hpp"

namespace nanet::trigger {
namespace {

namespace mgp = wire::mgp;

constexpr std::size_t words = sizeof(ShownEvent) / 8;
using Words = std::array<std::uint64_t, words>;

struct Slot {
  std::atomic<std::uint64_t> version;  // odd while it is written
  std::array<std::atomic<std::uint64_t>, words> word;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // so that it works between processes

}  // namespace

struct EventTap::Memory {
  std::atomic<std::uint64_t> asked;              // events may be given up to this serial: the reader's
  alignas(64) std::atomic<std::uint64_t> given;  // the workers'
  alignas(64) std::array<Slot, slots> slot;
};

std::size_t EventTap::bytes() noexcept {
  return sizeof(Memory);
}

EventTap::EventTap(int fd) {
  void* const at = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "the monitor's shared memory cannot be mapped");
  memory_ = static_cast<Memory*>(at);
}

EventTap::~EventTap() {
  munmap(memory_, sizeof(Memory));
}

bool EventTap::wanted() const noexcept {
  return memory_->given.load(std::memory_order_relaxed) < memory_->asked.load(std::memory_order_relaxed);
}

void EventTap::give(const ShownEvent& event) noexcept {
  const std::uint64_t k = memory_->given.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = memory_->slot[k % slots];
  std::uint64_t version = slot.version.load(std::memory_order_relaxed);
  // Another worker may be so late that it still writes here: then this event is not shown.
  if ((version & 1) != 0 ||
      !slot.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire))
    return;
  Words raw;
  std::memcpy(raw.data(), &event, sizeof event);
  raw[0] = k + 1;
  for (std::size_t i = 0; i < words; ++i) slot.word[i].store(raw[i], std::memory_order_release);
  slot.version.store(version + 2, std::memory_order_release);
}

void EventTap::ask(std::uint32_t events) noexcept {
  memory_->asked.store(memory_->given.load(std::memory_order_relaxed) + std::min(events, slots / 2),
                       std::memory_order_relaxed);
}

std::vector<ShownEvent> EventTap::take() {
  std::vector<ShownEvent> out;
  const std::uint64_t given = memory_->given.load(std::memory_order_acquire);
  for (std::uint64_t k = std::max(taken_, given > slots ? given - slots : 0); k < given; ++k) {
    const Slot& slot = memory_->slot[k % slots];
    const std::uint64_t before = slot.version.load(std::memory_order_acquire);
    Words raw;
    for (std::size_t i = 0; i < words; ++i) raw[i] = slot.word[i].load(std::memory_order_acquire);
    if ((before & 1) != 0 || slot.version.load(std::memory_order_relaxed) != before || raw[0] != k + 1)
      continue;
    ShownEvent event;
    std::memcpy(static_cast<void*>(&event), raw.data(), sizeof event);
    out.push_back(event);
  }
  taken_ = given;
  return out;
}

void ShownEvent::set_times(std::span<const Segment> payloads, std::uint16_t opened,
                           std::int32_t window_lsb) noexcept {
  late.fill(unknown);
  const PmId* const end = pm.data() + std::min<std::size_t>(hits, pm.size());
  const auto own = static_cast<std::int32_t>(time % lsb_per_frame);
  for (const Segment& segment : payloads) {
    for (std::size_t at = 0; at + mgp::header_bytes <= segment.bytes;) {
      const mgp::Header header = mgp::decode_header(segment.at + at);
      if (header.length < mgp::header_bytes || at + header.length > segment.bytes) break;
      mgp::FragmentReader reader(segment.at + at, segment.bytes - at, header);
      for (mgp::Fragment f; reader.next(f);) {
        const auto begin = static_cast<std::int32_t>((f.timestamp << 8 | f.fine) & 0xFFFF);
        if (begin < opened || begin > opened + window_lsb) continue;
        for (std::uint32_t i = 0; i < f.stored; ++i) {
          const auto word = mgp::load<std::uint16_t>(f.hits + 2 * i);
          const PmId* const found =
              std::lower_bound(static_cast<const PmId*>(pm.data()), end, mgp::hit_pm(word));
          if (found == end || *found != mgp::hit_pm(word)) continue;
          std::int16_t& mine = late[static_cast<std::size_t>(found - pm.data())];
          if (mine == unknown) mine = static_cast<std::int16_t>(begin + mgp::hit_lsb(word) - own);
        }
      }
      at += (header.length + contract::payload_alignment - 1) / contract::payload_alignment *
            contract::payload_alignment;
    }
  }
}

}  // namespace nanet::trigger
