// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/completion.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "nanet/os/clock.hpp"

namespace nanet::fabric {

Waiter::Waiter(Domain& domain, fi_wait_obj kind) : domain_(domain), kind_(kind) {
  if (kind == FI_WAIT_NONE) return;
  event_ = os::Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  epoll_ = os::Fd(epoll_create1(EPOLL_CLOEXEC));
  epoll_event in = {};
  in.events = EPOLLIN;
  if (!event_ || !epoll_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &in) != 0 ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, domain.node->bell(), &in) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot create a wait object");
}

Waiter::~Waiter() {
  disarm();
}

void Waiter::arm() {
  std::uint64_t count = 0;
  if (event_) [[maybe_unused]]
    const auto any = ::read(event_.get(), &count, sizeof count);
  if (!armed_) domain_.listen(true);
  armed_ = true;
  domain_.node->drain();
}

void Waiter::disarm() {
  if (armed_) domain_.listen(false);
  armed_ = false;
}

void Waiter::signal() noexcept {
  if (armed_) interrupt();
}

void Waiter::interrupt() noexcept {
  const std::uint64_t one = 1;
  if (event_) [[maybe_unused]]
    const auto done = write(event_.get(), &one, sizeof one);
}

void Waiter::sleep(int timeout_ms) noexcept {
  pollfd p{epoll_.get(), POLLIN, 0};
  ::poll(&p, 1, timeout_ms);
}

namespace {

constexpr std::size_t entry_bytes[] = {0, sizeof(fi_cq_entry), sizeof(fi_cq_msg_entry),
                                       sizeof(fi_cq_data_entry), sizeof(fi_cq_tagged_entry)};

// Sleeps end after this time, to notice peers that died.
constexpr int slice_ms = 50;
// Time of polling before a sleep, unless the limit is shorter: a wake-up costs several microseconds.
constexpr Nanoseconds spin = 20'000;

// Calls ready() until it is true or the time is over. False: time over.
template <class Ready>
bool wait_until(Domain& domain, Waiter& waiter, int timeout_ms, const Ready& ready) {
  const Nanoseconds begin = os::monotonic_now();
  const Nanoseconds end = begin + Nanoseconds{timeout_ms} * 1'000'000;
  for (;;) {
    Nanoseconds now = begin;
    do {
      {
        const Domain::Guard guard(domain);
        domain.progress();
        if (ready()) return true;
      }
      now = os::monotonic_now();
      if (timeout_ms >= 0 && now >= end) return false;
    } while (now - begin < spin || waiter.fd() < 0);
    {
      const Domain::Guard guard(domain);
      waiter.arm();
      domain.progress();
      if (ready()) {
        waiter.disarm();
        return true;
      }
    }
    const Nanoseconds left = timeout_ms < 0 ? Nanoseconds{slice_ms} * 1'000'000 : end - now;
    waiter.sleep(static_cast<int>(std::clamp<Nanoseconds>((left + 999'999) / 1'000'000, 1, slice_ms)));
    const Domain::Guard guard(domain);
    waiter.disarm();
  }
}

CompletionQueue& queue(fid_cq* f) {
  return *static_cast<CompletionQueue*>(f);
}
Counter& counter(fid_cntr* f) {
  return *static_cast<Counter*>(f);
}

bool valid(fi_wait_obj kind) {
  return kind == FI_WAIT_NONE || kind == FI_WAIT_UNSPEC || kind == FI_WAIT_FD || kind == FI_WAIT_YIELD;
}

template <class Object>
int get_wait(Object& object, int command, void* arg) {
  if (command == FI_GETWAITOBJ) {
    *static_cast<fi_wait_obj*>(arg) =
        object.waiter.kind() == FI_WAIT_UNSPEC ? FI_WAIT_FD : object.waiter.kind();
    return 0;
  }
  if (command != FI_GETWAIT) return -FI_ENOSYS;
  if (object.waiter.fd() < 0) return -FI_ENODATA;
  *static_cast<int*>(arg) = object.waiter.fd();
  return 0;
}

template <class Object>
int close_object(Object& object) {
  if (object.uses > 0) return -FI_EBUSY;
  --object.domain.uses;
  delete &object;
  return 0;
}

int cq_close(fid* f) {
  return close_object(*static_cast<CompletionQueue*>(reinterpret_cast<fid_cq*>(f)));
}
int cq_control(fid* f, int command, void* arg) {
  return get_wait(*static_cast<CompletionQueue*>(reinterpret_cast<fid_cq*>(f)), command, arg);
}
ssize_t cq_read(fid_cq* f, void* to, std::size_t count) {
  return queue(f).read(to, count, nullptr);
}
ssize_t cq_readfrom(fid_cq* f, void* to, std::size_t count, fi_addr_t* sources) {
  return queue(f).read(to, count, sources);
}
ssize_t cq_readerr(fid_cq* f, fi_cq_err_entry* to, std::uint64_t) {
  return queue(f).read_error(*to);
}
ssize_t cq_sread(fid_cq* f, void* to, std::size_t count, const void*, int timeout) {
  return queue(f).wait(to, count, nullptr, timeout);
}
ssize_t cq_sreadfrom(fid_cq* f, void* to, std::size_t count, fi_addr_t* sources, const void*, int timeout) {
  return queue(f).wait(to, count, sources, timeout);
}
int cq_signal(fid_cq* f) {
  queue(f).interrupted = true;
  queue(f).waiter.interrupt();
  return 0;
}
const char* cq_strerror(fid_cq*, int error, const void*, char* to, std::size_t bytes) {
  const char* const text = library().strerror(error);
  if (to == nullptr || bytes == 0) return text;
  std::strncpy(to, text, bytes - 1);
  to[bytes - 1] = 0;
  return to;
}

fi_ops cq_fid_ops = {sizeof(fi_ops),   cq_close, unsupported<int>, cq_control,
                     unsupported<int>, nullptr,  nullptr};
fi_ops_cq cq_ops = {sizeof(fi_ops_cq), cq_read,      cq_readfrom, cq_readerr,
                    cq_sread,          cq_sreadfrom, cq_signal,   cq_strerror};

}  // namespace

CompletionQueue::CompletionQueue(Domain& owner, const fi_cq_attr& attr, fi_wait_obj kind)
    : fid_cq{},
      domain(owner),
      waiter(owner, kind),
      format_(attr.format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_TAGGED : attr.format),
      ring_(1024) {}

void CompletionQueue::add(const Completion& completion) {
  if (tail_ - head_ == ring_.size()) {
    std::vector<Completion> larger(2 * ring_.size());
    for (std::size_t i = head_; i != tail_; ++i) larger[i - head_] = ring_[i % ring_.size()];
    tail_ -= head_;
    head_ = 0;
    ring_ = std::move(larger);
  }
  ring_[tail_++ % ring_.size()] = completion;
  waiter.signal();
}

void CompletionQueue::add_error(const CompletionError& error) {
  errors_.push_back(error);
  waiter.signal();
}

ssize_t CompletionQueue::take(void* to, std::size_t count, fi_addr_t* sources) {
  if (!errors_.empty()) return -FI_EAVAIL;
  std::size_t taken = 0;
  const std::size_t bytes = entry_bytes[format_];
  for (; taken < count && head_ != tail_; ++taken, ++head_) {
    const Completion& c = ring_[head_ % ring_.size()];
    std::memcpy(static_cast<std::byte*>(to) + taken * bytes, &c.entry, bytes);
    if (sources != nullptr) sources[taken] = c.source;
  }
  return taken > 0 ? static_cast<ssize_t>(taken) : -FI_EAGAIN;
}

ssize_t CompletionQueue::read(void* to, std::size_t count, fi_addr_t* sources) {
  const Domain::Guard guard(domain);
  waiter.disarm();
  if (empty() || count == 0) domain.progress();
  return take(to, count, sources);
}

ssize_t CompletionQueue::wait(void* to, std::size_t count, fi_addr_t* sources, int timeout_ms) {
  if (waiter.kind() == FI_WAIT_NONE) return -FI_EINVAL;
  ssize_t taken = -FI_EAGAIN;
  wait_until(domain, waiter, timeout_ms, [&] {
    taken = take(to, count, sources);
    return taken != -FI_EAGAIN || interrupted.exchange(false);
  });
  return taken;
}

ssize_t CompletionQueue::read_error(fi_cq_err_entry& to) {
  const Domain::Guard guard(domain);
  if (errors_.empty()) return -FI_EAGAIN;
  CompletionError e = errors_.front();
  errors_.pop_front();
  void* const buffer = to.err_data;
  const std::size_t room = FI_VERSION_GE(domain.api, FI_VERSION(1, 5)) ? to.err_data_size : 0;
  const std::size_t bytes = e.entry.err_data_size;
  if (bytes > 0 && room > 0) {
    e.entry.err_data = buffer;
    e.entry.err_data_size = std::min(room, bytes);
    std::memcpy(buffer, &e.address, e.entry.err_data_size);
  } else if (bytes > 0) {
    error_data_ = e.address;
    e.entry.err_data = &error_data_;
  } else if (room > 0) {
    e.entry.err_data = buffer;
  }
  if (FI_VERSION_GE(domain.api, FI_VERSION(1, 20))) {
    std::memcpy(&to, &e, sizeof e.entry + sizeof e.source);
  } else {
    const std::size_t known = FI_VERSION_GE(domain.api, FI_VERSION(1, 5))
                                  ? sizeof e.entry
                                  : offsetof(fi_cq_err_entry, err_data_size);
    std::memcpy(&to, &e.entry, known);
  }
  return 1;
}

int open_cq(fid_domain* f, fi_cq_attr* attr, fid_cq** out, void* context) noexcept try {
  auto& domain = *static_cast<Domain*>(f);
  const fi_cq_attr wanted = attr != nullptr ? *attr : fi_cq_attr{};
  if (!valid(wanted.wait_obj) || wanted.format > FI_CQ_FORMAT_TAGGED) return -FI_ENOSYS;
  auto* const queue = new CompletionQueue(domain, wanted, wanted.wait_obj);
  queue->fid = {FI_CLASS_CQ, context, &cq_fid_ops};
  queue->ops = &cq_ops;
  ++domain.uses;
  *out = queue;
  return 0;
} catch (const std::system_error& e) {
  return -e.code().value();
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

// ------------------------------------------------------------------------------------------------- counters

Counter::Counter(Domain& owner, fi_wait_obj kind) : fid_cntr{}, domain(owner), waiter(owner, kind) {}

namespace {

int counter_close(fid* f) {
  return close_object(*static_cast<Counter*>(reinterpret_cast<fid_cntr*>(f)));
}
int counter_control(fid* f, int command, void* arg) {
  return get_wait(*static_cast<Counter*>(reinterpret_cast<fid_cntr*>(f)), command, arg);
}
std::uint64_t counter_read(fid_cntr* f) {
  const Domain::Guard guard(counter(f).domain);
  counter(f).waiter.disarm();
  counter(f).domain.progress();
  return counter(f).value;
}
std::uint64_t counter_readerr(fid_cntr* f) {
  const Domain::Guard guard(counter(f).domain);
  counter(f).domain.progress();
  return counter(f).errors;
}
int counter_add(fid_cntr* f, std::uint64_t n) {
  const Domain::Guard guard(counter(f).domain);
  return counter(f).add(n), 0;
}
int counter_adderr(fid_cntr* f, std::uint64_t n) {
  const Domain::Guard guard(counter(f).domain);
  return counter(f).add_error(n), 0;
}
int counter_set(fid_cntr* f, std::uint64_t n) {
  counter(f).value = n;
  counter(f).waiter.interrupt();
  return 0;
}
int counter_seterr(fid_cntr* f, std::uint64_t n) {
  counter(f).errors = n;
  counter(f).waiter.interrupt();
  return 0;
}
int counter_wait(fid_cntr* f, std::uint64_t threshold, int timeout) {
  Counter& c = counter(f);
  if (c.waiter.kind() == FI_WAIT_NONE) return -FI_EINVAL;
  const std::uint64_t errors = c.errors;
  bool failed = false;
  const bool done = wait_until(c.domain, c.waiter, timeout, [&] {
    failed = c.errors != errors;
    return failed || c.value >= threshold;
  });
  return !done ? -FI_ETIMEDOUT : failed && c.value < threshold ? -FI_EAVAIL : 0;
}

fi_ops counter_fid_ops = {sizeof(fi_ops),   counter_close, unsupported<int>, counter_control,
                          unsupported<int>, nullptr,       nullptr};
fi_ops_cntr counter_ops = {sizeof(fi_ops_cntr), counter_read, counter_readerr, counter_add,
                           counter_set,         counter_wait, counter_adderr,  counter_seterr};

}  // namespace

int open_counter(fid_domain* f, fi_cntr_attr* attr, fid_cntr** out, void* context) noexcept try {
  auto& domain = *static_cast<Domain*>(f);
  if (attr != nullptr && (attr->events != FI_CNTR_EVENTS_COMP || attr->flags != 0)) return -FI_EINVAL;
  // Callers wait on counters that they opened without attributes.
  const fi_wait_obj kind = attr == nullptr ? FI_WAIT_UNSPEC : attr->wait_obj;
  if (!valid(kind)) return -FI_ENOSYS;
  auto* const counter = new Counter(domain, kind);
  counter->fid = {FI_CLASS_CNTR, context, &counter_fid_ops};
  counter->ops = &counter_ops;
  ++domain.uses;
  *out = counter;
  return 0;
} catch (const std::system_error& e) {
  return -e.code().value();
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

int prepare_wait(fid* object) {
  const auto prepare = [](auto& o, const auto& available) {
    const Domain::Guard guard(o.domain);
    o.waiter.arm();
    o.domain.progress();
    return available() ? -FI_EAGAIN : 0;
  };
  if (object->fclass == FI_CLASS_CQ) {
    auto& q = *static_cast<CompletionQueue*>(reinterpret_cast<fid_cq*>(object));
    return prepare(q, [&] { return !q.empty(); });
  }
  if (object->fclass == FI_CLASS_CNTR) {
    auto& c = *static_cast<Counter*>(reinterpret_cast<fid_cntr*>(object));
    const std::uint64_t before = c.value + c.errors;
    return prepare(c, [&] { return c.value + c.errors != before; });
  }
  return object->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

// ------------------------------------------------------------------------------------------------ poll sets

namespace {

struct PollSet : fid_poll {
  explicit PollSet(Domain& owner) : fid_poll{}, domain(owner) {}
  Domain& domain;
  std::vector<struct fid*> members;
};

int poll_close(fid* f) {
  auto* const set = static_cast<PollSet*>(reinterpret_cast<fid_poll*>(f));
  --set->domain.uses;
  delete set;
  return 0;
}
int poll_events(fid_poll* f, void** contexts, int count) {
  auto& set = *static_cast<PollSet*>(f);
  const Domain::Guard guard(set.domain);
  set.domain.progress();
  int found = 0;
  for (struct fid* const member : set.members) {
    if (found == count) break;
    bool ready = false;
    if (member->fclass == FI_CLASS_CQ) {
      ready = !static_cast<CompletionQueue*>(reinterpret_cast<fid_cq*>(member))->empty();
    } else {
      auto& c = *static_cast<Counter*>(reinterpret_cast<fid_cntr*>(member));
      const std::uint64_t now = c.value + c.errors;
      ready = now != std::exchange(c.seen, now);
    }
    if (ready) contexts[found++] = member->context;
  }
  return found;
}
int poll_add(fid_poll* f, fid* member, std::uint64_t) {
  if (member->fclass != FI_CLASS_CQ && member->fclass != FI_CLASS_CNTR) return -FI_EINVAL;
  static_cast<PollSet*>(f)->members.push_back(member);
  return 0;
}
int poll_remove(fid_poll* f, fid* member, std::uint64_t) {
  return std::erase(static_cast<PollSet*>(f)->members, member) > 0 ? 0 : -FI_EINVAL;
}

fi_ops poll_fid_ops = {sizeof(fi_ops),   poll_close, unsupported<int>, unsupported<int>,
                       unsupported<int>, nullptr,    nullptr};
fi_ops_poll poll_ops = {sizeof(fi_ops_poll), poll_events, poll_add, poll_remove};

}  // namespace

int open_poll_set(fid_domain* f, fi_poll_attr*, fid_poll** out) noexcept try {
  auto& domain = *static_cast<Domain*>(f);
  auto* const set = new PollSet(domain);
  set->fid = {FI_CLASS_POLL, nullptr, &poll_fid_ops};
  set->ops = &poll_ops;
  ++domain.uses;
  *out = set;
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

}  // namespace nanet::fabric
