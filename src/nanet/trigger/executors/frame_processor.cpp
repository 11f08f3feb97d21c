// SPDX-License-Identifier: Apache-2.0
// Frame processor: building, reconstruction and decision for one frame.
#include "nanet/trigger/executors/frame_processor.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "nanet/os/clock.hpp"
#include "nanet/trigger/build/hit_times.hpp"
#include "nanet/wire/mgp.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::trigger {
namespace {

namespace mgp = wire::mgp;
namespace mtp = wire::mtp;

// Writes the words of an MTP packet sequentially, with a timestamp word at each frame change.
class PacketWords {
 public:
  PacketWords(std::byte* out, std::size_t limit) : out_(out), limit_(limit) {}
  // Returns false, and writes nothing, if full (255 primitives or no space).
  bool add(Frame frame, std::uint16_t time, std::uint16_t id) noexcept {
    const bool stamp = count_ == 0 || frame != frame_;
    if (count_ == mtp::max_primitives || bytes_ + (stamp ? 8 : 4) > limit_) return false;
    if (stamp) {
      mgp::store<std::uint32_t>(out_ + bytes_, frame & 0xFFFFFF);
      bytes_ += 4;
      frame_ = frame;
    }
    mgp::store<std::uint32_t>(out_ + bytes_, static_cast<std::uint32_t>(id) << 16 | time);
    bytes_ += 4;
    ++count_;
    return true;
  }
  std::uint32_t finish(Frame frame, std::uint8_t source) noexcept {
    mgp::store<std::uint32_t>(out_, static_cast<std::uint32_t>(source) << 24 | (frame & 0xFFFFFF));
    mgp::store<std::uint32_t>(out_ + 4, static_cast<std::uint32_t>(mtp::sub_id_normal) << 24 | count_ << 16 |
                                            static_cast<std::uint32_t>(bytes_));
    return static_cast<std::uint32_t>(bytes_);
  }
  std::uint32_t count() const noexcept { return count_; }

 private:
  std::byte* out_;
  std::size_t limit_, bytes_ = mtp::header_bytes;
  std::uint32_t count_ = 0;
  Frame frame_ = 0;
};

std::array<Segment, max_boards> segments_of(const contract::View& view, const contract::Event& event,
                                            const contract::RecentIndices* indices = nullptr,
                                            std::uint64_t n = 0) {
  // The header may hold any bytes, so lengths are clamped to the segment.
  contract::FrameHeader header;
  std::memcpy(&header, view.buffer(event.buffer), sizeof header);
  std::array<Segment, max_boards> segments;
  for (unsigned b = 0; b < view.shape.boards; ++b)
    segments[b] = {view.segment(event.buffer, b),
                   std::min<std::size_t>(header.board[b].bytes, view.shape.segment_bytes),
                   indices ? indices->of(n, b) : std::span<const std::uint32_t>{}};
  return segments;
}

// Bytes of a merged buffer; empty for segments. Consumers check the rows, which may hold any bytes.
std::span<const std::byte> merged_of(const contract::View& view, const contract::Event& event) {
  const std::byte* const buffer = view.buffer(event.buffer);
  const auto layout = static_cast<contract::Layout>(buffer[offsetof(contract::FrameHeader, layout)]);
  if (layout != contract::Layout::merged) return {};
  return {buffer, view.shape.buffer_bytes()};
}

std::size_t largest_segment(const contract::Shape& shape) {
  return shape.gather == contract::Gather::frame ? shape.segment_bytes : shape.slot_bytes;
}

}  // namespace

FrameProcessor::FrameProcessor(const contract::Shape& shape, std::unique_ptr<rich::Reconstructor> algorithm,
                               const ProcessOptions& options)
    : options_(options),
      builder_(largest_segment(shape), shape.gather == contract::Gather::frame ? shape.boards : 1,
               options.window_lsb, options.detector->wide()),
      conditions_(options.conditions),
      algorithm_(std::move(algorithm)),
      physics_(std::make_unique<Physics>()),
      beyond_(options.detector->wide() ? options.detector->channels() - pm_count : 0) {
  physics_->count_beyond(beyond_);
  const std::size_t boards = shape.gather == contract::Gather::frame ? shape.boards : 1;
  const std::size_t events = largest_segment(shape) / mgp::event_header_bytes * boards;
  rings_.resize(events);
  primitive_.resize(events);
  rows_.resize(events);
}

std::uint32_t FrameProcessor::operator()(const contract::View& view, const contract::Event& event,
                                         std::uint64_t n, Trace& trace) noexcept {
  begin(event, n, trace);
  return view.shape.gather == contract::Gather::frame ? frame(view, event, n, trace)
                                                      : packets(view, event, n, trace);
}

void FrameProcessor::begin(const contract::Event& event, std::uint64_t n, Trace& trace) noexcept {
  trace.n = n;
  trace.frame = event.frame;
  trace.seen = os::monotonic_now();
  trace.events = trace.primitives = trace.below_min_hits = trace.mtp_overflow = trace.rings =
      trace.duplicate_hits = trace.masked_hits = 0;
  for (std::uint32_t& kind : trace.downscaled) kind = 0;
  trace.lows = trace.highs = 0;
}

std::uint32_t FrameProcessor::frame(const contract::View& view, const contract::Event& event, std::uint64_t n,
                                    Trace& trace) noexcept {
  const BuiltFrame& built = build(view, event, n, trace);
  (*algorithm_)(built.batch(), rings_.data());
  trace.reconstructed = os::monotonic_now();
  return answer(view, event, n, built, rings_.data(), trace);
}

const BuiltFrame& FrameProcessor::build(const contract::View& view, const contract::Event& event,
                                        std::uint64_t n, Trace& trace) noexcept {
  begin(event, n, trace);
  const Conditions* const conditions = conditions_.at(n);
  const std::span<const std::byte> merged = merged_of(view, event);
  const std::array<Segment, max_boards> segments = segments_of(view, event, options_.indices, n);
  const BuiltFrame& built = merged.empty() ? builder_.build({segments.data(), view.shape.boards}, conditions)
                                           : builder_.build_merged(merged, conditions);
  trace.built = os::monotonic_now();
  return built;
}

std::uint32_t FrameProcessor::answer(const contract::View& view, const contract::Event& event,
                                     std::uint64_t n, const BuiltFrame& built, const rich::Rings* const rings,
                                     Trace& trace) noexcept {
  const bool incomplete =
      !(event.flags & contract::event_flag::complete) || (event.flags & contract::event_flag::truncated);
  // Local copies: stores through std::byte* may alias the members and would force reloads.
  const DecisionOptions decision = options_.decision;
  std::uint16_t* const primitives = primitive_.data();
  std::array<std::uint32_t, rich::max_rings + 1> with_rings{};
  for (std::uint32_t e = 0; e < built.events; ++e) {
    const std::uint32_t hits = built.first[e + 1] - built.first[e];
    const std::uint16_t id = decide(rings[e], hits, incomplete | (built.truncated[e] != 0), decision);
    primitives[e] = hits < decision.min_hits ? std::uint16_t{0} : id;
    ++with_rings[rings[e].count];
  }
  const bool downscaling = options_.downscale.any();
  std::array<std::uint32_t, mtp::max_primitives> words;
  std::uint32_t count = 0, below = 0, overflow = 0;
  for (std::uint32_t i = 0; i < built.events; ++i) {
    const std::uint32_t e = built.order[i];
    if (primitives[e] == 0) {
      ++below;
    } else if (downscaling && scaled_away(primitives[e], event.frame, built.time[e], trace)) {
      primitives[e] = 0;
    } else if (count == mtp::max_primitives) {
      ++overflow;
      primitives[e] = 0;
    } else {
      words[count++] = static_cast<std::uint32_t>(primitives[e]) << 16 | built.time[e];
    }
  }
  std::byte* const out = view.send_buffer(event.buffer);
  const auto bytes = static_cast<std::uint32_t>(
      mtp::encode(out, event.frame, nullptr, 0, mtp::sub_id_normal, options_.source));
  const std::uint32_t length = count ? bytes + 4 + 4 * count : bytes;
  if (count) {
    mgp::store<std::uint32_t>(out + 4, count << 16 | length);
    mgp::store<std::uint32_t>(out + bytes, event.frame & 0xFFFFFF);
    std::memcpy(out + bytes + 4, words.data(), 4 * count);
  }
  trace.events = built.events;
  trace.primitives = count;
  trace.below_min_hits = below;
  trace.mtp_overflow = overflow;
  trace.duplicate_hits = built.duplicate_hits;
  trace.masked_hits = built.masked_hits;
  note_edges(built, trace);
  count_rings(with_rings, trace);
  if (event.frame % Physics::sample_every == 0) {
    const std::array<Segment, max_boards> segments = segments_of(view, event);
    sample(built, rings, event.frame, n, {segments.data(), view.shape.boards}, merged_of(view, event));
  }
  if (sink_) {
    for (std::uint32_t i = 0; i < built.events; ++i) {
      const std::uint32_t e = built.order[i];
      rows_[i] = {static_cast<Lsb>(event.frame) * lsb_per_frame + built.time[e],
                  static_cast<std::uint16_t>(built.first[e + 1] - built.first[e]), primitive_[e], &rings[e]};
    }
    sink_->frame(n, rows_.data(), built.events);
  }
  return length;
}

// Returns true and counts the primitive if the downscaling factor of its kind suppresses it.
bool FrameProcessor::scaled_away(std::uint16_t id, Frame frame, std::uint16_t time,
                                 Trace& trace) const noexcept {
  if (options_.downscale.keeps(id, static_cast<Lsb>(frame) * lsb_per_frame + time)) return false;
  ++trace.downscaled[kind_of(id)];
  return true;
}

// Gather mode packets: each payload is independent; its fragments are merged only with one another.
std::uint32_t FrameProcessor::packets(const contract::View& view, const contract::Event& event,
                                      std::uint64_t n, Trace& trace) noexcept {
  PacketWords words(view.send_buffer(event.buffer), contract::send_buffer_bytes);
  Nanoseconds build = 0, reconstruct = 0, mark = trace.seen;
  for (std::uint32_t p = 0; p < view.shape.packets; ++p) {
    const std::byte* at = view.buffer(event.buffer) + std::size_t{p} * view.shape.slot_bytes;
    const mgp::Header header = mgp::decode_header(at);
    if (header.length < mgp::header_bytes || header.length > view.shape.slot_bytes)
      break;  // the rest of the buffer is empty
    const Segment segment{at, header.length};
    const BuiltFrame& built = builder_.build({&segment, 1}, conditions_.at(n));
    Nanoseconds now = os::monotonic_now();
    build += now - mark;
    mark = now;
    (*algorithm_)(built.batch(), rings_.data());
    now = os::monotonic_now();
    reconstruct += now - mark;
    mark = now;
    for (std::uint32_t i = 0; i < built.events; ++i) {
      const std::uint32_t e = built.order[i];
      const std::uint32_t hits = built.first[e + 1] - built.first[e];
      primitive_[e] = 0;
      if (hits < options_.decision.min_hits) {
        ++trace.below_min_hits;
        continue;
      }
      const std::uint16_t id = decide(rings_[e], hits, built.truncated[e] != 0, options_.decision);
      if (options_.downscale.any() && scaled_away(id, header.frame, built.time[e], trace)) continue;
      if (words.add(header.frame, built.time[e], id))
        primitive_[e] = id;
      else
        ++trace.mtp_overflow;
    }
    trace.events += built.events;
    trace.duplicate_hits += built.duplicate_hits;
    trace.masked_hits += built.masked_hits;
    std::array<std::uint32_t, rich::max_rings + 1> with_rings{};
    for (std::uint32_t e = 0; e < built.events; ++e) ++with_rings[rings_[e].count];
    count_rings(with_rings, trace);
    if (header.frame % Physics::sample_every == 0)
      sample(built, rings_.data(), header.frame, n, {&segment, 1});
  }
  trace.primitives = words.count();
  trace.built = trace.seen + build;
  trace.reconstructed = trace.built + reconstruct;
  return words.finish(event.frame, options_.source);
}

void FrameProcessor::count_rings(const std::array<std::uint32_t, rich::max_rings + 1>& events,
                                 Trace& trace) noexcept {
  for (unsigned r = 0; r <= rich::max_rings; ++r) {
    if (events[r]) physics_->rings_per_event[r] += events[r];
    trace.rings += r * events[r];
  }
}

void FrameProcessor::note_edges(const BuiltFrame& built, Trace& trace) const noexcept {
  for (std::uint32_t e = 0; e < built.events && trace.lows < Trace::edges; ++e) {
    if (built.opened[e] > options_.window_lsb) break;
    trace.low[trace.lows++] = {built.opened[e], built.boards[e]};
  }
  for (std::uint32_t e = built.events; e-- > 0 && trace.highs < Trace::edges;) {
    if (built.opened[e] + options_.window_lsb < lsb_per_frame) break;
    trace.high[trace.highs++] = {built.opened[e], built.boards[e]};
  }
}

void FrameProcessor::sample(const BuiltFrame& built, const rich::Rings* rings, Frame frame, std::uint64_t n,
                            std::span<const Segment> payloads, std::span<const std::byte> merged) noexcept {
  for (std::uint32_t e = 0; e < built.events; ++e) physics_->count(built.batch().view(e), rings[e]);
  if (built.events == 0) return;
  const std::uint32_t e = kept_++ % built.events;
  const rich::EventView view = built.batch().view(e);
  stats::EventSample event;
  event.n = n;
  event.frame = frame;
  event.time = static_cast<Lsb>(frame) * lsb_per_frame + built.time[e];
  event.primitive = primitive_[e];
  event.hits = static_cast<std::uint16_t>(std::min<std::uint32_t>(view.hits, max_event_hits));
  event.rings = rings[e];
  std::copy_n(view.pm, event.hits, event.pm);
  stats::SharedEventRing* const shared = options_.event_ring;
  if (shared && shared->requested()) {
    if (merged.empty())
      set_hit_times(event, payloads, built.opened[e], options_.window_lsb);
    else
      set_hit_times(event, merged, e);
    shared->publish(event);
  }
  physics_->keep(event);
}

}  // namespace nanet::trigger
