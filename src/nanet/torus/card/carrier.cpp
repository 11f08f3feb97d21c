// SPDX-License-Identifier: Apache-2.0
#include "nanet/torus/card/carrier.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

extern char** environ;

namespace nanet::torus::card {

void ModelCarrier::send(std::uint32_t id, WirePacket& packet) {
  const Header h = decode_header(packet.header);
  model_.send(packet.from, lattice_.index(coordinates(h.to)), h.length, id);
}

ProgramCarrier::ProgramCarrier(const std::string& program, const Lattice& lattice)
    : queued_(lattice.nodes()) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
    throw std::runtime_error("cannot create pipes for " + program);
  to_ = os::Fd(to[1]);
  from_ = os::Fd(from[0]);
  const os::Fd in(to[0]), out(from[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  std::array<std::string, 4> text{program, std::to_string(lattice.size[0]), std::to_string(lattice.size[1]),
                                  std::to_string(lattice.size[2])};
  std::array<char*, 5> arguments{text[0].data(), text[1].data(), text[2].data(), text[3].data(), nullptr};
  const int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error(program + ": " + std::strerror(error));
  answer_header();  // the links are up
}

// The program ends with its input.
ProgramCarrier::~ProgramCarrier() {
  to_.reset();
  from_.reset();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

void ProgramCarrier::read(void* to, std::size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const ssize_t got = ::read(from_.get(), at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::runtime_error("the simulated torus has ended");
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

// Packets in the answer.
std::uint32_t ProgramCarrier::answer_header() {
  under_way_ = take<std::uint32_t>();
  now_ = take<std::uint64_t>();
  return take<std::uint32_t>();
}

void ProgramCarrier::send(std::uint32_t id, WirePacket& packet) {
  if (out_.empty()) append(std::uint32_t{0});
  const std::span<const Word> payload = packet.words();
  append(id);
  append(packet.from);
  append(static_cast<std::uint32_t>(payload.size() + 2));
  append(packet.header);
  const auto bytes = std::as_bytes(payload);
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  append(packet.footer);
  if (id >= packets_.size()) packets_.resize(id + 1);
  packets_[id] = &packet;
  ++queued_[packet.from];
  ++fresh_;
  ++under_way_;
}

bool ProgramCarrier::step(std::uint32_t cycles, std::vector<Arrival>& arrivals) {
  if (under_way_ == 0) return false;
  if (out_.empty()) append(std::uint32_t{0});
  std::memcpy(out_.data(), &fresh_, sizeof fresh_);
  append(cycles);
  fresh_ = 0;
  for (std::size_t done = 0; done < out_.size();) {
    const ssize_t put = write(to_.get(), out_.data() + done, out_.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw std::runtime_error("the simulated torus has ended");
    done += static_cast<std::size_t>(put);
  }
  out_.clear();
  for (std::uint32_t count = answer_header(); count > 0; --count) {
    Arrival arrival;
    arrival.id = take<std::uint32_t>();
    const auto words = take<std::uint32_t>();
    arrival.created = take<std::uint64_t>();
    arrival.tail = take<std::uint64_t>();
    if (arrival.id >= packets_.size() || packets_[arrival.id] == nullptr || words < 2 ||
        words - 2 > packets_[arrival.id]->payload.size())
      throw std::runtime_error("the simulated torus has delivered a packet that was not sent");
    WirePacket& packet = *packets_[arrival.id];
    read(&packet.header, sizeof packet.header);
    read(packet.payload.data(), (words - 2) * sizeof(Word));
    read(&packet.footer, sizeof packet.footer);
    --queued_[packet.from];
    packets_[arrival.id] = nullptr;
    arrivals.push_back(arrival);
  }
  return true;
}

}  // namespace nanet::torus::card
