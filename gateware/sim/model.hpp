// SPDX-License-Identifier: SHL-2.1
// The card as a C++ object: nanet_card, verilated, between MACs, a register bus, host memory and the
// firmware. One cycle of its clock (156.25 MHz) at a time; the model is independent of wall-clock time.
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

// The host's memory as the card's DMA engine sees it.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  // Where `bytes` bytes at a bus address lie; nullptr: not registered (the request then fails).
  virtual std::byte* at(std::uint64_t bus, std::size_t bytes) noexcept = 0;
};

// All times in cycles.
struct ModelOptions {
  unsigned write_cycles = 4;   // from the last word of a write to its wr_done
  unsigned read_cycles = 150;  // from a read request to its first word: a round trip over PCIe
  // The microcontroller: from the interrupt to its first access, drawn evenly between the two, and what it
  // then works on each request before it answers.
  unsigned wake_cycles_min = 0, wake_cycles_max = 0;
  unsigned work_cycles = 0;
  // Of each MAC: cycles in which it brings 8 bytes. 1: 10 Gb/s; 10: 1 Gb/s.
  unsigned cycles_per_word = 1;
  std::uint64_t seed = 1;
  // Idle parts are gated, and the clock's edges are taken by hand, which saves time; false: all
  // clocks run, as in hardware, by Verilator's scheduler, for a comparison.
  bool clock_gates = true;
};

// Trace record for measurements: a DMA write whose request is complete.
struct WriteSeen {
  std::uint64_t cycle = 0;  // of its last word
  std::uint64_t bus = 0;
  std::uint32_t bytes = 0;
  const std::byte* data = nullptr;
};

class Model {
 public:
  // memory outlives the model. The card is reset.
  Model(HostMemory& memory, const ModelOptions& options = {});
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  static unsigned channels() noexcept;
  std::uint64_t cycle() const noexcept { return cycle_; }
  ModelOptions& options() noexcept { return options_; }

  // Lets the card work for so many cycles, the firmware with it.
  void run(std::uint64_t cycles);

  // Register bus: takes as long as the card takes to acknowledge. Throws std::runtime_error when it does not.
  std::uint32_t read(std::uint32_t address);
  void write(std::uint32_t address, std::uint32_t value);

  // A frame from Ethernet header to the end of its data (no FCS) follows those that wait at a MAC, with the
  // gap that the wire leaves. `bad`: the MAC found it bad.
  void receive(unsigned channel, std::span<const std::byte> frame, bool bad = false);
  // Frames wait before the wire while it is held; the one that has begun goes on.
  void hold(bool held) noexcept { held_ = held; }
  // Bytes that wait for the wire of a channel.
  std::size_t waiting(unsigned channel) const noexcept { return channel_[channel].bytes; }
  bool wire_idle() const noexcept;

  // Called with every frame that leaves a MAC, and the cycle of its last word.
  std::function<void(unsigned channel, std::span<const std::byte> frame, std::uint64_t cycle)> on_sent;
  // Called with the last word of every frame that enters: channel and cycle.
  std::function<void(unsigned channel, std::uint64_t cycle)> on_received;
  // Called with every DMA write.
  std::function<void(const WriteSeen&)> on_write;

  // Requests to an unregistered address.
  std::uint64_t failed_requests() const noexcept { return failed_; }
  // What the firmware has done.
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
    std::uint32_t at = 0, bytes = 0;  // in `store`
    bool bad = false;
  };
  struct Channel {
    std::deque<Frame> frames;
    std::vector<std::byte> store;  // of the queued frames; restarts when the queue is empty
    std::size_t bytes = 0;
    std::uint32_t position = 0;  // in the first frame
    std::uint64_t next = 0;      // cycle of the next word
    unsigned phase = 0;          // eighths of a cycle that the wire comes after it
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
  // DMA: the write that is coming in, those whose wr_done is due, reads that wait, the read that is answered.
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
