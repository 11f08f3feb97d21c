// SPDX-License-Identifier: Apache-2.0
// Interface of the fabric's backends. A node is the network interface of a process, a port belongs to one
// endpoint, a channel leads to one peer. Channels deliver every packet once and in order, or report the peer
// as gone.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "nanet/fabric/packet.hpp"

namespace nanet::fabric {

// Result of direct access to the memory of a peer.
enum class Direct : std::uint8_t {
  done,
  pending,      // Receiver::transferred() follows
  unavailable,  // use packets
  no_key,       // use packets: the target decides
  no_right,
  out_of_bounds,
  fault,  // the memory is not accessible
  gone    // the peer has died
};

// Way to one peer. Calls come from one thread at a time.
class Channel {
 public:
  virtual ~Channel() = default;
  // Space for a header and `payload` bytes; nullptr without credit.
  virtual std::byte* reserve(std::size_t payload) noexcept = 0;
  // Sends what was written to the space reserved last.
  virtual void commit() noexcept = 0;
  // False if the peer's process has died or its endpoint is closed. Makes a system call.
  virtual bool alive() noexcept = 0;
  // True if the peer's address belongs to another process now. Makes no system call.
  virtual bool replaced() const noexcept { return false; }
  // Copies from or to memory of the peer without its participation, if the backend can. from: as exposed by
  // the peer's port. token: of the operation, for transfers that are pending.
  virtual Direct copy_from(const iovec* to, std::size_t to_count, const Span* from, std::size_t from_count,
                           std::uint64_t token) noexcept = 0;
  virtual Direct rma(bool write, const iovec* local, std::size_t count, std::uint64_t key,
                     std::uint64_t offset, std::size_t bytes, std::uint64_t token) noexcept = 0;
};

// Takes received packets. `link`: small number that identifies the sender at this port.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void receive(unsigned link, Address from, const Packet& packet, const std::byte* payload) = 0;
  // End of a pending transfer: done, or unavailable (use packets).
  virtual void transferred(std::uint64_t token, Direct result) = 0;
  // The network has ended: nothing arrives any more. error: errno value.
  virtual void lost(int error) = 0;
};

// Registered memory, as a peer sees it.
struct Registration {
  std::uint64_t key = 0, base = 0;  // base: address of offset 0
  std::uint64_t begin = 0, bytes = 0;
  bool read = false, write = false;
};

class Port {
 public:
  virtual ~Port() = default;
  virtual Address address() const noexcept = 0;
  // Hands all packets that have arrived, up to a limit, to the receiver; returns their number.
  virtual unsigned poll(Receiver& receiver) = 0;
  // nullptr: no such peer, or no resources; `error` is then an errno value.
  virtual std::unique_ptr<Channel> open(Address peer, int& error) = 0;
  // Allows direct access to registered memory, if the backend can.
  virtual void publish(const Registration& registration) noexcept = 0;
  virtual void withdraw(std::uint64_t key) noexcept = 0;
  // Opens buffers to copy_from() of peers: fills `spans`. True: conceal() must follow.
  virtual bool expose(const iovec* buffers, std::size_t count, Span* spans) noexcept = 0;
  virtual void conceal(const Span* spans, std::size_t count) noexcept = 0;
  // Ends access to the local memory of a pending transfer.
  virtual void abandon(std::uint64_t token) noexcept = 0;
  // Peers send packets for every RMA operation, for remote counters.
  virtual void refuse_direct() noexcept = 0;
};

class Node {
 public:
  virtual ~Node() = default;
  // wanted: a named address, or nullptr. Throws std::system_error.
  virtual std::unique_ptr<Port> open(const Address* wanted) = 0;
  // File descriptor that becomes readable when a packet arrives while the node listens.
  virtual int bell() const noexcept = 0;
  virtual void listen(bool on) noexcept = 0;
  virtual void drain() noexcept = 0;
  // After idle_polls() polls without result: offers the processor to others. Ranks may outnumber processors.
  virtual void rest() noexcept = 0;
  virtual unsigned idle_polls() const noexcept { return 512; }
};

// Node over shared memory: links are rings between the processes of one host. directory: of the shared files.
// direct: allow one-copy transfers (process_vm_readv). Throws std::system_error.
std::unique_ptr<Node> open_shm_node(const char* directory, bool direct);

// Node over a torus of cards. path: control file of the process that plays the cards; directory: of the bell;
// direct: PUT and GET of registered memory. Throws std::system_error.
std::unique_ptr<Node> open_card_node(const char* path, const char* directory, bool direct);

// Node over a torus card in a slot, through VFIO; not run on hardware. cards: ADDRESS@X,Y,Z, separated by
// blanks: the first that no other process uses is taken; size: XxYxZ. Throws std::system_error,
// std::runtime_error.
std::unique_ptr<Node> open_pcie_node(const char* cards, const char* size, const char* directory, bool direct);

}  // namespace nanet::fabric
