// SPDX-License-Identifier: Apache-2.0
// nanet._core: ring algorithms on arrays of hits at free positions.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nanet/gpu/batch/reconstructor.hpp"
#include "nanet/python/point_columns.hpp"
#include "nanet/python/point_events.hpp"
#include "nanet/python/trigger_options.hpp"
#include "nanet/rich/algorithm.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace nanet;
using namespace nanet::python;

using Array = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Events between checks and the algorithm: on a CPU their hits stay in the cache; a GPU works on one part
// while the next one is copied.
constexpr std::uint32_t cpu_chunk = 2048, gpu_chunk = 131072;

Axis axis(const char* name, const Array& values) {
  if (values.dtype() == nb::dtype<double>())
    return {name, nullptr, static_cast<const double*>(values.data())};
  if (values.dtype() != nb::dtype<float>()) refuse(std::string(name) + ": must be of float32 or float64");
  return {name, static_cast<const float*>(values.data()), nullptr};
}

template <class Events>
void process(const Events& events, std::size_t from, std::size_t to, const Axis& x, const Axis& y,
             rich::Reconstructor& reconstructor, std::uint32_t chunk, RingRows& rows) {
  Chunk some(chunk);
  std::vector<float> wide_x, wide_y;
  std::vector<rich::Rings> rings(chunk);
  const std::size_t start = from;
  while (from < to) {
    const std::size_t next = events.read(from, to, some), hit = events.hit(from);
    const std::size_t hits = some.first[some.events];
    const rich::PointBatch batch{some.events, some.first.data(), x.read(hit, hits, wide_x),
                                 y.read(hit, hits, wide_y)};
    reconstructor(batch, rings.data());
    rows.add(some.id.data(), some.first.data(), rings.data(), some.events);
    if (from == start) {  // by the rows of the first chunk, and 5 % more
      const double rest = static_cast<double>(to - next) / static_cast<double>(next - start);
      rows.reserve(static_cast<std::size_t>(static_cast<double>(rows.size()) * (1 + rest) * 1.05) + chunk);
    }
    from = next;
  }
}

// Runs work(i) for i = 0 .. parts - 1, each on a thread.
template <class Work>
void in_parallel(std::size_t parts, const Work& work) {
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < parts; ++i) others.emplace_back([&work, i] { work(i); });
  work(0);
}

// The rows of all parts, one after the other. Frees each part column by column.
RingRows joined(std::vector<RingRows>& parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  std::vector<std::size_t> start{0};
  for (const RingRows& part : parts) start.push_back(start.back() + part.size());
  RingRows all;
  const auto size = [&](const char*, auto& column) { column.extend(start.back()); };
  RingRows::each(size, all);
  in_parallel(parts.size(), [&](std::size_t i) {
    const auto copy = [&](const char*, auto& from, auto& to) {
      std::copy_n(from.data(), from.size(), to.data() + start[i]);
      (void)from.release();
    };
    RingRows::each(copy, parts[i], all);
  });
  return all;
}

// Splits the events into one contiguous part per thread; the result does not depend on their number.
template <class Events>
RingRows process_all(const Events& events, const Axis& x, const Axis& y, rich::Reconstructor& reconstructor,
                     std::uint32_t chunk, unsigned threads) {
  const nb::gil_scoped_release released;
  const std::size_t parts = std::clamp<std::size_t>(events.size() / chunk, 1, std::max(threads, 1u));
  std::vector<std::size_t> start{0};
  for (std::size_t i = 1; i < parts; ++i)
    start.push_back(std::max(start.back(), events.boundary(events.size() / parts * i)));
  start.push_back(events.size());
  std::vector<RingRows> rows(parts);
  std::vector<std::exception_ptr> failure(parts);
  std::vector<std::unique_ptr<rich::Reconstructor>> clones(parts);
  for (std::size_t i = 1; i < parts; ++i) clones[i] = reconstructor.clone();
  in_parallel(parts, [&](std::size_t i) {
    try {
      process(events, start[i], start[i + 1], x, y, i ? *clones[i] : reconstructor, chunk, rows[i]);
    } catch (...) {
      failure[i] = std::current_exception();
    }
  });
  for (const auto& error : failure) {
    if (error) std::rethrow_exception(error);
  }
  return joined(rows);
}

// numpy array that owns the values.
template <class T>
nb::object array_of(Column<T>& column) {
  const std::size_t rows = column.size();
  auto* const kept = new ColumnBlock(column.release());
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<ColumnBlock*>(p); });
  static T none{};
  T* const values = rows ? static_cast<T*>(kept->data()) : &none;
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(values, {rows}, owner));
}

Offsets offsets_of(const Array& first, const std::optional<Array>& number, std::size_t hits) {
  if (first.dtype() != nb::dtype<std::int64_t>() || first.size() == 0)
    refuse("first: must be int64, the start of each event and the end of the last");
  const auto* const values = static_cast<const std::int64_t*>(first.data());
  if (values[0] != 0 || static_cast<std::size_t>(values[first.size() - 1]) != hits)
    refuse("first: must start with 0 and end with the number of hits");
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    if (values[i] > values[i + 1]) refuse("first: must not decrease");
  }
  if (first.size() - 1 > std::numeric_limits<std::uint32_t>::max()) refuse("first: at most 2^32 - 1 events");
  if (number && (number->dtype() != nb::dtype<std::uint32_t>() || number->size() != first.size() - 1))
    refuse("number: must be uint32, a number for each event");
  return {values, first.size() - 1, number ? static_cast<const std::uint32_t*>(number->data()) : nullptr};
}

nb::dict reconstruct_points(const std::string& algorithm, const Array& x, const Array& y,
                            const std::optional<Array>& event, const std::optional<Array>& first,
                            const rich::Parameters& parameters, unsigned threads,
                            const std::optional<nb::dict>& detector, const std::optional<Array>& number,
                            const std::string& device) {
  const Axis along_x = axis("x", x), along_y = axis("y", y);
  if (x.size() != y.size() || (event && event->size() != x.size()))
    refuse("x, y and event: must have equal lengths");
  const auto geometry = detector ? detector_of(*detector) : rich::na62();
  const auto reconstructor = rich::make_reconstructor(algorithm, parameters, *geometry);
  std::unique_ptr<gpu::GpuReconstructor> on_gpu;
  if (device != "cpu") {
    const int number_of = cuda_number(device);
    const nb::gil_scoped_release released;
    on_gpu = gpu::make_reconstructor(*reconstructor, *geometry, number_of);
  }
  const auto process = [&](const auto& events) {
    return on_gpu ? process_all(events, along_x, along_y, *on_gpu, gpu_chunk, 1)
                  : process_all(events, along_x, along_y, *reconstructor, cpu_chunk, threads);
  };
  const auto by_number = [&]<class T>(const T* values) { return process(Numbers<T>(values, event->size())); };
  RingRows rows;
  if (!event) {
    if (!first) refuse("event: the event number of each hit is missing");
    rows = process(offsets_of(*first, number, x.size()));
  } else if (event->dtype() == nb::dtype<std::int64_t>()) {
    rows = by_number(static_cast<const std::int64_t*>(event->data()));
  } else if (event->dtype() == nb::dtype<std::int32_t>()) {
    rows = by_number(static_cast<const std::int32_t*>(event->data()));
  } else if (event->dtype() == nb::dtype<std::uint64_t>()) {
    rows = by_number(static_cast<const std::uint64_t*>(event->data()));
  } else if (event->dtype() == nb::dtype<std::uint32_t>()) {
    rows = by_number(static_cast<const std::uint32_t*>(event->data()));
  } else {
    refuse("event: must be whole numbers of 32 or 64 bits");
  }
  nb::dict d;
  RingRows::each([&](const char* name, auto& column) { d[name] = array_of(column); }, rows);
  if (on_gpu && on_gpu->failed()) d["device_failed"] = on_gpu->failed();
  return d;
}

// CPU time of this thread in s.
double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// CPU time of the bare algorithm over the same hits, in s: no checks, no numbering, no columns. first:
// uint32.
double time_points(const std::string& algorithm, const Array& x, const Array& y, const Array& first,
                   std::uint32_t batch, const rich::Parameters& parameters) {
  if (x.dtype() != nb::dtype<float>() || y.dtype() != nb::dtype<float>() ||
      first.dtype() != nb::dtype<std::uint32_t>() || first.size() == 0)
    refuse("x, y and first: must be float32, float32 and uint32");
  const auto reconstructor = rich::make_reconstructor(algorithm, parameters, rich::Geometry::make());
  const nb::gil_scoped_release released;
  const auto* const starts = static_cast<const std::uint32_t*>(first.data());
  const auto events = static_cast<std::uint32_t>(first.size() - 1);
  if (batch == 0 || batch > events) batch = std::max(events, 1u);
  std::vector<rich::Rings> rings(batch);
  const double start = cpu_s();
  for (std::uint32_t from = 0; from < events; from += batch) {
    const std::uint32_t some = std::min(batch, events - from);
    (*reconstructor)(rich::PointBatch{some, starts + from, static_cast<const float*>(x.data()),
                                      static_cast<const float*>(y.data())},
                     rings.data());
  }
  return cpu_s() - start;
}

}  // namespace

void bind_points(nb::module_& m) {
  m.def("reconstruct_points", &reconstruct_points, "algorithm"_a, "x"_a, "y"_a, "event"_a.none(),
        "first"_a.none(), "parameters"_a = rich::Parameters{}, "threads"_a = 1, "detector"_a = nb::none(),
        "number"_a = nb::none(), "device"_a = "cpu",
        "Runs an algorithm over hits at positions x, y (mm, common plane; float32 or float64). event: number "
        "of each hit's event, ascending; or None, and first: int64, start of each event and end of the last, "
        "number: uint32, of each event, None: its index. Returns columns, a row per ring and one with ring = "
        "255 per event without rings: event (uint64), timestamp (the same, uint32), ring, n_rings, n_hits, "
        "x, y, r, chi2_ndf, event_hits. device: cpu, cuda or cuda:N, where "
        "one thread feeds the GPU; device_failed: why the CPU took over. ValueError names the fault.");
  m.def("time_points", &time_points, "algorithm"_a, "x"_a, "y"_a, "first"_a, "batch"_a = 0,
        "parameters"_a = rich::Parameters{},
        "CPU seconds of the bare algorithm over the same hits, in batches of that many events, 0: one call "
        "for all "
        "(x, y: float32; first: uint32). ValueError.");
}
