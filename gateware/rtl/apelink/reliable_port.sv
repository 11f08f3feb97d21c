// SPDX-License-Identifier: SHL-2.1
// Port of a reliable link: bring-up, transmitter, receiver, credits and counters, between a router and a PHY
// with words of 128 bits and a mark for control words. Training: both sides send `train`, then `ready`.
module reliable_port
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
#(
    // Cycles without an undamaged control word until the link is down; above 3 x 32.
    parameter int unsigned TIMEOUT = 256,
    // Cycles until a request for a cell is repeated; above the round trip.
    parameter int unsigned RETRY_CYCLES = 128
) (
    input logic clk,
    input logic rst,

    /*
     * configuration: in use; words of a buffer at the far end; own node and port
     */
    input logic              enable,
    input logic        [9:0] capacity,
    input torus_node_t       node,
    input logic        [2:0] port,

    output logic               up,
    output reliable_counters_t counters,

    /*
     * words from the router; space for it
     */
    input  logic                        in_valid,
    output logic                        in_ready,
    input  logic                        in_vc,
    input  torus_word_t                 in_word,
    output torus_words_t [TorusVcs-1:0] space,

    /*
     * words to the router; words in its buffers, and pulses for words that leave them
     */
    output logic                        out_valid,
    output logic                        out_vc,
    output torus_word_t                 out_word,
    input  torus_words_t [TorusVcs-1:0] used,
    input  logic         [TorusVcs-1:0] freed,

    /*
     * PHY
     */
    output logic         tx_valid,
    input  logic         tx_ready,
    output logic         tx_control,
    output logic [127:0] tx_data,
    input  logic         rx_valid,
    input  logic         rx_control,
    input  logic [127:0] rx_data
);

  if (TIMEOUT < 96 || TIMEOUT > 1023) begin : gen_check_timeout
    $fatal(1, "reliable_port: TIMEOUT must be 96 to 1023");
  end

  typedef enum logic [1:0] {
    LinkTrain,
    LinkReady,
    LinkUp
  } link_e;
  link_e state_q;
  logic [9:0] silent_q;
  logic [2:0] trained_q;
  logic quiet, sent, resent, dropped, accepted, damaged, received, cut, lost, training;
  logic [15:0] unconfirmed;
  reliable_status_t status;
  logic [TorusVcs-1:0][15:0] freed_q;
  reliable_counters_t counters_q;

  assign up       = state_q == LinkUp;
  assign counters = counters_q;
  assign training = status.kind == ControlTrain || status.kind == ControlReady;
  assign lost     = silent_q == 10'(TIMEOUT) || !enable ||
                    (up && status.valid && status.kind == ControlTrain);

  always_ff @(posedge clk) begin
    silent_q <= status.valid ? '0 : silent_q + 10'd1;
    case (state_q)
      LinkTrain: begin
        if (status.valid && training && !trained_q[2]) trained_q <= trained_q + 3'd1;
        if (trained_q[2] && quiet) state_q <= LinkReady;
      end
      LinkReady: if (status.valid && status.kind != ControlTrain) state_q <= LinkUp;
      default: ;
    endcase
    if (lost) begin
      state_q   <= LinkTrain;
      trained_q <= '0;
      silent_q  <= '0;
    end

    // Words that remain from before the training leave later: they count as not yet freed.
    for (int v = 0; v < TorusVcs; v++)
      freed_q[v] <= up ? freed_q[v] + 16'(freed[v]) : -(16'(used[v].data) + 16'(used[v].header));

    counters_q.received    <= counters_q.received + 32'(received);
    counters_q.sent        <= counters_q.sent + 32'(sent);
    counters_q.resent      <= counters_q.resent + 32'(resent);
    counters_q.accepted    <= counters_q.accepted + 32'(accepted);
    counters_q.damaged     <= counters_q.damaged + 32'(damaged && up);
    counters_q.dropped     <= counters_q.dropped + 32'(dropped);
    counters_q.unconfirmed <= counters_q.unconfirmed + 32'(unconfirmed);
    counters_q.cut         <= counters_q.cut + 16'(cut);
    counters_q.down        <= counters_q.down + 16'(lost && up);
    if (rst) begin
      state_q    <= LinkTrain;
      trained_q  <= '0;
      silent_q   <= '0;
      counters_q <= '0;
    end
  end

  reliable_tx i_tx (
      .ready_phase (state_q == LinkReady),
      .freed       (freed_q),
      .link_valid  (tx_valid),
      .link_ready  (tx_ready),
      .link_control(tx_control),
      .link_data   (tx_data),
      .*
  );

  reliable_rx #(
      .RETRY_CYCLES(RETRY_CYCLES)
  ) i_rx (
      .link_valid  (rx_valid),
      .link_control(rx_control),
      .link_data   (rx_data),
      .*
  );

endmodule
