// SPDX-License-Identifier: Apache-2.0
// Plug-in of nanet 0.1.0, which has no build IDs.
#define CHANGE t.interface = 1, t.build_id = "0.1.0"
#include "changed_table.hpp"
