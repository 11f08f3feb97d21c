// SPDX-License-Identifier: Apache-2.0
// The CPU goes on where a GPU has stopped.
#pragma once

#include <memory>
#include <vector>

#include "nanet/trigger/executor.hpp"

namespace nanet::loop {

// Answers what is in the queues and not yet answered (what is posted stays as it is, and its buffer is
// returned), then gives an executor that goes on from there, started. Nobody else may be at the queues.
std::unique_ptr<trigger::Executor> take_over(const trigger::ExecutorOptions& options,
                                             const std::vector<contract::View>& views,
                                             const rich::Reconstructor& algorithm,
                                             trigger::TraceTable& traces);

}  // namespace nanet::loop
