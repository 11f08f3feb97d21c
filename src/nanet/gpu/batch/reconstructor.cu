// SPDX-License-Identifier: Apache-2.0
#include "nanet/gpu/batch/reconstructor.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "nanet/gpu/device.hpp"
#include "nanet/gpu/kernels/plane.hpp"
#include "nanet/gpu/memory.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::gpu {
namespace {

constexpr std::uint32_t most_events = 16384;  // per piece
constexpr std::uint32_t most_hits = most_events * 32;

class OnDevice final : public GpuReconstructor {
 public:
  OnDevice(const rich::Reconstructor& cpu, const rich::Geometry& geometry, int device, Nanoseconds stall)
      : cpu_(cpu.clone()), geometry_(geometry), kernel_(kernel_of(cpu.name())), device_(device) {
    const Devices all = devices();
    if (device < 0 || static_cast<std::size_t>(device) >= all.found.size())
      throw std::invalid_argument(
          "device: cuda:" + std::to_string(device) + ": " +
          (all.found.empty() ? all.trouble : "there are only " + std::to_string(all.found.size()) + " GPUs"));
    multiprocessors_ = all.found[static_cast<std::size_t>(device)].multiprocessors;
    require(cudaSetDevice(device), "choosing the device");
    memory_ = std::make_unique<Memory>();
    Memory& m = *memory_;
    m.plane = DevicePlane(geometry);
    // As rich::Plane does on a CPU, with room for the hits of a piece.
    free_ = geometry.wide() ? std::min(static_cast<std::uint32_t>(geometry.channels()),
                                       wide_plane_entries - static_cast<std::uint32_t>(max_event_hits))
                            : plane_entries;
    std::vector<PmId> ids(wide_plane_entries - free_);
    std::iota(ids.begin(), ids.end(), static_cast<PmId>(free_));
    m.free_ids = device_array<PmId>(ids.size());
    require(cudaMemcpy(m.free_ids.get(), ids.data(), ids.size() * sizeof(PmId), cudaMemcpyHostToDevice),
            "copying the PM IDs");
    require(cudaStreamSynchronize(nullptr), "copying the tables");  // the pieces' streams do not wait for it
    for (Piece& piece : m.pieces) {
      piece.stream = stream();
      piece.first = pinned_array<std::uint32_t>(most_events + 1);
      piece.pm = pinned_array<PmId>(most_hits);
      piece.rings = pinned_array<rich::Rings>(most_events);
      piece.points = pinned_array<rich::Point>(ids.size());
      piece.on_device.plane = device_array<rich::Point>(wide_plane_entries);
      require(cudaMemcpyAsync(piece.on_device.plane.get(), m.plane.common(), free_ * sizeof(rich::Point),
                              cudaMemcpyDeviceToDevice, piece.stream.get()),
              "copying the PM positions");
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
      (*this)(rich::EventBatch{events, none.data(), &pm}, rings.data());
    const float nowhere = 0;
    (*this)(rich::PointBatch{1, none.data(), &nowhere, &nowhere}, rings.data());
    if (failed_) throw std::runtime_error(std::string("cuda: the first reconstruction: ") + failed_.load());
    stall_ = stall;
  }
  ~OnDevice() override {
    cudaSetDevice(device_);
    for (Piece& piece : memory_->pieces)
      if (wait(piece) == cudaErrorNotReady) {  // it may still write there, and freeing would wait for it
        static_cast<void>(memory_.release());
        return;
      }
  }

  std::string_view name() const noexcept override { return cpu_->name(); }
  const void* value() const noexcept override { return cpu_->value(); }
  std::unique_ptr<rich::Reconstructor> clone() const override {
    return std::make_unique<OnDevice>(*cpu_, geometry_, device_, stall_);
  }
  const char* failed() const noexcept override { return failed_; }

  void operator()(const rich::EventBatch& batch, rich::Rings* rings) noexcept override {
    run_or_fall_back(batch, most_hits, rings);
  }
  void operator()(const rich::PointBatch& batch, rich::Rings* rings) noexcept override {
    run_or_fall_back(batch, wide_plane_entries - free_, rings);
  }

 private:
  struct Piece {
    std::uint32_t from = 0, events = 0;  // range of the batch; 0: not in flight
    Stream stream;
    PinnedArray<std::uint32_t> first;
    PinnedArray<PmId> pm;
    PinnedArray<rich::Rings> rings;
    PinnedArray<rich::Point> points;  // hits at free positions
    struct {
      DeviceArray<std::uint32_t> first;
      DeviceArray<PmId> pm;
      DeviceArray<rich::Point> plane;  // PMs of the detector, then `points`
      DeviceArray<rich::Rings> rings;
      DeviceArray<std::byte> work;
    } on_device;
  };

  struct Memory {
    DevicePlane plane;
    DeviceArray<PmId> free_ids;  // free_ ..
    std::array<Piece, 2> pieces;
  };

  template <class Batch>
  void run_or_fall_back(const Batch& batch, std::uint32_t hits, rich::Rings* rings) noexcept {
    if (!failed_) {
      const cudaError_t status = run(batch, hits, rings);
      if (status == cudaSuccess) return;
      for (Piece& piece : memory_->pieces) piece.events = 0;
      failed_ = status == cudaErrorNotReady ? "a batch does not end" : cudaGetErrorString(status);
    }
    (*cpu_)(batch, rings);
  }

  // room: hits of a piece.
  template <class Batch>
  cudaError_t run(const Batch& batch, std::uint32_t room, rich::Rings* rings) noexcept {
    // One context per worker thread.
    if (const auto status = cudaSetDevice(device_)) return status;
    std::array<Piece, 2>& pieces = memory_->pieces;
    unsigned next = 0;
    for (std::uint32_t from = 0; from < batch.events;) {
      Piece& piece = pieces[next++ % pieces.size()];
      if (const auto status = take(piece, rings)) return status;
      std::uint32_t events = 0;
      while (from + events < batch.events && events < most_events &&
             batch.first[from + events + 1] - batch.first[from] <= room)
        ++events;
      if (events == 0) {  // an event of more hits than a piece
        Batch one = batch;
        one.events = 1;
        one.first += from;
        (*cpu_)(one, rings + from);
        ++from;
        continue;
      }
      if (const auto status = give(piece, batch, from, events)) return status;
      from += events;
    }
    for (unsigned k = 0; k < pieces.size(); ++k)
      if (const auto status = take(pieces[next++ % pieces.size()], rings)) return status;
    return cudaSuccess;
  }

  // Copies the hits of a piece to the device, and sets their PM IDs and the position table.
  cudaError_t copy_hits(Piece& piece, const rich::EventBatch& batch, std::uint32_t base, std::uint32_t hits,
                        DeviceBatch& on_device) noexcept {
    on_device.pm = piece.on_device.pm.get();
    on_device.plane = memory_->plane.common();
    on_device.math_plane = memory_->plane.math();
    if (hits) std::memcpy(piece.pm.get(), batch.pm + base, hits * sizeof(PmId));
    return cudaMemcpyAsync(piece.on_device.pm.get(), piece.pm.get(), hits * sizeof(PmId),
                           cudaMemcpyHostToDevice, piece.stream.get());
  }
  cudaError_t copy_hits(Piece& piece, const rich::PointBatch& batch, std::uint32_t base, std::uint32_t hits,
                        DeviceBatch& on_device) noexcept {
    on_device.pm = memory_->free_ids.get();
    on_device.plane = piece.on_device.plane.get();
    for (std::uint32_t i = 0; i < hits; ++i) piece.points[i] = {batch.x[base + i], batch.y[base + i]};
    return cudaMemcpyAsync(piece.on_device.plane.get() + free_, piece.points.get(),
                           hits * sizeof(rich::Point), cudaMemcpyHostToDevice, piece.stream.get());
  }

  template <class Batch>
  cudaError_t give(Piece& piece, const Batch& batch, std::uint32_t from, std::uint32_t events) noexcept {
    const std::uint32_t base = batch.first[from], hits = batch.first[from + events] - base;
    for (std::uint32_t i = 0; i <= events; ++i) piece.first[i] = batch.first[from + i] - base;
    cudaStream_t s = piece.stream.get();
    if (const auto status = cudaMemcpyAsync(piece.on_device.first.get(), piece.first.get(),
                                            (events + 1) * sizeof(std::uint32_t), cudaMemcpyHostToDevice, s))
      return status;
    DeviceBatch on_device;
    on_device.events = events;
    on_device.first = piece.on_device.first.get();
    on_device.rings = piece.on_device.rings.get();
    on_device.work = piece.on_device.work.get();
    if (const auto status = copy_hits(piece, batch, base, hits, on_device)) return status;
    const bool plain = std::is_same_v<Batch, rich::PointBatch> || memory_->plane.entries() > plane_entries;
    const auto launch = plain ? kernel_.launch_plain : kernel_.launch;
    if (const auto status = launch(cpu_->value(), on_device, {}, multiprocessors_, s)) return status;
    if (const auto status = cudaMemcpyAsync(piece.rings.get(), piece.on_device.rings.get(),
                                            events * sizeof(rich::Rings), cudaMemcpyDeviceToHost, s))
      return status;
    piece.from = from;
    piece.events = events;
    return cudaSuccess;
  }

  // cudaErrorNotReady: the work has not ended within the limit.
  cudaError_t wait(const Piece& piece) const noexcept {
    if (stall_ <= 0) return cudaStreamSynchronize(piece.stream.get());
    const Nanoseconds until = os::monotonic_now() + stall_;
    for (;;) {
      const cudaError_t status = cudaStreamQuery(piece.stream.get());
      if (status != cudaErrorNotReady || os::monotonic_now() > until) return status;
    }
  }

  // Waits for a piece in flight and outputs its rings.
  cudaError_t take(Piece& piece, rich::Rings* rings) const noexcept {
    if (piece.events == 0) return cudaSuccess;
    if (const auto status = wait(piece)) return status;
    std::memcpy(static_cast<void*>(rings + piece.from), piece.rings.get(),
                piece.events * sizeof(rich::Rings));
    piece.events = 0;
    return cudaSuccess;
  }

  std::unique_ptr<rich::Reconstructor> cpu_;
  rich::Geometry geometry_;
  const BatchKernel& kernel_;
  int device_ = 0, multiprocessors_ = 1;
  Nanoseconds stall_ = 0;
  std::uint32_t free_ = 0;  // PM ID of the first hit of a piece at free positions
  std::unique_ptr<Memory> memory_;
  std::atomic<const char*> failed_{nullptr};
};

}  // namespace

std::unique_ptr<GpuReconstructor> make_reconstructor(const rich::Reconstructor& cpu,
                                                     const rich::Geometry& geometry, int device,
                                                     Nanoseconds stall) {
  return std::make_unique<OnDevice>(cpu, geometry, device, stall);
}

}  // namespace nanet::gpu
