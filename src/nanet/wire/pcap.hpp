// SPDX-License-Identifier: Apache-2.0
// Classic pcap (link type Ethernet), read by memory mapping and written through a large buffer. pcapng is
// converted by the Python front end.
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
// permission) and std::runtime_error (not a pcap, link type not Ethernet) with the file's name in the
// message. A file cut off in a record ends before it; truncated() tells.
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

// Several captures as one: their records in the order of the files, whatever their times say. Throws as
// PcapReader; all files are opened at once, so that a wrong one is found before the first record.
class PcapSeries {
 public:
  explicit PcapSeries(const std::vector<std::string>& paths);

  // A file cut off in a record ends before it, and the next one goes on.
  bool next(PcapRecord& record) noexcept;
  void rewind() noexcept;
  bool truncated() const noexcept;
  // Numbers of the files that are known to end within a record, in order.
  std::vector<std::size_t> truncated_files() const;
  std::size_t bytes() const noexcept;  // of all files

 private:
  std::vector<std::unique_ptr<PcapReader>> files_;
  std::size_t at_ = 0;
};

// Writes nanosecond pcap. Throws std::system_error when the file cannot be made or written (disk full).
class PcapWriter {
 public:
  explicit PcapWriter(const std::string& path);
  ~PcapWriter();
  PcapWriter(const PcapWriter&) = delete;
  PcapWriter& operator=(const PcapWriter&) = delete;

  void write(std::int64_t time_ns, std::span<const std::byte> frame);
  // A UDP datagram with real Ethernet, IPv4 and UDP headers.
  void write_udp(std::int64_t time_ns, const Endpoint& source, const Endpoint& destination,
                 std::span<const std::byte> payload);
  // Writes out what is buffered; what cannot be written is gone.
  void flush();
  // Flushes and closes; reports what the destructor would have to swallow.
  void close();

 private:
  // Makes room for a record, writes its header and returns where its `bytes` of frame go.
  std::byte* record(std::int64_t time_ns, std::size_t bytes);
  std::string path_;
  int file_ = -1;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  std::uint16_t ip_id_ = 0;
};

}  // namespace nanet::wire
