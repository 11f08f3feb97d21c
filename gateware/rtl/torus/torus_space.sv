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

  torus_words_t reserved_q, more;  // words of the packet granted
  logic [10:0] data_left;
  logic [8:0] edge_left;  // before that packet
  logic left_2, left_3, left_4;
  logic [9:0] avail_q;
  logic edges_q;
  logic [11:0] twice;
  logic [10:0] half_q;

  assign more.data   = reserve ? 10'(words) : '0;
  assign more.header = reserve ? (only ? 8'd1 : 8'd2) : '0;
  // One carry chain each; `reserve` selects behind it.
  assign data_left   = {1'b0, space.data} - {1'b0, reserved_q.data} - {1'b0, more.data};
  assign edge_left   = {1'b0, space.header} - {1'b0, reserved_q.header};
  assign left_4      = !edge_left[8] && edge_left[7:2] != 0;
  assign left_3      = left_4 || (!edge_left[8] && edge_left[1:0] == 2'd3);
  assign left_2      = left_4 || (!edge_left[8] && edge_left[1]);
  assign twice       = {1'b0, avail_q, 1'b0} - {2'b0, empty_space};
  assign avail       = avail_q;
  assign edges       = edges_q;
  assign half        = half_q;

  always_ff @(posedge clk) begin
    reserved_q.data   <= reserved_q.data + more.data - 10'(leaves && !edge_word);
    reserved_q.header <= reserved_q.header + more.header - 8'(leaves && edge_word);
    avail_q           <= data_left[10] ? '0 : data_left[9:0];
    edges_q           <= !reserve ? left_2 : only ? left_3 : left_4;
    half_q            <= twice[11] ? '0 : twice[10:0];
    if (rst) begin
      reserved_q <= '0;
      avail_q    <= '0;
      edges_q    <= 1'b0;
      half_q     <= '0;
    end
  end

endmodule
