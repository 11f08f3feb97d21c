// SPDX-License-Identifier: Apache-2.0
// Datagram batch: the datagrams of one recvmmsg() call, with arrival and source, in memory allocated once.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <vector>

#include "nanet/os/socket.hpp"

namespace nanet::os {

class DatagramBatch {
 public:
  // room: datagrams of a call. slot_bytes: a longer datagram is cut to this.
  DatagramBatch(unsigned room, std::size_t slot_bytes);
  DatagramBatch(const DatagramBatch&) = delete;
  DatagramBatch& operator=(const DatagramBatch&) = delete;

  // Reads what waits in the socket, without blocking. Returns the number of datagrams, which stay until the
  // next call; 0 also after an error.
  unsigned read(int fd) noexcept;
  bool full() const noexcept { return got_ == messages_.size(); }
  std::span<const std::byte> bytes(unsigned i) const noexcept {
    return {static_cast<const std::byte*>(vectors_[i].iov_base), messages_[i].msg_len};
  }
  ReceiveInfo info(unsigned i) const noexcept { return receive_info(messages_[i].msg_hdr); }
  wire::Endpoint source(unsigned i) const noexcept { return from_sockaddr(sources_[i]); }

 private:
  struct alignas(cmsghdr) Control {
    std::byte room[receive_control_bytes];
  };
  void prepare(unsigned i) noexcept;

  std::vector<std::byte> bytes_;
  std::vector<Control> control_;
  std::vector<sockaddr_in> sources_;
  std::vector<iovec> vectors_;
  std::vector<mmsghdr> messages_;
  unsigned got_ = 0;
};

}  // namespace nanet::os
