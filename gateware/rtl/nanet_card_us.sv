// SPDX-License-Identifier: SHL-2.1
// The card on the UltraScale+ integrated block for PCI Express: nanet_card behind pcie_us_shim, registers in
// BAR 0. Everything runs in the block's clock; crossing to other clocks is the MACs' business.
module nanet_card_us
  import nanet_dma_pkg::*;
#(
    // MACs; at most as many as the registers have, as with the next three.
    parameter int unsigned CHANNELS = 2,
    // Filters that choose datagrams; all of them feed the one stream.
    parameter int unsigned STREAMS = 2,
    // Consumer devices: a power of two.
    parameter int unsigned DEVICES = 1,
    // UDP endpoints that descriptors name.
    parameter int unsigned DESTINATIONS = 4,
    // Largest number of buffers of a CLOP, and of descriptors of a send ring; a power of two, at most 8192.
    parameter int unsigned MAX_BUFFERS = 8192,
    // Width of the MACs' streams in bits: 64 (10 GbE) or 8 (1 GbE).
    parameter int unsigned MAC_W = 64,
    // Width of the DMA data and of the block's streams in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Words of 128 bits that wait in a channel; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // Sets of four pages in the TLB; a power of two.
    parameter int unsigned TLB_SETS = 64,
    // Read TLPs under way, a power of two, at most 32.
    parameter int unsigned TAGS = 32,
    // Bytes that one of them may ask for, a power of two from 128 to 4096.
    parameter int unsigned MAX_READ = 512,
    // Cycles after which an answer is given up.
    parameter int unsigned TIMEOUT = 16_000_000
) (
    input logic clk,
    input logic rst,

    /*
     * frames from the MACs
     */
    input logic [CHANNELS-1:0]              s_axis_rx_tvalid,
    input logic [CHANNELS-1:0][MAC_W-1:0]   s_axis_rx_tdata,
    input logic [CHANNELS-1:0][MAC_W/8-1:0] s_axis_rx_tkeep,
    input logic [CHANNELS-1:0]              s_axis_rx_tlast,
    input logic [CHANNELS-1:0]              s_axis_rx_tuser,

    /*
     * frames to the MACs
     */
    output logic [CHANNELS-1:0]              m_axis_tx_tvalid,
    input  logic [CHANNELS-1:0]              m_axis_tx_tready,
    output logic [CHANNELS-1:0][MAC_W-1:0]   m_axis_tx_tdata,
    output logic [CHANNELS-1:0][MAC_W/8-1:0] m_axis_tx_tkeep,
    output logic [CHANNELS-1:0]              m_axis_tx_tlast,

    /*
     * the microcontroller's bus: a request stays until it is acknowledged; interrupt: something waits
     */
    input  logic        fw_request,
    input  logic        fw_write,
    input  logic [7:0]  fw_addr,
    input  logic [31:0] fw_wdata,
    output logic        fw_acknowledge,
    output logic [31:0] fw_rdata,
    output logic        fw_interrupt,

    /*
     * requester request
     */
    output logic                 rq_tvalid,
    input  logic                 rq_tready,
    output logic [DATA_W-1:0]    rq_tdata,
    output logic [DATA_W/32-1:0] rq_tkeep,
    output logic [61:0]          rq_tuser,
    output logic                 rq_tlast,

    /*
     * requester completion
     */
    input  logic                 rc_tvalid,
    output logic                 rc_tready,
    input  logic [DATA_W-1:0]    rc_tdata,
    input  logic [DATA_W/32-1:0] rc_tkeep,
    input  logic [74:0]          rc_tuser,
    input  logic                 rc_tlast,

    /*
     * completer request
     */
    input  logic                 cq_tvalid,
    output logic                 cq_tready,
    input  logic [DATA_W-1:0]    cq_tdata,
    input  logic [DATA_W/32-1:0] cq_tkeep,
    input  logic [87:0]          cq_tuser,
    input  logic                 cq_tlast,

    /*
     * completer completion
     */
    output logic                 cc_tvalid,
    input  logic                 cc_tready,
    output logic [DATA_W-1:0]    cc_tdata,
    output logic [DATA_W/32-1:0] cc_tkeep,
    output logic [32:0]          cc_tuser,
    output logic                 cc_tlast,

    /*
     * of the block
     */
    input logic [3:0]  pcie_tfc_nph_av,
    input logic [15:0] cfg_function_status,
    input logic [1:0]  cfg_max_payload,
    input logic [2:0]  cfg_max_read_req
);

  localparam int unsigned AddrW = 17;

  logic wr_valid, wr_ready, wr_last, wr_done_valid, wr_done_error;
  dma_cmd_t wr_cmd, rd_cmd;
  logic [DATA_W-1:0] wr_data, rd_data;
  logic [7:0] wr_done_tag, rd_data_tag;
  logic rd_valid, rd_ready, rd_data_valid, rd_data_ready, rd_data_last, rd_data_error;
  logic reg_request, reg_write, reg_acknowledge, unsupported;
  logic [2:0] reg_bar;
  logic [AddrW-1:0] reg_addr;
  logic [31:0] reg_wdata, reg_rdata;
  logic [3:0] reg_enable;

  pcie_us_shim #(
      .DATA_W  (DATA_W),
      .TAGS    (TAGS),
      .MAX_READ(MAX_READ),
      .TIMEOUT (TIMEOUT),
      .ADDR_W  (AddrW)
  ) shim (
      .count_unsupported(unsupported),
      .*
  );

  nanet_card #(
      .CHANNELS    (CHANNELS),
      .STREAMS     (STREAMS),
      .DEVICES     (DEVICES),
      .DESTINATIONS(DESTINATIONS),
      .MAX_BUFFERS (MAX_BUFFERS),
      .MAC_W       (MAC_W),
      .DATA_W      (DATA_W),
      .BUFFER_WORDS(BUFFER_WORDS),
      .TLB_SETS    (TLB_SETS),
      .ADDR_W      (AddrW)
  ) card (
      .bus_master(cfg_function_status[2]),
      .*
  );

endmodule
