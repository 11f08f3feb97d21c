// SPDX-License-Identifier: Apache-2.0
// Fuzz target for receiver, executor and sender: no invalid memory access. After the drain the account
// balances and every MTP packet is valid.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <vector>

#include "nanet/trigger/chain_test.hpp"
#include "nanet/wire/mtp.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

// Byte 0: b3:0 boards, b4 small segments, b5 short spill. Then datagrams: u16, followed by `length` bytes.
// b10:0: length; b11: prepend the header of the previous datagram, with the next sequence number; b12: run
// the executor once afterwards.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nanet;
  namespace mgp = wire::mgp;
  if (size == 0) return 0;
  static const auto algorithm = rich::make_reconstructor("math", {}, rich::Geometry::make());
  card::ClopOptions options = trigger::Chain::options(data[0] & 0xF);
  options.segment_bytes = data[0] & 0x10 ? 256 : 1536;
  options.rules.max_frames = data[0] & 0x20 ? 1000 : 20'000;
  trigger::Chain chain(options, *algorithm);

  std::vector<std::byte> before(mgp::header_bytes), datagram;
  std::size_t datagrams = 0;
  for (std::size_t at = 1; at + 2 <= size && datagrams < 400; ++datagrams) {
    const unsigned word = data[at] | unsigned{data[at + 1]} << 8;
    at += 2;
    const std::size_t length = std::min<std::size_t>(word & 0x7FF, size - at);
    const auto* bytes = reinterpret_cast<const std::byte*>(data + at);
    datagram.clear();
    if (word & 0x800) {
      datagram = before;
      mgp::store(datagram.data() + 8, mgp::load<Sequence>(datagram.data() + 8) + 1);
      mgp::store(datagram.data() + 4, static_cast<std::uint16_t>(mgp::header_bytes + length));
    }
    datagram.insert(datagram.end(), bytes, bytes + length);
    at += length;
    if (datagram.size() >= mgp::header_bytes)
      before.assign(datagram.begin(), datagram.begin() + mgp::header_bytes);
    chain.packet(datagram);
    if (word & 0x1000) chain.turn();
  }
  chain.drain();

  const trigger::Account account = chain.account();
  require(account.balances());
  require(account.packets_in == datagrams);
  require(account.frames_answered == account.frames_in);  // a replay has no deadline and waits for buffers
  require(chain.sent().size() == account.frames_out);
  std::uint64_t primitives = 0;
  for (const auto& packet : chain.sent()) {
    std::array<wire::mtp::TimedPrimitive, wire::mtp::max_primitives> out;
    const auto decoded = wire::mtp::decode(packet, out.data());
    require(decoded.refusal == wire::mtp::Refusal::none);
    primitives += decoded.count;
  }
  require(primitives == account.primitives_out);
  return 0;
}
