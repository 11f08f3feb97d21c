// SPDX-License-Identifier: Apache-2.0
// Reader of the golden vectors in tests/golden: the bytes of one structure and its fields. The Python tests
// read the same files.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace nanet {

struct Golden {
  std::map<std::string, std::vector<std::string>> fields;  // a repeated key has several values, in file order
  std::vector<std::byte> bytes;

  std::uint64_t number(const std::string& key) const { return std::stoull(fields.at(key).at(0)); }
  std::vector<std::string> all(const std::string& key) const {
    const auto found = fields.find(key);
    return found == fields.end() ? std::vector<std::string>{} : found->second;
  }
};

inline Golden read_golden(const std::string& name) {
  const std::string path = std::string(NANET_SOURCE_DIR) + "/tests/golden/" + name + ".hex";
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  Golden golden;
  bool in_bytes = false;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (in_bytes) {
      std::istringstream words(line);
      for (std::string word; words >> word;)
        golden.bytes.push_back(static_cast<std::byte>(std::stoul(word, nullptr, 16)));
    } else if (line == "bytes:") {
      in_bytes = true;
    } else {
      const auto colon = line.find(": ");
      golden.fields[line.substr(0, colon)].push_back(line.substr(colon + 2));
    }
  }
  return golden;
}

}  // namespace nanet
