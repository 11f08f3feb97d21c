// SPDX-License-Identifier: Apache-2.0
// Frame processor: builds, reconstructs and decides one frame, from CLOP buffer to MTP packet. One per CPU
// executor thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nanet/contract/layout.hpp"
#include "nanet/contract/recent_indices.hpp"
#include "nanet/rich/algorithm.hpp"
#include "nanet/stats/event_sample.hpp"
#include "nanet/trigger/account/physics.hpp"
#include "nanet/trigger/account/trace.hpp"
#include "nanet/trigger/build/conditions.hpp"
#include "nanet/trigger/build/frame_builder.hpp"
#include "nanet/trigger/decide/decide.hpp"
#include "nanet/trigger/decide/downscale.hpp"

namespace nanet::trigger {

struct ProcessOptions {
  DecisionOptions decision;
  std::int32_t window_lsb = default_window_lsb;
  std::uint8_t source = rich_source;
  stats::SharedEventRing* event_ring = nullptr;  // samples for a monitor; outlives the processor
  Downscale downscale;
  ConditionsStore* conditions = nullptr;  // masks and time offsets; outlives the executor
  // The processor runs in the card's thread: indices of the segments; outlives the processor. nullptr: none.
  const contract::RecentIndices* indices = nullptr;
  std::shared_ptr<const rich::Geometry> detector = rich::na62();
};

// Receives every event of every frame in time order, in the executor's thread; for rings.parquet. Replay
// only.
class RingSink {
 public:
  virtual ~RingSink() = default;
  struct Row {
    Lsb time;                       // since SOB
    std::uint16_t hits, primitive;  // primitive 0: none
    const rich::Rings* rings;
  };
  virtual void frame(std::uint64_t n, const Row* rows, std::uint32_t count) = 0;
};

class FrameProcessor {
 public:
  FrameProcessor(const contract::Shape& shape, std::unique_ptr<rich::Reconstructor> algorithm,
                 const ProcessOptions& options);

  // Processes the buffer of a receive event; writes the MTP packet to its send buffer, and the trace. Returns
  // the packet size in bytes. Safe on any bytes in the buffer; allocates nothing, but a sink may.
  std::uint32_t operator()(const contract::View& view, const contract::Event& event, std::uint64_t n,
                           Trace& trace) noexcept;

  // The same in two steps, for the batch executor; gather mode `frame` only. The frame is valid until the
  // next build. answer() takes the frame, or a copy of it, and the rings of its events.
  const BuiltFrame& build(const contract::View& view, const contract::Event& event, std::uint64_t n,
                          Trace& trace) noexcept;
  std::uint32_t answer(const contract::View& view, const contract::Event& event, std::uint64_t n,
                       const BuiltFrame& built, const rich::Rings* rings, Trace& trace) noexcept;
  // Maximum events per frame.
  std::uint32_t most_events() const noexcept { return static_cast<std::uint32_t>(rows_.size()); }

  void sink(RingSink* sink) noexcept { sink_ = sink; }
  const Physics& physics() const noexcept { return *physics_; }

 private:
  std::uint32_t frame(const contract::View& view, const contract::Event& event, std::uint64_t n,
                      Trace& trace) noexcept;
  std::uint32_t packets(const contract::View& view, const contract::Event& event, std::uint64_t n,
                        Trace& trace) noexcept;
  static void begin(const contract::Event& event, std::uint64_t n, Trace& trace) noexcept;
  // Adds the events of a sampled frame to the histograms and keeps one of them; payloads: of the frame;
  // merged: its merged buffer, or empty.
  void sample(const BuiltFrame& built, const rich::Rings* rings, Frame frame, std::uint64_t n,
              std::span<const Segment> payloads, std::span<const std::byte> merged = {}) noexcept;
  void count_rings(const std::array<std::uint32_t, rich::max_rings + 1>& events, Trace& trace) noexcept;
  bool scaled_away(std::uint16_t id, Frame frame, std::uint16_t time, Trace& trace) const noexcept;
  void note_edges(const BuiltFrame& built, Trace& trace) const noexcept;

  ProcessOptions options_;
  FrameBuilder builder_;
  ConditionsReader conditions_;
  std::unique_ptr<rich::Reconstructor> algorithm_;
  std::unique_ptr<Physics> physics_;
  std::vector<stats::Counter> beyond_;  // Physics::count_beyond()
  RingSink* sink_ = nullptr;
  std::vector<rich::Rings> rings_;
  std::vector<RingSink::Row> rows_;
  std::vector<std::uint16_t> primitive_;  // per event, in opening order
  std::uint32_t kept_ = 0;
};

}  // namespace nanet::trigger
