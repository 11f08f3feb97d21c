// SPDX-License-Identifier: Apache-2.0
// As if built with other structures.
#define CHANGE ++t.layout
#include "changed_table.hpp"
