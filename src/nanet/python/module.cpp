// SPDX-License-Identifier: Apache-2.0
// nanet._core, the Python extension module: each layer binds itself in bind_<layer>.cpp.
#include <nanobind/nanobind.h>

#include <string>

#include "nanet/version.hpp"

void bind_bench(nanobind::module_& m);
void bind_cuda(nanobind::module_& m);
void bind_monitor(nanobind::module_& m);
void bind_neighbours(nanobind::module_& m);
void bind_points(nanobind::module_& m);
void bind_rdma(nanobind::module_& m);
void bind_rich(nanobind::module_& m);
void bind_torus(nanobind::module_& m);
void bind_trigger(nanobind::module_& m);
void bind_wire(nanobind::module_& m);

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of nanet";
  m.attr("__version__") = std::string(nanet::version()).c_str();
  bind_bench(m);
  bind_cuda(m);
  bind_monitor(m);
  bind_neighbours(m);
  bind_points(m);
  bind_rdma(m);
  bind_rich(m);
  bind_torus(m);
  bind_trigger(m);
  bind_wire(m);
}
