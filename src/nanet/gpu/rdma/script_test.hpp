// SPDX-License-Identifier: Apache-2.0
// Script of a block: calls of rdma.hpp one after the other, with their outcomes. The same for kernels and
// threads.
#pragma once

#include "nanet/gpu/rdma.hpp"

namespace nanet::gpu {

struct Step {
  enum class Call : std::uint8_t { put, put_signal, get, post, wait, wait_until, quiet };
  Call call = Call::quiet;
  std::uint8_t flags = 0;
  std::uint16_t node = 0;
  RdmaKey key = 0;
  std::uint64_t offset = 0;
  std::byte* local = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t immediate = 0;      // wait_until: of the last event
  torus::PutDescriptor descriptor;  // post: any content
};

struct Outcome {
  RdmaEvent event;  // wait
  std::uint32_t yes = 0, message = 0;
};

// Each step has an outcome; each further event of wait_until, too. Returns through `made` how many there are.
NANET_DEVICE_CODE void run_script(const Rdma& rdma, RdmaWork& work, RdmaEvent& event, const Step* steps,
                                  unsigned count, Outcome* outcomes, unsigned room, unsigned& made) {
  begin(rdma, work);
  unsigned out = 0;
  const auto record = [&](bool yes) {
    detail::barrier();
    if (detail::leads() && out < room) {
      outcomes[out].event = event;
      outcomes[out].yes = yes;
      outcomes[out].message = work.message;
    }
    ++out;
  };
  for (unsigned i = 0; i < count; ++i) {
    const Step& s = steps[i];
    switch (s.call) {
      case Step::Call::put:
        put(rdma, work, s.node, s.key, s.offset, s.local, s.bytes, s.flags);
        record(true);
        break;
      case Step::Call::put_signal:
        put_signal(rdma, work, s.node, s.key, s.offset, s.local, s.bytes, s.immediate, s.flags);
        record(true);
        break;
      case Step::Call::get:
        get(rdma, work, s.node, s.key, s.offset, s.local, s.bytes, s.flags);
        record(true);
        break;
      case Step::Call::post: {
        torus::PutDescriptor d = s.descriptor;
        detail::post(rdma, work, d, s.local);
        record(true);
        break;
      }
      case Step::Call::wait:
        record(wait(rdma, work, event));
        break;
      case Step::Call::wait_until:
        for (bool more = true; more;) {
          const bool yes = wait(rdma, work, event);
          more = yes && event.immediate != s.immediate;
          record(yes);
        }
        break;
      case Step::Call::quiet:
        record(quiet(rdma, work));
        break;
    }
  }
  detail::barrier();
  if (detail::leads()) made = out < room ? out : room;
}

}  // namespace nanet::gpu
