// SPDX-License-Identifier: SHL-2.1
// ARP responder (RFC 826) with 60 B frames. One request waits while a reply is sent; further ones are
// dropped, since requesters repeat them.
module arp_reply
  import nanet_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * configuration
     */
    input host_t host,

    /*
     * ARP requests for the card's address
     */
    input logic         arp_valid,
    input arp_request_t arp,

    /*
     * frames to the MAC, without FCS
     */
    output logic        m_axis_tx_tvalid,
    input  logic        m_axis_tx_tready,
    output logic [63:0] m_axis_tx_tdata,
    output logic [7:0]  m_axis_tx_tkeep,
    output logic        m_axis_tx_tlast
);

  localparam int unsigned FrameBytes = 60;  // without FCS
  localparam int unsigned Words = (FrameBytes + 7) / 8;

  logic waiting_q, busy_q;
  arp_request_t waiting_request_q, request_q;
  logic [2:0] word_q;
  logic [479:0] octets;  // first octet on the wire in the highest bits
  logic [511:0] frame;
  logic [63:0] word;

  assign octets = {request_q.mac, host.mac, EtherTypeArp, 16'd1, EtherTypeIpv4, 8'd6, 8'd4, 16'd2, host.mac,
                   host.ip, request_q.mac, request_q.ip, 144'd0};
  assign frame = {octets, 32'd0};
  assign word  = frame[{~word_q, 6'd0}+:64];

  assign m_axis_tx_tvalid = busy_q;
  assign m_axis_tx_tlast  = word_q == 3'(Words - 1);
  assign m_axis_tx_tkeep  = m_axis_tx_tlast ? 8'h0F : 8'hFF;
  always_comb for (int i = 0; i < 8; i++) m_axis_tx_tdata[8*i+:8] = word[63-8*i-:8];

  always_ff @(posedge clk) begin
    if (arp_valid && !waiting_q) begin
      waiting_q         <= 1'b1;
      waiting_request_q <= arp;
    end
    if (!busy_q) begin
      word_q    <= '0;
      request_q <= waiting_request_q;
      busy_q    <= waiting_q;
      if (waiting_q) waiting_q <= 1'b0;
    end else if (m_axis_tx_tready) begin
      word_q <= word_q + 1'b1;
      if (m_axis_tx_tlast) busy_q <= 1'b0;
    end
    if (rst) begin
      waiting_q <= 1'b0;
      busy_q    <= 1'b0;
    end
  end

endmodule
