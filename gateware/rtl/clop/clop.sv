// SPDX-License-Identifier: SHL-2.1
// Circular list of persistent buffers (CLOP) of one stream, gather mode `frame`. Places packets, opens and
// closes frames, passes frame numbers to the sender and notifications to the consumer (docs/formats.md,
// Memory contract). A packet takes five steps; two cycles before them overlap with the packet before. The
// firmware decides on slow-path packets, which wait with their channel. Each submodule holds its own state
// (doc/receive.md).
module clop
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2,
    // Total number of buffers of all devices; a power of two. Sets the memory size.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1,
    // Number n of frame 0 of the first burst.
    parameter logic [63:0] FIRST_N = 0,
    // log2 of the clearing cycles: 10 clears clop_sequence, 2 + log2 MAX_BUFFERS clears the other memories.
    parameter int unsigned CLEAR_W = $clog2(MAX_BUFFERS) > 8 ? $clog2(MAX_BUFFERS) + 2 : 10
) (
    input logic clk,
    // Timer clock, always running; `clk` may be gated while clop is idle.
    input logic clk_timers,
    input logic rst,

    /*
     * configuration, steady while enabled; enabling clears all state
     */
    input  logic                     enable,
    input  logic [4:0]               log2_buffers,
    input  logic [4:0]               log2_devices,
    input  logic [DEVICES-1:0][63:0] base_vaddr,
    input  logic [17:0]              buffer_units,    // bytes of a buffer / 64
    input  logic [16:0]              segment_bytes,   // a multiple of 16
    input  logic [3:0]               expected,        // boards; 1 for a merged stream
    input  logic [31:0]              timeout_cycles,  // 0: no timeout
    input  logic [15:0]              grace_cycles,    // maximum latency from the MAC to clop
    input  logic [15:0]              window_frames,   // frames this far behind the newest are closed; 0: none
    input  logic [63:0]              now,
    input  logic [7:0]               close_burst,     // frames of this burst below `close_frames` are due
    input  logic [23:0]              close_frames,
    output logic                     ready,           // all memories cleared

    /*
     * requests of the channels; `placed_defer`: repeat the request once the packet is complete. The earliest
     * repeat is two cycles after the response, when clop_issue has released its board
     */
    input  logic [CHANNELS-1:0]           place_valid,
    output logic [CHANNELS-1:0]           place_ready,
    input  place_request_t [CHANNELS-1:0] place,         // steady until the response
    output logic [CHANNELS-1:0]           placed_valid,
    output placed_rsp_t                   placed_rsp,
    input  serial_t [CHANNELS-1:0]        done_serial,   // number of completed packets

    /*
     * return slots: the consumers' writes of n + 1; index = {buffer, device}
     */
    input logic                           return_valid,
    input logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input logic [31:0]                    return_value,

    /*
     * sender
     */
    output tx_pending_req_t tx_pending_req,
    input  logic            tx_pending_ready,
    input  logic [63:0]     sender_next,

    /*
     * firmware
     */
    output slowpath_req_t slowpath_req,
    input  logic          slowpath_ready,
    input  command_req_t  command_req,
    output logic          command_ready,
    output logic [63:0]   last_packet,     // card clock, newest packet of the current burst

    /*
     * ordered notifications to clop_close
     */
    output logic                           notice_valid,
    input  logic                           notice_ready,
    output clop_notice_t                   notice,
    output serial_t [CHANNELS-1:0]         notice_fence,      // fence: packets to be written first
    input  logic [$clog2(MAX_BUFFERS)+1:0] board_read_index,
    output clop_part_t                     board_read,

    /*
     * event queues
     */
    output logic [DEVICES-1:0]       promise,
    input  logic [DEVICES-1:0][15:0] room,
    input  logic [DEVICES-1:0]       half_free,

    /*
     * counters: pulses, and missing sequence numbers per board
     */
    output logic             counted,
    output placed_e          counted_as,
    output logic [15:0]      counted_hits,
    output logic [7:0]       counted_events,
    output logic [23:0]      counted_frame,
    output logic [7:0]       counted_burst,
    output logic             frame_in,
    output logic             frame_overrun,
    output logic             skipped_valid,   // frames skipped by a jump
    output logic [24:0]      skipped,
    output logic [3:0][63:0] missing,

    output logic due,  // a timer has expired
    // Pipeline and notification queues are empty.
    output logic idle
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);
  localparam int unsigned StatusW = IndexW + 2;  // overrun status is kept for 4 N numbers
  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;

  if (MAX_BUFFERS < 2 || 2 ** IndexW != MAX_BUFFERS || MAX_BUFFERS > 32768) begin : gen_check_buffers
    $fatal(1, "MAX_BUFFERS must be a power of two, 2 to 32768 (%m)");
  end
  if (CHANNELS < 1 || CHANNELS > 8) begin : gen_check_channels
    $fatal(1, "CHANNELS must be 1 to 8 (%m)");
  end
  if (DEVICES != 1 && 2 ** DeviceW != DEVICES) begin : gen_check_devices
    $fatal(1, "DEVICES must be a power of two (%m)");
  end

  // ------------------------------------------------------------------ internal signals

  clop_burst_t current, old;
  logic half;
  logic [63:0] end_n, next_base;
  logic [1:0] notified;

  logic in_compare, in_classify, steps_idle, chosen, request_waits;
  clop_work_t work;
  clop_found_t found;
  logic opens, usable;
  logic [63:0] stamp;
  clop_verdict_t verdict;
  clop_act_t act;
  clop_skip_t shift, skip;
  clop_response_t response, firmware_response;

  logic open_busy, now_open, back, held;
  logic [63:0] open_n;
  clop_opened_t opened;

  logic command_waits, command_burst, command_now, command_done, pausing;
  logic begins, ends, extend, close, tracked;
  logic slowpath_busy, burst_waits;
  logic [1:0] slowpath_busy_board;
  command_t waiting_for;

  logic timer_push, timer_room, due_valid, due_ready, due_old, due_forced, closing, timer_moved;
  logic [31:0] timer_n, timer_first, due_n, due_first;
  logic [23:0] due_frames_q;

  logic slot_we, status_we, board_we;
  logic [IndexW-1:0] slot_addr;
  logic [StatusW-1:0] status_addr;
  logic [IndexW+1:0] board_addr;
  clop_slot_t slot;
  clop_status_t status;
  clop_board_t board;
  clop_closed_t closed;

  logic notice_accepts_new, notice_accepts_current, notice_idle;
  serial_t [CHANNELS-1:0] write_fence;

  // ------------------------------------------------------------------ issue conditions

  logic rst_q, run_q, window_q, acts_q, may_begin_q, quiescent, settled;
  logic [CLEAR_W-1:0] clear_q;
  logic [IndexW-1:0] index_mask_q;
  logic [DEVICES-1:0] room_q;  // room for another frame's event
  logic [4:0] quiet_q;
  logic idle_steps;

  // The cycle after `classify` is reserved for the pipeline.
  assign idle_steps = steps_idle && !acts_q && !open_busy;
  // In a replay, expired frames are closed first, one at a time.
  assign settled   = !window_q || (idle_steps && quiet_q == 5'd20);
  assign quiescent = idle_steps && may_begin_q && settled && !due_valid;
  assign ready     = run_q;
  assign due       = due_valid;

  always_ff @(posedge clk) begin
    rst_q        <= rst || !enable;
    index_mask_q <= IndexW'((64'd1 << (log2_buffers + (DEVICES > 1 ? log2_devices : 5'd0))) - 64'd1);
    window_q     <= window_frames != 0;
    may_begin_q  <= run_q && notice_accepts_new;
    acts_q       <= in_classify;
    quiet_q      <= idle_steps && !due_valid && !timer_moved && !chosen && !command_done && !pausing ?
                    quiet_q + 5'(quiet_q != 5'd20) : '0;
    for (int d = 0; d < int'(DEVICES); d++) room_q[d] <= room[d] >= 16'd4;
    idle <= idle_steps && run_q && !command_waits && !slowpath_busy && !request_waits &&
      !tx_pending_req.valid &&
            !due_valid && !closing && notice_idle;
    if (!run_q) clear_q <= clear_q + 1'b1;
    if (clear_q == '1) run_q <= 1'b1;
    if (rst_q) begin
      run_q       <= 1'b0;
      clear_q     <= '0;
      may_begin_q <= 1'b0;
      acts_q      <= 1'b0;
      quiet_q     <= '0;
      idle        <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ pipeline steps

  clop_issue #(
      .CHANNELS(CHANNELS)
  ) issue (
      .rst       (rst_q),
      .tracked_as(waiting_for),
      .may_expire(may_begin_q && !command_now),
      // In a replay, the other channels also wait for the firmware.
      .may_place(may_begin_q && !command_waits && settled && !(window_q && slowpath_busy)),
      .may_read (!open_busy && !verdict.shifts),
      .waits    (request_waits),
      .*
  );

  clop_lookup #(
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES)
  ) lookup (
      .window        (window_q),
      .index_mask    (index_mask_q),
      .sender_next   (sender_next[31:0]),
      .request       (work.request),
      .n             (work.n),
      .board         (work.board),
      .next          (work.old ? old.next : current.next),
      .ending        (work.old ? old.ending : current.ending),
      .over          (work.old ? old.over : current.over),
      .last_known    (current.last_known),
      .timer         (work.expire),
      .timer_first   (work.first),
      .forced        (work.forced),
      .other         (open_busy),
      .other_n       (StatusW'(open_n)),
      .slot_wr_addr  (slot_addr),
      .slot_wr       (slot),
      .status_wr_addr(status_addr),
      .status_wr     (status),
      .board_wr_addr (board_addr),
      .board_wr      (board),
      .*
  );

  logic replayed, jump, far_ahead, watched, ordinary, take, admit, escalated;

  clop_sequence sequence_numbers (
      .rst       (rst_q),
      .clear     (!run_q),
      .clear_addr(10'(clear_q)),
      .flush     (begins),
      .flush_half(!half),
      .half      (work.half),
      .board     (work.board),
      .number    (work.number),
      .frame     (work.request.header.frame),
      .started   (work.old ? old.started : current.started),
      .last_known(work.old ? old.last_known : current.last_known),
      .restart   (in_classify && work.restart),
      .at_frame  (in_classify && work.at_frame),
      .watch     (in_classify && work.watch),
      .watch_flag(work.flag),
      .*
  );

  logic [DeviceW-1:0] work_device;
  assign work_device = DEVICES > 1 ? DeviceW'(work.n) & DeviceW'((32'd1 << log2_devices) - 32'd1) : '0;

  clop_classify classify (
      .rst     (rst_q),
      .window  (window_q),
      .room    (room_q[work_device]),
      .vaddr   (placed_rsp.vaddr),
      .slowpath(slowpath_req.item),
      .*
  );

  // ------------------------------------------------------------------ results of the steps

  clop_open #(
      .DEVICES(DEVICES)
  ) opener (
      .rst               (rst_q),
      .window            (window_q),
      .opens_next        (found.at_next),
      .opens_frame       (work.request.header.frame),
      .opens_stamp       (stamp),
      .extend_frame      (waiting_for.frame),
      .notice_accepts_new(notice_accepts_current),
      .room              (room_q),
      .busy              (open_busy),
      .n                 (open_n),
      .*
  );

  clop_update #(
      .MAX_BUFFERS(MAX_BUFFERS)
  ) written (
      .rst       (rst_q),
      .index_mask(index_mask_q),
      .clear     (!run_q),
      .clear_addr(StatusW'(clear_q)),
      .*
  );

  clop_respond #(
      .CHANNELS(CHANNELS)
  ) respond (
      .rst          (rst_q),
      .firmware     (firmware_response),
      .placed_accept(placed_rsp.accept),
      .placed_defer (placed_rsp.defer),
      .*
  );

  clop_bursts #(
      .FIRST_N(FIRST_N)
  ) bursts (
      .rst           (rst_q),
      .begins_number (waiting_for.frame[7:0]),
      .begins_started(waiting_for.flag),
      .starts        ({2{tracked && waiting_for.op == CommandBoard}} & {waiting_for.old, !waiting_for.old}),
      .closed        (verdict.closes),
      .*
  );

  always_ff @(posedge clk_timers)
    due_frames_q <= current.known && close_burst == current.number ? close_frames : '0;

  clop_timers #(
      .MAX_BUFFERS(MAX_BUFFERS)
  ) timers (
      .clk       (clk_timers),
      .rst       (rst_q),
      .now       (now[31:0]),
      .index_mask(index_mask_q),
      .push      (timer_push),
      .push_n    (timer_n),
      .push_first(timer_first),
      .room      (timer_room),
      .slot_open (slot.open),
      .slot_first(slot.first),
      .base_n    (current.base[31:0]),
      .end_n     (end_n[31:0]),
      .due_frames(due_frames_q),
      .close_old (waiting_for.old),
      .moved     (timer_moved),
      .*
  );

  // ------------------------------------------------------------------ firmware interface and notifications

  clop_commands commands (
      .rst             (rst_q),
      .escalates       (verdict.escalates),
      .escalate_channel(act.channel),
      .escalate_board  (act.board),
      .escalate_serial (act.serial),
      .idle            (idle_steps),
      .waiting         (command_waits),
      .waiting_burst   (command_burst),
      .now             (command_now),
      .done            (command_done),
      .response        (firmware_response),
      .slowpath_valid  (slowpath_req.valid),
      .*
  );

  clop_notify #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES)
  ) events (
      .rst            (rst_q),
      .closed_slot    (slot),
      .closed_index   (slot_addr),
      .waiting_burst  (command_burst),
      .begins_number  (waiting_for.frame),
      .accepts_new    (notice_accepts_new),
      .accepts_current(notice_accepts_current),
      .idle           (notice_idle),
      .*
  );

  logic unused;
  assign unused = &{1'b0, sender_next, open_n};

endmodule
