// SPDX-License-Identifier: SHL-2.1
// Torus network of verilated routers under synthetic traffic: one verilated class, one instance per node,
// direct wires. With TORUS_LINKS, nodes with links. Checks every delivery: destination, content, once, order
// per source and VC.
//
//     torus_network [NAME=VALUE...]
//
// Writes one JSON object; exit status 1 after a wrong delivery, an overflow or a deadlock.
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
#include <utility>
#include <vector>

#include "Vdut.h"

namespace {

constexpr int kPorts = 7, kLinks = 6, kLanes = 14, kLocal = 6;
constexpr int kLongest = 1024;  // payload words of the longest length field

using Word = VlWide<5>;  // torus_word_t: bit 129 head, 128 tail

struct Options {
  std::map<std::string, std::string> given;
  Options(int count, char** arguments) {
    for (int i = 1; i < count; ++i) {
      const std::string text = arguments[i];
      const auto at = text.find('=');
      if (at == std::string::npos) {
        std::fprintf(stderr, "torus_network: '%s' must be NAME=VALUE\n", text.c_str());
        std::exit(2);
      }
      given[text.substr(0, at)] = text.substr(at + 1);
    }
  }
  double number(const std::string& name, double otherwise) {
    const auto found = given.find(name);
    return found == given.end() ? otherwise : std::atof(found->second.c_str());
  }
  std::string text(const std::string& name, const std::string& otherwise) {
    const auto found = given.find(name);
    return found == given.end() ? otherwise : found->second;
  }
};

struct Packet {
  int to, payload, outside;
  std::uint32_t number;
  std::int64_t born;
};

struct Source {
  std::deque<Packet> waiting;
  std::array<int, 2> credit{};
  int sent = 0, lane = 0;  // words of the front packet; injection VC
  std::uint32_t packets = 0;
};

// A packet under delivery on one VC of a node's local port.
struct Open {
  bool active = false;
  int from = 0, payload = 0, got = 0;
  std::uint32_t number = 0;
  std::int64_t born = 0;
};

std::uint32_t pattern(int from, std::uint32_t number, int word) {
  return static_cast<std::uint32_t>(from) * 2654435761U + number * 40503U + static_cast<std::uint32_t>(word);
}

}  // namespace

int main(int count, char** arguments) {
  Options options(count, arguments);
  const std::array<int, 3> size{static_cast<int>(options.number("x", 4)),
                                static_cast<int>(options.number("y", 4)),
                                static_cast<int>(options.number("z", 4))};
  const int nodes = size[0] * size[1] * size[2];
  const int payload = static_cast<int>(options.number("payload", 16));  // words
  const bool mixed = options.number("mixed", 0) != 0;                   // lengths from 0 to payload
  const int depth = static_cast<int>(options.number("depth", 63));      // credit of a buffer, in words
  const double load = options.number("load", 0.5);                      // words per node and cycle
  const double stall = options.number("stall", 0);                      // share of cycles an output pauses
  const double astray_share = options.number("astray", 0);  // packets to nodes outside the lattice
  const double long_share = options.number("long", 0);      // packets of the longest length field
  const std::int64_t warm = static_cast<std::int64_t>(options.number("warm", 1000));
  const std::int64_t cycles = static_cast<std::int64_t>(options.number("cycles", 2000));
  const std::int64_t patience = static_cast<std::int64_t>(options.number("patience", 5000));
  const std::int64_t limit =
      static_cast<std::int64_t>(options.number("age", 0));  // cycles in the network; 0: none
  const bool drain = options.number("drain", 0) != 0;
  [[maybe_unused]] const bool atomic = options.number("atomic", 0) != 0;
  // Packets from a node leave space for another of their size.
  [[maybe_unused]] const bool reserve = options.number("reserve", 0) != 0;
  // With links: protocol; probability of a damaged word; cycles in which X+ of node 0 is cut.
  [[maybe_unused]] const bool compatible = options.number("compatible", 0) != 0;
  [[maybe_unused]] const double error = options.number("error", 0);
  const std::int64_t break_at = static_cast<std::int64_t>(options.number("break_at", -1));
  const std::int64_t break_for = static_cast<std::int64_t>(options.number("break_for", 2000));
  const std::int64_t quiet = static_cast<std::int64_t>(options.number("quiet", 0));  // for training
  const bool lossy = break_at >= 0;
  const int single = static_cast<int>(options.number("single", -1));  // all traffic from this node
  const std::string traffic = options.text("traffic", "uniform");
  std::mt19937_64 random(static_cast<std::uint64_t>(options.number("seed", 1)));
  std::uniform_real_distribution<double> uniform(0, 1);

  const auto place = [&](int node) {
    return std::array<int, 3>{node % size[0], node / size[0] % size[1], node / size[0] / size[1]};
  };
  const auto number_of = [&](std::array<int, 3> at) { return at[0] + size[0] * (at[1] + size[1] * at[2]); };
  std::vector<std::array<int, kLinks>> neighbour(nodes);
  for (int node = 0; node < nodes; ++node) {
    for (int port = 0; port < kLinks; ++port) {
      auto at = place(node);
      const int d = port % 3;
      at[d] = (at[d] + (port < 3 ? 1 : size[d] - 1)) % size[d];
      neighbour[node][port] = number_of(at);
    }
  }
  const auto destination = [&](int from) {
    auto at = place(from);
    if (traffic == "neighbour")
      at[0] = (at[0] + 1) % size[0];
    else if (traffic == "transpose")
      std::swap(at[0], at[2]);
    else if (traffic == "tornado")
      at[0] = (at[0] + (size[0] - 1) / 2) % size[0];
    else if (traffic == "hotspot" && uniform(random) < 0.2)
      return 0;
    else
      return static_cast<int>(random() % static_cast<std::uint64_t>(nodes));
    return number_of(at);
  };
  const auto hops = [&](int from, int to) {
    int sum = 0;
    const auto a = place(from), b = place(to);
    for (int d = 0; d < 3; ++d) {
      const int forward = (b[d] - a[d] + size[d]) % size[d];
      sum += std::min(forward, size[d] - forward);
    }
    return sum;
  };

  VerilatedContext context;
  std::vector<std::unique_ptr<Vdut>> router;
  std::vector<Source> source(nodes);
  std::vector<std::array<Open, 2>> open(nodes);
  std::vector<std::array<int, kLanes>> credit(nodes);  // of outputs
  const int lattice = size[0] | size[1] << 7 | size[2] << 13;
  for (int node = 0; node < nodes; ++node) {
    router.push_back(std::make_unique<Vdut>(&context));
    auto& r = *router.back();
    const auto at = place(node);
    r.size = lattice;
    r.me = at[0] | at[1] << 6 | at[2] << 11;
    r.connected = 0x3F;
#ifdef TORUS_LINKS
    r.compatible = compatible ? 0x3F : 0;
    r.channel_up = 0x3F;
#else
    r.atomic = atomic ? 0x3F : 0;
    r.empty_space = static_cast<unsigned short>(reserve ? depth - 2 : 0);
#endif
    r.balanced = options.number("balanced", 0) != 0;
    r.rst = 1;
    for (int i = 0; i < 4; ++i) {
      r.clk = 0;
      r.eval();
      r.clk = 1;
      r.eval();
    }
    r.rst = 0;
    credit[node].fill(depth);
    source[node].credit = {depth, depth};
  }

  std::int64_t words = 0, packets = 0, latency = 0, oldest = 0, in_flight = 0, last_progress = 0, wrong = 0;
  std::int64_t astray = 0, overflow = 0, hop_cycles = -1;
  bool deadlock = false;
  std::map<std::uint64_t, std::uint32_t> expected;  // next number of source, destination and injection VC
  std::map<std::uint64_t, std::uint32_t> following;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::int64_t> inside;  // header sent, by key and number
  std::int64_t age = 0;                                                    // longest time in the network
  std::vector<std::array<Word, kLinks>> wire(nodes);
  std::vector<unsigned> wire_valid(nodes), wire_vc(nodes), ready(nodes, 0x7F);
  std::vector<unsigned> freed(nodes);
  const std::int64_t end = warm + cycles;
  for (std::int64_t now = 0; now < end || (drain && in_flight > 0); ++now) {
    // Outputs of this cycle.
    for (int node = 0; node < nodes; ++node) {
      auto& r = *router[node];
      if (stall > 0) {
        ready[node] = 0;
        for (int port = 0; port < kPorts; ++port)
          ready[node] |= static_cast<unsigned>(uniform(random) >= stall) << port;
      }
#ifdef TORUS_LINKS
      wire_valid[node] = r.tx_valid | static_cast<unsigned>(r.local_out_valid) << kLocal;
      wire_vc[node] = r.tx_control | static_cast<unsigned>(r.local_out_vc) << kLocal;
      for (int port = 0; port < kLinks; ++port) {
        for (int i = 0; i < 4; ++i) wire[node][port][i] = r.tx_data[port][i];
      }
      freed[node] = static_cast<unsigned>(r.local_in_freed) << (2 * kLocal);
      const auto& word = r.local_out_word;
#else
      r.out_ready = ready[node];
      wire_valid[node] = r.out_valid & ready[node];
      wire_vc[node] = r.out_vc;
      for (int port = 0; port < kLinks; ++port) {
        if (wire_valid[node] >> port & 1) wire[node][port] = r.out_word[port];
      }
      freed[node] = r.freed;
      const auto& word = r.out_word[kLocal];
#endif
      overflow += r.overflow != 0;
      for (int port = 0; port < kPorts; ++port) astray += r.astray >> port & 1;
      if (!(wire_valid[node] >> kLocal & 1)) continue;
      last_progress = now;
      if (now >= warm && now < end) ++words;
      auto& packet = open[node][wire_vc[node] >> kLocal & 1];
      const bool head = word[4] >> 1 & 1, tail = word[4] & 1;
      if (head) {
        wrong += packet.active;
        packet.active = true;
        packet.got = 0;
        packet.from = static_cast<int>(word[0] >> 5 & 0xFFFF);  // the channel field holds the source
        packet.payload = static_cast<int>((word[1] >> 16 & 0x3FFF) / 16);
        packet.born = word[2] >> 16;
        packet.number = word[2] & 0xFFFF;
        const bool outside = word[1] >> 10 & 1;
        const int to =
            static_cast<int>((word[0] >> 21 & 63)) +
            size[0] * (static_cast<int>(word[0] >> 27 & 31) + size[1] * static_cast<int>(word[1] & 31));
        wrong += outside ? packet.from != node : to != node;
        wrong += (word[0] & 31) != 0;
        if (hop_cycles < 0 && !outside)
          hop_cycles = ((now - packet.born) & 0xFFFF) / (hops(packet.from, node) + 1);
        if (single >= 0 && !outside) wrong += ((now - packet.born) & 0xFFFF) != 5 * (hops(single, node) + 1);
        const std::uint64_t key = (static_cast<std::uint64_t>(packet.from) << 32 |
                                   static_cast<unsigned>(outside ? 0xFFFFFFU : static_cast<unsigned>(node)))
                                      << 1 |
                                  (packet.number & 1);
        auto& next = expected.try_emplace(key, packet.number & 1).first->second;
        wrong += lossy ? ((packet.number - next) & 0xFFFF) >= 0x8000 : (next & 0xFFFF) != packet.number;
        next = lossy ? packet.number + 2 : next + 2;
        if (limit > 0) inside.erase({key, packet.number});
      } else if (!packet.active) {
        ++wrong;
      } else if (!tail) {
        wrong +=
            !lossy && (word[0] != pattern(packet.from, packet.number, packet.got) || word[3] != ~word[0]);
        ++packet.got;
      }
      if (tail) {
        wrong += !packet.active || packet.got != packet.payload;
        packet.active = false;
        --in_flight;
        const std::int64_t born = static_cast<std::int64_t>(word[2]) | static_cast<std::int64_t>(word[3])
                                                                           << 32;
        oldest = std::max(oldest, now - born);
        if (now >= warm && now < end) {
          ++packets;
          latency += now - born;
        }
      }
    }
    if (limit > 0 && now % 256 == 0) {
      for (const auto& [packet, sent] : inside) age = std::max(age, now - sent);
      if (age > limit) {
        deadlock = true;
        break;
      }
    }
    if (in_flight > 0 && now - last_progress > patience) {
      deadlock = !lossy || now < end;  // lost packets remain at the end
      break;
    }
    // Inputs of this cycle.
    for (int node = 0; node < nodes; ++node) {
      auto& r = *router[node];
      unsigned valid = 0, vc = 0;
#ifdef TORUS_LINKS
      unsigned rx_valid = 0, rx_control = 0;
      for (int port = 0; port < kLinks; ++port) {
        const int from = neighbour[node][port], out = (port + 3) % 6;
        const bool cut = now >= break_at && now < break_at + break_for && break_at >= 0 &&
                         ((node == 0 && port == 0) || (from == 0 && out == 0));
        if (compatible) r.channel_up = (r.channel_up & ~(1U << port)) | static_cast<unsigned>(!cut) << port;
        if (cut || !(wire_valid[from] >> out & 1)) continue;
        rx_valid |= 1U << port;
        rx_control |= (wire_vc[from] >> out & 1) << port;
        for (int i = 0; i < 4; ++i) r.rx_data[port][i] = wire[from][out][i];
        if (error > 0 && uniform(random) < error) {
          const auto bit = random() % 128;
          r.rx_data[port][bit / 32] ^= 1U << (bit % 32);
        }
      }
      r.rx_valid = rx_valid;
      r.rx_control = rx_control;
#else
      for (int port = 0; port < kLinks; ++port) {
        const int from = neighbour[node][port], out = (port + 3) % 6;
        if (wire_valid[from] >> out & 1) {
          valid |= 1U << port;
          vc |= (wire_vc[from] >> out & 1) << port;
          r.in_word[port] = wire[from][out];
        }
        const unsigned given = freed[neighbour[node][port]] >> (2 * ((port + 3) % 6));
        for (int lane = 0; lane < 2; ++lane) {
          auto& left = credit[node][2 * port + lane];
          // The space of this cycle counts words accepted before it.
          const int room = std::max(left, 0);
          r.space[2 * port + lane] =
              static_cast<unsigned>(std::max(room - 2, 0)) << 8 | static_cast<unsigned>(std::min(room, 255));
          left += static_cast<int>(given >> lane & 1);
          left -= (wire_valid[node] >> port & 1) != 0 && static_cast<int>(wire_vc[node] >> port & 1) == lane;
        }
      }
      r.space[12] = r.space[13] = 1023U << 8 | 255U;
#endif
      auto& s = source[node];
      for (int lane = 0; lane < 2; ++lane) s.credit[lane] += static_cast<int>(freed[node] >> (12 + lane) & 1);
      if (now >= quiet && now < end && (single < 0 || single == node) &&
          uniform(random) < load / (payload / (mixed ? 2.0 : 1.0) + 2)) {
        const bool outside = uniform(random) < astray_share;
        const bool beyond = long_share > 0 && uniform(random) < long_share;
        const int to = destination(node);
        const int words = mixed ? static_cast<int>(random() % static_cast<unsigned>(payload + 1)) : payload;
        s.waiting.push_back({to, beyond ? kLongest : words, outside || beyond, 0, now});
      }
      if (!s.waiting.empty()) {
        auto& packet = s.waiting.front();
        if (s.sent == 0)
          s.lane = s.credit[0] == s.credit[1] ? static_cast<int>(s.packets & 1) : s.credit[1] > s.credit[0];
        // Unloaded: one packet at a time.
        if (s.credit[s.lane] > 0 && (single < 0 || s.sent > 0 || in_flight == 0)) {
          Word word;
          for (int i = 0; i < 5; ++i) word[i] = 0;
          const auto at = place(packet.to);
          const bool tail = s.sent == packet.payload + 1;
          if (s.sent == 0) {
            const std::uint64_t key = static_cast<std::uint64_t>(node) << 32 |
                                      (packet.outside ? 0xFFFFFFU : static_cast<unsigned>(packet.to));
            auto& next =
                following.try_emplace(key << 1 | static_cast<unsigned>(s.lane), s.lane).first->second;
            packet.number = next & 0xFFFF;
            if (limit > 0) inside[{key << 1 | static_cast<unsigned>(s.lane), packet.number}] = now;
            next += 2;
            const auto bytes = static_cast<unsigned>(std::min(packet.payload * 16, 16383));
            word[0] = 0x10U | static_cast<unsigned>(node) << 5 |
                      static_cast<unsigned>(packet.outside && packet.payload < kLongest ? 63 : at[0]) << 21 |
                      static_cast<unsigned>(at[1]) << 27;
            word[1] = static_cast<unsigned>(at[2]) | bytes << 16;
            word[2] = (packet.number & 0xFFFFU) | static_cast<unsigned>(now) << 16;
            word[4] = 2;
            ++in_flight;
            if (now - last_progress > patience) last_progress = now;
          } else if (!tail) {
            word[0] = pattern(node, packet.number, s.sent - 1);
            word[3] = ~word[0];
          } else {
            word[2] = static_cast<unsigned>(packet.born);
            word[3] = static_cast<unsigned>(packet.born >> 32);
            word[4] = 1;
          }
          valid |= 1U << kLocal;
          vc |= static_cast<unsigned>(s.lane) << kLocal;
#ifdef TORUS_LINKS
          r.local_in_word = word;
#else
          r.in_word[kLocal] = word;
#endif
          --s.credit[s.lane];
          if (tail) {
            s.waiting.pop_front();
            s.sent = 0;
            ++s.packets;
          } else {
            ++s.sent;
          }
        }
      }
#ifdef TORUS_LINKS
      r.local_in_valid = valid >> kLocal & 1;
      r.local_in_vc = vc >> kLocal & 1;
#else
      r.in_valid = valid;
      r.in_vc = vc;
#endif
    }
    for (auto& r : router) {
      r->clk = 0;
      r->eval();
      r->clk = 1;
      r->eval();
    }
  }
  std::int64_t lost = 0;
#ifdef TORUS_LINKS
  for (const auto& r : router) lost += r->lost;
#endif
  std::int64_t waiting = 0;
  for (const auto& s : source) waiting += static_cast<std::int64_t>(s.waiting.size());
  std::printf(
      "{\"nodes\": %d, \"offered\": %.3f, \"accepted\": %.4f, \"latency\": %.1f, \"oldest\": %lld, "
      "\"age\": %lld, "
      "\"packets\": %lld, "
      "\"waiting\": %lld, \"in_flight\": %lld, \"hop_cycles\": %lld, \"astray\": %lld, \"overflow\": %lld, "
      "\"lost\": %lld, "
      "\"wrong\": %lld, "
      "\"deadlock\": %s}\n",
      nodes, load, static_cast<double>(words) / nodes / static_cast<double>(cycles),
      packets ? static_cast<double>(latency) / static_cast<double>(packets) : 0.0,
      static_cast<long long>(oldest), static_cast<long long>(age), static_cast<long long>(packets),
      static_cast<long long>(waiting), static_cast<long long>(in_flight), static_cast<long long>(hop_cycles),
      static_cast<long long>(astray), static_cast<long long>(overflow), static_cast<long long>(lost),
      static_cast<long long>(wrong), deadlock ? "true" : "false");
  return wrong != 0 || overflow != 0 || deadlock;
}
