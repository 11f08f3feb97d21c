// SPDX-License-Identifier: Apache-2.0
// Tests of MGP: golden vectors, and every refusal alone, at its limits and combined with its neighbours in
// the list.
#include "nanet/wire/mgp.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <random>

#include "nanet/wire/golden_test.hpp"

namespace nanet::wire::mgp {
namespace {

using Bytes = std::vector<std::byte>;

struct GoldenEvent {
  Timestamp timestamp;
  FineTime fine;
  std::uint8_t seen, flags;
  std::vector<std::uint16_t> hits;
};

GoldenEvent parse_event(const std::string& text, bool wide = false) {
  std::istringstream words(text);
  unsigned timestamp = 0, fine = 0, seen = 0, flags = 0;
  words >> timestamp >> fine >> seen >> flags;
  GoldenEvent event{timestamp,
                    static_cast<FineTime>(fine),
                    static_cast<std::uint8_t>(seen),
                    static_cast<std::uint8_t>(flags),
                    {}};
  for (std::string hit; words >> hit;) {
    const auto colon = hit.find(':');
    const auto pm = static_cast<PmId>(std::stoi(hit.substr(0, colon)));
    event.hits.push_back(wide ? pm : hit_word(pm, std::stoi(hit.substr(colon + 1))));
  }
  return event;
}

Header golden_header(const Golden& golden) {
  Header h;
  h.source = static_cast<std::uint8_t>(golden.number("source"));
  h.board = static_cast<BoardId>(golden.number("board"));
  h.version = static_cast<std::uint8_t>(golden.number("version"));
  h.flags = static_cast<std::uint8_t>(golden.number("flags"));
  h.length = static_cast<std::uint16_t>(golden.number("length"));
  h.events = static_cast<std::uint8_t>(golden.number("events"));
  h.index = static_cast<std::uint8_t>(golden.number("index"));
  h.encoding = static_cast<std::uint8_t>(golden.number("encoding"));
  h.sequence = static_cast<Sequence>(golden.number("sequence"));
  h.frame = static_cast<Frame>(golden.number("frame"));
  h.burst = static_cast<std::uint8_t>(golden.number("burst"));
  return h;
}

TEST(MgpGolden, Header) {
  for (const char* file :
       {"mgp_header", "mgp_packed", "mgp_fixed", "mgp_merged", "mgp_wide", "mgp_sob", "mgp_eob"}) {
    const Golden golden = read_golden(file);
    const Header expected = golden_header(golden);
    EXPECT_EQ(decode_header(golden.bytes.data()), expected) << file;
    Bytes encoded(header_bytes);
    encode_header(encoded.data(), expected);
    EXPECT_EQ(encoded, Bytes(golden.bytes.begin(), golden.bytes.begin() + header_bytes)) << file;
  }
  EXPECT_EQ(read_golden("mgp_fixed").bytes.size(), 1168u);  // the published size of 16 events
}

TEST(MgpWide, BoardsAndEncoding) {
  const Golden golden = read_golden("mgp_wide");
  Rules rules{.encoding = wide_hit_encoding,
              .first_pm = {0, 8192, 16384, 24576, 32768, 40960, 49152, 57344, 65536}};
  EXPECT_EQ(name(validate(golden.bytes, rules).refusal), "none");
  EXPECT_EQ(name(validate(golden.bytes, {}).refusal), "bad_encoding");
  rules.first_pm = {0, 8193, 16384, 24576, 32768, 40960, 49152, 57344, 65536};
  EXPECT_EQ(name(validate(golden.bytes, rules).refusal), "pm_of_other_board");
  rules.first_pm = {0, 8192, 16383, 16383, 16383, 16383, 16383, 16383, 16383};
  EXPECT_EQ(name(validate(golden.bytes, rules).refusal), "pm_out_of_range");
  rules.first_pm.fill(65536);
  rules.first_pm[0] = 0;
  EXPECT_EQ(name(validate(golden.bytes, rules).refusal), "bad_board");
}

TEST(MgpGolden, EventPackets) {
  for (const char* file : {"mgp_packed", "mgp_fixed", "mgp_merged", "mgp_wide"}) {
    SCOPED_TRACE(file);
    const Golden golden = read_golden(file);
    const Header header = golden_header(golden);
    std::vector<GoldenEvent> events;
    for (const std::string& text : golden.all("event"))
      events.push_back(parse_event(text, header.encoding == wide_hit_encoding));

    Bytes encoded(golden.bytes.size());
    PacketWriter writer(encoded.data(), encoded.size(), header);
    std::uint32_t hits = 0;
    for (const GoldenEvent& e : events) {
      ASSERT_TRUE(writer.add(e.timestamp, e.fine, e.hits, e.seen, e.flags));
      hits += static_cast<std::uint32_t>(e.hits.size());
    }
    EXPECT_EQ(writer.finish(), header.length);
    EXPECT_EQ(encoded, golden.bytes);

    Rules rules;
    rules.boards = header.board == merged_board ? 0 : 0xF;
    rules.encoding = header.encoding;
    if (header.encoding == wide_hit_encoding)
      rules.first_pm = {0, 8192, 16384, 24576, 32768, 40960, 49152, 57344, 65536};
    const Checked checked = validate(golden.bytes, rules);
    EXPECT_EQ(name(checked.refusal), "none");
    EXPECT_EQ(checked.header, header);
    EXPECT_EQ(checked.fragments, events.size());
    EXPECT_EQ(checked.hits, hits);

    FragmentReader reader(golden.bytes.data(), golden.bytes.size(), header);
    Fragment f;
    for (const GoldenEvent& e : events) {
      ASSERT_TRUE(reader.next(f));
      EXPECT_EQ(f.timestamp, e.timestamp);
      EXPECT_EQ(f.fine, e.fine);
      EXPECT_EQ(f.seen, e.seen);
      EXPECT_EQ(f.flags, e.flags);
      ASSERT_EQ(f.stored, e.hits.size());
      for (unsigned i = 0; i < f.stored; ++i) EXPECT_EQ(load<std::uint16_t>(f.hits + 2 * i), e.hits[i]);
    }
    EXPECT_FALSE(reader.next(f));
  }
}

TEST(MgpGolden, BurstMarkers) {
  const Golden sob = read_golden("mgp_sob");
  EXPECT_EQ(name(validate(sob.bytes, {}).refusal), "none");
  const Golden eob = read_golden("mgp_eob");
  EXPECT_EQ(name(validate(eob.bytes, {}).refusal), "none");
  const EobCounts expected{static_cast<std::uint32_t>(eob.number("sent_frames")),
                           static_cast<std::uint32_t>(eob.number("sent_packets")), eob.number("sent_events"),
                           eob.number("sent_hits")};
  EXPECT_EQ(decode_eob(eob.bytes.data()), expected);
  Bytes encoded(eob_bytes);
  encode_header(encoded.data(), golden_header(eob));
  encode_eob(encoded.data(), expected);
  EXPECT_EQ(encoded, eob.bytes);
}

TEST(MgpHit, WordHoldsPmAndSignedTime) {
  for (int quarter = -16; quarter < 16; ++quarter) {
    const std::uint16_t word = hit_word(1951, quarter);
    EXPECT_EQ(hit_pm(word), 1951);
    EXPECT_EQ(hit_lsb(word), 4 * quarter);
  }
}

// A valid packet of board 1, frame 1000: three events with 2, 20 and 0 hits.
constexpr Frame frame = 1000;
constexpr std::size_t second_event = header_bytes + 8 + 2 * 2;
constexpr std::size_t third_event = second_event + 8 + 2 * 20;
Bytes sound_packet(std::uint8_t flags = 0) {
  Header h;
  h.board = 1;
  h.frame = frame;
  h.sequence = 77;
  h.flags = flags;
  Bytes bytes(default_max_payload);
  PacketWriter writer(bytes.data(), bytes.size(), h);
  const std::uint16_t pair[] = {hit_word(512, 3), hit_word(1023, -3)};
  std::vector<std::uint16_t> many;
  for (unsigned i = 0; i < 20; ++i) many.push_back(hit_word(static_cast<PmId>(600 + i), 0));
  EXPECT_TRUE(writer.add(frame << 8, 0, pair, 2));
  EXPECT_TRUE(writer.add(frame << 8 | 0xFF, 255, many, 200));
  EXPECT_TRUE(writer.add(frame << 8 | 7, 1, {}, 0));
  bytes.resize(writer.finish(flag::last));
  return bytes;
}
void poke(Bytes& bytes, std::size_t at, unsigned value) {
  bytes.at(at) = static_cast<std::byte>(value);
}
void poke16(Bytes& bytes, std::size_t at, unsigned value) {
  poke(bytes, at, value & 0xFF);
  poke(bytes, at + 1, value >> 8);
}
std::string refusal(const Bytes& bytes, const Rules& rules = {}) {
  return std::string(name(validate(bytes, rules).refusal));
}

struct Damage {
  const char* expected;
  std::function<void(Bytes&)> apply;
  std::uint8_t flags = 0;  // flags before the corruption
};

TEST(MgpValidate, NamesTheBrokenRule) {
  const std::vector<Damage> cases = {
      {"none", [](Bytes&) {}},
      {"none", [](Bytes&) {}, flag::fixed},
      {"none", [](Bytes& b) { poke(b, second_event + 6, 20); }},    // seen equals stored
      {"none", [](Bytes& b) { poke(b, second_event + 7, 0xFE); }},  // reserved bits of the event
      {"none", [](Bytes& b) { poke(b, 3, 0x80 | flag::error | flag::truncated); }},
      {"short_header", [](Bytes& b) { b.resize(15); }},
      {"short_header", [](Bytes& b) { b.clear(); }},
      {"bad_version", [](Bytes& b) { poke(b, 2, 2); }},
      {"bad_version", [](Bytes& b) { poke(b, 2, 0); }},
      {"bad_source", [](Bytes& b) { poke(b, 0, 0x1D); }},
      {"bad_board", [](Bytes& b) { poke(b, 1, 4); }},
      {"bad_board", [](Bytes& b) { poke(b, 1, 33); }},
      {"bad_board", [](Bytes& b) { poke(b, 1, merged_board); }},
      {"bad_encoding", [](Bytes& b) { poke(b, 7, 0x10); }},
      {"length_mismatch", [](Bytes& b) { b.pop_back(); }},
      {"length_mismatch", [](Bytes& b) { b.push_back(std::byte{0}); }},
      {"length_mismatch", [](Bytes& b) { poke16(b, 4, 15); }},
      {"length_mismatch",
       [](Bytes& b) {
         poke(b, 3, flag::padded);
         b.pop_back();
       }},
      {"none",
       [](Bytes& b) {
         poke(b, 3, flag::padded);
         b.resize(b.size() + 3, std::byte{0x55});
       }},
      {"none", [](Bytes& b) { poke(b, 3, flag::padded); }},
      {"oversized",
       [](Bytes& b) {
         poke(b, 3, flag::padded);
         b.resize(default_max_payload + 1u);
       }},
      {"none",
       [](Bytes& b) {
         poke(b, 3, flag::padded);
         b.resize(default_max_payload);
       }},
      {"event_past_end", [](Bytes& b) { poke(b, 6, 4); }},
      {"event_past_end",
       [](Bytes& b) {
         b.resize(b.size() - 1);
         poke16(b, 4, static_cast<unsigned>(b.size()));
       }},
      {"event_past_end",
       [](Bytes& b) {
         poke(b, third_event + 5, 1);
         poke(b, third_event + 6, 1);
       }},
      {"trailing_bytes", [](Bytes& b) { poke(b, 6, 2); }},
      {"trailing_bytes", [](Bytes& b) { poke(b, 6, 1); }},
      {"trailing_bytes", [](Bytes& b) { poke(b, 6, 0); }},
      {"trailing_bytes",
       [](Bytes& b) {
         b.resize(b.size() + 1);
         poke16(b, 4, static_cast<unsigned>(b.size()));
       }},
      {"trailing_bytes", [](Bytes& b) { poke(b, 6, 2); }, flag::fixed},
      {"event_past_end", [](Bytes& b) { poke(b, 6, 4); }, flag::fixed},
      {"timestamp_outside_frame", [](Bytes& b) { poke(b, header_bytes + 1, (frame + 1) & 0xFF); }},
      {"timestamp_outside_frame", [](Bytes& b) { poke(b, third_event + 3, 1); }},
      {"timestamp_outside_frame", [](Bytes& b) { poke(b, 16 + 72 + 1, 0); }, flag::fixed},
      {"hits_above_32", [](Bytes& b) { poke(b, header_bytes + 5, 33); }, flag::fixed},
      {"hits_above_32", [](Bytes& b) { poke(b, header_bytes + 5, 255); }, flag::fixed},
      {"seen_below_stored", [](Bytes& b) { poke(b, header_bytes + 6, 1); }},
      {"seen_below_stored", [](Bytes& b) { poke(b, second_event + 6, 19); }},
      {"pm_out_of_range", [](Bytes& b) { poke16(b, header_bytes + 8, 1952); }},
      {"pm_out_of_range", [](Bytes& b) { poke16(b, header_bytes + 8, 2047); }},
      {"pm_of_other_board", [](Bytes& b) { poke16(b, header_bytes + 8, 511); }},
      {"pm_of_other_board", [](Bytes& b) { poke16(b, header_bytes + 10, 1024); }},
      {"pm_of_other_board", [](Bytes& b) { poke16(b, second_event + 8 + 2 * 15, 0); }},
      {"pm_of_other_board", [](Bytes& b) { poke16(b, second_event + 8 + 2 * 16, 0); }},
      {"pm_of_other_board", [](Bytes& b) { poke16(b, second_event + 8 + 2 * 19, 1951); }},
      {"none", [](Bytes& b) { poke16(b, header_bytes + 8, 0xF800 | 512); }},  // only the time changes
      {"none", [](Bytes& b) { poke16(b, header_bytes + 8 + 2 * 2, 5); }, flag::fixed},  // an unused slot
      // If several apply, the first in the list.
      {"bad_version",
       [](Bytes& b) {
         poke(b, 0, 0);
         poke(b, 1, 9);
         poke(b, 2, 9);
         b.pop_back();
       }},
      {"bad_source",
       [](Bytes& b) {
         poke(b, 0, 0);
         poke(b, 1, 9);
         poke(b, 7, 0xF0);
       }},
      {"bad_board",
       [](Bytes& b) {
         poke(b, 1, 9);
         poke(b, 7, 0xF0);
       }},
      {"length_mismatch", [](Bytes& b) { b.resize(3000); }},
      {"event_past_end",
       [](Bytes& b) {
         poke(b, 6, 4);
         poke(b, header_bytes + 6, 0);
         poke16(b, header_bytes + 8, 0);
       }},
      {"trailing_bytes",
       [](Bytes& b) {
         poke(b, 6, 2);
         poke(b, header_bytes + 6, 0);
       }},
      {"timestamp_outside_frame",
       [](Bytes& b) {
         poke(b, header_bytes + 6, 0);
         poke(b, third_event + 3, 1);
       }},
      {"seen_below_stored",
       [](Bytes& b) {
         poke16(b, header_bytes + 8, 2000);
         poke(b, second_event + 6, 0);
       }},
      {"pm_out_of_range",
       [](Bytes& b) {
         poke16(b, header_bytes + 8, 0);
         poke16(b, second_event + 8, 2000);
       }},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Bytes bytes = sound_packet(cases[i].flags);
    cases[i].apply(bytes);
    EXPECT_EQ(refusal(bytes), cases[i].expected) << "case " << i;
  }
}

TEST(MgpValidate, HitsAbove32InPackedPacket) {
  // Parsing continues with the stored count: hits_above_32 with enough bytes, otherwise event_past_end.
  Header h;
  h.board = 0;
  h.frame = 5;
  h.events = 1;
  h.length = static_cast<std::uint16_t>(header_bytes + event_header_bytes + 2 * 33);
  Bytes bytes(h.length);
  encode_header(bytes.data(), h);
  store<std::uint64_t>(bytes.data() + header_bytes,
                       5u << 8 | std::uint64_t{33} << 40 | std::uint64_t{33} << 48);
  EXPECT_EQ(refusal(bytes), "hits_above_32");
  poke(bytes, header_bytes + 5, 34);
  EXPECT_EQ(refusal(bytes), "event_past_end");
}

TEST(MgpValidate, BurstMarkers) {
  Header h;
  h.board = 2;
  const auto packet = [&](std::uint8_t flags, std::size_t size, std::uint8_t events = 0) {
    h.flags = flags;
    h.length = static_cast<std::uint16_t>(size);
    h.events = events;
    Bytes bytes(size, std::byte{0xEE});  // nothing after the header is read
    encode_header(bytes.data(), h);
    return bytes;
  };
  EXPECT_EQ(refusal(packet(flag::sob, 16)), "none");
  EXPECT_EQ(refusal(packet(flag::eob, 40)), "none");
  EXPECT_EQ(refusal(packet(flag::sob, 40)), "length_mismatch");
  EXPECT_EQ(refusal(packet(flag::eob, 16)), "length_mismatch");
  EXPECT_EQ(refusal(packet(flag::eob, 42)), "length_mismatch");
  EXPECT_EQ(refusal(packet(flag::sob | flag::last, 16)), "sob_eob_with_events");
  EXPECT_EQ(refusal(packet(flag::eob | flag::last, 40)), "sob_eob_with_events");
  EXPECT_EQ(refusal(packet(flag::sob, 16, 1)), "sob_eob_with_events");
  EXPECT_EQ(refusal(packet(flag::eob, 40, 1)), "sob_eob_with_events");
  for (const std::size_t size : {16u, 24u, 40u, 100u}) {
    EXPECT_EQ(refusal(packet(flag::sob | flag::eob, size)), "sob_eob_with_events");
  }
  Bytes padded = packet(flag::sob | flag::padded, 16);
  padded.resize(1472, std::byte{1});
  EXPECT_EQ(refusal(padded), "none");
  h.frame = default_max_frames;
  EXPECT_EQ(refusal(packet(flag::eob, 40)), "frame_beyond_spill");
  h.frame = default_max_frames - 1;
  EXPECT_EQ(refusal(packet(flag::eob, 40)), "none");
}

TEST(MgpValidate, FollowsTheRules) {
  const Bytes bytes = sound_packet();
  EXPECT_EQ(refusal(bytes, {.boards = 0b1101}), "bad_board");
  EXPECT_EQ(refusal(bytes, {.boards = 0b0010}), "none");
  EXPECT_EQ(refusal(bytes, {.boards = 0}), "bad_board");
  EXPECT_EQ(refusal(bytes, {.source = 1}), "bad_source");
  EXPECT_EQ(refusal(bytes, {.max_payload = static_cast<std::uint16_t>(bytes.size() - 1)}), "oversized");
  EXPECT_EQ(refusal(bytes, {.max_payload = static_cast<std::uint16_t>(bytes.size())}), "none");
  EXPECT_EQ(refusal(bytes, {.max_frames = frame}), "frame_beyond_spill");
  EXPECT_EQ(refusal(bytes, {.max_frames = frame + 1}), "none");
  Bytes other_pm = bytes;  // hits' rules come before the spill's end
  poke16(other_pm, header_bytes + 8, 0);
  EXPECT_EQ(refusal(other_pm, {.max_frames = frame}), "pm_of_other_board");

  Bytes merged = bytes;  // one merged stream: board 0xFF alone, PMs of all boards
  poke(merged, 1, merged_board);
  poke16(merged, header_bytes + 8, 0);
  poke16(merged, header_bytes + 10, 1951);
  EXPECT_EQ(refusal(merged, {.boards = 0}), "none");
  poke16(merged, header_bytes + 10, 1952);
  EXPECT_EQ(refusal(merged, {.boards = 0}), "pm_out_of_range");

  Bytes last_board = bytes;  // board 3 ends with PM 1951
  poke(last_board, 1, 3);
  EXPECT_EQ(refusal(last_board), "pm_of_other_board");
  for (const std::size_t event : {header_bytes, second_event}) {
    for (unsigned i = 0; i < static_cast<unsigned>(last_board[event + 5]); ++i) {
      poke16(last_board, event + 8 + 2 * i, i % 2 == 0 ? 1536 : 1951);
    }
  }
  EXPECT_EQ(refusal(last_board), "none");
  poke16(last_board, second_event + 8, 1952);
  EXPECT_EQ(refusal(last_board), "pm_out_of_range");
}

// The page after the datagram is inaccessible: a read beyond the datagram crashes the test.
TEST(MgpValidate, ReadsNothingBeyondTheDatagram) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* map = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<std::byte*>(map) + page, page, PROT_NONE), 0);
  std::byte* const edge = static_cast<std::byte*>(map) + page;
  std::minstd_rand engine(7);
  const auto random = [&engine] { return static_cast<unsigned>(engine() >> 8); };
  std::size_t sound = 0;
  for (int round = 0; round < 20'000; ++round) {
    Header h;
    h.board = static_cast<BoardId>(random() % 4);
    h.frame = random() % 1000;
    h.flags = random() % 8 == 0 ? flag::fixed : 0;
    std::vector<std::byte> bytes(600);
    PacketWriter writer(bytes.data(), bytes.size(), h);
    std::uint32_t hits = 0;
    for (unsigned n = random() % 12; n > 0; --n) {
      std::vector<std::uint16_t> words;
      for (unsigned i = random() % 33; i > 0; --i)
        words.push_back(hit_word(static_cast<PmId>(512 * h.board + random() % 400), -5));
      if (writer.add(h.frame << 8 | random() % 256, 0, words, 33))
        hits += static_cast<std::uint32_t>(words.size());
    }
    bytes.resize(writer.finish());
    const unsigned broken = random() % 4;
    if (broken == 1) poke(bytes, random() % bytes.size(), random());
    if (broken == 2) bytes.resize(random() % (bytes.size() + 1));
    const std::span<std::byte> datagram(edge - bytes.size(), bytes.size());
    std::copy(bytes.begin(), bytes.end(), datagram.begin());
    const Checked checked = validate(datagram, {});
    if (broken == 0 || broken == 3) {
      ASSERT_EQ(name(checked.refusal), "none");
      ASSERT_EQ(checked.hits, hits);
    }
    if (checked.refusal != Refusal::none) continue;
    ++sound;
    FragmentReader reader(datagram.data(), datagram.size(), checked.header);
    Fragment f;
    std::uint32_t walked = 0, events = 0;
    for (; reader.next(f); ++events) walked += f.stored;
    ASSERT_EQ(events, checked.fragments);
    ASSERT_EQ(walked, checked.hits);
  }
  EXPECT_GT(sound, 10'000u);
  munmap(map, 2 * page);
}

TEST(MgpValidate, ListsTheFragmentsAndReportsTruncatedOnes) {
  const std::vector<std::uint16_t> hits(3, hit_word(5, 0));
  const auto checked = [&](std::uint8_t seen, std::uint8_t flags, std::size_t room) {
    std::vector<std::byte> bytes(600);
    PacketWriter writer(bytes.data(), bytes.size(), Header{});
    writer.add(0x12, 0x34, hits, seen, flags);
    writer.add(0x13, 0x35, {}, 0);
    bytes.resize(writer.finish());
    std::array<std::uint32_t, 2> listed{};
    const Checked result = validate(bytes, {}, std::span(listed).first(room));
    EXPECT_EQ(name(result.refusal), "none");
    if (result.index) {
      EXPECT_EQ(listed, (std::array<std::uint32_t, 2>{0x1234'0010, 0x1335'001E}));
    }
    return std::pair(result.index != nullptr, result.truncated);
  };
  EXPECT_EQ(checked(3, 0, 2), std::pair(true, false));
  EXPECT_EQ(checked(3, 2, 2), std::pair(true, false));  // a flag that means nothing yet
  EXPECT_EQ(checked(3, 1, 2), std::pair(true, true));
  EXPECT_EQ(checked(4, 0, 2), std::pair(true, true));
  EXPECT_EQ(checked(255, 1, 2), std::pair(true, true));
  EXPECT_EQ(checked(3, 0, 1).first, false);
}

TEST(MgpFragmentReader, StopsAtTheEndOfThePayload) {
  const Bytes bytes = sound_packet();
  Fragment f;
  for (std::size_t size = header_bytes; size < bytes.size(); ++size) {
    FragmentReader reader(bytes.data(), size, decode_header(bytes.data()));
    while (reader.next(f)) ASSERT_LE(f.hits + 2 * f.stored, bytes.data() + size);
  }
  Bytes many = bytes;
  poke(many, second_event + 5, 33);
  FragmentReader reader(many.data(), many.size(), decode_header(many.data()));
  EXPECT_TRUE(reader.next(f));
  EXPECT_FALSE(reader.next(f));
}

TEST(MgpPacketWriter, RefusesWhatDoesNotFit) {
  Bytes buffer(16 + 3 * 8 + 1);
  PacketWriter writer(buffer.data(), buffer.size(), {});
  const std::uint16_t hits[33] = {};
  EXPECT_FALSE(writer.add(0, 0, hits, 33));                     // more than 32 hits
  EXPECT_FALSE(writer.add(0, 0, std::span(hits).first(9), 9));  // 26 bytes
  EXPECT_EQ(writer.size(), header_bytes);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(writer.add(0, 0, {}, 0));
  EXPECT_FALSE(writer.add(0, 0, {}, 0));
  EXPECT_EQ(writer.events(), 3u);
  EXPECT_EQ(writer.finish(), 40u);

  Bytes jumbo(8192);
  PacketWriter full(jumbo.data(), jumbo.size(), {});
  for (int i = 0; i < 255; ++i) EXPECT_TRUE(full.add(0, 0, {}, 0));
  EXPECT_FALSE(full.add(0, 0, {}, 0));
  EXPECT_EQ(decode_header(jumbo.data()).events, 0);  // the header is written last
  full.finish();
  EXPECT_EQ(decode_header(jumbo.data()).events, 255);
  jumbo.resize(full.size());
  EXPECT_EQ(refusal(jumbo, {.max_payload = 9000}), "none");
}

TEST(MgpRefusal, EveryRefusalHasAName) {
  std::map<std::string_view, int> names;
  for (std::size_t i = 0; i <= refusal_count; ++i) ++names[name(static_cast<Refusal>(i))];
  EXPECT_EQ(names.size(), refusal_count + 1);
  EXPECT_EQ(name(Refusal::short_header), "short_header");
  EXPECT_EQ(name(Refusal::trailing_bytes), "trailing_bytes");
  EXPECT_EQ(name(Refusal::wrong_burst), "wrong_burst");
}

}  // namespace
}  // namespace nanet::wire::mgp
