// SPDX-License-Identifier: Apache-2.0
#include "nanet/trigger/executors/frame_batch.hpp"

#include <algorithm>
#include <cstring>

#include "nanet/contract/consumer.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::trigger {

FrameBatch::FrameBatch(const ExecutorOptions& options, const contract::View& view, TraceTable& traces)
    : traces_(traces),
      view_(view),
      process_(view.shape, nullptr, options.process),
      shedder_{options.deadline},
      most_frames_(std::clamp<std::size_t>(view.shape.buffers / 8, 1, enough_frames)) {
  process_.sink(options.sink);
  const std::size_t events = enough_events + process_.most_events();
  kept_.reserve(most_frames_);
  first_.resize(events + 1);
  time_.resize(events);
  opened_.resize(events);
  order_.resize(events);
  boards_.resize(events);
  truncated_.resize(events);
  rings_.resize(events);
  pm_.resize(enough_hits + view.shape.buffer_bytes() / sizeof(PmId));
}

template <class T>
const T* FrameBatch::copy(std::vector<T>& to, const T* from, std::uint32_t events) noexcept {
  if (events) std::memcpy(&to[events_], from, events * sizeof(T));
  return to.data() + events_;
}

Nanoseconds FrameBatch::add(const contract::Event& event, std::uint64_t n) noexcept {
  if (shedder_.deadline > 0) {
    const WaitingFrame frame{n, static_cast<Nanoseconds>(event.time_ns), os::monotonic_now()};
    if (shedder_.skips(frame, read_progress(traces_), service_.expected(), keep_from_)) {
      contract::return_buffer(view_, n);
      return 0;
    }
  }
  const BuiltFrame& built = process_.build(view_, event, n, traces_[n]);
  const std::uint32_t hits = built.events ? built.first[built.events] - built.first[0] : 0;
  Kept kept{event, n, built, events_};
  if (built.events) {
    for (std::uint32_t e = 0; e <= built.events; ++e)
      first_[events_ + e] = hits_ + (built.first[e] - built.first[0]);
    std::memcpy(pm_.data() + hits_, built.pm + built.first[0], hits * sizeof(PmId));
  }
  kept.built.first = first_.data() + events_;
  kept.built.pm = pm_.data();
  kept.built.time = copy(time_, built.time, built.events);
  kept.built.opened = copy(opened_, built.opened, built.events);
  kept.built.order = copy(order_, built.order, built.events);
  kept.built.boards = copy(boards_, built.boards, built.events);
  kept.built.truncated = copy(truncated_, built.truncated, built.events);
  events_ += built.events;
  hits_ += hits;
  kept_.push_back(kept);
  return traces_[n].built;
}

void FrameBatch::answer(rich::Reconstructor& algorithm) noexcept {
  if (kept_.empty()) return;
  if (events_) algorithm({events_, first_.data(), pm_.data()}, rings_.data());
  const Nanoseconds reconstructed = os::monotonic_now();
  for (const Kept& kept : kept_) {
    Trace& trace = traces_[kept.n];
    trace.reconstructed = reconstructed;
    const std::uint32_t bytes =
        process_.answer(view_, kept.event, kept.n, kept.built, rings_.data() + kept.at, trace);
    trace.posted = os::monotonic_now();
    service_.add(trace.posted - trace.seen);
    contract::post(view_, kept.n, view_.send_buffer(kept.event.buffer), bytes, 0, kept.event.buffer);
    contract::return_buffer(view_, kept.n);
  }
  clear();
}

void FrameBatch::clear() noexcept {
  kept_.clear();
  events_ = hits_ = 0;
}

}  // namespace nanet::trigger
