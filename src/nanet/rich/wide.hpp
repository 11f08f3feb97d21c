// SPDX-License-Identifier: Apache-2.0
// Forwards to reconstructor.hpp.
#pragma once

#include "nanet/rich/reconstructor.hpp"
