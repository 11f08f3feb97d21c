// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/card/job.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <system_error>

#include "nanet/contract/atomic.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::fabric::card {

using contract::acquire;
using contract::relax;
using contract::relaxed;
using contract::release;
using wire::PortState;

namespace {

// The torus is one process beside all ranks: many of them on few cores start slowly.
constexpr Nanoseconds claim_limit = 1'000'000'000, open_limit = 60'000'000'000;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

PortState state_of(const wire::PortEntry& entry) {
  return static_cast<PortState>(acquire(entry.state));
}

}  // namespace

class JobPort final : public Attachment {
 public:
  JobPort(Job& job, std::uint32_t index, const std::string& bell, bool direct);
  ~JobPort() override;
  void post(std::uint32_t entries) noexcept override {
    release(memory.header->doorbell, entries);
    job_.wake();
  }
  void grant(std::uint32_t slots) noexcept override { release(memory.header->posted, slots); }
  bool enter(std::uint32_t, const void*, std::size_t) noexcept override { return true; }
  void entered(std::uint32_t) noexcept override {}
  void left(std::uint32_t entry) noexcept override {
    // Cards with a table of keys forget it.
    if (memory.table[entry].rights != 0) release(memory.header->revoked, memory.header->revoked + 1);
  }
  bool stage(std::uint32_t peer) noexcept override {
    const std::size_t bytes = std::size_t{wire::slot_bytes} * job_.shape.credits;
    return posix_fallocate(file_.get(), static_cast<off_t>(offsets_.staging + bytes * peer),
                           static_cast<off_t>(bytes)) == 0;
  }
  void listen(bool on) noexcept override { relax(memory.header->listening, std::uint32_t{on}); }
  void serve() noexcept override {}

 private:
  void create_file(const std::string& bell, bool direct);

  Job& job_;
  const wire::Offsets offsets_;
  os::Fd file_;
  wire::Mapping mapping_;
  std::uint64_t cookie_ = 0;
};

// ------------------------------------------------------------------------------------------------- job

Job::Job(const char* name) : path_(name) {
  const os::Fd fd(::open(name, O_RDWR | O_CLOEXEC));
  if (!fd) fail(errno, "no torus at " + path_ + "; start one with nanet torus serve");
  mapping_ = wire::Mapping(fd.get(), sizeof(wire::Control));
  const wire::Control& c = control();
  if (acquire(c.magic) != wire::magic)
    fail(EPROTO, path_ + " is not the control file of this version's torus");
  std::copy_n(c.size, 3, lattice.size.begin());
  shape = wire::Shape::of(lattice.nodes() * c.intra);
  process_ = wire::Process(c.pid);
}

bool Job::alive() const noexcept {
  return acquire(control().running) == 1 && !process_.ended();
}

void Job::changed() const noexcept {
  std::atomic_ref(control().bell).fetch_add(1);
  wire::wake(control().bell);
}

void Job::wake() const noexcept {
  contract::full_fence();
  if (relaxed(control().sleeping) != 0) changed();
}

std::unique_ptr<Attachment> Job::attach(const Address* wanted, const std::string& bell, bool direct) {
  return std::make_unique<JobPort>(*this, claim(wanted), bell, direct);
}

PeerState Job::peer(std::uint32_t port) const noexcept {
  const wire::PortEntry& entry = control().port[port];
  const PortState state = state_of(entry);
  PeerState found;
  found.domain = wire::domain_of(port, acquire(entry.epoch));
  found.open = state == PortState::open;
  found.present = found.open || state == PortState::closing;
  found.native = acquire(entry.native) != 0;
  return found;
}

// Takes a free port: the wanted one, or the next in a cyclic order.
std::uint32_t Job::claim(const Address* wanted) {
  wire::Control& c = control();
  if (!alive()) fail(ENETDOWN, "the torus has ended");
  const auto take = [&](std::uint32_t port) {
    auto expected = static_cast<std::uint32_t>(PortState::free);
    if (!std::atomic_ref(c.port[port].state)
             .compare_exchange_strong(expected, static_cast<std::uint32_t>(PortState::claimed)))
      return false;
    release(c.port[port].pid, static_cast<std::uint32_t>(getpid()));
    return true;
  };
  const Nanoseconds end = os::monotonic_now() + claim_limit;
  std::uint32_t port = 0;
  if (wanted != nullptr) {
    if (!find(*wanted, port)) fail(EADDRNOTAVAIL, "the address is no port of this torus");
    while (!take(port)) {
      // A port that is being closed becomes free shortly.
      if (state_of(c.port[port]) != PortState::closing || os::monotonic_now() > end)
        fail(EADDRINUSE, "the address of the endpoint is in use");
      sched_yield();
    }
    return port;
  }
  for (;;) {
    for (std::uint32_t k = 0; k < shape.ports; ++k) {
      port = std::atomic_ref(c.next).fetch_add(1) % shape.ports;
      if (take(port)) return port;
    }
    if (os::monotonic_now() > end) fail(EMFILE, "all ports of the torus are in use; start a larger one");
    sched_yield();
  }
}

// ------------------------------------------------------------------------------------------------- port

JobPort::JobPort(Job& job, std::uint32_t index, const std::string& bell, bool direct)
    : job_(job), offsets_(job.shape) {
  port = index;
  wire::PortEntry& entry = job_.control().port[port];
  domain = wire::domain_of(port, acquire(entry.epoch));
  try {
    create_file(bell, direct);
  } catch (...) {
    unlink(wire::port_file(job_.path_, port).c_str());
    relax(entry.pid, 0u);
    release(entry.state, static_cast<std::uint32_t>(PortState::free));
    throw;
  }
  release(entry.state, static_cast<std::uint32_t>(PortState::announced));
  job_.changed();
  const Nanoseconds end = os::monotonic_now() + open_limit;
  while (state_of(entry) == PortState::announced) {
    if (!job_.alive() || os::monotonic_now() > end) fail(ENETDOWN, "the torus does not answer");
    // Ranks that only yield would leave the torus little time.
    constexpr timespec pause{0, 200'000};
    nanosleep(&pause, nullptr);
  }
  if (state_of(entry) != PortState::open) fail(ENETDOWN, "the torus has refused the port");
  native = acquire(entry.native) != 0;
}

JobPort::~JobPort() {
  release(job_.control().port[port].state, static_cast<std::uint32_t>(PortState::closing));
  job_.changed();
}

void JobPort::create_file(const std::string& bell, bool direct) {
  const std::string name = wire::port_file(job_.path_, port);
  unlink(name.c_str());
  file_ = os::Fd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file_) fail(errno, "cannot create " + name);
  if (ftruncate(file_.get(), static_cast<off_t>(offsets_.bytes)) != 0) fail(errno, "cannot size " + name);
  // Reserved before it is touched: a full file system would raise SIGBUS.
  if (const int error = posix_fallocate(file_.get(), 0, static_cast<off_t>(offsets_.staging)); error != 0)
    fail(error, "no space for " + name);
  mapping_ = wire::Mapping(file_.get(), offsets_.bytes);
  memory = wire::PortMemory(mapping_.at(), job_.shape);
  wire::PortHeader& h = *memory.header;
  if (bell.size() >= sizeof h.bell) fail(ENAMETOOLONG, bell + ": longer than 239 bytes; name another folder");
  std::copy(bell.begin(), bell.end(), h.bell);
  if (getrandom(&cookie_, sizeof cookie_, 0) != sizeof cookie_) fail(errno, "no random numbers");
  h.cookie = cookie_;
  h.cookie_address = direct ? reinterpret_cast<std::uint64_t>(&cookie_) : 0;
  prepare(memory, job_.shape, domain);
  release(h.magic, wire::magic);
}

}  // namespace nanet::fabric::card
