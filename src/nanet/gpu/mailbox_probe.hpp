// SPDX-License-Identifier: Apache-2.0
// Probe of a mailbox between CPU and GPU: units stored by either side, read by the other
// (contract/unit_probe.hpp).
#pragma once

#include <string>

#include "nanet/contract/unit_probe.hpp"
#include "nanet/gpu/pipeline.hpp"

namespace nanet::gpu {

struct MailboxProbe {
  std::string memory;  // of the units towards the GPU: gpu or pinned
  std::string way;     // of GPU memory: vulkan or gdrdrv
  std::string why;     // reason for pinned memory instead of GPU memory
  contract::UnitCounts to_gpu, to_host;
};

// memory: not `off`. Throws std::runtime_error.
MailboxProbe probe_mailbox(int device, MailboxMemory memory, Nanoseconds duration);

}  // namespace nanet::gpu
