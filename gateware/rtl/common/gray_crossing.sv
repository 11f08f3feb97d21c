// SPDX-License-Identifier: SHL-2.1
// Clock crossing of a counter that advances by at most one per cycle: Gray code through a two-flop
// synchroniser. The copy is a few cycles old.
module gray_crossing #(
    // Width of the counter in bits.
    parameter int unsigned WIDTH = 32
) (
    input  logic             a_clk,
    input  logic [WIDTH-1:0] a_count,
    input  logic             b_clk,
    output logic [WIDTH-1:0] b_count
);

  logic [WIDTH-1:0] gray_q, binary;
  (* async_reg = "true" *) logic [WIDTH-1:0] meta_q, seen_q;

  // Prefix sums in log2 steps.
  always_comb begin
    binary = seen_q;
    for (int unsigned step = 1; step < WIDTH; step *= 2) binary = binary ^ (binary >> step);
  end

  always_ff @(posedge a_clk) gray_q <= a_count ^ (a_count >> 1);
  always_ff @(posedge b_clk) begin
    meta_q  <= gray_q;
    seen_q  <= meta_q;
    b_count <= binary;
  end

endmodule
