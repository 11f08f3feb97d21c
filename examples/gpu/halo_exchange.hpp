// SPDX-License-Identifier: Apache-2.0
// Halo exchange of a 4D lattice over RDMA: each node has a part of the slices in t, and puts its outer slices
// into the neighbours' halos while it computes the inner ones. For kernels and for host threads.
#pragma once

#include <algorithm>

#include "nanet/gpu/rdma.hpp"

// Half spinors in single precision, as in lattice QCD: 48 B a site.
struct Site {
  float component[12];
};

// Part of one node. Slices 1 to `slices` are its own; 0 and slices + 1 are halos.
struct Lattice {
  unsigned length = 0;  // of x, y and z, periodic
  unsigned slices = 0;  // of this node
  unsigned steps = 0;
  Site* field[2] = {};                 // of even and odd steps, each slices + 2 slices: registered
  std::uint16_t below = 0, above = 0;  // neighbours in t
  nanet::gpu::RdmaKey below_key[2] = {}, above_key[2] = {};  // of their fields
  unsigned* trouble = nullptr;                               // operations or events that failed

  NANET_HD unsigned slice_sites() const { return length * length * length; }
  NANET_HD std::uint32_t slice_bytes() const {
    return slice_sites() * static_cast<std::uint32_t>(sizeof(Site));
  }
};

// One step of diffusion at site i of slice t: the mean of the site and its eight neighbours, in fixed order.
NANET_HD inline Site diffuse(const Site* field, unsigned length, unsigned t, unsigned i) {
  const unsigned slice = length * length * length;
  const Site* const here = field + std::size_t{t} * slice;
  const unsigned stride[3] = {1, length, length * length};
  Site sum = here[i];
  const auto add = [&sum](const Site& s) {
    for (unsigned c = 0; c < 12; ++c) sum.component[c] += s.component[c];
  };
  for (unsigned d = 0; d < 3; ++d) {
    const unsigned at = i / stride[d] % length, line = i - at * stride[d];
    add(here[line + (at + length - 1) % length * stride[d]]);
    add(here[line + (at + 1) % length * stride[d]]);
  }
  add(here[i - std::size_t{slice}]);
  add(here[i + std::size_t{slice}]);
  for (unsigned c = 0; c < 12; ++c) sum.component[c] *= 1.0f / 9;
  return sum;
}

NANET_DEVICE_CODE void diffuse_slices(const Lattice& l, unsigned step, unsigned first, unsigned last,
                                      unsigned thread, unsigned threads) {
  const Site* const from = l.field[step % 2];
  Site* const to = l.field[(step + 1) % 2];
  const unsigned sites = l.slice_sites();
  for (unsigned t = first; t <= last; ++t)
    for (unsigned i = thread; i < sites; i += threads)
      to[std::size_t{t} * sites + i] = diffuse(from, l.length, t, i);
}

// All steps of a node, by one block.
NANET_DEVICE_CODE void run_lattice(const nanet::gpu::Rdma& rdma, nanet::gpu::RdmaWork& work,
                                   nanet::gpu::RdmaEvent& event, const Lattice& l, unsigned thread,
                                   unsigned threads) {
  using namespace nanet;
  gpu::begin(rdma, work);
  const std::uint32_t bytes = l.slice_bytes();
  unsigned arrived[2] = {},
           trouble = 0;  // halos of even and odd steps; a neighbour is at most one step ahead
  for (unsigned step = 0; step < l.steps; ++step) {
    const unsigned now = step % 2;
    const Site* const field = l.field[now];
    const auto slice = [&](unsigned t) { return field + std::size_t{t} * l.slice_sites(); };
    gpu::put_signal(rdma, work, l.below, l.below_key[now], std::uint64_t{bytes} * (l.slices + 1), slice(1),
                    bytes, step);
    gpu::put_signal(rdma, work, l.above, l.above_key[now], 0, slice(l.slices), bytes, step);
    diffuse_slices(l, step, 2, l.slices - 1, thread, threads);
    while (arrived[now] < 2) {
      if (!gpu::wait(rdma, work, event)) return;
      if (event.type == torus::EventType::put_arrived)
        ++arrived[event.immediate % 2];
      else
        ++trouble;
    }
    arrived[now] = 0;
    diffuse_slices(l, step, 1, 1, thread, threads);
    diffuse_slices(l, step, l.slices, l.slices, thread, threads);
    // The next step overwrites the slices that were put.
    if (!gpu::quiet(rdma, work)) ++trouble;
  }
  if (thread == 0) *l.trouble = trouble;
}

inline bool same_bits(const Site* a, const Site* b, std::size_t sites) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(a);
  return std::equal(bytes, bytes + sizeof(Site) * sites, reinterpret_cast<const std::byte*>(b));
}

// Start of the lattice; every site differs.
inline Site first_site(unsigned t, unsigned i) {
  Site s;
  for (unsigned c = 0; c < 12; ++c)
    s.component[c] = static_cast<float>((t * 7919u + i * 104'729u + c * 31u) % 1000u);
  return s;
}
