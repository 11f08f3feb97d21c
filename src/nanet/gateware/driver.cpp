// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/driver.hpp"

#include <nanet_regs.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "nanet/card/software/frame_merger.hpp"
#include "nanet/units.hpp"
#include "nanet/wire/mtp.hpp"

namespace nanet::gateware {
namespace {

#define NANET_AT(field) offsetof(nanet_regs_t, field)

constexpr unsigned map_version = 6;
constexpr unsigned patience = 1'000'000;  // status reads until the card counts as hung
constexpr std::uint32_t event_poll_cycles = 1000, sender_poll_cycles = 20'000;
// Card address of the receive buffers, aligned to the largest page.
constexpr std::uint64_t clop_address = std::uint64_t{1} << 40;
// Largest datagram, in jumbo frames.
constexpr unsigned most_payload = 8972;
// Largest buffer: bits 23:6 of the register are used.
constexpr std::size_t most_buffer_bytes = (std::size_t{1} << 24) - 64;
// Distance of the devices' words in the driver's page.
constexpr std::size_t own_line = 64;

void require(bool right, const std::string& sentence) {
  if (!right) throw std::invalid_argument(sentence);
}

std::uint64_t bus_of(std::uint64_t bus, const void* at, const void* base) {
  return bus +
         static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - static_cast<const std::byte*>(base));
}

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

}  // namespace

const std::uint32_t Driver::returned_ = NANET_AT(returned);

Driver::Driver(Bus& bus) : bus_(bus) {
  const std::uint32_t id = read(NANET_AT(id));
  if (id != NANET_REGS__ID__VALUE_reset)
    throw std::runtime_error("not a nanet card: its id register reads " + std::to_string(id));
  const std::uint32_t built = read(NANET_AT(built));
  const auto field = [&](unsigned bp, unsigned bits) { return built >> bp & ((1u << bits) - 1); };
  built_ = {field(NANET_REGS__BUILT__VERSION_bp, 8), field(NANET_REGS__BUILT__CHANNELS_bp, 4),
            field(NANET_REGS__BUILT__FILTERS_bp, 4), field(NANET_REGS__BUILT__DEVICES_bp, 4),
            field(NANET_REGS__BUILT__DESTINATIONS_bp, 4)};
  if (built_.version != map_version)
    throw std::runtime_error("the card has register map version " + std::to_string(built_.version) +
                             ", this driver supports version " + std::to_string(map_version));
}

Driver::~Driver() {
  close();
}

std::uint64_t Driver::read_pair(std::size_t address) {
  // The high word may change while the low word is read.
  for (;;) {
    const std::uint32_t high = read(address + 4), low = read(address);
    if (read(address + 4) == high) return std::uint64_t{high} << 32 | low;
  }
}

void Driver::write_pair(std::size_t address, std::uint64_t value) {
  write(address, static_cast<std::uint32_t>(value));
  write(address + 4, static_cast<std::uint32_t>(value >> 32));
}

void Driver::wait_status(std::uint32_t bits, const char* what) {
  for (unsigned i = 0; i < patience; ++i) {
    if ((read(NANET_AT(status)) & bits) == bits) return;
    bus_.progress();
  }
  throw std::runtime_error("timeout: the card is not " + std::string(what));
}

void Driver::open(const card::ClopOptions& o, const std::vector<contract::View>& views, std::uint8_t stream,
                  const DriverOptions& d) {
  close();
  const contract::Shape& shape = views[0].shape;
  const bool by_packets = shape.gather == contract::Gather::packets;
  require(shape.devices <= built_.devices, "devices = " + std::to_string(shape.devices) +
                                               ": the gateware card has queues for " +
                                               std::to_string(built_.devices) + " at most");
  const std::uint32_t most = most_buffers / shape.devices;
  const std::string of_devices =
      shape.devices > 1 ? " for each of " + std::to_string(shape.devices) + " devices" : "";
  const std::string slots = ": the gateware card has return slots for " + std::to_string(most) + of_devices;
  // Default: two buffers for each frame of the deadline.
  const auto longest_us = static_cast<std::uint64_t>(most_buffers * frame_ns / 2 / 1000);
  require(shape.buffers <= most,
          o.buffers ? "buffers = " + std::to_string(shape.buffers) + slots + "; take " + std::to_string(most)
                    : "deadline_us = " + std::to_string(o.deadline / 1000) + " needs " +
                          std::to_string(shape.buffers) + " buffers" + slots + "; take at most " +
                          std::to_string(longest_us));
  require(o.dealing.nodes == 1, "node: the gateware card receives every frame; use the socket or xdp card");
  require(o.destinations.size() <= built_.destinations, "send = " + std::to_string(o.destinations.size()) +
                                                            " endpoints: the gateware card supports " +
                                                            std::to_string(built_.destinations) + " at most");
  require(!d.ports.empty() && d.ports.size() <= built_.filters,
          "listen: the gateware card supports at most " + std::to_string(built_.filters) + " ports");
  require(o.rules.max_payload <= most_payload, "max_payload = " + std::to_string(o.rules.max_payload) +
                                                   ": the gateware card accepts " +
                                                   std::to_string(most_payload) + " bytes at most");
  // Upper bound of the segments of a frame's buffer.
  require(shape.buffer_bytes() <= most_buffer_bytes,
          "packets = " + std::to_string(shape.packets) +
              " with max_payload = " + std::to_string(o.rules.max_payload) + " needs buffers of " +
              std::to_string(shape.buffer_bytes()) +
              " bytes: the gateware card supports less than 16 MiB per buffer; take at most " +
              std::to_string(most_buffer_bytes / shape.slot_bytes));
  if (o.merge) {
    require(read(NANET_AT(merge)) & NANET_REGS__MERGE__BUILT_bm,
            "merge = true: this card was built without merging: leave --merge out");
    constexpr std::uint32_t merged_segment = 8192;
    const auto least = static_cast<std::uint32_t>(
        (contract::merged_buffer_bytes - contract::frame_header_bytes) / merged_segment);
    require(shape.gather != contract::Gather::frame || o.rules.boards == 0 || shape.boards >= least,
            "merge = true with " + std::to_string(shape.boards) + (shape.boards == 1 ? " board" : " boards") +
                ": the gateware card merges from " + std::to_string(least) +
                " boards on; leave --merge out, or give --card socket --segment-bytes " +
                std::to_string(card::merging_segment(shape.boards)));
    require(shape.segment_bytes == merged_segment,
            "segment_bytes = " + std::to_string(shape.segment_bytes) +
                ": the gateware card merges segments of 8192 bytes only");
    card::check_merging(shape, o.rules.boards, o.window_lsb);
  }
  require(d.log2_page >= 12 && d.log2_page <= 21, "log2_page must be 12 to 21");
  const std::uint64_t timeout = cycles_of(o.timeout);
  // The card compares times in 32 bits, so half of their range can be distinguished.
  require(timeout + d.grace_cycles <= std::numeric_limits<std::int32_t>::max(),
          "timeout_us is too long for the gateware card; take at most 13 s");

  // A killed process may have left the card running.
  write(NANET_AT(control), control_ = 0);
  wait_status(NANET_REGS__STATUS__STOPPED_bm, "stopped");
  counters_ = {};
  for (std::uint32_t a = CounterBank::first; a < CounterBank::last; a += 4) counters_.begin(a, bus_.read(a));

  // Memory: the receive buffers of all devices page by page, the rest of each device in one piece, and the
  // driver's page.
  const std::size_t page = std::size_t{1} << d.log2_page;
  std::vector<std::uint64_t> pages, clop, rest_bus;
  for (const contract::View& view : views) {
    auto* const rest = reinterpret_cast<std::byte*>(view.returned);
    const auto clop_bytes = static_cast<std::size_t>(rest - view.clop);
    clop.push_back(clop_address + pages.size() * page);
    const std::vector<std::uint64_t> own = bus_.map_pages(view.clop, clop_bytes, page);
    mapped_.push_back(view.clop);
    pages.insert(pages.end(), own.begin(), own.end());
    rest_bus.push_back(bus_.map(rest, view.bytes - clop_bytes));
    mapped_.push_back(rest);
  }
  const std::size_t own_header = own_line * views.size();
  own_bytes_ = whole_pages(own_header + pages.size() * sizeof(std::uint64_t));
  void* const own = mmap(nullptr, own_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "no memory for the page list");
  own_ = static_cast<std::byte*>(own);
  std::copy(pages.begin(), pages.end(), reinterpret_cast<std::uint64_t*>(own_ + own_header));
  const std::uint64_t own_bus = bus_.map(own_, own_bytes_);
  mapped_.push_back(own_);
  slot_mask_ = shape.buffers * shape.devices - 1;
  open_ = true;

  for (unsigned c = 0; c < built_.channels; ++c) {
    const std::size_t at = NANET_AT(network) + c * sizeof(network_t_t);
    write_pair(at + offsetof(network_t_t, mac_low), d.address.mac);
    write(at + offsetof(network_t_t, ip), d.address.ip);
    write(at + offsetof(network_t_t, port), d.source_port);
  }
  for (unsigned f = 0; f < built_.filters; ++f) {
    const std::size_t at = NANET_AT(filter) + f * sizeof(filter_t__stride20_t);
    const bool on = f < d.ports.size();
    write(at + offsetof(filter_t__stride20_t, mode), on ? FILTER_T__MODE__ENABLE_bm : 0);
    for (const std::size_t any :
         {offsetof(filter_t__stride20_t, dst_ip), offsetof(filter_t__stride20_t, src_ip),
          offsetof(filter_t__stride20_t, src_mask)})
      write(at + any, 0);
    write(at + offsetof(filter_t__stride20_t, ports), on ? d.ports[f] : 0);
  }
  write(NANET_AT(rules), std::uint32_t{o.rules.source} << NANET_REGS__RULES__SOURCE_bp |
                             std::uint32_t{o.rules.boards} << NANET_REGS__RULES__BOARDS_bp |
                             std::uint32_t{o.rules.max_payload} << NANET_REGS__RULES__MAX_PAYLOAD_bp);
  write(NANET_AT(max_frames), o.rules.max_frames);
  write(NANET_AT(log2), contract::exponent(shape.devices) << NANET_REGS__LOG2__DEVICES_bp |
                            contract::exponent(shape.descriptors) << NANET_REGS__LOG2__DESCRIPTORS_bp |
                            contract::exponent(shape.buffers) << NANET_REGS__LOG2__BUFFERS_bp |
                            contract::exponent(shape.events) << NANET_REGS__LOG2__EVENTS_bp);
  write(NANET_AT(gather), (by_packets ? NANET_REGS__GATHER__PACKETS_MODE_bm : 0) |
                              shape.packets << NANET_REGS__GATHER__PACKETS_bp);
  write(NANET_AT(merge),
        (o.merge ? NANET_REGS__MERGE__ENABLE_bm : 0) | (static_cast<std::uint32_t>(o.window_lsb) & 0xFFu)
                                                           << NANET_REGS__MERGE__WINDOW_bp);
  write(NANET_AT(segment_bytes), shape.segment_bytes);
  write(NANET_AT(slot_bytes), shape.slot_bytes);
  write(NANET_AT(buffer_bytes), static_cast<std::uint32_t>(shape.buffer_bytes()));
  write(NANET_AT(send_bytes), contract::send_buffer_bytes * shape.buffers);
  write(NANET_AT(timeout_cycles), d.window_frames ? 0 : static_cast<std::uint32_t>(timeout));
  write(NANET_AT(sender_poll_cycles), sender_poll_cycles);
  write(NANET_AT(event_poll_cycles), event_poll_cycles);
  write(NANET_AT(grace_cycles), d.grace_cycles);
  write_pair(NANET_AT(deadline_cycles), cycles_of(o.deadline));
  // Header-only MTP packet: source; late sub ID, no primitives, header length.
  write_pair(NANET_AT(late_template), std::uint64_t{wire::mtp::sub_id_late} << 56 |
                                          std::uint64_t{wire::mtp::header_bytes} << 32 |
                                          std::uint64_t{o.rules.source} << 24);
  write(NANET_AT(late_destination), 0);
  write(NANET_AT(stream), stream);
  write(NANET_AT(tlb), (d.tlb ? NANET_REGS__TLB__ENABLE_bm : 0) |
                           d.log2_page << NANET_REGS__TLB__LOG2_PAGE_bp | NANET_REGS__TLB__FLUSH_bm);
  write_pair(NANET_AT(pages_base), own_bus + own_header);
  write(NANET_AT(pages_count), static_cast<std::uint32_t>(pages.size()));
  write(NANET_AT(window_frames), d.window_frames);
  write_pair(NANET_AT(burst_silence_cycles), d.window_frames ? 0 : cycles_of(o.burst_silence));
  using Device = device_t__stride40_t;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const contract::View& view = views[i];
    const std::size_t device = NANET_AT(device) + i * sizeof(Device);
    const auto bus = [&](const void* at) { return bus_of(rest_bus[i], at, view.returned); };
    write_pair(device + offsetof(Device, clop), clop[i]);
    write_pair(device + offsetof(Device, queue), bus(view.queue));
    write_pair(device + offsetof(Device, finished), own_bus + own_line * i);
    write_pair(device + offsetof(Device, ring), bus(view.ring));
    write_pair(device + offsetof(Device, send_base), reinterpret_cast<std::uintptr_t>(view.send_buffers));
    write_pair(device + offsetof(Device, send_bus), bus(view.send_buffers));
  }
  for (unsigned e = 0; e < built_.destinations; ++e) {
    const std::size_t at = NANET_AT(destination) + e * sizeof(destination_t_t);
    // Without destinations, answers go to the card's own network address, where no program listens.
    const bool named = e < o.destinations.size();
    const wire::Endpoint to = named ? o.destinations[e] : wire::Endpoint{d.address.ip, 9};
    write_pair(at + offsetof(destination_t_t, mac_low), mac_of(to.address));
    write(at + offsetof(destination_t_t, ip), to.address);
    write(at + offsetof(destination_t_t, port),
          to.port | (named || e == 0 ? DESTINATION_T__PORT__VALID_bm : 0));
  }
  for (std::uint32_t slot = 0; slot < most_buffers; ++slot) write(returned_ + 4 * slot, 0);
  control_ = NANET_REGS__CONTROL__EVENTS_bm | NANET_REGS__CONTROL__SEND_bm;
  write(NANET_AT(control), control_ | NANET_REGS__CONTROL__CLEAR_HISTOGRAM_bm);
  wait_status(NANET_REGS__STATUS__READY_bm, "ready");
}

void Driver::start() {
  control_ |= NANET_REGS__CONTROL__RECEIVE_bm;
  write(NANET_AT(control), control_);
}

void Driver::drain() {
  control_ |= NANET_REGS__CONTROL__DRAIN_bm;
  write(NANET_AT(control), control_);
}

void Driver::close() noexcept {
  if (!open_) return;
  open_ = false;
  try {
    control_ &= ~std::uint32_t{NANET_REGS__CONTROL__RECEIVE_bm};
    write(NANET_AT(control), control_);
    control_ = 0;
    write(NANET_AT(control), 0);
    wait_status(NANET_REGS__STATUS__STOPPED_bm, "stopped");
  } catch (const std::runtime_error&) {
    // The card hangs: revoking its memory access is the only remedy.
  }
  for (std::byte* at : mapped_) bus_.unmap(at);
  mapped_.clear();
  if (own_) munmap(own_, own_bytes_);
  own_ = nullptr;
}

void Driver::ring(std::uint32_t n) {
  write(NANET_AT(doorbell), n);
}

void Driver::finished(std::size_t device, std::uint64_t entries) noexcept {
  if (own_)
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(own_ + own_line * device))
        .store(entries, std::memory_order_release);
}

bool Driver::read_counters() {
  constexpr unsigned tries = 4;
  // Reads the counters that change with every packet and number first and last, to detect inconsistent
  // values.
  constexpr std::array<std::size_t, 3> marks = {NANET_AT(frames.packets_in), NANET_AT(frames.frames_in),
                                                NANET_AT(frames.frames_out)};
  constexpr std::array<std::pair<std::size_t, std::size_t>, 3> ranges = {{
      {NANET_AT(verdicts), NANET_AT(verdicts) + sizeof(nanet_regs_t::verdicts)},
      {NANET_AT(bad_packets), NANET_AT(bad_packets) + sizeof(bad_packets_t_t)},
      {NANET_AT(lost), NANET_AT(frames) + sizeof(frames_t_t)},
  }};
  constexpr std::size_t low = NANET_AT(lost.missing), high = NANET_AT(lost.missing_high),
                        words = sizeof(lost_t_t::missing);
  for (unsigned i = 0; i < tries; ++i) {
    std::array<std::uint32_t, marks.size()> mark;
    for (std::size_t m = 0; m < marks.size(); ++m) mark[m] = read(marks[m]);
    CounterBank next = counters_;
    std::uint64_t missing = 0;  // sum of the boards' balances
    for (const auto& [from, to] : ranges)
      for (std::size_t a = from; a < to; a += 4) {
        const std::uint32_t value = read(a);
        if (a >= low && a < low + words)
          missing += value;
        else if (a >= high && a < high + words)
          missing += std::uint64_t{value} << 32;
        else
          next.take(static_cast<std::uint32_t>(a), value);
      }
    bool same = true;
    for (std::size_t m = 0; m < marks.size(); ++m) same &= mark[m] == read(marks[m]);
    if (!same) continue;
    counters_ = next;
    missing_ = static_cast<std::int64_t>(missing);
    return true;
  }
  return false;
}

std::array<std::uint32_t, Driver::histogram_bins> Driver::histogram() {
  std::array<std::uint32_t, histogram_bins> counts;
  for (unsigned i = 0; i < histogram_bins; ++i) counts[i] = read(NANET_AT(histogram) + 4 * i);
  return counts;
}

void Driver::clear_histogram() {
  write(NANET_AT(control), control_ | NANET_REGS__CONTROL__CLEAR_HISTOGRAM_bm);
}

std::uint32_t Driver::bin_end(unsigned bin) noexcept {
  if (bin < 16) return bin;
  const unsigned octave = (bin - 16) / 8 + 4, eighth = (bin - 16) % 8;
  const std::uint64_t end = (std::uint64_t{8 + eighth + 1} << (octave - 3)) - 1;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(end, std::numeric_limits<std::uint32_t>::max()));
}

void Driver::histogram_of(unsigned stage) {
  write(NANET_AT(latency), stage << NANET_REGS__LATENCY__STAGE_bp);
  clear_histogram();
}

}  // namespace nanet::gateware
