// SPDX-License-Identifier: Apache-2.0
// Classic pcap files (link type Ethernet): memory-mapped reader and buffered writer. The Python front end
// converts pcapng.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nanet/wire/ethernet.hpp"

namespace nanet::wire {

struct PcapRecord {
  std::int64_t time_ns = 0;          // since the epoch
  std::span<const std::byte> frame;  // as captured
  std::uint32_t original = 0;        // bytes on the wire
};

// Reads microsecond and nanosecond files of both byte orders. Throws std::system_error (file missing, no
// permission) or std::runtime_error (not a pcap, link type not Ethernet), naming the file. A file cut off in
// a record ends before it; see truncated().
class PcapReader {
 public:
  explicit PcapReader(const std::string& path);
  ~PcapReader();
  PcapReader(const PcapReader&) = delete;
  PcapReader& operator=(const PcapReader&) = delete;

  bool next(PcapRecord& record) noexcept;
  void rewind() noexcept;
  bool truncated() const noexcept { return truncated_; }
  std::size_t bytes() const noexcept { return size_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  void look_ahead() noexcept;

  std::size_t size_ = 0, at_ = 0, ahead_ = 0;
  bool swapped_ = false, nanoseconds_ = false, truncated_ = false;
};

// Several captures read as one: records in file order, whatever their times. Throws as PcapReader. All files
// are opened at once, so that an invalid one is found before the first record.
class PcapSeries {
 public:
  explicit PcapSeries(const std::vector<std::string>& paths);

  // A truncated file ends before its incomplete record; reading continues with the next file.
  bool next(PcapRecord& record) noexcept;
  void rewind() noexcept;
  bool truncated() const noexcept;
  // Indices of files found to end within a record, in order.
  std::vector<std::size_t> truncated_files() const;
  std::size_t bytes() const noexcept;  // of all files

 private:
  std::vector<std::unique_ptr<PcapReader>> files_;
  std::size_t at_ = 0;
};

// Writes nanosecond pcap. Throws std::system_error when the file cannot be created or written (disk full).
class PcapWriter {
 public:
  explicit PcapWriter(const std::string& path);
  ~PcapWriter();
  PcapWriter(const PcapWriter&) = delete;
  PcapWriter& operator=(const PcapWriter&) = delete;

  void write(std::int64_t time_ns, std::span<const std::byte> frame);
  // Writes a UDP datagram with valid Ethernet, IPv4 and UDP headers.
  void write_udp(std::int64_t time_ns, const Endpoint& source, const Endpoint& destination,
                 std::span<const std::byte> payload);
  // Writes the buffer out; data that cannot be written is dropped.
  void flush();
  // Flushes and closes; throws errors that the destructor would suppress.
  void close();

 private:
  // Reserves space for a record, writes its header and returns the address of its frame of `bytes` bytes.
  std::byte* record(std::int64_t time_ns, std::size_t bytes);
  std::string path_;
  int file_ = -1;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  std::uint16_t ip_id_ = 0;
};

}  // namespace nanet::wire
