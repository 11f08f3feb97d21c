// SPDX-License-Identifier: Apache-2.0
// Tests of MTP: golden vectors and every refusal.
#include "nanet/wire/mtp.hpp"

#include <array>

#include "nanet/wire/golden_test.hpp"

namespace nanet::wire::mtp {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<Primitive> golden_primitives(const Golden& golden) {
  std::vector<Primitive> primitives;
  for (const std::string& text : golden.all("primitive")) {
    unsigned id = 0, timestamp = 0, fine = 0;
    std::istringstream(text) >> id >> timestamp >> fine;
    primitives.push_back(
        {static_cast<std::uint16_t>(id), static_cast<std::uint8_t>(timestamp), static_cast<FineTime>(fine)});
  }
  return primitives;
}

TEST(MtpGolden, EncodesAndDecodes) {
  for (const char* file : {"mtp_empty", "mtp_primitives", "mtp_late"}) {
    SCOPED_TRACE(file);
    const Golden golden = read_golden(file);
    const auto primitives = golden_primitives(golden);
    const auto frame = static_cast<Frame>(golden.number("frame"));
    const auto sub_id = static_cast<std::uint8_t>(golden.number("sub_id"));
    Bytes encoded(max_bytes);
    encoded.resize(encode(encoded.data(), frame, primitives.data(), static_cast<unsigned>(primitives.size()),
                          sub_id, static_cast<std::uint8_t>(golden.number("source"))));
    EXPECT_EQ(encoded, golden.bytes);

    std::array<TimedPrimitive, max_primitives> out;
    const Decoded decoded = decode(golden.bytes, out.data());
    EXPECT_EQ(name(decoded.refusal), "none");
    EXPECT_EQ(decoded.header, (Header{rich_source, sub_id, static_cast<std::uint8_t>(primitives.size()),
                                      static_cast<std::uint16_t>(golden.bytes.size()), frame}));
    ASSERT_EQ(decoded.count, primitives.size());
    for (std::size_t i = 0; i < primitives.size(); ++i) {
      const Primitive& p = primitives[i];
      EXPECT_EQ(out[i], (TimedPrimitive{Lsb{frame} * 65536 + p.timestamp * 256 + p.fine, p.id}));
    }
  }
}

Bytes words(std::initializer_list<std::uint32_t> list) {
  Bytes bytes(4 * list.size());
  std::size_t at = 0;
  for (const std::uint32_t word : list) mgp::store(bytes.data() + 4 * at++, word);
  return bytes;
}
std::string refusal(const Bytes& bytes) {
  std::array<TimedPrimitive, max_primitives> out;
  const Decoded decoded = decode(bytes, out.data());
  EXPECT_TRUE(decoded.refusal == Refusal::none || decoded.count == 0);
  return std::string(name(decoded.refusal));
}

TEST(MtpDecode, NamesWhatIsWrong) {
  constexpr std::uint32_t first = 0x1C000007;
  EXPECT_EQ(refusal(words({first, 0x00000008})), "none");
  EXPECT_EQ(refusal({}), "short_header");
  EXPECT_EQ(refusal(words({first})), "short_header");
  EXPECT_EQ(refusal(words({0x1D000007, 0x00000008})), "bad_source");
  EXPECT_EQ(refusal(words({first, 0x0000000C})), "length_mismatch");
  EXPECT_EQ(refusal(words({first, 0x00000008, 7})), "length_mismatch");
  Bytes odd = words({first, 0x00000009});
  odd.push_back(std::byte{0});
  EXPECT_EQ(refusal(odd), "length_mismatch");
  EXPECT_EQ(refusal(words({first, 0x00010008})), "count_mismatch");
  EXPECT_EQ(refusal(words({first, 0x00020010, 7, 0x40000000})), "count_mismatch");
  EXPECT_EQ(refusal(words({first, 0x00000010, 7, 0x40000000})), "count_mismatch");
  EXPECT_EQ(refusal(words({first, 0x00010010, 0x40000000, 7})), "no_timestamp_word");
  EXPECT_EQ(refusal(words({first, 0x0001000C, 0x40000000})), "no_timestamp_word");
  EXPECT_EQ(refusal(words({first, 0x00010014, 7, 0x40000000, 8})), "ends_with_timestamp");
  EXPECT_EQ(refusal(words({first, 0x0000000C, 7})), "ends_with_timestamp");
  EXPECT_EQ(refusal(words({first, 0x00020014, 7, 0x40000102, 0x40000101})), "not_in_order");
  EXPECT_EQ(refusal(words({first, 0x00020014, 7, 0x40000102, 0x41000102})), "none");
  EXPECT_EQ(refusal(words({first, 0x00020018, 8, 0x40000102, 7, 0x40000103})), "not_in_order");
}

TEST(MtpDecode, EveryTimestampWordSetsTheFrame) {
  std::array<TimedPrimitive, max_primitives> out;
  const Decoded decoded =
      decode(words({0x1C000007, 0x0003001C, 7, 0x40000102, 0x00FFFFFF, 0x40000103, 0x4001FFFF}), out.data());
  ASSERT_EQ(name(decoded.refusal), "none");
  ASSERT_EQ(decoded.count, 3u);
  EXPECT_EQ(out[0], (TimedPrimitive{0x70102, 0x4000}));
  EXPECT_EQ(out[1], (TimedPrimitive{0xFFFFFF0103, 0x4000}));
  EXPECT_EQ(out[2], (TimedPrimitive{0xFFFFFFFFFF, 0x4001}));
}

TEST(MtpDecode, FullPacketIsWrittenWhole) {
  std::array<Primitive, max_primitives> primitives;
  for (unsigned i = 0; i < max_primitives; ++i) primitives[i] = {0x4000, static_cast<std::uint8_t>(i), 0};
  Bytes bytes(max_bytes);
  EXPECT_EQ(encode(bytes.data(), 3, primitives.data(), max_primitives), max_bytes);
  EXPECT_EQ(refusal(bytes), "none");
  // A 256th primitive exceeds the count: refused, and nothing is written beyond the caller's 255.
  Bytes more = bytes;
  more.resize(more.size() + 4);
  mgp::store<std::uint32_t>(more.data() + max_bytes, 0x4000FFFF);
  mgp::store<std::uint16_t>(more.data() + 4, static_cast<std::uint16_t>(more.size()));
  EXPECT_EQ(refusal(more), "count_mismatch");
}

}  // namespace
}  // namespace nanet::wire::mtp
