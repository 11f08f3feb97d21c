// SPDX-License-Identifier: Apache-2.0
// Resident kernel: memory shared with the host besides contract memory, and kernel arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nanet/contract/mailbox.hpp"
#include "nanet/gpu/frame/buffer.hpp"
#include "nanet/gpu/injection.hpp"
#include "nanet/gpu/plane_entries.hpp"
#include "nanet/stats/event_histograms.hpp"
#include "nanet/stats/event_sample.hpp"
#include "nanet/trigger/executors/load_shedder.hpp"

namespace nanet::gpu {

static_assert(conditions_pms == plane_entries);

// Control block in pinned memory. Every word has one writer; each side has separate cache lines.
struct Control {
  struct alignas(64) Host {
    std::uint32_t stop;  // 1: finish what has been written to the queue, and end
    std::uint32_t beat;  // incremented; without changes the kernel ends
    std::uint32_t ping;  // a new number requests the device time
    std::uint32_t spare;
    std::uint64_t offset;  // host clock minus device clock, ns
  } host;
  struct alignas(64) Device {
    std::uint64_t beat;  // grows
    std::uint64_t pong_time;
    std::uint32_t pong;  // the ping that pong_time answers
    std::uint32_t running;
    std::uint32_t overrun;  // the queue has lapped the kernel
    std::uint32_t silent;   // no heartbeat of the host
  } device;
};
static_assert(sizeof(Control) == 128);

// State of one queue in device memory; kept between runs of the kernel.
struct QueueState {
  std::uint64_t claimed;                                 // entries taken by blocks
  std::uint64_t frontier;                                // entries found valid
  std::uint64_t reference;                               // a recent n
  std::uint64_t next;                                    // n of the next frame
  std::uint64_t offset;                                  // Control::Host::offset
  std::uint64_t kept;                                    // events offered as samples
  std::uint64_t tasks_written;                           // tasks written to the ring
  std::uint64_t tasks_claimed;                           // tasks claimed by warps, written or not yet
  std::uint64_t team_tasks_written, team_tasks_claimed;  // the same for the second ring, of teams
  std::uint64_t passed, newest;                          // FrameProgress, copied by the supervisor
  std::uint64_t lag;                                     // signed
  std::uint64_t keep_from;                               // LoadShedder
  std::uint32_t ending, exited, overrun;
  std::uint32_t owners_ended;  // owner blocks that have ended
};

// Event histograms in device memory. rings_per_event: of all frames, the others of sampled frames.
using Counts = stats::EventHistograms<std::uint64_t>;

// Event sample in a ring in pinned memory. version: odd during a write. bytes, for hit times: the boards'
// payloads, each on a 16 B boundary, empty for a large frame; or, with merged_bytes, a merged buffer of the
// event alone.
struct Sample {
  std::uint32_t version;
  std::uint16_t opened;  // time of the first fragment
  stats::EventSample event;
  std::uint32_t length[max_boards], merged_bytes;
  alignas(16) std::byte bytes[shared_raw_bytes];
};
inline constexpr std::uint32_t samples = 64, sample_every = 8;

// Arguments of the resident kernel. Pointers are device addresses; contract memory is in pinned host memory.
struct Resident {
  contract::Shape shape;
  BufferSizes sizes;
  FrameOptions options;
  const std::byte* clop = nullptr;
  std::uint32_t* returned = nullptr;
  const contract::Event* queue = nullptr;
  std::uint64_t* finished = nullptr;
  contract::Descriptor* ring = nullptr;
  std::byte* send_buffers = nullptr;
  std::uint64_t send_address = 0;  // address of send_buffers for the card
  std::uint32_t* doorbell = nullptr;
  trigger::Trace* traces = nullptr;
  std::uint64_t trace_mask = 0;
  contract::Mailbox mailbox;  // input null: none
  // Blocks up to this distance from the queue head load units while they wait for the event line, with pauses
  // in between, ns. Short in GPU memory; over PCIe they would take its rate.
  std::uint32_t early_distance = 0, early_pause = 0;
  bool mailbox_in_gpu_memory = false;
  const trigger::FrameProgress* progress = nullptr;
  trigger::LoadShedder shedder;
  Control* control = nullptr;
  QueueState* state = nullptr;
  std::uint32_t* done = nullptr;  // lap of each finished entry
  const rich::Point* plane = nullptr;
  std::byte* large = nullptr;    // per block, large_bytes apart
  rich::Rings* rings = nullptr;  // per block, sizes.fragments apart
  std::uint64_t large_bytes = 0;
  Counts* counts = nullptr;
  Counts* mirror = nullptr;  // counts read by the host
  Sample* samples = nullptr;
  const ConditionsBoard* conditions = nullptr;  // null: none
  // Task queue: blocks 1 .. owner_blocks write it, the serving kernel reads it, and writes the second ring if
  // there are blocks of teams, which read that.
  std::uint32_t owner_blocks = 0, team_blocks = 0;
  std::uint32_t team_hits = ~std::uint32_t{0};  // events of so many hits go to the second ring at once
  std::uint32_t task_bits = 0;                  // the ring has 2^task_bits entries
  std::uint32_t task_hits_capacity = 0;         // hits per owner block
  Task* tasks = nullptr;
  Task* team_tasks = nullptr;
  PmId* task_hits = nullptr;            // per owner block, task_hits_capacity apart
  TaskResult* task_results = nullptr;   // per owner block, tasks_at_once apart
  std::uint32_t* tasks_done = nullptr;  // per owner block, line_words apart
  std::uint64_t begin = 0;              // first entry
  std::int64_t silence = 0;             // the kernel ends after this time without a host heartbeat, ns
  Injection injection;
};

// Result and arguments of a launch for one buffer; in device memory.
struct Answer {
  alignas(16) std::uint32_t packet[packet_words];
  trigger::Trace trace;  // times of the device clock
};
struct Buffer {
  const std::byte* bytes = nullptr;
  Answer* answer = nullptr;
  std::uint64_t n = 0;
  const std::int16_t* conditions = nullptr;      // per PM, in device memory; null: none
  std::uint32_t frame = 0, flags = 0, slot = 0;  // slot: index of the work area
};

// Kernels of one algorithm. Parameters: Resident, the algorithm's value, and for `once` a Buffer.
struct FrameKernel {
  std::string_view name;
  const void* resident;
  const void* resident_merged;  // of a card that writes merged buffers
  const void* once;
  unsigned threads;
  std::size_t (*shared_bytes)(const BufferSizes& sizes, unsigned threads);  // of `once`
  std::size_t (*resident_bytes)(const BufferSizes& sizes, unsigned threads);
  unsigned blocks;  // blocks that process frames; limited by the room on the GPU
  // Serving kernel, to which the resident one hands the events of its frames; null: it reconstructs them.
  const void* serving;
  unsigned serving_threads;
  const void* serving_teams;  // for the events that take teams; null: none do
  unsigned team_threads;
  unsigned (*team_warps)(const void* value);      // value: of the algorithm; 0: it has no teams
  std::uint32_t (*team_hits)(const void* value);  // from so many hits on, an event needs a team
  std::size_t (*serving_bytes)(unsigned threads, unsigned team_warps);
};
// nullptr if the algorithm has no kernel.
const FrameKernel* find_frame_kernel(std::string_view algorithm);

}  // namespace nanet::gpu
