// SPDX-License-Identifier: Apache-2.0
// Classic pcap files: memory-mapped reading and buffered writing, fast enough not to limit a replay or a
// generator.
#include "nanet/wire/pcap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace nanet::wire {

namespace {

constexpr std::uint32_t magic_microseconds = 0xA1B2C3D4;
constexpr std::uint32_t magic_nanoseconds = 0xA1B23C4D;
constexpr std::uint32_t magic_pcapng = 0x0A0D0D0A;
constexpr std::size_t file_header_bytes = 24;
constexpr std::size_t record_header_bytes = 16;
constexpr std::uint32_t link_type_ethernet = 1;
constexpr std::uint32_t link_type_mask = 0x03FFFFFF;  // the higher bits describe a frame check sequence
constexpr std::uint32_t max_record = 262'144;  // larger than any Ethernet record; a larger length is garbage
constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

std::uint32_t load32(const std::byte* at, bool swapped) {
  std::uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return swapped ? __builtin_bswap32(value) : value;
}

[[noreturn]] void throw_errno(const std::string& path, const char* what, int error = errno) {
  throw std::system_error(error, std::generic_category(), path + ": " + what);
}

// Closes the file at scope exit.
struct File {
  int descriptor;
  ~File() { ::close(descriptor); }
};

}  // namespace

PcapReader::PcapReader(const std::string& path) : path_(path) {
  const File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.descriptor < 0) throw_errno(path, "cannot open");
  struct stat status{};
  if (::fstat(file.descriptor, &status) != 0) throw_errno(path, "cannot read");
  if (!S_ISREG(status.st_mode)) throw std::runtime_error(path + ": not a regular file");
  if (static_cast<std::size_t>(status.st_size) < file_header_bytes) {
    throw std::runtime_error(path + ": not a pcap file (shorter than a pcap file header)");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor, 0);
  if (map == MAP_FAILED) throw_errno(path, "cannot map into memory");
  ::madvise(map, size_, MADV_SEQUENTIAL);
  data_ = static_cast<const std::byte*>(map);

  const auto fail = [&](const std::string& what) {
    ::munmap(map, size_);
    throw std::runtime_error(path + ": " + what);
  };
  const std::uint32_t magic = load32(data_, false);
  swapped_ = magic == __builtin_bswap32(magic_microseconds) || magic == __builtin_bswap32(magic_nanoseconds);
  const std::uint32_t straight = swapped_ ? __builtin_bswap32(magic) : magic;
  nanoseconds_ = straight == magic_nanoseconds;
  if (magic == magic_pcapng)
    fail("a pcapng file, not a classic pcap: convert it (editcap -F pcap, or nanet.files.pcapng)");
  if (!nanoseconds_ && straight != magic_microseconds)
    fail("not a pcap file (unknown magic number); give a pcap or pcapng file");
  const std::uint32_t link_type = load32(data_ + 20, swapped_) & link_type_mask;
  if (link_type != link_type_ethernet) {
    fail("link type " + std::to_string(link_type) +
         " is not Ethernet (1): capture on an Ethernet or loopback interface");
  }
  rewind();
}

PcapReader::~PcapReader() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

// Maps the pages of the next piece in one call instead of one fault per page.
void PcapReader::look_ahead() noexcept {
  constexpr std::size_t piece = std::size_t{16} << 20;
  ahead_ = at_ / piece * piece + piece;
#ifdef MADV_POPULATE_READ
  const std::size_t from = ahead_ - piece;
  ::madvise(const_cast<std::byte*>(data_) + from, std::min(piece, size_ - from), MADV_POPULATE_READ);
#endif
}

bool PcapReader::next(PcapRecord& record) noexcept {
  const std::size_t left = size_ - at_;
  if (left == 0 || truncated_) return false;
  if (left < record_header_bytes) {
    truncated_ = true;
    return false;
  }
  if (at_ >= ahead_) look_ahead();
  const std::byte* header = data_ + at_;
  const std::uint32_t captured = load32(header + 8, swapped_);
  if (captured > max_record || captured > left - record_header_bytes) {
    truncated_ = true;
    return false;
  }
  const std::int64_t fraction = load32(header + 4, swapped_);
  record.time_ns =
      std::int64_t{load32(header, swapped_)} * 1'000'000'000 + fraction * (nanoseconds_ ? 1 : 1'000);
  record.frame = {header + record_header_bytes, captured};
  record.original = load32(header + 12, swapped_);
  at_ += record_header_bytes + captured;
  // Prefetches the record after the next: records are some kilobytes, and the hardware prefetcher stops at
  // the page.
  if (const std::size_t after = at_ + captured; after + captured <= size_)
    for (std::size_t i = 0; i < captured; i += 64) __builtin_prefetch(data_ + after + i);
  return true;
}

void PcapReader::rewind() noexcept {
  at_ = file_header_bytes;
  truncated_ = false;
}

PcapSeries::PcapSeries(const std::vector<std::string>& paths) {
  files_.reserve(paths.size());
  for (const std::string& path : paths) files_.push_back(std::make_unique<PcapReader>(path));
}

bool PcapSeries::next(PcapRecord& record) noexcept {
  for (; at_ < files_.size(); ++at_)
    if (files_[at_]->next(record)) return true;
  return false;
}

void PcapSeries::rewind() noexcept {
  for (const auto& file : files_) file->rewind();
  at_ = 0;
}

bool PcapSeries::truncated() const noexcept {
  return std::any_of(files_.begin(), files_.end(), [](const auto& file) { return file->truncated(); });
}

std::vector<std::size_t> PcapSeries::truncated_files() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < files_.size(); ++i)
    if (files_[i]->truncated()) found.push_back(i);
  return found;
}

std::size_t PcapSeries::bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& file : files_) sum += file->bytes();
  return sum;
}

PcapWriter::PcapWriter(const std::string& path) : path_(path), buffer_(buffer_bytes) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) throw_errno(path, "cannot create");
  const std::uint32_t header[] = {magic_nanoseconds, 2u | 4u << 16, 0, 0, max_record, link_type_ethernet};
  static_assert(sizeof header == file_header_bytes);
  std::memcpy(buffer_.data(), header, sizeof header);
  used_ = sizeof header;
}

PcapWriter::~PcapWriter() {
  try {
    close();
  } catch (...) {  // errors are reported by close()
  }
}

void PcapWriter::flush() {
  std::size_t done = 0;
  const std::size_t size = used_;
  used_ = 0;  // data that cannot be written once is not retried
  while (done < size) {
    const ssize_t n = ::write(file_, buffer_.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(path_, "cannot write");
    done += static_cast<std::size_t>(n);
  }
}

void PcapWriter::close() {
  if (file_ < 0) return;
  const int file = file_;
  try {
    flush();
  } catch (...) {
    file_ = -1;
    ::close(file);
    throw;
  }
  file_ = -1;
  if (::close(file) != 0) throw_errno(path_, "cannot write");
}

std::byte* PcapWriter::record(std::int64_t time_ns, std::size_t bytes) {
  if (file_ < 0) throw std::logic_error(path_ + ": write after close");
  if (bytes > max_record) throw std::length_error(path_ + ": a frame of more than 262144 bytes");
  if (used_ + record_header_bytes + bytes > buffer_.size()) flush();
  const auto size = static_cast<std::uint32_t>(bytes);
  const std::uint32_t header[] = {static_cast<std::uint32_t>(time_ns / 1'000'000'000),
                                  static_cast<std::uint32_t>(time_ns % 1'000'000'000), size, size};
  static_assert(sizeof header == record_header_bytes);
  std::byte* at = buffer_.data() + used_;
  std::memcpy(at, header, sizeof header);
  used_ += sizeof header + bytes;
  return at + sizeof header;
}

void PcapWriter::write(std::int64_t time_ns, std::span<const std::byte> frame) {
  std::byte* at = record(time_ns, frame.size());
  if (!frame.empty()) std::memcpy(at, frame.data(), frame.size());
}

void PcapWriter::write_udp(std::int64_t time_ns, const Endpoint& source, const Endpoint& destination,
                           std::span<const std::byte> payload) {
  build_udp_frame(record(time_ns, udp_frame_overhead + payload.size()), source, destination, payload,
                  ip_id_++);
}

}  // namespace nanet::wire
