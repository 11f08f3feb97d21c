// SPDX-License-Identifier: SHL-2.1
// Input buffer of one virtual channel: block RAM FIFO without back-pressure; the sender holds credit. A word
// that finds it empty bypasses the memory: one cycle instead of three.
module torus_vc_fifo
  import nanet_torus_pkg::*;
#(
    // Words in the memory; a power of two, at least 4.
    parameter int unsigned DEPTH = 512
) (
    input logic clk,
    input logic rst,

    /*
     * input; a word beyond the depth is lost
     */
    input logic          in_valid,
    input torus_routed_t in_data,

    /*
     * output
     */
    output logic          out_valid,
    input  logic          out_ready,
    output torus_routed_t out_data,

    /*
     * words held, including the output registers; a word was lost
     */
    output torus_words_t used,
    output logic         overflow
);

  localparam int unsigned AddrW = $clog2(DEPTH);

  if (DEPTH < 4 || 2 ** AddrW != DEPTH || DEPTH > 1023) begin : gen_check_depth
    $fatal(1, "torus_vc_fifo: DEPTH must be a power of two, 4 to 512");
  end

  (* no_rw_check *) torus_routed_t mem[DEPTH];
  logic [AddrW:0] wr_q, rd_q, level_q;
  logic mid_valid_q, out_valid_q, bypass, write, read, take;
  torus_routed_t mid_q, out_q;
  torus_words_t used_q;
  logic enters, leaves, in_edge, out_edge;

  assign take     = !out_valid_q || out_ready;
  assign bypass   = in_valid && take && !mid_valid_q && level_q == 0;
  assign write    = in_valid && !bypass && !level_q[AddrW];
  assign read     = level_q != 0 && (!mid_valid_q || take);
  assign overflow = in_valid && !bypass && level_q[AddrW];

  assign out_valid = out_valid_q;
  assign out_data  = out_q;
  assign used      = used_q;

  assign enters   = bypass || write;
  assign leaves   = out_valid_q && out_ready;
  assign in_edge  = in_data.word.head || in_data.word.tail;
  assign out_edge = out_q.word.head || out_q.word.tail;

  always_ff @(posedge clk) begin
    if (write) mem[wr_q[AddrW-1:0]] <= in_data;
    if (read) mid_q <= mem[rd_q[AddrW-1:0]];
    if (write) wr_q <= wr_q + 1'b1;
    if (read) rd_q <= rd_q + 1'b1;
    level_q <= level_q + (AddrW + 1)'(write) - (AddrW + 1)'(read);
    if (read) mid_valid_q <= 1'b1;
    else if (take) mid_valid_q <= 1'b0;
    if (take) begin
      out_q       <= mid_valid_q ? mid_q : in_data;
      out_valid_q <= mid_valid_q || bypass;
    end
    used_q.header <= used_q.header + 8'(enters && in_edge) - 8'(leaves && out_edge);
    used_q.data   <= used_q.data + 10'(enters && !in_edge) - 10'(leaves && !out_edge);
    if (rst) begin
      wr_q        <= '0;
      rd_q        <= '0;
      level_q     <= '0;
      mid_valid_q <= 1'b0;
      out_valid_q <= 1'b0;
      used_q      <= '0;
    end
  end

endmodule
