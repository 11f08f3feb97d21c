// SPDX-License-Identifier: SHL-2.1
// Verilated torus nodes (router, reliable links) that carry the packets of another process: `nanet torus
// serve
// --engine rtl`. One verilated class, one instance per node.
//
//     torus_carrier X Y Z
//
// Standard input: u32 packets; of each: u32 number, source node, words, then the words (16 B); at the end u32
// cycles: the most to run. Standard output, after the first delivery, in an empty network or after these
// cycles: u32 under way, u64 cycle, u32 packets; of each: u32 number, u32 words, u64 cycles of creation and
// of its last word, then the words. The first answer, without packets, follows the training of the links.
// Integers in the order of the host. Ends with its input; exit status 1 after an overflow of a buffer or a
// lost packet.
#include <unistd.h>
#include <verilated.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vdut.h"

namespace {

constexpr int kLinks = 6;
constexpr int kDepth = 512;                // words of an input buffer, as in torus_node_sim
constexpr std::uint64_t kTraining = 2000;  // cycles in which all links must come up

using Word = std::array<std::uint32_t, 4>;

struct Packet {
  std::uint32_t number = 0;
  std::uint64_t created = 0;
  std::vector<Word> words;
};

struct Node {
  std::unique_ptr<Vdut> dut;
  std::array<int, kLinks> neighbour{};
  std::array<std::deque<Packet>, 2> waiting;  // by VC
  std::array<std::size_t, 2> sent{};          // words of the front packet
  std::array<int, 2> credit{kDepth, kDepth};
  std::array<Packet, 2> arriving;
};

void read_all(void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = read(STDIN_FILENO, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) std::exit(0);
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void write_all(const std::vector<char>& from) {
  for (std::size_t done = 0; done < from.size();) {
    const ssize_t put = write(STDOUT_FILENO, from.data() + done, from.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) std::exit(0);
    done += static_cast<std::size_t>(put);
  }
}

template <class T>
T take() {
  T value;
  read_all(&value, sizeof value);
  return value;
}

template <class T>
void append(std::vector<char>& out, const T& value) {
  const auto* const at = reinterpret_cast<const char*>(&value);
  out.insert(out.end(), at, at + sizeof value);
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "torus_carrier: %s\n", what);
  std::exit(1);
}

class Torus {
 public:
  explicit Torus(std::array<int, 3> size)
      : size_(size), nodes_(static_cast<std::size_t>(size[0] * size[1] * size[2])), out_(nodes_.size()) {
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      Node& node = nodes_[n];
      const auto at = place(n);
      for (int port = 0; port < kLinks; ++port) {
        auto to = at;
        const int d = port % 3;
        to[d] = (to[d] + (port < 3 ? 1 : size[d] - 1)) % size[d];
        node.neighbour[port] = number(to);
      }
      node.dut = std::make_unique<Vdut>(&context_);
      Vdut& r = *node.dut;
      r.size = size[0] | size[1] << 7 | size[2] << 13;
      r.me = at[0] | at[1] << 6 | at[2] << 11;
      r.connected = r.channel_up = 0x3F;
      r.compatible = 0;
      r.balanced = 0;
      r.rst = 1;
    }
    for (int i = 0; i < 4; ++i) clock();
    for (Node& node : nodes_) node.dut->rst = 0;
    for (std::uint64_t i = 0; !up(); ++i) {
      if (i == kTraining) fail("links do not come up");
      cycle();
    }
    now_ = 0;
    order_.resize(nodes_.size() * nodes_.size());
  }

  std::size_t nodes() const { return nodes_.size(); }
  std::uint64_t now() const { return now_; }
  std::uint32_t under_way() const { return under_way_; }

  void send(std::uint32_t from, Packet packet) {
    const Word& header = packet.words.front();
    const int to = number({static_cast<int>(header[0] >> 21 & 63), static_cast<int>(header[0] >> 27 & 31),
                           static_cast<int>(header[1] & 31)});
    packet.created = now_;
    order_[from * nodes_.size() + static_cast<std::size_t>(to)].push_back({packet.number, now_});
    // One VC per destination: packets of a pair keep their order.
    nodes_[from].waiting[to & 1].push_back(std::move(packet));
    ++under_way_;
  }

  void run(std::uint64_t cycles) {
    delivered.clear();
    for (std::uint64_t i = 0; i < cycles && under_way_ > 0 && delivered.empty(); ++i) cycle();
  }

  std::vector<Packet> delivered;

 private:
  struct Out {
    unsigned valid = 0, control = 0;
    std::array<Word, kLinks> data{};
  };
  struct Sent {
    std::uint32_t number;
    std::uint64_t created;
  };

  std::array<int, 3> place(int n) const {
    return {n % size_[0], n / size_[0] % size_[1], n / size_[0] / size_[1]};
  }
  int number(std::array<int, 3> at) const { return at[0] + size_[0] * (at[1] + size_[1] * at[2]); }

  bool up() const {
    for (const Node& node : nodes_)
      if (node.dut->up != 0x3F) return false;
    return true;
  }

  void clock() {
    for (Node& node : nodes_) {
      node.dut->clk = 0;
      node.dut->eval();
      node.dut->clk = 1;
      node.dut->eval();
    }
  }

  void arrive(Node& node, int n) {
    Vdut& r = *node.dut;
    if (r.overflow != 0) fail("an input buffer has overflowed");
    if (r.lost != 0) fail("a link has lost a packet");
    for (int vc = 0; vc < 2; ++vc) node.credit[vc] += r.local_in_freed >> vc & 1;
    if (!r.local_out_valid) return;
    Packet& packet = node.arriving[r.local_out_vc];
    const auto& word = r.local_out_word;
    if (word[4] >> 1 & 1) packet.words.clear();
    packet.words.push_back({word[0], word[1], word[2], word[3]});
    if ((word[4] & 1) == 0) return;
    // The footer names the source.
    const std::uint32_t source = word[1];
    const int from = number({static_cast<int>(source & 63), static_cast<int>(source >> 6 & 31),
                             static_cast<int>(source >> 11 & 31)});
    if (from >= static_cast<int>(nodes_.size())) fail("a footer with a wrong source");
    auto& order = order_[static_cast<std::size_t>(from) * nodes_.size() + static_cast<std::size_t>(n)];
    if (order.empty()) fail("a packet that was not sent");
    packet.number = order.front().number;
    packet.created = order.front().created;
    order.pop_front();
    delivered.push_back(packet);
    --under_way_;
  }

  void inject(Node& node) {
    Vdut& r = *node.dut;
    r.local_in_valid = 0;
    for (int k = 0; k < 2; ++k) {
      // Words of the two VCs take turns.
      const int vc = static_cast<int>((now_ + static_cast<std::uint64_t>(k)) & 1);
      if (node.waiting[vc].empty() || node.credit[vc] == 0) continue;
      const Packet& packet = node.waiting[vc].front();
      const std::size_t at = node.sent[vc];
      const bool tail = at + 1 == packet.words.size();
      for (int i = 0; i < 4; ++i) r.local_in_word[i] = packet.words[at][i];
      r.local_in_word[4] = static_cast<std::uint32_t>(at == 0) << 1 | static_cast<std::uint32_t>(tail);
      r.local_in_valid = 1;
      r.local_in_vc = static_cast<unsigned char>(vc);
      --node.credit[vc];
      node.sent[vc] = tail ? 0 : at + 1;
      if (tail) node.waiting[vc].pop_front();
      return;
    }
  }

  void cycle() {
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      Vdut& r = *nodes_[n].dut;
      out_[n].valid = r.tx_valid;
      out_[n].control = r.tx_control;
      for (int port = 0; port < kLinks; ++port)
        for (int i = 0; i < 4; ++i) out_[n].data[port][i] = r.tx_data[port][i];
      arrive(nodes_[n], static_cast<int>(n));
    }
    for (Node& node : nodes_) {
      Vdut& r = *node.dut;
      unsigned valid = 0, control = 0;
      for (int port = 0; port < kLinks; ++port) {
        const Out& from = out_[node.neighbour[port]];
        const int there = (port + 3) % 6;
        if (!(from.valid >> there & 1)) continue;
        valid |= 1U << port;
        control |= (from.control >> there & 1) << port;
        for (int i = 0; i < 4; ++i) r.rx_data[port][i] = from.data[there][i];
      }
      r.rx_valid = static_cast<unsigned char>(valid);
      r.rx_control = static_cast<unsigned char>(control);
      inject(node);
    }
    clock();
    ++now_;
  }

  std::array<int, 3> size_;
  VerilatedContext context_;
  std::vector<Node> nodes_;
  std::vector<Out> out_;                 // outputs of all nodes in a cycle
  std::vector<std::deque<Sent>> order_;  // packets under way, by source and destination
  std::uint64_t now_ = 0;
  std::uint32_t under_way_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) fail("arguments: X Y Z");
  Torus torus({std::atoi(arguments[1]), std::atoi(arguments[2]), std::atoi(arguments[3])});
  std::vector<char> out;
  append(out, std::uint32_t{0});
  append(out, torus.now());
  append(out, std::uint32_t{0});
  write_all(out);  // the links are up
  for (;;) {
    const auto packets = take<std::uint32_t>();
    for (std::uint32_t k = 0; k < packets; ++k) {
      Packet packet;
      packet.number = take<std::uint32_t>();
      const auto from = take<std::uint32_t>();
      packet.words.resize(take<std::uint32_t>());
      if (from >= torus.nodes() || packet.words.size() < 2 || packet.words.size() > 258)
        fail("a packet from outside, or of a wrong length");
      read_all(packet.words.data(), packet.words.size() * sizeof(Word));
      torus.send(from, std::move(packet));
    }
    torus.run(take<std::uint32_t>());
    out.clear();
    append(out, torus.under_way());
    append(out, torus.now());
    append(out, static_cast<std::uint32_t>(torus.delivered.size()));
    for (const Packet& packet : torus.delivered) {
      append(out, packet.number);
      append(out, static_cast<std::uint32_t>(packet.words.size()));
      append(out, packet.created);
      append(out, torus.now());
      for (const Word& word : packet.words) append(out, word);
    }
    write_all(out);
  }
}
