// SPDX-License-Identifier: Apache-2.0
#include "nanet/torus/card/server.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

#include "nanet/contract/atomic.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::torus::card {

using contract::acquire;
using contract::relax;
using contract::release;

namespace {

constexpr Nanoseconds check_every = 20'000'000;
constexpr unsigned idle_turns = 64;  // without work, before sleep
constexpr unsigned sleep_ms = 20;

// A simulated card has one put ring and one event queue: one port per node.
std::uint32_t ports_of(const Lattice& lattice, bool simulated) {
  const std::uint32_t nodes = lattice.nodes();
  if (nodes > max_ports)
    throw std::invalid_argument("size: " + std::to_string(nodes) +
                                " nodes; a torus of processes has at most " + std::to_string(max_ports));
  return simulated ? nodes : nodes * std::min(max_ports / nodes, max_intra);
}

// Short slices of the processor for this thread: Linux 6.12 and later let it run soon after it wakes, also
// beside processes that compute.
void shorten_slice() noexcept {
  struct {
    std::uint32_t size = 48, policy = 0;  // SCHED_OTHER
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 100'000, deadline = 0, period = 0;
  } attributes;
  static_assert(sizeof attributes == 48);
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

Server::Server(const ServerOptions& options)
    : path_(options.path),
      lattice_(options.model.lattice),
      shape_(Shape::of(ports_of(lattice_, !options.program.empty()))),
      model_(options.model) {
  const os::Fd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) throw std::system_error(errno, std::generic_category(), "cannot create " + path_);
  if (const int error = posix_fallocate(fd.get(), 0, sizeof(Control)); error != 0) {
    unlink(path_.c_str());
    throw std::system_error(error, std::generic_category(), "no space for " + path_);
  }
  mapping_ = Mapping(fd.get(), sizeof(Control));
  auto* const c = new (mapping_.at()) Control;
  std::copy_n(lattice_.size.begin(), 3, c->size);
  c->intra = static_cast<std::uint8_t>(shape_.ports / lattice_.nodes());
  c->pid = static_cast<std::uint32_t>(getpid());
  c->running = 1;
  try {
    if (options.program.empty())
      cards_ = std::make_unique<ModelCards>(model_, lattice_, shape_, c->totals);
    else
      cards_ = std::make_unique<ProgramCards>(options.program, lattice_, path_);
  } catch (...) {
    unlink(path_.c_str());
    throw;
  }
  release(c->magic, magic);
}

Server::~Server() {
  release(control().running, 0u);
  unlink(path_.c_str());
  for (std::uint32_t port = 0; port < shape_.ports; ++port)
    if (acquire(control().port[port].state) != static_cast<std::uint32_t>(PortState::free))
      unlink(port_file(path_, port).c_str());
}

// Finds ports that processes have opened or closed.
void Server::scan() {
  for (std::uint32_t port = 0; port < shape_.ports; ++port) {
    const auto state = static_cast<PortState>(acquire(control().port[port].state));
    if (state == PortState::announced)
      admit(port);
    else if (state == PortState::closing)
      if (const auto found = hosted_.find(port); found != hosted_.end()) found->second.closing = true;
  }
}

void Server::admit(std::uint32_t port) {
  PortEntry& entry = control().port[port];
  const Offsets offsets(shape_);
  const os::Fd fd(::open(port_file(path_, port).c_str(), O_RDWR | O_CLOEXEC));
  struct stat status = {};
  if (!fd || fstat(fd.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) < offsets.bytes) {
    ++entry.epoch;
    release(entry.state, static_cast<std::uint32_t>(PortState::free));
    return;
  }
  Hosted hosted{Mapping(fd.get(), offsets.bytes), Process(entry.pid)};
  const PortMemory memory(hosted.mapping.at(), shape_);
  // The cookie proves that the number names the right process, and that its memory is accessible.
  DomainMemory access(memory, entry.pid, offsets.bytes);
  std::uint64_t cookie = 0;
  entry.native =
      memory.header->cookie_address != 0 &&
      access.read(0, memory.header->cookie_address, reinterpret_cast<std::byte*>(&cookie), sizeof cookie) &&
      cookie == memory.header->cookie;
  cards_->attach(port, domain_of(port, entry.epoch), entry.pid, memory, access);
  hosted_.emplace(port, std::move(hosted));
  release(entry.state, static_cast<std::uint32_t>(PortState::open));
}

// Frees closed ports once everything that they had posted is delivered.
void Server::release_drained() {
  for (auto it = hosted_.begin(); it != hosted_.end();) {
    const std::uint32_t port = it->first;
    if (!it->second.closing || !cards_->drained(port)) {
      ++it;
      continue;
    }
    cards_->detach(port);
    unlink(port_file(path_, port).c_str());
    PortEntry& entry = control().port[port];
    entry.pid = 0;
    release(entry.epoch, entry.epoch + 1);
    release(entry.state, static_cast<std::uint32_t>(PortState::free));
    it = hosted_.erase(it);
  }
}

void Server::check_processes() {
  for (auto& [port, hosted] : hosted_) {
    if (hosted.closing || !hosted.process.ended()) continue;
    hosted.closing = true;
    ++control().totals.dead;
  }
  for (std::uint32_t port = 0; port < shape_.ports; ++port) {  // processes that died while they opened a port
    PortEntry& entry = control().port[port];
    const auto state = static_cast<PortState>(acquire(entry.state));
    const std::uint32_t pid = acquire(entry.pid);
    if (state != PortState::claimed || pid == 0 || !Process(pid).ended()) continue;
    unlink(port_file(path_, port).c_str());
    entry.pid = 0;
    release(entry.epoch, entry.epoch + 1);
    release(entry.state, static_cast<std::uint32_t>(PortState::free));
  }
}

// One turn. False: nothing happened, and nothing is under way.
bool Server::busy() {
  bool any = false;
  if (const std::uint32_t bell = acquire(control().bell); bell != bell_seen_) {
    bell_seen_ = bell;
    scan();
    any = true;
  }
  return cards_->turn() || any;
}

void Server::run(Nanoseconds limit) {
  if (idle_ == never_run) {
    shorten_slice();
    idle_ = 0;
  }
  const Nanoseconds end = os::monotonic_now() + limit;
  for (unsigned turn = 0;; ++turn) {
    const bool any = busy();
    if (any) {
      idle_ = 0;
      if (turn % 64 != 0) continue;
    } else if (++idle_ == 1) {
      cards_->quiet();
    }
    const Nanoseconds now = os::monotonic_now();
    if (now - checked_ > check_every) {
      checked_ = now;
      check_processes();
    }
    if (!hosted_.empty()) release_drained();
    if (now >= end) return;
    if (any) continue;
    if (idle_ < idle_turns) {
      sched_yield();
      continue;
    }
    Control& c = control();
    relax(c.sleeping, 1u);
    contract::full_fence();
    if (!busy()) {
      sleep_on(c.bell, bell_seen_, sleep_ms);
      idle_ = 1;
    }
    relax(c.sleeping, 0u);
  }
}

}  // namespace nanet::torus::card
