// SPDX-License-Identifier: Apache-2.0
// Probes of `nanet bench`: ping-pong client and bare echo, receivers of equal load, contract consumers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "nanet/os/fd.hpp"
#include "nanet/stats/histogram.hpp"
#include "nanet/wire/ethernet.hpp"

namespace nanet::bench {

struct PingOptions {
  wire::Endpoint to;
  std::uint64_t samples = 200'000;
  double seconds = 0;  // ends earlier after this time; 0: no limit
  std::uint64_t warm_up = 2'000;
  unsigned events = 16;  // per packet, fixed slots: 16 + 72 x events bytes
  unsigned packets = 1;  // per round trip, at most 16; the last carries b5
  double gap_us = 0;     // pause between round trips
  int cpu = -1;
};
struct PingResult {
  std::uint64_t samples = 0;
  std::uint64_t lost = 0;   // no answer within a second
  std::uint64_t wrong = 0;  // answers to a different frame
  stats::Histogram round_trip;
};
// Round trip of one frame of a merged stream: sends its packets, then spins until the MTP packet of this
// frame arrives.
class Ping {
 public:
  Ping();  // opens the socket for answers
  std::uint16_t reply_port() const noexcept { return reply_port_; }
  // echo: any datagram is an answer. Otherwise the answer must be an MTP packet of the frame with one
  // primitive per event.
  void run(const PingOptions& options, bool echo, PingResult& result);

 private:
  os::Fd socket_;
  std::uint16_t reply_port_ = 0;
};

// Path of the bare echo: a socket read without blocking, a blocking read, a blocking read with busy polling,
// or AF_XDP in both directions.
enum class EchoPath : std::uint8_t { spinning, blocking, busy_poll, xdp };
struct EchoOptions {
  EchoPath path = EchoPath::spinning;
  wire::Endpoint listen{0, 0};  // xdp: an address of the interface
  wire::Endpoint reply;         // xdp: destination of the answers
  int cpu = -1;
};
// Echoes every datagram to its sender: baseline for the round-trip time of the host.
class Echo {
 public:
  // Throws std::system_error; xdp: also std::invalid_argument.
  explicit Echo(const EchoOptions& options = {});
  ~Echo();
  std::uint16_t port() const noexcept { return port_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

enum class ReceiverKind : std::uint8_t { recvmmsg, recvmmsg_gro, card, xdp_card };
struct ReceiveResult {
  std::uint64_t packets = 0, bytes = 0, overflow = 0;
  double cpu_s = 0, elapsed_s = 0;
};
// Measures the CPU time per received packet: receives in the calling thread until half a second of silence.
// Kinds `card` and `xdp_card` are the complete receive path of the socket and the XDP card in gather mode
// frame: validation, placement, events. Their consumer returns the buffers.
class ReceiveProbe {
 public:
  // listen: port 0 takes a free one.
  explicit ReceiveProbe(ReceiverKind kind, const wire::Endpoint& listen = {0x7F000001, 0});
  ~ReceiveProbe();
  std::uint16_t port() const noexcept { return port_; }
  ReceiveResult run();

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::uint16_t port_ = 0;
};

// Load for all receivers: frames of four boards, datagrams padded to `payload` bytes, at a fixed rate.
struct BlastOptions {
  wire::Endpoint to;
  unsigned payload = 1168;
  double seconds = 3;
  double packets_per_s = 100e3;
  bool segment = false;  // UDP_SEGMENT trains
};
std::uint64_t blast(const BlastOptions& options);  // returns the number of packets sent

// Historic measurement: one program registers buffers of P payloads, sends P packets, waits for the event and
// checks the data.
struct BandwidthResult {
  double bytes_per_s = 0, packets_per_s = 0;       // two buffers in flight
  std::uint64_t buffers = 0, wrong = 0, lost = 0;  // wrong: buffers with incorrect bytes
  stats::Histogram latency;                        // from the first send to the event, one buffer in flight
};
void bandwidth(unsigned payload, unsigned packets_per_buffer, double seconds, BandwidthResult& result);

// Copy rate in bytes per second (each byte counted once), in blocks of `block` bytes through working sets of
// `total` bytes.
double copy_rate(std::size_t block, std::size_t total, double seconds);

}  // namespace nanet::bench
