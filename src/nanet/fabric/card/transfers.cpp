// SPDX-License-Identifier: Apache-2.0
// Transfers without the target's software: registered buffers, directory of keys, PUT and GET.
#include <algorithm>
#include <array>
#include <cstring>

#include "nanet/contract/atomic.hpp"
#include "nanet/fabric/card/node.hpp"

namespace nanet::fabric::card {

using contract::relax;
using contract::release;

namespace {

constexpr std::uint32_t page = 4096;
constexpr std::size_t most_transfers = 64;
constexpr std::uint32_t most_gets = 4;      // under way to one peer: its share of the GET ring
constexpr std::uint32_t absent_uses = 256;  // operations before a key is looked up again
constexpr std::uint64_t no_token = ~std::uint64_t{0};

std::uint8_t rights_of(bool read, bool write) {
  return static_cast<std::uint8_t>((read ? torus::right::remote_read : 0) |
                                   (write ? torus::right::remote_write : 0));
}

}  // namespace

// ------------------------------------------------------------------------------------------------- buffers

// Registers memory with the card at an address of the domain that was never used. False: the table is full.
bool CardPort::enter(const void* at, std::size_t bytes, std::uint8_t rights, std::uint32_t& entry,
                     std::uint64_t& window) noexcept {
  const auto place = reinterpret_cast<std::uint64_t>(at);
  constexpr std::uint64_t end = std::uint64_t{1} << 48;
  const std::uint64_t begin = next_window_ + place % page;
  if (bytes >= end - begin || (free_entries_.empty() && entries_used_ == wire::table_entries)) return false;
  if (free_entries_.empty()) {
    entry = entries_used_++;
  } else {
    entry = free_entries_.back();
    free_entries_.pop_back();
  }
  if (!card_->enter(entry, at, bytes)) {
    free_entries_.push_back(entry);
    return false;
  }
  window = begin;
  next_window_ = (begin + bytes + 2 * page - 1) / page * page;
  torus::RegisteredBuffer& b = memory_.table[entry];
  relax(memory_.places[entry], place);
  relax(b.address, window);
  relax(b.bytes, std::uint64_t{bytes});
  relax(b.domain, domain_);
  relax(b.rights, rights);
  release(b.valid, 1u);
  release(memory_.header->table_used, entries_used_);
  card_->entered(entry);
  return true;
}

void CardPort::leave(std::uint32_t entry) noexcept {
  release(memory_.table[entry].valid, 0u);
  card_->left(entry);
  free_entries_.push_back(entry);
}

bool CardPort::expose(const iovec* buffers, std::size_t count, Span* spans) noexcept {
  std::array<std::uint32_t, max_iov> entries;
  for (std::size_t i = 0; i < count; ++i) {
    spans[i] = {0, buffers[i].iov_len};
    if (native_ && buffers[i].iov_len > 0 &&
        enter(buffers[i].iov_base, buffers[i].iov_len, torus::right::remote_read, entries[i],
              spans[i].address))
      continue;
    for (std::size_t k = 0; k < i; ++k) {
      leave(entries[k]);
      spans[k].address = 0;
    }
    for (std::size_t k = i; k < count; ++k) spans[k] = {0, buffers[k].iov_len};
    return false;  // the peer requests packets
  }
  return true;
}

void CardPort::conceal(const Span* spans, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    for (std::uint32_t k = wire::file_entries; k < entries_used_; ++k)
      if (memory_.table[k].valid == 1 && memory_.table[k].address == spans[i].address) {
        leave(k);
        break;
      }
}

void CardPort::publish(const Registration& r) noexcept {
  if (!native_ || refused_ || r.bytes == 0) return;
  wire::KeyEntry* const first = memory_.keys + wire::key_slot(r.key);
  for (unsigned i = 0; i < wire::key_probes; ++i) {
    wire::KeyEntry& k = first[i];
    if (k.window != 0) continue;
    std::uint32_t entry = 0;
    std::uint64_t window = 0;
    if (!enter(reinterpret_cast<const void*>(r.begin), r.bytes, rights_of(r.read, r.write), entry, window))
      return;
    k.entry = entry;
    relax(k.key, r.key);
    relax(k.begin, r.begin - r.base);
    relax(k.bytes, r.bytes);
    relax(k.rights, std::uint32_t{rights_of(r.read, r.write)});
    release(k.window, window);
    return;
  }
}

void CardPort::withdraw(wire::KeyEntry& k) noexcept {
  leave(k.entry);
  release(k.window, std::uint64_t{0});
}

void CardPort::withdraw(std::uint64_t key) noexcept {
  wire::KeyEntry* const first = memory_.keys + wire::key_slot(key);
  for (unsigned i = 0; i < wire::key_probes; ++i)
    if (first[i].window != 0 && first[i].key == key) return withdraw(first[i]);
}

void CardPort::refuse_direct() noexcept {
  refused_ = true;
  for (std::uint32_t k = 0; k < wire::key_entries; ++k)
    if (memory_.keys[k].window != 0) withdraw(memory_.keys[k]);
}

// ------------------------------------------------------------------------------------------------- transfers

// Posts PUTs or GETs between local buffers and addresses of the peer's domain.
Direct CardPort::transfer(Tx& tx, bool write, const iovec* local, std::size_t count, const Span* remote,
                          std::size_t remote_count, std::uint64_t token) noexcept {
  struct Piece {
    std::size_t buffer, at;
    std::uint64_t remote;
    std::uint32_t bytes;
  };
  std::array<Piece, 2 * max_iov> pieces;
  std::size_t n = 0;
  constexpr std::size_t most = std::size_t{1} << 30;
  for (std::size_t i = 0, j = 0, at = 0, from = 0; i < count && j < remote_count;) {
    if (remote[j].address == 0 && remote[j].bytes > 0) return Direct::unavailable;
    const std::size_t bytes = std::min({local[i].iov_len - at, std::size_t{remote[j].bytes} - from, most});
    if (bytes > 0) {
      if (n == pieces.size()) return Direct::unavailable;
      pieces[n++] = {i, at, remote[j].address + from, static_cast<std::uint32_t>(bytes)};
    }
    at += bytes;
    from += bytes;
    if (at == local[i].iov_len) ++i, at = 0;
    if (from == remote[j].bytes) ++j, from = 0;
  }
  if (n == 0 || transfers_.size() >= most_transfers || !room(static_cast<std::uint32_t>(4 * n + 4)) ||
      (!write && tx.gets + n > most_gets))
    return Direct::unavailable;
  Transfer t;
  t.token = token;
  t.tx = &tx;
  t.get = !write;
  const bool by_value = write && n == 1 && pieces[0].bytes <= torus::max_inline_bytes;
  std::array<std::uint64_t, max_iov> windows{};
  for (std::size_t i = 0; i < count && !by_value; ++i) {
    if (local[i].iov_len == 0) continue;
    if (!enter(local[i].iov_base, local[i].iov_len, 0, t.entries[t.entry_count], windows[i])) {
      release_entries(t);
      return Direct::unavailable;
    }
    ++t.entry_count;
  }
  t.left = static_cast<std::uint32_t>(n);
  t.number = next_transfer_++;
  for (std::size_t k = 0; k < n; ++k) {
    const Piece& p = pieces[k];
    torus::PutDescriptor d = descriptor(tx, write ? torus::PacketType::put : torus::PacketType::get);
    d.flags = torus::put_flag::completed;
    if (write) d.flags |= torus::put_flag::ack;
    if (by_value) d.flags |= torus::put_flag::inline_payload;
    d.bytes = p.bytes;
    d.local_address = windows[p.buffer] + p.at;
    d.remote_address = p.remote;
    awaited_.push_back({static_cast<std::uint32_t>(posted_), t.number});
    post(d, static_cast<const std::byte*>(local[p.buffer].iov_base) + p.at);
  }
  if (!write) tx.gets += t.left;
  transfers_.push_back(t);
  return Direct::pending;
}

void CardPort::release_entries(Transfer& t) noexcept {
  for (std::uint32_t k = 0; k < t.entry_count; ++k) leave(t.entries[k]);
  t.entry_count = 0;
}

// A descriptor of a transfer has ended. False: it belongs to none.
bool CardPort::ended(std::uint32_t message, bool right, Receiver* receiver) {
  const auto found =
      std::find_if(awaited_.begin(), awaited_.end(), [&](const Awaited& a) { return a.message == message; });
  if (found == awaited_.end()) return false;
  const std::uint32_t number = found->transfer;
  *found = awaited_.back();
  awaited_.pop_back();
  const auto at = std::find_if(transfers_.begin(), transfers_.end(),
                               [&](const Transfer& t) { return t.number == number; });
  if (at->get) --at->tx->gets;
  at->right &= right;
  if (--at->left > 0) return true;
  release_entries(*at);
  const Transfer t = *at;
  *at = transfers_.back();
  transfers_.pop_back();
  if (t.lookup)
    looked_up(*t.tx, t.right);
  else if (!t.right)
    t.tx->keys.clear();
  if (t.token != no_token && receiver != nullptr)
    receiver->transferred(t.token, t.right ? Direct::done : Direct::unavailable);
  return true;
}

void CardPort::abandon(std::uint64_t token) noexcept {
  for (Transfer& t : transfers_)
    if (t.token == token) {
      release_entries(t);
      t.token = no_token;
    }
}

// ------------------------------------------------------------------------------------------------- keys

// Reads the part of the peer's directory that may hold a key.
void CardPort::look_up(Tx& tx, std::uint64_t key) noexcept {
  if (tx.looking || transfers_.size() >= most_transfers || tx.gets >= most_gets || !room(4)) return;
  tx.looking = true;
  tx.wanted = key;
  Transfer t;
  t.token = no_token;
  t.tx = &tx;
  t.get = t.lookup = true;
  t.left = 1;
  t.number = next_transfer_++;
  torus::PutDescriptor d = descriptor(tx, torus::PacketType::get);
  d.flags = torus::put_flag::completed;
  d.bytes = sizeof(wire::KeyEntry) * wire::key_probes;
  d.local_address = wire::file_window + offsets_.answers + std::uint64_t{d.bytes} * tx.port;
  d.remote_address = wire::file_window + offsets_.keys + sizeof(wire::KeyEntry) * wire::key_slot(key);
  awaited_.push_back({static_cast<std::uint32_t>(posted_), t.number});
  post(d);
  ++tx.gets;
  transfers_.push_back(t);
}

void CardPort::looked_up(Tx& tx, bool right) {
  tx.looking = false;
  Key& found = tx.keys[tx.wanted];
  found = {};
  found.uses = absent_uses;
  if (!right) return;
  const wire::KeyEntry* const answers = memory_.answers + std::size_t{wire::key_probes} * tx.port;
  for (unsigned i = 0; i < wire::key_probes; ++i)
    if (answers[i].window != 0 && answers[i].key == tx.wanted) found.entry = answers[i];
}

Direct CardChannel::copy_from(const iovec* to, std::size_t to_count, const Span* from, std::size_t from_count,
                              std::uint64_t token) noexcept {
  return tx_.native ? port_.transfer(tx_, false, to, to_count, from, from_count, token) : Direct::unavailable;
}

Direct CardChannel::rma(bool write, const iovec* local, std::size_t count, std::uint64_t key,
                        std::uint64_t offset, std::size_t bytes, std::uint64_t token) noexcept {
  if (!tx_.native || bytes == 0) return Direct::unavailable;
  const auto known = tx_.keys.find(key);
  if (known == tx_.keys.end()) {
    port_.look_up(tx_, key);
    return Direct::unavailable;
  }
  const wire::KeyEntry& k = known->second.entry;
  if (k.window == 0) {
    if (--known->second.uses == 0) tx_.keys.erase(known);
    return Direct::unavailable;
  }
  // The target decides about errors: this copy of the entry may be old.
  if ((k.rights & rights_of(!write, write)) == 0 || offset < k.begin || bytes > k.bytes ||
      offset - k.begin > k.bytes - bytes)
    return Direct::unavailable;
  const Span remote{k.window + (offset - k.begin), bytes};
  return port_.transfer(tx_, write, local, count, &remote, 1, token);
}

}  // namespace nanet::fabric::card
