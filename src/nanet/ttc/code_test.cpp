// SPDX-License-Identifier: Apache-2.0
// Tests of the TTC code: golden vectors, all errors of one and two bits, receiver.
#include "nanet/ttc/code.hpp"

#include <random>

#include "nanet/wire/golden_test.hpp"

namespace nanet::ttc {
namespace {

TEST(TtcGolden, EncodesAndDecodes) {
  for (const char* file : {"ttc_bcr", "ttc_eob", "ttc_sob", "ttc_brcst", "ttc_long"}) {
    SCOPED_TRACE(file);
    const Golden golden = read_golden(file);
    const Command command{golden.number("addressed") != 0, static_cast<std::uint32_t>(golden.number("data"))};
    std::uint64_t bits = 0;
    for (const std::byte b : golden.bytes) bits = bits << 8 | static_cast<std::uint64_t>(b);
    EXPECT_EQ(encode(command), bits);
    const unsigned width = bits_of(command.addressed) - 3;
    const Decoded decoded = decode(command.addressed, bits >> 1 & ((std::uint64_t{1} << width) - 1));
    EXPECT_EQ(decoded.status, Status::clean);
    EXPECT_EQ(decoded.command, command);
  }
  EXPECT_EQ(encode({false, bunch_reset}), 0x0067U);
  EXPECT_EQ(encode({false, end_of_burst}), 0x009BU);
  EXPECT_EQ(encode({false, start_of_burst}), 0x00FDU);
  EXPECT_EQ(encode(type_command(0x22)), 0x220BU & 0xFFFFU);
  EXPECT_EQ(check_bits({true, 0x000303B9}), 0x46U);
}

// Every error of one bit is corrected, every error of two refused.
void exhaust(const Command& command) {
  const unsigned width = bits_of(command.addressed) - 3;
  const std::uint64_t word = encode(command) >> 1 & ((std::uint64_t{1} << width) - 1);
  for (unsigned i = 0; i < width; ++i) {
    const Decoded one = decode(command.addressed, word ^ std::uint64_t{1} << i);
    ASSERT_EQ(one.status, Status::corrected);
    ASSERT_EQ(one.command, command);
    for (unsigned j = 0; j < i; ++j)
      ASSERT_EQ(decode(command.addressed, word ^ std::uint64_t{1} << i ^ std::uint64_t{1} << j).status,
                Status::refused);
  }
}

TEST(TtcCode, CorrectsOneErrorAndRefusesTwo) {
  for (std::uint32_t data = 0; data < 256; ++data) exhaust({false, data});
  std::mt19937 random{1};
  for (int i = 0; i < 1000; ++i) exhaust({true, static_cast<std::uint32_t>(random())});
}

TEST(TtcReceiver, WaitsForAnIdleLineAfterABadStopBit) {
  FrameReceiver receiver;
  Command command;
  using enum FrameReceiver::Outcome;
  const auto send = [&](std::uint64_t bits, unsigned count) {
    auto last = none;
    for (unsigned i = count; i-- > 0;) last = receiver.push(bits >> i & 1, command);
    return last;
  };
  EXPECT_EQ(send(encode({false, 3}), 16), none);  // no idle line yet
  EXPECT_EQ(send((std::uint64_t{1} << 42) - 1, 42), none);
  EXPECT_EQ(send(encode({false, 3}), 16), clean);
  EXPECT_EQ(command, (Command{false, 3}));
  EXPECT_EQ(send(encode({true, 0x303B9}) ^ 1U << 20, 42), corrected);
  EXPECT_EQ(command, (Command{true, 0x303B9}));
  EXPECT_EQ(send(encode({false, 3}) ^ 1U, 16), bad_stop);
  EXPECT_EQ(send(encode({false, 3}), 16), none);
  EXPECT_EQ(send((std::uint64_t{1} << 42) - 1, 42), none);
  EXPECT_EQ(send(encode({false, 3}) ^ 6U, 16), refused);
  EXPECT_EQ(send(encode({false, 2}), 16), clean);
}

}  // namespace
}  // namespace nanet::ttc
