// SPDX-License-Identifier: SHL-2.1
// Proof of dma_streams: requests to memory are stable until accepted, words of two requests never mix, and
// in-order completions and read data reach the requesting stream only.
module dma_streams_proof
  import nanet_dma_pkg::*;
(
    input logic                clk,
    input logic                rst,
    input logic     [1:0]      s_wr_valid,
    input dma_cmd_t [1:0]      s_wr_cmd,
    input logic     [1:0][7:0] s_wr_data,
    input logic     [1:0]      s_wr_last,
    input logic     [1:0]      s_rd_valid,
    input dma_cmd_t [1:0]      s_rd_cmd,
    input logic     [1:0]      s_rd_data_ready,
    input logic                wr_ready,
    input logic                wr_done_valid,
    input logic     [7:0]      wr_done_tag,
    input logic                wr_done_error,
    input logic                rd_ready,
    input logic                rd_data_valid,
    input logic     [7:0]      rd_data,
    input logic     [7:0]      rd_data_tag,
    input logic                rd_data_last,
    input logic                rd_data_error,
    // Tracked write and read, arbitrary.
    input logic                follow_write,
    input logic                follow_read
);

  logic [1:0] s_wr_ready, s_wr_done_valid, s_rd_ready, s_rd_data_valid;
  logic [7:0] s_rd_data;
  logic [1:0][7:0] s_wr_done_tag, s_rd_data_tag;
  logic [1:0] s_wr_done_error, s_rd_data_last, s_rd_data_error;
  logic wr_valid, wr_last, rd_valid, rd_data_ready;
  logic [7:0] wr_data;
  dma_cmd_t wr_cmd, rd_cmd;

  dma_streams_flat #(
      .STREAMS  (2),
      .DATA_W   (8),
      .UNDER_WAY(2)
  ) i_streams (
      .*
  );

  logic started_q = 1'b0;
  logic [1:0] waits_q, inside_q, asks_q, last_q;
  dma_cmd_t [1:0] cmd_q, ask_q;
  logic [1:0][7:0] data_q;
  logic shown_q, open_q, asked_q, shown_last_q;
  dma_cmd_t shown_cmd_q, open_cmd_q, asked_cmd_q;
  logic [7:0] shown_data_q;
  // Outstanding requests before the tracked one.
  logic [2:0] writes_q, reads_q, writes_before_q, reads_before_q;
  logic write_followed_q, read_followed_q, write_of_q, read_of_q;
  logic write_ends, read_begins, read_ends;

  assign write_ends  = wr_valid && wr_ready && wr_last;
  assign read_begins = rd_valid && rd_ready;
  assign read_ends   = rd_data_valid && rd_data_ready && rd_data_last;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    for (int i = 0; i < 2; i++) begin
      waits_q[i] <= s_wr_valid[i] && !s_wr_ready[i];
      asks_q[i]  <= s_rd_valid[i] && !s_rd_ready[i];
      if (s_wr_valid[i] && s_wr_ready[i]) inside_q[i] <= !s_wr_last[i];
    end
    cmd_q  <= s_wr_cmd;
    data_q <= s_wr_data;
    last_q <= s_wr_last;
    ask_q  <= s_rd_cmd;
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
    writes_q <= writes_q + 3'(write_ends) - 3'(wr_done_valid);
    reads_q  <= reads_q + 3'(read_begins) - 3'(read_ends);
    if (write_followed_q) begin
      if (wr_done_valid && writes_before_q == 0) write_followed_q <= 1'b0;
      if (wr_done_valid) writes_before_q <= writes_before_q - 1'b1;
    end else if (write_ends && follow_write) begin
      write_followed_q <= 1'b1;
      write_of_q       <= s_wr_ready[1];
      writes_before_q  <= writes_q - 3'(wr_done_valid);
    end
    if (read_followed_q) begin
      if (read_ends && reads_before_q == 0) read_followed_q <= 1'b0;
      if (read_ends) reads_before_q <= reads_before_q - 1'b1;
    end else if (read_begins && follow_read) begin
      read_followed_q <= 1'b1;
      read_of_q       <= s_rd_ready[1];
      reads_before_q  <= reads_q - 3'(read_ends);
    end
    if (rst) begin
      waits_q          <= '0;
      asks_q           <= '0;
      inside_q         <= '0;
      shown_q          <= 1'b0;
      asked_q          <= 1'b0;
      open_q           <= 1'b0;
      writes_q         <= '0;
      reads_q          <= '0;
      write_followed_q <= 1'b0;
      read_followed_q  <= 1'b0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    // Streams and memory obey doc/dma.md.
    for (int i = 0; i < 2; i++) begin
      if (started_q && waits_q[i]) begin
        assume (s_wr_valid[i] && s_wr_cmd[i] == cmd_q[i] && s_wr_data[i] == data_q[i]);
        assume (s_wr_last[i] == last_q[i]);
      end
      if (started_q && inside_q[i]) assume (s_wr_cmd[i] == cmd_q[i]);
      if (started_q && asks_q[i]) assume (s_rd_valid[i] && s_rd_cmd[i] == ask_q[i]);
    end
    if (started_q && writes_q == 0) assume (!wr_done_valid);
    if (started_q && reads_q == 0) assume (!rd_data_valid);
    if (started_q && !rst) begin
      assert (writes_q <= 2 && reads_q <= 2);
      if (shown_q) begin
        assert (wr_valid && wr_cmd == shown_cmd_q && wr_data == shown_data_q && wr_last == shown_last_q);
      end
      if (asked_q) assert (rd_valid && rd_cmd == asked_cmd_q);
      if (open_q && wr_valid) assert (wr_cmd == open_cmd_q);
      assert (inside_q != 2'b11);
      // Each word is accepted from exactly one stream and equals the word at the memory, including the tag.
      assert (s_wr_ready != 2'b11 && s_rd_ready != 2'b11);
      for (int i = 0; i < 2; i++) begin
        if (s_wr_valid[i] && s_wr_ready[i]) begin
          assert (wr_valid && wr_ready && wr_data == s_wr_data[i] && wr_cmd == s_wr_cmd[i]);
        end
        if (s_rd_valid[i] && s_rd_ready[i]) assert (rd_valid && rd_ready && rd_cmd == s_rd_cmd[i]);
      end
      if (wr_valid && wr_ready) assert ((s_wr_valid & s_wr_ready) != 2'b00);
      if (rd_valid && rd_ready) assert ((s_rd_valid & s_rd_ready) != 2'b00);
      // Routing of responses.
      assert (s_wr_done_valid != 2'b11 && wr_done_valid == (s_wr_done_valid != 2'b00));
      assert (s_rd_data_valid != 2'b11 && rd_data_valid == (s_rd_data_valid != 2'b00));
      if (rd_data_valid) assert (rd_data_ready == ((s_rd_data_valid & s_rd_data_ready) != 2'b00));
      if (wr_done_valid && write_followed_q && writes_before_q == 0) assert (s_wr_done_valid[write_of_q]);
      if (rd_data_valid && read_followed_q && reads_before_q == 0) assert (s_rd_data_valid[read_of_q]);
    end
  end

endmodule
