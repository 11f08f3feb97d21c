// SPDX-License-Identifier: Apache-2.0
// Recovery process, service side: a device on the queues of another process.
#pragma once

namespace nanet::gpu {

// Main function of the process: maps the block (recovery_block.hpp) and its memory, makes the executor and
// follows orders until the order to leave, a device failure or the end of the trigger. Returns the exit
// status. The caller ends the process with std::_Exit: resources of a failed device cannot be freed.
int serve_recovery(int block_fd) noexcept;

}  // namespace nanet::gpu
