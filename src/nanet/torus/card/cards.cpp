// SPDX-License-Identifier: Apache-2.0
#include "nanet/torus/card/cards.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

extern char** environ;

namespace nanet::torus::card {

namespace {

constexpr std::uint32_t slice = 4096;         // cycles between two looks at the put rings
constexpr std::uint32_t program_slice = 256;  // the program looks in every cycle

}  // namespace

// ------------------------------------------------------------------------------------------------- model

void ModelCards::attach(std::uint32_t port, std::uint16_t domain, std::uint32_t /*pid*/,
                        const PortMemory& memory, const DomainMemory& access) {
  interfaces_.attach(port, domain, memory, access);
}

bool ModelCards::turn() {
  bool any = interfaces_.transmit();
  arrivals_.clear();
  any |= carrier_.step(slice, arrivals_);
  for (const Arrival& arrival : arrivals_) interfaces_.receive(arrival);
  return any || !arrivals_.empty();
}

// ------------------------------------------------------------------------------------------------- program

ProgramCards::ProgramCards(const std::string& program, const Lattice& lattice, const std::string& control) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0) throw std::runtime_error("cannot create pipes for " + program);
  to_ = os::Fd(to[1]);
  const os::Fd in(to[0]);
  if (pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error("cannot create pipes for " + program);
  from_ = os::Fd(from[0]);
  const os::Fd out(from[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  std::array<std::string, 5> text{program, std::to_string(lattice.size[0]), std::to_string(lattice.size[1]),
                                  std::to_string(lattice.size[2]), control};
  std::array<char*, 6> arguments{};
  for (std::size_t k = 0; k < text.size(); ++k) arguments[k] = text[k].data();
  const int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error(program + ": " + std::strerror(error));
  ran();  // the links are up
}

// The program ends with its input.
ProgramCards::~ProgramCards() {
  to_.reset();
  from_.reset();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

void ProgramCards::send(const std::vector<std::uint32_t>& words) {
  const std::size_t bytes = words.size() * sizeof(std::uint32_t);  // less than a pipe takes at once
  if (write(to_.get(), words.data(), bytes) != static_cast<ssize_t>(bytes))
    throw std::runtime_error("the simulated torus has ended");
}

void ProgramCards::read(void* to, std::size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const ssize_t got = ::read(from_.get(), at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::runtime_error("the simulated torus has ended");
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

bool ProgramCards::ran() {
  std::uint32_t under_way = 0;
  read(&under_way, sizeof under_way);
  read(&now_, sizeof now_);
  return under_way != 0;
}

void ProgramCards::attach(std::uint32_t port, std::uint16_t domain, std::uint32_t pid,
                          const PortMemory& /*memory*/, const DomainMemory& /*access*/) {
  send({static_cast<std::uint32_t>(Command::attach), port, domain, pid});
}

void ProgramCards::detach(std::uint32_t port) {
  send({static_cast<std::uint32_t>(Command::detach), port});
}

bool ProgramCards::drained(std::uint32_t port) {
  send({static_cast<std::uint32_t>(Command::drained), port});
  std::uint32_t result = 0;
  read(&result, sizeof result);
  return result != 0;
}

bool ProgramCards::turn() {
  send({static_cast<std::uint32_t>(Command::run), program_slice});
  return ran();
}

}  // namespace nanet::torus::card
