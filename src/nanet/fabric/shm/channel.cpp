// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/shm/channel.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "nanet/contract/consumer.hpp"
#include "nanet/fabric/bell.hpp"

namespace nanet::fabric::shm {

using contract::acquire;
using contract::relax;
using contract::relaxed;
using contract::release;

void Bell::ring(const std::string& directory, std::uint32_t pid, std::uint32_t bell) noexcept {
  if (!fd_ && !failed_) {
    // Opened for reading too: writing to a pipe without reader would raise SIGPIPE.
    fd_ = os::Fd(::open(bell_path(directory, pid, bell).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    failed_ = !fd_;
  }
  if (!fd_) return;
  const char one = 1;
  [[maybe_unused]] const auto full = write(fd_.get(), &one, 1);  // a full pipe is readable already
}

bool PeerRegion::open(const std::string& directory, Address address, int& error) {
  error = EHOSTUNREACH;
  own = own_region(address);
  if (own) {
    at = own->mapping.at();
  } else {
    fd = os::Fd(::open(region_path(directory, address).c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) return false;
    if (!locked(fd.get())) return false;
    try {
      mapping = Mapping(fd.get(), 0, offset::links);
    } catch (const std::system_error& e) {
      error = e.code().value();
      return false;
    }
    at = mapping.at();
  }
  return acquire(header().magic) == magic && acquire(header().open) == 1;
}

ShmChannel::~ShmChannel() {
  if (link_.header == nullptr) return;
  release(link_.header->state, static_cast<std::uint32_t>(LinkState::closed));
  std::atomic_ref(peer_.header().link_changes).fetch_add(1);
}

bool ShmChannel::open(Address source, Address peer, int& error) {
  return peer_.open(directory_, peer, error) && claim(source, error);
}

// Takes a free link of the peer's file.
bool ShmChannel::claim(Address source, int& error) {
  const int fd = peer_.own ? peer_.own->fd.get() : peer_.fd.get();
  error = ENOSPC;
  for (unsigned i = 0; i < max_links; ++i) {
    Mapping mapping;
    std::byte* at = nullptr;
    // The header's page: reserved before it is touched, a full file system would raise SIGBUS.
    if (posix_fallocate(fd, static_cast<off_t>(offset::link(i)), static_cast<off_t>(page)) != 0) return false;
    try {
      if (peer_.own)
        at = peer_.at + offset::link(i);
      else
        at = (mapping = Mapping(fd, offset::link(i), offset::link_stride)).at();
    } catch (const std::system_error& e) {
      error = e.code().value();
      return false;
    }
    auto& header = *reinterpret_cast<LinkHeader*>(at);
    auto expected = static_cast<std::uint32_t>(LinkState::free);
    if (!std::atomic_ref(header.state)
             .compare_exchange_strong(expected, static_cast<std::uint32_t>(LinkState::claimed)))
      continue;
    std::uint32_t large = large_buffers;
    while (large > 0 && posix_fallocate(fd, static_cast<off_t>(offset::link(i)),
                                        static_cast<off_t>(offset::link_bytes(large))) != 0)
      large /= 4;
    if (large == 0) {
      release(header.state, static_cast<std::uint32_t>(LinkState::free));
      return false;
    }
    link_mapping_ = std::move(mapping);
    link_ = link_view(at, large);
    writer_ = std::make_unique<contract::EventWriter>(link_.small);
    header.large = large;
    header.source = source.word();
    release(header.state, static_cast<std::uint32_t>(LinkState::open));
    std::atomic_ref(peer_.header().link_changes).fetch_add(1);
    return true;
  }
  return false;
}

std::byte* ShmChannel::reserve(std::size_t payload) noexcept {
  reserved_large_ = payload > inline_bytes;
  const contract::View& view = reserved_large_ ? link_.large : link_.small;
  const std::uint64_t n = reserved_large_ ? large_next_ : small_next_;
  const std::uint32_t buffers = view.shape.buffers, index = view.buffer_of(n);
  const auto available = [&] {
    return n < buffers || acquire(view.returned[index]) == static_cast<std::uint32_t>(n - buffers + 1);
  };
  if (!available()) {
    relax(link_.header->starved, 1u);
    full_fence();
    if (!available()) return nullptr;
  }
  return view.buffer(index);
}

void ShmChannel::commit() noexcept {
  const contract::View& view = reserved_large_ ? link_.large : link_.small;
  std::uint64_t& next = reserved_large_ ? large_next_ : small_next_;
  contract::Event event;
  event.type = static_cast<std::uint8_t>(contract::EventType::receive_done);
  event.stream = reserved_large_ ? 1 : 0;
  event.buffer = view.buffer_of(next);
  event.n = static_cast<std::uint32_t>(next);
  writer_->write(event);  // fits: the queue has more entries than the link has buffers
  ++next;
  full_fence();
  PortHeader& header = peer_.header();
  if (relaxed(header.listening) != 0) bell_.ring(directory_, header.pid, header.bell);
}

bool ShmChannel::alive() noexcept {
  return acquire(peer_.header().open) == 1 && (peer_.own || locked(peer_.fd.get()));
}

// Number and cookie must belong together: the peer may live in another PID namespace, or its number may have
// been given to another process.
bool ShmChannel::verify() noexcept {
  if (verified_ || peer_.own) return true;
  if (!direct_) return false;
  const PortHeader& header = peer_.header();
  std::uint64_t cookie = 0;
  iovec local{&cookie, sizeof cookie};
  iovec remote{reinterpret_cast<void*>(header.cookie_address), sizeof cookie};
  verified_ = direct_ = process_vm_readv(static_cast<pid_t>(header.pid), &local, 1, &remote, 1, 0) ==
                            static_cast<ssize_t>(sizeof cookie) &&
                        cookie == header.cookie;
  return direct_;
}

// Copies min(local, remote) bytes. process_vm_readv transfers at most 2 GiB a call.
Direct ShmChannel::copy(bool write, const iovec* local, std::size_t count, const Span* remote,
                        std::size_t remote_count) noexcept {
  if (!verify()) return Direct::unavailable;
  if (acquire(peer_.header().open) != 1) return Direct::gone;
  std::size_t i = 0, j = 0, at = 0, from = 0;
  while (i < count && j < remote_count) {
    const std::size_t bytes =
        std::min({local[i].iov_len - at, std::size_t{remote[j].bytes} - from, std::size_t{1} << 30});
    std::byte* const here = static_cast<std::byte*>(local[i].iov_base) + at;
    const auto there = reinterpret_cast<std::byte*>(remote[j].address + from);
    ssize_t done = static_cast<ssize_t>(bytes);
    if (bytes == 0) {
    } else if (peer_.own) {
      std::memmove(write ? there : here, write ? here : there, bytes);
    } else {
      iovec a{here, bytes}, b{there, bytes};
      const auto pid = static_cast<pid_t>(peer_.header().pid);
      done = write ? process_vm_writev(pid, &a, 1, &b, 1, 0) : process_vm_readv(pid, &a, 1, &b, 1, 0);
      if (done <= 0) return errno == ESRCH ? Direct::gone : Direct::fault;
    }
    at += static_cast<std::size_t>(done);
    from += static_cast<std::size_t>(done);
    if (at == local[i].iov_len) ++i, at = 0;
    if (from == remote[j].bytes) ++j, from = 0;
  }
  return Direct::done;
}

Direct ShmChannel::copy_from(const iovec* to, std::size_t to_count, const Span* from, std::size_t from_count,
                             std::uint64_t) noexcept {
  return copy(false, to, to_count, from, from_count);
}

Direct ShmChannel::rma(bool write, const iovec* local, std::size_t count, std::uint64_t key,
                       std::uint64_t offset, std::size_t bytes, std::uint64_t) noexcept {
  if (relaxed(peer_.header().refuse_direct) != 0 || !verify()) return Direct::unavailable;
  const auto* const table = reinterpret_cast<const MemoryEntry*>(peer_.at + offset::memory);
  for (unsigned i = 0; i < memory_probes; ++i) {
    const MemoryEntry& entry = table[memory_slot(key, i)];
    const std::uint32_t sequence = acquire(entry.sequence);
    const std::uint32_t rights = relaxed(entry.rights);
    const std::uint64_t base = relaxed(entry.base), begin = relaxed(entry.begin), size = relaxed(entry.bytes);
    if (relaxed(entry.key) != key || (rights & 1) == 0) continue;
    if ((sequence & 1) != 0 || acquire(entry.sequence) != sequence) return Direct::no_key;
    if ((rights & (write ? 4 : 2)) == 0) return Direct::no_right;
    const std::uint64_t address = base + offset;
    if (address < begin || bytes > size || address - begin > size - bytes) return Direct::out_of_bounds;
    const Span span{address, bytes};
    return copy(write, local, count, &span, 1);
  }
  return Direct::no_key;
}

}  // namespace nanet::fabric::shm
