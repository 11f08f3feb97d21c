// SPDX-License-Identifier: Apache-2.0
// Shared block of trigger and recovery process: settings, orders, state and figures. Plain bytes in a memfd;
// both processes are the same build.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "nanet/contract/layout.hpp"
#include "nanet/gpu/frame/conditions.hpp"
#include "nanet/trigger/account/physics.hpp"
#include "nanet/trigger/decide/decide.hpp"
#include "nanet/trigger/decide/downscale.hpp"

namespace nanet::gpu {

// The trigger writes orders, the recovery process states: ready -> work -> working -> rest -> ready; failed
// is final.
enum class RecoveryOrder : std::uint32_t { none, work, rest, leave };
enum class RecoveryState : std::uint32_t { starting, ready, working, failed };

struct RecoveryBlock {
  static constexpr std::uint64_t magic_number = 0x706C'6568'7465'6E61;  // "anethelp"
  static constexpr std::uint32_t most_devices = 64, most_parameters = 64, most_figures = 16;
  static constexpr std::size_t name_bytes = 64, path_bytes = 4096, trouble_bytes = 512;

  // Mapped at the trigger's addresses: descriptors and views hold addresses.
  struct Region {
    std::int32_t fd;  // inherited
    std::uint64_t at, bytes;
  };
  struct Number {
    char name[name_bytes];
    double value;
  };

  std::uint64_t magic, bytes;  // bytes: of the block, so that two builds do not misread each other
  // Written before the recovery process is started.
  pid_t parent;
  std::int32_t device;  // GPU of consumer device 0; -1: a CPU instead
  std::uint32_t devices, trace_slots, blocks, threads, parameters, has_conditions, merged_buffers;
  Region region[most_devices], traces;
  contract::Shape shape;
  trigger::DecisionOptions decision;
  trigger::Downscale downscale;
  std::int32_t window_lsb;
  std::uint32_t source;
  std::uint64_t reference;  // a recent n
  std::int64_t stall, silence, deadline;
  char algorithm[path_bytes];  // a name, or the file of a plug-in
  Number parameter[most_parameters];
  // Each word has one writer, as in contract memory.
  alignas(64) std::uint32_t order;  // written by the trigger
  alignas(64) std::uint32_t state;  // from here on the recovery process's
  std::uint32_t overrun, figures;
  std::uint64_t beat;
  char trouble[trouble_bytes];  // before state = failed
  Number figure[most_figures];
  trigger::Physics physics;                  // of all its times of work
  alignas(4096) ConditionsBoard conditions;  // written by the trigger
};

}  // namespace nanet::gpu
