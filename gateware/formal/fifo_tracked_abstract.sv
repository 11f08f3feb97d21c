// SPDX-License-Identifier: SHL-2.1
// Abstraction of fifo for proofs with one tracked word: an arbitrary word keeps its value and position;
// all others are unconstrained. Words leave in order and an offered word is stable (fifo_proof.sv); timing
// is unconstrained.
module fifo #(
    parameter int unsigned WIDTH = 64,
    parameter int unsigned DEPTH = 16
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic                   in_valid,
    output logic                   in_ready,
    input  logic [WIDTH-1:0]       in_data,
    output logic                   out_valid,
    input  logic                   out_ready,
    output logic [WIDTH-1:0]       out_data,
    output logic [$clog2(DEPTH):0] level
);

  localparam int unsigned CountW = $clog2(DEPTH) + 2;

  logic pick, takes, gives;  // unconstrained: the incoming word is tracked; room; a word leaves
  logic [WIDTH-1:0] other;  // unconstrained
  logic [CountW-1:0] count_q, ahead_q;  // stored words; words before the tracked one
  logic tracked_q, offered_q;
  logic [WIDTH-1:0] word_q;
  logic in, out, at_head;

  assign in_ready  = takes && count_q <= CountW'(DEPTH);  // one more in the output register
  assign in        = in_valid && in_ready;
  assign out_valid = count_q != 0 && (offered_q || gives);
  assign out       = out_valid && out_ready;
  assign at_head   = tracked_q && ahead_q == 0;
  assign out_data  = at_head ? word_q : other;

  always_ff @(posedge clk) begin
    offered_q <= out_valid && !out_ready;
    count_q   <= count_q + CountW'(in) - CountW'(out);
    if (out && tracked_q) ahead_q <= ahead_q - 1'b1;
    if (out && at_head) tracked_q <= 1'b0;
    if (in && pick && !tracked_q) begin
      tracked_q <= 1'b1;
      word_q    <= in_data;
      ahead_q   <= count_q - CountW'(out);
    end
    if (rst) begin
      offered_q <= 1'b0;
      count_q   <= '0;
      tracked_q <= 1'b0;
    end
  end

endmodule
