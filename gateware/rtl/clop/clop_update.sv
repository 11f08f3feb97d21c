// SPDX-License-Identifier: SHL-2.1
// State update of clop, one cycle after a decision or an opened frame: buffer slot, status of the number,
// board part, timer, frame closed.
module clop_update
  import nanet_pkg::*;
#(
    // As in clop.
    parameter int unsigned MAX_BUFFERS = 2048
) (
    input logic clk,
    input logic rst,

    // Low bits of n that select its buffer.
    input logic [$clog2(MAX_BUFFERS)-1:0] index_mask,

    /*
     * clearing, word by word
     */
    input logic                           clear,
    input logic [$clog2(MAX_BUFFERS)+1:0] clear_addr,

    /*
     * outcome of a packet or of a timer's frame
     */
    input clop_verdict_t verdict,
    input clop_act_t     act,

    /*
     * opened frame; `now_open`: without the valid condition
     */
    input logic         now_open,
    input clop_opened_t opened,

    /*
     * writes
     */
    output logic                           slot_we,
    output logic [$clog2(MAX_BUFFERS)-1:0] slot_addr,
    output clop_slot_t                     slot,
    output logic                           status_we,
    output logic [$clog2(MAX_BUFFERS)+1:0] status_addr,
    output clop_status_t                   status,
    output logic                           board_we,
    output logic [$clog2(MAX_BUFFERS)+1:0] board_addr,
    output clop_board_t                    board,
    output logic                           timer_push,
    output logic [31:0]                    timer_n,
    output logic [31:0]                    timer_first,
    output clop_closed_t                   closed        // frame in that slot
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);
  localparam int unsigned StatusW = IndexW + 2;  // overrun status is kept for 4 N numbers

  logic [31:0] n;
  logic [3:0] board_bit;
  clop_slot_t slot_next;

  assign n         = now_open ? opened.n[31:0] : act.n;
  assign board_bit = 4'd1 << act.board;

  always_comb begin
    slot_next = act.slot;
    if (now_open) begin
      slot_next = '{used: 1'b1, open: !opened.closes, seen: opened.packet && opened.last,
                    present: opened.uses ? board_bit : 4'd0,
                    complete: opened.uses && act.done_alone ? board_bit : 4'd0, n: opened.n[31:0],
                    frame: 24'(opened.frame), first: opened.stamp[31:0]};
    end
  end

  always_ff @(posedge clk) begin
    slot_we     <= clear || verdict.uses || verdict.expires || (opened.valid && opened.ok);
    slot_addr   <= clear ? IndexW'(clear_addr) : IndexW'(n) & index_mask;
    slot        <= slot_next;
    if (clear) slot <= '0;
    status_we   <= clear || opened.valid;
    status_addr <= clear ? clear_addr : StatusW'(opened.n);
    status      <= '{overrun: !opened.ok, tag: opened.n[StatusW+:15]};
    if (clear) status <= '1;
    board_we    <= verdict.uses || (opened.valid && opened.uses);
    board_addr  <= {IndexW'(act.n) & index_mask, act.board};
    board       <= act.part;
    timer_push  <= (verdict.uses && act.retimed) || (opened.valid && opened.ok);
    timer_n     <= n;
    timer_first <= now_open ? opened.stamp[31:0] : act.stamp[31:0];
    closed      <= '{valid: verdict.closes != 0 || (opened.valid && opened.closes),
                     timed_out: act.timed_out && !now_open, start: act.stamp[31:0], channel: act.channel};
    if (rst) begin
      timer_push   <= 1'b0;
      closed.valid <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, verdict, act, opened};

endmodule
