// SPDX-License-Identifier: Apache-2.0
// Plug-in with another interface number.
#define CHANGE t.interface = 77
#include "changed_table.hpp"
