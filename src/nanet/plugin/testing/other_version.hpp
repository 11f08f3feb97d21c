// SPDX-License-Identifier: Apache-2.0
// As if built with another version of nanet.
#define CHANGE t.version = "0.0.1"
#include "changed_table.hpp"
