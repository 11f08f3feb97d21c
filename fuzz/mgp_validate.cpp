// SPDX-License-Identifier: Apache-2.0
// Fuzz target for MGP validation: no read beyond the input, valid packets re-encode to the same bytes, and
// their fragments are listed.
#include <cstdlib>
#include <vector>

#include "nanet/wire/mgp.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

// The first byte selects the rules; the rest is the datagram.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nanet;
  using namespace nanet::wire::mgp;
  if (size == 0) return 0;
  const std::uint8_t choice = data[0];
  const std::vector<std::byte> datagram(reinterpret_cast<const std::byte*>(data + 1),
                                        reinterpret_cast<const std::byte*>(data + size));
  Rules rules;
  rules.boards = choice & 0xF;
  if ((choice & 0x10) != 0) rules.max_payload = 9000;
  if ((choice & 0x20) != 0) rules.max_frames = 1000;

  const Checked checked = validate(datagram, rules);
  require(!name(checked.refusal).empty());
  if (checked.refusal == Refusal::short_header) return 0;
  std::vector<std::uint32_t> room((choice & 0x40) != 0 ? checked.header.events : 255);
  const Checked listed = validate(datagram, rules, room);
  require(listed.refusal == checked.refusal && listed.fragments == checked.fragments &&
          listed.hits == checked.hits);

  FragmentReader reader(datagram.data(), datagram.size(), checked.header);
  std::vector<std::byte> again(datagram.size());
  PacketWriter writer(again.data(), again.size(), checked.header);
  const bool sound = checked.refusal == Refusal::none;
  const bool marker = checked.header.has(flag::sob | flag::eob);
  std::uint32_t fragments = 0, hits = 0;
  for (Fragment f; reader.next(f); ++fragments) {
    std::vector<std::uint16_t> words(f.stored);
    for (unsigned i = 0; i < f.stored; ++i) {
      words[i] = load<std::uint16_t>(f.hits + 2 * i);
      require(!sound || hit_pm(words[i]) < pm_count);
      require(!sound || rules.boards == 0 || hit_pm(words[i]) / pms_per_board == checked.header.board);
      require(hit_word(hit_pm(words[i]), hit_lsb(words[i]) / 4) == words[i]);
    }
    require(!sound || (f.timestamp >> 8 == checked.header.frame && f.seen >= f.stored));
    if (listed.index) {
      const auto time = static_cast<std::uint32_t>(f.timestamp & 0xFF) << 8 | f.fine;
      const auto offset = static_cast<std::uint32_t>(f.hits - datagram.data() - event_header_bytes);
      require(sound && listed.index[fragments] == (time << 16 | offset));
    }
    hits += f.stored;
    if (sound) require(writer.add(f.timestamp, f.fine, words, f.seen, f.flags));
  }
  if (!sound || marker) return 0;
  require(fragments == checked.fragments && hits == checked.hits);
  require(writer.finish() == checked.header.length);
  if (checked.header.has(flag::fixed)) return 0;  // unused slots may differ from 0xFFFF
  require(std::memcmp(again.data(), datagram.data(), checked.header.length) == 0);
  return 0;
}
