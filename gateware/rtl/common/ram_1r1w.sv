// SPDX-License-Identifier: SHL-2.1
// Block RAM, one write and one read port, read latency one cycle. A read in the cycle of a write to the
// same word returns the old word. A separate module, so that every tool infers block RAM.
module ram_1r1w #(
    // Width of a word in bits.
    parameter int unsigned WIDTH = 64,
    // Words; a power of two.
    parameter int unsigned DEPTH = 512,
    // 0: a word read in its write cycle is not used, and no logic keeps the old one.
    parameter bit CHECKED = 1'b1,
    // 1: never distributed RAM, however small; without CHECKED.
    parameter bit BLOCK = 1'b0
) (
    input logic clk,

    /*
     * write
     */
    input logic                     wr_en,
    input logic [$clog2(DEPTH)-1:0] wr_addr,
    input logic [WIDTH-1:0]         wr_data,

    /*
     * read
     */
    input  logic [$clog2(DEPTH)-1:0] rd_addr,
    output logic [WIDTH-1:0]         rd_data
);

  if (DEPTH < 2 || 2 ** $clog2(DEPTH) != DEPTH) begin : gen_check_depth
    $fatal(1, "DEPTH must be a power of two, at least 2 (%m)");
  end

  if (CHECKED) begin : gen_checked
    logic [WIDTH-1:0] mem[DEPTH];
    always_ff @(posedge clk) begin
      if (wr_en) mem[wr_addr] <= wr_data;
      rd_data <= mem[rd_addr];
    end
  end else if (BLOCK) begin : gen_block
    (* no_rw_check, ram_style = "block" *) logic [WIDTH-1:0] mem[DEPTH];
    always_ff @(posedge clk) begin
      if (wr_en) mem[wr_addr] <= wr_data;
      rd_data <= mem[rd_addr];
    end
  end else begin : gen_unchecked
    (* no_rw_check *) logic [WIDTH-1:0] mem[DEPTH];
    always_ff @(posedge clk) begin
      if (wr_en) mem[wr_addr] <= wr_data;
      rd_data <= mem[rd_addr];
    end
  end

endmodule
