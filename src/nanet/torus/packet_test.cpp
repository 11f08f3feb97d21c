// SPDX-License-Identifier: Apache-2.0
// Tests of packets, link words and rings: golden vectors, SECDED with every single and double error, checks.
#include "nanet/torus/packet.hpp"

#include <random>

#include "nanet/torus/link_words.hpp"
#include "nanet/torus/rings.hpp"
#include "nanet/wire/golden_test.hpp"

namespace nanet::torus {
namespace {

std::vector<Word> words_of(const Golden& golden) {
  std::vector<Word> words(golden.bytes.size() / word_bytes);
  std::memcpy(words.data(), golden.bytes.data(), words.size() * word_bytes);
  return words;
}

template <class T>
T number(const Golden& golden, const std::string& key) {
  return static_cast<T>(golden.number(key));
}

Header golden_header(const Golden& g) {
  Header h;
  h.vchan = number<std::uint8_t>(g, "vchan");
  h.channel = number<std::uint16_t>(g, "channel");
  h.to = {number<std::uint8_t>(g, "x"), number<std::uint8_t>(g, "y"), number<std::uint8_t>(g, "z")};
  h.intra = number<std::uint8_t>(g, "intra");
  h.out_of_lattice = g.number("out_of_lattice") != 0;
  h.type = number<std::uint8_t>(g, "type");
  h.length = number<std::uint16_t>(g, "length");
  h.address = g.number("address");
  h.hops = number<std::uint16_t>(g, "hops");
  h.ecc = number<std::uint8_t>(g, "ecc");
  return h;
}

Footer golden_footer(const Golden& g) {
  Footer f;
  f.message = number<std::uint32_t>(g, "footer_message");
  f.source = {number<std::uint8_t>(g, "footer_source_x"), number<std::uint8_t>(g, "footer_source_y"),
              number<std::uint8_t>(g, "footer_source_z")};
  f.source_intra = number<std::uint8_t>(g, "footer_source_intra");
  f.flags = number<std::uint8_t>(g, "footer_flags");
  f.immediate = number<std::uint32_t>(g, "footer_immediate");
  f.crc = number<std::uint32_t>(g, "footer_crc");
  return f;
}

TEST(TorusPacket, HeadersAreThoseOfInfn) {
  for (const auto* name :
       {"torus_header_raw", "torus_header_ethernet", "torus_header_only", "torus_header_32"}) {
    const Golden golden = read_golden(name);
    const Word word = words_of(golden).at(0);
    EXPECT_EQ(decode_header(word), golden_header(golden)) << name;
    EXPECT_EQ(encode_header(golden_header(golden)), word) << name;
    EXPECT_EQ(secded_protect(word), word) << name;
  }
}

TEST(TorusPacket, WholePackets) {
  for (const auto* name : {"torus_packet_put", "torus_packet_get", "torus_packet_nack"}) {
    const Golden golden = read_golden(name);
    const std::vector<Word> words = words_of(golden);
    const std::span<const Word> payload(words.data() + 1, words.size() - 2);
    Header h = golden_header(golden);
    h.ecc = 0;
    EXPECT_EQ(secded_protect(encode_header(h)), words.front()) << name;
    const Footer f = golden_footer(golden);
    EXPECT_EQ(decode_footer(words.back()), f) << name;
    EXPECT_EQ(sealed_footer(words.front(), payload, f), words.back()) << name;
    EXPECT_EQ(check_packet(words.front(), payload, words.back()), Nack::none) << name;
  }
  const Golden get = read_golden("torus_packet_get");
  const Extension e{get.number("extension_reply_address"),
                    number<std::uint16_t>(get, "extension_reply_channel"),
                    number<std::uint32_t>(get, "extension_bytes")};
  EXPECT_EQ(encode_extension(e), words_of(get).at(1));
  EXPECT_EQ(decode_extension(words_of(get).at(1)), e);
}

TEST(TorusPacket, EveryCorruptedBitIsFoundUnlessRoutersRewriteIt) {
  const std::vector<Word> good = words_of(read_golden("torus_packet_put"));
  for (std::size_t bit = 0; bit < good.size() * 128; ++bit) {
    std::vector<Word> words = good;
    Word& word = words[bit / 128];
    const std::size_t at = bit % 128;
    (at < 64 ? word.low : word.high) ^= std::uint64_t{1} << at % 64;
    const bool rewritten = bit < 5 || (bit >= 110 && bit < 128);
    const bool foreign = bit == 43;                         // put becomes raw
    const bool flag = bit == (good.size() - 1) * 128 + 56;  // crc_present
    const Nack found =
        check_packet(words.front(), std::span<const Word>(words).subspan(1, words.size() - 2), words.back());
    EXPECT_EQ(found == Nack::none, rewritten || foreign || flag) << bit;
  }
}

TEST(TorusPacket, RefusalsHaveNames) {
  std::vector<Word> words = words_of(read_golden("torus_packet_put"));
  const std::span<const Word> payload(words.data() + 1, words.size() - 2);
  const auto with = [&](auto change) {
    Header h = decode_header(words.front());
    change(h);
    const Word head = encode_header(h);
    return check_packet(head, payload, sealed_footer(head, payload, decode_footer(words.back())));
  };
  EXPECT_EQ(with([](Header&) {}), Nack::none);
  EXPECT_EQ(with([](Header& h) { h.type = 9; }), Nack::bad_type);
  EXPECT_EQ(with([](Header& h) { h.length = 49; }), Nack::bad_length);
  EXPECT_EQ(with([](Header& h) { h.address = 4095; }), Nack::bad_length);
  EXPECT_EQ(with([](Header& h) { h.out_of_lattice = true; }), Nack::out_of_lattice);
  EXPECT_EQ(with([](Header& h) { h.type = 3; }), Nack::bad_length);
  EXPECT_EQ(with([](Header& h) { h.type = 7; }), Nack::bad_length);
  EXPECT_EQ(name(Nack::bad_length), "bad_length");
  EXPECT_EQ(name(Nack::timed_out), "timed_out");
  EXPECT_EQ(name(Nack::unreadable), "unreadable");
  EXPECT_EQ(name(static_cast<Nack>(200)), "unknown");
  EXPECT_EQ(name(PacketType::datagram), "datagram");
}

TEST(TorusPacket, MessagesAreCutAtMultiplesOf4096) {
  EXPECT_EQ(cut(0, 10'000), 4096u);
  EXPECT_EQ(cut(4095, 10'000), 1u);
  EXPECT_EQ(cut(100, 50), 50u);
  EXPECT_EQ(cut(8192, 0), 0u);
}

TEST(TorusLinkWords, SecdedCorrectsSingleAndDetectsDoubleErrors) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 4; ++round) {
    const Word word = secded_protect({random(), random()});
    EXPECT_EQ(secded_correct(word).result, Secded::clean);
    const auto flipped = [](Word w, unsigned bit) {
      (bit < 64 ? w.low : w.high) ^= std::uint64_t{1} << bit % 64;
      return w;
    };
    for (unsigned a = 0; a < 128; ++a) {
      const Corrected one = secded_correct(flipped(word, a));
      EXPECT_EQ(one.result, Secded::corrected);
      EXPECT_EQ(one.word, word);
      for (unsigned b = 0; b < a; ++b)
        ASSERT_EQ(secded_correct(flipped(flipped(word, a), b)).result, Secded::uncorrectable);
    }
  }
}

TEST(TorusLinkWords, GoldenWords) {
  for (const auto* name : {"apelink_credit", "apelink_credit_full"}) {
    const Golden golden = read_golden(name);
    Credit credit;
    for (unsigned vc = 0; vc < 2; ++vc)
      credit.vc[vc] = {number<std::uint8_t>(golden, "headers_" + std::to_string(vc)),
                       number<std::uint16_t>(golden, "data_" + std::to_string(vc))};
    EXPECT_EQ(encode_credit(credit), words_of(golden).at(0)) << name;
    EXPECT_EQ(decode_credit(words_of(golden).at(0)), credit) << name;
  }
  EXPECT_EQ(words_of(read_golden("apelink_words")), (std::vector<Word>{magic, start}));
  for (const auto* name : {"reliable_cell", "reliable_training"}) {
    const Golden golden = read_golden(name);
    std::vector<Word> words = words_of(golden);
    const Word control = words.back();
    words.pop_back();
    EXPECT_TRUE(control_is_right(control, words)) << name;
    const Control c = decode_control(control);
    EXPECT_EQ(encode_control(c, words), control) << name;
    EXPECT_EQ(c.type, golden.number("type"));
    EXPECT_EQ(c.vc, golden.number("vc"));
    EXPECT_EQ(c.count, golden.number("count"));
    EXPECT_EQ(c.sequence, golden.number("sequence"));
    EXPECT_EQ(c.acknowledge, golden.number("acknowledge"));
    EXPECT_EQ(c.freed[0], golden.number("freed_0"));
    EXPECT_EQ(c.freed[1], golden.number("freed_1"));
    EXPECT_EQ(c.node.packed(), golden.number("node"));
    EXPECT_EQ(c.port, golden.number("port"));
    for (unsigned bit = 0; bit < 128; ++bit) {
      Word bad = control;
      (bit < 64 ? bad.low : bad.high) ^= std::uint64_t{1} << bit % 64;
      EXPECT_FALSE(control_is_right(bad, words)) << bit;
    }
  }
}

template <class T>
void expect_bytes(const T& value, const Golden& golden) {
  ASSERT_EQ(golden.bytes.size(), sizeof value);
  EXPECT_EQ(std::memcmp(&value, golden.bytes.data(), sizeof value), 0);
}

TEST(TorusRings, GoldenEntries) {
  {
    const Golden g = read_golden("torus_put_descriptor");
    PutDescriptor d;
    d.local_address = g.number("local_address");
    d.remote_address = g.number("remote_address");
    d.bytes = number<std::uint32_t>(g, "size");
    d.remote_domain = number<std::uint16_t>(g, "remote_domain");
    d.local_domain = number<std::uint16_t>(g, "local_domain");
    d.node = number<std::uint16_t>(g, "node");
    d.port = number<std::uint8_t>(g, "port");
    d.type = number<std::uint8_t>(g, "type");
    d.flags = number<std::uint8_t>(g, "flags");
    d.message = number<std::uint32_t>(g, "message");
    d.immediate = number<std::uint32_t>(g, "immediate");
    d.lap = number<std::uint32_t>(g, "lap");
    expect_bytes(d, g);
    EXPECT_EQ(put_entries(d), 1u);
    d.flags |= put_flag::inline_payload;
    d.bytes = 65;
    EXPECT_EQ(put_entries(d), 3u);
  }
  {
    const Golden g = read_golden("torus_get_entry");
    GetEntry e;
    e.address = g.number("address") | g.number("requester_port") << 48;
    e.reply = g.number("reply_address") | g.number("reply_domain") << 48;
    e.bytes = number<std::uint32_t>(g, "size");
    e.domain = number<std::uint16_t>(g, "domain");
    e.node = number<std::uint16_t>(g, "requester");
    e.message = number<std::uint32_t>(g, "message");
    e.lap = number<std::uint32_t>(g, "lap");
    expect_bytes(e, g);
  }
  {
    const Golden g = read_golden("torus_buffer");
    RegisteredBuffer b;
    b.address = g.number("address");
    b.bytes = g.number("size");
    b.domain = number<std::uint16_t>(g, "domain");
    b.rights = number<std::uint8_t>(g, "rights");
    b.memory = number<std::uint8_t>(g, "memory");
    b.valid = number<std::uint32_t>(g, "valid");
    expect_bytes(b, g);
    EXPECT_TRUE(b.holds(b.address, b.bytes));
    EXPECT_FALSE(b.holds(b.address + 1, b.bytes));
    EXPECT_FALSE(b.holds(b.address - 1, 1));
    EXPECT_FALSE(b.holds(~std::uint64_t{0}, 2));
  }
  {
    const Golden g = read_golden("torus_event");
    contract::Event e;
    e.type = static_cast<std::uint8_t>(EventType::put_arrived);
    e.stream = number<std::uint8_t>(g, "stream");
    e.flags = number<std::uint16_t>(g, "flags");
    e.buffer = number<std::uint32_t>(g, "buffer");
    e.bytes = number<std::uint32_t>(g, "size");
    e.frame = number<std::uint32_t>(g, "frame");
    e.time_ns = g.number("time_ns");
    e.n = number<std::uint32_t>(g, "n");
    e.lap = number<std::uint32_t>(g, "lap");
    expect_bytes(e, g);
  }
}

}  // namespace
}  // namespace nanet::torus
