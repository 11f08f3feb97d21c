// SPDX-License-Identifier: SHL-2.1
// Front of a receive channel; frames of one MAC to APEnet+ packets of MGP datagrams, and ARP replies.
module receive_front
  import nanet_pkg::*;
#(
    // Filters of the stream.
    parameter int unsigned FILTERS = 2,
    // Depth of the buffer behind, in words of 128 bits; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while frames arrive
     */
    input host_t                 host,
    input filter_t [FILTERS-1:0] filter,
    input mgp_rules_t            rules,
    input logic [31:0]           now,

    /*
     * frames from the MAC
     */
    input axis_rx_req_t s_axis_rx_req,

    /*
     * ARP replies, where enabled for this stream
     */
    input  logic        arp_answers,
    output logic        m_axis_arp_tvalid,
    input  logic        m_axis_arp_tready,
    output logic [63:0] m_axis_arp_tdata,
    output logic [7:0]  m_axis_arp_tkeep,
    output logic        m_axis_arp_tlast,

    /*
     * APEnet+ packets; words in the buffer behind
     */
    output logic                          apenet_valid,
    output apenet_kind_e                  apenet_kind,
    output logic [127:0]                  apenet_data,
    input  logic [$clog2(BUFFER_WORDS):0] level,

    /*
     * counters: pulses
     */
    output logic           verdict_valid,
    output frame_verdict_e verdict,
    output logic           overflow
);

  payload_req_t udp_req;
  payload_req_t mgp_req;
  logic arp_valid;
  refusal_e mgp_refusal;
  logic [15:0] mgp_hits;
  logic [7:0] unused_events;
  arp_request_t arp;

  udp_receive #(
      .FILTERS(FILTERS)
  ) udp (
      .clk,
      .rst,
      .host,
      .filter,
      .now,
      .s_axis_rx_req,
      .out_req(udp_req),
      .verdict_valid,
      .verdict,
      .arp_valid,
      .arp
  );

  arp_reply arp_answer (
      .clk,
      .rst,
      .host,
      .arp_valid       (arp_valid && arp_answers),
      .arp,
      .m_axis_tx_tvalid(m_axis_arp_tvalid),
      .m_axis_tx_tready(m_axis_arp_tready),
      .m_axis_tx_tdata (m_axis_arp_tdata),
      .m_axis_tx_tkeep (m_axis_arp_tkeep),
      .m_axis_tx_tlast (m_axis_arp_tlast)
  );

  mgp_check mgp (
      .clk,
      .rst,
      .rules,
      .in_req     (udp_req),
      .out_req    (mgp_req),
      .out_refusal(mgp_refusal),
      .out_hits   (mgp_hits),
      .out_events (unused_events)
  );

  nanet_controller #(
      .BUFFER_WORDS(BUFFER_WORDS)
  ) controller (
      .clk,
      .rst,
      .now,
      .in_req      (mgp_req),
      .in_refusal  (mgp_refusal),
      .in_hits     (mgp_hits),
      .buffer_level(level),
      .out_valid   (apenet_valid),
      .out_kind    (apenet_kind),
      .out_data    (apenet_data),
      .overflow
  );

  logic unused;
  assign unused = &{1'b0, unused_events};

endmodule
