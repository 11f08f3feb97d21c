// SPDX-License-Identifier: Apache-2.0
// Kinds of memory for mailboxes, and their names in options.
#pragma once

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace nanet::gpu {

// Memory of the mailboxes (docs/formats.md, Mailbox). automatic: gpu, else pinned. gpu: GPU memory, written
// by the card through the BAR: vulkan, else gdrdrv. vulkan: allocated by the Vulkan driver, imported by CUDA;
// first, since it needs no kernel module and is measured. gdrdrv: mapped by GDRCopy's kernel module, for
// hosts without the Vulkan library; not run with the driver. pinned: host memory.
enum class MailboxMemory { automatic, gpu, vulkan, gdrdrv, pinned, off };

inline constexpr std::array<std::string_view, 6> mailbox_memories = {"auto",   "gpu",    "vulkan",
                                                                     "gdrdrv", "pinned", "off"};
constexpr std::string_view name_of(MailboxMemory memory) {
  return mailbox_memories[static_cast<std::size_t>(memory)];
}
// Throws std::invalid_argument.
inline MailboxMemory mailbox_memory_of(std::string_view name) {
  for (std::size_t i = 0; i < mailbox_memories.size(); ++i)
    if (mailbox_memories[i] == name) return static_cast<MailboxMemory>(i);
  throw std::invalid_argument("mailbox = " + std::string(name) +
                              " must be auto, gpu, vulkan, gdrdrv, pinned or off");
}

}  // namespace nanet::gpu
