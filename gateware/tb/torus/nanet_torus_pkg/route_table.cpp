// SPDX-License-Identifier: SHL-2.1
// Table of the verilated route(): for every line "x y z from code balanced xyz" of standard input, one
// 16-bit word for each pair of nodes, X fastest, destinations inside sources; bits as torus_route_t.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "Vdut.h"

int main() {
  VerilatedContext context;
  Vdut table(&context);
  int size[3];
  int from, code, balanced, xyz;
  while (std::scanf("%d %d %d %d %d %d %d", &size[0], &size[1], &size[2], &from, &code, &balanced, &xyz) ==
         7) {
    table.size = static_cast<unsigned>(size[0] | size[1] << 7 | size[2] << 13);
    table.from = static_cast<unsigned char>(from);
    table.code = static_cast<unsigned char>(code);
    table.balanced = balanced != 0;
    table.xyz = xyz != 0;
    std::vector<std::uint16_t> nodes, row;
    for (int z = 0; z < size[2]; ++z) {
      for (int y = 0; y < size[1]; ++y) {
        for (int x = 0; x < size[0]; ++x) nodes.push_back(static_cast<std::uint16_t>(x | y << 6 | z << 11));
      }
    }
    for (const auto me : nodes) {
      row.clear();
      for (const auto to : nodes) {
        table.me = me;
        table.to = to;
        table.eval();
        row.push_back(table.way);
      }
      std::fwrite(row.data(), sizeof row[0], row.size(), stdout);
    }
  }
}
