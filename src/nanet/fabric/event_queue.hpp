// SPDX-License-Identifier: Apache-2.0
// Event queue of libfabric: events of address vectors, and those that the application writes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "nanet/fabric/domain.hpp"
#include "nanet/os/fd.hpp"

namespace nanet::fabric {

struct EventQueue : fid_eq {
  EventQueue(Fabric& owner, const fi_eq_attr& attr);
  void add(std::uint32_t event, const void* data, std::size_t bytes);

  struct Entry {
    std::uint32_t event;
    std::vector<std::byte> data;
  };
  Fabric& fabric;
  Uses uses{0};
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<Entry> entries;
  fi_wait_obj wait_kind;
  bool writable;
  os::Fd event;  // readable while there are entries
};

}  // namespace nanet::fabric
