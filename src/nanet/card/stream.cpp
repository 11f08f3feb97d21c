// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/stream.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

namespace nanet::card {
namespace {

std::uint64_t deadline_frames(Nanoseconds deadline) {
  return static_cast<std::uint64_t>(
      std::ceil(static_cast<double>(std::max<Nanoseconds>(deadline, 0)) / frame_ns));
}

std::vector<std::unique_ptr<contract::Memory>> make_memory(const ClopOptions& o) {
  contract::Shape shape;
  shape.gather = o.gather;
  // Segments lie at 64 + board x segment_bytes, so the highest board determines their number.
  shape.boards = o.rules.boards ? static_cast<std::uint32_t>(std::bit_width(o.rules.boards)) : 1;
  shape.segment_bytes = o.segment_bytes;
  shape.packets = o.packets;
  shape.slot_bytes =
      static_cast<std::uint32_t>((std::max<std::size_t>(o.rules.max_payload, 1472) + 15) / 16 * 16);
  shape.devices = o.devices;
  if (o.buffers != 0 && !std::has_single_bit(o.buffers))
    throw std::invalid_argument("buffers = " + std::to_string(o.buffers) + " is not a power of two; take " +
                                std::to_string(std::bit_ceil(o.buffers)));
  shape.buffers = o.buffers
                      ? o.buffers
                      : (o.gather == contract::Gather::frame ? default_buffers(o.deadline, o.devices) : 256);
  if (o.gather == contract::Gather::frame) check_buffers(shape.buffers, o.deadline, o.devices);
  shape.descriptors = shape.buffers;
  shape.events = 4 * shape.buffers;
  std::vector<std::unique_ptr<contract::Memory>> memory;
  for (std::uint32_t d = 0; d < o.devices; ++d)
    memory.push_back(
        std::make_unique<contract::Memory>(shape, o.allocator ? *o.allocator : os::host_allocator()));
  return memory;
}

std::vector<contract::View> views_of(const std::vector<std::unique_ptr<contract::Memory>>& memory) {
  std::vector<contract::View> views;
  for (const auto& m : memory) views.push_back(m->view());
  return views;
}

}  // namespace

std::uint32_t default_buffers(Nanoseconds deadline, std::uint32_t devices) {
  const std::uint64_t frames = (2 * deadline_frames(deadline) + devices - 1) / devices;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(2048, std::bit_ceil(frames)));
}

void check_buffers(std::uint32_t buffers, Nanoseconds deadline, std::uint32_t devices) {
  if (2 * deadline_frames(deadline) <= std::uint64_t{buffers} * devices) return;
  const std::uint64_t frames = (2 * deadline_frames(deadline) + devices - 1) / devices;
  throw std::invalid_argument(
      "buffers = " + std::to_string(buffers) + " cannot hold twice the frames of a deadline of " +
      std::to_string(deadline / 1000) + " us; take at least " + std::to_string(std::bit_ceil(frames)));
}

Stream::Stream(const ClopOptions& options)
    : options_(options),
      memory_(make_memory(options)),
      consumers_(views_of(memory_)),
      table_(consumers_.views[0].shape.buffers, options.devices, options.rules.max_frames, options.dealing) {}

}  // namespace nanet::card
