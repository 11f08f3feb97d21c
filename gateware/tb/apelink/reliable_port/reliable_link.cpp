// SPDX-License-Identifier: SHL-2.1
// Two verilated reliable_port modules with a delayed, faulty wire between them. Random packets on both VCs,
// interleaved by word; a header follows its grant as in the router; the receiver's buffers are limited and
// emptied at random.
//
//     reliable_link [NAME=VALUE...]
//
// Writes one JSON object; exit status 1 if a word is lost, repeated, changed, out of order or beyond the
// buffers, or if packets remain.
#include <verilated.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "Vdut.h"

namespace {

using Word = std::array<std::uint32_t, 5>;  // torus_word_t: bit 129 head, 128 tail

struct Wired {
  bool valid = false, control = false;
  std::array<std::uint32_t, 4> data{};
};

// Cycles from the space that a router grants a packet with to the packet's header.
constexpr long kGrant = 4;

struct Side {
  std::unique_ptr<Vdut> port;
  std::array<std::deque<Word>, 2> send;      // words to be sent, per VC
  std::array<std::deque<Word>, 2> expected;  // accepted while the link is up
  std::array<std::deque<bool>, 2> buffer;    // words held: head or tail
  std::array<long, 2> leaves{-1, -1};        // cycle in which the granted header leaves; -1: not granted
  std::deque<Wired> wire;                    // towards the other side
  std::array<bool, 2> cut{};                 // the open packet's words are not compared
  std::array<bool, 2> open{};                // the receiver is within a packet
  long delivered = 0, payload = 0, packets = 0, wire_words = 0, first_in = -1, first_out = -1;
};

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string, double> given;
  for (int i = 1; i < count; ++i) {
    const std::string text = arguments[i];
    given[text.substr(0, text.find('='))] = std::atof(text.substr(text.find('=') + 1).c_str());
  }
  const auto option = [&](const char* name, double otherwise) {
    return given.contains(name) ? given[name] : otherwise;
  };
  const double error = option("error", 0);  // probability that a word on the wire is damaged
  const long cycles = static_cast<long>(option("cycles", 20000));
  const int delay = static_cast<int>(option("delay", 8));
  const int longest = static_cast<int>(option("payload", 256));
  const bool mixed = option("mixed", 1) != 0;
  const double push = option("push", 1), pull = option("pull", 1), stall = option("stall", 0);
  const int capacity = static_cast<int>(option("capacity", 512));
  const long break_at = static_cast<long>(option("break_at", -1));
  const long break_for = static_cast<long>(option("break_for", 1000));
  const bool both = option("both", 1) != 0;
  std::mt19937_64 random(static_cast<std::uint64_t>(option("seed", 1)));
  const auto chance = [&](double p) {
    return p > 0 && std::uniform_real_distribution<double>(0, 1)(random) < p;
  };

  VerilatedContext context;
  std::array<Side, 2> sides;
  for (auto& side : sides) {
    side.port = std::make_unique<Vdut>(&context);
    auto& p = *side.port;
    p.enable = 1;
    p.capacity = static_cast<unsigned short>(capacity);
    p.rst = 1;
    for (int i = 0; i < 4; ++i) {
      p.clk = 0;
      p.eval();
      p.clk = 1;
      p.eval();
    }
    p.rst = 0;
    p.clk = 0;
    p.eval();
    side.wire.resize(static_cast<std::size_t>(delay));
  }
  long wrong = 0, injected_errors = 0, idle = 0, overflow = 0, cuts = 0;
  bool broken = false, started = false;
  long now = 0;
  for (; now < 40 * cycles; ++now) {
    const bool stop = now >= cycles;
    const bool severed = break_at >= 0 && now >= break_at && now < break_at + break_for;
    broken |= severed;
    bool busy = false;
    for (int a = 0; a < 2; ++a) {
      Side& side = sides[a];
      Side& other = sides[1 - a];
      auto& p = *side.port;
      // New packets.
      for (int vc = 0; vc < 2 && !stop && (both || a == 0); ++vc) {
        if (!side.send[vc].empty()) continue;
        const int payload = mixed ? static_cast<int>(random() % static_cast<unsigned>(longest + 1)) : longest;
        const auto bytes = static_cast<std::uint32_t>(payload * 16);
        for (int i = 0; i < payload + 2; ++i) {
          Word word;
          for (auto& part : word) part = static_cast<std::uint32_t>(random());
          word[4] = i == 0 ? 2 : i == payload + 1;
          if (i == 0) word[1] = (word[1] & 0xC0007FFF) | bytes << 16;  // length; bit 47 clear
          side.send[vc].push_back(word);
        }
      }
      // Word offered in this cycle: as the router, a header only with space for its whole packet.
      int chosen = -1;
      started |= p.up && other.port->up;
      for (int i = 0; i < 2; ++i) {
        const int vc = static_cast<int>((now + i) & 1);
        if (!started || chosen >= 0 || side.send[vc].empty() || !chance(push)) continue;
        if (side.send[vc].front()[4] & 2 && (side.leaves[vc] < 0 || now < side.leaves[vc])) continue;
        chosen = vc;
      }
      p.in_valid = chosen >= 0;
      if (chosen >= 0) {
        p.in_vc = static_cast<unsigned char>(chosen);
        for (int i = 0; i < 5; ++i) p.in_word[i] = side.send[chosen].front()[i];
      }
      // The buffers of this side.
      unsigned long long used = 0;
      p.freed = 0;
      for (int vc = 0; vc < 2; ++vc) {
        if (!side.buffer[vc].empty() && chance(pull)) {
          side.buffer[vc].pop_front();
          p.freed |= static_cast<unsigned char>(1 << vc);
        }
        unsigned long long edges = 0;
        for (const bool edge : side.buffer[vc]) edges += edge;
        used |= ((side.buffer[vc].size() - edges) << 8 | edges) << (18 * vc);
      }
      p.used = used;
      // The wire from the other side.
      Wired arrived;
      if (!other.wire.empty()) {
        arrived = other.wire.front();
        other.wire.pop_front();
      }
      if (severed) arrived.valid = false;
      if (arrived.valid && chance(error)) {
        ++injected_errors;
        const int bits = 1 + static_cast<int>(random() % 3);
        if (random() % 16 == 0) arrived.control = !arrived.control;
        for (int i = 0; i < bits; ++i) {
          const auto bit = random() % 128;
          arrived.data[bit / 32] ^= 1U << (bit % 32);
        }
      }
      p.rx_valid = arrived.valid;
      p.rx_control = arrived.control;
      for (int i = 0; i < 4; ++i) p.rx_data[i] = arrived.data[i];
      p.tx_ready = !chance(stall);
      p.clk = 0;
      p.eval();
      if (chosen >= 0 && p.in_ready) {
        if (side.first_in < 0) side.first_in = now;
        if (p.up) {
          other.expected[chosen].push_back(side.send[chosen].front());
        }
        side.send[chosen].pop_front();
        side.leaves[chosen] = -1;
      }
      for (int vc = 0; vc < 2; ++vc) {
        if (!started || side.send[vc].empty() || side.leaves[vc] >= 0) continue;
        const Word& word = side.send[vc].front();
        const auto data = static_cast<unsigned>(p.space >> (18 * vc + 8) & 0x3FF);
        const auto header = static_cast<unsigned>(p.space >> (18 * vc) & 0xFF);
        const bool fits = data >= (word[1] >> 16 & 0x3FFF) / 16 && header >= 2;
        if (word[4] & 2 && fits) side.leaves[vc] = now + kGrant;
      }
      Wired leaving;
      leaving.valid = p.tx_valid && p.tx_ready;
      leaving.control = p.tx_control;
      for (int i = 0; i < 4; ++i) leaving.data[i] = p.tx_data[i];
      side.wire.push_back(leaving);
      side.wire_words += p.up && !stop;
      if (p.out_valid) {
        const int vc = p.out_vc;
        Word word;
        for (int i = 0; i < 5; ++i) word[i] = p.out_word[i];
        side.buffer[vc].push_back((word[4] & 3) != 0);
        overflow += static_cast<int>(side.buffer[vc].size()) > capacity;
        const bool head = word[4] & 2, tail = word[4] & 1;
        wrong += head == side.open[vc];
        side.open[vc] = !tail;
        auto& expected = side.expected[vc];
        if (broken && head) {
          // A break loses whole packets: the sequence goes on at a later packet.
          while (!expected.empty() && expected.front() != word) expected.pop_front();
        }
        if (!expected.empty() && expected.front() == word) {
          expected.pop_front();
        } else if (broken) {
          side.cut[vc] = true;  // filled words
        } else {
          ++wrong;
        }
        if (tail) {
          cuts += side.cut[vc];
          side.cut[vc] = false;
          ++side.packets;
        } else if (!head && !stop) {
          ++side.payload;
        }
        ++side.delivered;
        if (side.first_out < 0) side.first_out = now;
        idle = 0;
      }
    }
    for (auto& side : sides) {
      side.port->clk = 1;
      side.port->eval();
      busy |= !side.send[0].empty() || !side.send[1].empty();
      busy |= !broken && (!side.expected[0].empty() || !side.expected[1].empty());
    }
    ++idle;
    if (stop && (!busy || idle > 20000) && idle > 1500) break;
  }
  long remaining = 0;
  for (auto& side : sides) {
    for (int vc = 0; vc < 2; ++vc) {
      remaining +=
          static_cast<long>(side.send[vc].size() + (broken ? 0 : side.expected[vc].size())) + side.open[vc];
    }
    remaining += !side.port->up;
  }
  const auto counter = [&](int side, int low) {
    const auto& c = sides[side].port->counters;
    return static_cast<std::uint32_t>(
        (static_cast<std::uint64_t>(c[low / 32]) |
         static_cast<std::uint64_t>(low / 32 + 1 < 7 ? c[low / 32 + 1] : 0) << 32) >>
        (low % 32));
  };
  std::printf(
      "{\"packets\": %ld, \"efficiency\": %.4f, \"latency\": %ld, \"errors\": %ld, \"damaged\": %u, "
      "\"resent\": %u, "
      "\"sent\": %u, \"dropped\": %u, \"down\": %u, \"cut\": %u, \"cuts\": %ld, \"wrong\": %ld, "
      "\"overflow\": %ld, \"remaining\": %ld}\n",
      sides[0].packets + sides[1].packets,
      static_cast<double>(sides[1].payload) / static_cast<double>(sides[0].wire_words),
      sides[1].first_out - sides[0].first_in, injected_errors, counter(1, 64) + counter(0, 64),
      counter(0, 128) + counter(1, 128), counter(0, 160) + counter(1, 160), counter(0, 32) + counter(1, 32),
      counter(0, 0) & 0xFFFF, (counter(0, 16) & 0xFFFF) + (counter(1, 16) & 0xFFFF), cuts, wrong, overflow,
      remaining);
  return wrong != 0 || overflow != 0 || remaining != 0;
}
