// SPDX-License-Identifier: Apache-2.0
// Options of nanet._core.Trigger and Replay: conversion from a dictionary.
#include "nanet/python/trigger_options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

#include "nanet/os/socket.hpp"

namespace nanet::python {

namespace {

// Value in µs as nanoseconds; without the key, `fallback`.
Nanoseconds microseconds(const nb::dict& options, const char* key, Nanoseconds fallback) {
  return static_cast<Nanoseconds>(get<double>(options, key, static_cast<double>(fallback) * 1e-3) * 1e3);
}

}  // namespace

card::ClopOptions clop_options(const nb::dict& o) {
  card::ClopOptions c;
  if (const auto listen = get<std::string>(o, "listen", ""); !listen.empty())
    c.listen = os::parse_endpoints("card.listen", listen);
  if (const auto send = get<std::string>(o, "send", ""); !send.empty())
    c.destinations = os::parse_endpoints("trigger.send", send);
  const auto gather = get<std::string>(o, "gather", "frame");
  if (gather != "frame" && gather != "packets")
    throw std::invalid_argument("gather = " + gather + " must be frame or packets");
  c.gather = gather == "frame" ? contract::Gather::frame : contract::Gather::packets;
  c.packets = get<std::uint32_t>(o, "packets", c.packets);
  c.buffers = get<std::uint32_t>(o, "buffers", c.buffers);
  c.segment_bytes = get<std::uint32_t>(o, "segment_bytes", c.segment_bytes);
  c.merge = get<bool>(o, "merge", c.merge);
  c.window_lsb = get<std::int32_t>(o, "window_lsb", c.window_lsb);
  set_detector(c.rules, *detector_option(o));
  c.rules.boards = static_cast<std::uint8_t>(get<unsigned>(o, "boards", c.rules.boards));
  c.rules.source = static_cast<std::uint8_t>(get<unsigned>(o, "source", c.rules.source));
  c.rules.max_payload = static_cast<std::uint16_t>(get<unsigned>(o, "max_payload", c.rules.max_payload));
  c.rules.max_frames = get<std::uint32_t>(o, "max_frames", c.rules.max_frames);
  if (const auto node = get<std::vector<unsigned>>(o, "node", {}); node.size() == 2)
    c.dealing = {node[0], node[1]};
  c.timeout = microseconds(o, "timeout_us", c.timeout);
  c.deadline = microseconds(o, "deadline_us", c.deadline);
  c.burst_silence = microseconds(o, "burst_silence_us", c.burst_silence);
  c.devices = get<std::uint32_t>(o, "devices", c.devices);
  c.threads = std::clamp(get<unsigned>(o, "card_threads", c.threads), 1u, 10u);
  c.busy_poll_us = get<int>(o, "busy_poll_us", 0);
  if (const auto bytes = get<std::uint64_t>(o, "buffer_bytes", 0))
    c.socket_buffer_bytes = static_cast<int>(std::min<std::uint64_t>(bytes, 1u << 30));
  return c;
}

trigger::FinalTriggerOptions final_options(const nb::dict& o) {
  trigger::FinalTriggerOptions f;
  const auto boards = get<std::string>(o, "final_boards", "");
  if (boards.empty()) return f;
  f.boards = os::parse_endpoints("final.boards", boards);
  if (const auto farm = get<std::string>(o, "farm", ""); !farm.empty())
    f.farm = os::parse_endpoint("final.farm", farm);
  f.min_ticks = get<Timestamp>(o, "min_ticks", f.min_ticks);
  f.close_ticks = get<Timestamp>(o, "close_ticks", f.close_ticks);
  if (get<std::string>(o, "late", "drop") == "pass")
    f.late = {static_cast<std::uint8_t>(get<unsigned>(o, "late_type", 0) & 63),
              get<std::uint32_t>(o, "late_downscale", 1)};
  f.latency = static_cast<Timestamp>(std::min(get<double>(o, "latency_us", 0) * 1e3 / period_ns, 4e9));
  f.source = static_cast<std::uint8_t>(get<unsigned>(o, "source", f.source));
  if (const auto sync = get<std::string>(o, "sync", ""); !sync.empty()) {
    f.time = trigger::ExperimentTimeOptions{os::parse_endpoint("final.sync", sync)};
    if (get<std::string>(o, "time_source", "udp") == "ptp") f.time->source = trigger::TimeSource::ptp;
    f.time->speed = get<double>(o, "clock_speed", 1);
  }
  const auto masks = get<std::vector<std::vector<std::uint32_t>>>(o, "masks", {});
  if (masks.size() > f.masks.size()) throw std::invalid_argument("final.masks: give at most 16");
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const auto& m = masks[i];
    if (m.size() != 4) throw std::invalid_argument("final.masks: give care, value, type and downscaling");
    f.masks[i] = {static_cast<std::uint16_t>(m[0]), static_cast<std::uint16_t>(m[1]),
                  static_cast<std::uint8_t>(m[2] & 63), m[3]};
  }
  return f;
}

trigger::ProcessOptions process_options(const nb::dict& o) {
  trigger::ProcessOptions p;
  p.window_lsb = get<std::int32_t>(o, "window_lsb", p.window_lsb);
  p.source = static_cast<std::uint8_t>(get<unsigned>(o, "source", p.source));
  p.detector = detector_option(o);
  auto& decision = p.decision;
  decision.min_hits = get<std::uint32_t>(o, "min_hits", decision.min_hits);
  decision.multiplicity = get<std::uint32_t>(o, "multiplicity", decision.multiplicity);
  decision.saturated_mm = static_cast<float>(get<double>(o, "saturated_mm", decision.saturated_mm));
  decision.small_mm = static_cast<float>(get<double>(o, "small_mm", decision.small_mm));
  decision.chi2_cut = static_cast<float>(get<double>(o, "chi2_cut", decision.chi2_cut));
  const auto factors = get<std::vector<std::uint32_t>>(o, "downscale_factors", {});
  if (factors.size() > p.downscale.factor.size())
    throw std::invalid_argument("downscale: there are four kinds of primitives");
  std::copy(factors.begin(), factors.end(), p.downscale.factor.begin());
  return p;
}

std::shared_ptr<const trigger::Conditions> conditions(const nb::dict& o) {
  auto c = std::make_shared<trigger::Conditions>();
  for (const unsigned pm : get<std::vector<unsigned>>(o, "masked", {})) {
    if (pm >= c->masked.size())
      throw std::invalid_argument("mask = " + std::to_string(pm) + " is no photomultiplier");
    c->masked[pm] = 1;
  }
  const auto t0 = get<std::vector<int>>(o, "t0_lsb", {});
  if (t0.size() > c->t0.size())
    throw std::invalid_argument("t0_lsb has " + std::to_string(t0.size()) + " values; give " +
                                std::to_string(c->t0.size()) + " at most");
  for (std::size_t pm = 0; pm < t0.size(); ++pm) {
    if (std::abs(t0[pm]) > trigger::max_t0_lsb)
      throw std::invalid_argument("t0_lsb of " + std::to_string(pm) + " = " + std::to_string(t0[pm]) +
                                  " must be within 1024 LSB");
    c->t0[pm] = static_cast<std::int16_t>(t0[pm]);
  }
  c->name = get<std::string>(o, "name", "");
  return c;
}

std::shared_ptr<const trigger::Conditions> conditions_option(const nb::dict& o) {
  if (!o.contains("conditions") || !nb::isinstance<nb::dict>(o["conditions"])) return nullptr;
  return conditions(nb::cast<nb::dict>(o["conditions"]));
}

rich::Parameters parameters(const nb::dict& o) {
  rich::Parameters out;
  if (!o.contains("parameters")) return out;
  for (const auto& [key, value] : nb::cast<nb::dict>(o["parameters"]))
    out[nb::cast<std::string>(key)] = nb::cast<double>(value);
  return out;
}

int cuda_number(const std::string& device) {
  if (device == "cuda") return 0;
  int number = 0;
  const char *from = device.data() + 5, *end = device.data() + device.size();
  if (!device.starts_with("cuda:") || std::from_chars(from, end, number).ptr != end || from == end)
    throw std::invalid_argument("device: '" + device + "' must be cpu, cuda or cuda:N");
  return number;
}

gpu::PipelineOptions pipeline_options(const nb::dict& o, const std::string& device) {
  gpu::PipelineOptions c;
  c.device = cuda_number(device);
  c.mode = gpu::mode_of(get<std::string>(o, "executor", "persistent"));
  c.mailbox = gpu::mailbox_memory_of(get<std::string>(o, "mailbox", "auto"));
  c.merged_buffers = get<bool>(o, "merge", c.merged_buffers);
  c.cpu_fallback = get<bool>(o, "cpu_fallback", c.cpu_fallback);
  c.stall = std::clamp<Nanoseconds>(microseconds(o, "deadline_us", card::ClopOptions{}.deadline) / 2, 500'000,
                                    20'000'000);
  c.recovery.command = get<std::vector<std::string>>(o, "recovery", {});
  c.recovery.algorithm = get(o, "algorithm", std::string(rich::default_algorithm));
  c.recovery.parameters = parameters(o);
  using Kind = gpu::Injection::Kind;
  if (o.contains("inject_fault")) c.injection = {Kind::fault, get<std::uint64_t>(o, "inject_fault", 0)};
  if (o.contains("inject_hang")) c.injection = {Kind::hang, get<std::uint64_t>(o, "inject_hang", 0)};
  return c;
}

}  // namespace nanet::python
