// SPDX-License-Identifier: SHL-2.1
// ram_through: what is read of a word, any, is what was written there last, in the cycle of the read at the
// latest. So other proofs may keep that one word in place of the memory (ram_through_free.sv).
module ram_through_proof (
    input logic       clk,
    input logic [2:0] watched,
    input logic       wr_en,
    input logic [2:0] wr_addr,
    input logic [7:0] wr_data,
    input logic [2:0] rd_addr
);

  logic [7:0] rd_data;

  ram_through #(
      .WIDTH(8),
      .DEPTH(8)
  ) i_ram (
      .*
  );

  logic started_q = 1'b0;
  logic [2:0] watched_q;
  logic [7:0] word_q, then_q;
  logic there_q, there_then_q;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    watched_q <= watched;
    if (wr_en && wr_addr == watched) word_q <= wr_data;
    there_q      <= rd_addr == watched;
    there_then_q <= started_q && there_q;
    then_q       <= word_q;
  end

  always_comb begin
    if (!started_q) assume (word_q == i_ram.mem[watched] && !there_q && !there_then_q);
    else begin
      assume (watched == watched_q);
      assert (word_q == i_ram.mem[watched]);
      if (there_q) assert (word_q == (i_ram.same_q ? i_ram.written_q : i_ram.stored));
      if (there_then_q) assert (rd_data == then_q);
    end
  end

endmodule
