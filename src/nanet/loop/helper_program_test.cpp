// SPDX-License-Identifier: Apache-2.0
// The helper process of the tests: what `python -m nanet` is to a trigger.
#include <cstdlib>

#include "nanet/loop/helper_serve.hpp"

int main(int count, char** arguments) {
  std::_Exit(count == 2 ? nanet::loop::serve_helper(std::atoi(arguments[1])) : 2);
}
