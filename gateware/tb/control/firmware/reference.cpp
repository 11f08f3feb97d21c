// SPDX-License-Identifier: SHL-2.1
// Reference for the firmware test: the socket card's receiver behind a C interface. The consumer returns
// every buffer at once.
#include <cstring>
#include <deque>
#include <memory>

#include "nanet/card/software/packet_receiver.hpp"
#include "nanet/card/software/receiver.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/contract/memory.hpp"

namespace {

using namespace nanet;

struct Reference final : card::BurstObserver {
  Reference(contract::Shape shape, const card::ReceiverOptions& options, std::uint32_t max_frames)
      : memory(shape), consumers({memory.view()}), table(shape.buffers, 1, max_frames) {
    if (shape.gather == contract::Gather::frame)
      receiver = std::make_unique<card::FrameReceiver>(options, consumers, table, counters);
    else
      receiver = std::make_unique<card::PacketReceiver>(options, consumers, table, counters);
    receiver->observe_bursts(this);
  }
  void burst_began(std::uint32_t, std::uint64_t) noexcept override {}
  void burst_ended(const card::BurstEnded& burst) noexcept override { ended.push_back(burst); }

  contract::Memory memory;
  card::Consumers consumers;
  card::FrameTable table;
  card::Counters counters;
  std::unique_ptr<card::Receiver> receiver;
  std::uint64_t next = 0;
  std::deque<card::BurstEnded> ended;
};

}  // namespace

extern "C" {

// packets: 0 in gather mode `frame`, else packets per buffer, `segment` bytes apart.
void* reference_new(std::uint32_t boards, std::uint32_t buffers, std::uint32_t segment, std::uint64_t timeout,
                    std::uint64_t silence, std::uint32_t max_frames, int replay, std::uint32_t packets) {
  contract::Shape shape;
  shape.boards = 4;
  if (packets) {
    shape.gather = contract::Gather::packets;
    shape.packets = packets;
    shape.slot_bytes = segment;
  } else {
    shape.segment_bytes = segment;
  }
  shape.buffers = shape.descriptors = buffers;
  shape.events = 16 * buffers;
  card::ReceiverOptions options;
  options.rules.boards = static_cast<std::uint8_t>(boards);
  options.rules.max_frames = max_frames;
  options.timeout = static_cast<Nanoseconds>(timeout);
  options.burst_silence = static_cast<Nanoseconds>(silence);
  options.replay = replay != 0;
  return new Reference(shape, options, max_frames);
}
void reference_delete(void* r) {
  delete static_cast<Reference*>(r);
}

void reference_packet(void* r, const std::byte* bytes, std::uint64_t size, std::uint64_t stamp) {
  static_cast<Reference*>(r)->receiver->packet({bytes, size}, static_cast<Nanoseconds>(stamp));
}
void reference_expire(void* r, std::uint64_t safe) {
  static_cast<Reference*>(r)->receiver->expire(static_cast<Nanoseconds>(safe));
}
void reference_drain(void* r, std::uint64_t now) {
  static_cast<Reference*>(r)->receiver->drain(static_cast<Nanoseconds>(now));
}

// In the order of Counts in firmware_host.py.
void reference_counts(void* r, std::int64_t* out) {
  const auto& self = *static_cast<Reference*>(r);
  const card::Counters& c = self.counters;
  *out++ = static_cast<std::int64_t>(c.packets_used);
  *out++ = static_cast<std::int64_t>(c.burst_markers);
  for (std::size_t i = 0; i <= static_cast<std::size_t>(card::Lost::segment_overflow); ++i)
    *out++ = static_cast<std::int64_t>(c.lost[i]);
  *out++ = static_cast<std::int64_t>(c.bad[static_cast<std::size_t>(wire::mgp::Refusal::wrong_burst)]);
  *out++ = static_cast<std::int64_t>(c.bursts);
  *out++ = static_cast<std::int64_t>(c.frames_in);
  *out++ = static_cast<std::int64_t>(c.frames_skipped);
  *out++ = static_cast<std::int64_t>(c.frames_overrun);
  *out++ = self.receiver->missing();
}

// Returns 1 and the next event, or 0. A receive-done event comes with the contents of its buffer, which then
// returns to the card together with its send slot.
int reference_event(void* r, contract::Event* event, std::byte* buffer) {
  auto& self = *static_cast<Reference*>(r);
  const contract::View& view = self.memory.view();
  for (;;) {
    if (contract::poll_event(view, self.next, *event) != contract::Poll::event) return 0;
    ++self.next;
    contract::release(*view.finished, self.next);
    if (event->type == static_cast<std::uint8_t>(contract::EventType::send_done)) continue;
    if (event->type == static_cast<std::uint8_t>(contract::EventType::receive_done)) {
      std::memcpy(buffer, view.buffer(event->buffer), view.shape.buffer_bytes());
      contract::return_buffer(view, contract::unwrap_counter(event->n, self.table.end));
      self.table.next = self.table.end;
      contract::Event done;
      done.type = static_cast<std::uint8_t>(contract::EventType::send_done);
      self.consumers.events[0].write_promised(done);
    }
    return 1;
  }
}

// Returns the next ended burst in the firmware's report format, or 0.
std::uint32_t reference_report(void* r) {
  auto& ended = static_cast<Reference*>(r)->ended;
  if (ended.empty()) return 0;
  const card::BurstEnded e = ended.front();
  ended.pop_front();
  return (e.number & 0xFFFFu) | static_cast<std::uint32_t>(e.sob) << 16 |
         static_cast<std::uint32_t>(e.eob) << 20 | static_cast<std::uint32_t>(e.how) << 24 | 1u << 31;
}
}
