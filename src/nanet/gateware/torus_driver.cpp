// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/torus_driver.hpp"

#include <nanet_torus_regs.h>

#include <bit>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace nanet::gateware {
namespace {

#define NANET_AT(field) offsetof(nanet_torus_regs_t, field)

constexpr std::uint32_t map_version = 1;
constexpr unsigned patience = 10'000;  // reads of the status
constexpr std::uint32_t granule = 16;  // address bits below the set of a key: 64 KiB
constexpr std::uint32_t poll_cycles = 128;
constexpr std::uint32_t capacity = 512;  // words of an input buffer at the far end of a link

std::uint32_t exponent(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::countr_zero(value));
}
std::uint32_t high_word(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

}  // namespace

TorusDriver::TorusDriver(Bus& bus) : bus_(bus) {
  const std::uint32_t id = read(NANET_AT(id));
  if (id != NANET_TORUS_REGS__ID__VALUE_reset)
    throw std::runtime_error("not a torus card: its id register reads " + std::to_string(id));
  const std::uint32_t version = read(NANET_AT(built)) & NANET_TORUS_REGS__BUILT__VERSION_bm;
  if (version != map_version)
    throw std::runtime_error("the torus card has register map version " + std::to_string(version) +
                             ", this driver supports version " + std::to_string(map_version));
}

void TorusDriver::write_pair(std::size_t address, std::uint64_t value) {
  write(address, static_cast<std::uint32_t>(value));
  write(address + 4, high_word(value));
}

void TorusDriver::wait(std::uint32_t bits, std::uint32_t value, const char* what) {
  for (unsigned i = 0; i < patience; ++i) {
    if ((read(NANET_AT(status)) & bits) == value) return;
    bus_.progress();
  }
  throw std::runtime_error("timeout: the torus card " + std::string(what));
}

void TorusDriver::place(const torus::Lattice& lattice, const torus::Coordinates& node) {
  write(NANET_AT(links), 0);
  write(NANET_AT(control), NANET_TORUS_REGS__CONTROL__RESET_bm);
  wait(NANET_TORUS_REGS__STATUS__RESETTING_bm, 0, "does not leave its reset");
  const auto& s = lattice.size;
  write(NANET_AT(size), std::uint32_t{s[0]} << NANET_TORUS_REGS__SIZE__X_bp |
                            std::uint32_t{s[1]} << NANET_TORUS_REGS__SIZE__Y_bp |
                            std::uint32_t{s[2]} << NANET_TORUS_REGS__SIZE__Z_bp);
  write(NANET_AT(node), torus::Node{node[0], node[1], node[2]}.packed());
  connected_ = 0;
  for (unsigned port = 0; port < torus::local_port; ++port)
    if (s[port % 3] > 1) connected_ |= 1u << port;
  write(NANET_AT(links), connected_ | capacity << NANET_TORUS_REGS__LINKS__CAPACITY_bp);
}

bool TorusDriver::links_up() {
  return (read(NANET_AT(status)) & connected_) == connected_;
}

void TorusDriver::start(const TorusRings& r) {
  stop();
  write_pair(NANET_AT(put.base), r.put);
  write(NANET_AT(put.log2), exponent(r.put_entries));
  write(NANET_AT(put.posted), 0);
  write_pair(NANET_AT(get.base), r.get);
  write(NANET_AT(get.log2), exponent(r.get_entries));
  write_pair(NANET_AT(event_queue.base), r.events);
  write(NANET_AT(event_queue.log2), exponent(r.event_entries));
  write_pair(NANET_AT(event_queue.finished), r.finished);
  write(NANET_AT(event_queue.poll_cycles), poll_cycles);
  write(NANET_AT(tables), exponent(page_bytes) << NANET_TORUS_REGS__TABLES__LOG2_PAGE_bp |
                              granule << NANET_TORUS_REGS__TABLES__LOG2_GRANULE_bp);
  write(NANET_AT(slots[0].low), static_cast<std::uint32_t>(r.slots));
  write(NANET_AT(slots[0].domain), r.domain);
  write(NANET_AT(slots[0].posted), 0);
  write(NANET_AT(slots[0].shape),
        high_word(r.slots) | exponent(r.slot_bytes) << TORUS_SLOTS_T__SHAPE__LOG2_STRIDE_bp |
            exponent(r.slot_count) << TORUS_SLOTS_T__SHAPE__LOG2_SLOTS_bp | TORUS_SLOTS_T__SHAPE__ENABLE_bm);
  enable_ = NANET_TORUS_REGS__CONTROL__ENABLE_bm;
  write(NANET_AT(control), enable_);
}

void TorusDriver::stop() {
  write(NANET_AT(slots[0].shape), 0);
  enable_ = 0;
  forget();
}

void TorusDriver::post(std::uint32_t entries) {
  write(NANET_AT(put.posted), entries);
}
void TorusDriver::post_slots(std::uint32_t slots) {
  write(NANET_AT(slots[0].posted), slots);
}
void TorusDriver::time_out(std::uint32_t cycles) {
  write(NANET_AT(timeout), cycles);
}

bool TorusDriver::serve(TorusMemory& memory) {
  const std::uint32_t status = read(NANET_AT(status));
  if ((status & NANET_TORUS_REGS__STATUS__KEY_MISS_bm) != 0) {
    const std::uint32_t low = read(NANET_AT(key_miss.low)), high = read(NANET_AT(key_miss.high)),
                        bytes = read(NANET_AT(key_miss.bytes));
    const auto domain = static_cast<std::uint16_t>(high >> NANET_TORUS_REGS__KEY_MISS__HIGH__DOMAIN_bp);
    const std::uint64_t address = low | std::uint64_t{high & NANET_TORUS_REGS__KEY_MISS__HIGH__HIGH_bm} << 32;
    torus::RegisteredBuffer found;
    const torus::Nack reason = memory.key(domain, address, bytes, found);
    found.domain = domain;
    const std::uint32_t fill = reason == torus::Nack::none
                                   ? TORUS_KEY_T__FILL__FOUND_bm
                                   : static_cast<std::uint32_t>(reason) << TORUS_KEY_T__FILL__REASON_bp;
    fill_key(address, found, fill | TORUS_KEY_T__FILL__ANSWER_bm);
  }
  if ((status & NANET_TORUS_REGS__STATUS__PAGE_MISS_bm) != 0) {
    const std::uint32_t low = read(NANET_AT(page_miss.low)), high = read(NANET_AT(page_miss.high));
    const auto domain = static_cast<std::uint16_t>(high >> 16);
    const std::uint64_t address = low | std::uint64_t{high & 0xFFFF} << 32;
    std::uint64_t bus = 0;
    const bool ok = memory.page(domain, address / page_bytes * page_bytes, bus);
    fill_page(domain, address, bus, TORUS_PAGE_T__FILL__ANSWER_bm | (ok ? TORUS_PAGE_T__FILL__OK_bm : 0));
  }
  return (status & (NANET_TORUS_REGS__STATUS__KEY_MISS_bm | NANET_TORUS_REGS__STATUS__PAGE_MISS_bm)) != 0;
}

void TorusDriver::fill_key(std::uint64_t at, const torus::RegisteredBuffer& b, std::uint32_t fill) {
  wait(NANET_TORUS_REGS__STATUS__KEY_FILLED_bm, NANET_TORUS_REGS__STATUS__KEY_FILLED_bm,
       "does not take keys");
  write_pair(NANET_AT(key.first), b.address);
  write_pair(NANET_AT(key.limit), b.address + b.bytes);
  write(NANET_AT(key.low), static_cast<std::uint32_t>(at));
  write(NANET_AT(key.high), high_word(at) | std::uint32_t{b.domain} << TORUS_KEY_T__HIGH__DOMAIN_bp);
  write(NANET_AT(key.fill), fill | std::uint32_t{b.rights} << TORUS_KEY_T__FILL__RIGHTS_bp);
}

void TorusDriver::fill_page(std::uint16_t domain, std::uint64_t address, std::uint64_t bus,
                            std::uint32_t fill) {
  wait(NANET_TORUS_REGS__STATUS__PAGE_FILLED_bm, NANET_TORUS_REGS__STATUS__PAGE_FILLED_bm,
       "does not take translations");
  write_pair(NANET_AT(page.address), address | std::uint64_t{domain} << 48);
  write_pair(NANET_AT(page.bus), bus);
  write(NANET_AT(page.fill), fill);
}

void TorusDriver::enter(const torus::RegisteredBuffer& buffer) {
  fill_key(buffer.address, buffer, TORUS_KEY_T__FILL__FOUND_bm);
}

void TorusDriver::enter(std::uint16_t domain, std::uint64_t address, std::uint64_t bus) {
  fill_page(domain, address, bus, TORUS_PAGE_T__FILL__OK_bm);
}

void TorusDriver::forget() {
  write(NANET_AT(control),
        enable_ | NANET_TORUS_REGS__CONTROL__FLUSH_KEYS_bm | NANET_TORUS_REGS__CONTROL__FLUSH_PAGES_bm);
}

bool TorusDriver::idle() {
  return (read(NANET_AT(status)) & NANET_TORUS_REGS__STATUS__IDLE_bm) != 0;
}

TorusCounters TorusDriver::counters() {
  TorusCounters c;
  for (std::size_t k = 0; k < c.refused.size(); ++k) c.refused[k] = read(NANET_AT(refused) + 4 * k);
  c.unexpected = read(NANET_AT(unexpected));
  c.untranslated = read(NANET_AT(untranslated));
  c.write_errors = read(NANET_AT(write_errors));
  c.replies_lost = read(NANET_AT(replies_lost));
  c.events_lost = read(NANET_AT(events_lost));
  c.bad_descriptors = read(NANET_AT(bad_descriptors));
  c.read_errors = read(NANET_AT(read_errors));
  c.astray = read(NANET_AT(astray));
  c.overflow = read(NANET_AT(overflow));
  return c;
}

}  // namespace nanet::gateware
