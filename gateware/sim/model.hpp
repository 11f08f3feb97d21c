// SPDX-License-Identifier: SHL-2.1
// C++ model of the card: nanet_card, verilated, between MACs, a register bus, host memory and the firmware.
// Advances by cycles of its clock (156.25 MHz), independent of wall-clock time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace nanet::sim {

inline constexpr double cycle_ns = 6.4;

// Host memory as the card's DMA engine accesses it.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  // Returns the location of `bytes` bytes at a bus address; nullptr: not registered (the request then fails).
  virtual std::byte* at(std::uint64_t bus, std::size_t bytes) noexcept = 0;
};

// All times in cycles.
struct ModelOptions {
  unsigned write_cycles = 4;   // from the last word of a write to its wr_done
  unsigned read_cycles = 150;  // from a read request to its first word: a PCIe round trip
  // Microcontroller: delay from the interrupt to the first access, uniform between the two limits, and
  // processing time of each request.
  unsigned wake_cycles_min = 0, wake_cycles_max = 0;
  unsigned work_cycles = 0;
  // Cycles per 8 bytes of each MAC. 1: 10 Gb/s; 10: 1 Gb/s.
  unsigned cycles_per_word = 1;
  std::uint64_t seed = 1;
  // true: idle parts are clock-gated, and the model schedules the clock edges itself, which is faster. false:
  // all clocks run under Verilator's scheduler, as in hardware, for a comparison.
  bool clock_gates = true;
};

// Trace record for measurements: a DMA write whose request is complete.
struct WriteSeen {
  std::uint64_t cycle = 0;  // cycle of the last word
  std::uint64_t bus = 0;
  std::uint32_t bytes = 0;
  const std::byte* data = nullptr;
};

class Model {
 public:
  // memory must outlive the model. The constructor resets the card.
  Model(HostMemory& memory, const ModelOptions& options = {});
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  static unsigned channels() noexcept;
  std::uint64_t cycle() const noexcept { return cycle_; }
  ModelOptions& options() noexcept { return options_; }

  // Runs the card and the firmware for a number of cycles.
  void run(std::uint64_t cycles);

  // Register access; lasts until the card acknowledges and the firmware has run. Throws std::runtime_error
  // without acknowledgement.
  std::uint32_t read(std::uint32_t address);
  void write(std::uint32_t address, std::uint32_t value);

  // Queues a frame at a MAC: from Ethernet header to the end of the data, without FCS; the interframe gap is
  // added. `bad`: the MAC flags the frame as bad. It begins at cycle `from` or later, before queued frames
  // that begin later.
  void receive(unsigned channel, std::span<const std::byte> frame, bool bad = false, std::uint64_t from = 0);
  // While held, queued frames wait; a frame in transfer continues.
  void hold(bool held) noexcept { held_ = held; }
  // Cycle in which the next queued frame begins, the present one during a transfer; far in the future
  // without frames.
  std::uint64_t next_frame() const noexcept;
  // Bytes queued for a channel.
  std::size_t waiting(unsigned channel) const noexcept { return channel_[channel].bytes; }
  bool wire_idle() const noexcept;

  // Called for every frame sent by a MAC, with the cycle of its last word.
  std::function<void(unsigned channel, std::span<const std::byte> frame, std::uint64_t cycle)> on_sent;
  // Called for the last word of every received frame: channel and cycle.
  std::function<void(unsigned channel, std::uint64_t cycle)> on_received;
  // Called for every DMA write.
  std::function<void(const WriteSeen&)> on_write;
  // TTC line: called in every cycle for four samples, the oldest in bit 0. Empty: no line.
  std::function<unsigned()> ttc_line;
  // Called for every pulse of the final trigger: its type and timestamp, and the cycle.
  std::function<void(unsigned kind, std::uint32_t timestamp, std::uint64_t cycle)> on_trigger;

  // Requests to an unregistered address.
  std::uint64_t failed_requests() const noexcept { return failed_; }
  // Requests handled by the firmware.
  std::uint64_t firmware_requests() const noexcept { return firmware_requests_; }

 private:
  struct Card;
  struct Firmware;
  struct Read {
    std::uint64_t due, bus;
    std::uint32_t bytes;
    std::uint8_t tag;
  };
  struct Done {
    std::uint64_t due;
    std::uint8_t tag;
    bool error;
  };
  struct Frame {
    std::vector<std::byte> store;  // whole words
    std::uint32_t bytes = 0;
    bool bad = false;
    std::uint64_t from = 0;  // cycle
  };
  struct Channel {
    std::deque<Frame> frames;
    std::size_t bytes = 0;
    std::uint32_t position = 0;  // in the first frame
    std::uint64_t next = 0;      // cycle of the next word
    unsigned phase = 0;          // eighths of a cycle by which the line lags behind `next`
    std::vector<std::byte> sent;
  };

  void tick();
  void drive_mac() noexcept;
  void sample_sent();
  void drive_dma() noexcept;
  void sample_dma();
  void run_firmware();
  std::uint32_t firmware_access(bool write, std::uint32_t address, std::uint32_t value);
  std::uint32_t access(bool write, std::uint32_t address, std::uint32_t value);
  std::uint64_t random(std::uint64_t below) noexcept;

  HostMemory& memory_;
  ModelOptions options_;
  std::unique_ptr<Card> card_;
  std::unique_ptr<Firmware> firmware_;
  std::uint64_t cycle_ = 0, failed_ = 0, firmware_requests_ = 0, random_;
  bool held_ = false, mac_busy_ = false, rx_driven_ = false, by_hand_ = false;
  std::vector<Channel> channel_;
  // DMA: incoming write, writes with wr_done pending, queued reads, and the read being answered.
  std::vector<std::byte> write_;
  std::deque<Done> done_;
  std::deque<Read> reads_;
  std::vector<std::byte> answer_;
  std::size_t answered_ = 0;
  bool answering_ = false, answer_failed_ = false, done_driven_ = false, answer_driven_ = false;
  // The microcontroller.
  bool waking_ = false;
  std::uint64_t wake_at_ = 0;
};

}  // namespace nanet::sim
