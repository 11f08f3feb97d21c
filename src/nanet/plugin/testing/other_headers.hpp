// SPDX-License-Identifier: Apache-2.0
// Plug-in built against other headers of a version.
#define CHANGE t.build_id = "0.1.0-0123456789abcdef.884"
#include "changed_table.hpp"
