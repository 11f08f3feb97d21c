// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/batch/reconstructor.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "nanet/gpu/device.hpp"
#include "nanet/gpu/kernels/plane.hpp"
#include "nanet/gpu/memory.hpp"

namespace nanet::gpu {
namespace {

constexpr std::uint32_t most_events = 16384;  // per piece
constexpr std::uint32_t most_hits = most_events * 32;

class OnDevice final : public GpuReconstructor {
 public:
  OnDevice(const rich::Reconstructor& cpu, const rich::Geometry& geometry, int device)
      : cpu_(cpu.clone()), geometry_(geometry), kernel_(kernel_of(cpu.name())), device_(device) {
    const Devices all = devices();
    if (device < 0 || static_cast<std::size_t>(device) >= all.found.size())
      throw std::invalid_argument(
          "device: cuda:" + std::to_string(device) + ": " +
          (all.found.empty() ? all.trouble : "there are only " + std::to_string(all.found.size()) + " GPUs"));
    if (geometry.wide())
      throw std::invalid_argument("detector: " + std::to_string(geometry.channels()) +
                                  " channels: a GPU takes up to 1952: use --device cpu");
    multiprocessors_ = all.found[static_cast<std::size_t>(device)].multiprocessors;
    require(cudaSetDevice(device), "choosing the device");
    plane_ = DevicePlane(geometry);
    for (Piece& piece : pieces_) {
      piece.stream = stream();
      piece.first = pinned_array<std::uint32_t>(most_events + 1);
      piece.pm = pinned_array<PmId>(most_hits);
      piece.rings = pinned_array<rich::Rings>(most_events);
      piece.on_device.first = device_array<std::uint32_t>(most_events + 1);
      piece.on_device.pm = device_array<PmId>(most_hits);
      piece.on_device.rings = device_array<rich::Rings>(most_events);
      piece.on_device.work =
          device_array<std::byte>(std::max<std::size_t>(kernel_.work_bytes(most_events), 1));
    }
    // The first launch loads a kernel, possibly one per batch size: done here with events without hits, not
    // during the work.
    const std::vector<std::uint32_t> none(most_events + 1);
    const PmId pm = 0;
    std::vector<rich::Rings> rings(most_events);
    for (const std::uint32_t events : {1u, 1024u, most_events})
      (*this)({events, none.data(), &pm}, rings.data());
    if (failed_) throw std::runtime_error(std::string("cuda: the first reconstruction: ") + failed_.load());
  }
  ~OnDevice() override {
    for (Piece& piece : pieces_) cudaStreamSynchronize(piece.stream.get());
  }

  std::string_view name() const noexcept override { return cpu_->name(); }
  const void* value() const noexcept override { return cpu_->value(); }
  std::unique_ptr<rich::Reconstructor> clone() const override {
    return std::make_unique<OnDevice>(*cpu_, geometry_, device_);
  }
  const char* failed() const noexcept override { return failed_; }

  void operator()(const rich::EventBatch& batch, rich::Rings* rings) noexcept override {
    if (!failed_) {
      const cudaError_t status = run(batch, rings);
      if (status == cudaSuccess) return;
      for (Piece& piece : pieces_) piece.events = 0;
      failed_ = cudaGetErrorString(status);
    }
    (*cpu_)(batch, rings);
  }
  // Hits at free positions: on the CPU; kernels look positions up by PM ID.
  void operator()(const rich::PointBatch& batch, rich::Rings* rings) noexcept override {
    (*cpu_)(batch, rings);
  }

 private:
  struct Piece {
    std::uint32_t from = 0, events = 0;  // range of the batch; 0: not in flight
    Stream stream;
    PinnedArray<std::uint32_t> first;
    PinnedArray<PmId> pm;
    PinnedArray<rich::Rings> rings;
    struct {
      DeviceArray<std::uint32_t> first;
      DeviceArray<PmId> pm;
      DeviceArray<rich::Rings> rings;
      DeviceArray<std::byte> work;
    } on_device;
  };

  cudaError_t run(const rich::EventBatch& batch, rich::Rings* rings) noexcept {
    // One context per worker thread.
    if (const auto status = cudaSetDevice(device_)) return status;
    unsigned next = 0;
    for (std::uint32_t from = 0; from < batch.events;) {
      Piece& piece = pieces_[next++ % pieces_.size()];
      if (const auto status = take(piece, rings)) return status;
      std::uint32_t events = 0;
      while (from + events < batch.events && events < most_events &&
             batch.first[from + events + 1] - batch.first[from] <= most_hits)
        ++events;
      if (events == 0) {  // an event of half a million hits
        (*cpu_)({1, batch.first + from, batch.pm}, rings + from);
        ++from;
        continue;
      }
      if (const auto status = give(piece, batch, from, events)) return status;
      from += events;
    }
    for (unsigned k = 0; k < pieces_.size(); ++k)
      if (const auto status = take(pieces_[next++ % pieces_.size()], rings)) return status;
    return cudaSuccess;
  }

  cudaError_t give(Piece& piece, const rich::EventBatch& batch, std::uint32_t from,
                   std::uint32_t events) noexcept {
    const std::uint32_t base = batch.first[from], hits = batch.first[from + events] - base;
    for (std::uint32_t i = 0; i <= events; ++i) piece.first[i] = batch.first[from + i] - base;
    if (hits) std::memcpy(piece.pm.get(), batch.pm + base, hits * sizeof(PmId));
    cudaStream_t s = piece.stream.get();
    if (const auto status = cudaMemcpyAsync(piece.on_device.first.get(), piece.first.get(),
                                            (events + 1) * sizeof(std::uint32_t), cudaMemcpyHostToDevice, s))
      return status;
    if (const auto status = cudaMemcpyAsync(piece.on_device.pm.get(), piece.pm.get(), hits * sizeof(PmId),
                                            cudaMemcpyHostToDevice, s))
      return status;
    DeviceBatch on_device;
    on_device.events = events;
    on_device.first = piece.on_device.first.get();
    on_device.pm = piece.on_device.pm.get();
    on_device.plane = plane_.common();
    on_device.math_plane = plane_.math();
    on_device.rings = piece.on_device.rings.get();
    on_device.work = piece.on_device.work.get();
    if (const auto status = kernel_.launch(cpu_->value(), on_device, {}, multiprocessors_, s)) return status;
    if (const auto status = cudaMemcpyAsync(piece.rings.get(), piece.on_device.rings.get(),
                                            events * sizeof(rich::Rings), cudaMemcpyDeviceToHost, s))
      return status;
    piece.from = from;
    piece.events = events;
    return cudaSuccess;
  }

  // Waits for a piece in flight and outputs its rings.
  static cudaError_t take(Piece& piece, rich::Rings* rings) noexcept {
    if (piece.events == 0) return cudaSuccess;
    if (const auto status = cudaStreamSynchronize(piece.stream.get())) return status;
    std::memcpy(static_cast<void*>(rings + piece.from), piece.rings.get(),
                piece.events * sizeof(rich::Rings));
    piece.events = 0;
    return cudaSuccess;
  }

  std::unique_ptr<rich::Reconstructor> cpu_;
  rich::Geometry geometry_;
  const BatchKernel& kernel_;
  int device_ = 0, multiprocessors_ = 1;
  DevicePlane plane_;
  std::array<Piece, 2> pieces_;
  std::atomic<const char*> failed_{nullptr};
};

}  // namespace

std::unique_ptr<GpuReconstructor> make_reconstructor(const rich::Reconstructor& cpu,
                                                     const rich::Geometry& geometry, int device) {
  return std::make_unique<OnDevice>(cpu, geometry, device);
}

}  // namespace nanet::gpu
