// SPDX-License-Identifier: Apache-2.0
// GPU kernels of this build: algorithms of the list compiled for GPUs (NANET_CUDA_ALGORITHMS).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nanet::gpu {

// Library algorithms with kernels, in the order of rich/algorithms.list. Empty in a build without CUDA.
std::vector<std::string> kernel_names();

// Key, value and remedy for an algorithm that kernel_names() does not list.
std::string no_kernel_message(std::string_view algorithm);

}  // namespace nanet::gpu
