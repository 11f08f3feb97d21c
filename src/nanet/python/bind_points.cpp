// SPDX-License-Identifier: Apache-2.0
// nanet._core: ring algorithms on arrays of hits at free positions.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "nanet/python/trigger_options.hpp"
#include "nanet/rich/algorithm.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace nanet;

using Array = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr std::uint8_t no_ring = 255;
constexpr std::uint32_t chunk =
    1024;  // events between checks and the algorithm: their hits stay in the cache
constexpr float most_mm = 10'000.0f;

// Column that grows without initialising its values. Large ones lie in huge pages where the kernel permits:
// page faults would take as long as the algorithm.
template <class T>
class Column {
 public:
  void reserve(std::size_t rows) {
    if (rows <= capacity_) return;
    std::unique_ptr<T[], Free> moved(static_cast<T*>(allocate(rows * sizeof(T))));
    std::copy_n(values_.get(), size_, moved.get());
    values_ = std::move(moved);
    capacity_ = rows;
  }
  T* extend(std::size_t rows) {
    if (size_ + rows > capacity_) reserve(std::max(size_ + rows, 2 * capacity_));
    size_ += rows;
    return values_.get() + size_ - rows;
  }
  std::size_t size() const { return size_; }
  void append(const Column& other) { std::copy_n(other.values_.get(), other.size_, extend(other.size_)); }
  // numpy array that owns the values.
  nb::object take() {
    reserve(1);
    T* const values = values_.release();
    const nb::capsule owner(values, [](void* p) noexcept { std::free(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(values, {size_}, owner));
  }

 private:
  struct Free {
    void operator()(T* p) const noexcept { std::free(p); }
  };
  static void* allocate(std::size_t bytes) {
    constexpr std::size_t huge = 2 << 20;
    const bool large = bytes >= huge;
    const std::size_t unit = large ? huge : 64;
    const std::size_t whole = (bytes + unit - 1) / unit * unit;
    void* const p = std::aligned_alloc(unit, whole);
    if (p == nullptr) throw std::bad_alloc();
    if (large) (void)madvise(p, whole, MADV_HUGEPAGE);
    return p;
  }

  std::unique_ptr<T[], Free> values_;
  std::size_t size_ = 0, capacity_ = 0;
};

// A row per ring, and one with ring = 255 per event without rings.
struct Rows {
  Column<std::uint32_t> event;
  Column<std::uint8_t> ring, n_rings, n_hits;
  Column<float> x, y, r, chi2_ndf;
  Column<std::uint16_t> event_hits;

  std::size_t size() const { return event.size(); }

  template <class Each>
  void each(Each&& each) {
    each("event", event);
    each("ring", ring);
    each("n_rings", n_rings);
    each("n_hits", n_hits);
    each("x", x);
    each("y", y);
    each("r", r);
    each("chi2_ndf", chi2_ndf);
    each("event_hits", event_hits);
  }

  void reserve(std::size_t rows) {
    each([rows](const char*, auto& column) { column.reserve(rows); });
  }

  void add(const std::uint32_t* id, const std::uint32_t* first, const rich::Rings* rings,
           std::uint32_t events) {
    std::size_t rows = 0;
    for (std::uint32_t i = 0; i < events; ++i) rows += std::max<std::size_t>(rings[i].count, 1);
    auto* e = event.extend(rows);
    auto *k = ring.extend(rows), *of = n_rings.extend(rows), *hits = n_hits.extend(rows);
    auto *cx = x.extend(rows), *cy = y.extend(rows), *cr = r.extend(rows), *chi2 = chi2_ndf.extend(rows);
    auto* seen = event_hits.extend(rows);
    constexpr float none = std::numeric_limits<float>::quiet_NaN();
    for (std::uint32_t i = 0; i < events; ++i) {
      const rich::Rings& found = rings[i];
      const unsigned some = std::max<unsigned>(found.count, 1);
      for (unsigned j = 0; j < some; ++j) {
        const bool there = found.count > 0;
        const rich::Ring one = there ? found.ring[j] : rich::Ring{none, none, none, none, 0};
        *e++ = id[i];
        *k++ = there ? static_cast<std::uint8_t>(j) : no_ring;
        *of++ = found.count;
        *hits++ = one.hits;
        *cx++ = one.x;
        *cy++ = one.y;
        *cr++ = one.r;
        *chi2++ = one.chi2_ndf;
        *seen++ = static_cast<std::uint16_t>(first[i + 1] - first[i]);
      }
    }
  }
};

[[noreturn]] void refuse(const std::string& sentence) {
  throw std::invalid_argument(sentence);
}

// Positions of the hits along one axis, as float.
class Axis {
 public:
  Axis(const char* name, const Array& values) : name_(name), values_(values) {
    if (values.dtype() == nb::dtype<double>())
      wide_ = static_cast<const double*>(values.data());
    else if (values.dtype() == nb::dtype<float>())
      narrow_ = static_cast<const float*>(values.data());
    else
      refuse(std::string(name) + ": must be of float32 or float64");
  }
  // Positions of hits from .. from + hits; valid until the next call with this buffer.
  const float* read(std::size_t from, std::size_t hits, std::vector<float>& buffer) const {
    const float* at = wide_ ? nullptr : narrow_ + from;
    if (wide_) {
      buffer.resize(std::max(buffer.size(), hits));
      const double* const in = wide_ + from;
      for (std::size_t i = 0; i < hits; ++i) buffer[i] = static_cast<float>(in[i]);
      at = buffer.data();
    }
    constexpr auto limit = std::bit_cast<std::uint32_t>(most_mm);
    std::uint32_t bad = 0;  // compares the bits: larger for infinities and NaN too
    for (std::size_t i = 0; i < hits; ++i)
      bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(at[i]) & 0x7FFFFFFFu) > limit);
    if (bad) name_the_bad(at, from, hits);
    return at;
  }

 private:
  [[noreturn]] void name_the_bad(const float* at, std::size_t from, std::size_t hits) const {
    std::size_t i = 0;
    while (i < hits && at[i] >= -most_mm && at[i] <= most_mm) ++i;
    std::ostringstream text;
    text << name_ << ": hit " << from + i << " is at " << at[i] << ": must be a position from -" << most_mm
         << " to " << most_mm << " mm";
    refuse(text.str());
  }

  const char* name_;
  Array values_;
  const float* narrow_ = nullptr;
  const double* wide_ = nullptr;
};

// Events of a chunk: IDs, and offsets of their hits relative to the first one's.
struct Chunk {
  std::uint32_t events = 0;
  std::vector<std::uint32_t> id = std::vector<std::uint32_t>(chunk),
                             first = std::vector<std::uint32_t>(chunk + 1);
};

void check_hits(std::uint64_t event, std::uint64_t hits) {
  if (hits > max_event_hits) {
    std::ostringstream text;
    text << "event " << event << " has " << hits << " hits; an event has at most " << max_event_hits
         << ": select its hits first";
    refuse(text.str());
  }
}

// Event number of each hit, in ascending order.
template <class T>
class Numbers {
 public:
  Numbers(const T* values, std::size_t size) : values_(values), size_(size) {}

  std::size_t size() const { return size_; }
  // First hit of the event that holds hit `at`.
  std::size_t boundary(std::size_t at) const {
    while (at > 0 && at < size_ && values_[at] == values_[at - 1]) --at;
    return at;
  }
  // Reads the events from hit `from` on, up to hit `to`; returns the hit behind them.
  std::size_t read(std::size_t from, std::size_t to, Chunk& out) const {
    std::size_t at = from, guess = 1;
    out.events = 0;
    while (out.events < chunk && at < to) {
      const T number = values_[at];
      std::size_t end = std::min(at + guess, to);
      while (values_[end - 1] != number) --end;
      while (end < to && values_[end] == number) ++end;
      check_range(number, at);
      out.id[out.events] = static_cast<std::uint32_t>(number);
      out.first[out.events++] = static_cast<std::uint32_t>(at - from);
      guess = end - at;
      at = end;
      if (guess > max_event_hits) break;  // reported below, unless the order is wrong
    }
    out.first[out.events] = static_cast<std::uint32_t>(at - from);
    const std::size_t last = std::min(at, to - 1);
    unsigned falls = 0;
    for (std::size_t i = from; i < last; ++i) falls |= static_cast<unsigned>(values_[i + 1] < values_[i]);
    if (falls || (from > 0 && values_[from] < values_[from - 1])) name_the_fall(from);
    check_hits(out.id[out.events - 1], guess);
    return at;
  }

 private:
  static void check_range(T number, std::size_t at) {
    bool good = true;
    if constexpr (std::is_signed_v<T>) good = number >= 0;
    if constexpr (sizeof(T) > 4) good = good && number <= T{0xFFFFFFFFu};
    if (good) return;
    std::ostringstream text;
    text << "event: hit " << at << " has number " << number << ": must be from 0 to 4294967295";
    refuse(text.str());
  }
  [[noreturn]] void name_the_fall(std::size_t from) const {
    std::size_t i = std::max<std::size_t>(from, 1);
    while (i + 1 < size_ && values_[i] >= values_[i - 1]) ++i;
    std::ostringstream text;
    text
        << "event: number " << values_[i] << " of hit " << i << " follows " << values_[i - 1]
        << ": the hits must be in order of event; sort x, y and event by numpy.argsort(event, kind='stable')";
    refuse(text.str());
  }

  const T* values_;
  std::size_t size_;
};

// First hit of each event, and the end of the last.
class Offsets {
 public:
  Offsets(const std::int64_t* first, std::size_t events) : first_(first), events_(events) {}
  std::size_t size() const { return events_; }
  std::size_t boundary(std::size_t at) const { return at; }
  std::size_t read(std::size_t from, std::size_t to, Chunk& out) const {
    out.events = static_cast<std::uint32_t>(std::min<std::size_t>(chunk, to - from));
    std::int64_t most = 0;
    for (std::uint32_t i = 0; i < out.events; ++i) {
      out.id[i] = static_cast<std::uint32_t>(from + i);
      out.first[i] = static_cast<std::uint32_t>(first_[from + i] - first_[from]);
      most = std::max(most, first_[from + i + 1] - first_[from + i]);
    }
    out.first[out.events] = static_cast<std::uint32_t>(first_[from + out.events] - first_[from]);
    if (most > std::int64_t{max_event_hits}) {
      std::size_t i = from;
      while (first_[i + 1] - first_[i] != most) ++i;
      check_hits(i, static_cast<std::uint64_t>(most));
    }
    return from + out.events;
  }
  std::size_t hit(std::size_t at) const { return static_cast<std::size_t>(first_[at]); }

 private:
  const std::int64_t* first_;
  std::size_t events_;
};

template <class Events>
std::size_t first_hit(const Events& events, std::size_t at) {
  if constexpr (std::is_same_v<Events, Offsets>)
    return events.hit(at);
  else
    return at;
}

template <class Events>
void process(const Events& events, std::size_t from, std::size_t to, const Axis& x, const Axis& y,
             rich::Reconstructor& reconstructor, Rows& rows) {
  Chunk some;
  std::vector<float> wide_x, wide_y;
  std::vector<rich::Rings> rings(chunk);
  const std::size_t start = from;
  while (from < to) {
    const std::size_t next = events.read(from, to, some), hit = first_hit(events, from);
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

// Splits the events into one contiguous part per thread; the result does not depend on their number.
template <class Events>
Rows process_all(const Events& events, const Axis& x, const Axis& y, rich::Reconstructor& reconstructor,
                 unsigned threads) {
  const nb::gil_scoped_release released;
  const std::size_t parts = std::clamp<std::size_t>(events.size() / chunk, 1, std::max(threads, 1u));
  std::vector<std::size_t> start{0};
  for (std::size_t i = 1; i < parts; ++i)
    start.push_back(std::max(start.back(), events.boundary(events.size() / parts * i)));
  start.push_back(events.size());
  std::vector<Rows> rows(parts);
  std::vector<std::exception_ptr> failure(parts);
  const auto part = [&](std::size_t i, rich::Reconstructor& own) {
    try {
      process(events, start[i], start[i + 1], x, y, own, rows[i]);
    } catch (...) {
      failure[i] = std::current_exception();
    }
  };
  {
    std::vector<std::unique_ptr<rich::Reconstructor>> own;
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < parts; ++i) {
      own.push_back(reconstructor.clone());
      others.emplace_back(part, i, std::ref(*own.back()));
    }
    part(0, reconstructor);
  }
  for (const auto& error : failure) {
    if (error) std::rethrow_exception(error);
  }
  for (std::size_t i = 1; i < parts; ++i) {
    rows[0].event.append(rows[i].event);
    rows[0].ring.append(rows[i].ring);
    rows[0].n_rings.append(rows[i].n_rings);
    rows[0].n_hits.append(rows[i].n_hits);
    rows[0].x.append(rows[i].x);
    rows[0].y.append(rows[i].y);
    rows[0].r.append(rows[i].r);
    rows[0].chi2_ndf.append(rows[i].chi2_ndf);
    rows[0].event_hits.append(rows[i].event_hits);
  }
  return std::move(rows[0]);
}

Offsets offsets_of(const Array& first, std::size_t hits) {
  if (first.dtype() != nb::dtype<std::int64_t>() || first.size() == 0)
    refuse("first: must be int64, the start of each event and the end of the last");
  const auto* const values = static_cast<const std::int64_t*>(first.data());
  if (values[0] != 0 || static_cast<std::size_t>(values[first.size() - 1]) != hits)
    refuse("first: must start with 0 and end with the number of hits");
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    if (values[i] > values[i + 1]) refuse("first: must not decrease");
  }
  if (first.size() - 1 > std::numeric_limits<std::uint32_t>::max()) refuse("first: at most 2^32 - 1 events");
  return {values, first.size() - 1};
}

nb::dict reconstruct_points(const std::string& algorithm, const Array& x, const Array& y,
                            const std::optional<Array>& event, const std::optional<Array>& first,
                            const rich::Parameters& parameters, unsigned threads,
                            const std::optional<nb::dict>& detector) {
  const Axis along_x("x", x), along_y("y", y);
  if (x.size() != y.size() || (event && event->size() != x.size()))
    refuse("x, y and event: must have equal lengths");
  const auto reconstructor = rich::make_reconstructor(
      algorithm, parameters, detector ? *python::detector_of(*detector) : *rich::na62());
  Rows rows;
  const auto by_number = [&]<class T>(const T* values) {
    rows = process_all(Numbers<T>(values, event->size()), along_x, along_y, *reconstructor, threads);
  };
  if (!event) {
    if (!first) refuse("event: the event number of each hit is missing");
    rows = process_all(offsets_of(*first, x.size()), along_x, along_y, *reconstructor, threads);
  } else if (event->dtype() == nb::dtype<std::int64_t>()) {
    by_number(static_cast<const std::int64_t*>(event->data()));
  } else if (event->dtype() == nb::dtype<std::int32_t>()) {
    by_number(static_cast<const std::int32_t*>(event->data()));
  } else if (event->dtype() == nb::dtype<std::uint64_t>()) {
    by_number(static_cast<const std::uint64_t*>(event->data()));
  } else if (event->dtype() == nb::dtype<std::uint32_t>()) {
    by_number(static_cast<const std::uint32_t*>(event->data()));
  } else {
    refuse("event: must be whole numbers of 32 or 64 bits");
  }
  nb::dict d;
  rows.each([&](const char* name, auto& column) { d[name] = column.take(); });
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
        "Runs an algorithm over hits at positions x, y (mm, common plane; float32 or float64). event: number "
        "of each hit's event, ascending; or None, and first: int64, start of each event and end of the last. "
        "Returns columns, a row per ring and one with ring = 255 per event without rings: event, ring, "
        "n_rings, n_hits, x, y, r, chi2_ndf, event_hits. ValueError names the fault.");
  m.def("time_points", &time_points, "algorithm"_a, "x"_a, "y"_a, "first"_a, "batch"_a = 0,
        "parameters"_a = rich::Parameters{},
        "CPU seconds of the bare algorithm over the same hits, in batches of that many events, 0: one call "
        "for all "
        "(x, y: float32; first: uint32). ValueError.");
}
