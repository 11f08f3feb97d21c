// SPDX-License-Identifier: Apache-2.0
#include "nanet/contract/memory.hpp"

#include <bit>
#include <stdexcept>
#include <string>

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
  require(s.devices >= 1 && std::has_single_bit(s.devices),
          "devices = " + std::to_string(s.devices) + " must be a power of two: 1, 2, 4 ...");
  require(s.boards >= 1 && s.boards <= max_boards, "boards must be 1 - 8");
  // Segment ends are u16.
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

}  // namespace

std::size_t region_bytes(const Shape& shape) noexcept {
  return page(shape.buffer_bytes() * shape.buffers + tail_bytes) +
         page(sizeof(std::uint32_t) * shape.buffers) + page(sizeof(Event) * shape.events) +
         page(sizeof(Descriptor) * shape.descriptors) + page(std::size_t{send_buffer_bytes} * shape.buffers) +
         page(1);
}

View lay_out(const Shape& shape, std::byte* region) noexcept {
  View view;
  view.shape = shape;
  view.bytes = region_bytes(shape);
  std::byte* p = region;
  view.clop = p;
  p += page(shape.buffer_bytes() * shape.buffers + tail_bytes);
  view.returned = reinterpret_cast<std::uint32_t*>(p);
  p += page(sizeof(std::uint32_t) * shape.buffers);
  view.queue = reinterpret_cast<Event*>(p);
  p += page(sizeof(Event) * shape.events);
  view.ring = reinterpret_cast<Descriptor*>(p);
  p += page(sizeof(Descriptor) * shape.descriptors);
  view.send_buffers = p;
  p += page(std::size_t{send_buffer_bytes} * shape.buffers);
  // The two single words, both written by the consumer, share a separate page with one cache line each.
  view.finished = reinterpret_cast<std::uint64_t*>(p);
  view.doorbell = reinterpret_cast<std::uint32_t*>(p + 64);
  return view;
}

Memory::Memory(const Shape& shape, os::RegionAllocator& allocator) : allocator_(&allocator) {
  check(shape);
  bytes_ = region_bytes(shape);
  region_ = allocator.allocate(bytes_);
  view_ = lay_out(shape, region_);
}

Memory::~Memory() {
  allocator_->free(region_, bytes_);
}

}  // namespace nanet::contract
