// SPDX-License-Identifier: Apache-2.0
// Cards of all nodes of a torus job: network interfaces in software over the torus model, or the gateware,
// simulated by another program.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nanet/os/fd.hpp"
#include "nanet/torus/card/carrier.hpp"
#include "nanet/torus/card/interface.hpp"
#include "nanet/torus/card/layout.hpp"
#include "nanet/torus/card/memory.hpp"

namespace nanet::torus::card {

class Cards {
 public:
  virtual ~Cards() = default;
  virtual void attach(std::uint32_t port, std::uint16_t domain, std::uint32_t pid, const PortMemory& memory,
                      const DomainMemory& access) = 0;
  virtual void detach(std::uint32_t port) = 0;
  // Nothing is posted, and no packet of the port is on its way.
  virtual bool drained(std::uint32_t port) = 0;
  // Runs for a short time. False: nothing happened, and nothing is under way. Throws std::runtime_error if
  // the program has ended.
  virtual bool turn() = 0;
  // No turn had work: messages without an answer have timed out.
  virtual void quiet() = 0;
  virtual std::uint64_t now() const = 0;
};

class ModelCards final : public Cards {
 public:
  ModelCards(Model& model, const Lattice& lattice, const Shape& shape, Totals& totals)
      : carrier_(model, lattice), interfaces_(carrier_, lattice, shape, totals) {}
  void attach(std::uint32_t port, std::uint16_t domain, std::uint32_t pid, const PortMemory& memory,
              const DomainMemory& access) override;
  void detach(std::uint32_t port) override { interfaces_.detach(port); }
  bool drained(std::uint32_t port) override { return interfaces_.drained(port); }
  bool turn() override;
  void quiet() override { interfaces_.quiet(); }
  std::uint64_t now() const override { return carrier_.now(); }

 private:
  Carrier carrier_;
  Interfaces interfaces_;
  std::vector<Arrival> arrivals_;
};

// gateware/sim/torus_cards.cpp: it maps the ports' files itself.
class ProgramCards final : public Cards {
 public:
  // Throws std::runtime_error.
  ProgramCards(const std::string& program, const Lattice& lattice, const std::string& control);
  ~ProgramCards() override;
  void attach(std::uint32_t port, std::uint16_t domain, std::uint32_t pid, const PortMemory& memory,
              const DomainMemory& access) override;
  void detach(std::uint32_t port) override;
  bool drained(std::uint32_t port) override;
  bool turn() override;
  void quiet() override {}  // the program times messages out
  std::uint64_t now() const override { return now_; }

 private:
  enum class Command : std::uint32_t { attach = 1, detach = 2, run = 3, drained = 4 };
  void send(const std::vector<std::uint32_t>& words);
  void read(void* to, std::size_t bytes);
  bool ran();

  pid_t pid_ = -1;
  os::Fd to_, from_;
  std::uint64_t now_ = 0;
};

}  // namespace nanet::torus::card
