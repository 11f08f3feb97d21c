// SPDX-License-Identifier: Apache-2.0
// Fuzz target for trigger datagram, MEP, sync datagram and level 1: no read beyond the input; accepted
// packets encode to the same bytes.
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "nanet/trigger/live/level1.hpp"
#include "nanet/ttc/time_base.hpp"
#include "nanet/wire/mep.hpp"
#include "nanet/wire/trigger.hpp"

namespace {

using Bytes = std::vector<std::byte>;

void require(bool holds) {
  if (!holds) std::abort();
}

void trigger(const Bytes& input) {
  namespace trigger = nanet::wire::trigger;
  trigger::Header header;
  std::vector<trigger::Trigger> out(trigger::max_triggers);
  if (trigger::decode(input, header, out.data()) != trigger::Refusal::none) return;
  std::array<std::byte, trigger::max_bytes> again;
  const std::size_t bytes = trigger::encode(again.data(), header, std::span(out).first(header.count));
  require(bytes == input.size() && std::memcmp(again.data(), input.data(), bytes) == 0);
}

void mep(const Bytes& input) {
  namespace mep = nanet::wire::mep;
  std::vector<mep::Event> out(mep::max_events);
  const mep::Decoded decoded = mep::decode(input, 4, out.data());
  if (decoded.refusal != mep::Refusal::none || input.size() > mep::max_bytes) return;
  std::array<std::byte, mep::max_bytes> buffer;
  mep::Writer writer(buffer, nanet::rich_source, decoded.board);
  for (unsigned i = 0; i < decoded.count; ++i) require(writer.add(out[i]));
  const auto again = writer.finish();
  require(again.size() == input.size());
  std::array<mep::Event, mep::max_events> twice;
  require(mep::decode(again, 4, twice.data()).count == decoded.count);
}

void sync(const Bytes& input) {
  nanet::ttc::Sync sync;
  if (nanet::ttc::decode(input, sync) != nanet::ttc::SyncRefusal::none) return;
  std::array<std::byte, nanet::ttc::sync_bytes> again;
  nanet::ttc::encode(std::span<std::byte, nanet::ttc::sync_bytes>(again), sync);
  require(std::memcmp(again.data(), input.data(), again.size()) == 0);
}

// One board, so that every event of an accepted packet is complete, and reconstructed.
void level1(const Bytes& input) {
  nanet::trigger::Level1Options options;
  options.rules.boards = 1;
  options.open = 256;
  options.algorithm = "math";
  static nanet::trigger::Level1Builder builder(options);
  builder.packet(input);
  builder.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes input(reinterpret_cast<const std::byte*>(data),
                    reinterpret_cast<const std::byte*>(data + size));
  trigger(input);
  mep(input);
  sync(input);
  level1(input);
  return 0;
}
