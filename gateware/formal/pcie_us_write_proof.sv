// SPDX-License-Identifier: SHL-2.1
// Proof of pcie_us_write: no TLP crosses 4 KB or exceeds the host's limit. One of the first two requests
// is tracked: its TLPs are contiguous and follow the request before; one arbitrary dword arrives at its
// place (bit 0 represents it). Completion with its tag follows its last dword. A request that fails
// because bus mastering was off sends nothing.
module pcie_us_write_proof
  import nanet_dma_pkg::*;
(
    input logic         clk,
    input logic         rst,
    input logic         bus_master,
    input logic [2:0]   max_payload,
    input logic         wr_valid,
    input dma_cmd_t     wr_cmd,
    input logic [127:0] wr_data,
    input logic         wr_last,
    input logic         tlp_ready,
    input logic [2:0]   watched,      // number of the tracked request
    input logic [2:0]   place         // index of the tracked dword
);

  logic wr_ready, wr_done_valid, wr_done_error, tlp_valid, tlp_last;
  logic [7:0] wr_done_tag;
  logic [127:0] tlp_data;
  logic [3:0] tlp_keep, tlp_first_be, tlp_last_be;

  pcie_us_write_flat #(
      .DATA_W (128),
      .WAITING(8)
  ) i_write (
      .*
  );

  logic started_q = 1'b0;
  logic [2:0] payload_q, watched_q;
  logic [2:0] place_q;
  logic waits_q, shown_q, inside_q, head_q;
  dma_cmd_t cmd_q;
  logic [79:0] shown_data_q;
  logic last_q;
  logic [11:0] words_q;  // accepted words of the request
  logic [10:0] promised_q;  // remaining in the current TLP
  logic [2:0] lanes;
  logic fire, take;

  assign take = wr_valid && wr_ready;
  assign fire = tlp_valid && tlp_ready;
  assign lanes = 3'(tlp_keep[0]) + 3'(tlp_keep[1]) + 3'(tlp_keep[2]) + 3'(tlp_keep[3]);

  logic [10:0] length;
  logic [63:0] address;
  assign length = tlp_data[74:64];
  assign address = {tlp_data[63:2], 2'b00};

  // Tracked request: input and output so far.
  logic [3:0] taken_q, dones_q, at_output;
  logic known_q, failed_q, has_dword_q;
  logic [4:0] dwords_q, sent_q;
  logic dword_q;  // bit 0 of the tracked dword
  dma_cmd_t request_q;
  logic is_tracked, shows_dword;
  logic [1:0] lane;
  logic watched_in;
  assign at_output = dones_q + 4'(wr_done_valid);
  assign is_tracked = at_output == {1'b0, watched};
  assign watched_in = (inside_q ? taken_q - 4'd1 : taken_q) == {1'b0, watched};
  assign shows_dword = tlp_valid && !head_q && is_tracked && 5'(place) >= sent_q
                       && 5'(place) < sent_q + 5'(lanes);
  assign lane = 2'(5'(place) - sent_q);

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    payload_q <= max_payload;
    watched_q <= watched;
    place_q   <= place;
    waits_q   <= wr_valid && !wr_ready;
    cmd_q     <= wr_cmd;
    last_q    <= wr_last;
    if (take) begin
      inside_q <= !wr_last;
      words_q  <= wr_last ? '0 : words_q + 1'b1;
      if (!inside_q) begin
        taken_q <= taken_q + 1'b1;
        if (watched_in) begin
          known_q   <= 1'b1;
          failed_q  <= !bus_master;
          request_q <= wr_cmd;
          dwords_q  <= 5'((wr_cmd.len + 16'd3) >> 2);
        end
      end
      if (watched_in && words_q == 12'(place[2])) begin
        has_dword_q <= 1'b1;
        dword_q     <= wr_data[{place[1:0], 5'd0}];
      end
    end
    if (wr_done_valid) dones_q <= dones_q + 1'b1;
    shown_q      <= tlp_valid && !tlp_ready;
    shown_data_q <= tlp_data[79:0];
    if (fire) begin
      head_q     <= tlp_last;
      promised_q <= head_q ? length : promised_q - 11'(lanes);
      if (!head_q && is_tracked) sent_q <= sent_q + 5'(lanes);
    end
    if (rst) begin
      waits_q     <= 1'b0;
      inside_q    <= 1'b0;
      shown_q     <= 1'b0;
      head_q      <= 1'b1;
      words_q     <= '0;
      taken_q     <= '0;
      dones_q     <= '0;
      known_q     <= 1'b0;
      has_dword_q <= 1'b0;
      sent_q      <= '0;
    end
  end

  logic [10:0] allowed;
  assign allowed = 11'd32 << max_payload[1:0];  // dwords

  always_comb begin
    assume (rst == !started_q);
    assume (max_payload == 3'd0);
    assume (wr_cmd.addr[1:0] == 2'd0 && wr_cmd.len != 0 && wr_cmd.len <= 16'd32);
    assume (wr_cmd.addr[63:13] == 51'd0 && watched <= 3'd1);
    assume (wr_last == (12'((wr_cmd.len + 16'd15) >> 4) == words_q + 12'd1));
    if (started_q) begin
      assume (max_payload == payload_q && watched == watched_q && place == place_q);
      if (waits_q) assume (wr_valid && wr_cmd == cmd_q);
      if (inside_q) assume (wr_cmd == cmd_q);
      if (shown_q) assert (tlp_valid);
      if (shown_q && head_q) assert (tlp_data[79:0] == shown_data_q);
      if (tlp_valid && head_q) begin
        assert (length != 0 && length <= allowed);
        assert ({1'b0, address[11:2]} + length <= 11'd1024);
        assert (tlp_keep == 4'b1111 && !tlp_last);
        assert (tlp_data[78:75] == 4'b0001);
        assert ((length == 11'd1) == (tlp_last_be == 4'd0) && tlp_first_be != 4'd0);
        if (is_tracked) begin
          assert (known_q && !failed_q);
          assert (address == request_q.addr + 64'({sent_q, 2'b00}));
          assert (11'(sent_q) + length <= 11'(dwords_q));
        end
      end
      if (tlp_valid && !head_q) begin
        assert (tlp_last == (promised_q == 11'(lanes)) && promised_q >= 11'(lanes) && lanes != 0);
      end
      if (shows_dword) assert (has_dword_q && tlp_data[{lane, 5'd0}] == dword_q);
      if (wr_done_valid) begin
        assert (head_q);
        if (dones_q == {1'b0, watched}) begin
          assert (known_q && wr_done_tag == request_q.tag && wr_done_error == failed_q);
          assert (sent_q == (failed_q ? 5'd0 : dwords_q));
        end
      end
    end
  end

  logic unused;
  assign unused = ^{last_q};

endmodule
