// SPDX-License-Identifier: Apache-2.0
#include "nanet/rich/simd.hpp"

#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <utility>

// Tables of reconstructors.cpp. The build renames those of the variants (cmake/simd.cmake).
extern "C" {
#ifdef NANET_SIMD_BASELINE
const nanet::rich::MakeReconstructor* nanet_reconstructors();
#endif
#ifdef NANET_SIMD_VARIANTS
const nanet::rich::MakeReconstructor* nanet_reconstructors_avx2() __asm__("nanet_reconstructors.avx2");
const nanet::rich::MakeReconstructor* nanet_reconstructors_avx512() __asm__("nanet_reconstructors.avx512");
#endif
}

namespace nanet::rich {
namespace {

#ifdef NANET_SIMD_VARIANTS
std::string missing_of(std::initializer_list<std::pair<const char*, bool>> sets) {
  std::string missing;
  for (const auto& [name, has] : sets) {
    if (has) continue;
    if (!missing.empty()) missing += ' ';
    missing += name;
  }
  return missing;
}
#endif

std::vector<SimdVariant> make_variants() {
  std::vector<SimdVariant> variants;
#ifdef NANET_SIMD_BASELINE
  variants.push_back({"baseline", "", nanet_reconstructors});
#endif
#ifdef NANET_SIMD_VARIANTS
#define NANET_CPU_HAS(set) {set, __builtin_cpu_supports(set) != 0}
  variants.push_back(
      {"avx2",
       missing_of({NANET_CPU_HAS("avx2"), NANET_CPU_HAS("fma"), NANET_CPU_HAS("bmi"), NANET_CPU_HAS("bmi2")}),
       nanet_reconstructors_avx2});
  variants.push_back(
      {"avx512",
       missing_of({NANET_CPU_HAS("avx512f"), NANET_CPU_HAS("avx512bw"), NANET_CPU_HAS("avx512cd"),
                   NANET_CPU_HAS("avx512dq"), NANET_CPU_HAS("avx512vl")}),
       nanet_reconstructors_avx512});
#undef NANET_CPU_HAS
#endif
  return variants;
}

[[noreturn]] void refuse(std::string_view name, const std::string& reason,
                         std::span<const SimdVariant> variants) {
  std::string text = "NANET_SIMD = " + std::string(name) + ": " + reason + "; unset it, or choose one of:";
  for (const SimdVariant& variant : variants)
    if (variant.missing.empty()) text += ' ' + std::string(variant.name);
  throw std::invalid_argument(text);
}

}  // namespace

std::span<const SimdVariant> simd_variants() {
  static const std::vector<SimdVariant> variants = make_variants();
  return variants;
}

const SimdVariant& choose_simd(std::string_view name, std::span<const SimdVariant> variants) {
  const SimdVariant* chosen = nullptr;
  for (const SimdVariant& variant : variants) {
    if (name.empty()) {
      if (variant.missing.empty()) chosen = &variant;
    } else if (variant.name == name) {
      chosen = &variant;
    }
  }
  if (!chosen && name.empty())
    throw std::invalid_argument("NANET_SIMD: no variant of this build runs on this CPU, which lacks " +
                                variants.front().missing + "; build with -DNANET_ARCH=x86-64");
  if (!chosen) refuse(name, "is not in this build", variants);
  if (!chosen->missing.empty()) refuse(name, "this CPU lacks " + chosen->missing, variants);
  return *chosen;
}

const SimdVariant& simd() {
  static const SimdVariant& chosen = [&]() -> const SimdVariant& {
    const char* const name = std::getenv("NANET_SIMD");  // NOLINT(concurrency-mt-unsafe): read once
    return choose_simd(name ? name : "");
  }();
  return chosen;
}

std::vector<std::string> simd_names() {
  std::vector<std::string> names;
  for (const SimdVariant& variant : simd_variants())
    if (variant.missing.empty()) names.emplace_back(variant.name);
  return names;
}

}  // namespace nanet::rich
