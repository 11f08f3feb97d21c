// SPDX-License-Identifier: Apache-2.0
// Trial centres of POMH and DOMH: PM positions; of two equal disks, midway between their shifts.
#pragma once

#include "nanet/rich/radius_histogram.hpp"

namespace nanet::rich {

template <class L>
NANET_HD inline typename L::F between(const typename L::F& a, const typename L::F& b) {
  return (a + b) * typename L::F(0.5f);
}

NANET_HD inline Point pm_centre(const Point* plane, const RingModel& model, std::int32_t number) {
  const Point a = plane[number], b = plane[number + model.beside];
  return {(a.x + b.x) * 0.5f, (a.y + b.y) * 0.5f};
}

// code: centre * radius_bins + bin.
NANET_HD inline Circle peak_circle(const Point* plane, const RingModel& model, const RadiusBins& bins,
                                   std::int32_t code) {
  const Point p = pm_centre(plane, model, code / radius_bins);
  return {p.x, p.y, bins.middle(code % radius_bins)};
}

}  // namespace nanet::rich
