// SPDX-License-Identifier: SHL-2.1
// Clock crossing of DMA interface and register bus between card and PCI Express block. Order is kept: a
// write completes on the block's side, and a register read follows the writes before it.
module pcie_us_crossing
  import nanet_dma_pkg::*;
#(
    // 1: the card has a separate clock. 0: both clocks are the same and the module reduces to wires.
    parameter bit CLOCKS = 1'b1,
    // Width of DMA words in bits.
    parameter int unsigned DATA_W = 256,
    // Width of a register byte address.
    parameter int unsigned ADDR_W = 16
) (
    /*
     * Card side: clock of all ports without a prefix. Reset of its FIFO ends
     */
    input logic clk,
    input logic clear,

    /*
     * PCIe block side: clock of all block_ ports. Reset of this side and of its FIFO ends
     */
    input logic block_clk,
    input logic block_rst,
    input logic block_clear,

    /*
     * DMA write
     */
    input  dma_wr_req_t       wr_req,
    output dma_wr_rsp_t       wr_rsp,
    input  logic [DATA_W-1:0] wr_data,
    output dma_wr_req_t       block_wr_req,
    input  dma_wr_rsp_t       block_wr_rsp,
    output logic [DATA_W-1:0] block_wr_data,

    /*
     * DMA read
     */
    input  dma_rd_req_t       rd_req,
    input  logic              rd_data_ready,
    output dma_rd_rsp_t       rd_rsp,
    output logic [DATA_W-1:0] rd_data,
    output dma_rd_req_t       block_rd_req,
    output logic              block_rd_data_ready,
    input  dma_rd_rsp_t       block_rd_rsp,
    input  logic [DATA_W-1:0] block_rd_data,

    /*
     * Registers: a request stays until it is acknowledged. On the block's side a write is acknowledged once
     * sent.
     */
    input  reg_req_t          block_reg_req,
    input  logic [ADDR_W-1:0] block_reg_addr,
    output reg_rsp_t          block_reg_rsp,
    output reg_req_t          reg_req,
    output logic [ADDR_W-1:0] reg_addr,
    input  reg_rsp_t          reg_rsp,

    /*
     * Bus mastering enabled; pulse: unsupported request
     */
    input  logic block_bus_master,
    output logic bus_master,
    input  logic block_unsupported,
    output logic unsupported
);

  // ------------------------------------------------------------------ DMA

  clock_crossing #(
      .CLOCKS(CLOCKS),
      .WIDTH ($bits(dma_cmd_t) + DATA_W + 1)
  ) write (
      .wr_clk   (clk),
      .wr_rst   (clear),
      .in_valid (wr_req.valid),
      .in_ready (wr_rsp.ready),
      .in_data  ({wr_req.last, wr_req.cmd, wr_data}),
      .rd_clk   (block_clk),
      .rd_rst   (block_clear),
      .out_valid(block_wr_req.valid),
      .out_ready(block_wr_rsp.ready),
      .out_data ({block_wr_req.last, block_wr_req.cmd, block_wr_data})
  );

  // Never full: it holds at most the words in `write` and in the shim, since one word enters and one
  // leaves per card cycle.
  logic unused_room;
  clock_crossing #(
      .CLOCKS(CLOCKS),
      .WIDTH (9),
      .DEPTH (32)
  ) done (
      .wr_clk   (block_clk),
      .wr_rst   (block_clear),
      .in_valid (block_wr_rsp.done_valid),
      .in_ready (unused_room),
      .in_data  ({block_wr_rsp.done_error, block_wr_rsp.done_tag}),
      .rd_clk   (clk),
      .rd_rst   (clear),
      .out_valid(wr_rsp.done_valid),
      .out_ready(1'b1),
      .out_data ({wr_rsp.done_error, wr_rsp.done_tag})
  );

  clock_crossing #(
      .CLOCKS(CLOCKS),
      .WIDTH ($bits(dma_cmd_t)),
      .DEPTH (4)
  ) read (
      .wr_clk   (clk),
      .wr_rst   (clear),
      .in_valid (rd_req.valid),
      .in_ready (rd_rsp.ready),
      .in_data  (rd_req.cmd),
      .rd_clk   (block_clk),
      .rd_rst   (block_clear),
      .out_valid(block_rd_req.valid),
      .out_ready(block_rd_rsp.ready),
      .out_data (block_rd_req.cmd)
  );

  clock_crossing #(
      .CLOCKS(CLOCKS),
      .WIDTH (DATA_W + 10)
  ) answer (
      .wr_clk   (block_clk),
      .wr_rst   (block_clear),
      .in_valid (block_rd_rsp.data_valid),
      .in_ready (block_rd_data_ready),
      .in_data  ({block_rd_rsp.data_error, block_rd_rsp.data_last, block_rd_rsp.data_tag, block_rd_data}),
      .rd_clk   (clk),
      .rd_rst   (clear),
      .out_valid(rd_rsp.data_valid),
      .out_ready(rd_data_ready),
      .out_data ({rd_rsp.data_error, rd_rsp.data_last, rd_rsp.data_tag, rd_data})
  );

  // ------------------------------------------------------------------ registers

  logic read_busy_q;  // a read or its response is in transit
  logic request, room, value_valid;

  assign request               = block_reg_req.request && !read_busy_q;
  assign block_reg_rsp.acknowledge = value_valid || (request && room && block_reg_req.write);

  always_ff @(posedge block_clk) begin
    if (value_valid) read_busy_q <= 1'b0;
    else if (request && room && !block_reg_req.write) read_busy_q <= 1'b1;
    if (block_rst) read_busy_q <= 1'b0;
  end

  clock_crossing #(
      .CLOCKS(CLOCKS),
      .WIDTH (40 + ADDR_W)
  ) access (
      .wr_clk   (block_clk),
      .wr_rst   (block_clear),
      .in_valid (request),
      .in_ready (room),
      .in_data  ({block_reg_req.write, block_reg_req.bar, block_reg_req.enable, block_reg_req.wdata,
                   block_reg_addr}),
      .rd_clk   (clk),
      .rd_rst   (clear),
      .out_valid(reg_req.request),
      .out_ready(reg_rsp.acknowledge),
      .out_data ({reg_req.write, reg_req.bar, reg_req.enable, reg_req.wdata, reg_addr})
  );

  logic unused_value_room;
  clock_crossing #(
      .CLOCKS(CLOCKS),
      .WIDTH (32),
      .DEPTH (4)
  ) value (
      .wr_clk   (clk),
      .wr_rst   (clear),
      .in_valid (reg_req.request && reg_rsp.acknowledge && !reg_req.write),
      .in_ready (unused_value_room),
      .in_data  (reg_rsp.rdata),
      .rd_clk   (block_clk),
      .rd_rst   (block_clear),
      .out_valid(value_valid),
      .out_ready(1'b1),
      .out_data (block_reg_rsp.rdata)
  );

  // ------------------------------------------------------------------ single bits

  // Unsupported requests may arrive faster than the card clock.
  logic [7:0] pulses_q;
  logic pulse, pulse_room, unused_pulse;

  assign pulse = block_unsupported || pulses_q != 0;

  always_ff @(posedge block_clk) begin
    if (!pulse_room && block_unsupported) pulses_q <= pulses_q + 8'(pulses_q != '1);
    else if (pulse_room && !block_unsupported) pulses_q <= pulses_q - 8'(pulses_q != 0);
    if (block_rst) pulses_q <= '0;
  end

  clock_crossing #(
      .CLOCKS(CLOCKS),
      .WIDTH (1),
      .DEPTH (4)
  ) refused (
      .wr_clk   (block_clk),
      .wr_rst   (block_clear),
      .in_valid (pulse),
      .in_ready (pulse_room),
      .in_data  (1'b1),
      .rd_clk   (clk),
      .rd_rst   (clear),
      .out_valid(unsupported),
      .out_ready(1'b1),
      .out_data (unused_pulse)
  );

  if (CLOCKS) begin : gen_bit
    (* async_reg = "true" *) logic master_meta_q, master_q;
    always_ff @(posedge clk) begin
      master_meta_q <= block_bus_master;
      master_q      <= master_meta_q;
    end
    assign bus_master = master_q;
  end else begin : gen_wire
    assign bus_master = block_bus_master;
  end

endmodule
