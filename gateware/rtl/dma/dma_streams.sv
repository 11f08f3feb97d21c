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
    input  dma_wr_req_t [STREAMS-1:0]      s_wr_req,
    output dma_wr_rsp_t [STREAMS-1:0]      s_wr_rsp,
    input  logic [STREAMS-1:0][DATA_W-1:0] s_wr_data,

    /*
     * streams: read
     */
    input  dma_rd_req_t [STREAMS-1:0] s_rd_req,
    input  logic [STREAMS-1:0]        s_rd_data_ready,
    output dma_rd_rsp_t [STREAMS-1:0] s_rd_rsp,
    output logic [DATA_W-1:0]         s_rd_data,

    /*
     * memory: write; done in the order of the requests
     */
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,

    /*
     * memory: read; answered in the order of the requests
     */
    output dma_rd_req_t       rd_req,
    output logic              rd_data_ready,
    input  dma_rd_rsp_t       rd_rsp,
    input  logic [DATA_W-1:0] rd_data
);

  assign s_rd_data = rd_data;

  if (STREAMS == 1) begin : gen_wires
    assign wr_req   = s_wr_req;
    assign wr_data  = s_wr_data;
    assign s_wr_rsp = wr_rsp;
    assign rd_req   = s_rd_req;
    assign rd_data_ready = s_rd_data_ready;
    assign s_rd_rsp = rd_rsp;
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

    logic [STREAMS-1:0] wr_valids, rd_valids;

    always_comb begin
      for (int unsigned i = 0; i < STREAMS; i++) begin
        wr_valids[i] = s_wr_req[i].valid;
        rd_valids[i] = s_rd_req[i].valid;
      end
    end

    assign w_sel        = w_held_q ? w_grant_q : pick(wr_valids, w_grant_q);
    assign w_room       = (w_in_q ^ w_out_q) != {1'b1, {OrderW{1'b0}}};
    assign wr_req.valid = wr_valids[w_sel] && w_room;
    assign wr_req.cmd   = s_wr_req[w_sel].cmd;
    assign wr_req.last  = s_wr_req[w_sel].last;
    assign wr_data      = s_wr_data[w_sel];
    assign w_ends       = wr_req.valid && wr_rsp.ready && wr_req.last;
    assign done_of      = wr_order[w_out_q[OrderW-1:0]];
    always_comb begin
      for (int unsigned i = 0; i < STREAMS; i++) begin
        s_wr_rsp[i] = wr_rsp;
        s_wr_rsp[i].ready = wr_rsp.ready && w_room && w_sel == stream_t'(i);
        s_wr_rsp[i].done_valid = wr_rsp.done_valid && done_of == stream_t'(i);
      end
    end

    always_ff @(posedge clk) begin
      if (wr_req.valid) begin
        w_grant_q <= w_sel;
        w_held_q  <= !w_ends;
      end
      if (w_ends) wr_order[w_in_q[OrderW-1:0]] <= w_sel;
      w_in_q  <= w_in_q + (OrderW + 1)'(w_ends);
      w_out_q <= w_out_q + (OrderW + 1)'(wr_rsp.done_valid);
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

    assign r_sel             = r_held_q ? r_grant_q : pick(rd_valids, r_grant_q);
    assign r_room            = (r_in_q ^ r_out_q) != {1'b1, {OrderW{1'b0}}};
    assign rd_req.valid      = rd_valids[r_sel] && r_room;
    assign rd_req.cmd        = s_rd_req[r_sel].cmd;
    assign rd_data_ready = s_rd_data_ready[response_of];
    assign r_begins          = rd_req.valid && rd_rsp.ready;
    assign response_of       = rd_order[r_out_q[OrderW-1:0]];
    assign r_ends            = rd_rsp.data_valid && rd_data_ready && rd_rsp.data_last;
    always_comb begin
      for (int unsigned i = 0; i < STREAMS; i++) begin
        s_rd_rsp[i] = rd_rsp;
        s_rd_rsp[i].ready = rd_rsp.ready && r_room && r_sel == stream_t'(i);
        s_rd_rsp[i].data_valid = rd_rsp.data_valid && response_of == stream_t'(i);
      end
    end

    always_ff @(posedge clk) begin
      if (rd_req.valid) begin
        r_grant_q <= r_sel;
        r_held_q  <= !rd_rsp.ready;
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
