// SPDX-License-Identifier: Apache-2.0
// Both sides of the memory contract for host code.
#pragma once

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/contract/producer.hpp"
