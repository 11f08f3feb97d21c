// SPDX-License-Identifier: Apache-2.0
// nanet._core.torus: route(), packet words and the event-driven model of the torus.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nanet/torus/card/server.hpp"
#include "nanet/torus/link_words.hpp"
#include "nanet/torus/model.hpp"
#include "nanet/torus/packet.hpp"
#include "nanet/torus/route.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace nanet;

constexpr std::array<std::pair<const char*, torus::Pattern>, 5> patterns{{
    {"uniform", torus::Pattern::uniform},
    {"transpose", torus::Pattern::transpose},
    {"neighbour", torus::Pattern::neighbour},
    {"hotspot", torus::Pattern::hotspot},
    {"halo", torus::Pattern::halo},
}};

torus::Pattern pattern_of(const std::string& name) {
  for (const auto& [known, pattern] : patterns)
    if (name == known) return pattern;
  throw std::invalid_argument("pattern = " + name +
                              ": must be uniform, transpose, neighbour, hotspot or halo");
}

torus::Lattice lattice_of(const torus::Coordinates& size, const torus::Coordinates& order, bool balanced) {
  return {size, order, balanced ? torus::VcRule::balanced : torus::VcRule::infn};
}

template <class T>
nb::object column(std::vector<T> values) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

torus::Word word_of(const nb::bytes& data) {
  if (data.size() != torus::word_bytes) throw nb::value_error("a word has 16 bytes");
  torus::Word word;
  std::memcpy(&word, data.c_str(), sizeof word);
  return word;
}
nb::bytes bytes_of(const torus::Word& word) {
  return nb::bytes(reinterpret_cast<const char*>(&word), sizeof word);
}

torus::Timing timing_of(const nb::dict& d) {
  torus::Timing t;
  for (const auto& entry : d) {
    const auto name = nb::cast<std::string>(entry.first);
    const auto take = [&, &value = entry.second](const char* known, auto& field) {
      if (name != known) return false;
      field = nb::cast<std::decay_t<decltype(field)>>(value);
      return true;
    };
    if (!(take("route_cycles", t.route_cycles) || take("out_cycles", t.out_cycles) ||
          take("link_cycles", t.link_cycles) || take("credit_cycles", t.credit_cycles) ||
          take("cell_words", t.cell_words) || take("packet_cycles", t.packet_cycles) ||
          take("retry_cycles", t.retry_cycles) || take("buffer_words", t.buffer_words) ||
          take("turn_packets", t.turn_packets) || take("reserve", t.reserve) || take("atomic", t.atomic)))
      throw std::invalid_argument(name + " is no stage time of the torus model");
  }
  return t;
}

nb::dict timing_dict(const torus::Timing& t) {
  nb::dict d;
  d["route_cycles"] = t.route_cycles;
  d["out_cycles"] = t.out_cycles;
  d["link_cycles"] = t.link_cycles;
  d["credit_cycles"] = t.credit_cycles;
  d["cell_words"] = t.cell_words;
  d["packet_cycles"] = t.packet_cycles;
  d["retry_cycles"] = t.retry_cycles;
  d["buffer_words"] = t.buffer_words;
  d["turn_packets"] = t.turn_packets;
  d["reserve"] = t.reserve;
  d["atomic"] = t.atomic;
  return d;
}

nb::dict result_dict(const torus::LoadResult& r) {
  nb::dict d;
  d["offered"] = r.offered;
  d["accepted"] = r.accepted;
  d["mean_cycles"] = r.mean_cycles;
  d["p99_cycles"] = r.p99_cycles;
  d["max_cycles"] = r.max_cycles;
  d["packets"] = r.packets;
  d["events"] = r.events;
  d["seconds"] = r.seconds;
  d["link_load_max"] = r.link_load_max;
  d["link_load_mean"] = r.link_load_mean;
  d["deadlocked"] = r.deadlocked;
  return d;
}

nb::dict progress_dict(const torus::Progress& p) {
  nb::dict d;
#define NANET_LINE(name, metric, text) d[#name] = p.name;
  NANET_TORUS_COUNTERS(NANET_LINE)
#undef NANET_LINE
  d["cycles"] = p.cycles;
  d["events"] = p.events;
  d["mean_cycles"] = p.mean_cycles;
  d["p99_cycles"] = p.p99_cycles;
  d["max_cycles"] = p.max_cycles;
  d["done"] = p.done;
  d["deadlocked"] = p.deadlocked;
  return d;
}

}  // namespace

void bind_torus(nb::module_& m) {
  nb::module_ t = m.def_submodule("torus", "3D torus: routing, packet words, event-driven model.");
  t.attr("CLOCK_HZ") = torus::clock_hz;
  t.def(
      "timing",
      [](const std::string& name) {
        if (name == "router") return timing_dict(torus::router_timing);
        if (name == "reliable") return timing_dict(torus::reliable_timing);
        if (name == "apelink") return timing_dict(torus::apelink_timing);
        throw std::invalid_argument("link = " + name + ": must be router, reliable or apelink");
      },
      "link"_a, "Stage times of the model in cycles: router (direct wires), reliable, apelink.");
  t.def(
      "route_table",
      [](const torus::Coordinates& size, const torus::Coordinates& order, bool balanced,
         const std::vector<std::uint8_t>& codes) {
        const torus::Lattice lattice = lattice_of(size, order, balanced);
        std::vector<std::uint16_t> table;
        for (std::uint32_t me = 0; me < lattice.nodes(); ++me) {
          for (unsigned in = 0; in < torus::ports; ++in) {
            for (std::uint32_t to = 0; to < lattice.nodes(); ++to) {
              for (const std::uint8_t code : codes) {
                const torus::Routed r = torus::route(lattice, lattice.at(me), in, lattice.at(to), code);
                table.push_back(static_cast<std::uint16_t>(r.port | r.vchan << 3 | r.out_of_lattice << 8));
              }
            }
          }
        }
        return column(std::move(table));
      },
      "size"_a, "order"_a, "balanced"_a, "codes"_a,
      "route() of all (node, input port, destination, VC code), in this order: port | vchan << 3 | out of "
      "lattice << 8. uint16.");
  t.def(
      "route",
      [](const torus::Coordinates& size, const torus::Coordinates& me, unsigned in,
         const torus::Coordinates& to, std::uint8_t vchan, const torus::Coordinates& order, bool balanced) {
        const torus::Routed r = torus::route(lattice_of(size, order, balanced), me, in, to, vchan);
        return nb::make_tuple(r.port, r.vchan, r.out_of_lattice);
      },
      "size"_a, "me"_a, "in_port"_a, "to"_a, "vchan"_a = torus::vchan_inject,
      "order"_a = torus::Coordinates{2, 1, 0}, "balanced"_a = false,
      "Next hop of a packet: (port, VC code, out of lattice).");
  t.def(
      "protect", [](const nb::bytes& word) { return bytes_of(torus::secded_protect(word_of(word))); },
      "word"_a, "The word with its SECDED byte.");
  t.def(
      "correct",
      [](const nb::bytes& word) {
        const torus::Corrected c = torus::secded_correct(word_of(word));
        return nb::make_tuple(bytes_of(c.word), static_cast<int>(c.result));
      },
      "word"_a, "(word, errors): 0 clean, 1 corrected, 2 uncorrectable (the word as received).");
  t.def(
      "check_packet",
      [](const nb::bytes& data) {
        if (data.size() % torus::word_bytes != 0 || data.size() < 2 * torus::word_bytes)
          throw nb::value_error("a packet has at least two words of 16 bytes");
        std::vector<torus::Word> words(data.size() / torus::word_bytes);
        std::memcpy(words.data(), data.c_str(), data.size());
        return std::string(torus::name(torus::check_packet(
            words.front(), std::span<const torus::Word>(words).subspan(1, words.size() - 2), words.back())));
      },
      "words"_a, "NACK reason of a packet (header, payload, footer), or none.");
  nb::class_<torus::Model>(t, "Model", "Event-driven model of a torus. ValueError names key, value, remedy.")
      .def(
          "__init__",
          [](torus::Model* at, const torus::Coordinates& size, const nb::dict& timing, bool balanced,
             std::uint64_t seed) {
            torus::ModelOptions o;
            o.lattice = lattice_of(size, {2, 1, 0}, balanced);
            o.timing = timing_of(timing);
            o.seed = seed;
            new (at) torus::Model(o);
          },
          "size"_a, "timing"_a = nb::dict(), "balanced"_a = false, "seed"_a = 1)
      .def(
          "run",
          [](torus::Model& model, const std::string& pattern, double load, std::uint32_t payload_bytes,
             std::uint64_t warm_cycles, std::uint64_t cycles, double hot_share) {
            torus::Traffic traffic{pattern_of(pattern), load, payload_bytes, hot_share, warm_cycles, cycles};
            torus::LoadResult r;
            {
              const nb::gil_scoped_release released;
              r = model.run(traffic);
            }
            return result_dict(r);
          },
          "pattern"_a = "uniform", "load"_a = 0.5, "payload_bytes"_a = 256, "warm_cycles"_a = 2000,
          "cycles"_a = 8000, "hot_share"_a = 0.2,
          "Open-loop traffic; load in words per node and cycle, header and footer included.")
      .def(
          "exchange",
          [](torus::Model& model, std::uint32_t packets, std::uint32_t payload_bytes) {
            torus::LoadResult r;
            {
              const nb::gil_scoped_release released;
              r = model.exchange(packets, payload_bytes);
            }
            return result_dict(r);
          },
          "packets"_a, "payload_bytes"_a,
          "Each node sends packets to each of its six neighbours at cycle 0; max_cycles: until the last "
          "tail.")
      .def(
          "play",
          [](torus::Model& model,
             const std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t>>&
                 list) {
            std::vector<torus::Injection> injections;
            for (const auto& [at, from, to, bytes] : list) injections.push_back({at, from, to, bytes});
            std::vector<std::tuple<std::uint64_t, std::uint64_t>> done;
            for (const auto& d : model.play(injections)) done.emplace_back(d.head, d.tail);
            return done;
          },
          "packets"_a,
          "(cycle, from, to, payload bytes) of packets -> (head, tail) cycles at the destination.")
      .def(
          "damage",
          [](torus::Model& model,
             const std::vector<std::tuple<std::uint32_t, std::uint8_t, double, std::uint64_t, std::uint64_t>>&
                 list) {
            std::vector<torus::LinkErrors> errors;
            for (const auto& [node, port, rate, from, to] : list)
              errors.push_back({node, port, rate, from, to});
            model.damage(errors);
          },
          "errors"_a,
          "(node, output port, probability of a damaged word, first cycle, end) of reliable links, for all "
          "runs that follow.")
      .def(
          "start",
          [](torus::Model& model, std::uint32_t iterations, std::uint32_t packets,
             std::uint32_t payload_bytes, std::uint32_t compute_cycles, bool transpose,
             bool sum) { model.start({iterations, packets, payload_bytes, compute_cycles, transpose, sum}); },
          "iterations"_a, "packets"_a = 16, "payload_bytes"_a = 1024, "compute_cycles"_a = 4000,
          "transpose"_a = true, "sum"_a = true,
          "Begins a program on every node: a halo exchange (packets to each neighbour), a transposition "
          "(x, y, z) to (z, y, x), a sum over all nodes by rings, computation.")
      .def(
          "advance",
          [](torus::Model& model, std::uint64_t cycles) {
            torus::Progress p;
            {
              const nb::gil_scoped_release released;
              p = model.advance(cycles);
            }
            return progress_dict(p);
          },
          "cycles"_a, "Runs the program for at most this number of cycles: counters, latency, done.")
      .def(
          "link_resent",
          [](const torus::Model& model) {
            const auto cells = model.link_resent();
            return column(std::vector<std::uint64_t>(cells.begin(), cells.end()));
          },
          "Cells sent again per link of the last run, index node * 6 + port. uint64.")
      .def(
          "link_words",
          [](const torus::Model& model) {
            const auto words = model.link_words();
            return column(std::vector<std::uint64_t>(words.begin(), words.end()));
          },
          "Words per link of the last run, index node * 6 + port. uint64.");
  nb::class_<torus::card::Server>(t, "Cards",
                                  "Cards of a torus for processes: ports, put rings, events in shared files.")
      .def(
          "__init__",
          [](torus::card::Server* at, const std::string& path, const torus::Coordinates& size,
             const nb::dict& timing, bool balanced, std::uint64_t seed, const std::string& program) {
            torus::card::ServerOptions o;
            o.path = path;
            o.program = program;
            o.model.lattice = lattice_of(size, {2, 1, 0}, balanced);
            o.model.timing = timing_of(timing);
            o.model.seed = seed;
            new (at) torus::card::Server(o);
          },
          "path"_a, "size"_a, "timing"_a = nb::dict(), "balanced"_a = false, "seed"_a = 1, "program"_a = "")
      .def(
          "run",
          [](torus::card::Server& server, double seconds) {
            const nb::gil_scoped_release released;
            server.run(static_cast<Nanoseconds>(seconds * 1e9));
          },
          "seconds"_a, "Plays the cards for a time; sleeps while nothing is under way.")
      .def(
          "damage",
          [](torus::card::Server& server,
             const std::vector<std::tuple<std::uint32_t, std::uint8_t, double, std::uint64_t, std::uint64_t>>&
                 list) {
            std::vector<torus::LinkErrors> errors;
            for (const auto& [node, port, rate, from, to] : list)
              errors.push_back({node, port, rate, from, to});
            server.damage(errors);
          },
          "errors"_a, "As of Model.")
      .def(
          "totals",
          [](const torus::card::Server& server) {
            const torus::card::Totals& totals = server.totals();
            nb::dict d, refused;
            d["packets"] = totals.packets;
            d["words"] = totals.words;
            d["hops"] = totals.hops;
            d["mean_cycles"] = totals.packets == 0
                                   ? 0.0
                                   : static_cast<double>(totals.cycles) / static_cast<double>(totals.packets);
            d["max_cycles"] = totals.max_cycles;
            d["cycles"] = server.now();
            d["unexpected"] = totals.unexpected;
            d["events_lost"] = totals.events_lost;
            d["dead"] = totals.dead;
            d["open_ports"] = server.open_ports();
            for (std::size_t k = 1; k < torus::nack_reasons; ++k)
              if (totals.refused[k] > 0)
                refused[std::string(torus::name(static_cast<torus::Nack>(k))).c_str()] = totals.refused[k];
            d["refused"] = refused;
            return d;
          },
          "What the torus has carried: packets, words, hops, cycles per packet; refusals by name.")
      .def(
          "link_words",
          [](const torus::card::Server& server) {
            const auto words = server.link_words();
            return column(std::vector<std::uint64_t>(words.begin(), words.end()));
          },
          "Words per link, index node * 6 + port. uint64.")
      .def(
          "link_resent",
          [](const torus::card::Server& server) {
            const auto cells = server.link_resent();
            return column(std::vector<std::uint64_t>(cells.begin(), cells.end()));
          },
          "Cells sent again per link, index node * 6 + port. uint64.")
      .def(
          "progress", [](const torus::card::Server& server) { return progress_dict(server.progress()); },
          "As Model.advance, of the packets so far; iterations, done and deadlocked are not known here.");
}
