// SPDX-License-Identifier: SHL-2.1
// Proof of fifo: no word is lost, duplicated, changed or reordered; an offered word is stable; the level
// is exact.
module fifo_proof (
    input logic       clk,
    input logic       rst,
    input logic       in_valid,
    input logic [1:0] in_data,
    input logic       out_ready,
    input logic [4:0] watched  // any word, by its number
);

  localparam int unsigned Depth = 4;

  logic in_ready, out_valid;
  logic [1:0] out_data;
  logic [2:0] level;

  fifo #(
      .WIDTH(2),
      .DEPTH(Depth)
  ) i_fifo (
      .*
  );

  logic started_q = 1'b0;
  logic [4:0] watched_q, written_q, read_q, held;
  logic [1:0] word_q, data_q;
  logic offered_q;

  assign held = written_q - read_q;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    watched_q <= watched;
    if (in_valid && in_ready) written_q <= written_q + 1'b1;
    if (out_valid && out_ready) read_q <= read_q + 1'b1;
    if (in_valid && in_ready && written_q == watched) word_q <= in_data;
    offered_q <= out_valid && !out_ready;
    data_q    <= out_data;
    if (rst) begin
      written_q <= '0;
      read_q    <= '0;
      offered_q <= 1'b0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    if (started_q) begin
      assume (watched == watched_q);
      assert (held <= 5'(Depth + 1));
      assert (held == 5'(level) + 5'(out_valid));
      assert (in_ready == (level != 3'(Depth)));
      if (out_valid && read_q == watched && !(written_q == watched)) assert (out_data == word_q);
      if (offered_q) assert (out_valid && out_data == data_q);
      // Induction invariant: position of the tracked word.
      assert (i_fifo.wr_q - i_fifo.rd_q == i_fifo.level_q);
      assert (i_fifo.wr_q == written_q[2:0]);
      if (5'(watched - read_q) < held && !(out_valid && read_q == watched)) begin
        assert (i_fifo.mem[watched[1:0]] == word_q);
      end
    end
  end

endmodule
