// SPDX-License-Identifier: Apache-2.0
#include "nanet/contract/memory.hpp"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

namespace nanet::contract {
namespace {

void require(bool right, const std::string& sentence) {
  if (!right) throw std::invalid_argument(sentence);
}

void check(const Shape& s) {
  require(std::has_single_bit(s.buffers),
          "buffers = " + std::to_string(s.buffers) + " is not a power of two");
  require(std::has_single_bit(s.descriptors) && s.descriptors >= s.buffers,
          "descriptors = " + std::to_string(s.descriptors) + " must be a power of two and at least buffers");
  require(std::has_single_bit(s.events) && s.events / 2 >= s.buffers + s.descriptors,
          "events = " + std::to_string(s.events) +
              " must be a power of two and at least 2 (buffers + descriptors)");
  require(s.devices >= 1 && std::has_single_bit(s.devices), "devices must be a power of two");
  require(s.boards >= 1 && s.boards <= max_boards, "boards must be 1 - 8");
  // u16 holds the end of a segment.
  require(s.segment_bytes % 64 == 0 && s.segment_bytes >= 64 && s.segment_bytes < 65536,
          "segment_bytes = " + std::to_string(s.segment_bytes) + " must be a multiple of 64 below 65536");
  require(s.packets >= 1 && s.packets <= 4096,
          "packets = " + std::to_string(s.packets) + " must be 1 - 4096");
  require(s.slot_bytes >= 64 && s.slot_bytes <= 65536 && s.slot_bytes % 16 == 0,
          "slot_bytes must be a multiple of 16");
}

constexpr std::size_t page(std::size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

class HostPlace final : public Place {
 public:
  std::byte* take(std::size_t bytes) override {
    void* at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
      throw std::system_error(
          errno, std::generic_category(),
          "cannot map " + std::to_string(bytes >> 20) + " MiB of buffers; take fewer with --buffers");
    auto* const region = static_cast<std::byte*>(at);
    madvise(region, bytes, MADV_HUGEPAGE);  // fewer TLB misses where the host allows it
    // Every page is there before the first packet: a fault on its path would cost more than all its
    // processing.
#ifdef MADV_POPULATE_WRITE
    if (madvise(region, bytes, MADV_POPULATE_WRITE) != 0)
#endif
      for (std::size_t i = 0; i < bytes; i += 4096) region[i] = std::byte{0};
    return region;
  }
  void give_back(std::byte* at, std::size_t bytes) noexcept override { munmap(at, bytes); }
};

}  // namespace

Place& host_place() noexcept {
  static HostPlace place;
  return place;
}

Memory::Memory(const Shape& shape, Place& place) : place_(&place) {
  check(shape);
  const std::size_t clop = page(shape.buffer_bytes() * shape.buffers + tail_bytes);
  const std::size_t returned = page(sizeof(std::uint32_t) * shape.buffers);
  const std::size_t queue = page(sizeof(Event) * shape.events);
  const std::size_t ring = page(sizeof(Descriptor) * shape.descriptors);
  const std::size_t sends = page(std::size_t{send_buffer_bytes} * shape.buffers);
  // The two single words lie on a page of their own, a cache line each: the consumer writes both.
  bytes_ = clop + returned + queue + ring + sends + 4096;
  region_ = place.take(bytes_);
  std::byte* p = region_;
  view_.shape = shape;
  view_.bytes = bytes_;
  view_.clop = p;
  view_.returned = reinterpret_cast<std::uint32_t*>(p += clop);
  view_.queue = reinterpret_cast<Event*>(p += returned);
  view_.ring = reinterpret_cast<Descriptor*>(p += queue);
  view_.send_buffers = p += ring;
  view_.finished = reinterpret_cast<std::uint64_t*>(p += sends);
  view_.doorbell = reinterpret_cast<std::uint32_t*>(p + 64);
}

Memory::~Memory() {
  place_->give_back(region_, bytes_);
}

}  // namespace nanet::contract
