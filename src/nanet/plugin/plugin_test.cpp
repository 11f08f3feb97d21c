// SPDX-License-Identifier: Apache-2.0
// Tests of plug-ins built as by a user: results, parameters, refusals.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "nanet/rich/algorithm.hpp"
#include "nanet/rich/plugins.hpp"
#include "nanet/trigger/decide/decide.hpp"

namespace nanet::plugin {
namespace {

std::string file(const std::string& name) {
  return std::string(PLUGIN_DIR) + "/test_" + name + ".so";
}

std::string refusal(const std::string& path, const rich::Parameters& parameters = {}) {
  try {
    rich::make_reconstructor(path, parameters, rich::Geometry::make());
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// Events of distinct PMs in ascending order.
struct Events {
  std::vector<std::uint32_t> first{0};
  std::vector<PmId> pm;
  explicit Events(unsigned count) {
    std::mt19937 random(5);
    for (unsigned e = 0; e < count; ++e) {
      const auto step = 1 + static_cast<unsigned>(random() % 400);
      for (unsigned p = static_cast<unsigned>(random() % step);
           p < pm_count && pm.size() - first.back() < 128; p += step)
        pm.push_back(static_cast<PmId>(p));
      first.push_back(static_cast<std::uint32_t>(pm.size()));
    }
  }
  rich::EventBatch batch() const {
    return {static_cast<std::uint32_t>(first.size() - 1), first.data(), pm.data()};
  }
};

TEST(Plugin, DecidesWithoutRings) {
  const rich::Geometry geometry = rich::Geometry::make();
  const auto multiplicity =
      rich::make_reconstructor(file("multiplicity"), {{"cut", 10}, {"inner_mm", 200}}, geometry);
  EXPECT_EQ(multiplicity->name(), "multiplicity");
  const Events events(2000);
  std::vector<rich::Rings> rings(2000);
  (*multiplicity->clone())(events.batch(), rings.data());
  unsigned fired = 0, fired_inner = 0;
  for (std::uint32_t e = 0; e < 2000; ++e) {
    const rich::EventView view = events.batch().view(e);
    unsigned inner = 0;
    for (std::uint32_t i = 0; i < view.hits; ++i) {
      const rich::Point p = geometry.common[view.pm[i]];
      inner += p.x * p.x + p.y * p.y < 40000.0f;
    }
    const unsigned expected =
        (view.hits >= 10 ? 0x200u : 0u) | (inner >= 12 ? 0x100u : 0u) | std::min(view.hits, 63u);
    fired += view.hits >= 10;
    fired_inner += inner >= 12;
    ASSERT_EQ(rings[e].count, 0);
    ASSERT_EQ(trigger::decide(rings[e], view.hits, false, {}), 0x4000u | expected);
    ASSERT_EQ(trigger::decide(rings[e], view.hits, true, {}), 0x4080u | expected);
  }
  EXPECT_GT(fired, 100u);
  EXPECT_GT(fired_inner, 20u);
}

TEST(Plugin, WorksWithAWarpForEachEvent) {
  const Events events(200);
  std::vector<rich::Rings> own(200), plugged(200);
  const rich::Geometry geometry = rich::Geometry::make();
  (*rich::make_reconstructor("almagest", {{"triplets", 64}}, geometry))(events.batch(), own.data());
  (*rich::make_reconstructor(file("wide"), {{"triplets", 64}}, geometry))(events.batch(), plugged.data());
  unsigned rings = 0;
  for (unsigned e = 0; e < 200; ++e) {
    ASSERT_EQ(plugged[e].count, own[e].count);
    rings += own[e].count;
    for (unsigned r = 0; r < own[e].count; ++r) {
      ASSERT_EQ(plugged[e].ring[r].r, own[e].ring[r].r);
      ASSERT_EQ(plugged[e].ring[r].chi2_ndf, own[e].ring[r].chi2_ndf);
    }
  }
  EXPECT_GT(rings, 10u);
}

TEST(Plugin, IsKnownByItsNameOnceLoaded) {
  const rich::Plugin& plugin = rich::load_plugin(file("multiplicity"));
  EXPECT_EQ(&plugin, rich::find_plugin("multiplicity"));
  EXPECT_EQ(&plugin, &rich::load_plugin(std::string(PLUGIN_DIR) + "/./test_multiplicity.so"));
  EXPECT_EQ(rich::find_plugin("multi"), nullptr);
  const auto parameters = rich::algorithm_parameters("multiplicity");
  ASSERT_EQ(parameters.size(), 3u);
  EXPECT_EQ(parameters[2].name, "inner_mm");
  EXPECT_EQ(parameters[2].value, 150.0);
  EXPECT_EQ(parameters[2].high, 1000.0);
  for (const std::string& name : rich::algorithm_names()) EXPECT_NE(name, "multiplicity");
}

TEST(Plugin, ParametersAreCheckedAsThoseOfAllAlgorithms) {
  const std::string path = file("multiplicity");
  EXPECT_EQ(refusal(path, {{"cat", 3}}),
            "algorithm.multiplicity.cat = 3: no such parameter; choose one of: cut inner_cut inner_mm");
  EXPECT_EQ(refusal(path, {{"cut", 0}}), "algorithm.multiplicity.cut = 0: must be from 1 to 128");
  EXPECT_EQ(refusal("multiplicity", {{"cut", 2.5}}),
            "algorithm.multiplicity.cut = 2.5: must be a whole number");
}

TEST(Plugin, WhatDoesNotFitIsRefused) {
  const auto expect = [](const std::string& name, const std::string& sentence) {
    const std::string said = refusal(file(name));
    EXPECT_EQ(said.find("algorithm = " + file(name) + ": "), 0u) << said;
    EXPECT_NE(said.find(sentence), std::string::npos) << said;
  };
  const std::string own(rich::build_id());
  expect("other_version", "has build ID 0.1.0, this nanet has " + own + ": build it again");
  expect("other_headers", "has build ID 0.1.0-0123456789abcdef.884, this nanet has " + own +
                              ": build it again with this nanet's headers (nanet build-algorithm)");
  expect("other_processor",
         "was built for a processor with avx1024f, which this one has not: build it again");
  expect("no_algorithm", "is no algorithm of nanet (it has no function nanet_algorithm)");
  expect("taken_name", "name is 'math', as of one of nanet's own");
  expect("bad_name", "name is 'Mine': must be of a to z, 0 to 9 and _");
  expect("bad_default", "its parameter cut is 7 where nothing is said: must be from 1 to 5");
  expect("not_there", "No such file or directory: give the .so");
  EXPECT_NE(refusal(PLUGIN_DIR "/cmake_install.cmake").find("algorithm: '"),
            0u);  // a path names a file, whatever its suffix
  EXPECT_NE(refusal(PLUGIN_DIR "/cmake_install.cmake").find("cannot be loaded: "), std::string::npos);
}

TEST(Plugin, WithoutCudaReportsTheReason) {
  const rich::Plugin& plugin = rich::load_plugin(file("multiplicity"));
  try {
    rich::plugin_cuda(plugin);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(
        std::string(error.what()).find("was built without CUDA and runs on CPUs only: use --device cpu"),
        std::string::npos);
  }
}

}  // namespace
}  // namespace nanet::plugin
