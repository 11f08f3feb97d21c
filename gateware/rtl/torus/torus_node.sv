// SPDX-License-Identifier: SHL-2.1
// Node of the torus without network interface: router and six link ports. Each port speaks the reliable or
// the compatible protocol, chosen by a register while the port is disabled.
module torus_node
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
#(
    // Words of an input buffer of the router; a power of two.
    parameter int unsigned DEPTH = 512,
    // 1: packets from the node leave space in the buffers of reliable links (torus_router).
    parameter bit RESERVE = 1'b0
) (
    input logic clk,
    input logic rst,

    /*
     * configuration: lattice, coordinates; per link: in use, compatible protocol; VC rule; registers of the
     * compatible protocol; words of a buffer at the far end of reliable links
     */
    input torus_size_t                      size,
    input torus_node_t                      me,
    input logic            [TorusLinks-1:0] connected,
    input logic            [TorusLinks-1:0] compatible,
    input logic                             balanced,
    input apelink_config_t                  settings,
    input logic            [           9:0] capacity,

    /*
     * state
     */
    output logic               [TorusLinks-1:0] up,
    output apelink_counters_t  [TorusLinks-1:0] compatible_counters,
    output reliable_counters_t [TorusLinks-1:0] reliable_counters,
    output logic               [TorusPorts-1:0] astray,
    output logic               [TorusPorts-1:0] overflow,

    /*
     * packets from the node; pulses for words that left the VC's buffer
     */
    input  logic                       local_in_valid,
    input  logic                       local_in_vc,
    input  torus_word_t                local_in_word,
    output logic        [TorusVcs-1:0] local_in_freed,

    /*
     * packets to the node, and its space for them; it accepts every word that it has space for
     */
    output logic                        local_out_valid,
    output logic                        local_out_vc,
    output torus_word_t                 local_out_word,
    input  torus_words_t [TorusVcs-1:0] local_space,

    /*
     * PHY of each link; `control` marks control words of the reliable protocol; `channel_up` is used by the
     * compatible one
     */
    input  logic [TorusLinks-1:0]        channel_up,
    output logic [TorusLinks-1:0]        tx_valid,
    input  logic [TorusLinks-1:0]        tx_ready,
    output logic [TorusLinks-1:0]        tx_control,
    output logic [TorusLinks-1:0][127:0] tx_data,
    input  logic [TorusLinks-1:0]        rx_valid,
    input  logic [TorusLinks-1:0]        rx_control,
    input  logic [TorusLinks-1:0][127:0] rx_data
);

  logic [TorusPorts-1:0] in_valid, in_vc, out_valid, out_ready, out_vc;
  torus_word_t [TorusPorts-1:0] in_word, out_word;
  torus_words_t [TorusInputs-1:0] used, space;
  logic [TorusInputs-1:0] freed;
  logic [TorusLinks-1:0][9:0] empty_space;
  logic unused_used;

  torus_router #(
      .DEPTH(DEPTH)
  ) i_router (
      .atomic(compatible),
      .*
  );

  assign in_valid[TorusLocal]        = local_in_valid;
  assign in_vc[TorusLocal]           = local_in_vc;
  assign in_word[TorusLocal]         = local_in_word;
  assign local_in_freed              = freed[2*TorusLocal+:2];
  assign local_out_valid             = out_valid[TorusLocal];
  assign local_out_vc                = out_vc[TorusLocal];
  assign local_out_word              = out_word[TorusLocal];
  assign out_ready[TorusLocal]       = 1'b1;
  assign space[2*TorusLocal+:2]      = local_space;
  assign unused_used                 = &{1'b0, used[2*TorusLocal+:2], 1'b0};

  for (genvar i = 0; i < TorusLinks; i++) begin : gen_link
    logic a_ready, a_valid, a_vc, a_tx_valid, r_ready, r_valid, r_vc, r_tx_valid, r_tx_control, r_up;
    torus_word_t a_word, r_word;
    torus_words_t [TorusVcs-1:0] a_space, r_space;
    logic [127:0] a_tx_data, r_tx_data;

    apelink_port i_apelink (
        .clk,
        .rst,
        .settings,
        .counters (compatible_counters[i]),
        .in_valid (out_valid[i] && compatible[i]),
        .in_ready (a_ready),
        .in_word  (out_word[i]),
        .space    (a_space),
        .out_valid(a_valid),
        .out_vc   (a_vc),
        .out_word (a_word),
        .used     (used[2*i+:2]),
        .link_up  (channel_up[i] && compatible[i] && connected[i]),
        .tx_valid (a_tx_valid),
        .tx_ready (tx_ready[i]),
        .tx_data  (a_tx_data),
        .rx_valid (rx_valid[i]),
        .rx_data  (rx_data[i])
    );

    reliable_port i_reliable (
        .clk,
        .rst,
        .enable    (connected[i] && !compatible[i]),
        .capacity,
        .node      (me),
        .port      (3'(i)),
        .up        (r_up),
        .counters  (reliable_counters[i]),
        .in_valid  (out_valid[i] && !compatible[i]),
        .in_ready  (r_ready),
        .in_vc     (out_vc[i]),
        .in_word   (out_word[i]),
        .space     (r_space),
        .out_valid (r_valid),
        .out_vc    (r_vc),
        .out_word  (r_word),
        .used      (used[2*i+:2]),
        .freed     (freed[2*i+:2]),
        .tx_valid  (r_tx_valid),
        .tx_ready  (tx_ready[i]),
        .tx_control(r_tx_control),
        .tx_data   (r_tx_data),
        .rx_valid  (rx_valid[i]),
        .rx_control(rx_control[i]),
        .rx_data   (rx_data[i])
    );

    // Credits of the compatible protocol do not say when the buffer at the far end is empty.
    assign empty_space[i] = compatible[i] || !RESERVE ? '0 : capacity - 10'd2;
    assign up[i]          = compatible[i] ? channel_up[i] : r_up;
    assign out_ready[i]   = compatible[i] ? a_ready : r_ready;
    assign space[2*i+:2]  = compatible[i] ? a_space : r_space;
    // A port may complete a cut packet after the protocol was changed.
    assign in_valid[i]    = a_valid || r_valid;
    assign in_vc[i]       = a_valid ? a_vc : r_vc;
    assign in_word[i]     = a_valid ? a_word : r_word;
    assign tx_valid[i]    = compatible[i] ? a_tx_valid : r_tx_valid;
    assign tx_control[i]  = !compatible[i] && r_tx_control;
    assign tx_data[i]     = compatible[i] ? a_tx_data : r_tx_data;
  end

endmodule
