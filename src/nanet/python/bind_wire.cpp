// SPDX-License-Identifier: Apache-2.0
// nanet._core.wire: packets as bytes, decoded to plain Python values, and captures. For tests and traffic
// inspection.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <vector>

#include "nanet/wire/ethernet.hpp"
#include "nanet/wire/mgp.hpp"
#include "nanet/wire/mtp.hpp"
#include "nanet/wire/pcap.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace nanet;
using namespace nanet::wire;

std::span<const std::byte> view(const nb::bytes& data) {
  return {reinterpret_cast<const std::byte*>(data.c_str()), data.size()};
}
nb::bytes to_bytes(std::span<const std::byte> data) {
  return nb::bytes(data.data(), data.size());
}

nb::dict header_dict(const mgp::Header& h) {
  nb::dict d;
  d["source"] = h.source;
  d["board"] = h.board;
  d["version"] = h.version;
  d["flags"] = h.flags;
  d["length"] = h.length;
  d["events"] = h.events;
  d["index"] = h.index;
  d["encoding"] = h.encoding;
  d["sequence"] = h.sequence;
  d["frame"] = h.frame;
  d["burst"] = h.burst;
  return d;
}

mgp::Header header_of(const nb::dict& d) {
  mgp::Header h;
  const auto take = [&d](const char* key, auto& field) {
    if (d.contains(key)) field = nb::cast<std::decay_t<decltype(field)>>(d[key]);
  };
  take("source", h.source);
  take("board", h.board);
  take("version", h.version);
  take("flags", h.flags);
  take("length", h.length);
  take("events", h.events);
  take("index", h.index);
  take("encoding", h.encoding);
  take("sequence", h.sequence);
  take("frame", h.frame);
  take("burst", h.burst);
  return h;
}

nb::tuple mgp_validate(const nb::bytes& data, std::uint8_t boards, std::uint16_t max_payload,
                       Frame max_frames, std::uint8_t source, const std::vector<std::uint32_t>& first_pm) {
  mgp::Rules rules{source, boards, max_payload, max_frames};
  if (!first_pm.empty()) {
    if (first_pm.size() > rules.first_pm.size()) throw nb::value_error("first_pm: at most 8 boards");
    rules.first_pm.fill(first_pm.back());
    std::copy(first_pm.begin(), first_pm.end(), rules.first_pm.begin());
    if (first_pm.back() > pm_count) rules.encoding = mgp::wide_hit_encoding;
  }
  const mgp::Checked checked = mgp::validate(view(data), rules);
  nb::object reason = nb::none(), header = nb::none();
  if (checked.refusal != mgp::Refusal::none) reason = nb::cast(mgp::name(checked.refusal));
  if (checked.refusal != mgp::Refusal::short_header) header = header_dict(checked.header);
  return nb::make_tuple(reason, header, checked.fragments, checked.hits);
}

nb::dict mgp_decode_header(const nb::bytes& data) {
  if (data.size() < mgp::header_bytes) throw nb::value_error("an MGP header is 16 bytes");
  return header_dict(mgp::decode_header(view(data).data()));
}

nb::bytes mgp_encode_header(const nb::dict& fields) {
  std::array<std::byte, mgp::header_bytes> out;
  mgp::encode_header(out.data(), header_of(fields));
  return to_bytes(out);
}

nb::list mgp_fragments(const nb::bytes& data) {
  nb::list list;
  if (data.size() < mgp::header_bytes) return list;
  const auto bytes = view(data);
  const mgp::Header header = mgp::decode_header(bytes.data());
  mgp::FragmentReader reader(bytes.data(), bytes.size(), header);
  for (mgp::Fragment f; reader.next(f);) {
    nb::list hits;
    for (unsigned i = 0; i < f.stored; ++i) {
      const auto word = mgp::load<std::uint16_t>(f.hits + 2 * i);
      hits.append(nb::make_tuple(mgp::hit_pm(word, header.encoding), mgp::hit_lsb(word, header.encoding)));
    }
    nb::dict d;
    d["timestamp"] = f.timestamp;
    d["fine"] = f.fine;
    d["seen"] = f.seen;
    d["flags"] = f.flags;
    d["hits"] = hits;
    list.append(d);
  }
  return list;
}

using EventArgument =
    std::tuple<Timestamp, FineTime, std::vector<std::tuple<PmId, int>>, std::uint8_t, std::uint8_t>;

nb::bytes mgp_encode_packet(const nb::dict& header, const std::vector<EventArgument>& events,
                            std::size_t limit) {
  std::vector<std::byte> buffer(std::max(limit, mgp::header_bytes));
  const mgp::Header of_packet = header_of(header);
  const bool wide = of_packet.encoding == mgp::wide_hit_encoding;
  mgp::PacketWriter writer(buffer.data(), limit, of_packet);
  for (const auto& [timestamp, fine, hits, seen, flags] : events) {
    std::vector<std::uint16_t> words;
    for (const auto& [pm, lsb] : hits) words.push_back(wide ? pm : mgp::hit_word(pm, lsb / 4));
    if (!writer.add(timestamp, fine, words, seen, flags))
      throw nb::value_error("the event does not fit into the packet");
  }
  return to_bytes({buffer.data(), writer.finish()});
}

nb::bytes mgp_encode_eob(const nb::dict& header, std::uint32_t frames, std::uint32_t packets,
                         std::uint64_t events, std::uint64_t hits) {
  std::array<std::byte, mgp::eob_bytes> out;
  mgp::Header h = header_of(header);
  h.flags = static_cast<std::uint8_t>(h.flags | mgp::flag::eob);
  h.length = static_cast<std::uint16_t>(out.size());
  mgp::encode_header(out.data(), h);
  mgp::encode_eob(out.data(), {frames, packets, events, hits});
  return to_bytes(out);
}

nb::dict mgp_decode_eob(const nb::bytes& data) {
  if (data.size() < mgp::eob_bytes) throw nb::value_error("an EOB is 40 bytes");
  const mgp::EobCounts counts = mgp::decode_eob(view(data).data());
  nb::dict d;
  d["frames"] = counts.frames;
  d["packets"] = counts.packets;
  d["events"] = counts.events;
  d["hits"] = counts.hits;
  return d;
}

nb::bytes mtp_encode(Frame frame,
                     const std::vector<std::tuple<std::uint16_t, std::uint8_t, FineTime>>& primitives,
                     std::uint8_t sub_id, std::uint8_t source) {
  if (primitives.size() > mtp::max_primitives)
    throw nb::value_error("an MTP packet holds at most 255 primitives");
  std::vector<mtp::Primitive> list;
  for (const auto& [id, timestamp, fine] : primitives) list.push_back({id, timestamp, fine});
  std::array<std::byte, mtp::max_bytes> out;
  const std::size_t size =
      mtp::encode(out.data(), frame, list.data(), static_cast<unsigned>(list.size()), sub_id, source);
  return to_bytes({out.data(), size});
}

nb::tuple mtp_decode(const nb::bytes& data, std::uint8_t source) {
  std::array<mtp::TimedPrimitive, mtp::max_primitives> out;
  const mtp::Decoded decoded = mtp::decode(view(data), out.data(), source);
  nb::object reason = nb::none(), header = nb::none();
  if (decoded.refusal != mtp::Refusal::none) reason = nb::cast(mtp::name(decoded.refusal));
  if (decoded.refusal != mtp::Refusal::short_header) {
    nb::dict d;
    d["source"] = decoded.header.source;
    d["sub_id"] = decoded.header.sub_id;
    d["primitives"] = decoded.header.primitives;
    d["length"] = decoded.header.length;
    d["frame"] = decoded.header.frame;
    header = d;
  }
  nb::list primitives;
  for (unsigned i = 0; i < decoded.count; ++i) primitives.append(nb::make_tuple(out[i].time, out[i].id));
  return nb::make_tuple(reason, header, primitives);
}

using EndpointArgument = std::tuple<std::uint32_t, std::uint16_t>;

nb::bytes build_frame(const EndpointArgument& source, const EndpointArgument& destination,
                      const nb::bytes& payload) {
  if (payload.size() > 65'507) throw nb::value_error("a UDP payload is at most 65507 bytes");
  std::vector<std::byte> out(udp_frame_overhead + payload.size());
  build_udp_frame(out.data(), {std::get<0>(source), std::get<1>(source)},
                  {std::get<0>(destination), std::get<1>(destination)}, view(payload));
  return to_bytes(out);
}

nb::tuple parse_frame(const nb::bytes& frame, std::uint16_t port, std::optional<std::size_t> original) {
  const UdpFrame parsed = parse_udp_frame(view(frame), original.value_or(frame.size()), port);
  if (parsed.reason != NotMgp::none) return nb::make_tuple(name(parsed.reason), nb::none());
  return nb::make_tuple(nb::none(), to_bytes(parsed.payload));
}

// File errors become the matching subclass of OSError (FileNotFoundError, …).
template <class F>
auto with_os_errors(const std::string& path, F&& call) {
  try {
    return call();
  } catch (const std::system_error& e) {
    PyErr_SetObject(PyExc_OSError, nb::make_tuple(e.code().value(), e.code().message(), path).ptr());
    throw nb::python_error();
  } catch (const std::runtime_error& e) {
    throw nb::value_error(e.what());
  }
}

struct Reader {
  explicit Reader(const std::string& path)
      : file(with_os_errors(path, [&] { return std::make_unique<PcapReader>(path); })) {}
  std::unique_ptr<PcapReader> file;
};

struct Writer {
  explicit Writer(const std::string& path_)
      : path(path_), file(with_os_errors(path, [&] { return std::make_unique<PcapWriter>(path); })) {}
  std::string path;
  std::unique_ptr<PcapWriter> file;
};

}  // namespace

void bind_wire(nb::module_& m) {
  nb::module_ w = m.def_submodule("wire", "Packets as bytes, and captures (docs/formats.md)");
  nb::list refusals, not_mgp;
  for (std::size_t i = 0; i < mgp::refusal_count; ++i)
    refusals.append(mgp::name(static_cast<mgp::Refusal>(i)));
  for (std::size_t i = 0; i < not_mgp_count; ++i) not_mgp.append(name(static_cast<NotMgp>(i)));
  w.attr("refusals") = nb::tuple(refusals);
  w.attr("not_mgp") = nb::tuple(not_mgp);
  w.attr("default_port") = mgp::default_port;

  w.def(
      "validate", &mgp_validate, "data"_a, "boards"_a = 0xF, "max_payload"_a = mgp::default_max_payload,
      "max_frames"_a = default_max_frames, "source"_a = rich_source,
      "first_pm"_a = std::vector<std::uint32_t>{},
      "Validates an MGP packet: (name of the refusal or None, header as a dict or None, fragments, hits).\n\n"
      "boards: bit b for board b; 0 for one merged stream. first_pm: first PM ID of each board and the "
      "number of PMs; default: NA62's.");
  w.def("decode_header", &mgp_decode_header, "data"_a, "The first 16 bytes of an MGP packet as a dict.");
  w.def("encode_header", &mgp_encode_header, "fields"_a,
        "16 bytes; fields that are not given have their defaults.");
  w.def(
      "fragments", &mgp_fragments, "data"_a,
      "The events of a packet as dicts: timestamp, fine, seen, flags, hits (PM ID, time difference in LSB).");
  w.def("encode_packet", &mgp_encode_packet, "header"_a, "events"_a, "limit"_a = mgp::default_max_payload,
        "An MGP packet. events: (timestamp, fine, [(PM ID, time difference in LSB)], seen, flags). Length "
        "and number of\n"
        "events are filled in. ValueError if an event does not fit.");
  w.def("encode_eob", &mgp_encode_eob, "header"_a, "frames"_a, "packets"_a, "events"_a, "hits"_a,
        "An EOB, 40 bytes.");
  w.def("decode_eob", &mgp_decode_eob, "data"_a, "What an EOB counts, as a dict.");
  w.def("mtp_encode", &mtp_encode, "frame"_a, "primitives"_a, "sub_id"_a = mtp::sub_id_normal,
        "source"_a = rich_source,
        "An MTP packet. primitives, in order of time: (ID, timestamp 7:0, fine time).");
  w.def("mtp_decode", &mtp_decode, "data"_a, "source"_a = rich_source,
        "Decodes an MTP packet: (name of the refusal or None, header as a dict or None, [(time in LSB since "
        "SOB, ID)]).");
  w.def("build_udp_frame", &build_frame, "source"_a, "destination"_a, "payload"_a,
        "An Ethernet frame. source, destination: (IPv4 address as an integer, port).");
  w.def("parse_udp_frame", &parse_frame, "frame"_a, "port"_a = mgp::default_port, "original"_a = nb::none(),
        "The UDP payload in an Ethernet frame: (name of the reason or None, payload or None). original: "
        "length on the wire.");

  nb::class_<Reader>(w, "PcapReader",
                     "Iterates over a classic pcap: (time in ns, frame, length on the wire).")
      .def(nb::init<const std::string&>(), "path"_a)
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__",
           [](Reader& self) {
             PcapRecord record;
             if (!self.file->next(record)) throw nb::stop_iteration();
             return nb::make_tuple(record.time_ns, to_bytes(record.frame), record.original);
           })
      .def(
          "rewind", [](Reader& self) { self.file->rewind(); }, "Starts again with the first record.")
      .def_prop_ro(
          "truncated", [](const Reader& self) { return self.file->truncated(); },
          "True once the file was found to end within a record.");
  nb::class_<Writer>(w, "PcapWriter",
                     "Writes a nanosecond pcap. Call close(), or use it in a with statement.")
      .def(nb::init<const std::string&>(), "path"_a)
      .def(
          "write",
          [](Writer& self, std::int64_t time_ns, const nb::bytes& frame) {
            with_os_errors(self.path, [&] { self.file->write(time_ns, view(frame)); });
          },
          "time_ns"_a, "frame"_a, "Adds an Ethernet frame.")
      .def(
          "write_udp",
          [](Writer& self, std::int64_t time_ns, const EndpointArgument& source,
             const EndpointArgument& destination, const nb::bytes& payload) {
            with_os_errors(self.path, [&] {
              self.file->write_udp(time_ns, {std::get<0>(source), std::get<1>(source)},
                                   {std::get<0>(destination), std::get<1>(destination)}, view(payload));
            });
          },
          "time_ns"_a, "source"_a, "destination"_a, "payload"_a,
          "Adds a UDP datagram; endpoints as in build_udp_frame.")
      .def(
          "close", [](Writer& self) { with_os_errors(self.path, [&] { self.file->close(); }); },
          "Flushes and closes.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__",
           [](Writer& self, nb::args) { with_os_errors(self.path, [&] { self.file->close(); }); });
}
