// SPDX-License-Identifier: Apache-2.0
// Shared object without an algorithm.
extern "C" int something_else();
extern "C" int something_else() {
  return 1;
}
