// SPDX-License-Identifier: SHL-2.1
// Port of a compatible link: transmitter, receiver and counters, between a router and a PHY with words of
// 128 bits. Lane framing is a matter of the PHY.
module apelink_port
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
#(
    // Words of the packet buffer of the transmitter.
    parameter int unsigned DEPTH = 512
) (
    input logic clk,
    input logic rst,

    input  apelink_config_t   settings,
    output apelink_counters_t counters,

    /*
     * packets from the router, one at a time; space for it
     */
    input  logic                        in_valid,
    output logic                        in_ready,
    input  torus_word_t                 in_word,
    output torus_words_t [TorusVcs-1:0] space,

    /*
     * words to the router; words in its buffers
     */
    output logic                        out_valid,
    output logic                        out_vc,
    output torus_word_t                 out_word,
    input  torus_words_t [TorusVcs-1:0] used,

    /*
     * PHY
     */
    input  logic         link_up,
    output logic         tx_valid,
    input  logic         tx_ready,
    output logic [127:0] tx_data,
    input  logic         rx_valid,
    input  logic [127:0] rx_data
);

  logic remote_valid, corrected, fatal, credit_bad, received, cut, dropped, sent;
  apelink_used_t [TorusVcs-1:0] remote;
  apelink_counters_t counters_q;

  assign counters = counters_q;

  apelink_tx #(
      .DEPTH(DEPTH)
  ) i_tx (
      .link_valid(tx_valid),
      .link_ready(tx_ready),
      .link_data (tx_data),
      .*
  );

  apelink_rx i_rx (
      .link_valid(rx_valid),
      .link_data (rx_data),
      .*
  );

  always_ff @(posedge clk) begin
    counters_q.sent       <= counters_q.sent + 32'(sent);
    counters_q.received   <= counters_q.received + 32'(received);
    counters_q.dropped    <= counters_q.dropped + 32'(dropped);
    counters_q.cut        <= counters_q.cut + 16'(cut);
    counters_q.corrected  <= counters_q.corrected + 16'(corrected);
    counters_q.fatal      <= counters_q.fatal + 16'(fatal);
    counters_q.credit_bad <= counters_q.credit_bad + 16'(credit_bad);
    if (rst) counters_q <= '0;
  end

endmodule
