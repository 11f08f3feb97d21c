// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/shm/region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "nanet/contract/atomic.hpp"
#include "nanet/fabric/shm/layout.hpp"

namespace nanet::fabric::shm {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Ports of this process. A second descriptor of an own file would release its lock when closed (fcntl(2)).
struct Registry {
  std::mutex mutex;
  pid_t pid = 0;
  std::map<std::uint64_t, std::weak_ptr<OwnRegion>> regions;
};

Registry& registry() {
  static Registry r;
  return r;
}

// After fork() the child owns none of its parent's ports.
void forget_parent(Registry& r) {
  if (r.pid == getpid()) return;
  r.regions.clear();
  r.pid = getpid();
}

bool lock(int fd) noexcept {
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return fcntl(fd, F_SETLK, &whole) == 0;
}

// Removes the file of a process that died.
void remove_stale(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (fd && lock(fd.get())) unlink(path.c_str());
}

// Removes what processes that died have left: files without lock, pipes without reader. Young ones
// may be under construction.
void sweep(const std::string& directory) {
  const std::string prefix = "nanet-fi-" + std::to_string(getuid()) + "-";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    struct stat status = {};
    if (stat(entry.path().c_str(), &status) != 0 || status.st_mtime + 60 > time(nullptr)) continue;
    const bool bell = S_ISFIFO(status.st_mode);
    const os::Fd fd(::open(entry.path().c_str(), (bell ? O_WRONLY : O_RDWR) | O_NONBLOCK | O_CLOEXEC));
    if (bell) {
      if (!fd && errno == ENXIO) unlink(entry.path().c_str());
      continue;
    }
    if (fd && lock(fd.get())) unlink(entry.path().c_str());
  }
}

// Process number and index: numbers of processes have 22 bits (PID_MAX_LIMIT of Linux).
constexpr unsigned index_bits = 9;
constexpr std::uint32_t named = 1u << 31;

Address derived(unsigned index) {
  Address a;
  a.port = (static_cast<std::uint32_t>(getpid()) << index_bits | index) & (named - 1);
  return a;
}

}  // namespace

Mapping::Mapping(int fd, std::size_t offset, std::size_t bytes) : bytes_(bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                        static_cast<off_t>(offset));
  if (at == MAP_FAILED) fail("cannot map the file of a port");
  at_ = static_cast<std::byte*>(at);
}
Mapping::~Mapping() {
  if (at_ != nullptr) munmap(at_, bytes_);
}
Mapping::Mapping(Mapping&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(at_, other.at_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void OwnRegion::retire() noexcept {
  Registry& r = registry();
  const std::lock_guard guard(r.mutex);
  if (r.pid != getpid() || path.empty()) return;
  r.regions.erase(address.word());
  unlink(path.c_str());
  path.clear();
}

std::string region_path(const std::string& directory, Address a) {
  return directory + "/nanet-fi-" + std::to_string(getuid()) + "-" + std::to_string(a.x) + "." +
         std::to_string(a.y) + "." + std::to_string(a.z) + "." + std::to_string(a.port);
}

std::shared_ptr<OwnRegion> create_region(const std::string& directory, const Address* wanted) {
  Registry& r = registry();
  const std::lock_guard guard(r.mutex);
  forget_parent(r);
  if (r.regions.empty()) sweep(directory);  // before the first lock: closing an own file would release it
  auto region = std::make_shared<OwnRegion>();
  for (unsigned index = 0; index < (1u << index_bits); ++index) {
    region->address = wanted != nullptr ? *wanted : derived(index);
    if (r.regions.contains(region->address.word())) {
      if (wanted == nullptr) continue;
      errno = EADDRINUSE;
      fail("the address of the endpoint is in use");
    }
    const std::string path = region_path(directory, region->address);
    for (int attempt = 0; attempt < 2 && !region->fd; ++attempt) {
      region->fd = os::Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (!region->fd && errno != EEXIST) fail("cannot create " + path);
      if (!region->fd) remove_stale(path);
    }
    if (region->fd) {
      region->path = path;
      break;
    }
    if (wanted != nullptr) {
      errno = EADDRINUSE;
      fail("the address of the endpoint is in use");
    }
  }
  if (!region->fd) {
    errno = EMFILE;
    fail("too many endpoints in this process");
  }
  if (!lock(region->fd.get())) fail("cannot lock " + region->path);
  if (ftruncate(region->fd.get(), static_cast<off_t>(offset::file)) != 0) fail("cannot size " + region->path);
  if (const int error = posix_fallocate(region->fd.get(), 0, static_cast<off_t>(offset::links)); error != 0) {
    errno = error;
    fail("no space for " + region->path);
  }
  region->mapping = Mapping(region->fd.get(), 0, offset::file);
  auto& header = *reinterpret_cast<PortHeader*>(region->mapping.at());
  header.pid = static_cast<std::uint32_t>(getpid());
  if (getrandom(&header.cookie, sizeof header.cookie, 0) != sizeof header.cookie) fail("no random numbers");
  r.regions.emplace(region->address.word(), region);
  return region;
}

std::shared_ptr<OwnRegion> own_region(Address address) {
  Registry& r = registry();
  const std::lock_guard guard(r.mutex);
  if (r.pid != getpid()) return nullptr;
  const auto found = r.regions.find(address.word());
  return found == r.regions.end() ? nullptr : found->second.lock();
}

bool locked(int fd) noexcept {
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return fcntl(fd, F_GETLK, &whole) != 0 || whole.l_type != F_UNLCK;
}

}  // namespace nanet::fabric::shm
