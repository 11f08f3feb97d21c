// SPDX-License-Identifier: Apache-2.0
// Fault injection between board and card: hash-based decisions and per-stream delay queues.
#include "nanet/readout/faults.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace nanet::readout {
namespace {

constexpr std::string_view names[fault_count] = {"drop", "dup", "reorder", "corrupt", "delay"};
constexpr unsigned reorder_reach = 4;  // a reordered packet leaves after 1 - 4 later ones of its stream

// SplitMix64 output function (Steele, Lea, Flood, OOPSLA 2014): a good hash of a counter.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
double uniform(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

[[noreturn]] void refuse(std::string_view text, std::string_view part, std::string_view why) {
  std::string message("fault = '");
  message.append(text).append("': '").append(part).append("' ").append(why);
  message.append("; give drop=P,dup=P,reorder=P,corrupt=P,delay=P with each P from 0 to 1");
  throw std::invalid_argument(message);
}

// Truncates one packet in three; flips one to eight bits in the others. Returns the remaining size.
std::uint32_t spoil(std::byte* data, std::uint32_t size, std::uint64_t key) {
  if (size == 0) return 0;
  std::uint64_t bits = mix(key);
  if (bits % 3 == 0) return static_cast<std::uint32_t>(mix(bits) % size);
  const unsigned flips = 1 + static_cast<unsigned>((bits >> 32) % 8);
  for (unsigned i = 0; i < flips; ++i) {
    bits = mix(bits);
    const std::uint64_t bit = bits % (std::uint64_t{size} * 8);
    data[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  return size;
}

}  // namespace

std::string_view name(Fault fault) {
  return fault == Fault::none ? std::string_view("none") : names[static_cast<std::size_t>(fault)];
}

bool FaultOptions::any() const {
  for (const double p : probability)
    if (p > 0) return true;
  return false;
}

void parse_faults(std::string_view text, FaultOptions& options) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) refuse(text, item, "has no '='");
    std::size_t which = 0;
    while (which < fault_count && names[which] != item.substr(0, equals)) ++which;
    if (which == fault_count) refuse(text, item.substr(0, equals), "is no fault");
    const std::string_view digits = item.substr(equals + 1);
    double p = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), p);
    if (error != std::errc{} || end != digits.data() + digits.size() || !(p >= 0 && p <= 1))
      refuse(text, digits, "is no probability");
    options.probability[which] = p;
  }
}

FaultLine::FaultLine(const FaultOptions& options, unsigned streams)
    : options_(options), taken_(streams, 0), reordered_(streams) {}

bool FaultLine::hit(Fault fault, std::uint64_t key) {
  const auto which = static_cast<std::size_t>(fault);
  if (options_.probability[which] <= 0) return false;
  if (uniform(mix(key + which)) >= options_.probability[which]) return false;
  ++counts_[which];
  return true;
}

FaultLine::Held FaultLine::hold(const OutPacket& packet, std::uint64_t due) {
  Held held;
  if (!spare_.empty()) {
    held.bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  held.bytes.resize(packet.size);
  if (packet.size > 0) std::memcpy(held.bytes.data(), packet.data, packet.size);
  held.packet = packet;
  held.due = due;
  return held;
}

void FaultLine::emit(Held&& held, std::vector<OutPacket>& out) {
  lent_.push_back(std::move(held.bytes));
  held.packet.data = lent_.back().data();  // moving a vector keeps the address of its bytes
  out.push_back(held.packet);
}

void FaultLine::emit_reordered(unsigned stream, std::vector<OutPacket>& out) {
  auto& queue = reordered_[stream];
  for (auto it = queue.begin(); it != queue.end();) {
    if (it->due <= taken_[stream]) {
      emit(std::move(*it), out);
      it = queue.erase(it);
    } else {
      ++it;
    }
  }
}

void FaultLine::take(const OutPacket& packet, std::vector<OutPacket>& out) {
  const std::uint64_t number = taken_[packet.stream]++;
  if (packet.marker && !options_.markers) {
    out.push_back(packet);
    emit_reordered(packet.stream, out);
    return;
  }
  const std::uint64_t key = mix(options_.seed ^ mix((std::uint64_t{packet.stream} << 56) | number));
  if (!hit(Fault::drop, key)) {
    OutPacket sent = packet;
    if (hit(Fault::corrupt, key)) {
      Held spoilt = hold(packet, 0);
      spoilt.packet.size = spoil(spoilt.bytes.data(), packet.size, key + fault_count);
      emit(std::move(spoilt), out);
      sent = out.back();
      out.pop_back();
    }
    const bool twice = hit(Fault::dup, key);
    if (hit(Fault::delay, key)) {
      delayed_.push_back(hold(sent, packet.frame + options_.delay_frames));
    } else if (hit(Fault::reorder, key)) {
      reordered_[packet.stream].push_back(
          hold(sent, number + 2 + mix(key + fault_count + 1) % reorder_reach));
    } else {
      out.push_back(sent);
    }
    if (twice) out.push_back(sent);
  }
  emit_reordered(packet.stream, out);
}

void FaultLine::release(std::uint64_t frame, std::vector<OutPacket>& out) {
  while (!delayed_.empty() && delayed_.front().due <= frame) {
    emit(std::move(delayed_.front()), out);
    delayed_.pop_front();
  }
}

void FaultLine::flush(std::vector<OutPacket>& out) {
  for (auto& queue : reordered_) {
    for (auto& held : queue) emit(std::move(held), out);
    queue.clear();
  }
  for (auto& held : delayed_) emit(std::move(held), out);
  delayed_.clear();
}

void FaultLine::recycle() {
  for (auto& bytes : lent_) spare_.push_back(std::move(bytes));
  lent_.clear();
}

}  // namespace nanet::readout
