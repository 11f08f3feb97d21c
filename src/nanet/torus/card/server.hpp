// SPDX-License-Identifier: Apache-2.0
// Process that plays the cards of a torus job: maps the ports' files, runs the cards while packets are under
// way, sleeps otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nanet/torus/card/cards.hpp"
#include "nanet/torus/card/layout.hpp"
#include "nanet/torus/card/memory.hpp"
#include "nanet/torus/model.hpp"
#include "nanet/units.hpp"

namespace nanet::torus::card {

struct ServerOptions {
  std::string path;  // of the control file; it must not exist
  ModelOptions model;
  std::string program;  // simulates the cards; empty: software over the model
};

class Server {
 public:
  // Creates the control file. std::invalid_argument with key, value and remedy; std::system_error;
  // std::runtime_error of the program.
  explicit Server(const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Plays the cards for a limited time. std::runtime_error if the program fails.
  void run(Nanoseconds limit);
  const Totals& totals() const { return control().totals; }
  std::uint64_t now() const { return cards_->now(); }
  std::span<const std::uint64_t> link_words() const { return model_.link_words(); }
  std::span<const std::uint64_t> link_resent() const { return model_.link_resent(); }
  Progress progress() const { return model_.progress(); }  // of the model
  void damage(std::span<const LinkErrors> errors) { model_.damage(errors); }
  std::uint32_t open_ports() const { return static_cast<std::uint32_t>(hosted_.size()); }

 private:
  struct Hosted {
    Mapping mapping;
    Process process;
    bool closing = false;
  };

  Control& control() const { return *reinterpret_cast<Control*>(mapping_.at()); }
  void scan();
  void admit(std::uint32_t port);
  void release_drained();
  void check_processes();
  bool busy();

  std::string path_;
  Lattice lattice_;
  Shape shape_;
  Mapping mapping_;
  Model model_;
  std::unique_ptr<Cards> cards_;
  std::map<std::uint32_t, Hosted> hosted_;
  std::uint32_t bell_seen_ = ~0u;
  Nanoseconds checked_ = 0;
  static constexpr unsigned never_run = ~0u;
  unsigned idle_ = never_run;
};

}  // namespace nanet::torus::card
