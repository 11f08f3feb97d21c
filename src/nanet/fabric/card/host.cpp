// SPDX-License-Identifier: Apache-2.0
#include "nanet/fabric/card/host.hpp"

namespace nanet::fabric::card {

bool Host::find(Address a, std::uint32_t& port) const noexcept {
  if (a.x >= lattice.size[0] || a.y >= lattice.size[1] || a.z >= lattice.size[2] || a.reserved != 0 ||
      a.port >= shape.ports / lattice.nodes())
    return false;
  port = wire::port_of(lattice, {a.x, a.y, a.z}, a.port);
  return true;
}

Address Host::address(std::uint32_t port) const noexcept {
  const wire::Place place = wire::place_of(lattice, port);
  Address a;
  a.x = place.node[0];
  a.y = place.node[1];
  a.z = place.node[2];
  a.port = place.intra;
  return a;
}

void prepare(const wire::PortMemory& memory, const wire::Shape& shape, std::uint16_t domain) {
  const wire::Offsets offsets(shape);
  memory.header->posted = shape.slots;
  const auto entry = [&](unsigned k, std::size_t at, std::size_t bytes, std::uint8_t rights) {
    torus::RegisteredBuffer& b = memory.table[k];
    b.address = wire::file_window + at;
    b.bytes = bytes;
    b.domain = domain;
    b.rights = rights;
    b.valid = 1;
  };
  entry(0, offsets.staging, offsets.answers - offsets.staging, 0);
  entry(1, offsets.credits, sizeof(std::uint32_t) * wire::max_ports, torus::right::remote_write);
  entry(2, offsets.keys, sizeof(wire::KeyEntry) * wire::key_entries, torus::right::remote_read);
  entry(3, offsets.answers, offsets.bytes - offsets.answers, 0);
  memory.header->table_used = wire::file_entries;
}

}  // namespace nanet::fabric::card
