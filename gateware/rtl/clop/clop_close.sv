// SPDX-License-Identifier: SHL-2.1
// Header and event writer for closed frames. Writes the 64 B header, waits until all payloads and the
// header are written, then issues the event. Other notifications of `clop` become events in the same
// order.
module clop_close
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_merge_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2,
    // As in clop.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Width of the DMA data in bits.
    parameter int unsigned DATA_W = 256,
    // Consumer devices; a power of two. Each has separate buffers and a separate event queue.
    parameter int unsigned DEVICES = 1
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, as in clop
     */
    input logic [4:0]               log2_devices,
    input logic [DEVICES-1:0][63:0] base_vaddr,
    input logic [17:0]              buffer_units,
    input logic [3:0]               expected,
    input logic [63:0]              now,

    /*
     * notifications
     */
    input  logic                           notice_valid,
    output logic                           notice_ready,
    input  clop_notice_t                   notice,
    input  serial_t [CHANNELS-1:0]         notice_fence,
    output logic [$clog2(MAX_BUFFERS)+1:0] board_read_index,
    input  clop_part_t                     board_read,
    input  serial_t [CHANNELS-1:0]         done_serial,
    // Outcome of merging; steady during the notification.
    input  merge_result_t                  merged,

    /*
     * translation
     */
    output tlb_req_t tlb_req,
    input  tlb_rsp_t tlb_rsp,

    /*
     * DMA write
     */
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,

    /*
     * events, each to the device of its number n; burst events to all devices
     */
    output logic [DEVICES-1:0] ev_valid,
    input  logic [DEVICES-1:0] ev_ready,
    output event_req_t         ev_req,

    // Nothing pending.
    output logic idle,

    /*
     * one pulse per header not written for lack of a translation
     */
    output logic untranslated,
    // Pulse per frame closed with missing boards.
    output logic incomplete
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);
  localparam int unsigned HeaderBytes = 64;
  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;

  if (DATA_W != 256) begin : gen_check_width
    $fatal(1, "DATA_W must be 256 (%m)");
  end

  typedef enum logic [2:0] {
    CloseIdle,
    CloseRead,
    CloseTranslated,
    CloseWrite,
    CloseEvent
  } state_e;

  typedef struct packed {
    event_t                   ev;
    logic [31:0]              start;
    logic [2:0]               channel;
    logic [DEVICES-1:0]       devices;  // devices that receive the frame
    logic                     promised;
    logic [7:0]               headers;  // headers that must be written first
    serial_t [CHANNELS-1:0]   write_fence;
  } pending_t;

  state_e state_q;
  logic [2:0] board_q;
  logic [3:0][31:0] part_q;  // header fields of each board: bytes, packets, flags
  logic [17:0] bytes_q;
  logic truncated_q;
  logic [33:0] product_q;
  logic [63:0] paddr_q;
  logic second_q;
  logic asked_q, answered_q, page_q;
  logic [15:0] flags;
  logic [3:0] absent;
  logic [7:0] headers_q, headers_done_q;
  logic pending_in_valid, pending_in_ready, pending_valid, pending_ready;
  pending_t pending_in, pending;
  logic [4:0] level;
  logic [15:0] bytes, buffer;
  logic [DeviceW-1:0] device;
  logic [DEVICES-1:0] all_devices_q, told_q;
  logic seen;

  assign device = DEVICES > 1 ? DeviceW'(notice.n) & DeviceW'((32'd1 << log2_devices) - 32'd1) : '0;
  assign buffer = DEVICES > 1 ? notice.index >> log2_devices : notice.index;
  always_ff @(posedge clk) all_devices_q <= DEVICES'((64'd1 << (6'd1 << log2_devices)) - 64'd1);

  assign board_read_index = {IndexW'(notice.index), board_q[1:0]};
  assign absent           = expected & ~notice.complete;
  assign flags            = (absent == 0 ? FlagComplete : 16'd0) | (notice.timed_out ? FlagTimedOut : 16'd0) |
                            (truncated_q ? FlagTruncated : 16'd0) | {4'd0, absent, 8'd0};

  assign tlb_req.valid    = (state_q == CloseRead || state_q == CloseTranslated) && !asked_q;  // table read
  assign tlb_req.vaddr    = base_vaddr[device] + {24'd0, product_q, 6'd0};
  assign wr_req.valid     = state_q == CloseWrite;
  assign wr_req.cmd       = '{addr: paddr_q, len: 16'(HeaderBytes), tag: '0};
  assign wr_req.last      = second_q;
  assign wr_data      = second_q ?
      {merged.close_period, merged.first_period, 45'd0, merged.unmerged,
       merged.on ? 16'(MergeRows) : 16'd0, merged.hits, merged.fragments, merged.events, 5'd0, merged.ttc,
       7'd0, merged.merged, 64'd0} :
      {64'd0, part_q, flags, 4'd0, expected, 4'd0, notice.complete, 8'd0, notice.frame};
  assign notice_ready = state_q == CloseEvent && pending_in_ready;
  assign seen         = notice.present[2'(board_q - 3'd2)];
  assign bytes        = seen ? {board_read.units, 4'd0} : 16'd0;

  always_ff @(posedge clk) begin
    untranslated <= 1'b0;
    incomplete   <= 1'b0;
    product_q    <= 34'(buffer) * 34'(buffer_units);
    unique case (state_q)
      CloseIdle: begin
        board_q     <= 3'(notice_valid);  // board 0 is read in this cycle
        bytes_q     <= '0;
        truncated_q <= 1'b0;
        second_q    <= 1'b0;
        if (notice_valid) state_q <= notice.kind == KindReceiveDone ? CloseRead : CloseEvent;
      end
      CloseRead: begin  // data of the read two cycles ago
        board_q <= board_q + 1'b1;
        if (board_q >= 3'd2) begin
          part_q[2'(board_q-3'd2)] <= seen ? {board_read.flags, 3'd0, board_read.packets, bytes} : '0;
          bytes_q                  <= bytes_q + 18'(bytes);
          truncated_q              <= truncated_q || (seen && (board_read.flags & MgpTruncated) != 0);
        end
        if (board_q == 3'd5) begin
          state_q    <= CloseTranslated;
          incomplete <= absent != 0;
        end
      end
      CloseTranslated: begin
        if (tlb_rsp.resp_valid || answered_q) begin
          state_q      <= answered_q && page_q || tlb_rsp.resp_valid && tlb_rsp.resp_ok ? CloseWrite :
                          CloseEvent;
          untranslated <= !(answered_q && page_q || tlb_rsp.resp_valid && tlb_rsp.resp_ok);
        end
      end
      CloseWrite: begin
        if (wr_rsp.ready) begin
          second_q <= 1'b1;
          if (second_q) begin
            state_q   <= CloseEvent;
            headers_q <= headers_q + 1'b1;
          end
        end
      end
      CloseEvent: begin
        board_q <= '0;
        if (pending_in_ready) state_q <= CloseIdle;
      end
      default: state_q <= CloseIdle;
    endcase
    if (tlb_req.valid && tlb_rsp.ready) asked_q <= 1'b1;
    if (tlb_rsp.resp_valid) begin
      answered_q <= 1'b1;
      page_q     <= tlb_rsp.resp_ok;
      paddr_q    <= tlb_rsp.resp_paddr;
    end
    if (state_q == CloseIdle) begin
      asked_q    <= 1'b0;
      answered_q <= 1'b0;
    end
    if (wr_rsp.done_valid) headers_done_q <= headers_done_q + 1'b1;
    if (rst) begin
      state_q        <= CloseIdle;
      board_q        <= '0;
      headers_q      <= '0;
      headers_done_q <= '0;
      untranslated   <= 1'b0;
      incomplete     <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ events wait for the data they announce

  assign pending_in_valid = state_q == CloseEvent;
  always_comb begin
    pending_in             = '0;
    pending_in.ev.kind     = notice.kind;
    pending_in.ev.stream   = '0;  // written by event_join
    pending_in.ev.n        = notice.n[31:0];
    pending_in.ev.frame    = 32'(notice.frame);
    pending_in.promised    = notice.kind == KindReceiveDone;
    pending_in.headers     = headers_q;
    pending_in.write_fence = notice_fence;
    pending_in.start       = notice.start;
    pending_in.channel     = notice.channel;
    pending_in.devices     = notice.kind == KindBurstBegins || notice.kind == KindBurstEnds ? all_devices_q :
                             DEVICES'(1) << device;
    unique case (notice.kind)
      KindReceiveDone: begin
        pending_in.ev.flags  = flags;
        pending_in.ev.buffer = 32'(buffer);
        pending_in.ev.bytes  = merged.merged ? 32'(HeaderBytes) + {12'd0, merged.events, 4'd0} +
                               {15'd0, merged.hits, 1'b0} : 32'(bytes_q);
      end
      KindError: begin
        pending_in.ev.flags = FlagOverrun;
        pending_in.ev.bytes = notice.count;
      end
      KindBurstBegins: begin
        pending_in.ev.buffer = notice.n[31:0];
        pending_in.ev.bytes  = notice.n[63:32];
      end
      default: ;
    endcase
  end

  fifo #(
      .WIDTH($bits(pending_t)),
      .DEPTH(16)
  ) events (
      .clk,
      .rst,
      .in_valid (pending_in_valid),
      .in_ready (pending_in_ready),
      .in_data  (pending_in),
      .out_valid(pending_valid),
      .out_ready(pending_ready),
      .out_data (pending),
      .level
  );

  logic written_q, written;
  always_comb begin
    written = 8'(headers_done_q - pending.headers) < 8'd128;
    for (int c = 0; c < int'(CHANNELS); c++)
      if (!reached(done_serial[c], pending.write_fence[c])) written = 1'b0;
  end
  always_ff @(posedge clk) begin
    written_q <= pending_valid && !pending_ready && (written_q || written);
    if (rst) written_q <= 1'b0;
  end

  assign ev_valid      = pending_valid && written_q ? pending.devices & ~told_q : '0;
  assign pending_ready = written_q && (pending.devices & ~told_q & ~ev_ready) == 0;
  always_ff @(posedge clk) begin
    if (pending_ready || rst) told_q <= '0;
    else told_q <= told_q | (ev_valid & ev_ready);
  end
  assign ev_req.promised   = pending.promised;
  assign ev_req.start      = pending.start;
  assign ev_req.channel    = pending.channel;
  assign idle          = state_q == CloseIdle && !pending_valid && level == 0;
  logic [63:0] stamp_q;  // steady while the event is offered
  always_ff @(posedge clk) if (!(pending_valid && written_q)) stamp_q <= now;
  always_comb begin
    ev_req.item       = pending.ev;
    ev_req.item.stamp = stamp_q;
  end

  logic unused;
  assign unused = &{1'b0, board_q, tlb_rsp.resp_valid};

  logic unused_wr_rsp;
  assign unused_wr_rsp = &{1'b0, wr_rsp.done_tag, wr_rsp.done_error};

endmodule
