// SPDX-License-Identifier: SHL-2.1
// RDMA receiver of a node; packet buffer and placement per virtual channel, receive slots, counters. It
// accepts every packet that it reported space for; a packet that waits for a key or a page holds only its
// channel.
module rdma_rx
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_torus_pkg::*;
  import rdma_pkg::*;
#(
    // Payload words of a packet buffer; 512 or 1024.
    parameter int unsigned DEPTH = 512
) (
    input logic clk,
    input logic rst,

    input torus_node_t                 me,
    input rdma_slots_t [RdmaPorts-1:0] slots,

    /*
     * words from the router; space for it
     */
    input  logic                        in_valid,
    input  logic                        in_vc,
    input  torus_word_t                 in_word,
    output torus_words_t [TorusVcs-1:0] space,

    /*
     * tables, per virtual channel; messages: check, account of VC 0, then of VC 1
     */
    output key_req_t     [  TorusVcs-1:0] key_req,
    input  key_rsp_t     [  TorusVcs-1:0] key_rsp,
    output message_req_t [2*TorusVcs-1:0] message_req,
    input  message_rsp_t [2*TorusVcs-1:0] message_rsp,
    output get_req_t     [  TorusVcs-1:0] get_req,
    input  get_rsp_t     [  TorusVcs-1:0] get_rsp,
    output tlb_req_t     [  TorusVcs-1:0] tlb_req,
    input  tlb_rsp_t     [  TorusVcs-1:0] tlb_rsp,

    /*
     * DMA write, per virtual channel
     */
    output dma_wr_req_t [TorusVcs-1:0]        wr_req,
    input  dma_wr_rsp_t [TorusVcs-1:0]        wr_rsp,
    output logic        [TorusVcs-1:0][127:0] wr_data,

    /*
     * payload of datagrams, by packet; the receiver has room for two packets
     */
    input  logic         datagram_room,
    output logic         datagram_valid,
    input  logic         datagram_ready,
    output logic         datagram_first,
    output logic         datagram_last,
    output logic [127:0] datagram_data,

    /*
     * events; DONE and NACK
     */
    output rdma_event_req_t ev_req,
    input  logic            ev_ready,
    output reply_req_t      reply_req,
    input  logic            reply_ready,

    /*
     * counters of received packets; the others are 0
     */
    output rdma_counters_t counters
);

  rdma_event_req_t [TorusVcs-1:0] ev;
  reply_req_t [TorusVcs-1:0] reply;
  slot_req_t [TorusVcs-1:0] slot_req;
  slot_rsp_t [TorusVcs-1:0] slot_rsp;
  logic [TorusVcs-1:0] valid, first, last, counted, foreign, unexpected, untranslated, failed, datagram_lost;
  logic [TorusVcs-1:0][127:0] words;
  reason_e [TorusVcs-1:0] reason;
  logic ev_turn, reply_turn, datagram_turn, datagram_open_q;

  rdma_slots i_slots (
      .clk,
      .rst,
      .slots,
      .slot_req,
      .slot_rsp
  );

  assign ev_turn        = !ev[0].valid;
  assign reply_turn     = !reply[0].valid;
  assign ev_req         = ev[ev_turn];
  assign reply_req      = reply[reply_turn];
  assign datagram_valid = valid[datagram_turn];
  assign datagram_first = first[datagram_turn];
  assign datagram_last  = last[datagram_turn];
  assign datagram_data  = words[datagram_turn];

  always_ff @(posedge clk) begin
    // The other VC has the next datagram if it waits for one. Registered: a word of one VC does not depend on
    // those of the other in the same cycle.
    if (datagram_valid && datagram_ready) datagram_open_q <= !datagram_last;
    if (datagram_valid ? datagram_ready && datagram_last && valid[!datagram_turn] : !datagram_open_q)
      datagram_turn <= !datagram_turn;
    if (rst) begin
      datagram_open_q <= 1'b0;
      datagram_turn   <= 1'b0;
    end
  end

  for (genvar v = 0; v < int'(TorusVcs); v++) begin : gen_vc
    logic packet_valid, packet_ready, data_valid, data_ready;
    rdma_packet_t packet;
    logic [127:0] data;

    rdma_input #(
        .DEPTH(DEPTH)
    ) i_input (
        .clk,
        .rst,
        .me,
        .in_valid(in_valid && in_vc == 1'(v)),
        .in_word,
        .space   (space[v]),
        .packet_valid,
        .packet_ready,
        .packet,
        .data_valid,
        .data_ready,
        .data
    );

    rdma_place i_place (
        .clk,
        .rst,
        .packet_valid,
        .packet_ready,
        .packet,
        .data_valid,
        .data_ready,
        .data,
        .key_req       (key_req[v]),
        .key_rsp       (key_rsp[v]),
        .slot_req      (slot_req[v]),
        .slot_rsp      (slot_rsp[v]),
        .check_req     (message_req[2*v]),
        .check_rsp     (message_rsp[2*v]),
        .account_req   (message_req[2*v+1]),
        .account_rsp   (message_rsp[2*v+1]),
        .get_req       (get_req[v]),
        .get_rsp       (get_rsp[v]),
        .tlb_req       (tlb_req[v]),
        .tlb_rsp       (tlb_rsp[v]),
        .wr_req        (wr_req[v]),
        .wr_rsp        (wr_rsp[v]),
        .wr_data       (wr_data[v]),
        .datagram_room,
        .datagram_valid(valid[v]),
        .datagram_ready(datagram_ready && datagram_turn == 1'(v)),
        .datagram_first(first[v]),
        .datagram_last (last[v]),
        .datagram_data (words[v]),
        .ev_req        (ev[v]),
        .ev_ready      (ev_ready && ev_turn == 1'(v)),
        .reply_req     (reply[v]),
        .reply_ready   (reply_ready && reply_turn == 1'(v)),
        .counted       (counted[v]),
        .reason        (reason[v]),
        .foreign       (foreign[v]),
        .unexpected    (unexpected[v]),
        .untranslated  (untranslated[v]),
        .write_error   (failed[v]),
        .datagram_lost (datagram_lost[v])
    );
  end

  function automatic logic [31:0] both(input logic [TorusVcs-1:0] pulses);
    return 32'(pulses[0]) + 32'(pulses[1]);
  endfunction

  rdma_counters_t counters_q;
  assign counters = counters_q;
  always_ff @(posedge clk) begin
    for (int i = 0; i < int'(Reasons); i++)
      counters_q.refused[i] <= counters_q.refused[i] +
          both({counted[1] && reason[1] == reason_e'(i), counted[0] && reason[0] == reason_e'(i)});
    counters_q.foreign        <= counters_q.foreign + both(foreign);
    counters_q.unexpected     <= counters_q.unexpected + both(unexpected);
    counters_q.untranslated   <= counters_q.untranslated + both(untranslated);
    counters_q.write_errors   <= counters_q.write_errors + both(failed);
    counters_q.datagrams_lost <= counters_q.datagrams_lost + both(datagram_lost);
    if (rst) counters_q <= '0;
  end

endmodule
