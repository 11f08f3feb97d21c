// SPDX-License-Identifier: SHL-2.1
// Abstraction of ram_bypass for proofs: one arbitrary word is stored; all other reads are unconstrained.
// ram_bypass_proof.sv justifies it.
module ram_bypass #(
    parameter int unsigned WIDTH = 64,
    parameter int unsigned DEPTH = 512,
    parameter bit LATE = 1'b0
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
  logic [WIDTH-1:0] word_q, word;
  logic present_q, written;

  assign written = wr_en && wr_addr == watched;
  assign word    = written ? wr_data : word_q;

  always_ff @(posedge clk) begin
    word_q    <= word;
    present_q <= rd_addr == watched;
    rd_data   <= !present_q ? elsewhere : LATE ? word : word_q;
  end

endmodule
