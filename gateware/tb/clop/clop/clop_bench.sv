// SPDX-License-Identifier: SHL-2.1
// Bench wrapper of clop: one clock for all parts; exports the closed frames, whose order the ports hide.
module clop_bench
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Parameters as in clop.
    parameter int unsigned CHANNELS = 2,
    parameter int unsigned MAX_BUFFERS = 32,
    parameter int unsigned DEVICES = 1,
    parameter logic [63:0] FIRST_N = 0
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, stable while enabled; enabling clears all state
     */
    input  logic                     enable,
    input  logic [4:0]               log2_buffers,
    input  logic [4:0]               log2_devices,
    input  logic [DEVICES-1:0][63:0] base_vaddr,
    input  logic [17:0]              buffer_units,    // bytes of a buffer / 64
    input  logic [16:0]              segment_bytes,   // a multiple of 16
    input  logic [3:0]               expected,        // boards; 1 for a merged stream
    input  logic [31:0]              timeout_cycles,  // 0: none
    input  logic [15:0]              grace_cycles,    // longest delay of a packet from the MAC to clop
    input  logic [15:0]              window_frames,   // frames this far behind are closed; 0: none
    input  logic [63:0]              now,
    input  logic [7:0]               close_burst,     // frames of this burst below `close_frames` are closed
    input  logic [23:0]              close_frames,
    output logic                     ready,           // all state is cleared

    /*
     * requests of the channels
     */
    input  logic [CHANNELS-1:0]           place_valid,
    output logic [CHANNELS-1:0]           place_ready,
    input  place_request_t [CHANNELS-1:0] place,          // stable until answered
    output logic [CHANNELS-1:0]           placed_valid,
    output logic                          placed_accept,
    output logic                          placed_defer,
    output logic [63:0]                   placed_vaddr,
    input  serial_t [CHANNELS-1:0]        done_serial,    // completed packets

    /*
     * return slots: the consumers' writes of n + 1; index = {buffer, device}
     */
    input logic                           return_valid,
    input logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input logic [31:0]                    return_value,

    /*
     * the sender
     */
    output logic        tx_pending_valid,
    input  logic        tx_pending_ready,
    output tx_pending_t tx_pending,
    input  logic [63:0] sender_next,

    /*
     * the firmware
     */
    output logic        slowpath_valid,
    input  logic        slowpath_ready,
    output slowpath_t   slowpath,
    input  logic        command_valid,
    output logic        command_ready,
    input  command_t    command,
    output logic [63:0] last_packet,     // card clock, newest packet of the current burst

    /*
     * ordered notifications to clop_close: closed frames, overruns, bursts
     */
    output logic                           notice_valid,
    input  logic                           notice_ready,
    output clop_notice_t                   notice,
    output serial_t [CHANNELS-1:0]         notice_fence,      // packets to be written first
    input  logic [$clog2(MAX_BUFFERS)+1:0] board_read_index,
    output clop_part_t                     board_read,

    /*
     * the event queues
     */
    output logic [DEVICES-1:0]       promise,
    input  logic [DEVICES-1:0][15:0] room,
    input  logic [DEVICES-1:0]       half_free,

    /*
     * counters: pulses, and missing sequence numbers by board
     */
    output logic             counted,
    output placed_e          counted_as,
    output logic [15:0]      counted_hits,
    output logic [7:0]       counted_events,
    output logic [23:0]      counted_frame,
    output logic [7:0]       counted_burst,
    output logic             frame_in,
    output logic             frame_overrun,
    output logic             skipped_valid,   // frames without an owed answer, skipped by a jump
    output logic [24:0]      skipped,
    output logic [3:0][63:0] missing,

    output logic due,  // a timer has expired
    // nothing in flight, nothing waiting
    output logic idle,

    // Closed frame, in the order of the packet decisions.
    output logic        closed,
    output logic        closed_timed_out,
    output logic [31:0] closed_n,
    output logic        closing            // the firmware closes the frames of a burst
);

  clop_flat #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES),
      .FIRST_N    (FIRST_N)
  ) placement (
      .clk_timers(clk),
      .*
  );

  assign closed           = placement.dut.closed.valid;
  assign closed_timed_out = placement.dut.closed.timed_out;
  assign closed_n         = placement.dut.slot.n;
  assign closing          = placement.dut.closing;

endmodule
