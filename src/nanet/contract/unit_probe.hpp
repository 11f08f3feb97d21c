// SPDX-License-Identifier: Apache-2.0
// Probe of the atomicity that mailboxes rely on: units are stored without pause and read meanwhile; a unit
// whose words do not all belong to its mark is torn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nanet/contract/mailbox.hpp"
#include "nanet/units.hpp"

namespace nanet::contract {

struct UnitCounts {
  std::uint64_t read = 0;  // units read with another mark than before
  std::uint64_t torn = 0;  // of them: with a word of another mark
};

// Stores whole segments through a MailboxWriter. Every word of the data is the mark of its number.
class UnitWriter {
 public:
  static constexpr MailboxShape shape{8, 8, 1, mailbox_segment_bytes / 48 * 48};
  static constexpr std::uint32_t units = shape.segment_bytes / static_cast<std::uint32_t>(unit_data_bytes);

  // input: of shape.input_bytes(), on a 64 B boundary.
  explicit UnitWriter(std::byte* input)
      : writer_({shape, input, nullptr}), segment_(shape.segment_bytes / 4 + 2) {}
  // First unit of the segment that is written.
  NANET_HD static const std::byte* units_in(const std::byte* input) { return input + shape.segment(0, 0); }
  void write();

 private:
  MailboxWriter writer_;
  std::vector<std::uint32_t> segment_;
  std::uint64_t n_ = 0;
};

// Reads units and counts them.
class UnitReader {
 public:
  // units: count units, on a 16 B boundary.
  UnitReader(const std::byte* units, std::uint32_t count) : units_(units), seen_(count) {}
  void read();
  const UnitCounts& counts() const { return counts_; }

 private:
  const std::byte* units_;
  std::vector<std::uint32_t> seen_;  // newest mark of each unit
  UnitCounts counts_;
};

// Between two CPU threads, in host memory, for about this time. Nothing is read where there is no mailbox.
UnitCounts probe_units(Nanoseconds duration);

}  // namespace nanet::contract
