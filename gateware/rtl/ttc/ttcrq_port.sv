// SPDX-License-Identifier: SHL-2.1
// Port of a TTCrq mezzanine: pins of the TTCrx in its clock, crossed by a FIFO into ticks and frames. It
// replaces ttc_sample, ttc_align and ttc_frames.
module ttcrq_port
  import nanet_ttc_pkg::*;
#(
    // Cycles of `clk` without a tick until `locked` falls.
    parameter int unsigned QUIET_CYCLES = 64
) (
    /*
     * Pins; clk_ttc is the deskewed 40.08 MHz clock
     */
    input logic       clk_ttc,
    input logic       rst_ttc,
    input logic       ready,         // TTCReady and QPLL lock
    input logic       l1_accept,
    input logic       bcr,           // BCntRes
    input logic       ecr,           // EvCntRes
    input logic       brcst_strobe,  // BrcstStr1
    input logic [5:0] brcst,         // Brcst<7:2>

    // Count of periods in clk_ttc, for trigger_out.
    output ttc_tick_t number_ttc,

    /*
     * Card's clock
     */
    input  logic       clk,
    input  logic       rst,
    output logic       tick,
    output ttc_tick_t  number,
    output ttc_pair_t  pair,
    output logic       frame_valid,
    output ttc_frame_t frame,
    output logic       locked,
    output logic       slip        // pulse: a period was lost in the FIFO
);

  typedef struct packed {
    ttc_tick_t  number;
    logic       ready;
    logic       l1_accept;
    logic       bcr;
    logic       ecr;
    logic       strobe;
    logic [5:0] brcst;
  } pins_t;

  localparam int unsigned QuietW = $clog2(QUIET_CYCLES + 1);

  pins_t in_q, out;
  logic in_valid_q, unused_ready, out_valid, started_q;
  logic [QuietW-1:0] quiet_q;

  always_ff @(posedge clk_ttc) begin
    number_ttc <= number_ttc + 1'b1;
    in_valid_q <= 1'b1;
    in_q <= '{
        number: number_ttc,
        ready: ready,
        l1_accept: l1_accept,
        bcr: bcr,
        ecr: ecr,
        strobe: brcst_strobe,
        brcst: brcst
    };
    if (rst_ttc) begin
      number_ttc <= '0;
      in_valid_q <= 1'b0;
    end
  end

  async_fifo #(
      .WIDTH($bits(pins_t)),
      .DEPTH(8)
  ) i_fifo (
      .wr_clk   (clk_ttc),
      .wr_rst   (rst_ttc),
      .in_valid (in_valid_q),
      .in_ready (unused_ready),  // the card's clock is faster; a lost word shows in `number`
      .in_data  (in_q),
      .rd_clk   (clk),
      .rd_rst   (rst),
      .out_valid(out_valid),
      .out_ready(1'b1),
      .out_data (out)
  );

  always_ff @(posedge clk) begin
    tick        <= out_valid;
    frame_valid <= out_valid && (out.bcr || out.ecr || out.strobe);
    frame       <= '{
        addressed: 1'b0,
        corrected: 1'b0,
        data: {24'd0, out.strobe ? out.brcst : 6'd0, out.ecr, out.bcr}
    };
    pair        <= '{a: out.l1_accept, b: 1'b1};
    slip        <= 1'b0;
    if (out_valid) begin
      number    <= out.number;
      started_q <= 1'b1;
      quiet_q   <= '0;
      locked    <= out.ready;
      slip      <= started_q && out.number != number + 1'b1;
    end else if (quiet_q == QuietW'(QUIET_CYCLES)) locked <= 1'b0;
    else quiet_q <= quiet_q + 1'b1;
    if (rst) begin
      tick        <= 1'b0;
      frame_valid <= 1'b0;
      locked      <= 1'b0;
      slip        <= 1'b0;
      started_q   <= 1'b0;
      quiet_q     <= '0;
    end
  end

endmodule
