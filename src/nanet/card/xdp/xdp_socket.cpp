// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/xdp/xdp_socket.hpp"

#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "nanet/os/socket.hpp"

namespace nanet::card::xdp {
namespace {

// Constants that the headers of older systems lack.
constexpr int level_xdp = 283;                       // SOL_XDP
constexpr std::uint16_t use_fragments = 1U << 4;     // XDP_USE_SG, Linux 6.6
constexpr std::uint32_t packet_continues = 1U << 0;  // XDP_PKT_CONTD

constexpr std::uint64_t end_of_frame = std::uint64_t{1} << 63;  // marks the last slot of a frame taken

std::uint32_t load_acquire(const std::uint32_t* at) {
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
void store_release(std::uint32_t* at, std::uint32_t value) {
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

[[noreturn]] void fail(int error, const SocketOptions& options, const std::string& what) {
  const std::string where = "AF_XDP socket of " + options.name + ", queue " + std::to_string(options.queue);
  std::string remedy = "use --card socket";
  if (error == EPERM || error == EACCES)
    remedy = "needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: grant them, or use --card socket";
  else if (error == ENOBUFS || error == ENOMEM)
    remedy =
        "the limit of locked memory is too small: ulimit -l unlimited, CAP_IPC_LOCK, a smaller "
        "--buffer-bytes, or --card socket";
  else if (error == EBUSY)
    remedy = "another program has an AF_XDP socket on this queue: stop it, or use --card socket";
  else if (error == ENETDOWN)
    remedy = "the interface is down: ip link set " + options.name + " up, or use --card socket";
  else if (error == EAFNOSUPPORT)
    remedy = "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): use --card socket";
  throw std::system_error(error, std::generic_category(), where + ": " + what + " (" + remedy + ")");
}

}  // namespace

XdpSocket::XdpSocket(const SocketOptions& options) : options_(options) {
  const std::size_t slots = options.receive_slots + options.send_slots;
  memory_bytes_ = slots * slot_bytes;
  void* memory =
      mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) fail(errno, options_, "no memory for packets");
  memory_ = static_cast<std::byte*>(memory);
  madvise(memory, memory_bytes_, MADV_HUGEPAGE);
  taken_.resize(options.receive_slots);
  free_.reserve(options.send_slots);
  try {
    try {
      open(true);
    } catch (const std::system_error& error) {
      if (error.code().value() != EOPNOTSUPP && error.code().value() != EINVAL) throw;
      close();
      open(false);
    }
  } catch (...) {
    close();
    munmap(memory_, memory_bytes_);
    throw;
  }
}

XdpSocket::~XdpSocket() {
  close();
  munmap(memory_, memory_bytes_);
}

void XdpSocket::close() noexcept {
  for (Ring* ring : {&fill_, &completion_, &receive_, &send_}) {
    if (ring->mapped) munmap(ring->mapped, ring->bytes);
    *ring = {};
  }
  fd_.reset();
}

void XdpSocket::map_ring(Ring& ring, std::uint64_t offset, const void* layout, std::uint32_t entries,
                         std::size_t entry_bytes) {
  const auto& at = *static_cast<const xdp_ring_offset*>(layout);
  ring.bytes = at.desc + entries * entry_bytes;
  void* mapped = mmap(nullptr, ring.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(),
                      static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) fail(errno, options_, "cannot map a ring");
  auto* base = static_cast<std::byte*>(mapped);
  ring.mapped = mapped;
  ring.producer = reinterpret_cast<std::uint32_t*>(base + at.producer);
  ring.consumer = reinterpret_cast<std::uint32_t*>(base + at.consumer);
  ring.flags = reinterpret_cast<std::uint32_t*>(base + at.flags);
  ring.entries = base + at.desc;
  ring.mask = entries - 1;
  ring.own = 0;
}

void XdpSocket::open(bool zero_copy) {
  fd_ = os::Fd(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!fd_) fail(errno, options_, "cannot be opened");
  const int fd = fd_.get();
  xdp_umem_reg umem{};
  umem.addr = reinterpret_cast<std::uintptr_t>(memory_);
  umem.len = memory_bytes_;
  umem.chunk_size = slot_bytes;
  // Without huge or unaligned chunks: a chunk's number is its address divided by its size.
  if (setsockopt(fd, level_xdp, XDP_UMEM_REG, &umem, sizeof umem))
    fail(errno, options_, std::to_string(memory_bytes_ >> 20) + " MiB of packet memory refused");
  const auto size = [&](int option, std::uint32_t entries) {
    if (setsockopt(fd, level_xdp, option, &entries, sizeof entries))
      fail(errno, options_, "cannot size a ring");
  };
  size(XDP_UMEM_FILL_RING, options_.receive_slots);
  size(XDP_UMEM_COMPLETION_RING, options_.send_slots);
  size(XDP_RX_RING, options_.receive_slots);
  size(XDP_TX_RING, options_.send_slots);
  xdp_mmap_offsets layout{};
  socklen_t length = sizeof layout;
  if (getsockopt(fd, level_xdp, XDP_MMAP_OFFSETS, &layout, &length) || length != sizeof layout)
    fail(errno ? errno : EAFNOSUPPORT, options_, "rings of an unknown layout");
  map_ring(fill_, XDP_UMEM_PGOFF_FILL_RING, &layout.fr, options_.receive_slots, sizeof(std::uint64_t));
  map_ring(completion_, XDP_UMEM_PGOFF_COMPLETION_RING, &layout.cr, options_.send_slots,
           sizeof(std::uint64_t));
  map_ring(receive_, XDP_PGOFF_RX_RING, &layout.rx, options_.receive_slots, sizeof(xdp_desc));
  map_ring(send_, XDP_PGOFF_TX_RING, &layout.tx, options_.send_slots, sizeof(xdp_desc));
  auto* fill = static_cast<std::uint64_t*>(fill_.entries);
  for (std::uint32_t i = 0; i < options_.receive_slots; ++i) fill[i] = std::uint64_t{i} * slot_bytes;
  fill_.own = options_.receive_slots;
  store_release(fill_.producer, fill_.own);
  free_.clear();
  for (std::uint32_t i = 0; i < options_.send_slots; ++i)
    free_.push_back(std::uint64_t{options_.receive_slots + i} * slot_bytes);
  os::set_busy_poll(fd, options_.busy_poll_us);
  int error = 0;
  for (const std::uint16_t fragments : {use_fragments, std::uint16_t{0}}) {
    sockaddr_xdp address{};
    address.sxdp_family = AF_XDP;
    address.sxdp_ifindex = options_.interface;
    address.sxdp_queue_id = options_.queue;
    address.sxdp_flags =
        static_cast<std::uint16_t>((zero_copy ? XDP_ZEROCOPY : XDP_COPY) | XDP_USE_NEED_WAKEUP | fragments);
    // The kernel releases the queue of a closed socket after some milliseconds.
    for (int attempt = 0; attempt < 100; ++attempt) {
      error = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) ? errno : 0;
      if (error != EBUSY) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    fragments_ = fragments != 0;
    if (error != EINVAL) break;  // EINVAL: a kernel without multi-buffer frames
  }
  if (error) fail(error, options_, zero_copy ? "no zero copy" : "cannot be bound");
  zero_copy_ = zero_copy;
}

std::size_t XdpSocket::take(std::span<Arrival> out, std::vector<std::byte>& joined) noexcept {
  const std::uint32_t there = load_acquire(receive_.producer);
  if (there == receive_.own) {
    // The driver has stopped polling its queue, or this program polls it (busy polling).
    if (options_.busy_poll_us > 0 || (load_acquire(fill_.flags) & XDP_RING_NEED_WAKEUP))
      (void)recvfrom(fd_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
    return 0;
  }
  const auto* ring = static_cast<const xdp_desc*>(receive_.entries);
  std::size_t count = 0;
  const auto keep = [this](std::uint64_t slot) { taken_[taken_to_++ & (taken_.size() - 1)] = slot; };
  while (count < out.size() && receive_.own != there) {
    const xdp_desc& first = ring[receive_.own & receive_.mask];
    Arrival& arrival = out[count];
    std::byte* const begin = memory_ + first.addr;
    // The program's time stamp, cleared when the slot was returned: a driver without metadata leaves 0.
    std::int64_t stamp;
    std::memcpy(&stamp, begin - sizeof stamp, sizeof stamp);
    const std::int64_t none = 0;
    std::memcpy(begin - sizeof none, &none, sizeof none);
    arrival.stamp = stamp;
    if (!(first.options & packet_continues)) {
      arrival.frame = {begin, first.len};
      keep(first.addr | end_of_frame);
      ++receive_.own;
      ++count;
      continue;
    }
    // A frame in several slots: copied, so that it is contiguous.
    std::uint32_t last = receive_.own;
    std::size_t bytes = 0;
    while (last != there && (ring[last & receive_.mask].options & packet_continues))
      bytes += ring[last++ & receive_.mask].len;
    if (last == there) break;  // the rest is still under way
    bytes += ring[last & receive_.mask].len;
    if (joined.size() + bytes > joined.capacity()) {
      if (count > 0) break;  // room after these frames have been returned
      bytes = 0;             // longer than any frame of an interface: dropped
    }
    const std::size_t at = joined.size();
    joined.resize(at + bytes);
    for (std::size_t to = at;; ++receive_.own) {
      const xdp_desc& part = ring[receive_.own & receive_.mask];
      if (bytes > 0) std::memcpy(joined.data() + to, memory_ + part.addr, part.len);
      to += part.len;
      keep(receive_.own == last ? part.addr | end_of_frame : part.addr);
      if (receive_.own == last) break;
    }
    ++receive_.own;
    arrival.frame = {joined.data() + at, bytes};
    ++count;
  }
  store_release(receive_.consumer, receive_.own);
  return count;
}

void XdpSocket::give_back(std::size_t frames) noexcept {
  auto* fill = static_cast<std::uint64_t*>(fill_.entries);
  while (frames > 0) {
    const std::uint64_t slot = taken_[taken_from_++ & (taken_.size() - 1)];
    fill[fill_.own++ & fill_.mask] = slot & ~end_of_frame & ~(slot_bytes - 1);
    frames -= (slot & end_of_frame) != 0;
  }
  store_release(fill_.producer, fill_.own);
}

std::uint64_t XdpSocket::drops() noexcept {
  xdp_statistics statistics{};
  socklen_t length = sizeof statistics;
  if (getsockopt(fd_.get(), level_xdp, XDP_STATISTICS, &statistics, &length)) return 0;
  // rx_dropped includes frames without a free slot; rx_ring_full counts apart.
  return statistics.rx_dropped + statistics.rx_ring_full;
}

double XdpSocket::backlog() const noexcept {
  const std::uint32_t waiting = load_acquire(receive_.producer) - load_acquire(receive_.consumer);
  return static_cast<double>(waiting) / static_cast<double>(receive_.mask + 1);
}

std::byte* XdpSocket::send_slot() noexcept {
  const std::uint32_t done = load_acquire(completion_.producer);
  const auto* ring = static_cast<const std::uint64_t*>(completion_.entries);
  while (completion_.own != done)
    free_.push_back(ring[completion_.own++ & completion_.mask] & ~(slot_bytes - 1));
  store_release(completion_.consumer, completion_.own);
  return free_.empty() ? nullptr : memory_ + free_.back();
}

void XdpSocket::queue_frame(std::size_t bytes) noexcept {
  auto* ring = static_cast<xdp_desc*>(send_.entries);
  ring[send_.own++ & send_.mask] = {
      .addr = free_.back(), .len = static_cast<std::uint32_t>(bytes), .options = 0};
  free_.pop_back();
  queued_ = true;
}

int XdpSocket::kick() noexcept {
  // Without a free slot, frames that an earlier call has left queued may hold all of them.
  if (!queued_ && !free_.empty()) return 0;
  store_release(send_.producer, send_.own);
  if (sendto(fd_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) {
    queued_ = false;
    return 0;
  }
  // The frames stay queued: the next call passes them.
  return errno == EAGAIN || errno == EBUSY || errno == ENOBUFS || errno == EINTR ? 0 : errno;
}

}  // namespace nanet::card::xdp
