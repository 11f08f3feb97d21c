// SPDX-License-Identifier: Apache-2.0
// Shared array of send times: creation and mapping.
#include "nanet/readout/times_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "nanet/os/fd.hpp"

namespace nanet::readout {
namespace {

// Files up to this size are populated at once, so that no page fault occurs during the run.
constexpr std::size_t populate_bytes = std::size_t{256} << 20;

[[noreturn]] void fail(int error, const std::string& path, const char* remedy) {
  throw std::system_error(error, std::generic_category(),
                          "times = '" + path + "' cannot be written; " + remedy);
}

}  // namespace

TimesWriter::TimesWriter(const std::string& path, std::uint64_t frames, Nanoseconds late_ns)
    : frames_(frames), late_ns_(late_ns), late_(late_ns > 0 ? most_late_listed : 0) {
  const os::Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file) fail(errno, path, "give a file in a folder that exists and that you may write to");
  struct stat status{};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) fail(EINVAL, path, "give a regular file");
  if (frames_ == 0) return;
  const std::size_t bytes = frames_ * sizeof(SendTimes);
  // Another process may have the file mapped: it is never shortened below its new size, and is zeroed through
  // the mapping.
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    fail(errno, path, "choose a file system with room for it");
  if (const int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0)
    fail(error, path, "16 bytes per frame are needed: shorten the run or choose a file system with room");
  const int populate = bytes <= populate_bytes ? MAP_POPULATE : 0;
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | populate, file.get(), 0);
  if (map == MAP_FAILED) fail(errno, path, "choose a file system that files can be mapped from");
  times_ = static_cast<SendTimes*>(map);
  const std::size_t old = std::min(bytes, static_cast<std::size_t>(status.st_size));
  if (old > 0) std::memset(map, 0, old);
}

TimesWriter::~TimesWriter() {
  if (times_ != nullptr) munmap(times_, frames_ * sizeof(SendTimes));
}

TimesReader::~TimesReader() {
  unmap();
}

void TimesReader::unmap() noexcept {
  if (times_ != nullptr) munmap(times_, frames_ * sizeof(SendTimes));
  times_ = nullptr;
  frames_ = 0;
}

void TimesReader::refresh() noexcept {
  struct stat status{};
  if (stat(path_.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const auto frames = static_cast<std::uint64_t>(status.st_size) / sizeof(SendTimes);
  if (times_ != nullptr && frames == frames_ && status.st_ino == inode_ && status.st_dev == device_) return;
  unmap();
  if (frames == 0) return;
  const os::Fd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return;
  void* map = mmap(nullptr, frames * sizeof(SendTimes), PROT_READ, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) return;
  times_ = static_cast<SendTimes*>(map);
  frames_ = frames;
  inode_ = status.st_ino;
  device_ = status.st_dev;
}

}  // namespace nanet::readout
