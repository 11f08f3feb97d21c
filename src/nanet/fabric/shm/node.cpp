// SPDX-License-Identifier: Apache-2.0
// Node of the shared-memory backend: ports with their links, and the bell, a named pipe.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "nanet/contract/consumer.hpp"
#include "nanet/fabric/backend.hpp"
#include "nanet/fabric/bell.hpp"
#include "nanet/fabric/shm/channel.hpp"
#include "nanet/fabric/shm/layout.hpp"
#include "nanet/fabric/shm/region.hpp"

namespace nanet::fabric {
namespace shm {
namespace {

using contract::acquire;
using contract::relax;
using contract::relaxed;
using contract::release;

constexpr unsigned batch = 64;  // packets of one link in one poll

class ShmNode;

class ShmPort final : public Port {
 public:
  ShmPort(ShmNode& node, const Address* wanted);
  ~ShmPort() override;
  Address address() const noexcept override { return region_->address; }
  unsigned poll(Receiver& receiver) override;
  std::unique_ptr<Channel> open(Address peer, int& error) override;
  void publish(const Registration& registration) noexcept override;
  void withdraw(std::uint64_t key) noexcept override;
  bool expose(const iovec* buffers, std::size_t count, Span* spans) noexcept override {
    for (std::size_t i = 0; i < count; ++i)
      spans[i] = {reinterpret_cast<std::uint64_t>(buffers[i].iov_base), buffers[i].iov_len};
    return false;
  }
  void conceal(const Span*, std::size_t) noexcept override {}
  void abandon(std::uint64_t) noexcept override {}
  void refuse_direct() noexcept override { release(header().refuse_direct, 1u); }

  PortHeader& header() const noexcept { return *reinterpret_cast<PortHeader*>(region_->mapping.at()); }

 private:
  struct Link {
    unsigned index;
    LinkView view;
    contract::OrderedReader reader;
    Address source;
  };
  MemoryEntry* memory() const noexcept {
    return reinterpret_cast<MemoryEntry*>(region_->mapping.at() + offset::memory);
  }
  void find_links();
  unsigned poll(Link& link, Receiver& receiver);
  void wake_source(const Link& link) noexcept;
  bool release_closed(const Link& link) noexcept;

  ShmNode& node_;
  std::shared_ptr<OwnRegion> region_;
  std::vector<Link> links_;
  std::array<bool, max_links> known_{};
  std::uint32_t changes_seen_ = 0;
  std::uint64_t cookie_ = 0;
};

class ShmNode final : public Node {
 public:
  ShmNode(const char* directory, bool direct);
  std::unique_ptr<Port> open(const Address* wanted) override {
    return std::make_unique<ShmPort>(*this, wanted);
  }
  int bell() const noexcept override { return bell_.fd(); }
  void listen(bool on) noexcept override {
    for (ShmPort* port : ports) relax(port->header().listening, std::uint32_t{on});
    if (on) full_fence();
    listening = on;
  }
  void drain() noexcept override { bell_.drain(); }
  void rest() noexcept override { sched_yield(); }
  std::uint32_t number() const noexcept { return bell_.number(); }

  const std::string directory;
  const bool direct;
  bool listening = false;
  std::vector<ShmPort*> ports;

 private:
  OwnBell bell_;
};

ShmNode::ShmNode(const char* directory_name, bool direct_access)
    : directory(directory_name), direct(direct_access), bell_(directory) {
  if (direct) allow_siblings();
}

ShmPort::ShmPort(ShmNode& node, const Address* wanted)
    : node_(node), region_(create_region(node.directory, wanted)) {
  PortHeader& h = header();
  cookie_ = h.cookie;
  h.cookie_address = reinterpret_cast<std::uint64_t>(&cookie_);
  h.bell = node.number();
  h.listening = node.listening;
  release(h.magic, magic);
  release(h.open, 1u);
  node_.ports.push_back(this);
}

ShmPort::~ShmPort() {
  release(header().open, 0u);
  region_->retire();
  std::erase(node_.ports, this);
}

void ShmPort::find_links() {
  for (unsigned i = 0; i < max_links; ++i) {
    std::byte* const at = region_->mapping.at() + offset::link(i);
    if (known_[i]) continue;
    // Links are taken in order of their numbers; the page of a link that was never taken is a hole.
    auto& link = *reinterpret_cast<LinkHeader*>(at);
    const auto state = static_cast<LinkState>(acquire(link.state));
    if (state == LinkState::open || state == LinkState::closed) {
      const LinkView view = link_view(at, link.large);
      known_[i] = true;
      links_.push_back({i, view, contract::OrderedReader(view.small), Address::of(link.source)});
    } else if (state == LinkState::free && link.source == 0) {
      break;
    }
  }
}

// Wakes a producer that waits for a buffer.
void ShmPort::wake_source(const Link& link) noexcept {
  relax(link.view.header->starved, 0u);
  int error = 0;
  PeerRegion peer;
  if (!peer.open(node_.directory, link.source, error) || relaxed(peer.header().listening) == 0) return;
  Bell bell;
  bell.ring(node_.directory, peer.header().pid, peer.header().bell);
}

unsigned ShmPort::poll(Link& link, Receiver& receiver) {
  unsigned taken = 0;
  contract::Event event;
  while (taken < batch && link.reader.poll(event) == contract::Poll::event) {
    const contract::View& view = event.stream == 0 ? link.view.small : link.view.large;
    const std::byte* const at = view.buffer(event.buffer & (view.shape.buffers - 1));
    Packet packet;
    std::memcpy(&packet, at, sizeof packet);
    const std::size_t most = event.stream == 0 ? inline_bytes : eager_bytes;
    if (packet.bytes > most) packet.bytes = static_cast<std::uint32_t>(most);
    receiver.receive(link.index, link.source, packet, at + sizeof packet);
    contract::return_buffer(view, event.n);
    ++taken;
  }
  if (taken == 0) return 0;
  link.reader.finish();
  full_fence();
  if (relaxed(link.view.header->starved) != 0) wake_source(link);
  return taken;
}

// Gives an emptied link back. Its pages read as zero afterwards.
bool ShmPort::release_closed(const Link& link) noexcept {
  if (static_cast<LinkState>(acquire(link.view.header->state)) != LinkState::closed) return false;
  std::byte* const at = region_->mapping.at() + offset::link(link.index);
  std::memset(at + sizeof(std::uint64_t) * 2, 0, offset::small - sizeof(std::uint64_t) * 2);
  fallocate(region_->fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(offset::link(link.index) + 3 * page),
            static_cast<off_t>(offset::link_stride - 3 * page));
  known_[link.index] = false;
  release(link.view.header->state, static_cast<std::uint32_t>(LinkState::free));
  return true;
}

unsigned ShmPort::poll(Receiver& receiver) {
  const std::uint32_t changes = acquire(header().link_changes);
  const bool changed = changes != changes_seen_;
  if (changed) {
    changes_seen_ = changes;
    find_links();
  }
  unsigned taken = 0;
  for (std::size_t i = 0; i < links_.size(); ++i) taken += poll(links_[i], receiver);
  if (changed || taken > 0)
    std::erase_if(links_, [this](Link& link) {
      contract::Event next;
      return contract::poll_event(link.view.small, link.reader.next(), next) == contract::Poll::nothing &&
             release_closed(link);
    });
  return taken;
}

std::unique_ptr<Channel> ShmPort::open(Address peer, int& error) {
  auto channel = std::make_unique<ShmChannel>(node_.directory, node_.direct);
  if (!channel->open(address(), peer, error)) return nullptr;
  return channel;
}

void ShmPort::publish(const Registration& r) noexcept {
  for (unsigned i = 0; i < memory_probes; ++i) {
    MemoryEntry& entry = memory()[memory_slot(r.key, i)];
    if (entry.rights != 0) continue;
    release(entry.sequence, entry.sequence + 1);
    relax(entry.key, r.key);
    relax(entry.base, r.base);
    relax(entry.begin, r.begin);
    relax(entry.bytes, r.bytes);
    relax(entry.rights, 1u | (r.read ? 2u : 0u) | (r.write ? 4u : 0u));
    release(entry.sequence, entry.sequence + 1);
    return;
  }
}

void ShmPort::withdraw(std::uint64_t key) noexcept {
  for (unsigned i = 0; i < memory_probes; ++i) {
    MemoryEntry& entry = memory()[memory_slot(key, i)];
    if (entry.rights == 0 || entry.key != key) continue;
    release(entry.sequence, entry.sequence + 1);
    relax(entry.rights, 0u);
    release(entry.sequence, entry.sequence + 1);
    return;
  }
}

}  // namespace
}  // namespace shm

std::unique_ptr<Node> open_shm_node(const char* directory, bool direct) {
  return std::make_unique<shm::ShmNode>(directory, direct);
}

}  // namespace nanet::fabric
