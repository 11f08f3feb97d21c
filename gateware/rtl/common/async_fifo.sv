// SPDX-License-Identifier: SHL-2.1
// Dual-clock FIFO; Gray-coded pointers through two-flop synchronisers; first word falls through.
module async_fifo #(
    // Width of a word in bits.
    parameter int unsigned WIDTH = 64,
    // Depth in words; a power of two, at least 4. The output register holds one more word.
    parameter int unsigned DEPTH = 16
) (
    /*
     * Input; wr_rst in the clock wr_clk
     */
    input  logic             wr_clk,
    input  logic             wr_rst,
    input  logic             in_valid,
    output logic             in_ready,
    input  logic [WIDTH-1:0] in_data,

    /*
     * Output; rd_rst in the clock rd_clk. Both resets must overlap for four cycles of the slower clock
     */
    input  logic             rd_clk,
    input  logic             rd_rst,
    output logic             out_valid,
    input  logic             out_ready,
    output logic [WIDTH-1:0] out_data
);

  localparam int unsigned AddrW = $clog2(DEPTH);

  if (DEPTH < 4 || 2 ** AddrW != DEPTH) begin : gen_check_depth
    $fatal(1, "async_fifo: DEPTH must be a power of two, at least 4");
  end

  function automatic logic [AddrW:0] gray(input logic [AddrW:0] count);
    return count ^ (count >> 1);
  endfunction

  logic [WIDTH-1:0] mem[DEPTH];
  // Two-flop synchronisers of the Gray-coded pointers; the first flop may go metastable. Tools must keep
  // them as registers, and the crossing path must be shorter than one period of either clock.
  (* async_reg = "true" *) logic [AddrW:0] wr_meta_q, wr_seen_q, rd_meta_q, rd_seen_q;
  logic [AddrW:0] wr_q, wr_gray_q, rd_q, rd_gray_q;
  logic write, read;

  // Full: the writer is DEPTH words ahead. In Gray code exactly the two upper bits differ.
  assign in_ready = wr_gray_q != {~rd_seen_q[AddrW:AddrW-1], rd_seen_q[AddrW-2:0]};
  assign write    = in_valid && in_ready;

  always_ff @(posedge wr_clk) begin
    if (write) begin
      mem[wr_q[AddrW-1:0]] <= in_data;
      wr_q                 <= wr_q + 1'b1;
      wr_gray_q            <= gray(wr_q + 1'b1);
    end
    rd_meta_q <= rd_gray_q;
    rd_seen_q <= rd_meta_q;
    if (wr_rst) begin
      wr_q      <= '0;
      wr_gray_q <= '0;
      rd_meta_q <= '0;
      rd_seen_q <= '0;
    end
  end

  assign read = rd_gray_q != wr_seen_q && (!out_valid || out_ready);

  always_ff @(posedge rd_clk) begin
    if (read) begin
      out_data  <= mem[rd_q[AddrW-1:0]];
      rd_q      <= rd_q + 1'b1;
      rd_gray_q <= gray(rd_q + 1'b1);
    end
    if (read) out_valid <= 1'b1;
    else if (out_ready) out_valid <= 1'b0;
    wr_meta_q <= wr_gray_q;
    wr_seen_q <= wr_meta_q;
    if (rd_rst) begin
      rd_q      <= '0;
      rd_gray_q <= '0;
      wr_meta_q <= '0;
      wr_seen_q <= '0;
      out_valid <= 1'b0;
    end
  end

endmodule
