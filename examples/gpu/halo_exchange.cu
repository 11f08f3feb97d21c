// SPDX-License-Identifier: Apache-2.0
// Halo exchange of a 4D lattice between two GPUs, or two nodes on one GPU, compared with one kernel on one
// GPU. Kernels put their halos themselves; emulated cards (resident blocks) execute the puts.
#include "halo_exchange.hpp"

#include <cstdio>
#include <vector>

#include "nanet/gpu/rdma/gpu_nodes.cuh"

namespace gpu = nanet::gpu;

namespace {

constexpr unsigned length = 12, slices = 8, steps = 50, nodes = 2, threads = 512;
constexpr unsigned sites = length * length * length;

__global__ void __launch_bounds__(threads) lattice_block(const gpu::Rdma rdma, const Lattice l) {
  __shared__ gpu::RdmaWork work;
  __shared__ gpu::RdmaEvent event;
  run_lattice(rdma, work, event, l, threadIdx.x, blockDim.x);
}

// One step of the whole lattice, whose halos were copied.
__global__ void whole_step(const Site* from, Site* to, unsigned all) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < all * sites) to[sites + i] = diffuse(from, length, 1 + i / sites, i % sites);
}

void check(cudaError_t status, const char* what) {
  gpu::require(status, what);
}

std::vector<Site> alone() {
  constexpr unsigned all = nodes * slices;
  constexpr std::size_t bytes = sizeof(Site) * (all + 2) * sites;
  std::vector<Site> host(std::size_t{all + 2} * sites);
  for (unsigned t = 0; t < all; ++t)
    for (unsigned i = 0; i < sites; ++i) host[std::size_t{t + 1} * sites + i] = first_site(t, i);
  Site* field[2] = {};
  for (Site*& f : field) check(cudaMalloc(reinterpret_cast<void**>(&f), bytes), "memory");
  check(cudaMemcpy(field[0], host.data(), bytes, cudaMemcpyHostToDevice), "the first field");
  for (unsigned step = 0; step < steps; ++step) {
    Site *const from = field[step % 2], *const to = field[(step + 1) % 2];
    check(cudaMemcpy(from, from + all * sites, sizeof(Site) * sites, cudaMemcpyDeviceToDevice), "a halo");
    check(cudaMemcpy(from + (all + 1) * sites, from + sites, sizeof(Site) * sites, cudaMemcpyDeviceToDevice),
          "a halo");
    whole_step<<<(all * sites + 255) / 256, 256>>>(from, to, all);
    check(cudaGetLastError(), "a step");
  }
  check(cudaMemcpy(host.data(), field[steps % 2], bytes, cudaMemcpyDeviceToHost), "the result");
  for (Site* f : field) cudaFree(f);
  return {host.begin() + sites, host.end() - sites};
}

}  // namespace

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return std::puts("no GPU"), 77;
  check(cudaSetDevice(0), "GPU 0");
  const std::vector<Site> wanted = alone();

  gpu::RdmaOptions options;
  options.gpus = {0, gpus > 1 ? 1 : 0};
  gpu::GpuRdma rdma(options);
  constexpr std::size_t bytes = sizeof(Site) * (slices + 2) * sites;
  Lattice part[nodes];
  gpu::RdmaKey key[nodes][2];
  cudaStream_t stream[nodes];
  std::vector<Site> host(std::size_t{slices + 2} * sites);
  for (unsigned n = 0; n < nodes; ++n) {
    check(cudaSetDevice(rdma.gpu(n)), "GPU");
    for (unsigned t = 0; t < slices; ++t)
      for (unsigned i = 0; i < sites; ++i)
        host[std::size_t{t + 1} * sites + i] = first_site(n * slices + t, i);
    for (unsigned f = 0; f < 2; ++f) {
      check(cudaMalloc(reinterpret_cast<void**>(&part[n].field[f]), bytes), "memory");
      check(cudaMemcpy(part[n].field[f], host.data(), bytes, cudaMemcpyHostToDevice), "the first field");
      key[n][f] = rdma.register_memory(n, part[n].field[f], bytes);
    }
    check(cudaMalloc(reinterpret_cast<void**>(&part[n].trouble), sizeof(unsigned)), "memory");
    check(cudaMemset(part[n].trouble, 0xFF, sizeof(unsigned)), "memory");
    check(cudaStreamCreateWithFlags(&stream[n], cudaStreamNonBlocking), "a stream");
    check(cudaDeviceSynchronize(), "setting up");
  }
  rdma.start();
  for (unsigned n = 0; n < nodes; ++n) {
    Lattice& l = part[n];
    l.length = length;
    l.slices = slices;
    l.steps = steps;
    l.below = l.above =
        static_cast<std::uint16_t>((n + 1) % nodes);  // of two nodes both neighbours are the other
    for (unsigned f = 0; f < 2; ++f) l.below_key[f] = l.above_key[f] = key[(n + 1) % nodes][f];
    check(cudaSetDevice(rdma.gpu(n)), "GPU");
    lattice_block<<<1, threads, 0, stream[n]>>>(rdma.argument(n), l);
    check(cudaGetLastError(), "starting a node");
  }
  for (unsigned n = 0; n < nodes; ++n) check(cudaStreamSynchronize(stream[n]), "a node");
  rdma.stop();
  bool same = true;
  for (unsigned n = 0; n < nodes; ++n) {
    check(cudaSetDevice(rdma.gpu(n)), "GPU");
    unsigned trouble = 1;
    check(cudaMemcpy(&trouble, part[n].trouble, sizeof trouble, cudaMemcpyDeviceToHost), "the outcome");
    check(cudaMemcpy(host.data(), part[n].field[steps % 2], bytes, cudaMemcpyDeviceToHost), "the result");
    same &= trouble == 0 && same_bits(host.data() + sites, wanted.data() + std::size_t{n} * slices * sites,
                                      std::size_t{slices} * sites);
    for (Site* f : part[n].field) cudaFree(f);
    cudaFree(part[n].trouble);
    cudaStreamDestroy(stream[n]);
  }
  std::printf("%u steps of a %u x %u^3 lattice on %s (emulated cards): %s\n", steps, nodes * slices, length,
              gpus > 1 ? "two GPUs" : "two nodes of one GPU",
              same ? "equal to one GPU, bit for bit" : "DIFFERENT from one GPU");
  return same ? 0 : 1;
}
