// SPDX-License-Identifier: Apache-2.0
// Fuzz target for the index of a segment: with any bytes and any entries, a consumer accepts the fragments of
// the walk over the bytes, or nothing.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "nanet/gpu/frame/fragments.hpp"

// First four bytes: number of fragments that the event line states, bytes of entries that replace the walk's,
// their position, room for entries. Then those entries, then the segment.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nanet;
  if (size < 4) return 0;
  const std::size_t replaced = std::min<std::size_t>(data[1], size - 4),
                    room = data[3] % (contract::index_entries + 1);
  const std::uint8_t* const segment_at = data + 4 + replaced;
  const std::size_t bytes = std::min<std::size_t>(size - 4 - replaced, contract::mailbox_segment_bytes);
  // Readable to a multiple of 16, as in shared memory.
  struct alignas(16) Sixteen {
    std::byte bytes[16];
  };
  std::vector<Sixteen> segment(bytes / 16 + 1);
  std::memcpy(segment.data(), segment_at, bytes);
  std::vector<std::uint32_t> walk(contract::index_entries), given(contract::index_entries);
  const auto length = static_cast<std::uint32_t>(bytes);
  const std::byte* const at = segment.data()->bytes;
  const std::uint32_t found = contract::index_fragments(at, length, {walk.data(), room});
  given = walk;
  const std::size_t from = 4 * std::size_t{data[2]} % (4 * given.size());
  std::memcpy(reinterpret_cast<std::byte*>(given.data()) + from, data + 4,
              std::min(replaced, 4 * given.size() - from));
  const std::uint32_t stated = data[0] <= room ? data[0] : found == contract::no_index ? 0 : found;
  const gpu::IndexedBoard board(at, length, stated, given.data());
  bool sound = board.sound();
  for (std::uint32_t i = 0; sound && i < stated; ++i) {
    const auto fragment = board(i);
    sound = fragment.sound;
    if (sound && fragment.offset + 8 + 2 * fragment.stored > length) std::abort();
  }
  if (found != contract::no_index) {
    const bool equal = found == stated && std::equal(walk.begin(), walk.begin() + found, given.begin());
    if (sound != equal) std::abort();
  } else if (sound) {
    std::abort();
  }
  return 0;
}
