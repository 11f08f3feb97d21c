// SPDX-License-Identifier: SHL-2.1
// Synchronous FIFO with fill level; first word falls through. Depths up to 32 map to distributed RAM.
// Deeper ones map to block RAM with an output register, which adds one cycle.
module fifo #(
    // Width of a word in bits.
    parameter int unsigned WIDTH = 64,
    // Depth in words; a power of two, at least 2. The output stage holds one more word, or two if deep.
    parameter int unsigned DEPTH = 16,
    // 1: for late handshake signals; both next levels are precomputed and selected. Takes more wires and
    // is slower for early handshake signals.
    parameter bit CHOOSE = 1'b0
) (
    input logic clk,
    input logic rst,

    /*
     * Input
     */
    input  logic             in_valid,
    output logic             in_ready,
    input  logic [WIDTH-1:0] in_data,

    /*
     * Output
     */
    output logic             out_valid,
    input  logic             out_ready,
    output logic [WIDTH-1:0] out_data,

    /*
     * Words in the memory, excluding the output registers
     */
    output logic [$clog2(DEPTH):0] level
);

  localparam int unsigned AddrW = $clog2(DEPTH);

  if (DEPTH < 2 || 2 ** AddrW != DEPTH) begin : gen_check_depth
    $fatal(1, "fifo: DEPTH must be a power of two, at least 2");
  end

  // A word is never read in its write cycle, since the level does not count it yet.
  (* no_rw_check *) logic [WIDTH-1:0] mem[DEPTH];
  logic [AddrW:0] wr_q, rd_q, level_q, level_more, level_less;
  logic valid_q, write, read, take;
  logic [WIDTH-1:0] data_q;

  assign in_ready = !level_q[AddrW];
  assign write    = in_valid && in_ready;
  assign read     = (level_q != 0) && (!valid_q || take);
  assign level    = level_q;

  assign level_more = level_q + 1'b1;
  assign level_less = level_q - 1'b1;

  always_ff @(posedge clk) begin
    if (write) mem[wr_q[AddrW-1:0]] <= in_data;
    if (read) data_q <= mem[rd_q[AddrW-1:0]];
    if (write) wr_q <= wr_q + 1'b1;
    if (read) rd_q <= rd_q + 1'b1;
    if (!CHOOSE) level_q <= level_q + (AddrW + 1)'(write) - (AddrW + 1)'(read);
    else if (write && !read) level_q <= level_more;
    else if (read && !write) level_q <= level_less;
    if (read) valid_q <= 1'b1;
    else if (take) valid_q <= 1'b0;
    if (rst) begin
      wr_q    <= '0;
      rd_q    <= '0;
      level_q <= '0;
      valid_q <= 1'b0;
    end
  end

  if (DEPTH > 32) begin : gen_block
    logic out_valid_q;
    logic [WIDTH-1:0] out_data_q;
    assign take      = !out_valid_q || out_ready;
    assign out_valid = out_valid_q;
    assign out_data  = out_data_q;
    always_ff @(posedge clk) begin
      if (take) begin
        out_data_q  <= data_q;
        out_valid_q <= valid_q;
      end
      if (rst) out_valid_q <= 1'b0;
    end
  end else begin : gen_distributed
    assign take      = out_ready;
    assign out_valid = valid_q;
    assign out_data  = data_q;
  end

endmodule
