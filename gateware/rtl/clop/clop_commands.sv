// SPDX-License-Identifier: SHL-2.1
// Firmware interface of clop. Sends one slow-path packet at a time to the firmware and executes its
// commands while the pipeline is idle. Command operands are prepared while the command waits.
module clop_commands
  import nanet_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * firmware
     */
    output logic         slowpath_valid,
    input  logic         slowpath_ready,
    input  command_req_t command_req,
    output logic         command_ready,

    /*
     * pulse: packet passed to the firmware
     */
    input  logic       escalates,
    input  logic [2:0] escalate_channel,
    input  logic [1:0] escalate_board,
    input  serial_t    escalate_serial,
    output logic       slowpath_busy,        // until the response
    output logic [1:0] slowpath_busy_board,

    /*
     * conditions of command execution
     */
    input logic quiescent,    // pipeline and queues are empty
    input logic idle,         // pipeline is empty and no frame is being opened
    input logic timer_room,
    input logic closing,
    input logic burst_waits,  // a new burst waits for notifications of the older ones

    input clop_burst_t current,

    // A command is pending; no new packet is issued.
    output logic     waiting,
    output logic     waiting_burst,
    output command_t waiting_for,
    output logic     pausing,        // the results of the last step or command are not yet valid

    /*
     * pulses: action
     */
    output logic           now,      // pulse: a command is executed
    output logic           done,
    output logic           begins,   // begins burst number waiting_for.frame
    output logic           ends,     // no further frames in the current burst
    output logic           extend,   // extends the burst to waiting_for.frame
    output clop_skip_t     skip,
    output logic           close,    // closes the frames of burst waiting_for.old
    output logic           tracked,  // command on a board's sequence numbers; uses the pipeline
    output clop_response_t response
);

  localparam logic [24:0] FrameWindow = 25'd1024;

  logic valid_q, now_q, closing_begun_q, leaving_q, left_q;
  command_t command_q;
  logic [1:0] pause_q;  // cycles until the results of the last step or command are valid
  logic [2:0] slowpath_channel_q;
  serial_t slowpath_serial_q;
  logic slowpath_busy_q, answered_q;

  assign waiting       = valid_q;
  assign waiting_for   = command_q;
  assign pausing       = pause_q != 0;
  assign command_ready = !valid_q;
  assign slowpath_busy = slowpath_busy_q;

  // ------------------------------------------------------------------ precomputation

  logic burst_q, last_q, close_q, tracked_q, answer_q, judges_q;
  logic beyond_q, gap_q, extend_q, skips_q, ends_q, joins_q, burst_waits_q;
  logic [24:0] frame, newest_q, skip_to_q;

  assign waiting_burst = burst_q;
  assign frame         = {1'b0, command_q.frame};

  always_ff @(posedge clk) begin
    burst_q   <= valid_q && command_q.op == CommandBurst;
    last_q    <= command_q.op == CommandLast;
    close_q   <= command_q.op == CommandClose;
    answer_q  <= command_q.op == CommandAnswer;
    judges_q  <= command_q.as == PlacedUsed || command_q.as == PlacedAdmit;
    tracked_q <= command_q.op == CommandSeen || command_q.op == CommandRestart ||
                 command_q.op == CommandBoard || command_q.op == CommandWatch;

    // CommandLast opens frames, has too many to open, or names the burst's first known frame.
    beyond_q      <= frame >= current.next;
    newest_q      <= frame - {1'b0, current.last_known};
    gap_q         <= !newest_q[24] && newest_q > FrameWindow;
    joins_q       <= command_q.flag && !current.started;
    skip_to_q     <= frame + 25'(joins_q);
    extend_q      <= command_q.flag && current.started && beyond_q && !gap_q;
    skips_q       <= command_q.flag && current.started && beyond_q && gap_q;
    ends_q        <= !(command_q.flag && current.started && beyond_q);
    burst_waits_q <= burst_waits;
  end

  // ------------------------------------------------------------------ execution

  assign now      = now_q;
  assign begins   = now_q && burst_q && !burst_waits_q;
  assign ends     = now_q && last_q && ends_q;
  assign extend   = now_q && last_q && extend_q && timer_room;
  assign skip     = '{valid: now_q && last_q && (joins_q || skips_q), counted: skips_q, next: skip_to_q};
  assign close    = now_q && close_q && !closing_begun_q;
  assign tracked  = now_q && tracked_q;
  assign response = '{valid: now_q && answer_q && !judges_q, again: now_q && answer_q && judges_q,
                    admit: command_q.as == PlacedAdmit, first: 1'b1, channel: slowpath_channel_q,
                    counted: 1'b1, as: command_q.as, ended: 1'b1, serial: slowpath_serial_q, default: '0};
  assign done     = begins || ends || extend || tracked ||
                    (now_q && ((close_q && closing_begun_q) || answer_q));

  always_ff @(posedge clk) begin
    // Nothing changes between this cycle and the next; an expired timer has priority.
    now_q <= valid_q && quiescent && pause_q == 0 && !closing && !now_q && !leaving_q && !left_q;
    if (!idle) pause_q <= 2'd3;
    else if (pause_q != 0) pause_q <= pause_q - 1'b1;

    if (command_req.valid && command_ready) begin
      command_q <= command_req.item;
      valid_q   <= 1'b1;
      pause_q   <= 2'd3;
    end
    if (skip.valid) pause_q <= 2'd3;
    if (now_q && close_q) closing_begun_q <= !done;

    // The answered packet has priority over new packets; its wait flag is valid two cycles later.
    leaving_q <= done;
    left_q    <= leaving_q;
    if (left_q) valid_q <= 1'b0;
    answered_q <= now_q && answer_q;
    if (answered_q) slowpath_busy_q <= 1'b0;

    if (slowpath_ready) slowpath_valid <= 1'b0;
    if (escalates) begin
      slowpath_valid       <= 1'b1;
      slowpath_busy_q         <= 1'b1;
      slowpath_busy_board     <= escalate_board;
      slowpath_channel_q <= escalate_channel;
      slowpath_serial_q  <= escalate_serial;
    end

    if (rst) begin
      valid_q         <= 1'b0;
      now_q           <= 1'b0;
      closing_begun_q <= 1'b0;
      leaving_q       <= 1'b0;
      left_q          <= 1'b0;
      pause_q         <= '0;
      slowpath_busy_q <= 1'b0;
      answered_q      <= 1'b0;
      slowpath_valid  <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, current};

endmodule
