// SPDX-License-Identifier: SHL-2.1
// Ethernet header parser of udp_receive. Realigns the payload behind the header, with or without VLAN tag,
// and flags frames without payload.
module udp_receive_ethernet
  import nanet_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while frames arrive
     */
    input logic [47:0] mac,
    input logic [31:0] now,  // card clock, low word

    /*
     * frames from the MAC, as in udp_receive
     */
    input axis_rx_req_t s_axis_rx_req,

    /*
     * payload words, numbered from 0; one cycle with only tail follows the last word
     */
    output logic        out_valid,
    output logic        out_tail,
    output logic        out_last,
    output logic        out_bad,       // bad frame flag of the MAC, valid with last
    output logic [63:0] out_data,
    output logic [3:0]  out_bytes,
    output logic [12:0] out_number,
    output ethernet_t   out_ethernet,

    /*
     * pulse: frame without payload
     */
    output logic           runt,
    output frame_verdict_e runt_verdict
);

  // ------------------------------------------------------------------ 0: word numbers of the frame

  logic s0_valid_q, s0_last_q, s0_bad_q;
  logic [63:0] s0_data_q;
  logic [3:0] s0_bytes_q;
  logic [1:0] s0_k_q;  // 0, 1, 2, then 3 for the rest of the frame
  logic [1:0] k_q;
  logic [31:0] s0_stamp_q;

  always_ff @(posedge clk) begin
    s0_valid_q <= s_axis_rx_req.tvalid;
    s0_data_q  <= s_axis_rx_req.tdata;
    s0_last_q  <= s_axis_rx_req.tlast;
    s0_bad_q   <= s_axis_rx_req.tuser;
    s0_k_q     <= k_q;
    s0_bytes_q <= !s_axis_rx_req.tlast ? 4'd8 : 4'd0;
    for (int i = 0; i < 8; i++) if (s_axis_rx_req.tlast && s_axis_rx_req.tkeep[i]) s0_bytes_q <= 4'(i + 1);
    if (s_axis_rx_req.tvalid && k_q == 0) s0_stamp_q <= now;
    if (s_axis_rx_req.tvalid) k_q <= s_axis_rx_req.tlast ? 2'd0 : (k_q == 2'd3 ? 2'd3 : k_q + 1'b1);
    if (rst) begin
      s0_valid_q <= 1'b0;
      k_q        <= 2'd0;
    end
  end

  // ------------------------------------------------------------------ 1: words aligned to the IP header

  ethernet_t eth_q, eth;
  logic [47:0] prev_q;  // bytes of the previous word not yet sent
  logic flush_q;
  logic [2:0] flush_bytes_q;
  logic flush_bad_q;
  logic s1_valid_q, s1_last_q, s1_bad_q, s1_first_q;
  logic [63:0] s1_data_q;
  logic [3:0] s1_bytes_q;
  ethernet_t s1_eth_q;
  logic in_l3_q;
  logic runt_q, runt_bad_q, runt_other_mac_q, runt_other_type_q, runt_arp_q;
  logic word1_vlan;
  logic [1:0] start;  // number of the first word that completes an IP word
  logic ready;
  logic [3:0] taken;  // bytes of a frame word that complete an IP word
  logic over;
  logic mac_ours;

  assign word1_vlan = be16(s0_data_q[47:32]) == EtherTypeVlan;
  assign mac_ours   = (be48(s0_data_q[47:0]) == mac) || s0_data_q[0];
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
      eth.ipv4 = be16(s0_data_q[15:0]) == EtherTypeIpv4 && s0_bytes_q >= 4'd2;
      eth.arp  = 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    s1_valid_q <= 1'b0;
    s1_last_q  <= 1'b0;
    s1_first_q <= 1'b0;
    flush_q    <= 1'b0;
    runt_q     <= 1'b0;

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
        // Remaining bytes form one additional word.
        flush_q       <= ready && over;
        flush_bytes_q <= 3'(s0_bytes_q - taken);
        s1_last_q     <= !(ready && over);
        if (!ready) s1_bytes_q <= over ? s0_bytes_q - taken : 4'd0;
        else if (!over) s1_bytes_q <= s0_bytes_q + (4'd8 - taken);
      end
      s1_bad_q    <= s0_bad_q;
      flush_bad_q <= s0_bad_q;
      if (s0_last_q && s0_k_q <= 2'd1) begin  // frame without IP bytes
        runt_q            <= 1'b1;
        runt_bad_q        <= s0_bad_q;
        runt_other_mac_q  <= s0_k_q == 2'd1 && eth.other_mac;
        runt_other_type_q <= s0_k_q == 2'd1 && s0_bytes_q >= 4'd6 && !eth.ipv4;
        runt_arp_q        <= eth.arp;
      end
    end
    if (flush_q) begin  // the first words of the next frame complete no IP word
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

  // ------------------------------------------------------------------ 2: numbered output

  logic [12:0] j_q;

  always_ff @(posedge clk) begin
    out_valid  <= s1_valid_q;
    out_tail   <= out_valid && out_last;  // the stream pauses at least one cycle here
    out_data   <= s1_data_q;
    out_last   <= s1_last_q;
    out_bad    <= s1_bad_q;
    out_bytes  <= s1_bytes_q;
    out_number <= s1_valid_q && s1_first_q ? 13'd0 : j_q;
    if (s1_valid_q) begin
      j_q <= s1_first_q ? 13'd1 : j_q + 13'(j_q != '1);
      if (s1_first_q) out_ethernet <= s1_eth_q;
    end
    if (rst) begin
      out_valid <= 1'b0;
      out_tail  <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ frames without payload

  assign runt = runt_q;
  always_comb begin
    if (runt_bad_q) runt_verdict = FrameBadFcs;
    else if (runt_other_mac_q) runt_verdict = FrameOtherMac;
    else runt_verdict = !runt_other_type_q ? FrameCutShort : runt_arp_q ? FrameArp : FrameNotIpv4;
  end

endmodule
