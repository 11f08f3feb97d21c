// SPDX-License-Identifier: SHL-2.1
// Proof of async_fifo: no word is lost, duplicated, changed or reordered, and an offered word is stable,
// for any sequence of edges of both clocks. The clocks are free inputs. Crossing pointers change by one
// bit, so that a sample is the old or the new value. Registers start at 0.
module async_fifo_proof (
    input logic       wr_clk,
    input logic       rd_clk,
    input logic       in_valid,
    input logic       in_data,
    input logic       out_ready,
    input logic [3:0] watched  // any word, by its number
);

  localparam int unsigned Depth = 4;

  logic in_ready, out_valid, out_data;
  async_fifo #(
      .WIDTH(1),
      .DEPTH(Depth)
  ) i_fifo (
      .wr_rst(1'b0),
      .rd_rst(1'b0),
      .*
  );

  logic [3:0] written_q = '0, read_q = '0, chosen_q = '0, held;
  logic word_q = 1'b0, seen_q = 1'b0, offered_q = 1'b0, data_q = 1'b0;

  logic [2:0] wr_gray_q = '0, rd_gray_q = '0;

  assign held = written_q - read_q;

  always_ff @(posedge wr_clk) begin
    wr_gray_q <= i_fifo.wr_gray_q;
    if (in_valid && in_ready) begin
      written_q <= written_q + 1'b1;
      if (written_q == watched && !seen_q) begin
        word_q   <= in_data;
        chosen_q <= watched;
        seen_q   <= 1'b1;
      end
    end
  end

  always_ff @(posedge rd_clk) begin
    rd_gray_q <= i_fifo.rd_gray_q;
    if (out_valid && out_ready) read_q <= read_q + 1'b1;
    offered_q <= out_valid && !out_ready;
    data_q    <= out_data;
  end

  always_comb begin
    assert (held <= 4'(Depth + 1));
    if (out_valid) assert (held != 0);
    if (out_valid && seen_q && read_q == chosen_q && held <= 4'(Depth + 1)) assert (out_data == word_q);
    assert ($countones(wr_gray_q ^ i_fifo.wr_gray_q) <= 1);
    assert ($countones(rd_gray_q ^ i_fifo.rd_gray_q) <= 1);
    if (offered_q) assert (out_valid && out_data == data_q);
  end

endmodule
