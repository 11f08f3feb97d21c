// SPDX-License-Identifier: SHL-2.1
// PCI Express interface on the UltraScale+ integrated block (AMD PG213): DMA on the requester streams,
// registers on the completer streams. Dword-aligned, no straddling, client tags, no interrupts. Card and
// block may have separate clocks.
module pcie_us_shim
  import nanet_dma_pkg::*;
#(
    // 1: the block streams use `pcie_clk`; 0: they use `clk`, the card clock.
    parameter bit PCIE_CLOCK = 1'b0,
    // Width of DMA words and of the block streams in bits: 128 or 256.
    parameter int unsigned DATA_W = 256,
    // Outstanding read TLPs, a power of two, at most 32.
    parameter int unsigned TAGS = 32,
    // Maximum bytes per read TLP, a power of two from 128 to 4096.
    parameter int unsigned MAX_READ = 512,
    // Completion timeout in cycles of the block clock.
    parameter int unsigned TIMEOUT = 16_000_000,
    // Width of a register byte address.
    parameter int unsigned ADDR_W = 16
) (
    input logic clk,
    input logic rst,

    /*
     * Clock and reset of the block, used with PCIE_CLOCK; combined reset for the card
     */
    input  logic pcie_clk,
    input  logic pcie_rst,
    output logic card_rst,

    /*
     * DMA write
     */
    input  dma_wr_req_t       wr_req,
    output dma_wr_rsp_t       wr_rsp,
    input  logic [DATA_W-1:0] wr_data,

    /*
     * DMA read
     */
    input  dma_rd_req_t       rd_req,
    input  logic              rd_data_ready,
    output dma_rd_rsp_t       rd_rsp,
    output logic [DATA_W-1:0] rd_data,

    /*
     * Registers: a request stays until it is acknowledged
     */
    output reg_req_t          reg_req,
    output logic [ADDR_W-1:0] reg_addr,
    input  reg_rsp_t          reg_rsp,

    /*
     * For the card: bus mastering enabled; pulse: unsupported request
     */
    output logic bus_master,
    output logic unsupported,

    /*
     * Requester request
     */
    output logic                 rq_tvalid,
    input  logic                 rq_tready,
    output logic [DATA_W-1:0]    rq_tdata,
    output logic [DATA_W/32-1:0] rq_tkeep,
    output logic [61:0]          rq_tuser,
    output logic                 rq_tlast,

    /*
     * Requester completion
     */
    input  logic                 rc_tvalid,
    output logic                 rc_tready,
    input  logic [DATA_W-1:0]    rc_tdata,
    input  logic [DATA_W/32-1:0] rc_tkeep,
    input  logic [74:0]          rc_tuser,
    input  logic                 rc_tlast,

    /*
     * Completer request
     */
    input  logic                 cq_tvalid,
    output logic                 cq_tready,
    input  logic [DATA_W-1:0]    cq_tdata,
    input  logic [DATA_W/32-1:0] cq_tkeep,
    input  logic [87:0]          cq_tuser,
    input  logic                 cq_tlast,

    /*
     * Completer completion
     */
    output logic                 cc_tvalid,
    input  logic                 cc_tready,
    output logic [DATA_W-1:0]    cc_tdata,
    output logic [DATA_W/32-1:0] cc_tkeep,
    output logic [32:0]          cc_tuser,
    output logic                 cc_tlast,

    /*
     * Of the block
     */
    input logic [3:0]  pcie_tfc_nph_av,
    input logic [15:0] cfg_function_status,
    input logic [1:0]  cfg_max_payload,
    input logic [2:0]  cfg_max_read_req
);

  logic block_clk, block_rst, block_clear, clear;

  if (PCIE_CLOCK) begin : gen_clocks
    assign block_clk = pcie_clk;
    reset_crossing i_reset (
        .a_clk  (clk),
        .a_rst  (rst),
        .a_out  (card_rst),
        .a_clear(clear),
        .b_clk  (pcie_clk),
        .b_rst  (pcie_rst),
        .b_out  (block_rst),
        .b_clear(block_clear)
    );
  end else begin : gen_clock
    assign block_clk   = clk;
    assign block_rst   = rst;
    assign card_rst    = rst;
    assign block_clear = 1'b0;
    assign clear       = 1'b0;

    logic unused;
    assign unused = &{1'b0, pcie_clk, pcie_rst};
  end

  dma_wr_req_t block_wr_req;
  dma_wr_rsp_t block_wr_rsp;
  dma_rd_req_t block_rd_req;
  logic block_rd_data_ready;
  dma_rd_rsp_t block_rd_rsp;
  reg_req_t block_reg_req;
  reg_rsp_t block_reg_rsp;
  logic block_unsupported;
  logic [DATA_W-1:0] block_wr_data, block_rd_data;
  logic [ADDR_W-1:0] block_reg_addr;

  pcie_us_crossing #(
      .CLOCKS(PCIE_CLOCK),
      .DATA_W(DATA_W),
      .ADDR_W(ADDR_W)
  ) i_crossing (
      .block_bus_master(cfg_function_status[2]),
      .*
  );

  pcie_us_requester #(
      .DATA_W  (DATA_W),
      .TAGS    (TAGS),
      .MAX_READ(MAX_READ),
      .TIMEOUT (TIMEOUT)
  ) i_requester (
      .clk            (block_clk),
      .rst            (block_rst),
      .wr_req         (block_wr_req),
      .wr_rsp         (block_wr_rsp),
      .wr_data        (block_wr_data),
      .rd_req         (block_rd_req),
      .rd_data_ready  (block_rd_data_ready),
      .rd_rsp         (block_rd_rsp),
      .rd_data        (block_rd_data),
      .cfg_bus_master (cfg_function_status[2]),
      .cfg_max_payload({1'b0, cfg_max_payload}),
      .*
  );

  pcie_us_completer #(
      .DATA_W(DATA_W),
      .ADDR_W(ADDR_W)
  ) i_completer (
      .clk              (block_clk),
      .rst              (block_rst),
      .reg_req          (block_reg_req),
      .reg_addr         (block_reg_addr),
      .reg_rsp          (block_reg_rsp),
      .count_unsupported(block_unsupported),
      .*
  );

  logic unused_bits;
  assign unused_bits = ^{cfg_function_status[15:3], cfg_function_status[1:0]};

endmodule
