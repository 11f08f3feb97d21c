// SPDX-License-Identifier: SHL-2.1
// Torus node top of the C++ network model: words in unpacked arrays. Not for synthesis.
module torus_node_sim
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
#(
    // Words of an input buffer.
    parameter int unsigned DEPTH = 512
) (
    input logic clk,
    input logic rst,

    input logic [18:0] size,  // torus_size_t
    input logic [15:0] me,    // torus_node_t
    input logic [TorusLinks-1:0] connected,
    input logic [TorusLinks-1:0] compatible,
    input logic balanced,

    output logic [TorusLinks-1:0] up,
    output logic [TorusPorts-1:0] astray,
    output logic [TorusPorts-1:0] overflow,
    output logic [31:0] lost,  // packets dropped or cut, all links

    input  logic                local_in_valid,
    input  logic                local_in_vc,
    input  logic [129:0]        local_in_word,
    output logic [TorusVcs-1:0] local_in_freed,
    output logic                local_out_valid,
    output logic                local_out_vc,
    output logic [129:0]        local_out_word,

    input  logic [TorusLinks-1:0] channel_up,
    output logic [TorusLinks-1:0] tx_valid,
    output logic [TorusLinks-1:0] tx_control,
    output logic [127:0]          tx_data[TorusLinks],
    input  logic [TorusLinks-1:0] rx_valid,
    input  logic [TorusLinks-1:0] rx_control,
    input  logic [127:0]          rx_data[TorusLinks]
);

  localparam apelink_config_t Settings = '{
      ecc_header_make: 1'b1,
      ecc_header_check: 1'b1,
      ecc_credit_make: 1'b1,
      ecc_credit_check: 1'b1,
      threshold: '{data: 10'd384, header: 8'd96},
      waiting: 8'h40,
      credit_cycle: 8'd64
  };

  logic [TorusLinks-1:0][127:0] tx_words, rx_words;
  apelink_counters_t [TorusLinks-1:0] compatible_counters;
  reliable_counters_t [TorusLinks-1:0] reliable_counters;

  for (genvar i = 0; i < TorusLinks; i++) begin : gen_link
    assign rx_words[i] = rx_data[i];
    assign tx_data[i]  = tx_words[i];
  end

  always_comb begin
    lost = '0;
    for (int i = 0; i < TorusLinks; i++)
      lost += compatible_counters[i].dropped + 32'(compatible_counters[i].cut) +
              32'(compatible_counters[i].fatal) + reliable_counters[i].dropped + 32'(reliable_counters[i].cut) +
              reliable_counters[i].unconfirmed;
  end

  torus_node #(
      .DEPTH(DEPTH)
  ) i_node (
      .settings(Settings),
      .capacity(10'(DEPTH)),
      .tx_ready('1),
      .local_space('1),
      .tx_data (tx_words),
      .rx_data (rx_words),
      .*
  );

endmodule
