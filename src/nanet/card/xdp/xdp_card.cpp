// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/xdp/xdp_card.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <stdexcept>

#include "nanet/card/raw/raw_card.hpp"
#include "nanet/card/socket/socket_card.hpp"
#include "nanet/card/xdp/neighbours.hpp"
#include "nanet/card/xdp/xdp_program.hpp"
#include "nanet/card/xdp/xdp_socket.hpp"
#include "nanet/os/socket.hpp"

namespace nanet::card {
namespace {

using namespace xdp;

constexpr std::uint32_t send_slots = 1024;
constexpr std::uint32_t fewest_slots = 2048, most_slots = 32768;  // of a queue

// An interface with its program. The program is detached before its sockets close.
struct Attachment {
  Interface interface;
  std::vector<wire::Endpoint> endpoints;
  std::vector<XdpSocket*> sockets;
  os::Fd map, program, link;
};

// A queue of an attachment; owns its share of it.
class Queue final : public FrameSource {
 public:
  Queue(std::shared_ptr<Attachment> attachment, std::unique_ptr<XdpSocket> socket)
      : socket_(std::move(socket)), attachment_(std::move(attachment)) {}
  std::size_t take(std::span<Arrival> out, std::vector<std::byte>& joined) noexcept override {
    return socket_->take(out, joined);
  }
  void give_back(std::size_t frames) noexcept override { socket_->give_back(frames); }
  int wait_fd() const noexcept override { return socket_->wait_fd(); }
  std::uint64_t drops() noexcept override { return socket_->drops(); }
  double backlog() const noexcept override { return socket_->backlog(); }

 private:
  std::unique_ptr<XdpSocket> socket_;
  std::shared_ptr<Attachment> attachment_;
};

// Sends Ethernet frames through queue 0 of the interface. A destination whose next hop is unknown, or is
// behind another interface, takes the kernel's socket, which resolves the next hop.
class XdpTransmit final : public Transmit {
 public:
  XdpTransmit(const std::vector<wire::Endpoint>& destinations, const Attachment& attachment,
              const wire::Endpoint& local, Counters* const& counters)
      : destinations_(destinations),
        socket_(*attachment.sockets.front()),
        mac_(attachment.interface.mac),
        counters_(counters),
        kernel_(open_transmit(destinations, counters)),
        neighbours_(addresses(destinations), attachment.interface.index) {
    for (const auto& d : destinations) {
      const auto route = route_to(d.address);
      sources_.push_back({route && route->source ? route->source : local.address, local.port});
    }
  }
  std::uint32_t destinations() const noexcept override { return kernel_->destinations(); }

  std::size_t send(std::span<const Datagram> batch) noexcept override {
    std::size_t done = 0;
    for (; done < batch.size(); ++done) {
      const Datagram& d = batch[done];
      const auto mac = destinations_.empty() ? std::nullopt : neighbours_.found(d.destination);
      if (!mac || d.bytes + wire::udp_frame_overhead > XdpSocket::slot_bytes) {
        if (kernel_->send({&d, 1}) == 0) break;
        continue;
      }
      std::byte* const frame = socket_.send_slot();
      if (!frame) break;  // all slots are under way: retry later
      const std::size_t bytes = wire::build_udp_frame(frame, sources_[d.destination],
                                                      destinations_[d.destination], {d.data, d.bytes}, ++id_);
      std::memcpy(frame, mac->data(), mac->size());
      std::memcpy(frame + mac->size(), mac_.data(), mac_.size());
      socket_.queue_frame(bytes);
    }
    if (socket_.kick() != 0 && counters_) ++counters_->send_errors;
    return done;
  }

 private:
  static std::vector<std::uint32_t> addresses(const std::vector<wire::Endpoint>& endpoints) {
    std::vector<std::uint32_t> out;
    for (const auto& endpoint : endpoints) out.push_back(endpoint.address);
    return out;
  }

  std::vector<wire::Endpoint> destinations_, sources_;
  XdpSocket& socket_;
  Mac mac_;
  Counters* const& counters_;
  std::unique_ptr<Transmit> kernel_;
  Neighbours neighbours_;
  std::uint16_t id_ = 0;
};

std::uint32_t slots_of(int buffer_bytes, unsigned queues) {
  const auto slots =
      static_cast<std::uint32_t>(static_cast<std::size_t>(buffer_bytes) / XdpSocket::slot_bytes / queues);
  return std::clamp(std::bit_floor(std::max(slots, 1U)), fewest_slots, most_slots);
}

// Larger packets arrive as fragments, which pass the kernel's sockets, or not at all.
void check_mtu(const Interface& interface, std::size_t payload) {
  constexpr std::size_t headers = 20 + 8;  // IPv4, UDP
  const std::size_t needed = payload + headers;
  if (interface.mtu == 0 || interface.mtu >= needed) return;
  throw std::invalid_argument("interface " + interface.name + ": MTU " + std::to_string(interface.mtu) +
                              " is smaller than packets of " + std::to_string(payload) +
                              " bytes (--max-payload); raise it: ip link set " + interface.name + " mtu " +
                              std::to_string(needed) + ", or use --card socket");
}

using Downs = std::vector<std::pair<std::string, std::uint64_t>>;
Downs downs_of(const std::map<unsigned, std::shared_ptr<Attachment>>& attachments) {
  Downs downs;
  for (const auto& [index, attachment] : attachments)
    downs.emplace_back(attachment->interface.name, times_down(attachment->interface.name));
  return downs;
}

}  // namespace

RawPort open_xdp_port(const ClopOptions& options, Counters* const& counters) {
  RawPort port;
  std::map<unsigned, std::shared_ptr<Attachment>> attachments;  // by interface
  os::UdpReceiveOptions receive;
  receive.buffer_bytes = options.socket_buffer_bytes;
  receive.overflow_count = false;
  for (const auto& endpoint : options.listen) {
    const Interface interface = interface_of(endpoint.address);
    check_mtu(interface, options.rules.max_payload);
    port.sockets.push_back(os::open_udp_receiver(endpoint, receive));
    port.local.push_back(os::local_endpoint(port.sockets.back().get()));
    auto& attachment = attachments[interface.index];
    if (!attachment) attachment = std::make_shared<Attachment>(Attachment{interface, {}, {}, {}, {}, {}});
    attachment->endpoints.push_back(port.local.back());
  }
  const Attachment* first = nullptr;
  for (const auto& [index, attachment] : attachments) {
    const unsigned queues = receive_queues(attachment->interface.name);
    if (queues > most_queues)
      throw std::invalid_argument("interface " + attachment->interface.name + " has " +
                                  std::to_string(queues) + " receive queues; reduce them: ethtool -L " +
                                  attachment->interface.name + " combined " + std::to_string(most_queues));
    attachment->map = make_socket_map();
    for (unsigned queue = 0; queue < queues; ++queue) {
      auto socket = std::make_unique<XdpSocket>(SocketOptions{index, attachment->interface.name, queue,
                                                              slots_of(options.socket_buffer_bytes, queues),
                                                              queue ? 16 : send_slots, options.busy_poll_us});
      map_socket(attachment->map.get(), queue, socket->wait_fd());
      attachment->sockets.push_back(socket.get());
      port.sources.push_back(std::make_unique<Queue>(attachment, std::move(socket)));
    }
    attachment->program = load_program(attachment->map.get(), attachment->endpoints);
    attachment->link = attach(attachment->program.get(), index, attachment->interface.name).link;
    if (!first) first = attachment.get();
  }
  port.figures = [downs = downs_of(attachments)] {
    double count = 0;
    for (const auto& [name, before] : downs) count += static_cast<double>(times_down(name) - before);
    return std::vector<std::pair<std::string, double>>{{"interface_downs", count}};
  };
  port.transmit =
      first ? std::make_unique<XdpTransmit>(options.destinations, *first, port.local.front(), counters)
            : open_transmit(options.destinations, counters);
  return port;
}

std::unique_ptr<Card> open_xdp_card() {
  return std::make_unique<RawCard>("xdp", open_xdp_port);
}

}  // namespace nanet::card
