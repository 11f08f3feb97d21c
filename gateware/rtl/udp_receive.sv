// SPDX-License-Identifier: SHL-2.1
// Takes Ethernet frames apart: the payloads of UDP datagrams that a stream listens to go out as they come
// in, the last word together with the verdict on the frame; every frame gets exactly one verdict, counted
// outside. Cannot be stalled, and needs no gap between frames.
module udp_receive
  import nanet_pkg::*;
#(
    // Streams that can be listened to.
    parameter int unsigned STREAMS = 2
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while frames come in
     */
    input host_t                 host,
    input filter_t [STREAMS-1:0] filter,
    input logic [31:0]           now,  // card clock, low word

    /*
     * frames from the MAC, without FCS; user on the last word: the MAC found the frame bad
     */
    input logic        s_axis_rx_tvalid,
    input logic [63:0] s_axis_rx_tdata,
    input logic [7:0]  s_axis_rx_tkeep,
    input logic        s_axis_rx_tlast,
    input logic        s_axis_rx_tuser,

    /*
     * payloads; the last word carries the verdict (anything but FrameUdp: forget the datagram)
     */
    output logic           out_valid,
    output logic [63:0]    out_data,
    output logic [3:0]     out_bytes,
    output logic           out_first,
    output logic           out_last,
    output datagram_t      out_info,
    output frame_verdict_e out_verdict,

    /*
     * one pulse for each frame
     */
    output logic           verdict_valid,
    output frame_verdict_e verdict,

    /*
     * ARP requests for the card's address, one pulse each
     */
    output logic         arp_valid,
    output arp_request_t arp
);

  if (STREAMS < 1 || STREAMS > 16) begin : gen_check_streams
    $fatal(1, "STREAMS must be 1 to 16 (%m)");
  end

  function automatic logic [15:0] be16(input logic [15:0] x);
    return {x[7:0], x[15:8]};
  endfunction
  function automatic logic [31:0] be32(input logic [31:0] x);
    return {x[7:0], x[15:8], x[23:16], x[31:24]};
  endfunction
  function automatic logic [47:0] be48(input logic [47:0] x);
    return {x[7:0], x[15:8], x[23:16], x[31:24], x[39:32], x[47:40]};
  endfunction

  // ------------------------------------------------------------------ 0: words of the frame, numbered

  logic s0_valid_q, s0_last_q, s0_bad_q;
  logic [63:0] s0_data_q;
  logic [3:0] s0_bytes_q;
  logic [1:0] s0_k_q;  // 0, 1, 2, then 3 for ever
  logic [1:0] k_q;
  logic [31:0] s0_stamp_q;

  always_ff @(posedge clk) begin
    s0_valid_q <= s_axis_rx_tvalid;
    s0_data_q  <= s_axis_rx_tdata;
    s0_last_q  <= s_axis_rx_tlast;
    s0_bad_q   <= s_axis_rx_tuser;
    s0_k_q     <= k_q;
    s0_bytes_q <= !s_axis_rx_tlast ? 4'd8 : 4'd0;
    for (int i = 0; i < 8; i++) if (s_axis_rx_tlast && s_axis_rx_tkeep[i]) s0_bytes_q <= 4'(i + 1);
    if (s_axis_rx_tvalid && k_q == 0) s0_stamp_q <= now;
    if (s_axis_rx_tvalid) k_q <= s_axis_rx_tlast ? 2'd0 : (k_q == 2'd3 ? 2'd3 : k_q + 1'b1);
    if (rst) begin
      s0_valid_q <= 1'b0;
      k_q        <= 2'd0;
    end
  end

  // ------------------------------------------------------------------ 1: words aligned to the IP header

  typedef struct packed {
    logic        other_mac;
    logic        ipv4;
    logic        arp;
    logic        vlan;
    logic [11:0] vlan_id;
    logic [31:0] stamp;
  } ethernet_t;

  ethernet_t eth_q, eth;
  logic [47:0] prev_q;  // of the word before: the part that is not out yet
  logic flush_q;
  logic [2:0] flush_bytes_q;
  logic flush_bad_q;
  logic s1_valid_q, s1_last_q, s1_bad_q, s1_first_q;
  logic [63:0] s1_data_q;
  logic [3:0] s1_bytes_q;
  ethernet_t s1_eth_q;
  logic in_l3_q;
  logic runt_q, runt_bad_q, runt_other_mac_q, runt_other_type_q, runt_taken;
  logic word1_vlan;
  logic [1:0] start;  // number of the first word that completes one of IP
  logic ready;
  logic [3:0] taken;  // bytes of a word of the frame that complete one of IP
  logic over;
  logic mac_ours;

  assign word1_vlan = be16(s0_data_q[47:32]) == EtherTypeVlan;
  assign mac_ours   = (be48(s0_data_q[47:0]) == host.mac) || s0_data_q[0];
  assign start      = eth_q.vlan ? 2'd3 : 2'd2;
  assign ready      = s0_k_q >= start;
  assign taken      = eth_q.vlan ? 4'd2 : 4'd6;
  assign over       = s0_bytes_q > taken;

  always_comb begin
    eth = eth_q;
    if (s0_k_q == 2'd0) begin
      eth.other_mac = !mac_ours;
      eth.vlan      = 1'b0;
      eth.stamp     = s0_stamp_q;
    end
    if (s0_k_q == 2'd1) begin
      eth.ipv4    = be16(s0_data_q[47:32]) == EtherTypeIpv4;
      eth.arp     = be16(s0_data_q[47:32]) == EtherTypeArp;
      eth.vlan    = word1_vlan;
      eth.vlan_id = {s0_data_q[51:48], s0_data_q[63:56]};
    end
    if (s0_k_q == 2'd2 && eth_q.vlan) begin
      eth.ipv4 = be16(s0_data_q[15:0]) == EtherTypeIpv4;
      eth.arp  = 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    s1_valid_q <= 1'b0;
    s1_last_q  <= 1'b0;
    s1_first_q <= 1'b0;
    flush_q    <= 1'b0;
    if (runt_taken) runt_q <= 1'b0;

    if (s0_valid_q) begin
      eth_q  <= eth;
      prev_q <= s0_data_q[63:16];
      if (ready || (s0_last_q && s0_k_q == 2'd2)) begin
        s1_valid_q <= 1'b1;
        s1_first_q <= !in_l3_q;
        in_l3_q    <= !s0_last_q;
        s1_eth_q   <= eth;
      end
      s1_data_q <= eth_q.vlan ? {s0_data_q[15:0], prev_q} : {s0_data_q[47:0], prev_q[47:32]};
      s1_bytes_q <= 4'd8;
      if (s0_last_q) begin
        // Bytes that do not complete a word of IP any more go into one more word.
        flush_q       <= ready && over;
        flush_bytes_q <= 3'(s0_bytes_q - taken);
        s1_last_q     <= !(ready && over);
        if (!ready) s1_bytes_q <= over ? s0_bytes_q - taken : 4'd0;
        else if (!over) s1_bytes_q <= s0_bytes_q + (4'd8 - taken);
      end
      s1_bad_q    <= s0_bad_q;
      flush_bad_q <= s0_bad_q;
      if (s0_last_q && s0_k_q <= 2'd1) begin  // nothing of IP in it
        runt_q            <= 1'b1;
        runt_bad_q        <= s0_bad_q;
        runt_other_mac_q  <= s0_k_q == 2'd1 && eth.other_mac;
        runt_other_type_q <= s0_k_q == 2'd1 && s0_bytes_q >= 4'd6 && !eth.ipv4;
      end
    end
    if (flush_q) begin  // the words of a next frame complete none of IP yet
      s1_valid_q <= 1'b1;
      s1_last_q  <= 1'b1;
      s1_bytes_q <= {1'b0, flush_bytes_q};
      s1_data_q  <= eth_q.vlan ? {16'd0, prev_q} : {48'd0, prev_q[47:32]};
      s1_bad_q   <= flush_bad_q;
    end
    if (rst) begin
      s1_valid_q <= 1'b0;
      flush_q    <= 1'b0;
      in_l3_q    <= 1'b0;
      runt_q     <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ 2: numbered; one more after the last

  logic s2_valid_q, s2_last_q, s2_bad_q, s2_tail_q;
  logic [63:0] s2_data_q;
  logic [3:0] s2_bytes_q;
  logic [12:0] s2_j_q, j_q;
  ethernet_t s2_eth_q;

  always_ff @(posedge clk) begin
    s2_valid_q <= s1_valid_q;
    s2_tail_q  <= s2_valid_q && s2_last_q;  // the stream pauses at least one cycle here
    s2_data_q  <= s1_data_q;
    s2_last_q  <= s1_last_q;
    s2_bad_q   <= s1_bad_q;
    s2_bytes_q <= s1_bytes_q;
    s2_j_q     <= s1_valid_q && s1_first_q ? 13'd0 : j_q;
    if (s1_valid_q) begin
      j_q <= s1_first_q ? 13'd1 : j_q + 13'(j_q != '1);
      if (s1_first_q) s2_eth_q <= s1_eth_q;
    end
    if (rst) begin
      s2_valid_q <= 1'b0;
      s2_tail_q  <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ 3: fields of IP, UDP and ARP

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
  logic arp_request_q, arp_ours_q;
  logic [47:0] arp_mac_q;
  logic [31:0] arp_ip_q;
  logic [3:0] udp_j;  // word in which the UDP header begins

  assign udp_j = {1'b0, ihl_q[3:1]};

  always_ff @(posedge clk) begin
    s3_valid_q <= s2_valid_q;
    s3_tail_q  <= s2_tail_q;
    s3_data_q  <= s2_tail_q ? '0 : s2_data_q;
    s3_last_q  <= s2_last_q;
    s3_bad_q   <= s2_bad_q;
    s3_bytes_q <= s2_bytes_q;
    s3_j_q     <= s2_j_q;
    if (s2_valid_q) begin
      if (s2_j_q == 13'd0) begin
        s3_eth_q      <= s2_eth_q;
        version_q     <= s2_data_q[7:4];
        ihl_q         <= s2_data_q[3:0];
        total_q       <= be16(s2_data_q[31:16]);
        fragment_q    <= (be16(s2_data_q[63:48]) & 16'h3FFF) != 0;
        arp_request_q <= s2_data_q == 64'h0100_0406_0008_0100;
      end
      if (s2_j_q == 13'd1) begin
        protocol_q       <= s2_data_q[15:8];
        src_ip_q         <= be32(s2_data_q[63:32]);
        arp_mac_q        <= be48(s2_data_q[47:0]);
        arp_ip_q[31:16]  <= be16(s2_data_q[63:48]);
      end
      if (s2_j_q == 13'd2) begin
        dst_ip_q       <= be32(s2_data_q[31:0]);
        arp_ip_q[15:0] <= be16(s2_data_q[15:0]);
      end
      if (s2_j_q == 13'd3) arp_ours_q <= be32(s2_data_q[31:0]) == host.ip;
      if (s2_j_q >= 13'd2) begin
        if (s2_j_q == 13'(udp_j)) begin
          src_port_q <= be16(ihl_q[0] ? s2_data_q[47:32] : s2_data_q[15:0]);
          dst_port_q <= be16(ihl_q[0] ? s2_data_q[63:48] : s2_data_q[31:16]);
        end
        if (s2_j_q == 13'(udp_j) + 13'(ihl_q[0])) begin
          udp_length_q   <= be16(ihl_q[0] ? s2_data_q[15:0] : s2_data_q[47:32]);
          udp_checksum_q <= ihl_q[0] ? s2_data_q[31:16] : s2_data_q[63:48];
        end
      end
    end
    if (rst) begin
      s3_valid_q <= 1'b0;
      s3_tail_q  <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ 4: judged by the headers; filters

  logic s4_valid_q, s4_last_q, s4_bad_q, s4_tail_q, s4_odd_q;
  logic [63:0] s4_data_q;
  logic [12:0] s4_j_q;
  logic [3:0] s4_udp_j_q;
  logic [15:0] s4_size_q;  // bytes of IP up to and with this word
  logic [5:0] s4_header_q;
  logic [15:0] s4_rest_q;  // bytes after the IP header, by its length field
  logic [15:0] s4_total_q, s4_udp_length_q;
  logic [15:0] s4_end_q;  // where the UDP datagram ends
  logic [15:0] s4_payload_end_q;  // the same, counted in words as the payload is cut
  logic s4_no_checksum_q, s4_not_ipv4_q, s4_not_udp_q, s4_fragment_q;
  ethernet_t s4_eth_q;
  logic unused_vlan_id;
  assign unused_vlan_id = &{1'b0, s4_eth_q.vlan_id};
  logic [STREAMS-1:0] s4_ip_q, s4_tag_q, s4_rest_fits_q;
  logic [31:0] s4_src_ip_q;
  logic [15:0] s4_src_port_q;
  logic s4_arp_q;
  logic [5:0] header;

  assign header = {ihl_q, 2'b00};

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
      s4_udp_j_q       <= udp_j;
      s4_header_q      <= header;
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
      s4_arp_q         <= s3_eth_q.arp && arp_request_q && arp_ours_q && !arp_mac_q[40] && arp_mac_q != 0 &&
                          arp_mac_q != host.mac && arp_ip_q != host.ip;
      for (int s = 0; s < int'(STREAMS); s++) begin
        s4_tag_q[s] <= filter[s].enable && filter[s].vlan == s3_eth_q.vlan &&
                       (!filter[s].vlan || filter[s].vlan_id == s3_eth_q.vlan_id);
        s4_ip_q[s] <= dst_ip_q == (filter[s].dst_ip == 0 ? host.ip : filter[s].dst_ip);
        s4_rest_fits_q[s] <= dst_port_q == filter[s].dst_port &&
                             ((src_ip_q ^ filter[s].src_ip) & filter[s].src_mask) == 0 &&
                             (filter[s].src_port == 0 || filter[s].src_port == src_port_q);
      end
    end
    if (rst) begin
      s4_valid_q <= 1'b0;
      s4_tail_q  <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ 5: what the frame is so far

  logic s5_valid_q, s5_tail_q, s5_end_q, s5_odd_q, s5_first_q;
  logic [63:0] s5_data_q;
  logic [3:0] s5_udp_q;  // bytes of this word, from its beginning, that are not behind the datagram
  logic [3:0] s5_payload_q;  // bytes of the payload word that this word completes
  logic s5_payload_last_q;
  logic s5_begin_q;  // this word completes the payload's first
  logic [1:0] s5_ip_half_q, s5_udp_half_q;  // halves of the word that belong to the IP header; to the UDP sum
  logic s5_take_q;
  logic [7:0] s5_stream_q;
  frame_verdict_e s5_early_q, s5_late_q, s5_middle_q;
  logic s5_early_hit_q, s5_middle_hit_q, s5_late_hit_q, s5_no_checksum_q;
  logic [15:0] s5_length_raw_q;
  datagram_t s5_info_q;
  logic s5_arp_q;
  arp_request_t s5_arp_request_q;

  logic [15:0] offset, left_udp, left_payload;
  logic [STREAMS-1:0] fits;
  logic [12:0] payload_j;
  assign offset        = {s4_j_q, 3'd0};
  assign left_udp      = s4_end_q - offset;  // frames are shorter than 2^15, so bit 15 is a sign
  assign payload_j     = 13'(s4_udp_j_q) + 13'd1 + 13'(s4_odd_q);
  // From the first byte of the payload word that this word completes to the payload's end.
  assign left_payload  = s4_payload_end_q - offset;
  assign fits          = s4_tag_q & s4_ip_q & s4_rest_fits_q;

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
    // Until the word with the length is there all bytes count.
    s5_udp_q          <= s4_j_q + 13'd1 < payload_j ? 4'd8 : upto8(left_udp);
    s5_payload_q      <= upto8(left_payload);
    s5_payload_last_q <= left_payload[15] || left_payload[14:4] == 0 &&
                         (!left_payload[3] || left_payload[2:0] == 0) || s4_tail_q;
    s5_begin_q        <= (s4_valid_q || s4_tail_q) && s4_j_q == payload_j;
    s5_ip_half_q[0]   <= offset < 16'(s4_header_q);
    s5_ip_half_q[1]   <= offset + 16'd4 < 16'(s4_header_q);
    // The sum covers the addresses, bytes 12 to 19 of the IP header, as the pseudo header.
    s5_udp_half_q[0]  <= offset >= 16'(s4_header_q) || s4_j_q == 13'd2;
    s5_udp_half_q[1]  <= offset + 16'd4 >= 16'(s4_header_q) || s4_j_q == 13'd1;
    s5_take_q         <= (s4_valid_q || s4_tail_q) && fits != 0 && s4_eth_q.ipv4 && !s4_eth_q.other_mac &&
                         !s4_not_ipv4_q && !s4_not_udp_q && !s4_fragment_q;
    s5_stream_q       <= '0;
    for (int s = int'(STREAMS) - 1; s >= 0; s--) if (fits[s]) s5_stream_q <= 8'(s);
    s5_length_raw_q   <= be16(s4_udp_length_q);
    s5_no_checksum_q  <= s4_no_checksum_q;
    s5_info_q.src_ip   <= s4_src_ip_q;
    s5_info_q.src_port <= s4_src_port_q;
    s5_info_q.length   <= s4_udp_length_q - 16'd8;
    s5_info_q.stamp    <= s4_eth_q.stamp;
    s5_info_q.stream   <= '0;

    // What the frame is, should this be its last word: before, between and after the two checksums.
    s5_early_hit_q <= 1'b1;
    if (s4_bad_q) s5_early_q <= FrameBadFcs;
    else if (s4_eth_q.other_mac) s5_early_q <= FrameOtherMac;
    else if (s4_eth_q.arp) s5_early_q <= FrameArp;
    else if (!s4_eth_q.ipv4 || (s4_eth_q.vlan && s4_tag_q == 0)) s5_early_q <= FrameNotIpv4;
    else if (s4_size_q < 16'd20) s5_early_q <= FrameCutShort;
    else if (s4_not_ipv4_q) s5_early_q <= FrameNotIpv4;
    else if (s4_size_q < 16'(s4_header_q)) s5_early_q <= FrameCutShort;
    else s5_early_hit_q <= 1'b0;
    s5_middle_hit_q <= 1'b1;
    if (s4_not_udp_q) s5_middle_q <= FrameNotUdp;
    else if (s4_fragment_q) s5_middle_q <= FrameIpFragment;
    else if (s4_rest_q < 16'd8) s5_middle_q <= FrameUdpLength;
    else if (s4_size_q < 16'(s4_header_q) + 16'd8) s5_middle_q <= FrameCutShort;
    else if ((s4_tag_q & s4_ip_q) == 0) s5_middle_q <= FrameOtherIp;
    else if (fits == 0) s5_middle_q <= FrameOtherPort;
    else s5_middle_hit_q <= 1'b0;
    s5_late_hit_q <= 1'b1;
    if (s4_size_q < s4_total_q) s5_late_q <= FrameCutShort;
    else if (s4_udp_length_q < 16'd8 || s4_udp_length_q > s4_rest_q) s5_late_q <= FrameUdpLength;
    else s5_late_hit_q <= 1'b0;

    s5_arp_q <= s4_valid_q && s4_last_q && s4_arp_q && !s4_bad_q && !s4_eth_q.other_mac &&
                s4_size_q >= 16'd28;
    if (rst) begin
      s5_valid_q <= 1'b0;
      s5_tail_q  <= 1'b0;
      s5_end_q   <= 1'b0;
      s5_arp_q   <= 1'b0;
    end
  end

  // An ARP packet is long over before the next one's fields come in.
  always_ff @(posedge clk) begin
    s5_arp_request_q.mac <= arp_mac_q;
    s5_arp_request_q.ip  <= arp_ip_q;
    arp_valid            <= s5_arp_q;
    arp                  <= s5_arp_request_q;
    if (rst) arp_valid <= 1'b0;
  end

  // ------------------------------------------------------------------ 6 to 10: the two sums, and the verdict

  typedef struct packed {
    frame_verdict_e early;
    frame_verdict_e middle;
    frame_verdict_e late;
    logic early_hit;
    logic middle_hit;
    logic late_hit;
    logic no_checksum;
    logic [15:0] length_raw;
  } judged_t;

  logic [3:0][15:0] ip_lane_q, udp_lane_q;
  logic [16:0] ip_pair_q[2], udp_pair_q[2];
  logic [21:0] ip_sum_q;
  logic [29:0] udp_sum_q;
  logic [16:0] ip_fold_q;
  logic [17:0] udp_fold_q;
  logic ip_right_q;
  logic [16:0] udp_fold2_q;
  logic first6_q, first7_q;
  logic [4:0] end_q;  // end_q[i]: the frame's end is in stage i + 6
  judged_t judged_q[5];
  logic ip_bad, udp_bad;
  logic pipeline_verdict;

  // A folded sum is right where all its bits, after the last carry is added, are 1.
  function automatic logic all_ones(input logic [16:0] sum);
    return sum == 17'h0FFFF || sum == 17'h1FFFE;
  endfunction

  always_ff @(posedge clk) begin
    for (int i = 0; i < 4; i++) begin
      ip_lane_q[i] <= s5_valid_q && s5_ip_half_q[i/2] ? s5_data_q[16*i+:16] : '0;
      udp_lane_q[i] <= s5_valid_q && s5_udp_half_q[i/2] ?
                       s5_data_q[16*i+:16] & {{8{s5_udp_q > 4'(2*i+1)}}, {8{s5_udp_q > 4'(2*i)}}} : '0;
    end
    first6_q <= s5_valid_q && s5_first_q;
    end_q[0] <= s5_end_q;
    judged_q[0] <= '{early: s5_early_q, middle: s5_middle_q, late: s5_late_q, early_hit: s5_early_hit_q,
                     middle_hit: s5_middle_hit_q, late_hit: s5_late_hit_q, no_checksum: s5_no_checksum_q,
                     length_raw: s5_length_raw_q};
    // 7
    for (int i = 0; i < 2; i++) begin
      ip_pair_q[i]  <= 17'(ip_lane_q[2*i]) + 17'(ip_lane_q[2*i+1]);
      udp_pair_q[i] <= 17'(udp_lane_q[2*i]) + 17'(udp_lane_q[2*i+1]);
    end
    first7_q <= first6_q;
    // 8
    ip_sum_q  <= (first7_q ? '0 : ip_sum_q) + 22'(ip_pair_q[0]) + 22'(ip_pair_q[1]);
    udp_sum_q <= (first7_q ? 30'h1100 : udp_sum_q) + 30'(udp_pair_q[0]) + 30'(udp_pair_q[1]);  // 17: UDP
    // 9
    ip_fold_q  <= 17'(ip_sum_q[15:0]) + 17'(ip_sum_q[21:16]);
    udp_fold_q <= 18'(udp_sum_q[15:0]) + 18'(udp_sum_q[29:16]) + 18'(judged_q[2].length_raw);
    // 10
    ip_right_q  <= all_ones(ip_fold_q);
    udp_fold2_q <= 17'(udp_fold_q[15:0]) + 17'(udp_fold_q[17:16]);
    for (int i = 1; i < 5; i++) judged_q[i] <= judged_q[i-1];
    end_q[4:1] <= end_q[3:0];
    if (rst) end_q <= '0;
  end

  assign pipeline_verdict = end_q[4];
  assign ip_bad  = !ip_right_q;
  assign udp_bad = !all_ones(udp_fold2_q) && !judged_q[4].no_checksum;
  assign runt_taken = runt_q && !pipeline_verdict;

  frame_verdict_e verdict_d;
  always_comb begin
    verdict_d = FrameUdp;
    if (judged_q[4].early_hit) verdict_d = judged_q[4].early;
    else if (ip_bad) verdict_d = FrameBadChecksum;
    else if (judged_q[4].middle_hit) verdict_d = judged_q[4].middle;
    else if (judged_q[4].late_hit) verdict_d = judged_q[4].late;
    else if (udp_bad) verdict_d = FrameBadChecksum;
  end

  always_ff @(posedge clk) begin
    verdict_valid <= pipeline_verdict || runt_q;
    if (pipeline_verdict) verdict <= verdict_d;
    else if (runt_bad_q) verdict <= FrameBadFcs;
    else if (runt_other_mac_q) verdict <= FrameOtherMac;
    else verdict <= runt_other_type_q ? FrameNotIpv4 : FrameCutShort;
    if (rst) verdict_valid <= 1'b0;
  end

  // ------------------------------------------------------------------ 6: payload, its last word held back

  logic [31:0] upper_q;
  logic flowing_q, held_q, held_first_q;
  logic [63:0] held_data_q;
  logic [3:0] held_bytes_q;
  logic emit;
  logic [63:0] payload;
  datagram_t info_q, info;

  // From its first word on a payload flows until its last; before, the headers may still say no.
  assign emit = (s5_valid_q || s5_tail_q) && (s5_begin_q ? s5_take_q : flowing_q);
  assign payload = s5_odd_q ? {s5_data_q[31:0], upper_q} : s5_data_q;

  always_comb begin
    info = info_q;
    if (s5_begin_q) begin
      info        = s5_info_q;
      info.stream = s5_stream_q;
    end
  end

  always_ff @(posedge clk) begin
    out_valid <= 1'b0;
    out_last  <= 1'b0;
    out_first <= 1'b0;
    if (s5_valid_q) upper_q <= s5_data_q[63:32];
    if (emit) begin
      info_q    <= info;
      flowing_q <= !s5_payload_last_q;
      if (s5_payload_last_q) begin
        held_q       <= 1'b1;
        held_first_q <= s5_begin_q;
        held_data_q  <= payload;
        held_bytes_q <= s5_payload_q;
      end else begin
        out_valid <= 1'b1;
        out_first <= s5_begin_q;
        out_data  <= payload;
        out_bytes <= 4'd8;
        out_info  <= info;
      end
    end else if (s5_valid_q && s5_first_q) begin
      flowing_q <= 1'b0;
    end
    if (pipeline_verdict && held_q) begin
      out_valid   <= 1'b1;
      out_last    <= 1'b1;
      out_first   <= held_first_q;
      out_data    <= held_data_q;
      out_bytes   <= held_bytes_q;
      out_info    <= info_q;
      out_verdict <= verdict_d;
      held_q      <= 1'b0;
    end
    if (rst) begin
      out_valid <= 1'b0;
      flowing_q <= 1'b0;
      held_q    <= 1'b0;
    end
  end

endmodule
