// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/card.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "nanet/os/affinity.hpp"
#include "nanet/os/clock.hpp"

namespace nanet::card {

bool Clop::poll(contract::Event& event) {
  queue_.finish();  // finishes all taken entries: the card may overwrite them
  const contract::Poll found = queue_.poll(event);
  if (found == contract::Poll::overrun)
    throw std::runtime_error(
        "event_overrun: the card has lapped this reader of the event queue; deregister the CLOP");
  return found == contract::Poll::event;
}

bool Clop::wait(contract::Event& event, Nanoseconds timeout) {
  const Nanoseconds until = os::monotonic_now() + timeout;
  unsigned spins = 0;
  for (;;) {
    if (poll(event)) return true;
    const Nanoseconds now = os::monotonic_now();
    if (now >= until) return false;
    if (!card_->running()) {
      const bool moved = card_->receive();
      if (!(card_->send() || moved)) card_->wait(std::min<Nanoseconds>(until - now, 1'000'000));
    } else if (++spins > 2000) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

unsigned Clop::payloads(const contract::Event& event) const {
  if (merged(event)) return 2;
  return view_.shape.gather == contract::Gather::frame ? view_.shape.boards : view_.shape.packets;
}

bool Clop::merged(const contract::Event& event) const {
  return view_.shape.gather == contract::Gather::frame &&
         frame_header(event).layout == contract::Layout::merged;
}

const contract::FrameHeader& Clop::frame_header(const contract::Event& event) const {
  return *reinterpret_cast<const contract::FrameHeader*>(view_.buffer(event.buffer));
}

std::span<const std::byte> Clop::payload(const contract::Event& event, unsigned i) const {
  if (i >= payloads(event))
    throw std::out_of_range("payload " + std::to_string(i) + " of " + std::to_string(payloads(event)));
  if (merged(event)) {
    const contract::FrameHeader& header = frame_header(event);
    const std::byte* const rows = view_.buffer(event.buffer) + contract::frame_header_bytes;
    if (i == 0) return {rows, sizeof(contract::MergedRow) * header.events};
    return {rows + sizeof(contract::MergedRow) * header.rows, sizeof(std::uint16_t) * header.hits};
  }
  if (view_.shape.gather == contract::Gather::frame)
    return {view_.segment(event.buffer, i), frame_header(event).board[i].bytes};
  const std::byte* at = view_.buffer(event.buffer) + std::size_t{i} * view_.shape.slot_bytes;
  const std::size_t length = wire::mgp::decode_header(at).length;
  return {at, std::min<std::size_t>(length, view_.shape.slot_bytes)};
}

std::span<std::byte> Clop::send_buffer(const contract::Event& event) const {
  return {view_.send_buffer(event.buffer), contract::send_buffer_bytes};
}

void Clop::post(const contract::Event& event, std::uint32_t bytes, std::uint32_t destination) {
  contract::post(view_, number(event), view_.send_buffer(event.buffer), bytes, destination, event.buffer);
}

void Clop::give_back(const contract::Event& event) {
  contract::return_buffer(view_, number(event));
}

wire::Endpoint Clop::local(std::size_t socket) const {
  return local_.at(socket);
}

Clop& Card::register_clop(const ClopOptions& options) {
  if (running()) throw std::logic_error("register CLOPs before the card's thread is started");
  std::vector<wire::Endpoint> local;
  Stream& stream = open_stream(options, local);
  clops_.push_back(std::unique_ptr<Clop>(new Clop(*this, stream, std::move(local))));
  return *clops_.back();
}

void Card::deregister_clop(Clop& clop) {
  if (running()) throw std::logic_error("stop the card's thread before a CLOP is deregistered");
  close_stream(*clop.stream_);
  std::erase_if(clops_, [&](const auto& c) { return c.get() == &clop; });
}

void Card::start(int cpu, bool busy) {
  if (running()) throw std::logic_error("the card's thread is running already");
  stopping_ = false;
  thread_ = std::jthread([this, busy] {
    while (!stopping_.load(std::memory_order_relaxed)) {
      const bool received = receive();
      // A consumer in another thread posts without waking this thread: poll soon while answers are pending.
      if (!(send() || received) && !busy) wait(passed_all() ? 10'000'000 : 20'000);
    }
    drain();
    while (!passed_all()) {
      if (!send()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  try {
    if (cpu >= 0) os::pin_thread(thread_.native_handle(), cpu);
  } catch (...) {  // reported to the caller, not in the thread
    stop();
    throw;
  }
}

void Card::stop() {
  if (!running()) return;
  stopping_ = true;
  thread_.join();
}

}  // namespace nanet::card
