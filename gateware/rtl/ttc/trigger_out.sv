// SPDX-License-Identifier: SHL-2.1
// Retimer of releases into the experiment's clock: the pulse and its type leave in the period whose number
// the release names. Without that clock, clk_ttc is `clk` with decoded ticks, exact to one cycle of `clk`.
module trigger_out
  import nanet_ttc_pkg::*;
(
    /*
     * Card's clock
     */
    input logic     clk,
    input logic     rst,
    input logic     release_valid,
    input release_t released,

    /*
     * Experiment's clock; tick_ttc is 1, or the decoded tick. number_ttc: of the present period
     */
    input  logic       clk_ttc,
    input  logic       rst_ttc,
    input  logic       tick_ttc,
    input  ttc_tick_t  number_ttc,
    output logic       pulse,
    output logic [5:0] kind,

    // Pulse in clk_ttc: a release came after its period and was dropped.
    output logic missed
);

  logic head_valid, head_ready, unused_ready;
  release_t head;
  ttc_tick_t ahead;

  async_fifo #(
      .WIDTH($bits(release_t)),
      .DEPTH(8)
  ) i_fifo (
      .wr_clk   (clk),
      .wr_rst   (rst),
      .in_valid (release_valid),
      .in_ready (unused_ready),   // at most one release for each of the next eight periods
      .in_data  (released),
      .rd_clk   (clk_ttc),
      .rd_rst   (rst_ttc),
      .out_valid(head_valid),
      .out_ready(head_ready),
      .out_data (head)
  );

  assign ahead      = head.tick - number_ttc - 1'b1;  // 8 to 15: its period has passed
  assign head_ready = tick_ttc && (ahead == '0 || ahead[3]);

  always_ff @(posedge clk_ttc) begin
    missed <= 1'b0;
    if (tick_ttc) begin
      pulse  <= head_valid && ahead == '0;
      missed <= head_valid && ahead[3];
      if (head_valid && ahead == '0) kind <= head.kind;
    end
    if (rst_ttc) begin
      pulse  <= 1'b0;
      missed <= 1'b0;
      kind   <= '0;
    end
  end

endmodule
