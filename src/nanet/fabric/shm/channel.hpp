// SPDX-License-Identifier: Apache-2.0
// Channel of the shared-memory backend: producer of a link in the file of the peer, and direct access to the
// memory of the peer's process.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "nanet/contract/producer.hpp"
#include "nanet/fabric/backend.hpp"
#include "nanet/fabric/shm/layout.hpp"
#include "nanet/fabric/shm/region.hpp"

namespace nanet::fabric::shm {

// Wakes the node of a peer.
class Bell {
 public:
  void ring(const std::string& directory, std::uint32_t pid, std::uint32_t bell) noexcept;

 private:
  os::Fd fd_;
  bool failed_ = false;
};

// File of a peer: mapped header and table of registered memory.
struct PeerRegion {
  std::shared_ptr<OwnRegion> own;  // a port of this process
  os::Fd fd;
  Mapping mapping;
  std::byte* at = nullptr;

  // False: there is no such port. error: errno value.
  bool open(const std::string& directory, Address address, int& error);
  PortHeader& header() const noexcept { return *reinterpret_cast<PortHeader*>(at); }
};

class ShmChannel final : public Channel {
 public:
  ShmChannel(const std::string& directory, bool direct) : directory_(directory), direct_(direct) {}
  ~ShmChannel() override;
  bool open(Address source, Address peer, int& error);

  std::byte* reserve(std::size_t payload) noexcept override;
  void commit() noexcept override;
  bool alive() noexcept override;
  Direct copy_from(const iovec* to, std::size_t to_count, const Span* from, std::size_t from_count,
                   std::uint64_t token) noexcept override;
  Direct rma(bool write, const iovec* local, std::size_t count, std::uint64_t key, std::uint64_t offset,
             std::size_t bytes, std::uint64_t token) noexcept override;

 private:
  bool claim(Address source, int& error);
  bool verify() noexcept;
  Direct copy(bool write, const iovec* local, std::size_t count, const Span* remote,
              std::size_t remote_count) noexcept;

  const std::string& directory_;
  PeerRegion peer_;
  Mapping link_mapping_;
  LinkView link_;
  std::unique_ptr<contract::EventWriter> writer_;
  Bell bell_;
  std::uint64_t small_next_ = 0, large_next_ = 0;
  bool reserved_large_ = false;
  bool direct_, verified_ = false;
};

}  // namespace nanet::fabric::shm
