// SPDX-License-Identifier: SHL-2.1
// Torus router top of the C++ network model: words in unpacked arrays. Not for synthesis.
module torus_router_sim
  import nanet_torus_pkg::*;
#(
    // Words of an input buffer.
    parameter int unsigned DEPTH = 64
) (
    input logic clk,
    input logic rst,

    input logic [18:0] size,  // torus_size_t
    input logic [15:0] me,    // torus_node_t
    input logic [TorusLinks-1:0] connected,
    input logic [TorusLinks-1:0] atomic,
    input logic balanced,
    input logic [9:0] empty_space,  // of all links

    input logic [TorusPorts-1:0] in_valid,
    input logic [TorusPorts-1:0] in_vc,
    input logic [129:0]          in_word[TorusPorts],

    output logic [TorusInputs-1:0] freed,

    output logic [TorusPorts-1:0] out_valid,
    input  logic [TorusPorts-1:0] out_ready,
    output logic [TorusPorts-1:0] out_vc,
    output logic [129:0]          out_word[TorusPorts],

    input logic [17:0] space[TorusInputs],  // torus_words_t

    output logic [TorusPorts-1:0] astray,
    output logic [TorusPorts-1:0] overflow
);

  torus_word_t [TorusPorts-1:0] in_words, out_words;
  torus_words_t [TorusInputs-1:0] unused_used, spaces;

  for (genvar i = 0; i < TorusPorts; i++) begin : gen_port
    assign in_words[i] = in_word[i];
    assign out_word[i] = out_words[i];
  end
  for (genvar i = 0; i < TorusInputs; i++) begin : gen_lane
    assign spaces[i] = space[i];
  end

  torus_router #(
      .DEPTH(DEPTH)
  ) i_router (
      .empty_space({TorusLinks{empty_space}}),
      .in_word (in_words),
      .out_word(out_words),
      .used    (unused_used),
      .space   (spaces),
      .*
  );

endmodule
