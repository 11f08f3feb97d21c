// SPDX-License-Identifier: SHL-2.1
// What the consumer sees of a closed buffer in gather mode `packets`: marks the slots that stayed empty,
// then, when all payloads and marks are written, makes the event. Overruns become events in the same order.
module clop_packets_close
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Channels that place packets.
    parameter int unsigned CHANNELS = 2,
    // Consumer devices; a power of two. Each has its event queue.
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
     * news
     */
    input  logic                                   news_valid,
    output logic                                   news_ready,
    input  packets_news_t                          news,
    input  serial_t [CHANNELS-1:0] news_ticket,
    input  serial_t [CHANNELS-1:0] done,
    output logic                                   news_told,

    /*
     * translation
     */
    output logic        tlb_valid,
    input  logic        tlb_ready,
    output logic [63:0] tlb_vaddr,
    input  logic        tlb_resp_valid,
    input  logic        tlb_resp_ok,
    input  logic [63:0] tlb_resp_paddr,

    /*
     * DMA write
     */
    output logic              wr_valid,
    input  logic              wr_ready,
    output dma_cmd_t          wr_cmd,
    output logic [DATA_W-1:0] wr_data,
    output logic              wr_last,
    input  logic              wr_done_valid,

    /*
     * events, each to the device whose number n is
     */
    output logic [DEVICES-1:0] ev_valid,
    input  logic [DEVICES-1:0] ev_ready,
    output event_t             ev,
    output logic               ev_promised,
    output logic [31:0]        ev_start,    // of the packet that closed the buffer
    output logic [2:0]         ev_channel,

    // nothing is under way
    output logic idle,

    /*
     * one pulse for each empty slot that is not marked: the firmware knows no such page
     */
    output logic untranslated,
    // one pulse for each buffer that is closed before it is full
    output logic incomplete
);

  localparam int unsigned MarkBytes = 16;  // an MGP header of zeros: its length says that the slot is empty

  if (DATA_W < 128) begin : gen_check_width
    $fatal(1, "DATA_W must be at least 128 (%m)");
  end

  typedef enum logic [2:0] {
    CloseIdle,
    CloseAsk,
    CloseAnswer,
    CloseWrite,
    CloseEvent
  } state_e;

  state_e state_q;
  logic [12:0] empty_q;
  logic [63:0] vaddr_q, paddr_q, stamp_q;
  logic [12:0] writes_q;  // that are not done
  logic [CHANNELS-1:0] reached_q;
  logic written_q, skips;

  assign tlb_valid = state_q == CloseAsk;
  assign tlb_vaddr = vaddr_q;
  assign wr_valid  = state_q == CloseWrite;
  assign wr_cmd    = '{addr: paddr_q, len: 16'(MarkBytes), tag: '0};
  assign wr_data   = '0;
  assign wr_last   = 1'b1;
  assign skips     = state_q == CloseAnswer && tlb_resp_valid && !tlb_resp_ok;

  assign ev_valid    = state_q == CloseEvent && written_q ? DEVICES'(1) << news.device : '0;
  assign news_ready  = (ev_valid & ev_ready) != 0;
  assign news_told   = news_ready && news.overrun;
  assign ev_promised = !news.overrun;
  assign ev_start    = news.start;
  assign ev_channel  = news.channel;
  assign ev          = '{kind: news.overrun ? KindError : KindReceiveDone, stream: '0,
                         flags: news.overrun ? FlagOverrun : news.empty == 0 ? FlagComplete : '0,
                         buffer: 32'(news.buffer), bytes: news.bytes, frame: 32'(news.frame),
                         stamp: stamp_q, n: news.n, lap: '0};
  assign idle        = state_q == CloseIdle && !news_valid;

  always_ff @(posedge clk) begin
    untranslated <= skips;
    incomplete   <= 1'b0;
    unique case (state_q)
      CloseIdle: begin
        empty_q <= news.empty;
        vaddr_q <= news.vaddr;
        if (news_valid) begin
          state_q    <= news.empty == 0 ? CloseEvent : CloseAsk;
          incomplete <= news.empty != 0;
        end
      end
      CloseAsk: if (tlb_ready) state_q <= CloseAnswer;
      CloseAnswer: begin
        paddr_q <= tlb_resp_paddr;
        if (tlb_resp_valid && tlb_resp_ok) state_q <= CloseWrite;
      end
      CloseWrite: ;
      CloseEvent: if (news_ready) state_q <= CloseIdle;
      default: state_q <= CloseIdle;
    endcase
    if (skips || (wr_valid && wr_ready)) begin
      empty_q <= empty_q - 1'b1;
      vaddr_q <= vaddr_q + 64'(slot_bytes);
      state_q <= empty_q == 13'd1 ? CloseEvent : CloseAsk;
    end

    writes_q <= writes_q + 13'(wr_valid && wr_ready) - 13'(wr_done_valid);
    for (int c = 0; c < int'(CHANNELS); c++) reached_q[c] <= reached(done[c], news_ticket[c]);
    written_q <= state_q == CloseEvent && !news_ready && (written_q || (reached_q == '1 && writes_q == 0));
    if (!written_q) stamp_q <= now;  // steady while the event is offered
    if (rst) begin
      state_q      <= CloseIdle;
      writes_q     <= '0;
      written_q    <= 1'b0;
      untranslated <= 1'b0;
      incomplete   <= 1'b0;
    end
  end

endmodule
