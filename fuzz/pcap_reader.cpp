// SPDX-License-Identifier: Apache-2.0
// Fuzz target for the pcap reader: every record lies inside the file, and a second pass reads the same
// records.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "nanet/wire/pcap.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nanet::wire;
  const int file = memfd_create("capture", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    PcapReader reader("/proc/self/fd/" + std::to_string(file));
    if (reader.bytes() != size) std::abort();
    std::size_t bytes[2] = {}, sum[2] = {};
    for (int pass = 0; pass < 2; ++pass) {
      PcapRecord record;
      while (reader.next(record)) {
        bytes[pass] += 16 + record.frame.size();
        for (const std::byte b : record.frame) sum[pass] += static_cast<std::size_t>(b);
      }
      if (24 + bytes[pass] > size || reader.truncated() != (24 + bytes[pass] < size)) std::abort();
      reader.rewind();
    }
    if (bytes[0] != bytes[1] || sum[0] != sum[1]) std::abort();
  } catch (const std::runtime_error&) {  // not a pcap: refused with a message
  }
  close(file);
  return 0;
}
