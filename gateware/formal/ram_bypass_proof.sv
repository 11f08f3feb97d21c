// SPDX-License-Identifier: SHL-2.1
// Proof of ram_bypass: a read of an arbitrary word returns its last write, up to the cycle of the read, or
// with LATE up to the cycle after. Other proofs may therefore keep one word instead of the memory
// (ram_bypass_abstract.sv).
module ram_bypass_proof (
    input logic       clk,
    input logic [2:0] watched,
    input logic       wr_en,
    input logic [2:0] wr_addr,
    input logic [7:0] wr_data,
    input logic [2:0] rd_addr
);

  logic [7:0] rd_data, rd_data_late;

  ram_bypass #(
      .WIDTH(8),
      .DEPTH(8)
  ) i_ram (
      .*
  );
  ram_bypass #(
      .WIDTH(8),
      .DEPTH(8),
      .LATE (1'b1)
  ) i_late (
      .rd_data(rd_data_late),
      .*
  );

  logic started_q = 1'b0;
  logic [2:0] watched_q;
  logic [7:0] word_q, word_before_q;
  logic [2:0] read_q;  // reads of the tracked word in the last cycles

  always_ff @(posedge clk) begin
    started_q     <= 1'b1;
    watched_q     <= watched;
    word_before_q <= word_q;
    if (wr_en && wr_addr == watched) word_q <= wr_data;
    read_q <= {read_q[1:0], rd_addr == watched};
  end

  always_comb begin
    if (!started_q)
      assume (word_q == i_ram.mem[watched] && word_q == i_late.mem[watched] && read_q == '0);
    else begin
      assume (watched == watched_q);
      assert (word_q == i_ram.mem[watched] && word_q == i_late.mem[watched]);
      if (read_q[1]) assert (rd_data == word_before_q && rd_data_late == word_q);
    end
  end

endmodule
