// SPDX-License-Identifier: Apache-2.0
// Options of nanet._core.Trigger and Replay: a flat dictionary. Missing keys keep the defaults of the C++
// structures. All functions throw std::invalid_argument with key and value.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "nanet/gpu/pipeline.hpp"
#include "nanet/rich/generator.hpp"
#include "nanet/trigger/live/trigger.hpp"
#include "nanet/trigger/replay/replay.hpp"

namespace nanet::python {

namespace nb = nanobind;

template <class T>
T get(const nb::dict& options, const char* key, T fallback) {
  if (!options.contains(key)) return fallback;
  try {
    return nb::cast<T>(options[key]);
  } catch (const nb::cast_error&) {
    throw std::invalid_argument(std::string(key) + " = " + nb::cast<std::string>(nb::str(options[key])) +
                                " is of the wrong type");
  }
}

card::ClopOptions clop_options(const nb::dict& o);
trigger::ProcessOptions process_options(const nb::dict& o);
// Final trigger: keys final_boards, farm, min_ticks, close_ticks, late, late_type, late_downscale, sync,
// time_source, clock_speed, masks (lists of care, value, type, downscaling).
trigger::FinalTriggerOptions final_options(const nb::dict& o);
rich::Parameters parameters(const nb::dict& o);
// Detector of the key `detector`, a dictionary of python/nanet/detector; NA62's if missing or None.
std::shared_ptr<const rich::Geometry> detector_option(const nb::dict& o);
// Detector of such a dictionary.
std::shared_ptr<const rich::Geometry> detector_of(const nb::dict& d);
// Generator options that a detector sets.
void set_detector(rich::GeneratorOptions& options, const nb::dict& o);
// Board ranges and hit encoding of a detector.
void set_detector(wire::mgp::Rules& rules, const rich::Geometry& detector);
// Masked PMs and time offsets of all channels (LSB), from keys `masked`, `t0_lsb` and `name`.
std::shared_ptr<const trigger::Conditions> conditions(const nb::dict& o);
// Conditions from the key `conditions`; nullptr if missing.
std::shared_ptr<const trigger::Conditions> conditions_option(const nb::dict& o);
// Number N of cuda:N; plain cuda means cuda:0.
int cuda_number(const std::string& device);
// GPU pipeline: options device, executor, blocks, cpu_fallback, recovery (recovery program and its
// arguments); inject_fault, inject_hang: number of the first frame that fails, for tests.
gpu::PipelineOptions pipeline_options(const nb::dict& o, const std::string& device);

}  // namespace nanet::python
