// SPDX-License-Identifier: Apache-2.0
// Recorded capture: packet order, frames of the run and event counts.
#include "nanet/readout/recording.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "nanet/wire/ethernet.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::readout {
namespace {

constexpr std::uint32_t merge_window = 41;  // LSB, default of the trigger (docs/formats.md, Merging)

// Validation rules, for four boards or one merged stream.
bool sound(std::span<const std::byte> payload, wire::mgp::Checked& checked) {
  wire::mgp::Rules rules;
  rules.max_payload = 0xFFFF;
  rules.max_frames = 1u << 24;
  if (payload.size() > 1 && static_cast<BoardId>(payload[1]) == merged_board) rules.boards = 0;
  checked = wire::mgp::validate(payload, rules);
  return checked.refusal == wire::mgp::Refusal::none;
}

// Sort key of a fragment: frame of the run, time within the frame, board.
std::uint64_t key(std::uint64_t frame, const wire::mgp::Fragment& f, BoardId board) {
  return frame << 24 | std::uint64_t{f.timestamp & 0xFF} << 16 | std::uint64_t{f.fine} << 8 | board;
}

}  // namespace

Recording::Recording(const std::string& path, std::uint16_t port) : reader_(path) {
  std::vector<std::uint64_t> fragments;
  wire::PcapRecord record;
  std::int64_t start = 0;
  std::uint64_t base = 0;  // frames of the previous bursts
  Frame newest = 0;        // in this burst
  int burst = -1;
  while (reader_.next(record)) {
    const wire::UdpFrame udp = wire::parse_udp_frame(record.frame, record.original, port);
    if (udp.reason != wire::NotMgp::none) {
      ++skipped_;
      continue;
    }
    if (packets_.empty()) start = record.time_ns;
    RecordedPacket packet;
    packet.time_ns = record.time_ns - start;
    packet.data = udp.payload.data();
    packet.size = static_cast<std::uint32_t>(udp.payload.size());
    packet.board = packet.size > 1 ? static_cast<BoardId>(udp.payload[1]) : BoardId{0};
    wire::mgp::Checked checked;
    packet.marker = true;
    if (sound(udp.payload, checked)) {
      const wire::mgp::Header& header = checked.header;
      // A burst number is new if it is 1 - 127 ahead. Packets of older bursts belong to no frame that still
      // needs an answer.
      const unsigned ahead = burst < 0 ? 1 : (header.burst - static_cast<unsigned>(burst)) & 0xFF;
      if (ahead >= 1 && ahead < 128) {
        if (burst >= 0) base += newest + 1;
        burst = header.burst;
        newest = 0;
        ++bursts_;
      }
      if (ahead < 128) {
        newest = std::max(newest, header.frame);
        packet.frame = base + header.frame;
        if (!header.has(wire::mgp::flag::sob | wire::mgp::flag::eob)) {
          packet.marker = false;
          packet.fragments = static_cast<std::uint16_t>(checked.fragments);
          wire::mgp::FragmentReader reader(packet.data, packet.size, header);
          wire::mgp::Fragment fragment;
          while (reader.next(fragment))
            if (fragment.stored > 0) fragments.push_back(key(packet.frame, fragment, packet.board));
        }
      }
    }
    packets_.push_back(packet);
  }
  if (packets_.empty())
    throw std::runtime_error("pcap = '" + path + "' holds no UDP packet to port " + std::to_string(port) +
                             ": give a capture of MGP traffic, or the port it went to with --pcap-port");
  frames_ = burst < 0 ? 0 : base + newest + 1;
  events_.resize(frames_);
  count_events(fragments);
}

void Recording::count_events(std::vector<std::uint64_t>& fragments) {
  std::sort(fragments.begin(), fragments.end());
  struct Open {
    std::uint64_t start;        // frame and time of the first fragment
    std::array<bool, 256> has;  // boards
  };
  std::vector<Open> open;
  for (const std::uint64_t fragment : fragments) {
    const std::uint64_t frame = fragment >> 24;
    const std::uint64_t time = (fragment >> 8) & 0xFFFF;
    const auto board = static_cast<BoardId>(fragment);
    std::erase_if(open, [&](const Open& event) {
      return event.start >> 16 != frame || time - (event.start & 0xFFFF) > merge_window;
    });
    const auto joins =
        std::find_if(open.begin(), open.end(), [&](const Open& event) { return !event.has[board]; });
    if (joins != open.end()) {
      joins->has[board] = true;
      continue;
    }
    open.push_back({frame << 16 | time, {}});
    open.back().has[board] = true;
    ++events_[frame];
  }
}

}  // namespace nanet::readout
