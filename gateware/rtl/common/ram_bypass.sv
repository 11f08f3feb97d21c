// SPDX-License-Identifier: SHL-2.1
// Block RAM with write bypass, one write and one read port, read latency two cycles. The output of the RAM
// is registered. A read returns a word written in the same cycle, or with LATE also in the cycle after.
module ram_bypass #(
    // Width of a word in bits.
    parameter int unsigned WIDTH = 64,
    // Words; a power of two.
    parameter int unsigned DEPTH = 512,
    // 1: a read also returns a word written one cycle after it.
    parameter bit LATE = 1'b0
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

  logic [WIDTH-1:0] stored, stored_q, written_q, bypass_q;
  logic bypass;

  // The RAM output of a word being written is not used.
  (* no_rw_check *) logic [WIDTH-1:0] mem[DEPTH];

  always_ff @(posedge clk) begin
    if (wr_en) mem[wr_addr] <= wr_data;
    stored <= mem[rd_addr];
  end

  always_ff @(posedge clk) begin
    written_q <= wr_data;
    bypass_q  <= written_q;
    stored_q  <= stored;
  end

  if (LATE) begin : gen_late_bypass
    // Address comparison on registered addresses.
    logic we_q, newer;
    logic [$clog2(DEPTH)-1:0] rd_addr_q, wr_addr_q;
    always_ff @(posedge clk) begin
      rd_addr_q <= rd_addr;
      we_q      <= wr_en;
      wr_addr_q <= wr_addr;
      bypass    <= we_q && wr_addr_q == rd_addr_q;
      newer     <= wr_addr == rd_addr_q && wr_en;
    end
    assign rd_data = newer ? written_q : bypass ? bypass_q : stored_q;
  end else begin : gen_same
    logic same_q;
    always_ff @(posedge clk) begin
      same_q <= wr_en && wr_addr == rd_addr;
      bypass <= same_q;
    end
    assign rd_data = bypass ? bypass_q : stored_q;
  end

endmodule
