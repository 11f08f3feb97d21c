// SPDX-License-Identifier: SHL-2.1
#include "model.hpp"

#include <Vnanet_card_sim.h>
#include <verilated.h>
#include <edges.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

extern "C" {
#include "nanet_fw.h"
}

namespace nanet::sim {
namespace {

constexpr std::size_t word_bytes = 32;  // of the DMA interface
constexpr std::size_t mac_bytes = 8;
// Preamble, FCS and interframe gap, which are not transferred as words.
constexpr std::size_t wire_bytes = 8 + 4 + 12;
constexpr unsigned patience = 100'000;  // limit of an access in cycles

// Bits of a port, whose type depends on its width.
template <class T>
void put(T& port, unsigned lsb, unsigned width, std::uint64_t value) {
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  port = static_cast<T>((port & ~(mask << lsb)) | (value & mask) << lsb);
}
template <std::size_t N>
void put(VlWide<N>& port, unsigned lsb, unsigned width, std::uint64_t value) {
  for (unsigned bit = 0; bit < width;) {
    const unsigned at = lsb + bit, room = std::min(32 - at % 32, width - bit);
    const std::uint32_t mask = room == 32 ? ~0u : (1u << room) - 1;
    EData& word = port[at / 32];
    word = (word & ~(mask << at % 32)) | (static_cast<std::uint32_t>(value >> bit) & mask) << at % 32;
    bit += room;
  }
}
template <class T>
std::uint64_t take(const T& port, unsigned lsb, unsigned width) {
  const auto shifted = static_cast<std::uint64_t>(port) >> lsb;
  return width == 64 ? shifted : shifted & ((std::uint64_t{1} << width) - 1);
}
template <std::size_t N>
std::uint64_t take(const VlWide<N>& port, unsigned lsb, unsigned width) {
  std::uint64_t value = 0;
  for (unsigned bit = 0; bit < width;) {
    const unsigned at = lsb + bit, room = std::min(32 - at % 32, width - bit);
    const std::uint64_t mask = (std::uint64_t{1} << room) - 1;
    value |= (port[at / 32] >> at % 32 & mask) << bit;
    bit += room;
  }
  return value;
}

// Word in memory shared with another thread.
std::uint32_t load_word(const std::byte* at, std::memory_order order) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(const_cast<std::byte*>(at))).load(order);
}

// Store order of the contract: the last word of a small entry marks it valid; it is written last and read
// first.
constexpr std::size_t entry_bytes = 32;
bool is_entry(const std::byte* at, std::size_t bytes) {
  return bytes <= entry_bytes && bytes % 4 == 0 && reinterpret_cast<std::uintptr_t>(at) % 4 == 0;
}
void store(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (!is_entry(to, bytes)) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t i = 0; i < bytes; i += 4) {
    std::uint32_t word;
    std::memcpy(&word, from + i, 4);
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(to + i))
        .store(word, i + 4 == bytes ? std::memory_order_release : std::memory_order_relaxed);
  }
}
void load(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (!is_entry(from, bytes)) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t i = bytes; i > 0; i -= 4) {
    const std::uint32_t word =
        load_word(from + i - 4, i == bytes ? std::memory_order_acquire : std::memory_order_relaxed);
    std::memcpy(to + i - 4, &word, 4);
  }
}

}  // namespace

struct Model::Card {
  explicit Card(bool clock_gates) {
    const char* arguments[] = {"", "+nanet_no_gates"};
    context.commandArgs(clock_gates ? 1 : 2, arguments);
  }
  VerilatedContext context;
  Vnanet_card_sim top{&context, ""};
};

struct Model::Firmware {
  nanet_fw state{};
  nanet_fw_bus bus{};
  bool begun = false;
};

unsigned Model::channels() noexcept {
  return sizeof(Vnanet_card_sim::rx_data) / 8;
}

Model::Model(HostMemory& memory, const ModelOptions& options)
    : memory_(memory),
      options_(options),
      card_(std::make_unique<Card>(options.clock_gates)),
      firmware_(std::make_unique<Firmware>()),
      random_(options.seed * 0x9E3779B97F4A7C15 | 1),
      channel_(channels()) {
  auto& top = card_->top;
  top.rst = 1;
  top.clk = 0;
  top.bus_master = 1;
  top.tx_word_cycles = static_cast<CData>(options_.cycles_per_word);
  for (unsigned i = 0; i < 16; ++i) tick();
  top.rst = 0;
  top.eval();
  by_hand_ = options_.clock_gates;
  firmware_->bus.context = this;
  firmware_->bus.read32 = [](void* model, std::uint32_t address) {
    return static_cast<Model*>(model)->firmware_access(false, address, 0);
  };
  firmware_->bus.write32 = [](void* model, std::uint32_t address, std::uint32_t value) {
    static_cast<Model*>(model)->firmware_access(true, address, value);
  };
}

Model::~Model() {
  card_->top.final();
  // Verilator releases scopes from the context that this thread used last.
  Verilated::threadContextp(&card_->context);
}

std::uint64_t Model::random(std::uint64_t below) noexcept {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return below ? random_ % below : 0;
}

bool Model::wire_idle() const noexcept {
  return std::all_of(channel_.begin(), channel_.end(), [](const Channel& c) { return c.frames.empty(); });
}

std::uint64_t Model::next_frame() const noexcept {
  std::uint64_t next = std::numeric_limits<std::uint64_t>::max();
  for (const Channel& c : channel_)
    if (!c.frames.empty())
      next = std::min(next, c.position > 0 ? cycle_ : std::max({c.frames.front().from, c.next, cycle_}));
  return next;
}

void Model::receive(unsigned channel, std::span<const std::byte> frame, bool bad, std::uint64_t from) {
  Channel& c = channel_.at(channel);
  const std::size_t bytes = frame.size();
  if (bytes == 0) return;
  const auto begins = [this](std::uint64_t cycle) { return std::max(cycle, cycle_); };
  auto place = c.frames.end();
  const auto first = c.frames.begin() + (c.position > 0 ? 1 : 0);  // behind the frame in transfer
  while (place > first && begins(std::prev(place)->from) > begins(from)) --place;
  const auto added =
      c.frames.insert(place, {{frame.begin(), frame.end()}, static_cast<std::uint32_t>(bytes), bad, from});
  // The MAC reads whole words.
  added->store.resize((bytes + mac_bytes - 1) / mac_bytes * mac_bytes);
  c.bytes += bytes;
  mac_busy_ = true;
}

// Drives the current word of each MAC's receive side.
void Model::drive_mac() noexcept {
  if (!mac_busy_ && !rx_driven_) return;
  auto& top = card_->top;
  bool any = false, waits = false;
  for (unsigned i = 0; i < channel_.size(); ++i) {
    Channel& c = channel_[i];
    const bool there = !c.frames.empty() && c.next <= cycle_ &&
                       (c.position > 0 || (!held_ && c.frames.front().from <= cycle_));
    put(top.rx_valid, i, 1, there);
    if (there) {
      const Frame& frame = c.frames.front();
      if (c.next < cycle_) c.phase = 0;  // the line was idle or held
      const std::size_t left = frame.bytes - c.position;
      const bool last = left <= mac_bytes;
      std::uint64_t word;
      std::memcpy(&word, frame.store.data() + c.position, sizeof word);
      put(top.rx_data, 64 * i, 64, word);
      put(top.rx_keep, 8 * i, 8, last ? (1u << left) - 1 : 0xFF);
      put(top.rx_last, i, 1, last);
      put(top.rx_user, i, 1, last && frame.bad);
      any = true;
      c.position += mac_bytes;
      c.next = cycle_ + options_.cycles_per_word;
      if (last) {
        const std::size_t filled = std::max<std::size_t>(frame.bytes, 60) - frame.bytes + left;
        // Interframe gaps by IEEE 802.3's deficit idle count: 12 bytes on average.
        c.phase += static_cast<unsigned>(filled + wire_bytes) * options_.cycles_per_word;
        c.next = cycle_ + c.phase / mac_bytes;
        c.phase %= mac_bytes;
        c.bytes -= frame.bytes;
        c.position = 0;
        c.frames.pop_front();
        if (on_received) on_received(i, cycle_ + 1);  // at the card's inputs
      }
    }
    waits |= !c.frames.empty();
  }
  rx_driven_ = any;
  mac_busy_ = waits;
}

// Collects the MACs' transmit side.
void Model::sample_sent() {
  auto& top = card_->top;
  if (!top.tx_valid) return;
  for (unsigned i = 0; i < channel_.size(); ++i) {
    if (!take(top.tx_valid, i, 1)) continue;
    std::vector<std::byte>& sent = channel_[i].sent;
    const std::uint64_t word = take(top.tx_data, 64 * i, 64);
    std::byte bytes[mac_bytes];
    std::memcpy(bytes, &word, sizeof word);
    sent.insert(sent.end(), bytes, bytes + __builtin_popcountll(take(top.tx_keep, 8 * i, 8)));
    if (take(top.tx_last, i, 1)) {
      if (on_sent) on_sent(i, sent, cycle_ - 1);
      sent.clear();
    }
  }
}

void Model::drive_dma() noexcept {
  auto& top = card_->top;
  const bool done = !done_.empty() && done_.front().due <= cycle_;
  if (done || done_driven_) {
    top.wr_done_valid = done;
    if (done) {
      top.wr_done_tag = done_.front().tag;
      top.wr_done_error = done_.front().error;
      done_.pop_front();
    }
    done_driven_ = done;
  }
  if (!answering_ && !reads_.empty() && reads_.front().due <= cycle_) {
    const Read& read = reads_.front();
    answering_ = true;
    answered_ = 0;
    answer_.assign((read.bytes + word_bytes - 1) / word_bytes * word_bytes, std::byte{0});
    const std::byte* const from = memory_.at(read.bus, read.bytes);
    answer_failed_ = !from;
    if (from)
      load(answer_.data(), from, read.bytes);
    else
      ++failed_;
  }
  const bool word = answering_ && top.rd_room;
  if (word || answer_driven_) {
    top.rd_data_valid = word;
    if (word) {
      std::uint32_t words[word_bytes / 4];
      std::memcpy(words, answer_.data() + answered_, word_bytes);
      for (unsigned i = 0; i < word_bytes / 4; ++i) top.rd_data[i] = words[i];
      top.rd_data_tag = reads_.front().tag;
      top.rd_data_last = answered_ + word_bytes >= answer_.size();
      top.rd_data_error = answer_failed_;
    }
    answer_driven_ = word;
  }
  if (word) {
    answered_ += word_bytes;
    if (answered_ >= answer_.size()) {
      answering_ = false;
      reads_.pop_front();
    }
  }
}

void Model::sample_dma() {
  auto& top = card_->top;
  if (top.wr_valid) {
    std::byte word[word_bytes];
    std::uint32_t words[word_bytes / 4];
    for (unsigned i = 0; i < word_bytes / 4; ++i) words[i] = top.wr_data[i];
    std::memcpy(word, words, word_bytes);
    write_.insert(write_.end(), word, word + word_bytes);
    if (top.wr_last) {
      const std::uint64_t bus = take(top.wr_cmd, 24, 64);
      const auto bytes = static_cast<std::uint32_t>(take(top.wr_cmd, 8, 16));
      const auto tag = static_cast<std::uint8_t>(take(top.wr_cmd, 0, 8));
      std::byte* const to = memory_.at(bus, bytes);
      if (to)
        store(to, write_.data(), bytes);
      else
        ++failed_;
      done_.push_back({cycle_ + options_.write_cycles, tag, !to});
      if (on_write) on_write({cycle_ - 1, bus, bytes, write_.data()});
      write_.clear();
    }
  }
  if (top.rd_valid)
    reads_.push_back({cycle_ + options_.read_cycles, take(top.rd_cmd, 24, 64),
                      static_cast<std::uint32_t>(take(top.rd_cmd, 8, 16)),
                      static_cast<std::uint8_t>(take(top.rd_cmd, 0, 8))});
}

// One cycle: inputs are sampled at the clock edge, outputs are valid after it.
void Model::tick() {
  auto& top = card_->top;
  drive_mac();
  drive_dma();
  if (ttc_line) top.ttc_samples = static_cast<CData>(ttc_line());
  if (by_hand_) {
    rise(*top.rootp);
  } else {
    top.clk = 1;
    top.eval();
  }
  ++cycle_;
  sample_dma();
  sample_sent();
  if (top.trigger_valid && on_trigger) on_trigger(top.trigger_kind, top.trigger_timestamp, cycle_ - 1);
  top.reg_start = 0;
  top.fw_start = 0;
  if (by_hand_) {
    fall(*top.rootp);
  } else {
    top.clk = 0;
    top.eval();
  }
}

std::uint32_t Model::access(bool write, std::uint32_t address, std::uint32_t value) {
  auto& top = card_->top;
  top.reg_start = 1;
  top.reg_write = write;
  top.reg_addr = address;
  top.reg_wdata = value;
  for (unsigned i = 0; i < patience; ++i) {
    tick();
    if (!top.reg_done) continue;
    const std::uint32_t data = top.reg_rdata;
    // Many accesses in a row must not hold up the firmware, which has a separate bus.
    if (top.fw_interrupt) run_firmware();
    return data;
  }
  throw std::runtime_error("the simulated card does not answer on its register bus at address " +
                           std::to_string(address));
}

std::uint32_t Model::read(std::uint32_t address) {
  return access(false, address, 0);
}

void Model::write(std::uint32_t address, std::uint32_t value) {
  access(true, address, value);
}

std::uint32_t Model::firmware_access(bool write, std::uint32_t address, std::uint32_t value) {
  auto& top = card_->top;
  top.fw_start = 1;
  top.fw_write = write;
  top.fw_addr = static_cast<CData>(address);
  top.fw_wdata = value;
  for (unsigned i = 0; i < patience; ++i) {
    tick();
    if (top.fw_done) return top.fw_rdata;
  }
  throw std::runtime_error("the simulated card does not answer its firmware at address " +
                           std::to_string(address));
}

// The microcontroller sleeps until a request, wakes up, and handles all pending requests.
void Model::run_firmware() {
  auto& top = card_->top;
  if (!waking_) {
    waking_ = true;
    wake_at_ =
        cycle_ + options_.wake_cycles_min +
        random(options_.wake_cycles_max - std::min(options_.wake_cycles_min, options_.wake_cycles_max) + 1);
  }
  if (cycle_ < wake_at_) return;
  if (!firmware_->begun) {  // the port is available from now on
    nanet_fw_init(&firmware_->state, &firmware_->bus);
    firmware_->begun = true;
  }
  while (top.fw_interrupt) {
    for (unsigned i = 0; i < options_.work_cycles; ++i) tick();
    if (!nanet_fw_step(&firmware_->state)) break;
    ++firmware_requests_;
  }
  waking_ = false;
}

void Model::run(std::uint64_t cycles) {
  const std::uint64_t until = cycle_ + cycles;
  while (cycle_ < until) {
    tick();
    if (card_->top.fw_interrupt) run_firmware();
  }
}

}  // namespace nanet::sim
