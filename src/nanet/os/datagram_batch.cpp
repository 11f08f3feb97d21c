// SPDX-License-Identifier: Apache-2.0
#include "nanet/os/datagram_batch.hpp"

namespace nanet::os {

DatagramBatch::DatagramBatch(unsigned room, std::size_t slot_bytes)
    : bytes_(room * slot_bytes), control_(room), sources_(room), vectors_(room), messages_(room) {
  for (unsigned i = 0; i < room; ++i) {
    vectors_[i] = {bytes_.data() + i * slot_bytes, slot_bytes};
    prepare(i);
  }
}

// The kernel overwrites the lengths.
void DatagramBatch::prepare(unsigned i) noexcept {
  msghdr& header = messages_[i].msg_hdr;
  header = {};
  header.msg_iov = &vectors_[i];
  header.msg_iovlen = 1;
  header.msg_control = &control_[i];
  header.msg_controllen = sizeof(Control);
  header.msg_name = &sources_[i];
  header.msg_namelen = sizeof(sockaddr_in);
}

unsigned DatagramBatch::read(int fd) noexcept {
  for (unsigned i = 0; i < got_; ++i) prepare(i);
  const int n =
      recvmmsg(fd, messages_.data(), static_cast<unsigned>(messages_.size()), MSG_DONTWAIT, nullptr);
  got_ = n > 0 ? static_cast<unsigned>(n) : 0;
  return got_;
}

}  // namespace nanet::os
