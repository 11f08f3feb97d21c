// SPDX-License-Identifier: Apache-2.0
// Driver of the gateware card: configures contract memory and network, starts and stops the card, forwards
// return slots and doorbells to registers, reads counters. Register map: gateware/doc/registers.md. Used by
// one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nanet/card/stream.hpp"
#include "nanet/gateware/bus.hpp"

namespace nanet::gateware {

// Converts a time to cycles of the card (6.4 ns), rounded.
constexpr std::uint64_t cycles_of(Nanoseconds time) noexcept {
  return time <= 0 ? 0 : (static_cast<std::uint64_t>(time) * 10 + 32) / 64;
}

// MAC and IP address of the card's channels.
struct NetworkAddress {
  std::uint64_t mac = 0;  // first octet on the wire in bits 47:40
  std::uint32_t ip = 0;
};
// Locally administered MAC address derived from the IP address, as in the captures that nanet writes.
constexpr std::uint64_t mac_of(std::uint32_t ip) noexcept {
  return std::uint64_t{0x0200} << 32 | ip;
}

struct DriverOptions {
  NetworkAddress address;                      // of all channels
  std::vector<std::uint16_t> ports = {58913};  // at most the number of filters of the card
  std::uint16_t source_port = 58913;           // of sent datagrams
  bool tlb = true;                             // false: the firmware translates every address
  unsigned log2_page = 21;                     // 12 to 21
  std::uint32_t window_frames = 0;             // for replays; 0: none
  std::uint32_t grace_cycles = 4096;           // maximum time of a packet from the MAC to the decision
};

// All counters of the card since it was opened, extended to 64 bits; the registers wrap.
class CounterBank {
 public:
  static constexpr std::uint32_t first = 0x400, last = 0x700;  // register addresses
  std::uint64_t at(std::size_t address) const noexcept { return total_[(address - first) / 4]; }
  void take(std::uint32_t address, std::uint32_t value) noexcept {
    const std::size_t i = (address - first) / 4;
    total_[i] += value - before_[i];
    before_[i] = value;
  }
  void begin(std::uint32_t address, std::uint32_t value) noexcept { before_[(address - first) / 4] = value; }

 private:
  std::array<std::uint32_t, (last - first) / 4> before_{};
  std::array<std::uint64_t, (last - first) / 4> total_{};
};

class Driver {
 public:
  // Throws std::runtime_error if the bus has no such card. bus outlives the driver.
  explicit Driver(Bus& bus);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  struct Built {
    unsigned version = 0, channels = 0, filters = 0, devices = 0, destinations = 0;
  };
  const Built& built() const noexcept { return built_; }
  static constexpr std::uint32_t most_buffers = 8192;  // of all devices

  // Configures the card for a CLOP and the memory of its devices, one view each. The memory must outlive the
  // driver or a close(). A card left running by another process is stopped first. Throws
  // std::invalid_argument, naming the remedy, for options that this card does not support.
  void open(const card::ClopOptions& options, const std::vector<contract::View>& views, std::uint8_t stream,
            const DriverOptions& driver);
  // Enables reception.
  void start();
  // Ends all open bursts; requires that no packet follows.
  void drain();
  // Stops the card and unmaps the memory.
  void close() noexcept;

  // Returns the buffer of n.
  void give_back(std::uint64_t n) {
    bus_.write(returned_ + 4 * (static_cast<std::uint32_t>(n) & slot_mask_),
               static_cast<std::uint32_t>(n + 1));
  }
  void ring(std::uint32_t n);
  // Number of entries that the card may treat as finished in a device's queue.
  void finished(std::size_t device, std::uint64_t entries) noexcept;

  // Reads all counters consistently: no packet or frame was counted during the read. Keeps the old values
  // after a few failed tries. Returns true if the values are new.
  bool read_counters();
  const CounterBank& counters() const noexcept { return counters_; }
  std::int64_t missing() const noexcept { return missing_; }

  std::uint32_t read(std::size_t address) { return bus_.read(static_cast<std::uint32_t>(address)); }
  void write(std::size_t address, std::uint32_t value) {
    bus_.write(static_cast<std::uint32_t>(address), value);
  }
  std::uint64_t read_pair(std::size_t address);
  void write_pair(std::size_t address, std::uint64_t value);

  static constexpr unsigned histogram_bins = 128;
  std::array<std::uint32_t, histogram_bins> histogram();
  void clear_histogram();
  // Upper limit of a bin in cycles; the last bin has no limit.
  static std::uint32_t bin_end(unsigned bin) noexcept;
  // Selects the histogram's source: `stage` of the register `latency`.
  void histogram_of(unsigned stage);

 private:
  void wait_status(std::uint32_t bits, const char* what);
  std::uint32_t control_ = 0;
  static const std::uint32_t returned_;

  Bus& bus_;
  Built built_;
  CounterBank counters_;
  std::int64_t missing_ = 0;
  bool open_ = false;
  std::uint32_t slot_mask_ = 0;  // return slots in use, minus one
  std::vector<std::byte*> mapped_;
  // Page that the card reads: each consumer's progress, and the page list.
  std::byte* own_ = nullptr;
  std::size_t own_bytes_ = 0;
};

}  // namespace nanet::gateware
