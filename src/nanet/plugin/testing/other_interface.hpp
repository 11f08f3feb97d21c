// SPDX-License-Identifier: Apache-2.0
// As if built with another interface.
#define CHANGE t.interface = 77
#include "changed_table.hpp"
