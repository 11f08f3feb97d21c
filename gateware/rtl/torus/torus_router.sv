// SPDX-License-Identifier: SHL-2.1
// Torus router. Seven ports (six links, the node), two VCs, virtual cut-through, dimension order.
// A header leaves only if its whole packet fits into the next buffer; an output VC belongs to its packet
// until the tail; inputs take turns by packet. With `empty_space`, a packet from the node leaves only if
// beyond it another of its size would fit, or half of the rest of the buffer is free: injection then cannot
// fill the buffers that packets under way need (raises the saturation of uniform traffic, lowers that of
// fixed flows).
// Header to header: five cycles.
module torus_router
  import nanet_torus_pkg::*;
#(
    // Words of an input buffer; a power of two. Not below the longest packet in use.
    parameter int unsigned DEPTH = 512,
    // Order of the dimensions.
    parameter torus_order_t ORDER = TorusZyx
) (
    input logic clk,
    input logic rst,

    /*
     * configuration: lattice, coordinates; links in use; links whose packets do not interleave; VC rule of
     * route(); payload space of the empty buffer at the far end of each link, 0: packets from the node leave
     * as all others
     */
    input torus_size_t                  size,
    input torus_node_t                  me,
    input logic        [TorusLinks-1:0] connected,
    input logic        [TorusLinks-1:0] atomic,
    input logic                         balanced,
    input logic        [TorusLinks-1:0][9:0] empty_space,

    /*
     * inputs; the sender holds credit for each word
     */
    input logic        [TorusPorts-1:0] in_valid,
    input logic        [TorusPorts-1:0] in_vc,
    input torus_word_t [TorusPorts-1:0] in_word,

    /*
     * words in the input buffers, by 2 port + VC; pulse for a word that left one
     */
    output torus_words_t [TorusInputs-1:0] used,
    output logic         [TorusInputs-1:0] freed,

    /*
     * outputs
     */
    output logic        [TorusPorts-1:0] out_valid,
    input  logic        [TorusPorts-1:0] out_ready,
    output logic        [TorusPorts-1:0] out_vc,
    output torus_word_t [TorusPorts-1:0] out_word,

    /*
     * space beyond each output, by 2 port + VC; falls in the cycle after a word is accepted
     */
    input torus_words_t [TorusInputs-1:0] space,

    /*
     * pulses per port: a packet is delivered here with bit 42; a word found its buffer full
     */
    output logic [TorusPorts-1:0] astray,
    output logic [TorusPorts-1:0] overflow
);

  localparam int unsigned Inputs = TorusInputs;

  // ---------------------------------------------------------------- inputs: route, buffer, front words

  torus_routed_t [Inputs-1:0] buffer;
  logic [Inputs-1:0] buffer_valid, take, lost, pop;
  torus_word_t [Inputs-1:0] word;
  logic [Inputs-1:0] vc, fits, next_fits, next_tail;
  logic [Inputs-1:0][8:0] need;
  logic [Inputs-1:0][TorusPorts-1:0] body, next_body, next_head;
  logic [Inputs-1:0][TorusPorts-1:0][TorusVcs-1:0] head;
  logic [Inputs-1:0][9:0] avail;
  logic [Inputs-1:0] edges;
  logic [Inputs-1:0][10:0] half;

  // Outputs of an input, inputs of an output.
  function automatic logic [TorusPorts-1:0] outputs(input torus_port_t port);
    for (int o = 0; o < int'(TorusPorts); o++) outputs[o] = crosspoint(port, torus_port_t'(o), ORDER);
  endfunction
  function automatic logic [Inputs-1:0] inputs(input torus_port_t port);
    for (int i = 0; i < int'(Inputs); i++) inputs[i] = crosspoint(torus_port_t'(i / 2), port, ORDER);
  endfunction

  for (genvar p = 0; p < TorusPorts; p++) begin : gen_input
    logic [TorusVcs-1:0] valid;
    torus_routed_t routed;

    torus_route #(
        .PORT (torus_port_t'(p)),
        .ORDER(ORDER)
    ) i_route (
        .clk,
        .rst,
        .size,
        .me,
        .connected,
        .balanced,
        .in_valid (in_valid[p]),
        .in_vc    (in_vc[p]),
        .in_word  (in_word[p]),
        .out_valid(valid),
        .out_data (routed),
        .astray   (astray[p])
    );

    for (genvar v = 0; v < TorusVcs; v++) begin : gen_vc
      localparam int unsigned I = 2 * p + v;

      torus_vc_fifo #(
          .DEPTH(DEPTH)
      ) i_fifo (
          .clk,
          .rst,
          .in_valid (valid[v]),
          .in_data  (routed),
          .out_valid(buffer_valid[I]),
          .out_ready(take[I]),
          .out_data (buffer[I]),
          .used     (used[I]),
          .overflow (lost[I])
      );

      torus_front #(
          .OUTPUTS(outputs(torus_port_t'(p))),
          .LOCAL  (p == int'(TorusLocal))
      ) i_front (
          .clk,
          .rst,
          .in_valid (buffer_valid[I]),
          .in_ready (take[I]),
          .in_data  (buffer[I]),
          .avail,
          .edges,
          .half,
          .word     (word[I]),
          .vc       (vc[I]),
          .need     (need[I]),
          .pop      (pop[I]),
          .body     (body[I]),
          .head     (head[I]),
          .fits     (fits[I]),
          .next_body(next_body[I]),
          .next_head(next_head[I]),
          .next_fits(next_fits[I]),
          .next_tail(next_tail[I])
      );

      always_ff @(posedge clk) begin
        freed[I] <= buffer_valid[I] && take[I];
        if (rst) freed[I] <= 1'b0;
      end
    end

    assign overflow[p] = |lost[2*p+:2];
  end

  // ---------------------------------------------------------------- outputs

  logic [TorusPorts-1:0][Inputs-1:0] grant;
  always_comb begin
    pop = '0;
    for (int o = 0; o < TorusPorts; o++) pop |= grant[o] & inputs(torus_port_t'(o));
  end

  for (genvar o = 0; o < TorusPorts; o++) begin : gen_output
    logic [Inputs-1:0] body_o, next_body_o, next_head_o;
    logic [Inputs-1:0][TorusVcs-1:0] head_o;
    for (genvar i = 0; i < Inputs; i++) begin : gen_request
      assign body_o[i]      = body[i][o];
      assign head_o[i]      = head[i][o];
      assign next_body_o[i] = next_body[i][o];
      assign next_head_o[i] = next_head[i][o];
    end

    torus_output #(
        .INPUTS(inputs(torus_port_t'(o)))
    ) i_output (
        .clk,
        .rst,
        .atomic     (o < TorusLinks && atomic[o%TorusLinks]),
        .empty_space(o < TorusLinks ? empty_space[o%TorusLinks] : '0),
        .body       (body_o),
        .head       (head_o),
        .fits,
        .next_body  (next_body_o),
        .next_head  (next_head_o),
        .next_fits,
        .next_tail,
        .word,
        .vc,
        .need,
        .grant      (grant[o]),
        .out_valid  (out_valid[o]),
        .out_ready  (out_ready[o]),
        .out_vc     (out_vc[o]),
        .out_word   (out_word[o]),
        .space      (space[2*o+:2]),
        .avail      (avail[2*o+:2]),
        .edges      (edges[2*o+:2]),
        .half       (half[2*o+:2])
    );
  end

endmodule
