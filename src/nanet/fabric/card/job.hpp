// SPDX-License-Identifier: Apache-2.0
// Cards of a torus job: a process of this host plays them (`nanet torus serve`); ports are shared files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nanet/fabric/card/host.hpp"
#include "nanet/os/fd.hpp"

namespace nanet::fabric::card {

class Job final : public Host {
 public:
  // path: control file of the job. Throws std::system_error.
  explicit Job(const char* path);
  std::unique_ptr<Attachment> attach(const Address* wanted, const std::string& bell, bool direct) override;
  bool alive() const noexcept override;
  PeerState peer(std::uint32_t port) const noexcept override;
  bool rings() const noexcept override { return true; }

 private:
  friend class JobPort;
  wire::Control& control() const noexcept { return *reinterpret_cast<wire::Control*>(mapping_.at()); }
  std::uint32_t claim(const Address* wanted);
  // Wakes the process that plays the cards, if it sleeps.
  void wake() const noexcept;
  void changed() const noexcept;  // a port has changed its state

  std::string path_;
  wire::Mapping mapping_;
  wire::Process process_;
};

}  // namespace nanet::fabric::card
