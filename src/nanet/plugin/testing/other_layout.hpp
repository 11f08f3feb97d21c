// SPDX-License-Identifier: Apache-2.0
// Plug-in with another structure layout.
#define CHANGE ++t.layout
#include "changed_table.hpp"
