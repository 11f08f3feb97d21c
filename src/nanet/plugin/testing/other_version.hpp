// SPDX-License-Identifier: Apache-2.0
// Plug-in built with another version of nanet.
#define CHANGE t.version = "0.0.1"
#include "changed_table.hpp"
