// SPDX-License-Identifier: Apache-2.0
// Halo exchange of a 4D lattice between two nodes that are threads, compared with one lattice; the program of
// examples/gpu/halo_exchange.cu without a GPU.
#include "gpu/halo_exchange.hpp"

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "nanet/gpu/rdma/host_nodes.hpp"

namespace gpu = nanet::gpu;

namespace {

constexpr unsigned length = 8, slices = 6, steps = 20, nodes = 2;
constexpr unsigned sites = length * length * length;

// The whole lattice, without nodes: the halos are copied.
std::vector<Site> alone() {
  const unsigned all = nodes * slices;
  std::vector<Site> field[2];
  for (auto& f : field) f.resize(std::size_t{all + 2} * sites);
  for (unsigned t = 0; t < all; ++t)
    for (unsigned i = 0; i < sites; ++i) field[0][std::size_t{t + 1} * sites + i] = first_site(t, i);
  for (unsigned step = 0; step < steps; ++step) {
    std::vector<Site>&from = field[step % 2], &to = field[(step + 1) % 2];
    std::memcpy(from.data(), from.data() + std::size_t{all} * sites, sizeof(Site) * sites);
    std::memcpy(from.data() + std::size_t{all + 1} * sites, from.data() + sites, sizeof(Site) * sites);
    for (unsigned t = 1; t <= all; ++t)
      for (unsigned i = 0; i < sites; ++i)
        to[std::size_t{t} * sites + i] = diffuse(from.data(), length, t, i);
  }
  return {field[steps % 2].begin() + sites, field[steps % 2].end() - sites};
}

}  // namespace

int main() {
  gpu::RdmaOptions options;
  options.gpus.resize(nodes);
  gpu::HostRdma rdma(options);
  std::vector<Site> field[nodes][2];
  gpu::RdmaKey key[nodes][2];
  for (unsigned n = 0; n < nodes; ++n)
    for (unsigned f = 0; f < 2; ++f) {
      field[n][f].resize(std::size_t{slices + 2} * sites);
      key[n][f] = rdma.register_memory(n, field[n][f].data(), field[n][f].size() * sizeof(Site));
    }
  for (unsigned n = 0; n < nodes; ++n)
    for (unsigned t = 0; t < slices; ++t)
      for (unsigned i = 0; i < sites; ++i)
        field[n][0][std::size_t{t + 1} * sites + i] = first_site(n * slices + t, i);
  unsigned trouble[nodes] = {};
  rdma.start();
  {
    std::vector<std::jthread> threads;
    for (unsigned n = 0; n < nodes; ++n) {
      Lattice l;
      l.length = length;
      l.slices = slices;
      l.steps = steps;
      l.below = l.above =
          static_cast<std::uint16_t>((n + 1) % nodes);  // of two nodes both neighbours are the other
      for (unsigned f = 0; f < 2; ++f) {
        l.field[f] = field[n][f].data();
        l.below_key[f] = l.above_key[f] = key[(n + 1) % nodes][f];
      }
      l.trouble = &trouble[n];
      threads.emplace_back([&rdma, l, n] {
        gpu::RdmaWork work;
        gpu::RdmaEvent event;
        run_lattice(rdma.argument(n), work, event, l, 0, 1);
      });
    }
  }
  rdma.stop();
  const std::vector<Site> wanted = alone();
  bool same = trouble[0] + trouble[1] == 0;
  for (unsigned n = 0; n < nodes; ++n)
    same &= same_bits(field[n][steps % 2].data() + sites, wanted.data() + std::size_t{n} * slices * sites,
                      std::size_t{slices} * sites);
  std::printf("%u steps of a %u x %u^3 lattice on %u nodes (threads, emulated cards): %s\n", steps,
              nodes * slices, length, nodes,
              same ? "equal to one node, bit for bit" : "DIFFERENT from one node");
  return same ? 0 : 1;
}
