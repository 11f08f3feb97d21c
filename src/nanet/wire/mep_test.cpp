// SPDX-License-Identifier: Apache-2.0
// Tests of MEP: golden vector, full packets, every refusal.
#include "nanet/wire/mep.hpp"

#include <algorithm>
#include <array>

#include "nanet/wire/golden_test.hpp"

namespace nanet::wire::mep {
namespace {

using Bytes = std::vector<std::byte>;

TEST(Mep, EncodesAndDecodesTheGoldenVector) {
  const Golden golden = read_golden("mep");
  std::array<std::byte, max_bytes> buffer;
  Writer writer(buffer, static_cast<std::uint8_t>(golden.number("source")),
                static_cast<std::uint8_t>(golden.number("board")));
  std::vector<Bytes> data;
  std::vector<Event> events;
  for (const std::string& text : golden.all("event")) {
    Event event;
    unsigned last = 0;
    std::string hex;
    std::istringstream(text) >> event.number >> event.timestamp >> last >> hex;
    event.last = last != 0;
    Bytes bytes;
    if (hex != "-")
      for (std::size_t i = 0; i < hex.size(); i += 2)
        bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
    data.push_back(bytes);
    events.push_back(event);
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    events[i].data = data[i];
    ASSERT_TRUE(writer.add(events[i]));
  }
  const auto packet = writer.finish();
  EXPECT_EQ(Bytes(packet.begin(), packet.end()), golden.bytes);
  std::array<Event, max_events> out;
  const Decoded decoded = decode(golden.bytes, 4, out.data());
  ASSERT_EQ(decoded.refusal, Refusal::none);
  EXPECT_EQ(decoded.board, 2);
  ASSERT_EQ(decoded.count, events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(out[i].number, events[i].number);
    EXPECT_EQ(out[i].timestamp, events[i].timestamp);
    EXPECT_EQ(out[i].last, events[i].last);
    EXPECT_TRUE(std::ranges::equal(out[i].data, events[i].data));
  }
}

TEST(Mep, AFullPacketAndAGapBeginAnother) {
  std::array<std::byte, max_bytes> buffer;
  Writer writer(buffer, rich_source, 0);
  EXPECT_TRUE(writer.finish().empty());
  const Bytes data(100);
  std::uint32_t number = 0xFFFFFE;  // wraps at 24 bits
  unsigned added = 0;
  while (writer.add({number, 1, false, data})) {
    number = (number + 1) & 0xFFFFFF;
    ++added;
  }
  EXPECT_EQ(added, (max_bytes - header_bytes) / 108);
  std::array<Event, max_events> out;
  const Decoded decoded = decode(writer.finish(), 1, out.data());
  EXPECT_EQ(decoded.count, added);
  EXPECT_EQ(out[2].number, 0U);
  EXPECT_TRUE(writer.add({5, 1, false, {}}));
  EXPECT_FALSE(writer.add({7, 1, false, {}}));
}

TEST(Mep, HostileBytesAreRefusedByName) {
  const Bytes sound = read_golden("mep").bytes;
  const auto refusal = [](const Bytes& bytes) {
    std::array<Event, max_events> out;
    return name(decode(bytes, 4, out.data()).refusal);
  };
  const auto broken = [&](std::size_t at, int value) {
    Bytes bytes = sound;
    bytes[at] = static_cast<std::byte>(value);
    return refusal(bytes);
  };
  EXPECT_EQ(refusal({}), "short_header");
  EXPECT_EQ(broken(3, 0x1D), "bad_source");
  EXPECT_EQ(broken(7, 4), "bad_board");
  EXPECT_EQ(broken(4, 7), "length_mismatch");
  EXPECT_EQ(broken(6, 0), "no_events");
  EXPECT_EQ(broken(6, 3), "event_past_end");
  EXPECT_EQ(broken(8, 7), "event_past_end");
  EXPECT_EQ(broken(8, 255), "event_past_end");
  EXPECT_EQ(broken(10, 0), "event_number");
  EXPECT_EQ(broken(11, 0x80), "after_last");
  EXPECT_EQ(broken(6, 1), "trailing_bytes");
}

}  // namespace
}  // namespace nanet::wire::mep
