// SPDX-License-Identifier: Apache-2.0
#include "nanet/contract/unit_probe.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <stop_token>
#include <thread>

#include "nanet/os/clock.hpp"

namespace nanet::contract {

void UnitWriter::write() {
  std::fill(segment_.begin(), segment_.end(), mailbox_mark(n_));
  writer_.segment(n_, 0, 0, reinterpret_cast<const std::byte*>(segment_.data()), 0, shape.segment_bytes,
                  true);
  flush_lines();
  ++n_;
}

void UnitReader::read() {
  for (std::size_t u = 0; u < seen_.size(); ++u) {
    std::array<std::uint32_t, unit_data_bytes / 4> word;
    const std::uint32_t mark = load_unit(units_ + unit_bytes * u, reinterpret_cast<std::byte*>(word.data()));
    if (mark == seen_[u]) continue;
    seen_[u] = mark;
    ++counts_.read;
    counts_.torn += std::any_of(word.begin(), word.end(), [mark](std::uint32_t w) { return w != mark; });
  }
}

UnitCounts probe_units(Nanoseconds duration) {
  if (!has_mailbox) return {};
  struct alignas(64) Memory {
    std::byte bytes[UnitWriter::shape.input_bytes()];
  };
  const auto memory = std::make_unique<Memory>();
  std::memset(memory->bytes, 0, sizeof memory->bytes);
  UnitReader reader(UnitWriter::units_in(memory->bytes), UnitWriter::units);
  const std::jthread writes([&](const std::stop_token& stop) {
    for (UnitWriter writer(memory->bytes); !stop.stop_requested();) writer.write();
  });
  for (const Nanoseconds end = os::monotonic_now() + duration; os::monotonic_now() < end;) reader.read();
  return reader.counts();
}

}  // namespace nanet::contract
