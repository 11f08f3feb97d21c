// SPDX-License-Identifier: SHL-2.1
// DMA multiplexer of the card's streams (doc/dma.md). Round robin by request; a write keeps its grant to
// its last word. The order of requests routes completions and read data, so streams use all tag bits.
module dma_streams
  import nanet_dma_pkg::*;
#(
    // Streams; a single stream is passed through.
    parameter int unsigned STREAMS = 2,
    // Width of a data word in bits.
    parameter int unsigned DATA_W = 256,
    // Maximum outstanding writes, and reads; a power of two.
    parameter int unsigned UNDER_WAY = 32
) (
    input logic clk,
    input logic rst,

    /*
     * streams: write
     */
    input  logic [STREAMS-1:0]             s_wr_valid,
    output logic [STREAMS-1:0]             s_wr_ready,
    input  dma_cmd_t [STREAMS-1:0]         s_wr_cmd,
    input  logic [STREAMS-1:0][DATA_W-1:0] s_wr_data,
    input  logic [STREAMS-1:0]             s_wr_last,
    output logic [STREAMS-1:0]             s_wr_done_valid,
    output logic [7:0]                     s_wr_done_tag,
    output logic                           s_wr_done_error,

    /*
     * streams: read
     */
    input  logic [STREAMS-1:0]     s_rd_valid,
    output logic [STREAMS-1:0]     s_rd_ready,
    input  dma_cmd_t [STREAMS-1:0] s_rd_cmd,
    output logic [STREAMS-1:0]     s_rd_data_valid,
    input  logic [STREAMS-1:0]     s_rd_data_ready,
    output logic [DATA_W-1:0]      s_rd_data,
    output logic [7:0]             s_rd_data_tag,
    output logic                   s_rd_data_last,
    output logic                   s_rd_data_error,

    /*
     * memory: write; done in the order of the requests
     */
    output logic              wr_valid,
    input  logic              wr_ready,
    output dma_cmd_t          wr_cmd,
    output logic [DATA_W-1:0] wr_data,
    output logic              wr_last,
    input  logic              wr_done_valid,
    input  logic [7:0]        wr_done_tag,
    input  logic              wr_done_error,

    /*
     * memory: read; answered in the order of the requests
     */
    output logic              rd_valid,
    input  logic              rd_ready,
    output dma_cmd_t          rd_cmd,
    input  logic              rd_data_valid,
    output logic              rd_data_ready,
    input  logic [DATA_W-1:0] rd_data,
    input  logic [7:0]        rd_data_tag,
    input  logic              rd_data_last,
    input  logic              rd_data_error
);

  assign s_wr_done_tag   = wr_done_tag;
  assign s_wr_done_error = wr_done_error;
  assign s_rd_data       = rd_data;
  assign s_rd_data_tag   = rd_data_tag;
  assign s_rd_data_last  = rd_data_last;
  assign s_rd_data_error = rd_data_error;

  if (STREAMS == 1) begin : gen_wires
    assign wr_valid        = s_wr_valid;
    assign s_wr_ready      = wr_ready;
    assign wr_cmd          = s_wr_cmd;
    assign wr_data         = s_wr_data;
    assign wr_last         = s_wr_last;
    assign s_wr_done_valid = wr_done_valid;
    assign rd_valid        = s_rd_valid;
    assign s_rd_ready      = rd_ready;
    assign rd_cmd          = s_rd_cmd;
    assign s_rd_data_valid = rd_data_valid;
    assign rd_data_ready   = s_rd_data_ready;
    logic unused;
    assign unused = &{1'b0, clk, rst};
  end else begin : gen_turns
    localparam int unsigned StreamW = $clog2(STREAMS);
    localparam int unsigned OrderW = $clog2(UNDER_WAY);
    typedef logic [StreamW-1:0] stream_t;

    if (UNDER_WAY < 2 || 2 ** OrderW != UNDER_WAY) begin : gen_check_order
      $fatal(1, "UNDER_WAY must be a power of two, at least 2 (%m)");
    end

    // First requesting stream after `last`; `last` if none requests.
    function automatic stream_t pick(input logic [STREAMS-1:0] valids, input stream_t last);
      stream_t found;
      found = last;
      for (int unsigned i = STREAMS; i > 0; i--) begin
        if (valids[(32'(last)+i)%STREAMS]) found = stream_t'((32'(last) + i) % STREAMS);
      end
      return found;
    endfunction

    // Write: a grant, once shown, holds until the last word. It needs a free entry in the order
    // FIFO; no other entry is written before its end.
    stream_t wr_order[UNDER_WAY];
    stream_t w_grant_q, w_sel, done_of;
    logic [OrderW:0] w_in_q, w_out_q;
    logic w_held_q, w_room, w_ends;

    assign w_sel    = w_held_q ? w_grant_q : pick(s_wr_valid, w_grant_q);
    assign w_room   = (w_in_q ^ w_out_q) != {1'b1, {OrderW{1'b0}}};
    assign wr_valid = s_wr_valid[w_sel] && w_room;
    assign wr_cmd   = s_wr_cmd[w_sel];
    assign wr_data  = s_wr_data[w_sel];
    assign wr_last  = s_wr_last[w_sel];
    assign w_ends   = wr_valid && wr_ready && wr_last;
    assign done_of  = wr_order[w_out_q[OrderW-1:0]];
    always_comb begin
      s_wr_ready = '0;
      s_wr_ready[w_sel] = wr_ready && w_room;
      s_wr_done_valid = '0;
      s_wr_done_valid[done_of] = wr_done_valid;
    end

    always_ff @(posedge clk) begin
      if (wr_valid) begin
        w_grant_q <= w_sel;
        w_held_q  <= !w_ends;
      end
      if (w_ends) wr_order[w_in_q[OrderW-1:0]] <= w_sel;
      w_in_q  <= w_in_q + (OrderW + 1)'(w_ends);
      w_out_q <= w_out_q + (OrderW + 1)'(wr_done_valid);
      if (rst) begin
        w_held_q  <= 1'b0;
        w_grant_q <= '0;
        w_in_q    <= '0;
        w_out_q   <= '0;
      end
    end

    // Read: one word per request.
    stream_t rd_order[UNDER_WAY];
    stream_t r_grant_q, r_sel, response_of;
    logic [OrderW:0] r_in_q, r_out_q;
    logic r_held_q, r_room, r_begins, r_ends;

    assign r_sel         = r_held_q ? r_grant_q : pick(s_rd_valid, r_grant_q);
    assign r_room        = (r_in_q ^ r_out_q) != {1'b1, {OrderW{1'b0}}};
    assign rd_valid      = s_rd_valid[r_sel] && r_room;
    assign rd_cmd        = s_rd_cmd[r_sel];
    assign r_begins      = rd_valid && rd_ready;
    assign response_of   = rd_order[r_out_q[OrderW-1:0]];
    assign rd_data_ready = s_rd_data_ready[response_of];
    assign r_ends        = rd_data_valid && rd_data_ready && rd_data_last;
    always_comb begin
      s_rd_ready = '0;
      s_rd_ready[r_sel] = rd_ready && r_room;
      s_rd_data_valid = '0;
      s_rd_data_valid[response_of] = rd_data_valid;
    end

    always_ff @(posedge clk) begin
      if (rd_valid) begin
        r_grant_q <= r_sel;
        r_held_q  <= !rd_ready;
      end
      if (r_begins) rd_order[r_in_q[OrderW-1:0]] <= r_sel;
      r_in_q  <= r_in_q + (OrderW + 1)'(r_begins);
      r_out_q <= r_out_q + (OrderW + 1)'(r_ends);
      if (rst) begin
        r_held_q  <= 1'b0;
        r_grant_q <= '0;
        r_in_q    <= '0;
        r_out_q   <= '0;
      end
    end
  end

endmodule
