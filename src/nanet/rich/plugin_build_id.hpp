// SPDX-License-Identifier: Apache-2.0
// Build ID of plug-ins: version, hash of the headers that a plug-in is compiled against, ABI of the compiler.
// NANET_PLUGIN_BUILD_ID has the first two (cmake/plugin_build_id.cmake). Embedded by plugin/export_cpu.hpp,
// compared by plugins.cpp.
#pragma once

#include <array>
#include <cstddef>

namespace nanet::rich {
namespace abi {

// Changed by -fshort-enums and -fpack-struct.
enum Enumeration { zero };
struct Aligned {
  char first;
  double second;
};

}  // namespace abi

// Null-terminated, such as "0.1.0-3f2a9c04d1e7b586.884". After the point: size of a pointer, offset of an
// aligned double, size of an enumeration.
inline constexpr auto plugin_build_id = [] {
  constexpr char text[] = NANET_PLUGIN_BUILD_ID ".";
  std::array<char, sizeof text + 3> id{};
  std::size_t n = 0;
  for (; text[n] != 0; ++n) id[n] = text[n];
  for (const std::size_t size : {sizeof(void*), offsetof(abi::Aligned, second), sizeof(abi::Enumeration)})
    id[n++] = static_cast<char>('0' + size);
  return id;
}();

}  // namespace nanet::rich
