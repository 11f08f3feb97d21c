// SPDX-License-Identifier: SHL-2.1
// Proof of dma_arbiter: requests to memory are stable until accepted, words of two requests never mix, and
// completions and read data reach the requesting master only.
module dma_arbiter_proof
  import nanet_dma_pkg::*;
(
    input logic                clk,
    input logic                rst,
    input logic     [1:0]      m_wr_valid,
    input dma_cmd_t [1:0]      m_wr_cmd,
    input logic     [1:0][7:0] m_wr_data,
    input logic     [1:0]      m_wr_last,
    input logic     [1:0]      m_rd_valid,
    input dma_cmd_t [1:0]      m_rd_cmd,
    input logic     [1:0]      m_rd_data_ready,
    input logic                wr_ready,
    input logic                wr_done_valid,
    input logic     [7:0]      wr_done_tag,
    input logic                wr_done_error,
    input logic                rd_ready,
    input logic                rd_data_valid,
    input logic     [7:0]      rd_data,
    input logic     [7:0]      rd_data_tag,
    input logic                rd_data_last,
    input logic                rd_data_error
);

  logic [1:0] m_wr_ready, m_wr_done_valid, m_wr_done_error, m_rd_ready, m_rd_data_valid, m_rd_data_last;
  logic [1:0] m_rd_data_error;
  logic [1:0][7:0] m_wr_done_tag, m_rd_data, m_rd_data_tag;
  logic wr_valid, wr_last, rd_valid, rd_data_ready;
  logic [7:0] wr_data;
  dma_cmd_t wr_cmd, rd_cmd;

  dma_arbiter_flat #(
      .PORTS (2),
      .DATA_W(8)
  ) i_arbiter (
      .*
  );

  logic started_q = 1'b0;
  logic [1:0] waits_q, inside_q, asks_q;
  dma_cmd_t [1:0] cmd_q, ask_q;
  logic [1:0][7:0] data_q;
  logic [1:0] last_q;
  logic shown_q, open_q, asked_q, shown_last_q;
  dma_cmd_t shown_cmd_q, open_cmd_q, asked_cmd_q;
  logic [7:0] shown_data_q;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    for (int i = 0; i < 2; i++) begin
      waits_q[i] <= m_wr_valid[i] && !m_wr_ready[i];
      asks_q[i]  <= m_rd_valid[i] && !m_rd_ready[i];
      if (m_wr_valid[i] && m_wr_ready[i]) inside_q[i] <= !m_wr_last[i];
    end
    cmd_q  <= m_wr_cmd;
    data_q <= m_wr_data;
    last_q <= m_wr_last;
    ask_q  <= m_rd_cmd;
    shown_q      <= wr_valid && !wr_ready;
    shown_cmd_q  <= wr_cmd;
    shown_data_q <= wr_data;
    shown_last_q <= wr_last;
    asked_q      <= rd_valid && !rd_ready;
    asked_cmd_q  <= rd_cmd;
    if (wr_valid && wr_ready) begin
      open_q     <= !wr_last;
      open_cmd_q <= wr_cmd;
    end
    if (rst) begin
      waits_q  <= '0;
      asks_q   <= '0;
      inside_q <= '0;
      shown_q  <= 1'b0;
      asked_q  <= 1'b0;
      open_q   <= 1'b0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    for (int i = 0; i < 2; i++) begin
      // Masters obey doc/dma.md.
      assume (m_wr_cmd[i].tag[7] == 1'b0 && m_rd_cmd[i].tag[7] == 1'b0);
      if (started_q && waits_q[i]) begin
        assume (m_wr_valid[i] && m_wr_cmd[i] == cmd_q[i] && m_wr_data[i] == data_q[i]);
        assume (m_wr_last[i] == last_q[i]);
      end
      if (started_q && inside_q[i]) assume (m_wr_cmd[i] == cmd_q[i]);
      if (started_q && asks_q[i]) assume (m_rd_valid[i] && m_rd_cmd[i] == ask_q[i]);
    end
    if (started_q && !rst) begin
      if (shown_q) begin
        assert (wr_valid && wr_cmd == shown_cmd_q && wr_data == shown_data_q && wr_last == shown_last_q);
      end
      if (asked_q) assert (rd_valid && rd_cmd == asked_cmd_q);
      if (open_q && wr_valid) assert (wr_cmd == open_cmd_q);
      if (open_q) assert (i_arbiter.dut.w_held_q && inside_q[i_arbiter.dut.w_grant_q]);
      if (open_q) assert (open_cmd_q == {cmd_q[i_arbiter.dut.w_grant_q][87:8], i_arbiter.dut.w_grant_q,
                                         cmd_q[i_arbiter.dut.w_grant_q].tag[6:0]});
      if (!open_q) assert (inside_q == 2'b00);
      assert (inside_q != 2'b11);
      if (i_arbiter.dut.w_held_q && !open_q) assert (shown_q && waits_q[i_arbiter.dut.w_grant_q]);
      if (shown_q) assert (i_arbiter.dut.w_held_q);
      if (i_arbiter.dut.r_held_q) assert (asked_q && asks_q[i_arbiter.dut.r_grant_q]);
      if (asked_q) assert (i_arbiter.dut.r_held_q);
      if (shown_q) begin
        assert (waits_q[i_arbiter.dut.w_grant_q]);
        assert (shown_cmd_q == {cmd_q[i_arbiter.dut.w_grant_q][87:8], i_arbiter.dut.w_grant_q,
                                cmd_q[i_arbiter.dut.w_grant_q].tag[6:0]});
        assert (shown_data_q == data_q[i_arbiter.dut.w_grant_q] && shown_last_q == last_q[i_arbiter.dut.w_grant_q]);
      end
      if (asked_q) begin
        assert (asked_cmd_q == {ask_q[i_arbiter.dut.r_grant_q][87:8], i_arbiter.dut.r_grant_q,
                                ask_q[i_arbiter.dut.r_grant_q].tag[6:0]});
      end
      // Each word is accepted from exactly one master and equals the word at the memory.
      assert (m_wr_ready != 2'b11 && m_rd_ready != 2'b11);
      for (int i = 0; i < 2; i++) begin
        if (m_wr_valid[i] && m_wr_ready[i]) begin
          assert (wr_valid && wr_ready && wr_data == m_wr_data[i] && wr_cmd.addr == m_wr_cmd[i].addr);
          assert (wr_cmd.tag == {i == 1, m_wr_cmd[i].tag[6:0]});
        end
        if (m_rd_valid[i] && m_rd_ready[i]) assert (rd_valid && rd_cmd.tag == {i == 1, m_rd_cmd[i].tag[6:0]});
        assert (m_wr_done_valid[i] == (wr_done_valid && wr_done_tag[7] == (i == 1)));
        assert (m_rd_data_valid[i] == (rd_data_valid && rd_data_tag[7] == (i == 1)));
        if (m_rd_data_valid[i]) assert (rd_data_ready == m_rd_data_ready[i]);
      end
    end
  end

endmodule
