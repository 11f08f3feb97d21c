// SPDX-License-Identifier: SHL-2.1
// Event writer for closed buffers in gather mode `packets`. Marks empty slots, waits until all payloads
// and marks are written, then issues the event. Overruns become events in the same order.
module clop_packets_close
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2,
    // Consumer devices; a power of two. Each has an event queue.
    parameter int unsigned DEVICES = 1,
    // Width of the DMA data in bits.
    parameter int unsigned DATA_W = 256
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, as in clop_packets
     */
    input logic [16:0] slot_bytes,
    input logic [63:0] now,

    /*
     * notifications
     */
    input  logic                   notice_valid,
    output logic                   notice_ready,
    input  packets_notice_t        notice,
    input  serial_t [CHANNELS-1:0] notice_fence,
    input  serial_t [CHANNELS-1:0] done,
    output logic                   notice_done,

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
     * events, each to the device of its number n
     */
    output logic [DEVICES-1:0] ev_valid,
    input  logic [DEVICES-1:0] ev_ready,
    output event_req_t         ev_req,

    // Nothing pending.
    output logic idle,

    /*
     * one pulse per empty slot left unmarked for lack of a translation
     */
    output logic untranslated,
    // Pulse per buffer closed before it is full.
    output logic incomplete
);

  localparam int unsigned MarkBytes = 16;  // zeroed MGP header: length 0 marks an empty slot

  if (DATA_W < 128) begin : gen_check_width
    $fatal(1, "DATA_W must be at least 128 (%m)");
  end

  typedef enum logic [2:0] {
    CloseIdle,
    CloseTranslate,
    CloseTranslated,
    CloseWrite,
    CloseEvent
  } state_e;

  state_e state_q;
  logic [12:0] empty_q;
  logic [63:0] vaddr_q, paddr_q, stamp_q;
  logic [12:0] writes_q;  // writes not yet completed
  logic [CHANNELS-1:0] reached_q;
  logic written_q, skips;

  assign tlb_req.valid = state_q == CloseTranslate;
  assign tlb_req.vaddr = vaddr_q;
  assign wr_req.valid  = state_q == CloseWrite;
  assign wr_req.cmd    = '{addr: paddr_q, len: 16'(MarkBytes), tag: '0};
  assign wr_data   = '0;
  assign wr_req.last   = 1'b1;
  assign skips     = state_q == CloseTranslated && tlb_rsp.resp_valid && !tlb_rsp.resp_ok;

  assign ev_valid     = state_q == CloseEvent && written_q ? DEVICES'(1) << notice.device : '0;
  assign notice_ready = (ev_valid & ev_ready) != 0;
  assign notice_done  = notice_ready && notice.overrun;
  assign ev_req.promised  = !notice.overrun;
  assign ev_req.start     = notice.start;
  assign ev_req.channel   = notice.channel;
  assign ev_req.item           = '{kind: notice.overrun ? KindError : KindReceiveDone, stream: '0,
                          flags: notice.overrun ? FlagOverrun : notice.empty == 0 ? FlagComplete : '0,
                          buffer: 32'(notice.buffer), bytes: notice.bytes, frame: 32'(notice.frame),
                          stamp: stamp_q, n: notice.n, lap: '0};
  assign idle         = state_q == CloseIdle && !notice_valid;

  always_ff @(posedge clk) begin
    untranslated <= skips;
    incomplete   <= 1'b0;
    unique case (state_q)
      CloseIdle: begin
        empty_q <= notice.empty;
        vaddr_q <= notice.vaddr;
        if (notice_valid) begin
          state_q    <= notice.empty == 0 ? CloseEvent : CloseTranslate;
          incomplete <= notice.empty != 0;
        end
      end
      CloseTranslate: if (tlb_rsp.ready) state_q <= CloseTranslated;
      CloseTranslated: begin
        paddr_q <= tlb_rsp.resp_paddr;
        if (tlb_rsp.resp_valid && tlb_rsp.resp_ok) state_q <= CloseWrite;
      end
      CloseWrite: ;
      CloseEvent: if (notice_ready) state_q <= CloseIdle;
      default: state_q <= CloseIdle;
    endcase
    if (skips || (wr_req.valid && wr_rsp.ready)) begin
      empty_q <= empty_q - 1'b1;
      vaddr_q <= vaddr_q + 64'(slot_bytes);
      state_q <= empty_q == 13'd1 ? CloseEvent : CloseTranslate;
    end

    writes_q <= writes_q + 13'(wr_req.valid && wr_rsp.ready) - 13'(wr_rsp.done_valid);
    for (int c = 0; c < int'(CHANNELS); c++) reached_q[c] <= reached(done[c], notice_fence[c]);
    written_q <= state_q == CloseEvent && !notice_ready && (written_q || (reached_q == '1 && writes_q == 0));
    if (!written_q) stamp_q <= now;  // steady while the event is offered
    if (rst) begin
      state_q      <= CloseIdle;
      writes_q     <= '0;
      written_q    <= 1'b0;
      untranslated <= 1'b0;
      incomplete   <= 1'b0;
    end
  end

  logic unused_wr_rsp;
  assign unused_wr_rsp = &{1'b0, wr_rsp.done_tag, wr_rsp.done_error};

endmodule
