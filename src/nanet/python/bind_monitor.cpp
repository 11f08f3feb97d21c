// SPDX-License-Identifier: Apache-2.0
// nanet._core.EventTap: the reader's end of the ring of events that a trigger shares with its monitor.
#include <nanobind/nanobind.h>

#include "nanet/trigger/tap.hpp"

namespace nb = nanobind;
using namespace nanet;

namespace {

nb::dict as_dict(const trigger::ShownEvent& e) {
  nb::list pm, late, rings;
  for (unsigned i = 0; i < e.hits; ++i) {
    pm.append(e.pm[i]);
    if (e.late[i] == trigger::ShownEvent::unknown)
      late.append(nb::none());
    else
      late.append(e.late[i] * lsb_ns);
  }
  for (unsigned i = 0; i < e.rings && i < e.ring.size(); ++i) {
    const rich::Ring& r = e.ring[i];
    nb::dict ring;
    ring["x"] = r.x;
    ring["y"] = r.y;
    ring["r"] = r.r;
    ring["chi2_ndf"] = r.chi2_ndf;
    ring["hits"] = r.hits;
    rings.append(ring);
  }
  nb::dict d;
  d["serial"] = e.serial;
  d["n"] = e.n;
  d["frame"] = e.frame;
  d["time_ns"] = static_cast<double>(e.time) * lsb_ns;
  d["primitive"] = e.primitive;
  d["pm"] = pm;
  d["late_ns"] = late;
  d["rings"] = rings;
  return d;
}

}  // namespace

void bind_monitor(nb::module_& m) {
  nb::class_<trigger::EventTap>(
      m, "EventTap", "The reader's end of the events that a trigger shares; fd: of the shared memory.")
      .def(nb::init<int>(), nb::arg("fd"))
      .def_prop_ro_static(
          "bytes", [](nb::handle) { return trigger::EventTap::bytes(); }, "Size of the shared memory.")
      .def("ask", &trigger::EventTap::ask, nb::arg("events"), "Asks for so many events from now on.")
      .def(
          "take",
          [](trigger::EventTap& tap) {
            nb::list out;
            for (const auto& event : tap.take()) out.append(as_dict(event));
            return out;
          },
          "The events given since the last take, oldest first: dictionaries; times in ns, lengths in mm.");
}
