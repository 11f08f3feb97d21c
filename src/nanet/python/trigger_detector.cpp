// SPDX-License-Identifier: Apache-2.0
// Detector of nanet._core: conversion from the dictionary of python/nanet/detector, which has checked it.
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "nanet/python/trigger_options.hpp"

namespace nanet::python {
namespace {

using Numbers = std::vector<double>;

nb::dict part(const nb::dict& d, const char* key) {
  return nb::cast<nb::dict>(d[key]);
}

rich::MonteCarlo monte_carlo(const nb::dict& d) {
  const nb::dict optics = part(d, "optics"), model = part(d, "monte_carlo");
  const auto number = [](const nb::dict& from, const char* key) { return nb::cast<double>(from[key]); };
  rich::MonteCarlo m;
  m.focal_mm = number(optics, "focal_mm");
  m.index = 1.0 + number(optics, "n_minus_1");
  m.radiator_cm = number(optics, "radiator_cm");
  m.merit_per_cm = number(optics, "n0_per_cm");
  const auto momentum = nb::cast<std::array<double, 2>>(model["momentum_gev"]);
  m.momentum_low = momentum[0];
  m.momentum_high = momentum[1];
  m.centre_x = number(model, "centre_mm");
  m.centre_sigma = number(model, "centre_sigma_mm");
  m.optics_mm = number(model, "optics_mm");
  m.reach_mm = number(model, "reach_mm");
  m.particle_shares = nb::cast<std::array<double, 4>>(model["particles"]);
  m.ring_shares = nb::cast<std::array<double, 5>>(model["rings"]);
  m.hit_sigma_ns = number(model, "hit_sigma_ns");
  m.board_offset_ns = number(model, "board_offset_ns");
  return m;
}

// Two disks with the same positions: number of PMs of one; otherwise 0.
std::size_t pairs(const rich::Geometry& g) {
  const std::size_t half = g.channels() / 2;
  if (g.shift.size() != 2 || g.channels() % 2) return 0;
  for (std::size_t i = 0; i < half; ++i)
    if (g.disk_of[i] != 0 || g.disk_of[i + half] != 1 || g.disk[i].x != g.disk[i + half].x ||
        g.disk[i].y != g.disk[i + half].y)
      return 0;
  return half;
}

rich::RingModel ring_model(const nb::dict& d, const rich::Geometry& g) {
  const auto number = [&](const char* key) { return static_cast<float>(nb::cast<double>(d[key])); };
  rich::RingModel m;
  const float sigma = number("hit_sigma_mm");
  m.sigma2 = sigma * sigma;
  m.four_sigma2 = 4.0f * sigma * sigma;
  m.reach = number("reach_mm");
  m.per_reach2 = 1.0f / (m.reach * m.reach);
  m.scale = m.reach / rich::RingModel::na62_reach;
  m.per_scale = 1.0f / m.scale;
  m.on_ring /= m.scale;
  m.area_per_disk = number("channel_area_mm2") / static_cast<float>(g.shift.size());
  m.channels = static_cast<float>(g.channels());
  m.edge = number("edge_mm");
  const std::size_t half = pairs(g);
  m.centres = static_cast<std::int32_t>(half ? half : g.channels());
  m.beside = static_cast<std::int32_t>(half);
  return m;
}

}  // namespace

std::shared_ptr<const rich::Geometry> detector_of(const nb::dict& d) {
  const auto g = std::make_shared<rich::Geometry>();
  g->name = nb::cast<std::string>(d["name"]);
  for (const auto& [x, y] : nb::cast<std::vector<std::pair<double, double>>>(d["shifts"]))
    g->shift.push_back({static_cast<float>(x), static_cast<float>(y)});
  const auto x = nb::cast<Numbers>(d["x"]), y = nb::cast<Numbers>(d["y"]);
  g->disk_of = nb::cast<std::vector<std::uint8_t>>(d["disk"]);
  g->first_of_board = nb::cast<std::vector<std::uint32_t>>(d["boards"]);
  if (x.empty() || x.size() > 65536 || y.size() != x.size() || g->disk_of.size() != x.size() ||
      g->first_of_board.size() < 2 || g->first_of_board.size() > max_boards + 1 ||
      g->first_of_board.back() != x.size() ||
      std::any_of(g->disk_of.begin(), g->disk_of.end(), [&](auto disk) { return disk >= g->shift.size(); }))
    throw std::invalid_argument("detector: is inconsistent: use nanet.detector.load");
  for (std::size_t pm = 0; pm < x.size(); ++pm) {
    const rich::Point at{static_cast<float>(x[pm]), static_cast<float>(y[pm])};
    const rich::Point shift = g->shift[g->disk_of[pm]];
    g->disk.push_back(at);
    g->common.push_back({at.x - shift.x, at.y - shift.y});
  }
  g->monte_carlo = monte_carlo(d);
  g->rings = ring_model(part(d, "rings"), *g);
  g->parameters = nb::cast<std::map<std::string, std::map<std::string, double>>>(d["algorithms"]);
  return g;
}

std::shared_ptr<const rich::Geometry> detector_option(const nb::dict& o) {
  if (!o.contains("detector") || o["detector"].is_none()) return rich::na62();
  return detector_of(nb::cast<nb::dict>(o["detector"]));
}

void set_detector(rich::GeneratorOptions& options, const nb::dict& o) {
  options.detector = detector_option(o);
  options.hit_sigma_ns = options.detector->monte_carlo.hit_sigma_ns;
  options.board_offset_ns = options.detector->monte_carlo.board_offset_ns;
}

void set_detector(wire::mgp::Rules& rules, const rich::Geometry& detector) {
  rules.encoding = detector.wide() ? wire::mgp::wide_hit_encoding : wire::mgp::hit_encoding;
  rules.first_pm.fill(detector.first_of_board.back());
  std::copy(detector.first_of_board.begin(), detector.first_of_board.end(), rules.first_pm.begin());
  rules.boards = static_cast<std::uint8_t>((1u << detector.boards()) - 1);
}

}  // namespace nanet::python
