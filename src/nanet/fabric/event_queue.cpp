// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/event_queue.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

namespace nanet::fabric {

EventQueue::EventQueue(Fabric& owner, const fi_eq_attr& attr)
    : fid_eq{}, fabric(owner), wait_kind(attr.wait_obj), writable((attr.flags & FI_WRITE) != 0) {
  if (wait_kind != FI_WAIT_NONE) event = os::Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

void EventQueue::add(std::uint32_t number, const void* data, std::size_t bytes) {
  const auto* const at = static_cast<const std::byte*>(data);
  {
    const std::lock_guard lock(mutex);
    entries.push_back({number, {at, at + bytes}});
    const std::uint64_t one = 1;
    if (event) [[maybe_unused]]
      const auto done = ::write(event.get(), &one, sizeof one);
  }
  arrived.notify_one();
}

namespace {

EventQueue& queue(fid_eq* f) {
  return *static_cast<EventQueue*>(f);
}

// With the lock.
ssize_t take(EventQueue& q, std::uint32_t* event, void* to, std::size_t bytes, std::uint64_t flags) {
  if (q.entries.empty()) return -FI_EAGAIN;
  const EventQueue::Entry& entry = q.entries.front();
  if (entry.data.size() > bytes) return -FI_ETOOSMALL;
  *event = entry.event;
  std::memcpy(to, entry.data.data(), entry.data.size());
  const auto read = static_cast<ssize_t>(entry.data.size());
  if ((flags & FI_PEEK) == 0) {
    q.entries.pop_front();
    std::uint64_t count = 0;
    if (q.entries.empty() && q.event) [[maybe_unused]]
      const auto any = ::read(q.event.get(), &count, sizeof count);
  }
  return read;
}

ssize_t eq_read(fid_eq* f, std::uint32_t* event, void* to, std::size_t bytes, std::uint64_t flags) {
  const std::lock_guard lock(queue(f).mutex);
  return take(queue(f), event, to, bytes, flags);
}
ssize_t eq_readerr(fid_eq*, fi_eq_err_entry*, std::uint64_t) {
  return -FI_EAGAIN;
}
ssize_t eq_write(fid_eq* f, std::uint32_t event, const void* from, std::size_t bytes, std::uint64_t) try {
  if (!queue(f).writable) return -FI_EINVAL;
  queue(f).add(event, from, bytes);
  return static_cast<ssize_t>(bytes);
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}
ssize_t eq_sread(fid_eq* f, std::uint32_t* event, void* to, std::size_t bytes, int timeout,
                 std::uint64_t flags) {
  EventQueue& q = queue(f);
  if (q.wait_kind == FI_WAIT_NONE) return -FI_EINVAL;
  std::unique_lock lock(q.mutex);
  const auto available = [&] { return !q.entries.empty(); };
  if (timeout < 0)
    q.arrived.wait(lock, available);
  else
    q.arrived.wait_for(lock, std::chrono::milliseconds(timeout), available);
  return take(q, event, to, bytes, flags);
}
const char* eq_strerror(fid_eq*, int error, const void*, char* to, std::size_t bytes) {
  const char* const text = library().strerror(error);
  if (to == nullptr || bytes == 0) return text;
  std::strncpy(to, text, bytes - 1);
  to[bytes - 1] = 0;
  return to;
}
int eq_close(fid* f) {
  auto* const q = static_cast<EventQueue*>(reinterpret_cast<fid_eq*>(f));
  if (q->uses > 0) return -FI_EBUSY;
  --q->fabric.uses;
  delete q;
  return 0;
}
int eq_control(fid* f, int command, void* arg) {
  const auto& q = *static_cast<EventQueue*>(reinterpret_cast<fid_eq*>(f));
  if (command != FI_GETWAIT) return -FI_ENOSYS;
  if (!q.event) return -FI_ENODATA;
  *static_cast<int*>(arg) = q.event.get();
  return 0;
}

fi_ops eq_fid_ops = {sizeof(fi_ops),   eq_close, unsupported<int>, eq_control,
                     unsupported<int>, nullptr,  nullptr};
fi_ops_eq eq_ops = {sizeof(fi_ops_eq), eq_read, eq_readerr, eq_write, eq_sread, eq_strerror};

}  // namespace

int open_event_queue(fid_fabric* f, fi_eq_attr* attr, fid_eq** out, void* context) noexcept try {
  auto& fabric = *static_cast<Fabric*>(f);
  const fi_eq_attr wanted = attr != nullptr ? *attr : fi_eq_attr{};
  if (wanted.wait_obj != FI_WAIT_NONE && wanted.wait_obj != FI_WAIT_UNSPEC && wanted.wait_obj != FI_WAIT_FD &&
      wanted.wait_obj != FI_WAIT_YIELD)
    return -FI_ENOSYS;
  auto* const q = new EventQueue(fabric, wanted);
  q->fid = {FI_CLASS_EQ, context, &eq_fid_ops};
  q->ops = &eq_ops;
  ++fabric.uses;
  *out = q;
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

}  // namespace nanet::fabric
