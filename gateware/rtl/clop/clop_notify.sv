// SPDX-License-Identifier: SHL-2.1
// Ordered notifications to clop_close. Closed frames go first; overruns are coalesced while the event
// queue is nearly full; burst begins and ends keep their place in between.
module clop_notify
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2,
    // As in clop.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1
) (
    input logic clk,
    input logic rst,

    input logic [4:0] log2_devices,

    /*
     * event queues
     */
    input logic [DEVICES-1:0][15:0] room,
    input logic [DEVICES-1:0]       half_free,

    /*
     * the frame in the slot is closed
     */
    input clop_closed_t                   closed,
    input clop_slot_t                     closed_slot,
    input logic [$clog2(MAX_BUFFERS)-1:0] closed_index,

    // Opened frame without a buffer.
    input clop_opened_t opened,

    /*
     * bursts; pulse: a burst begins at n = next_base
     */
    input  clop_burst_t current,
    input  clop_burst_t old,
    input  logic        waiting_burst,  // a burst waits for earlier notifications
    output logic        burst_waits,
    input  logic        begins,
    input  logic [23:0] begins_number,
    input  logic [63:0] next_base,
    output logic [1:0]  notified,       // pulse: end of the {older, current} burst

    /*
     * to clop_close
     */
    input  serial_t [CHANNELS-1:0] write_fence,
    output logic                   notice_valid,
    input  logic                   notice_ready,
    output clop_notice_t           notice,
    output serial_t [CHANNELS-1:0] notice_fence,

    /*
     * room for the results of a new request, and of a request in progress
     */
    output logic accepts_new,
    output logic accepts_current,
    // No pending notification.
    output logic idle
);

  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;

  logic [4:0] level;
  logic push_q, unused_room;
  clop_notice_t in_q;

  // ------------------------------------------------------------------ coalesced overruns

  logic [DEVICES-1:0] some_q, flush_q;  // room for, and reason for, sending the pending overrun
  logic [DEVICES-1:0] overrun_q, due;
  clop_notice_t [DEVICES-1:0] overrun_notice_q;
  logic [DEVICES-1:0][31:0] overrun_next_q;  // number that would extend the pending overrun
  logic [DeviceW-1:0] device, due_device;
  logic missed_q, looked_q, continues_q, ends_wait, joins, displaces, held_up;
  logic [63:0] missed_n_q;
  logic [31:0] missed_next_q;
  logic [23:0] missed_frame_q;
  logic side_valid_q;
  clop_notice_t side_q;

  assign device    = DEVICES > 1 ? DeviceW'(missed_n_q) & DeviceW'((32'd1 << log2_devices) - 32'd1) : '0;
  assign joins     = looked_q && continues_q && overrun_q[device];
  assign displaces = looked_q && !joins && overrun_q[device] && some_q[device];
  assign held_up   = displaces && side_valid_q;  // a burst waits until this is sent (`burst_waits`)

  logic [1:0] ended;
  assign ended     = {old.over && !old.ended, current.over && !current.ended};
  assign ends_wait = ended != 0 || waiting_burst;

  always_comb begin
    for (int d = 0; d < int'(DEVICES); d++) due[d] = overrun_q[d] && flush_q[d];
    due_device = '0;
    for (int d = int'(DEVICES) - 1; d >= 0; d--) if (due[d]) due_device = DeviceW'(d);
  end

  // ------------------------------------------------------------------ selection of the next notification

  logic free, may_take, take_due, take_end;
  logic [1:0] settled_q;  // results of the last end are valid

  assign free        = !side_valid_q && !begins;
  assign may_take    = free && accepts_new && !missed_q;
  assign take_due    = may_take && due != 0;
  assign take_end    = may_take && due == 0 && settled_q == '1;
  assign notified    = !take_end ? 2'b00 : ended[1] ? 2'b10 : ended;
  assign burst_waits = side_valid_q || missed_q || due != 0 || ended != 0 || settled_q != '1;

  always_ff @(posedge clk) begin
    settled_q <= ends_wait ? {settled_q[0], 1'b1} : 2'b00;
    for (int d = 0; d < int'(DEVICES); d++) begin
      some_q[d]  <= room[d] != 0;
      flush_q[d] <= room[d] != 0 && (half_free[d] || ends_wait);
    end

    if (!missed_q) begin
      missed_n_q     <= opened.n;
      missed_frame_q <= 24'(opened.frame);
    end
    missed_next_q <= missed_n_q[31:0] + (32'd1 << (DEVICES > 1 ? log2_devices : 5'd0));
    missed_q      <= missed_q ? !looked_q || held_up : opened.valid && !opened.ok;
    looked_q      <= missed_q && (!looked_q || held_up);
    continues_q   <= overrun_next_q[device] == missed_n_q[31:0];
    if (looked_q && !held_up) begin
      overrun_q[device]      <= 1'b1;
      overrun_next_q[device] <= missed_next_q;
      if (joins) overrun_notice_q[device].count <= overrun_notice_q[device].count + 1'b1;
      else
        overrun_notice_q[device] <= '{kind: KindError, n: missed_n_q, frame: missed_frame_q, count: 32'd1,
                                    default: '0};
    end
    if (take_due) overrun_q[due_device] <= 1'b0;

    if (!closed.valid) side_valid_q <= 1'b0;
    if (free) begin
      side_q <= displaces ? overrun_notice_q[device] : due != 0 ? overrun_notice_q[due_device] :
                '{kind: KindBurstEnds, n: 64'(ended[1] ? old.last_n : current.last_n),
                  frame: ended[1] ? old.last_known : current.last_known, default: '0};
      if (displaces || take_due || notified != 0) side_valid_q <= 1'b1;
    end
    if (begins) begin
      side_valid_q <= 1'b1;
      side_q       <= '{kind: KindBurstBegins, n: next_base, frame: begins_number, default: '0};
    end
    if (rst) begin
      settled_q    <= '0;
      missed_q     <= 1'b0;
      looked_q     <= 1'b0;
      overrun_q    <= '0;
      side_valid_q <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ output order

  always_ff @(posedge clk) begin
    push_q          <= closed.valid || side_valid_q;
    in_q            <= closed.valid ? '{kind: KindReceiveDone, index: 16'(closed_index),
                                        n: 64'(closed_slot.n),
                                        frame: closed_slot.frame, count: '0, timed_out: closed.timed_out,
                                        complete: closed_slot.complete, present: closed_slot.present,
                                        start: closed.start, channel: closed.channel} : side_q;
    accepts_new     <= level < 5'd8;
    accepts_current <= level < 5'd12;
    if (rst) push_q <= 1'b0;
  end

  fifo #(
      .WIDTH($bits(clop_notice_t) + $bits(write_fence)),
      .DEPTH(16)
  ) queue (
      .clk,
      .rst,
      .in_valid (push_q),
      .in_ready (unused_room),
      .in_data  ({write_fence, in_q}),
      .out_valid(notice_valid),
      .out_ready(notice_ready),
      .out_data ({notice_fence, notice}),
      .level
  );

  assign idle = overrun_q == '0 && !missed_q && !closed.valid && !side_valid_q && !push_q && level == 0;

  logic unused;
  assign unused = &{1'b0, unused_room, closed_slot, current, old, opened, log2_devices};

endmodule
