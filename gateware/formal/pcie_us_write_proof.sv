// SPDX-License-Identifier: SHL-2.1
// pcie_us_write: no TLP crosses 4 KB or is longer than the host allows; every dword of a request is sent, in
// TLPs that follow one another in memory; a write is called done exactly once, after its last beat was taken.
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
    input logic         tlp_ready
);

  logic wr_ready, wr_done_valid, wr_done_error, tlp_valid, tlp_last;
  logic [7:0] wr_done_tag;
  logic [127:0] tlp_data;
  logic [3:0] tlp_keep, tlp_first_be, tlp_last_be;

  pcie_us_write #(
      .DATA_W(128)
  ) i_write (
      .*
  );

  logic started_q = 1'b0;
  logic [2:0] payload_q;
  logic waits_q, shown_q, inside_q, head_q, sent_q;
  dma_cmd_t cmd_q;
  logic [127:0] shown_data_q;
  logic last_q;
  logic [11:0] words_q;  // of the request, taken
  logic [10:0] promised_q;  // of the TLP at hand, still to come
  logic [63:0] next_q;  // where the next TLP has to begin
  logic [3:0] lanes;
  logic fire;

  assign fire = tlp_valid && tlp_ready;
  assign lanes = 4'(tlp_keep[0]) + 4'(tlp_keep[1]) + 4'(tlp_keep[2]) + 4'(tlp_keep[3]);

  logic [10:0] length;
  logic [63:0] address;
  assign length = tlp_data[74:64];
  assign address = {tlp_data[63:2], 2'b00};

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    payload_q <= max_payload;
    waits_q <= wr_valid && !wr_ready;
    cmd_q   <= wr_cmd;
    last_q  <= wr_last;
    if (wr_valid && wr_ready) begin
      inside_q <= !wr_last;
      words_q  <= wr_last ? '0 : words_q + 1'b1;
    end
    shown_q      <= tlp_valid && !tlp_ready;
    shown_data_q <= tlp_data;
    if (fire) begin
      head_q     <= tlp_last;
      promised_q <= head_q ? length : promised_q - 11'(lanes);
      if (head_q) next_q <= address + {51'd0, length, 2'b00};
    end
    if (i_write.state_q == 3'd0 && wr_valid) next_q <= wr_cmd.addr;
    sent_q <= fire && tlp_last && !i_write.more_q;
    if (rst) begin
      waits_q  <= 1'b0;
      inside_q <= 1'b0;
      shown_q  <= 1'b0;
      head_q   <= 1'b1;
      words_q  <= '0;
      sent_q   <= 1'b0;
    end
  end

  logic [10:0] allowed;
  assign allowed = 11'd32 << max_payload[1:0];  // dwords

  always_comb begin
    assume (rst == !started_q);
    assume (max_payload == 3'd0);
    assume (wr_cmd.addr[1:0] == 2'd0 && wr_cmd.len != 0 && wr_cmd.len <= 16'd80);
    assume (wr_last == (12'((wr_cmd.len + 16'd15) >> 4) == words_q + 12'd1));
    if (started_q) begin
      assume (max_payload == payload_q);
      if (waits_q) assume (wr_valid && wr_cmd == cmd_q);
      if (inside_q) assume (wr_cmd == cmd_q);
      if (shown_q && head_q) assert (tlp_valid && tlp_data == shown_data_q);
      if (tlp_valid && head_q) begin
        assert (length != 0 && length <= allowed);
        assert ({1'b0, address[11:2]} + length <= 11'd1024);
        assert (address == next_q);
        assert (tlp_keep == 4'b1111 && !tlp_last);
        assert (tlp_data[78:75] == 4'b0001);
        assert ((length == 11'd1) == (tlp_last_be == 4'd0) && tlp_first_be != 4'd0);
      end
      if (tlp_valid && !head_q) assert (tlp_last == (promised_q == 11'(lanes)) && promised_q >= 11'(lanes));
      assert (wr_done_valid == sent_q || wr_done_error);
      if (wr_done_valid) assert (!inside_q && head_q);
    end
  end

  logic unused;
  assign unused = ^{bus_master, wr_done_tag};

endmodule
