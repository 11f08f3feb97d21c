// SPDX-License-Identifier: Apache-2.0
// The helper process of the tests: what `python -m nanet` is to a trigger.
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "nanet/loop/helper_serve.hpp"

int main(int count, char** arguments) {
  const std::string_view text = count == 2 ? arguments[1] : "";
  int fd = -1;
  const auto end = text.data() + text.size();
  const bool number = std::from_chars(text.data(), end, fd).ptr == end && !text.empty();
  std::_Exit(number ? nanet::loop::serve_helper(fd) : 2);
}
