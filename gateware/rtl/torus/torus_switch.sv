// SPDX-License-Identifier: SHL-2.1
// One output of the crossbar: multiplexer and output buffer; a word passes in one cycle. `room` allows
// three words under way, which sustains a word per cycle.
module torus_switch
  import nanet_torus_pkg::*;
#(
    // Inputs of the crossbar.
    parameter int unsigned INPUTS = TorusInputs
) (
    input logic clk,
    input logic rst,

    /*
     * words of all inputs with the VC to leave on; the one selected, if any, in the cycle after `granted`
     */
    input torus_word_t [INPUTS-1:0] in_word,
    input logic        [INPUTS-1:0] in_select,
    input logic        [INPUTS-1:0] in_vc,

    /*
     * another word may be granted; a grant of this cycle
     */
    output logic room,
    input  logic granted,

    /*
     * output
     */
    output logic        out_valid,
    input  logic        out_ready,
    output logic        out_vc,
    output torus_word_t out_word
);

  localparam int unsigned Places = 3;
  localparam int unsigned WordW = $bits(torus_word_t) + 1;

  logic [WordW-1:0] chosen;
  logic [Places-1:0][WordW-1:0] place_q;
  logic [1:0] held_q, pending_q, after;
  logic arrives_q, leaves;

  always_comb begin
    chosen = '0;
    for (int i = 0; i < INPUTS; i++) chosen |= {WordW{in_select[i]}} & {in_vc[i], in_word[i]};
  end

  assign leaves              = out_valid && out_ready;
  assign after               = held_q - 2'(leaves);
  assign room                = pending_q != 2'(Places);
  assign out_valid           = held_q != 0;
  assign {out_vc, out_word}  = place_q[0];

  always_ff @(posedge clk) begin
    for (int i = 0; i < Places; i++) begin
      if (arrives_q && after == 2'(i)) place_q[i] <= chosen;
      else if (leaves && i + 1 < Places) place_q[i] <= place_q[(i+1)%Places];
    end
    held_q    <= after + 2'(arrives_q);
    arrives_q <= granted;
    pending_q <= pending_q + 2'(granted) - 2'(leaves);
    if (rst) begin
      held_q    <= '0;
      arrives_q <= 1'b0;
      pending_q <= '0;
    end
  end

endmodule
