// SPDX-License-Identifier: SHL-2.1
// ARP request parser of udp_receive: extracts the requester's addresses if a reply is possible.
module udp_receive_arp
  import nanet_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while frames arrive
     */
    input host_t host,

    /*
     * frame payload, as from udp_receive_ethernet
     */
    input logic        in_valid,
    input logic        in_last,
    input logic        in_bad,
    input logic [63:0] in_data,
    input logic [3:0]  in_bytes,
    input logic [12:0] in_number,
    input logic        in_ours,    // ARP frame to the card or to a group

    /*
     * one pulse per request, three cycles after the last word of the frame
     */
    output logic         arp_valid,
    output arp_request_t arp
);

  // ------------------------------------------------------------------ 0: fields

  arp_request_t requester_q;
  logic request_q, ours_q, end_q;

  always_ff @(posedge clk) begin
    if (in_valid) begin
      if (in_number == 13'd0) request_q <= in_data == 64'h0100_0406_0008_0100;
      if (in_number == 13'd1) begin
        requester_q.mac       <= be48(in_data[47:0]);
        requester_q.ip[31:16] <= be16(in_data[63:48]);
      end
      if (in_number == 13'd2) requester_q.ip[15:0] <= be16(in_data[15:0]);
      if (in_number == 13'd3) ours_q <= be32(in_data[31:0]) == host.ip;
    end
    end_q <= in_valid && in_last && !in_bad && in_ours &&
             (in_number > 13'd3 || (in_number == 13'd3 && in_bytes >= 4'd4));
    if (rst) end_q <= 1'b0;
  end

  // ------------------------------------------------------------------ 1: reply decision

  logic reply_due_q;

  always_ff @(posedge clk) begin
    // Requests from a group address or from the card's address get no reply.
    reply_due_q <= end_q && request_q && ours_q && !requester_q.mac[40] && requester_q.mac != 0 &&
              requester_q.mac != host.mac && requester_q.ip != host.ip;
    if (rst) reply_due_q <= 1'b0;
  end

  // ------------------------------------------------------------------ 2: output

  always_ff @(posedge clk) begin
    arp_valid <= reply_due_q;
    arp       <= requester_q;
    if (rst) arp_valid <= 1'b0;
  end

endmodule
