// SPDX-License-Identifier: Apache-2.0
// Capture writer for generated events.
#include "nanet/readout/capture.hpp"

#include <cmath>
#include <sstream>
#include <stdexcept>

namespace nanet::readout {
namespace {

namespace mgp = wire::mgp;

template <class T>
void in_range(const char* option, T value, T low, T high) {
  if (value >= low && value <= high) return;  // false for NaN
  std::ostringstream text;
  text << option << " = " << value << ": must be from " << low << " to " << high;
  throw std::invalid_argument(text.str());
}

const CaptureOptions& checked(const CaptureOptions& options) {
  check(options.generator, options.pack, options.burst_frames);
  in_range<std::uint64_t>("--events", options.events, 1, 1'000'000'000'000);
  return options;
}

}  // namespace

void check(const rich::GeneratorOptions& generator, const PackOptions& pack, Frame burst_frames) {
  in_range("--rate", generator.rate, 1.0, 1e9);
  in_range("--noise", generator.noise, 0.0, 100.0);
  if (generator.rings != rich::ring_mix)
    in_range("--rings", generator.rings, 0, static_cast<int>(rich::max_rings));
  in_range<std::uint32_t>("--max-payload", pack.max_payload, mgp::header_bytes + mgp::fixed_event_bytes,
                          65507);
  in_range<Frame>("--max-frames", burst_frames, 1, 1u << 24);
}

CaptureWriter::CaptureWriter(const CaptureOptions& options, const std::string& path)
    : options_(checked(options)), source_(options.generator, options.pack, options.events), pcap_(path) {}

void CaptureWriter::send(unsigned board, std::int64_t time_ns, const std::byte* datagram, std::size_t size) {
  const wire::Endpoint source{.port = static_cast<std::uint16_t>(first_source_port + board)};
  pcap_.write_udp(time_ns, source, {.port = mgp::default_port}, {datagram, size});
  ++board_[board].counts.packets;
  ++board_[board].sequence;
  ++totals_.packets;
  totals_.bytes += size;
}

void CaptureWriter::begin_burst(std::int64_t time_ns) {
  std::byte marker[mgp::header_bytes];
  for (unsigned board = 0; board < boards(); ++board) {
    board_[board] = {};
    send(board, time_ns, marker,
         make_sob(marker, board_id(board), static_cast<std::uint8_t>(burst_),
                  encoding_of(options_.generator)));
  }
  ++totals_.bursts;
}

void CaptureWriter::end_burst(std::int64_t time_ns, Frame last) {
  std::byte marker[mgp::eob_bytes];
  for (unsigned board = 0; board < boards(); ++board) {
    Board& b = board_[board];
    mgp::EobCounts counts = b.counts;
    counts.frames = last + 1;
    ++counts.packets;  // this one
    send(board, time_ns, marker,
         make_eob(marker, board_id(board), static_cast<std::uint8_t>(burst_), last, b.sequence, counts,
                  encoding_of(options_.generator)));
  }
  ++burst_;
}

bool CaptureWriter::next(std::uint32_t frames) {
  truth_.clear();
  hits_.clear();
  if (finished_) return false;
  const std::uint64_t enough = totals_.events + chunk_events;
  for (std::uint32_t i = 0; i < frames && totals_.events < enough; ++i) {
    source_.next(frame_);
    const auto frame = static_cast<Frame>(totals_.frames - burst_ * options_.burst_frames);
    const auto time_at = [](std::uint64_t whole_frames) {
      return start_ns + static_cast<std::int64_t>(std::floor(static_cast<double>(whole_frames) * frame_ns));
    };
    if (frame == 0) begin_burst(time_at(totals_.frames));
    ++totals_.frames;
    const std::int64_t now = time_at(totals_.frames);
    for (const FramePacket& packet : frame_.packets) {
      const unsigned board = options_.pack.merged ? 0u : packet.board;
      std::byte* datagram = frame_.bytes.data() + packet.offset;
      stamp(datagram, frame, board_[board].sequence, static_cast<std::uint8_t>(burst_));
      send(board, now, datagram, packet.size);
    }
    for (unsigned board = 0; board < boards(); ++board) {
      board_[board].counts.events += frame_.fragments[board];
      board_[board].counts.hits += frame_.hits[board];
      totals_.fragments += frame_.fragments[board];
      totals_.hits += frame_.hits[board];
    }
    for (const rich::TrueEvent& event : source_.events()) {
      if (options_.truth) truth_.append(event, options_.burst_frames);
      if (options_.truth_hits) hits_.append(event, options_.burst_frames);
      ++totals_.events;
    }
    finished_ = source_.done();
    if (finished_ || frame + 1 == options_.burst_frames) end_burst(now, frame);
    if (finished_) {
      pcap_.close();
      break;
    }
  }
  return true;
}

}  // namespace nanet::readout
