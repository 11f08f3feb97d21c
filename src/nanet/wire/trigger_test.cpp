// SPDX-License-Identifier: Apache-2.0
// Tests of the trigger datagram: golden vector and every refusal.
#include "nanet/wire/trigger.hpp"

#include <array>

#include "nanet/wire/golden_test.hpp"

namespace nanet::wire::trigger {
namespace {

TEST(TriggerDatagram, EncodesAndDecodesTheGoldenVector) {
  const Golden golden = read_golden("trigger_datagram");
  std::vector<Trigger> triggers;
  for (const std::string& text : golden.all("trigger")) {
    unsigned timestamp = 0, kind = 0, fine = 0, event = 0;
    std::istringstream(text) >> timestamp >> kind >> fine >> event;
    triggers.push_back({timestamp, static_cast<std::uint8_t>(kind), static_cast<FineTime>(fine),
                        static_cast<std::uint16_t>(event)});
  }
  const Header header{
      static_cast<std::uint8_t>(golden.number("flags")), static_cast<std::uint8_t>(golden.number("burst")),
      static_cast<std::uint8_t>(triggers.size()), static_cast<std::uint32_t>(golden.number("sequence")),
      static_cast<Frame>(golden.number("frame"))};
  std::vector<std::byte> encoded(max_bytes);
  encoded.resize(encode(encoded.data(), header, triggers));
  EXPECT_EQ(encoded, golden.bytes);
  Header got;
  std::array<Trigger, max_triggers> out;
  ASSERT_EQ(decode(golden.bytes, got, out.data()), Refusal::none);
  EXPECT_EQ(got, header);
  EXPECT_EQ(std::vector<Trigger>(out.begin(), out.begin() + got.count), triggers);
}

TEST(TriggerDatagram, HostileBytesAreRefusedByName) {
  const std::vector<std::byte> sound = read_golden("trigger_datagram").bytes;
  const auto refusal = [](const std::vector<std::byte>& bytes) {
    Header header;
    std::array<Trigger, max_triggers> out;
    return name(decode(bytes, header, out.data()));
  };
  const auto broken = [&](std::size_t at, int value) {
    auto bytes = sound;
    bytes[at] = static_cast<std::byte>(value);
    return refusal(bytes);
  };
  EXPECT_EQ(refusal({}), "short_header");
  EXPECT_EQ(refusal({sound.begin(), sound.begin() + 15}), "short_header");
  EXPECT_EQ(broken(0, 2), "bad_version");
  EXPECT_EQ(broken(1, 2), "reserved_bits");
  EXPECT_EQ(broken(11, 1), "reserved_bits");
  EXPECT_EQ(broken(12, 1), "reserved_bits");
  EXPECT_EQ(broken(3, 3), "length_mismatch");
  EXPECT_EQ(broken(3, 255), "length_mismatch");
  EXPECT_EQ(broken(17, 0), "outside_frame");
  EXPECT_EQ(broken(20, 64), "bad_type");
  EXPECT_EQ(broken(16, 0x46), "not_in_order");
  EXPECT_EQ(broken(30, 1), "event_gap");
  EXPECT_EQ(broken(21, 1), "none");
}

}  // namespace
}  // namespace nanet::wire::trigger
