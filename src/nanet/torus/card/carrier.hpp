// SPDX-License-Identifier: Apache-2.0
// Networks that carry packets between the cards of a torus job: the torus model, or another program with
// simulated gateware.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nanet/os/fd.hpp"
#include "nanet/torus/model.hpp"
#include "nanet/torus/packet.hpp"

namespace nanet::torus::card {

// Packet on its way.
struct WirePacket {
  Word header, footer;
  std::array<Word, max_payload_bytes / word_bytes> payload;
  std::uint32_t from = 0;   // node
  std::uint32_t owner = 0;  // port whose ring it comes from
  std::span<const Word> words() const { return {payload.data(), decode_header(header).payload_words()}; }
};

class Carrier {
 public:
  virtual ~Carrier() = default;
  // Sends a packet, which stays in place until it arrives.
  virtual void send(std::uint32_t id, WirePacket& packet) = 0;
  // Runs until packets are delivered, for at most `cycles`; false: the network is empty, its clock stops.
  // Throws std::runtime_error if the network fails.
  virtual bool step(std::uint32_t cycles, std::vector<Arrival>& arrivals) = 0;
  virtual std::uint32_t waiting(std::uint32_t node) const = 0;  // packets that have not entered the network
  virtual std::uint64_t now() const = 0;
};

// The event-driven model: moves no bytes, the packets stay in place.
class ModelCarrier final : public Carrier {
 public:
  explicit ModelCarrier(Model& model, const Lattice& lattice) : model_(model), lattice_(lattice) {
    model.open();
  }
  void send(std::uint32_t id, WirePacket& packet) override;
  bool step(std::uint32_t cycles, std::vector<Arrival>& arrivals) override {
    return model_.step(cycles, arrivals);
  }
  std::uint32_t waiting(std::uint32_t node) const override { return model_.waiting(node); }
  std::uint64_t now() const override { return model_.now(); }

 private:
  Model& model_;
  Lattice lattice_;
};

// A program that takes packets from its standard input and returns their words
// (gateware/sim/torus_carrier.cpp).
class ProgramCarrier final : public Carrier {
 public:
  // Throws std::runtime_error.
  ProgramCarrier(const std::string& program, const Lattice& lattice);
  ~ProgramCarrier() override;
  void send(std::uint32_t id, WirePacket& packet) override;
  bool step(std::uint32_t cycles, std::vector<Arrival>& arrivals) override;
  std::uint32_t waiting(std::uint32_t node) const override { return queued_[node]; }
  std::uint64_t now() const override { return now_; }

 private:
  void read(void* to, std::size_t bytes);
  std::uint32_t answer_header();
  template <class T>
  T take() {
    T value{};
    read(&value, sizeof value);
    return value;
  }
  template <class T>
  void append(const T& value) {
    const auto* const at = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), at, at + sizeof value);
  }

  pid_t pid_ = -1;
  os::Fd to_, from_;
  std::vector<std::byte> out_;
  std::vector<WirePacket*> packets_;   // by number, while under way
  std::vector<std::uint32_t> queued_;  // by node: sent and not delivered
  std::uint32_t fresh_ = 0, under_way_ = 0;
  std::uint64_t now_ = 0;
};

}  // namespace nanet::torus::card
