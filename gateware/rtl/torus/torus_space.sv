// SPDX-License-Identifier: SHL-2.1
// Space beyond one output VC: reserves the space of a whole packet at its grant, and returns it word by word
// as the words leave and the far end counts them.
module torus_space
  import nanet_torus_pkg::*;
(
    input logic clk,
    input logic rst,

    // payload space of the empty buffer at the far end, or 0
    input logic [9:0] empty_space,

    /*
     * a packet is granted: payload words, only a header; a word of it leaves: header or footer
     */
    input logic       reserve,
    input logic [8:0] words,
    input logic       only,
    input logic       leaves,
    input logic       edge_word,

    /*
     * space; falls in the cycle after a word leaves
     */
    input torus_words_t space,

    /*
     * payload space without the words of granted packets, and whether there is space for header and footer
     * beside theirs, a cycle later; longest packet beyond which half of the rest is free, two cycles later
     */
    output logic [ 9:0] avail,
    output logic        edges,
    output logic [10:0] half
);

  torus_words_t reserved_q, held;
  logic [9:0] avail_q;
  logic edges_q;
  logic [11:0] twice;
  logic [10:0] half_q;

  assign held.data   = reserved_q.data + (reserve ? 10'(words) : '0);
  assign held.header = reserved_q.header + (reserve ? (only ? 8'd1 : 8'd2) : '0);
  assign twice       = {1'b0, avail_q, 1'b0} - {2'b0, empty_space};
  assign avail       = avail_q;
  assign edges       = edges_q;
  assign half        = half_q;

  always_ff @(posedge clk) begin
    reserved_q.data   <= held.data - 10'(leaves && !edge_word);
    reserved_q.header <= held.header - 8'(leaves && edge_word);
    avail_q           <= space.data > held.data ? space.data - held.data : '0;
    edges_q           <= {1'b0, space.header} >= {1'b0, held.header} + 9'd2;
    half_q            <= twice[11] ? '0 : twice[10:0];
    if (rst) begin
      reserved_q <= '0;
      avail_q    <= '0;
      edges_q    <= 1'b0;
      half_q     <= '0;
    end
  end

endmodule
