// SPDX-License-Identifier: SHL-2.1
// Frame opener of the current burst; allocates buffers. Opens a packet's frame after all earlier pending
// frames, or all frames up to the one that the firmware names.
module clop_open
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1
) (
    input logic clk,
    input logic rst,

    /*
     * configuration
     */
    input logic [4:0]  log2_devices,
    input logic        window,        // replay: waits for a buffer return
    input logic [63:0] now,

    /*
     * frames to open, while not busy: up to a packet's frame or up to the firmware's last frame
     */
    input logic        opens,
    input logic        opens_next,    // the packet's frame is the next to open
    input logic        usable,        // buffer and event-queue entry available
    input logic [23:0] opens_frame,
    input logic [63:0] opens_stamp,
    input logic        extend,
    input logic [23:0] extend_frame,

    input clop_burst_t current,
    input logic [63:0] end_n,
    input clop_act_t   act,      // packet decision, one cycle later

    /*
     * conditions of opening
     */
    input  logic               timer_room,
    input  logic               notice_accepts_new,
    input  logic [DEVICES-1:0] room,
    output logic               busy,
    output logic [63:0]        n,                   // number whose buffer clop_lookup checks
    input  logic               back,
    input  logic               held,

    /*
     * opened frames
     */
    output logic               now_open,         // `opened` is valid if this is set
    output clop_opened_t       opened,
    output logic [DEVICES-1:0] promise,
    output logic               frame_in,
    output logic               frame_overrun,
    output tx_pending_req_t    tx_pending_req,
    input  logic               tx_pending_ready
);

  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;

  typedef enum logic [5:0] {
    OpenIdle  = 6'b000001,
    OpenRead  = 6'b000010,
    OpenWait  = 6'b000100,
    OpenCapture = 6'b001000,
    OpenCompare = 6'b010000,
    OpenNow   = 6'b100000
  } state_e;

  state_e state_q;
  logic idle;
  logic [63:0] n_q, stamp_q;
  logic [24:0] frame_q, after_q;
  logic [23:0] last_frame_q;
  logic packet_q, last_q, ok_q;
  logic device_room, now_ok, now_held;
  logic [DeviceW-1:0] device;

  assign idle        = state_q == OpenIdle;
  assign busy        = !idle;
  assign now_open    = state_q == OpenNow;
  assign n           = n_q;
  assign device      = DEVICES > 1 ? DeviceW'(n_q) & DeviceW'((32'd1 << log2_devices) - 32'd1) : '0;
  assign device_room = room[device];
  assign now_ok      = back && device_room;
  assign now_held    = held && device_room;

  always_comb begin
    opened.valid  = now_open && !tx_pending_req.valid;
    opened.ok     = ok_q;
    opened.last   = last_q;
    opened.packet = packet_q;
    opened.uses   = packet_q && last_q && ok_q && act.fits_alone && act.placed;
    opened.closes = opened.uses && act.closes_alone;
    opened.n      = n_q;
    opened.frame  = frame_q;
    opened.after  = after_q;
    opened.stamp  = stamp_q;
  end

  always_ff @(posedge clk) begin
    unique case (state_q)
      OpenIdle:  if (opens || extend) state_q <= opens && opens_next && timer_room && (!window || usable) ?
                                               OpenNow : OpenRead;
      OpenRead:  if (timer_room && notice_accepts_new) state_q <= OpenWait;
      OpenWait:  state_q <= OpenCapture;
      OpenCapture: state_q <= OpenCompare;
      // In a replay a frame waits for its buffer, unless waiting cannot close the frame that holds it.
      OpenCompare: state_q <= window && !now_ok && !now_held ? OpenRead : OpenNow;
      default:   if (!tx_pending_req.valid) state_q <= last_q ? OpenIdle : OpenRead;
    endcase
    if (idle) ok_q <= usable;
    if (state_q == OpenCompare) ok_q <= now_ok;

    if (idle) begin
      n_q          <= end_n;
      frame_q      <= current.next;
      last_frame_q <= extend ? extend_frame : opens_frame;
      stamp_q      <= extend ? now : opens_stamp;
      packet_q     <= !extend;
    end else if (opened.valid) begin
      n_q     <= n_q + 1'b1;
      frame_q <= after_q;
    end
    if (!now_open) begin
      after_q <= (idle ? current.next : frame_q) + 1'b1;
      last_q  <= idle || frame_q == {1'b0, last_frame_q};
    end

    promise       <= '0;
    frame_in      <= opened.valid;
    frame_overrun <= opened.valid && !ok_q;
    if (tx_pending_ready) tx_pending_req.valid <= 1'b0;
    if (opened.valid) begin
      promise[device]  <= ok_q;
      tx_pending_req.valid <= 1'b1;
    end
    if (!tx_pending_req.valid)
      tx_pending_req.item <= '{overrun: !ok_q, count: 32'd1, frame: 32'(frame_q), n: n_q, stamp: stamp_q};

    if (rst) begin
      state_q          <= OpenIdle;
      promise          <= '0;
      frame_in         <= 1'b0;
      frame_overrun    <= 1'b0;
      tx_pending_req.valid <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, current, act, log2_devices};

endmodule
