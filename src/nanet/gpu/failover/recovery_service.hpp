// SPDX-License-Identifier: Apache-2.0
// The recovery process's side: a device at work on the queues of another process.
#pragma once

namespace nanet::gpu {

// All that the process does: maps the block (recovery_block.hpp) and the memory it names, makes the executor,
// and follows orders until it is told to leave, its device fails, or the trigger is gone. Gives the exit
// status; whoever gets it ends the process at once (std::_Exit), as nothing of a failed device can be freed.
int serve_recovery(int block_fd) noexcept;

}  // namespace nanet::gpu
