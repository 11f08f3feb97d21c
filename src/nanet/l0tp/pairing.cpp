// SPDX-License-Identifier: Apache-2.0
// Pairing by clusters: events and primitives closer than the neighbour distance form a cluster. Nearly all
// clusters are one event and one primitive; only the others are compared pair by pair.
#include "nanet/l0tp/pairing.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace nanet::l0tp {
namespace {

constexpr Lsb never = std::numeric_limits<Lsb>::max() / 2;

constexpr std::string_view unpaired_names[] = {"merged_with_neighbour", "frame_late", "frame_missing",
                                               "out_of_order", "other"};
constexpr std::string_view unexpected_names[] = {"split_at_frame_edge", "outside_frame", "other"};
static_assert(std::size(unpaired_names) == static_cast<std::size_t>(Unpaired::count));
static_assert(std::size(unexpected_names) == static_cast<std::size_t>(Unexpected::count));

}  // namespace

std::string_view name(Unpaired reason) {
  return unpaired_names[static_cast<std::size_t>(reason)];
}
std::string_view name(Unexpected reason) {
  return unexpected_names[static_cast<std::size_t>(reason)];
}

void Pairing::frame(Frame frame, std::span<const std::uint16_t> truth,
                    std::span<const wire::mtp::TimedPrimitive> primitives, bool late) {
  const Lsb start = Lsb{frame} * lsb_per_frame;
  const bool gap = previous_ >= 0 && frame != previous_ + 1;
  // Open entries of the previous frame lie near its end: this frame explains a missing partner.
  if (gap || late)
    for (True& event : truth_)
      if (event.reason == Unpaired::other && (previous_ + 1) * lsb_per_frame - event.time <= pair_lsb)
        event.reason = gap ? Unpaired::frame_missing : Unpaired::frame_late;

  counts_.expected += truth.size();
  for (const std::uint16_t offset : truth) {
    Unpaired reason = late ? Unpaired::frame_late : Unpaired::other;
    if (!late && offset < pair_lsb) {
      if (gap)
        reason = Unpaired::frame_missing;
      else if (previous_late_)
        reason = Unpaired::frame_late;
    }
    truth_.push_back({start + offset, reason});
  }
  for (const wire::mtp::TimedPrimitive& primitive : primitives) {
    if (primitive.time < start || primitive.time >= start + lsb_per_frame)
      ++counts_.unexpected[static_cast<std::size_t>(Unexpected::outside_frame)];
    else
      found_.push_back({primitive.time});
  }
  previous_ = frame;
  previous_late_ = late;
  settle(start + lsb_per_frame);
}

void Pairing::out_of_order(std::size_t truth) {
  counts_.expected += truth;
  counts_.unpaired[static_cast<std::size_t>(Unpaired::out_of_order)] += truth;
}

void Pairing::end_burst() {
  settle(never);
  previous_ = -1;
  previous_late_ = false;
}

void Pairing::settle(Lsb limit) {
  const std::size_t truths = truth_.size(), founds = found_.size();
  std::size_t t = 0, f = 0;
  const auto next = [&] {
    return std::min(t < truths ? truth_[t].time : never, f < founds ? found_[f].time : never);
  };
  while (t < truths || f < founds) {
    const std::size_t t0 = t, f0 = f;
    Lsb last = next();
    while (true) {
      const Lsb time = next();
      if (time - last > neighbour_lsb) break;
      last = time;
      if (t < truths && truth_[t].time == time)
        ++t;
      else
        ++f;
      if (t == truths && f == founds) break;
    }
    if (limit - last <= neighbour_lsb) {  // the next frame may extend it
      t = t0;
      f = f0;
      break;
    }
    if (t - t0 == 1 && f - f0 == 1 && std::abs(truth_[t0].time - found_[f0].time) <= pair_lsb)
      ++counts_.paired;
    else
      resolve(t0, t, f0, f);
  }
  truth_.erase(truth_.begin(), truth_.begin() + static_cast<std::ptrdiff_t>(t));
  found_.erase(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(f));
}

void Pairing::resolve(std::size_t truth_from, std::size_t truth_to, std::size_t found_from,
                      std::size_t found_to) {
  pairs_.clear();
  std::size_t from = found_from;
  for (std::size_t t = truth_from; t < truth_to; ++t) {
    while (from < found_to && found_[from].time < truth_[t].time - pair_lsb) ++from;
    for (std::size_t f = from; f < found_to && found_[f].time <= truth_[t].time + pair_lsb; ++f)
      pairs_.push_back({std::abs(truth_[t].time - found_[f].time), static_cast<std::uint32_t>(t),
                        static_cast<std::uint32_t>(f)});
  }
  std::sort(pairs_.begin(), pairs_.end(), [](const Pair& a, const Pair& b) {
    if (a.distance != b.distance) return a.distance < b.distance;
    return a.truth != b.truth ? a.truth < b.truth : a.found < b.found;
  });
  for (const Pair& pair : pairs_) {
    if (truth_[pair.truth].paired || found_[pair.found].paired) continue;
    truth_[pair.truth].paired = found_[pair.found].paired = true;
    ++counts_.paired;
  }
  for (std::size_t t = truth_from; t < truth_to; ++t)
    if (!truth_[t].paired) count_alone(truth_[t], truth_from, truth_to);
  for (std::size_t f = found_from; f < found_to; ++f)
    if (!found_[f].paired) count_alone(found_[f]);
}

void Pairing::count_alone(const True& event, std::size_t from, std::size_t to) {
  Unpaired reason = event.reason;
  if (reason == Unpaired::other)
    for (std::size_t t = from; t < to; ++t)
      if (truth_[t].paired && std::abs(truth_[t].time - event.time) <= neighbour_lsb)
        reason = Unpaired::merged_with_neighbour;
  ++counts_.unpaired[static_cast<std::size_t>(reason)];
}

void Pairing::count_alone(const Found& primitive) {
  const Lsb offset = primitive.time % lsb_per_frame;
  const bool edge = offset < pair_lsb || offset >= lsb_per_frame - pair_lsb;
  ++counts_.unexpected[static_cast<std::size_t>(edge ? Unexpected::split_at_frame_edge : Unexpected::other)];
}

}  // namespace nanet::l0tp
