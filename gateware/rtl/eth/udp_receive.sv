// SPDX-License-Identifier: SHL-2.1
// Ethernet, IPv4 and UDP receiver. Payloads of accepted datagrams pass in cut-through; the last word
// carries the verdict on the frame. Every frame has exactly one verdict. No backpressure, and no gap is
// needed between frames.
module udp_receive
  import nanet_pkg::*;
#(
    // Filters of the stream.
    parameter int unsigned FILTERS = 2
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while frames arrive
     */
    input host_t                 host,
    input filter_t [FILTERS-1:0] filter,
    input logic [31:0]           now,     // card clock, low word

    /*
     * frames from the MAC, without FCS; user on the last word: bad frame
     */
    input axis_rx_req_t s_axis_rx_req,

    /*
     * payloads; the last word carries the verdict (other than FrameUdp: discard the datagram)
     */
    output payload_req_t out_req,

    /*
     * one pulse per frame
     */
    output logic           verdict_valid,
    output frame_verdict_e verdict,

    /*
     * ARP requests for the card's address, one pulse each
     */
    output logic         arp_valid,
    output arp_request_t arp
);

  if (FILTERS < 1 || FILTERS > 16) begin : gen_check_filters
    $fatal(1, "FILTERS must be 1 to 16 (%m)");
  end

  // ------------------------------------------------------------------ 0 to 2: Ethernet payload

  logic s2_valid, s2_last, s2_bad, s2_tail;
  logic [63:0] s2_data;
  logic [3:0] s2_bytes;
  logic [12:0] s2_j;
  ethernet_t s2_eth;
  logic runt;
  frame_verdict_e runt_verdict;

  udp_receive_ethernet ethernet (
      .clk,
      .rst,
      .mac         (host.mac),
      .now,
      .s_axis_rx_req,
      .out_valid   (s2_valid),
      .out_tail    (s2_tail),
      .out_last    (s2_last),
      .out_bad     (s2_bad),
      .out_data    (s2_data),
      .out_bytes   (s2_bytes),
      .out_number  (s2_j),
      .out_ethernet(s2_eth),
      .runt,
      .runt_verdict
  );

  // ------------------------------------------------------------------ 3: IP and UDP fields

  logic s3_valid_q, s3_last_q, s3_bad_q, s3_tail_q;
  logic [63:0] s3_data_q;
  logic [3:0] s3_bytes_q;
  logic [12:0] s3_j_q;
  ethernet_t s3_eth_q;
  logic [3:0] version_q, ihl_q;
  logic [15:0] total_q;
  logic fragment_q;
  logic [7:0] protocol_q;
  logic [31:0] src_ip_q, dst_ip_q;
  logic [15:0] src_port_q, dst_port_q, udp_length_q, udp_checksum_q;
  logic [3:0] udp_j;  // index of the first word of the UDP header

  assign udp_j = {1'b0, ihl_q[3:1]};

  always_ff @(posedge clk) begin
    s3_valid_q <= s2_valid;
    s3_tail_q  <= s2_tail;
    s3_data_q  <= s2_tail ? '0 : s2_data;
    s3_last_q  <= s2_last;
    s3_bad_q   <= s2_bad;
    s3_bytes_q <= s2_bytes;
    s3_j_q     <= s2_j;
    if (s2_valid) begin
      if (s2_j == 13'd0) begin
        s3_eth_q   <= s2_eth;
        version_q  <= s2_data[7:4];
        ihl_q      <= s2_data[3:0];
        total_q    <= be16(s2_data[31:16]);
        fragment_q <= (be16(s2_data[63:48]) & 16'h3FFF) != 0;
      end
      if (s2_j == 13'd1) begin
        protocol_q <= s2_data[15:8];
        src_ip_q   <= be32(s2_data[63:32]);
      end
      if (s2_j == 13'd2) dst_ip_q <= be32(s2_data[31:0]);
      if (s2_j >= 13'd2) begin
        if (s2_j == 13'(udp_j)) begin
          src_port_q <= be16(ihl_q[0] ? s2_data[47:32] : s2_data[15:0]);
          dst_port_q <= be16(ihl_q[0] ? s2_data[63:48] : s2_data[31:16]);
        end
        if (s2_j == 13'(udp_j) + 13'(ihl_q[0])) begin
          udp_length_q   <= be16(ihl_q[0] ? s2_data[15:0] : s2_data[47:32]);
          udp_checksum_q <= ihl_q[0] ? s2_data[31:16] : s2_data[63:48];
        end
      end
    end
    if (rst) begin
      s3_valid_q <= 1'b0;
      s3_tail_q  <= 1'b0;
    end
  end

  udp_receive_arp arp_request (
      .clk,
      .rst,
      .host,
      .in_valid (s3_valid_q),
      .in_last  (s3_last_q),
      .in_bad   (s3_bad_q),
      .in_data  (s3_data_q),
      .in_bytes (s3_bytes_q),
      .in_number(s3_j_q),
      .in_ours  (s3_eth_q.arp && !s3_eth_q.other_mac),
      .arp_valid,
      .arp
  );

  // ------------------------------------------------------------------ 4: header checks; filters

  logic s4_valid_q, s4_last_q, s4_bad_q, s4_tail_q, s4_odd_q;
  logic [63:0] s4_data_q;
  logic [12:0] s4_j_q;
  logic s4_before_q, s4_begin_q;  // word before, or equal to, the one that completes the first payload word
  logic [1:0] s4_ip_half_q;  // halves of the word that belong to the IP header
  logic [15:0] s4_size_q;  // IP bytes up to and including this word
  logic [5:0] s4_header_q;
  logic [6:0] s4_headers_q;  // IP and UDP header bytes
  logic [15:0] s4_rest_q;  // bytes after the IP header, from its length field
  logic [15:0] s4_total_q, s4_udp_length_q;
  logic [15:0] s4_end_q;  // end of the UDP datagram
  logic [15:0] s4_payload_end_q;  // end of the payload in aligned payload words
  logic s4_no_checksum_q, s4_not_ipv4_q, s4_not_udp_q, s4_fragment_q;
  ethernet_t s4_eth_q;
  logic unused_vlan_id;
  assign unused_vlan_id = &{1'b0, s4_eth_q.vlan_id};
  logic fits_tag, fits_ip, fits;
  logic [7:0] fits_number;
  logic [31:0] s4_src_ip_q;
  logic [15:0] s4_src_port_q;
  logic [5:0] header;
  logic [12:0] payload_j;

  assign header    = {ihl_q, 2'b00};
  assign payload_j = 13'(udp_j) + 13'd1 + 13'(ihl_q[0]);

  always_ff @(posedge clk) begin
    s4_valid_q <= s3_valid_q;
    s4_tail_q  <= s3_tail_q;
    s4_last_q  <= s3_last_q;
    s4_bad_q   <= s3_bad_q;
    s4_data_q  <= s3_data_q;
    s4_j_q     <= s3_j_q;
    s4_size_q  <= {s3_j_q, 3'd0} + 16'(s3_bytes_q);
    if (s3_valid_q || s3_tail_q) begin
      s4_odd_q         <= ihl_q[0];
      s4_before_q      <= s3_j_q + 13'd1 < payload_j;
      s4_begin_q       <= s3_j_q == payload_j;
      s4_ip_half_q[0]  <= {s3_j_q, 1'b0} < 14'(ihl_q);
      s4_ip_half_q[1]  <= {s3_j_q, 1'b1} < 14'(ihl_q);
      s4_header_q      <= header;
      s4_headers_q     <= 7'(header) + 7'd8;
      s4_rest_q        <= total_q - 16'(header);
      s4_total_q       <= total_q;
      s4_udp_length_q  <= udp_length_q;
      s4_end_q         <= udp_length_q + 16'(header);
      s4_payload_end_q <= udp_length_q + {9'd0, 7'(header) + (ihl_q[0] ? 7'd4 : 7'd0)};
      s4_no_checksum_q <= udp_checksum_q == 0;
      s4_not_ipv4_q    <= version_q != 4'd4 || ihl_q < 4'd5 || total_q < 16'(header);
      s4_not_udp_q     <= protocol_q != 8'd17;
      s4_fragment_q    <= fragment_q;
      s4_eth_q         <= s3_eth_q;
      s4_src_ip_q      <= src_ip_q;
      s4_src_port_q    <= src_port_q;
    end
    if (rst) begin
      s4_valid_q <= 1'b0;
      s4_tail_q  <= 1'b0;
    end
  end

  udp_receive_filters #(
      .FILTERS(FILTERS)
  ) filters (
      .clk,
      .host_ip (host.ip),
      .filter,
      .in_valid(s3_valid_q || s3_tail_q),
      .vlan    (s3_eth_q.vlan),
      .vlan_id (s3_eth_q.vlan_id),
      .src_ip  (src_ip_q),
      .dst_ip  (dst_ip_q),
      .src_port(src_port_q),
      .dst_port(dst_port_q),
      .fits_tag,
      .fits_ip,
      .fits,
      .number  (fits_number)
  );

  // ------------------------------------------------------------------ 5: preliminary verdict

  logic s5_valid_q, s5_tail_q, s5_end_q, s5_odd_q, s5_first_q;
  logic [63:0] s5_data_q;
  logic [3:0] s5_udp_q;  // leading bytes of this word that belong to the datagram
  logic [3:0] s5_payload_q;  // bytes of the payload word that this word completes
  logic s5_payload_last_q;
  logic s5_begin_q;  // this word completes the first payload word
  logic [1:0] s5_ip_half_q, s5_udp_half_q;  // halves of the word in the IP header; in the UDP sum
  logic s5_take_q;
  frame_verdict_e s5_early_q, s5_late_q, s5_middle_q;
  logic s5_early_hit_q, s5_middle_hit_q, s5_late_hit_q, s5_no_checksum_q;
  logic [15:0] s5_length_raw_q;
  datagram_t s5_info_q;

  logic [15:0] offset, left_udp, left_payload;
  assign offset        = {s4_j_q, 3'd0};
  assign left_udp      = s4_end_q - offset;  // frames are shorter than 2^15, so bit 15 is the sign
  // Distance from the first byte of the payload word completed here to the end of the payload.
  assign left_payload  = s4_payload_end_q - offset;

  function automatic logic [3:0] upto8(input logic [15:0] n);
    return n[15] ? 4'd0 : (|n[14:3] ? 4'd8 : {1'b0, n[2:0]});
  endfunction

  always_ff @(posedge clk) begin
    s5_valid_q        <= s4_valid_q;
    s5_tail_q         <= s4_tail_q;
    s5_end_q          <= s4_valid_q && s4_last_q;
    s5_odd_q          <= s4_odd_q;
    s5_data_q         <= s4_data_q;
    s5_first_q        <= s4_j_q == 0;
    // All bytes count until the length field has arrived.
    s5_udp_q          <= s4_before_q ? 4'd8 : upto8(left_udp);
    s5_payload_q      <= upto8(left_payload);
    s5_payload_last_q <= left_payload[15] || left_payload[14:4] == 0 &&
                         (!left_payload[3] || left_payload[2:0] == 0) || s4_tail_q;
    s5_begin_q        <= (s4_valid_q || s4_tail_q) && s4_begin_q;
    s5_ip_half_q      <= s4_ip_half_q;
    // The sum includes the addresses, bytes 12 to 19 of the IP header, as pseudo header.
    s5_udp_half_q[0]  <= !s4_ip_half_q[0] || s4_j_q == 13'd2;
    s5_udp_half_q[1]  <= !s4_ip_half_q[1] || s4_j_q == 13'd1;
    s5_take_q         <= (s4_valid_q || s4_tail_q) && fits && s4_eth_q.ipv4 && !s4_eth_q.other_mac &&
                         !s4_not_ipv4_q && !s4_not_udp_q && !s4_fragment_q;
    s5_length_raw_q   <= be16(s4_udp_length_q);
    s5_no_checksum_q  <= s4_no_checksum_q;
    s5_info_q.src_ip   <= s4_src_ip_q;
    s5_info_q.src_port <= s4_src_port_q;
    s5_info_q.length   <= s4_udp_length_q - 16'd8;
    s5_info_q.stamp    <= s4_eth_q.stamp;
    s5_info_q.filter   <= fits_number;

    // Verdict if this is the last word: before, between and after the two checksums.
    s5_early_hit_q <= 1'b1;
    if (s4_bad_q) s5_early_q <= FrameBadFcs;
    else if (s4_eth_q.other_mac) s5_early_q <= FrameOtherMac;
    else if (s4_eth_q.arp) s5_early_q <= FrameArp;
    else if (!s4_eth_q.ipv4 || (s4_eth_q.vlan && !fits_tag)) s5_early_q <= FrameNotIpv4;
    else if (s4_size_q < 16'd20) s5_early_q <= FrameCutShort;
    else if (s4_not_ipv4_q) s5_early_q <= FrameNotIpv4;
    else if (s4_size_q < 16'(s4_header_q)) s5_early_q <= FrameCutShort;
    else s5_early_hit_q <= 1'b0;
    s5_middle_hit_q <= 1'b1;
    if (s4_not_udp_q) s5_middle_q <= FrameNotUdp;
    else if (s4_fragment_q) s5_middle_q <= FrameIpFragment;
    else if (s4_rest_q < 16'd8) s5_middle_q <= FrameUdpLength;
    else if (s4_size_q < 16'(s4_headers_q)) s5_middle_q <= FrameCutShort;
    else if (!fits_ip) s5_middle_q <= FrameOtherIp;
    else if (!fits) s5_middle_q <= FrameOtherPort;
    else s5_middle_hit_q <= 1'b0;
    s5_late_hit_q <= 1'b1;
    if (s4_size_q < s4_total_q) s5_late_q <= FrameCutShort;
    else if (s4_udp_length_q < 16'd8 || s4_udp_length_q > s4_rest_q) s5_late_q <= FrameUdpLength;
    else s5_late_hit_q <= 1'b0;
    if (rst) begin
      s5_valid_q <= 1'b0;
      s5_tail_q  <= 1'b0;
      s5_end_q   <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ 6 to 10: checksums and verdict

  typedef struct packed {
    frame_verdict_e early;
    frame_verdict_e middle;
    frame_verdict_e late;
    logic early_hit;
    logic middle_hit;
    logic late_hit;
    logic no_checksum;
    logic runt;
  } judged_t;

  logic [4:0] end_q;  // end_q[i]: the end of the frame is in stage i + 6
  judged_t judged_q[5];
  logic ip_right, udp_right;
  logic judged;
  // Frames without payload are delayed to the latency of the others. All verdicts are therefore in order, at
  // most one per cycle.
  logic [4:0] runt_q;
  frame_verdict_e runt_verdict_q[5];

  udp_receive_sums sums (
      .clk,
      .in_valid (s5_valid_q),
      .in_first (s5_first_q),
      .in_data  (s5_data_q),
      .in_ip    (s5_ip_half_q),
      .in_udp   (s5_udp_half_q),
      .in_bytes (s5_udp_q),
      .in_length(s5_length_raw_q),
      .ip_right,
      .udp_right
  );

  always_ff @(posedge clk) begin
    runt_q            <= {runt_q[3:0], runt};
    runt_verdict_q[0] <= runt_verdict;
    for (int i = 1; i < 5; i++) runt_verdict_q[i] <= runt_verdict_q[i-1];

    end_q       <= {end_q[3:0], s5_end_q || runt_q[4]};
    judged_q[0] <= '{early: runt_q[4] ? runt_verdict_q[4] : s5_early_q, middle: s5_middle_q, late: s5_late_q,
                     early_hit: s5_early_hit_q || runt_q[4], middle_hit: s5_middle_hit_q,
                     late_hit: s5_late_hit_q, no_checksum: s5_no_checksum_q, runt: runt_q[4]};
    for (int i = 1; i < 5; i++) judged_q[i] <= judged_q[i-1];
    if (rst) begin
      end_q  <= '0;
      runt_q <= '0;
    end
  end

  assign judged = end_q[4];

  frame_verdict_e verdict_d;
  always_comb begin
    verdict_d = FrameUdp;
    if (judged_q[4].early_hit) verdict_d = judged_q[4].early;
    else if (!ip_right) verdict_d = FrameBadChecksum;
    else if (judged_q[4].middle_hit) verdict_d = judged_q[4].middle;
    else if (judged_q[4].late_hit) verdict_d = judged_q[4].late;
    else if (!udp_right && !judged_q[4].no_checksum) verdict_d = FrameBadChecksum;
  end

  always_ff @(posedge clk) begin
    verdict_valid <= judged;
    verdict       <= verdict_d;
    if (rst) verdict_valid <= 1'b0;
  end

  // ------------------------------------------------------------------ 6: payload; the last word is held back

  udp_receive_payload cut (
      .clk,
      .rst,
      .in_valid     (s5_valid_q),
      .in_tail      (s5_tail_q),
      .in_first     (s5_first_q),
      .in_data      (s5_data_q),
      .in_odd       (s5_odd_q),
      .in_begin     (s5_begin_q),
      .in_take      (s5_take_q),
      .in_end       (s5_payload_last_q),
      .in_bytes     (s5_payload_q),
      .in_info      (s5_info_q),
      .verdict_valid(judged && !judged_q[4].runt),
      .verdict      (verdict_d),
      .out_req
  );

endmodule
