// SPDX-License-Identifier: SHL-2.1
// Harness of nanet_card with two 10 GbE links at line rate; card and MACs have separate clocks. Prints
// packets sent and used, losses by place, and busy shares of the stages. Arguments: bytes of a frame, FCS
// included (0: random sizes), period of the card clock in ps, microseconds, resets of the MACs, seed. After
// resets the account closes, and further packets are used.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <vector>

#include "../../../regs/nanet_regs.h"
#include "harness.hpp"
#include "nanet/wire/ethernet.cpp"  // NOLINT(bugprone-suspicious-include)
#include "nanet/wire/mgp.hpp"

extern "C" {
#include "../../../firmware/nanet_fw.c"
}

namespace {

using namespace nanet;

#define AT(field) static_cast<std::uint32_t>(offsetof(nanet_regs_t, field))

constexpr unsigned channels = 2, boards = 2, most_packets = 16, most_segment = 65472, buffers = 2048;
constexpr unsigned smallest = 64, largest = 9018, udp_overhead = 46, event_bytes = 72;
constexpr unsigned wire_bytes = 24;  // preamble, FCS and interframe gap, which are not transferred as words
constexpr std::uint64_t mac_ps[channels] = {6400, 6401};  // 10 GbE; the second crystal is 150 ppm slower
constexpr std::uint64_t pages = 1ull << 30, finished = 2ull << 30, ring = 3ull << 30, queue = 4ull << 30,
                        host = 1ull << 40, clop = 1ull << 41;
constexpr unsigned log2_page = 21;
constexpr std::uint32_t mac_low = 0x0A000001, card_ip = 0x0A000001;
constexpr unsigned write_cycles = 4, read_ns = 960, reset_every = 400;
constexpr std::uint64_t patience = 400'000;

struct Frame {
  std::vector<std::byte> bytes;
};

// MAC's receive side: frames without gaps beyond the standard's.
struct Mac {
  std::deque<Frame> frames;
  std::uint64_t at = 0;      // ps of the next edge
  std::size_t position = 0;  // in the first frame
  unsigned pause = 0, phase = 0, reset = 0;
};

class Bench {
 public:
  Bench(int argc, char** argv, std::uint64_t card_ps, std::uint64_t seed) : card_ps_(card_ps), random_(seed) {
    context_.commandArgs(argc, argv);
    context_.randReset(2);
    context_.randSeed(1);
    for (unsigned c = 0; c < channels; ++c) mac_[c].at = random_() % mac_ps[c];
    card_at_ = random_() % card_ps_;
    dut.clk = dut.mac_clk = 0;
    dut.rst = 1;
    dut.mac_rst = 3;
    dut.rx_valid = 0;
    dut.reg_request = dut.fw_request = dut.wr_done_valid = dut.rd_data_valid = 0;
    cycles(40);
    dut.rst = 0;
    dut.mac_rst = 0;
    cycles(40);
    firmware_.context = this;
    firmware_.read32 = [](void* bench, std::uint32_t address) {
      return static_cast<Bench*>(bench)->firmware(false, address, 0);
    };
    firmware_.write32 = [](void* bench, std::uint32_t address, std::uint32_t value) {
      static_cast<Bench*>(bench)->firmware(true, address, value);
    };
  }

  Vdut dut;
  std::uint64_t cycle = 0;
  bool held = true;  // the MACs begin no frame
  std::uint64_t events = 0;
  std::uint64_t resets = 0;  // of the MACs, still to come
  struct Busy {
    std::uint64_t clop = 0, dma = 0, place[channels]{}, cut[channels]{}, write[channels]{};
  } busy;

  // Card cycles; the firmware answers at once.
  void run(std::uint64_t count) {
    for (const std::uint64_t until = cycle + count; cycle < until;) {
      step();
      while (dut.fw_interrupt) {
        if (!begun_) nanet_fw_init(&state_, &firmware_);
        begun_ = true;
        if (!nanet_fw_step(&state_)) break;
      }
    }
  }
  std::uint32_t read(std::uint32_t address) { return access(false, address, 0); }
  void write(std::uint32_t address, std::uint32_t value) { access(true, address, value); }
  void write_pair(std::uint32_t address, std::uint64_t value) {
    write(address, static_cast<std::uint32_t>(value));
    write(address + 4, static_cast<std::uint32_t>(value >> 32));
  }
  void send(unsigned channel, const std::vector<std::byte>& payload) {
    const std::size_t bytes = wire::udp_frame_overhead + payload.size();
    Frame frame;
    frame.bytes.resize(bytes + 8);
    wire::build_udp_frame(frame.bytes.data(), {0x0A000002, wire::mgp::default_port},
                          {card_ip + channel, wire::mgp::default_port}, payload);
    for (unsigned i = 0; i < 6; ++i)
      frame.bytes[i] =
          static_cast<std::byte>((std::uint64_t{0x0200} << 32 | (mac_low + channel)) >> 8 * (5 - i));
    frame.bytes.resize(std::max<std::size_t>(bytes, smallest - 4));
    mac_[channel].frames.push_back(std::move(frame));
  }
  bool sent() const {
    return std::all_of(mac_.begin(), mac_.end(), [](const Mac& mac) { return mac.frames.empty(); });
  }

 private:
  void cycles(unsigned count) {
    for (const std::uint64_t until = cycle + count; cycle < until;) step();
  }
  // Advances to the next edge of the card clock.
  void step() {
    for (;;) {
      unsigned next = 0;
      for (unsigned c = 1; c < channels; ++c)
        if (mac_[c].at < mac_[next].at) next = c;
      if (mac_[next].at >= card_at_) break;
      mac_edge(next);
    }
    card_edge();
  }
  void mac_edge(unsigned c) {
    Mac& mac = mac_[c];
    mac.at += mac_ps[c];
    if (mac.reset) {
      if (--mac.reset == 0) dut.mac_rst = static_cast<CData>(dut.mac_rst & ~(1u << c));
    } else if (resets && mac.position && random_() % reset_every == 0) {
      // The frame in transfer is lost.
      --resets;
      mac.reset = 1 + random_() % 20;
      mac.pause = 40;
      mac.position = 0;
      mac.frames.pop_front();
      dut.mac_rst = static_cast<CData>(dut.mac_rst | 1u << c);
    }
    dut.mac_clk = static_cast<CData>(dut.mac_clk | 1u << c);
    dut.eval();
    dut.mac_clk = static_cast<CData>(dut.mac_clk & ~(1u << c));
    dut.eval();
    bool there = false;
    if (mac.pause) {
      --mac.pause;
    } else if (!mac.frames.empty() && (mac.position || !held)) {
      const std::vector<std::byte>& bytes = mac.frames.front().bytes;
      const std::size_t left = bytes.size() - mac.position;
      const bool last = left <= 8;
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + mac.position, std::min<std::size_t>(left, 8));
      dut.rx_data[2 * c] = static_cast<std::uint32_t>(word);
      dut.rx_data[2 * c + 1] = static_cast<std::uint32_t>(word >> 32);
      const unsigned keep = last ? (1u << left) - 1 : 0xFF;
      dut.rx_keep = static_cast<SData>((dut.rx_keep & ~(0xFFu << 8 * c)) | keep << 8 * c);
      dut.rx_last = static_cast<CData>((dut.rx_last & ~(1u << c)) | unsigned{last} << c);
      there = true;
      mac.position += 8;
      if (last) {
        // Interframe gaps by IEEE 802.3's deficit idle count: 12 bytes on average.
        mac.phase += static_cast<unsigned>(left + wire_bytes);
        mac.pause = mac.phase / 8 - 1;
        mac.phase %= 8;
        mac.position = 0;
        mac.frames.pop_front();
      }
    }
    dut.rx_valid = static_cast<CData>((dut.rx_valid & ~(1u << c)) | unsigned{there} << c);
  }
  void card_edge() {
    card_at_ += card_ps_;
    dut.eval();
    sample();
    dut.clk = 1;
    dut.eval();
    dut.clk = 0;
    ++cycle;
    dut.wr_done_valid = !done_.empty() && done_.front().due <= cycle;
    if (dut.wr_done_valid) {
      dut.wr_done_tag = done_.front().tag;
      done_.pop_front();
    }
    dut.rd_data_valid = !reads_.empty() && reads_.front().due <= cycle;
    if (dut.rd_data_valid) {
      dut.rd_data_tag = reads_.front().tag;
      dut.rd_data_last = reads_.front().left <= 32;
      for (unsigned i = 0; i < 8; ++i) dut.rd_data[i] = 0;
      const std::uint64_t value = load(reads_.front().address);
      dut.rd_data[0] = static_cast<std::uint32_t>(value);
      dut.rd_data[1] = static_cast<std::uint32_t>(value >> 32);
    }
  }
  // Outputs in the cycle that ends.
  void sample() {
    if (dut.wr_valid && dut.wr_last) {
      done_.push_back({cycle + write_cycles, dut.wr_tag});
      if (dut.wr_addr >= queue && dut.wr_addr < host) ++events;
    }
    if (dut.rd_data_valid && dut.rd_data_ready) {
      Read& read = reads_.front();
      read.left -= std::min(read.left, 32u);
      if (read.left == 0) reads_.pop_front();
    }
    if (dut.rd_valid)
      reads_.push_back({cycle + read_ns * 1000 / card_ps_, dut.rd_addr, dut.rd_len, dut.rd_tag});
    busy.clop += dut.busy_clop;
    busy.dma += dut.busy_dma;
    for (unsigned c = 0; c < channels; ++c) {
      busy.place[c] += dut.busy_place >> c & 1u;
      busy.cut[c] += dut.busy_cut >> c & 1u;
      busy.write[c] += dut.busy_write >> c & 1u;
    }
    reg_done_ = dut.reg_acknowledge;
    reg_value_ = dut.reg_rdata;
    fw_done_ = dut.fw_acknowledge;
    fw_value_ = dut.fw_rdata;
  }
  // Page list, and the number of events that the consumer has finished; no descriptor is ever posted.
  std::uint64_t load(std::uint64_t address) const {
    if (address == finished) return events;
    if (address >= pages && address < finished) return host + ((address - pages) / 8 << log2_page);
    return 0;
  }
  std::uint32_t access(bool write, std::uint32_t address, std::uint32_t value) {
    dut.reg_request = 1;
    dut.reg_write = write;
    dut.reg_addr = address;
    dut.reg_wdata = value;
    do run(1);
    while (!reg_done_);
    const std::uint32_t got = reg_value_;
    dut.reg_request = 0;
    step();
    return got;
  }
  std::uint32_t firmware(bool write, std::uint32_t address, std::uint32_t value) {
    dut.fw_request = 1;
    dut.fw_write = write;
    dut.fw_addr = static_cast<CData>(address);
    dut.fw_wdata = value;
    do step();
    while (!fw_done_);
    const std::uint32_t got = fw_value_;
    dut.fw_request = 0;
    step();
    return got;
  }

  struct Done {
    std::uint64_t due;
    std::uint8_t tag;
  };
  struct Read {
    std::uint64_t due, address;
    unsigned left;
    std::uint8_t tag;
  };
  VerilatedContext context_;
  std::uint64_t card_ps_, card_at_ = 0;
  std::mt19937_64 random_;
  std::array<Mac, channels> mac_;
  std::deque<Done> done_;
  std::deque<Read> reads_;
  nanet_fw state_{};
  nanet_fw_bus firmware_{};
  bool begun_ = false, reg_done_ = false, fw_done_ = false;
  std::uint32_t reg_value_ = 0, fw_value_ = 0;
};

void configure(Bench& card) {
  const unsigned buffer_bytes = (64 + 4 * most_segment + 63) / 64 * 64;
  CHECK(card.read(AT(id)) == NANET_REGS__ID__VALUE_reset, "no card");
  for (unsigned c = 0; c < channels; ++c) {
    const std::uint32_t at = AT(network) + c * sizeof(network_t_t);
    card.write_pair(at, std::uint64_t{0x0200} << 32 | (mac_low + c));
    card.write(at + offsetof(network_t_t, ip), card_ip + c);
  }
  card.write(AT(filter), FILTER_T__MODE__ENABLE_bm);
  card.write(AT(filter) + offsetof(filter_t__stride20_t, ports), wire::mgp::default_port);
  card.write(AT(rules), std::uint32_t{rich_source} << NANET_REGS__RULES__SOURCE_bp |
                            ((1u << boards) - 1) << NANET_REGS__RULES__BOARDS_bp |
                            (largest - udp_overhead) << NANET_REGS__RULES__MAX_PAYLOAD_bp);
  card.write(AT(max_frames), 751'500);
  card.write(AT(log2), 11u << NANET_REGS__LOG2__DESCRIPTORS_bp | 11u << NANET_REGS__LOG2__BUFFERS_bp |
                           13u << NANET_REGS__LOG2__EVENTS_bp);
  card.write(AT(segment_bytes), most_segment);
  card.write(AT(buffer_bytes), buffer_bytes);
  card.write(AT(send_bytes), 1472 * buffers);
  card.write(AT(sender_poll_cycles), 20'000);
  card.write(AT(event_poll_cycles), 1000);
  card.write(AT(tlb), NANET_REGS__TLB__ENABLE_bm | log2_page << NANET_REGS__TLB__LOG2_PAGE_bp);
  card.write_pair(AT(pages_base), pages);
  card.write(AT(pages_count), (buffers * std::uint64_t{buffer_bytes} >> log2_page) + 1);
  card.write_pair(AT(device[0].clop), clop);
  card.write_pair(AT(device[0].queue), queue);
  card.write_pair(AT(device[0].finished), finished);
  card.write_pair(AT(device[0].ring), ring);
  const std::uint32_t on = NANET_REGS__CONTROL__EVENTS_bm | NANET_REGS__CONTROL__SEND_bm;
  card.write(AT(control), on);
  for (std::uint64_t from = card.cycle; !(card.read(AT(status)) & NANET_REGS__STATUS__READY_bm);)
    CHECK(card.cycle - from < patience, "the card is not ready");
  card.write(AT(control), on | NANET_REGS__CONTROL__RECEIVE_bm);
}

std::uint64_t settle(Bench& card) {
  const std::uint64_t from = card.cycle;
  while (!card.sent()) card.run(50);
  const std::uint64_t until = card.cycle;
  do {
    card.run(1000);
    CHECK(card.cycle - until < patience, "the card does not become idle");
  } while (!(card.read(AT(status)) & NANET_REGS__STATUS__IDLE_bm));
  return until - from;
}

// A valid packet: events in fixed slots without hits, then padding.
std::vector<std::byte> packet(std::size_t bytes, unsigned board, std::uint32_t frame, unsigned index,
                              bool last, std::uint32_t sequence, bool sob = false) {
  using namespace wire::mgp;
  std::vector<std::byte> out(bytes, std::byte{0});
  const auto events = static_cast<unsigned>(std::min<std::size_t>((bytes - header_bytes) / event_bytes, 255));
  const std::size_t length = header_bytes + events * event_bytes;
  const auto put = [&](std::size_t at, std::uint64_t value, unsigned count) {
    for (unsigned i = 0; i < count; ++i) out[at + i] = static_cast<std::byte>(value >> 8 * i);
  };
  put(0, rich_source, 1);
  put(1, board, 1);
  put(2, 1, 1);
  put(3, (sob ? 1u : 0x10u) | (last ? 0x20u : 0u) | (length < bytes ? 0x40u : 0u), 1);
  put(4, length, 2);
  put(6, events, 1);
  put(7, index, 1);
  put(8, sequence, 4);
  put(12, frame, 3);
  for (unsigned e = 0; e < events; ++e) {
    put(header_bytes + e * event_bytes, std::uint64_t{frame} << 8 | e, 4);
    for (unsigned hit = 0; hit < 32; ++hit) put(header_bytes + e * event_bytes + 8 + 2 * hit, 0xFFFF, 2);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const auto bytes = bench::argument(argc, argv, 1), card_ps = bench::argument(argc, argv, 2),
             us = bench::argument(argc, argv, 3), resets = bench::argument(argc, argv, 4),
             seed = bench::argument(argc, argv, 5);
  CHECK(bytes == 0 || (bytes >= smallest && bytes <= largest), "frames have 64 to 9018 bytes");
  Bench card(argc, argv, card_ps, seed);
  configure(card);
  std::mt19937_64 random(seed);
  for (unsigned board = 0; board < boards; ++board) card.send(board, packet(16, board, 0, 0, false, 0, true));
  card.held = false;
  settle(card);
  card.held = true;

  // Both boards send the same sizes; a frame of the experiment has as many packets as its segment holds.
  std::uint64_t packets = 0, wire = 0;
  std::uint32_t frame = 0, sequence = 0;
  const auto size = [&]() -> std::size_t {
    if (bytes) return bytes;
    const double octaves = std::log2(double{largest} / smallest);
    return static_cast<std::size_t>(smallest *
                                    std::exp2(octaves * static_cast<double>(random() >> 11) * 0x1p-53));
  };
  for (; wire * 4 < us * 5000; ++frame) {  // 0.8 ns per byte
    CHECK(frame < buffers, "no buffer is used twice: take a shorter time");
    std::vector<std::size_t> sizes;
    for (std::size_t room = most_segment; sizes.size() < most_packets;) {
      const std::size_t one = size(), used = (one - udp_overhead + 15) / 16 * 16;
      if (used > room) break;
      room -= used;
      sizes.push_back(one);
    }
    for (unsigned index = 0; index < sizes.size(); ++index) {
      ++sequence;
      wire += sizes[index] + 20;
      packets += boards;
      for (unsigned board = 0; board < boards; ++board)
        card.send(board, packet(sizes[index] - udp_overhead, board, frame, index, index + 1 == sizes.size(),
                                sequence));
    }
  }
  card.busy = {};
  card.held = false;
  card.resets = resets;
  const std::uint64_t cycles = settle(card);
  const auto busy = card.busy;

  const auto counter = [&](std::uint32_t at) { return static_cast<unsigned long>(card.read(at)); };
  std::uint64_t cut = 0, overflow = 0;
  for (unsigned c = 0; c < channels; ++c) {
    const std::uint32_t at = AT(verdicts) + c * sizeof(verdicts_t__stride40_t);
    cut += counter(at + offsetof(verdicts_t__stride40_t, bad_fcs));
    overflow += counter(at + offsetof(verdicts_t__stride40_t, overflow));
  }
  const std::uint64_t used = counter(AT(frames.packets_used));
  const auto share = [&](std::uint64_t count) { return static_cast<unsigned long>(count * 1000 / cycles); };
  std::printf("packets %lu used %lu lost %lu cut %lu overflow %lu cycles %lu\n", packets, used,
              packets - used, cut, overflow, cycles);
  std::printf(
      "clop_permille %lu place_permille %lu divide_permille %lu write_permille %lu dma_permille %lu\n",
      share(busy.clop), share(std::max(busy.place[0], busy.place[1])),
      share(std::max(busy.cut[0], busy.cut[1])), share(std::max(busy.write[0], busy.write[1])),
      share(busy.dma));
  std::fflush(stdout);
  if (!resets) return 0;

  CHECK(card.resets == 0, "%lu resets are left: take a longer time", card.resets);
  std::uint64_t udp = 0;
  for (unsigned c = 0; c < channels; ++c) udp += counter(AT(verdicts) + c * sizeof(verdicts_t__stride40_t));
  const std::uint64_t in = counter(AT(frames.packets_in)), dropped = counter(AT(lost.socket_overflow));
  CHECK(udp == in + dropped, "%lu datagrams, %lu packets, %lu without room", udp, in, dropped);
  const auto some = static_cast<unsigned>(bytes ? bytes : smallest);
  for (unsigned index = 0; index < 4; ++index) {
    ++sequence;
    for (unsigned board = 0; board < boards; ++board)
      card.send(board, packet(some - udp_overhead, board, frame, index, index == 3, sequence));
  }
  settle(card);
  const std::uint64_t after = counter(AT(frames.packets_used)) - used;
  CHECK(after == 4 * boards, "%lu of the packets after the resets are used", after);
  return 0;
}
