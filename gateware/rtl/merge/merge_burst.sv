// SPDX-License-Identifier: SHL-2.1
// Writer of hits and rows. Two word streams leave by DMA writes of at most 256 B within 256 B boundaries. A
// translation is kept within 4 KB.
module merge_burst
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256
) (
    input logic clk,
    input logic rst,

    /*
     * streams: 0 hits (or a segment), 1 rows
     */
    input  logic [1:0]             start,     // a new stream begins at its address, a multiple of 32
    input  logic [1:0][63:0]       start_vaddr,
    input  logic [1:0]             in_valid,
    input  logic [1:0][DATA_W-1:0] in_data,
    output logic                   room,      // for eight words of each
    input  logic                   flush,     // no further words; held until drained
    input  logic [1:0][4:0]        tail,      // bytes of the last word; 0: all
    output logic                   drained,

    /*
     * translation
     */
    output tlb_req_t tlb_req,
    input  tlb_rsp_t tlb_rsp,

    /*
     * DMA write
     */
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,

    /*
     * every write so far is complete; one pulse per write dropped for lack of a translation
     */
    output logic written,
    output logic untranslated
);

  localparam int unsigned Depth = 16;

  if (DATA_W != 256) begin : gen_check_width
    $fatal(1, "DATA_W must be 256 (%m)");
  end

  typedef enum logic [2:0] {
    BurstIdle,
    BurstSize,
    BurstTranslate,
    BurstTranslated,
    BurstWords,
    BurstDrop
  } state_e;

  state_e state_q;
  logic [1:0] unused_in_ready, out_valid, out_ready, go, ends;
  logic [1:0][DATA_W-1:0] out_data;
  logic [1:0][$clog2(Depth):0] level;
  logic [1:0][5:0] words;     // in the queue
  logic [1:0][3:0] boundary;  // words to the next boundary of 256 B
  logic [1:0][63:0] vaddr_q;
  logic [63:0] paddr_q;
  logic [63:0] address_q;  // of the write
  logic [55:0] next_q;     // boundary after the stream's address
  logic advance_q;         // the stream's address moves on while the write's first word is offered
  logic [1:0][51:0] page_q;   // translated page of each stream
  logic [1:0] page_valid_q, in_page;
  logic which_q;
  logic [3:0] words_q;
  logic [8:0] bytes_q;
  logic [7:0] issued_q, done_q;

  for (genvar s = 0; s < 2; s++) begin : gen_stream
    fifo #(
        .WIDTH (DATA_W),
        .DEPTH (Depth),
        .CHOOSE(1'b1)
    ) queue (
        .clk,
        .rst,
        .in_valid (in_valid[s]),
        .in_ready (unused_in_ready[s]),
        .in_data  (in_data[s]),
        .out_valid(out_valid[s]),
        .out_ready(out_ready[s]),
        .out_data (out_data[s]),
        .level    (level[s])
    );
    always_ff @(posedge clk) begin
      if (in_valid[s] && !(out_valid[s] && out_ready[s])) words[s] <= words[s] + 1'b1;
      else if (!in_valid[s] && out_valid[s] && out_ready[s]) words[s] <= words[s] - 1'b1;
      if (rst) words[s] <= '0;
    end
    assign ends[s]      = flush && words[s] <= 6'(boundary[s]);
    assign go[s]        = words[s] >= 6'(boundary[s]) || (flush && words[s] != 0);
    assign in_page[s]   = page_valid_q[s] && vaddr_q[s][11:0] != 0;
    assign out_ready[s] = which_q == s[0] &&
                          ((state_q == BurstWords && wr_rsp.ready) || state_q == BurstDrop);
  end

  always_ff @(posedge clk) begin
    room    <= level[0] <= ($bits(level[0]))'(Depth - 8) && level[1] <= ($bits(level[1]))'(Depth - 8);
    drained <= flush && words == '0 && state_q == BurstIdle;
  end

  assign tlb_req.valid = state_q == BurstTranslate;
  assign tlb_req.vaddr = address_q;
  assign wr_req.valid  = state_q == BurstWords && out_valid[which_q];
  assign wr_req.cmd    = '{addr: paddr_q, len: 16'(bytes_q), tag: '0};
  assign wr_req.last   = words_q == 4'd1;
  assign wr_data       = out_data[which_q];

  logic [5:0] few;
  logic less;
  assign few  = words[which_q];
  assign less = few < 6'(boundary[which_q]);

  always_ff @(posedge clk) begin
    untranslated <= 1'b0;
    next_q       <= vaddr_q[which_q][63:8] + 56'd1;
    advance_q    <= state_q == BurstSize;
    unique case (state_q)
      BurstIdle: begin
        which_q <= !go[0];
        if (go != 0) state_q <= BurstSize;
      end
      BurstSize: begin
        words_q   <= less ? 4'(few) : boundary[which_q];
        bytes_q   <= ends[which_q] && tail[which_q] != 0 ? {4'(few - 6'd1), tail[which_q]} :
                   less ? {4'(few), 5'd0} : {boundary[which_q], 5'd0};
        paddr_q   <= {page_q[which_q], vaddr_q[which_q][11:0]};
        address_q <= vaddr_q[which_q];
        state_q   <= in_page[which_q] ? BurstWords : BurstTranslate;
      end
      BurstTranslate: if (tlb_rsp.ready) state_q <= BurstTranslated;
      BurstTranslated: begin
        paddr_q         <= tlb_rsp.resp_paddr;
        page_q[which_q] <= tlb_rsp.resp_paddr[63:12];
        if (tlb_rsp.resp_valid) begin
          state_q               <= tlb_rsp.resp_ok ? BurstWords : BurstDrop;
          untranslated          <= !tlb_rsp.resp_ok;
          page_valid_q[which_q] <= tlb_rsp.resp_ok;
        end
      end
      BurstWords, BurstDrop: begin
        if (out_valid[which_q] && out_ready[which_q]) begin
          words_q <= words_q - 1'b1;
          if (words_q == 4'd1) begin
            state_q <= BurstIdle;
            if (state_q == BurstWords) issued_q <= issued_q + 1'b1;
          end
        end
      end
      default: state_q <= BurstIdle;
    endcase
    if (advance_q) begin
      vaddr_q[which_q]  <= {next_q, 8'd0};  // a shorter write is the last
      boundary[which_q] <= 4'd8;
    end
    for (int s = 0; s < 2; s++) begin
      if (start[s]) begin
        vaddr_q[s]      <= start_vaddr[s];
        boundary[s]     <= 4'd8 - 4'(start_vaddr[s][7:5]);
        page_valid_q[s] <= 1'b0;
      end
    end
    if (wr_rsp.done_valid) done_q <= done_q + 1'b1;
    written <= issued_q == done_q;
    if (rst) begin
      state_q      <= BurstIdle;
      advance_q    <= 1'b0;
      boundary     <= {2{4'd8}};
      issued_q     <= '0;
      done_q       <= '0;
      written      <= 1'b0;
      untranslated <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, unused_in_ready, wr_rsp.done_tag, wr_rsp.done_error};

endmodule
