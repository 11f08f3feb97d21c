// SPDX-License-Identifier: Apache-2.0
#include "nanet/card/xdp/xdp_program.hpp"

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "nanet/card/xdp/bpf.hpp"

namespace nanet::card::xdp {
namespace {

// linux/bpf.h of older systems lacks it.
constexpr std::uint32_t program_has_fragments = 1U << 5;  // BPF_F_XDP_HAS_FRAGS

[[noreturn]] void fail(const std::string& what, const std::string& remedy) {
  throw std::system_error(errno, std::generic_category(), what + " (" + remedy + ")");
}

constexpr char rights[] = "needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: grant them, or use --card socket";

enum Label : Assembler::Label { pass, redirect, stamp, next };

Assembler assemble(int map, std::span<const wire::Endpoint> endpoints) {
  constexpr std::int16_t data = offsetof(xdp_md, data), data_end = offsetof(xdp_md, data_end),
                         data_meta = offsetof(xdp_md, data_meta), queue = offsetof(xdp_md, rx_queue_index);
  constexpr unsigned context = 6, frame = 2, end = 3, at = 4, value = 5, address = 7;
  Assembler a;
  a.mov(context, 1);
  a.load(BPF_W, frame, context, data);
  a.load(BPF_W, end, context, data_end);
  a.mov(at, frame);
  a.add_value(at, wire::udp_frame_overhead);
  a.jump_greater(at, end, pass);
  a.load(BPF_H, value, frame, 12);
  a.jump_not_equal(value, htons(ETH_P_IP), pass);
  a.load(BPF_B, value, frame, 14);
  a.jump_not_equal(value, 0x45, pass);  // IPv4 without options
  a.load(BPF_B, value, frame, 23);
  a.jump_not_equal(value, IPPROTO_UDP, pass);
  a.load(BPF_H, value, frame, 20);
  a.and_value(value, htons(0x3FFF));  // fragments: more to come, or an offset
  a.jump_not_equal(value, 0, pass);
  a.load(BPF_H, value, frame, 36);
  a.load(BPF_W, address, frame, 30);
  for (const wire::Endpoint& endpoint : endpoints) {
    a.jump_not_equal(value, htons(endpoint.port), next);
    if (endpoint.address != 0) a.jump_not_equal(address, htonl(endpoint.address), next);
    a.jump(stamp);
    a.place(next);
  }
  a.jump(pass);
  a.place(stamp);
  a.mov(1, context);
  a.mov_value(2, -static_cast<std::int32_t>(sizeof(std::uint64_t)));
  a.call(BPF_FUNC_xdp_adjust_meta);
  a.jump_not_equal(0, 0, redirect);
  a.call(BPF_FUNC_ktime_get_ns);
  a.load(BPF_W, 2, context, data_meta);
  a.load(BPF_W, 3, context, data);
  a.mov(4, 2);
  a.add_value(4, sizeof(std::uint64_t));
  a.jump_greater(4, 3, redirect);
  a.store(BPF_DW, 2, 0, 0);
  a.place(redirect);
  a.load(BPF_W, 2, context, queue);
  a.load_map(1, map);
  a.mov_value(3, XDP_PASS);  // result for a queue without a socket
  a.call(BPF_FUNC_redirect_map);
  a.exit();
  a.place(pass);
  a.mov_value(0, XDP_PASS);
  a.exit();
  return a;
}

}  // namespace

os::Fd make_socket_map() {
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_XSKMAP;
  attributes.key_size = sizeof(std::uint32_t);
  attributes.value_size = sizeof(std::int32_t);
  attributes.max_entries = most_queues;
  os::Fd map(bpf(BPF_MAP_CREATE, attributes));
  if (!map) fail("cannot create the map of AF_XDP sockets", rights);
  return map;
}

void map_socket(int map, unsigned queue, int socket) {
  bpf_attr attributes{};
  attributes.map_fd = static_cast<std::uint32_t>(map);
  attributes.key = reinterpret_cast<std::uintptr_t>(&queue);
  attributes.value = reinterpret_cast<std::uintptr_t>(&socket);
  if (bpf(BPF_MAP_UPDATE_ELEM, attributes))
    fail("cannot add the AF_XDP socket of queue " + std::to_string(queue), rights);
}

os::Fd load_program(int map, std::span<const wire::Endpoint> endpoints) {
  if (endpoints.size() > most_endpoints)
    throw std::invalid_argument("card.listen: " + std::to_string(endpoints.size()) +
                                " addresses on one interface; the xdp card takes at most " +
                                std::to_string(most_endpoints));
  const Assembler program = assemble(map, endpoints);
  static constexpr char name[] = "nanet_xdp", license[] = "Apache-2.0";
  // Programs for multi-buffer (jumbo) frames are marked; kernels before 5.18 refuse the mark.
  for (const std::uint32_t flags : {program_has_fragments, 0U}) {
    bpf_attr attributes{};
    attributes.prog_type = BPF_PROG_TYPE_XDP;
    attributes.insns = reinterpret_cast<std::uintptr_t>(program.code().data());
    attributes.insn_cnt = static_cast<std::uint32_t>(program.code().size());
    attributes.license = reinterpret_cast<std::uintptr_t>(license);
    attributes.prog_flags = flags;
    std::memcpy(attributes.prog_name, name, sizeof name);
    if (os::Fd fd(bpf(BPF_PROG_LOAD, attributes)); fd) return fd;
    if (errno == EPERM) break;
  }
  fail("cannot load the XDP program", rights);
}

Attached attach(int program, unsigned interface, const std::string& name) {
  for (const bool native : {true, false}) {
    bpf_attr attributes{};
    attributes.link_create.prog_fd = static_cast<std::uint32_t>(program);
    attributes.link_create.target_ifindex = interface;
    attributes.link_create.attach_type = BPF_XDP;
    attributes.link_create.flags = native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
    if (os::Fd link(bpf(BPF_LINK_CREATE, attributes)); link) return {std::move(link), native};
    if (errno == EBUSY || errno == EEXIST)
      fail("interface " + name + " has another XDP program",
           "stop it, or detach it: ip link set dev " + name + " xdp off, or use --card socket");
    if (errno == EPERM) break;
  }
  fail("cannot attach the XDP program to interface " + name,
       errno == EOPNOTSUPP || errno == EINVAL ? "this interface has no XDP: use --card socket" : rights);
}

}  // namespace nanet::card::xdp
