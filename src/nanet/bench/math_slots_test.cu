// SPDX-License-Identifier: Apache-2.0
#include "nanet/bench/math_slots_test.hpp"

#include <algorithm>
#include <cstring>

#include "nanet/bench/math_slots.hpp"
#include "nanet/gpu/memory.hpp"

namespace nanet::bench {

using gpu::device_array;
using gpu::require;

std::vector<std::byte> slots_of(const rich::EventBatch& batch) {
  std::vector<std::byte> slots(batch.events * slot_bytes, std::byte{0xFF});
  for (std::uint32_t i = 0; i < batch.events; ++i) {
    const auto view = batch.view(i);
    const std::uint32_t hits = std::min(view.hits, 32u);
    std::byte* const slot = slots.data() + i * slot_bytes;
    std::memcpy(slot, &i, 4);
    slot[4] = static_cast<std::byte>(7 * i);
    slot[5] = static_cast<std::byte>(hits);
    slot[6] = static_cast<std::byte>(std::min(view.hits, 255u));
    slot[7] = static_cast<std::byte>(view.hits > 32);
    for (std::uint32_t k = 0; k < hits; ++k) {
      const auto word = static_cast<std::uint16_t>(view.pm[k] | (k * 5 % 32) << 11);  // with a time
      std::memcpy(slot + 8 + 2 * k, &word, 2);
    }
  }
  return slots;
}

std::vector<std::uint32_t> math_slots_on_device(const rich::Math& math, const rich::Geometry& geometry,
                                                const std::vector<std::byte>& slots,
                                                const trigger::DecisionOptions& decision) {
  const std::size_t events = slots.size() / slot_bytes;
  std::vector<std::uint32_t> table(slot_table_words), words(events);
  make_slot_table(geometry, table.data());
  const auto d_table = device_array<std::uint32_t>(table.size());
  const auto d_slots = device_array<std::byte>(slots.size());
  const auto d_words = device_array<std::uint32_t>(events);
  require(cudaMemcpy(d_table.get(), table.data(), table.size() * 4, cudaMemcpyHostToDevice), "a copy");
  require(cudaMemcpy(d_slots.get(), slots.data(), slots.size(), cudaMemcpyHostToDevice), "a copy");
  int multiprocessors = 1;
  require(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "the device");
  require(launch_math_slots(math, d_table.get(), d_slots.get(), events, d_words.get(), decision,
                            multiprocessors, nullptr),
          "the kernel");
  require(cudaMemcpy(words.data(), d_words.get(), events * 4, cudaMemcpyDeviceToHost), "a copy");
  return words;
}

}  // namespace nanet::bench
