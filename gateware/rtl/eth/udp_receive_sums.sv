// SPDX-License-Identifier: SHL-2.1
// Checksums of a frame: IPv4 header, and UDP datagram with pseudo header; 64 bits a cycle.
module udp_receive_sums (
    input logic clk,

    /*
     * IP words; per half: part of the IP header, part of the UDP sum; number of bytes inside the datagram
     */
    input logic        in_valid,
    input logic        in_first,
    input logic [63:0] in_data,
    input logic [1:0]  in_ip,
    input logic [1:0]  in_udp,
    input logic [3:0]  in_bytes,
    input logic [15:0] in_length,  // UDP length of the pseudo header, bytes as on the wire

    /*
     * five cycles later: checksums up to and including that word are correct
     */
    output logic ip_right,
    output logic udp_right
);

  logic [3:0][15:0] ip_lane_q, udp_lane_q;
  logic [16:0] ip_pair_q[2], udp_pair_q[2];
  logic [21:0] ip_sum_q;
  logic [29:0] udp_sum_q;
  logic [16:0] ip_fold_q;
  logic [17:0] udp_fold_q;
  logic [16:0] udp_fold2_q;
  logic first0_q, first1_q;
  logic [15:0] length_q[3];

  // A folded sum is correct if all its bits are 1 after the last carry.
  function automatic logic all_ones(input logic [16:0] sum);
    return sum == 17'h0FFFF || sum == 17'h1FFFE;
  endfunction

  always_ff @(posedge clk) begin
    // 0
    for (int i = 0; i < 4; i++) begin
      ip_lane_q[i] <= in_valid && in_ip[i/2] ? in_data[16*i+:16] : '0;
      udp_lane_q[i] <= in_valid && in_udp[i/2] ?
                       in_data[16*i+:16] & {{8{in_bytes > 4'(2*i+1)}}, {8{in_bytes > 4'(2*i)}}} : '0;
    end
    first0_q    <= in_valid && in_first;
    length_q[0] <= in_length;
    // 1
    for (int i = 0; i < 2; i++) begin
      ip_pair_q[i]  <= 17'(ip_lane_q[2*i]) + 17'(ip_lane_q[2*i+1]);
      udp_pair_q[i] <= 17'(udp_lane_q[2*i]) + 17'(udp_lane_q[2*i+1]);
    end
    first1_q    <= first0_q;
    length_q[1] <= length_q[0];
    // 2
    ip_sum_q    <= (first1_q ? '0 : ip_sum_q) + 22'(ip_pair_q[0]) + 22'(ip_pair_q[1]);
    udp_sum_q   <= (first1_q ? 30'h1100 : udp_sum_q) + 30'(udp_pair_q[0]) + 30'(udp_pair_q[1]);  // 17: UDP
    length_q[2] <= length_q[1];
    // 3
    ip_fold_q  <= 17'(ip_sum_q[15:0]) + 17'(ip_sum_q[21:16]);
    udp_fold_q <= 18'(udp_sum_q[15:0]) + 18'(udp_sum_q[29:16]) + 18'(length_q[2]);
    // 4
    ip_right    <= all_ones(ip_fold_q);
    udp_fold2_q <= 17'(udp_fold_q[15:0]) + 17'(udp_fold_q[17:16]);
  end

  assign udp_right = all_ones(udp_fold2_q);

endmodule
