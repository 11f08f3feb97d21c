// SPDX-License-Identifier: SHL-2.1
// Optional clock crossing: an async_fifo, or wires where both sides share one clock.
module clock_crossing #(
    // 1: wr_clk and rd_clk are asynchronous. 0: they are the same clock.
    parameter bit CLOCKS = 1'b1,
    // Width of a word in bits.
    parameter int unsigned WIDTH = 64,
    // Depth in words; a power of two, at least 4. 16 sustains one word per cycle of the slower clock.
    parameter int unsigned DEPTH = 16
) (
    /*
     * Input
     */
    input  logic             wr_clk,
    input  logic             wr_rst,
    input  logic             in_valid,
    output logic             in_ready,
    input  logic [WIDTH-1:0] in_data,

    /*
     * Output
     */
    input  logic             rd_clk,
    input  logic             rd_rst,
    output logic             out_valid,
    input  logic             out_ready,
    output logic [WIDTH-1:0] out_data
);

  if (CLOCKS) begin : gen_fifo
    async_fifo #(
        .WIDTH(WIDTH),
        .DEPTH(DEPTH)
    ) words (
        .*
    );
  end else begin : gen_wires
    assign out_valid = in_valid;
    assign out_data  = in_data;
    assign in_ready  = out_ready;

    logic unused;
    assign unused = &{1'b0, wr_clk, wr_rst, rd_clk, rd_rst, 1'(DEPTH)};
  end

endmodule
