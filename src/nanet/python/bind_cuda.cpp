// SPDX-License-Identifier: Apache-2.0
// nanet._core: the GPUs, as far as this build can use them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "nanet/cuda/device.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace nanet;

void bind_cuda(nb::module_& m) {
  m.def(
      "cuda_devices",
      [] {
        cuda::Devices all;
        {
          const nb::gil_scoped_release released;
          all = cuda::devices();
        }
        nb::dict d;
        d["built"] = all.built;
        d["driver"] = all.driver;
        d["trouble"] = all.trouble;
        nb::list list;
        for (const cuda::Device& device : all.found) {
          nb::dict one;
          one["number"] = device.number;
          one["name"] = device.name;
          one["compute_capability"] = nb::make_tuple(device.major, device.minor);
          one["multiprocessors"] = device.multiprocessors;
          one["memory_bytes"] = device.memory_bytes;
          list.append(one);
        }
        d["devices"] = list;
        return d;
      },
      "GPUs that this build can use: built (has the CUDA component), driver (CUDA version of the driver, "
      "13000 "
      "is 13.0; 0: "
      "none), trouble (why there is none; empty where there is one), devices (list of number, name, "
      "compute_capability, "
      "multiprocessors, memory_bytes).");
}
