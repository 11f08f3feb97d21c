// SPDX-License-Identifier: Apache-2.0
// Headers of libfabric, and its functions, looked up at run time in the library that loaded the provider. MPI
// wheels bring their own libfabric; a link to the system's would load a second one.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#include <cstdint>

namespace nanet::fabric {

struct Library {
  std::uint32_t (*version)() = nullptr;
  fi_info* (*dupinfo)(const fi_info*) = nullptr;
  void (*freeinfo)(fi_info*) = nullptr;
  const char* (*strerror)(int) = nullptr;
  int (*param_define)(const fi_provider*, const char*, fi_param_type, const char*, ...) = nullptr;
  int (*param_get)(fi_provider*, const char*, void*) = nullptr;
};

// Looks the functions up in the library that contains `caller`. False: not found.
bool load_library(const void* caller) noexcept;
const Library& library() noexcept;

extern fi_provider provider;

// Operation that is not supported, for any member of a table of operations.
template <class R, class... A>
R unsupported(A...) noexcept {
  return static_cast<R>(-FI_ENOSYS);
}

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info) noexcept;
int open_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context) noexcept;

// Parameters FI_NANET_*.
struct Parameters {
  const char* torus = nullptr;  // control file of a torus job
  const char* cards = nullptr;  // PCIe cards, with `size`; all nullptr: shared memory without a torus
  const char* size = nullptr;
  const char* directory = "/dev/shm";
  bool direct = true;
};
const Parameters& parameters() noexcept;

}  // namespace nanet::fabric
