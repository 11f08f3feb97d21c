// SPDX-License-Identifier: SHL-2.1
// Round-robin merge of receive-path and sender events onto one event queue. An event without a promised
// entry does not block the sender's promised ones, since only they can free entries.
module event_join
  import nanet_dma_pkg::*;
(
    input logic clk,
    input logic rst,

    // Sender events, merged with the events of the receive path.
    input logic [7:0] stream,

    /*
     * of the receive path
     */
    input  logic   receive_valid,
    output logic   receive_ready,
    input  event_t receive,
    input  logic   receive_promised,

    /*
     * sender events, all promised
     */
    input  logic   send_valid,
    output logic   send_ready,
    input  event_t send,

    /*
     * to the event queue
     */
    output logic        ev_valid,
    input  logic        ev_ready,
    output event_t      ev,
    output logic        ev_promised,
    input  logic [15:0] room
);

  logic turn_q;  // the sender has the next turn
  logic no_room_q, takes_send;

  assign takes_send = send_valid && (!receive_valid || turn_q || (no_room_q && !receive_promised));

  always_comb begin
    ev = takes_send ? send : receive;
    if (!takes_send) ev.stream = stream;
  end
  assign ev_valid      = receive_valid || send_valid;
  assign ev_promised   = takes_send || receive_promised;
  assign receive_ready = ev_ready && !takes_send;
  assign send_ready    = ev_ready && takes_send;

  always_ff @(posedge clk) begin
    no_room_q <= room == 0;
    if (ev_valid && ev_ready) turn_q <= !takes_send;
    if (rst) turn_q <= 1'b0;
  end

  logic unused;
  assign unused = ^receive.stream;

endmodule
