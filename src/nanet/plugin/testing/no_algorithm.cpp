// SPDX-License-Identifier: Apache-2.0
// A shared object that is no algorithm.
extern "C" int something_else();
extern "C" int something_else() {
  return 1;
}
