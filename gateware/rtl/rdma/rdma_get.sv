// SPDX-License-Identifier: SHL-2.1
// GET ring in host memory; stores arriving GETs and reads them back in order, so that only memory bounds
// their number. A full ring refuses. An entry that cannot be read back is passed on as zeros.
module rdma_get
  import nanet_dma_pkg::*;
  import rdma_pkg::*;
#(
    // Clients.
    parameter int unsigned CLIENTS = 2
) (
    input logic clk,
    input logic rst,

    /*
     * configuration
     */
    input logic        enable,
    input logic [63:0] base,
    input logic [ 4:0] log2_entries,
    output logic       empty,         // no entry waits for its turn

    /*
     * arriving GETs
     */
    input  get_req_t [CLIENTS-1:0] get_req,
    output get_rsp_t [CLIENTS-1:0] get_rsp,

    /*
     * entries read back
     */
    output logic       out_valid,
    input  logic       out_ready,
    output get_entry_t out_entry,
    output logic       out_unreadable,

    /*
     * DMA write
     */
    output dma_wr_req_t  wr_req,
    input  dma_wr_rsp_t  wr_rsp,
    output logic [127:0] wr_data,

    /*
     * DMA read
     */
    output dma_rd_req_t  rd_req,
    output logic         rd_data_ready,
    input  dma_rd_rsp_t  rd_rsp,
    input  logic [127:0] rd_data
);

  localparam int unsigned ClientW = CLIENTS > 1 ? $clog2(CLIENTS) : 1;

  typedef enum logic [1:0] {
    PutIdle,
    PutLow,
    PutHigh,
    PutDone
  } put_e;
  put_e put_q;
  logic [ClientW-1:0] client_q, pick;
  logic picked, full_q;
  get_entry_t entry_q;
  logic [31:0] written_q, lap_q, ordered_q, asked_q, taken_q, mask_q, size_q;
  logic [63:0] addr_q;

  always_comb begin
    pick   = '0;
    picked = 1'b0;
    for (int c = 0; c < int'(CLIENTS); c++) begin
      if (get_req[c].valid && (!picked || client_q == pick)) pick = ClientW'(c);
      picked |= get_req[c].valid;
    end
    for (int c = 0; c < int'(CLIENTS); c++)
      get_rsp[c] = '{done: put_q == PutDone && client_q == ClientW'(c), full: full_q};
  end

  assign wr_req  = '{
          valid: put_q == PutLow || put_q == PutHigh,
          cmd: '{addr: addr_q, len: 16'd32, tag: '0},
          last: put_q == PutHigh
      };
  assign wr_data = put_q == PutLow ? entry_q[127:0] : entry_q[255:128];

  always_ff @(posedge clk) begin
    size_q <= 32'd1 << log2_entries;
    mask_q <= size_q - 32'd1;
    addr_q <= base + {27'd0, written_q & mask_q, 5'd0};
    full_q <= !enable || written_q - taken_q == size_q;
    unique case (put_q)
      PutIdle: begin
        entry_q     <= get_req[pick].entry;
        entry_q.lap <= lap_q;
        if (picked) begin
          client_q <= pick;
          put_q    <= full_q ? PutDone : PutLow;
        end
      end
      PutLow: if (wr_rsp.ready) put_q <= PutHigh;
      PutHigh: begin
        if (wr_rsp.ready) begin
          put_q     <= PutDone;
          written_q <= written_q + 32'd1;
          if ((written_q & mask_q) == mask_q) lap_q <= lap_q + 32'd1;
        end
      end
      default: put_q <= PutIdle;
    endcase
    if (wr_rsp.done_valid) ordered_q <= ordered_q + 32'd1;
    if (rst) begin
      put_q     <= PutIdle;
      client_q  <= '0;
      full_q    <= 1'b1;
      written_q <= '0;
      ordered_q <= '0;
      lap_q     <= 32'd1;
    end
  end

  // ---------------------------------------------------------------- read back, one entry ahead

  typedef enum logic [1:0] {
    TakeIdle,
    TakeAsk,
    TakeWords,
    TakeOut
  } take_e;
  take_e take_q;
  logic [63:0] from_q;
  get_entry_t out_q;
  logic unreadable_q;

  assign empty         = written_q == taken_q && take_q == TakeIdle;
  assign rd_req        = '{valid: take_q == TakeAsk, cmd: '{addr: from_q, len: 16'd32, tag: '0}};
  assign rd_data_ready = take_q == TakeWords;
  assign out_valid     = take_q == TakeOut;
  assign out_entry     = out_q;
  assign out_unreadable = unreadable_q;

  always_ff @(posedge clk) begin
    unique case (take_q)
      TakeIdle: begin
        from_q <= base + {27'd0, asked_q & mask_q, 5'd0};
        if (asked_q != ordered_q) take_q <= TakeAsk;
      end
      TakeAsk: if (rd_rsp.ready) take_q <= TakeWords;
      TakeWords: begin
        if (rd_rsp.data_valid) begin
          out_q <= {rd_data, out_q[255:128]};
          if (rd_rsp.data_last) begin
            asked_q      <= asked_q + 32'd1;
            taken_q      <= taken_q + 32'd1;
            unreadable_q <= rd_rsp.data_error;
            if (rd_rsp.data_error) out_q <= '0;
            take_q <= TakeOut;
          end
        end
      end
      default: if (out_ready) take_q <= TakeIdle;
    endcase
    if (rst) begin
      take_q  <= TakeIdle;
      asked_q <= '0;
      taken_q <= '0;
    end
  end

  logic unused;
  assign unused = &{
          1'b0,
          get_req[0].entry.lap,
          wr_rsp.done_tag,
          wr_rsp.done_error,
          rd_rsp.data_tag,
          1'b0
      };

endmodule
