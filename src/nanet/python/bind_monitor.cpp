// SPDX-License-Identifier: Apache-2.0
// nanet._core.SharedEventRing: event samples shared between a trigger and its monitor.
#include <nanobind/nanobind.h>

#include "nanet/python/trigger_results.hpp"
#include "nanet/stats/event_sample.hpp"

namespace nb = nanobind;
using namespace nanet;
using namespace nanet::python;

void bind_monitor(nb::module_& m) {
  nb::class_<stats::SharedEventRing>(
      m, "SharedEventRing", "Event samples in memory shared by a trigger and its monitor; fd: the memory.")
      .def(nb::init<int>(), nb::arg("fd"))
      .def_prop_ro_static(
          "bytes", [](nb::handle) { return stats::SharedEventRing::bytes(); }, "Size of the shared memory.")
      .def("request", &stats::SharedEventRing::request, nb::arg("events"),
           "Requests this many events from now on, at most 32.")
      .def(
          "take",
          [](stats::SharedEventRing& ring) {
            nb::list out;
            for (const auto& event : ring.take()) out.append(event_dict(event));
            return out;
          },
          "The events published since the last take, oldest first: dictionaries; times in ns, lengths in "
          "mm.");
}
