// SPDX-License-Identifier: Apache-2.0
// Both sides of the memory contract on the host.
#pragma once

#include "nanet/contract/atomic.hpp"
#include "nanet/contract/consumer.hpp"
#include "nanet/contract/producer.hpp"
