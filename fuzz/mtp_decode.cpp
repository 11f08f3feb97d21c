// SPDX-License-Identifier: Apache-2.0
// Fuzz target for MTP decoding: no read beyond the input, and primitives of one frame re-encode to the same
// packet.
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "nanet/wire/mtp.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nanet;
  using namespace nanet::wire;
  const std::vector<std::byte> datagram(reinterpret_cast<const std::byte*>(data),
                                        reinterpret_cast<const std::byte*>(data + size));
  std::vector<mtp::TimedPrimitive> out(mtp::max_primitives);
  const mtp::Decoded decoded = mtp::decode(datagram, out.data());
  if (decoded.refusal != mtp::Refusal::none) return 0;
  if (decoded.count != decoded.header.primitives) std::abort();

  bool one_frame = size == mtp::header_bytes + (decoded.count > 0 ? 4 + 4 * decoded.count : 0);
  std::vector<mtp::Primitive> primitives;
  for (unsigned i = 0; i < decoded.count; ++i) {
    const mtp::TimedPrimitive& p = out[i];
    if (i > 0 && p.time < out[i - 1].time) std::abort();
    if (p.id >> 8 == 0) std::abort();
    one_frame = one_frame && p.time / lsb_per_frame == decoded.header.frame;
    primitives.push_back({p.id, static_cast<std::uint8_t>(p.time >> 8), static_cast<FineTime>(p.time)});
  }
  if (!one_frame) return 0;
  std::array<std::byte, mtp::max_bytes> again;
  const std::size_t bytes = mtp::encode(again.data(), decoded.header.frame, primitives.data(), decoded.count,
                                        decoded.header.sub_id);
  if (bytes != size || std::memcmp(again.data(), data, size) != 0) std::abort();
  return 0;
}
