// SPDX-License-Identifier: Apache-2.0
// Batch reconstructor: a ring algorithm on a GPU behind rich::Reconstructor.
#pragma once

#include <memory>

#include "nanet/rich/algorithm.hpp"

namespace nanet::gpu {

// Batches of any size go to the device in pieces of up to 16384 events through pinned memory, two in flight.
// Efficient from thousands of events per call on. Hits at free positions take the PM IDs behind those of the
// detector, in a position table per piece: a piece has up to 63 488 of them, fewer with a larger detector.
// Allocates only at construction. After a device error the CPU's algorithm continues with the same rings, and
// failed() returns the reason.
class GpuReconstructor : public rich::Reconstructor {
 public:
  // Reason of a device error; null: none. Any thread.
  virtual const char* failed() const noexcept = 0;
};

// cpu: the algorithm with its parameters (rich::make_reconstructor). stall: a piece that takes longer is a
// device error; 0: no limit. Throws std::invalid_argument (no such device, or no kernel for the algorithm) or
// std::runtime_error (the device fails).
std::unique_ptr<GpuReconstructor> make_reconstructor(const rich::Reconstructor& cpu,
                                                     const rich::Geometry& geometry, int device,
                                                     Nanoseconds stall = 0);

}  // namespace nanet::gpu
