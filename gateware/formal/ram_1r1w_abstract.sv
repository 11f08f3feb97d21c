// SPDX-License-Identifier: SHL-2.1
// Abstraction of ram_1r1w for proofs: one arbitrary word is stored; all other reads are unconstrained.
module ram_1r1w #(
    parameter int unsigned WIDTH = 64,
    parameter int unsigned DEPTH = 512,
    parameter bit CHECKED = 1'b1
) (
    input  logic                     clk,
    input  logic                     wr_en,
    input  logic [$clog2(DEPTH)-1:0] wr_addr,
    input  logic [WIDTH-1:0]         wr_data,
    input  logic [$clog2(DEPTH)-1:0] rd_addr,
    output logic [WIDTH-1:0]         rd_data
);

  logic [$clog2(DEPTH)-1:0] watched;  // unconstrained; fixed by the surrounding proof
  logic [WIDTH-1:0] elsewhere;  // unconstrained in every cycle
  logic [WIDTH-1:0] word_q;

  always_ff @(posedge clk) begin
    if (wr_en && wr_addr == watched) word_q <= wr_data;
    rd_data <= rd_addr != watched || (!CHECKED && wr_en && wr_addr == watched) ? elsewhere : word_q;
  end

endmodule
