// SPDX-License-Identifier: Apache-2.0
// Batch reconstructor: a ring algorithm on a GPU behind rich::Reconstructor.
#pragma once

#include <memory>

#include "nanet/rich/algorithm.hpp"

namespace nanet::gpu {

// Batches of any size go to the device in pieces of up to 16384 events through pinned memory, two in flight;
// give it thousands of events a call. Allocates nothing once made. After an error of the device it goes on
// with the CPU's algorithm, which gives the same rings; failed() then says what happened.
class GpuReconstructor : public rich::Reconstructor {
 public:
  // Null while all is well. From any thread.
  virtual const char* failed() const noexcept = 0;
};

// cpu: the algorithm with its parameters (rich::make_reconstructor). Throws std::invalid_argument where there
// is no such device or no kernel for the algorithm, std::runtime_error where the device refuses.
std::unique_ptr<GpuReconstructor> make_reconstructor(const rich::Reconstructor& cpu,
                                                     const rich::Geometry& geometry, int device);

}  // namespace nanet::gpu
