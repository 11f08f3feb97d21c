// SPDX-License-Identifier: Apache-2.0
// Level 1: event builder, reconstruction, socket.
#include "nanet/trigger/live/level1.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "nanet/contract/layout.hpp"
#include "nanet/os/clock.hpp"
#include "nanet/os/socket.hpp"

namespace nanet::trigger {
namespace {

// An MGP packet of one answer: the header, and data of at most one MEP.
constexpr std::size_t payload_bytes = 2048;
constexpr std::size_t slot_bytes = 2048;
constexpr int poll_ms = 20;
constexpr unsigned batch = 256;
constexpr Nanoseconds drain_ns = 200'000'000;

wire::mgp::Rules rules_of(const Level1Options& options) {
  wire::mgp::Rules rules = options.rules;
  rules.max_payload = payload_bytes;
  rules.max_frames = 1 << 24;
  return rules;
}

}  // namespace

Level1Builder::Level1Builder(const Level1Options& options)
    : options_(options),
      boards_(static_cast<unsigned>(std::bit_width(options.rules.boards))),
      rules_(rules_of(options)),
      slots_(options.open),
      events_(wire::mep::max_events),
      payloads_(max_boards * payload_bytes + contract::tail_bytes),
      builder_(payload_bytes, std::max(1U, boards_), options.window_lsb, options.detector->wide()),
      algorithm_(rich::make_reconstructor(options.algorithm, options.parameters, *options.detector)) {
  if (options.rules.boards == 0)
    throw std::invalid_argument("card.boards = merged: level 1 takes the events of separate boards");
  if (!std::has_single_bit(options.open))
    throw std::invalid_argument("open events = " + std::to_string(options.open) + ": use a power of two");
}

void Level1Builder::packet(std::span<const std::byte> packet) noexcept {
  ++counts_.packets;
  counts_.bytes += packet.size();
  if (packet.size() > slot_bytes) {  // longer than any board sends
    ++counts_.refused[static_cast<std::size_t>(wire::mep::Refusal::length_mismatch)];
    return;
  }
  const auto decoded = wire::mep::decode(packet, boards_, events_.data(), rules_.source);
  if (decoded.refusal != wire::mep::Refusal::none) {
    ++counts_.refused[static_cast<std::size_t>(decoded.refusal)];
    return;
  }
  for (unsigned i = 0; i < decoded.count; ++i) {
    const wire::mep::Event& event = events_[i];
    Slot& slot = slots_[event.number & (slots_.size() - 1)];
    if (slot.number != event.number || slot.answered == 0) {
      // Numbers have 24 bits; one behind the slot's belongs to an event that was given up.
      const auto ahead = static_cast<std::int32_t>((event.number - slot.number) << 8);
      if (slot.answered != 0 && ahead < 0) {
        ++counts_.stale;
        continue;
      }
      close(slot);
      slot.number = event.number;
      slot.timestamp = event.timestamp;
      slot.answered = 0;
      slot.open = true;
      slot.data.clear();
    }
    const auto bit = static_cast<std::uint8_t>(1U << decoded.board);
    if (slot.timestamp != event.timestamp) {
      ++counts_.wrong_time;
    } else if (slot.answered & bit) {
      ++counts_.twice;
    } else {
      slot.answered = static_cast<std::uint8_t>(slot.answered | bit);
      slot.from[decoded.board] = static_cast<std::uint32_t>(slot.data.size());
      slot.bytes[decoded.board] = static_cast<std::uint16_t>(event.data.size());
      slot.data.insert(slot.data.end(), event.data.begin(), event.data.end());
      if ((slot.answered & rules_.boards) == rules_.boards && slot.open) {
        slot.open = false;  // the number stays, so that a second answer is recognised
        ++counts_.complete;
        reconstruct(slot);
      }
    }
  }
}

void Level1Builder::close(Slot& slot) noexcept {
  if (slot.open) ++counts_.incomplete;
  slot.open = false;
}

void Level1Builder::finish() noexcept {
  for (Slot& slot : slots_) close(slot);
}

// Writes the fragments of the trigger's frame as an MGP packet: the trigger builds events within a frame.
// Returns its bytes; 0: data that are no MGP events, or of no such board.
std::size_t Level1Builder::copy(const Slot& slot, BoardId board, std::byte* out) noexcept {
  wire::mgp::Header header;
  header.source = rules_.source;
  header.board = board;
  header.encoding = rules_.encoding;
  header.frame = slot.timestamp >> 8;
  std::size_t used = wire::mgp::header_bytes;
  const std::byte* at = slot.data.data() + slot.from[board];
  for (std::size_t left = slot.bytes[board]; left > 0;) {
    if (left < wire::mgp::event_header_bytes) return 0;
    const std::size_t size = wire::mgp::event_header_bytes + 2 * static_cast<std::size_t>(at[5]);
    if (size > left) return 0;
    if (wire::mgp::load<Timestamp>(at) >> 8 == header.frame && header.events < 255) {
      std::memcpy(out + used, at, size);
      used += size;
      ++header.events;
    }
    at += size;
    left -= size;
  }
  header.length = static_cast<std::uint16_t>(used);
  wire::mgp::encode_header(out, header);
  return wire::mgp::validate({out, used}, rules_).refusal == wire::mgp::Refusal::none ? used : 0;
}

void Level1Builder::reconstruct(const Slot& slot) noexcept {
  std::array<Segment, max_boards> segments;
  for (unsigned b = 0; b < boards_; ++b) {
    std::byte* const out = payloads_.data() + b * payload_bytes;
    segments[b] = {out, 0};
    if (!(rules_.boards >> b & 1)) continue;
    segments[b].bytes = copy(slot, static_cast<BoardId>(b), out);
    counts_.bad_data += segments[b].bytes == 0;
  }
  const BuiltFrame& built = builder_.build(std::span(segments).first(boards_));
  bool any = false;
  for (std::uint32_t i = 0; i < built.events; ++i) {
    if (built.time[i] >> 8 != (slot.timestamp & 0xFF)) continue;
    rich::Rings rings;
    (*algorithm_)(rich::EventBatch{1, built.first + i, built.pm}, &rings);
    any = true;
    ++counts_.events;
    counts_.rings += rings.count;
    ++counts_.by_rings[std::min<unsigned>(rings.count, rich::max_rings)];
  }
  counts_.empty += !any;
}

Level1::Level1(const Level1Options& options)
    : socket_(os::open_udp_receiver(options.listen, {.buffer_bytes = options.buffer_bytes})),
      endpoint_(os::local_endpoint(socket_.get())),
      builder_(options),
      bytes_(slot_bytes) {}

Level1::~Level1() {
  stop();
}

void Level1::start() {
  thread_ = std::thread([this] { run(); });
}

void Level1::stop() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

bool Level1::round() {
  const std::lock_guard lock(mutex_);
  unsigned packets = 0;
  for (ssize_t n = 0; packets < batch; ++packets) {
    n = recv(socket_.get(), bytes_.data(), bytes_.size(), MSG_DONTWAIT);
    if (n < 0) break;
    builder_.packet(std::span(bytes_).first(static_cast<std::size_t>(n)));
  }
  return packets > 0;
}

void Level1::run() {
  while (!stop_.load(std::memory_order_relaxed)) {
    if (round()) continue;
    pollfd wait{socket_.get(), POLLIN, 0};
    (void)poll(&wait, 1, poll_ms);
  }
  const Nanoseconds end = os::monotonic_now() + drain_ns;
  while (round() && os::monotonic_now() < end) {
  }
  const std::lock_guard lock(mutex_);
  builder_.finish();
}

Level1Builder::Counts Level1::counts() const {
  const std::lock_guard lock(mutex_);
  return builder_.counts();
}

}  // namespace nanet::trigger
