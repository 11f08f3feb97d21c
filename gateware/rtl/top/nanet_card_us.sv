// SPDX-License-Identifier: SHL-2.1
// Card top on the UltraScale+ integrated block for PCI Express: nanet_card behind pcie_us_shim, registers
// in BAR 0. Card, block and MACs may have separate clocks or share the block's.
module nanet_card_us
  import nanet_dma_pkg::*;
#(
    // MACs; like filters, devices and destinations, at most as many as the register map has.
    parameter int unsigned CHANNELS = 2,
    // Streams, each with separate registers; at most 15.
    parameter int unsigned STREAMS = 1,
    // Filters of each stream.
    parameter int unsigned FILTERS = 2,
    // Consumer devices of each stream: a power of two.
    parameter int unsigned DEVICES = 1,
    // UDP endpoints selectable by descriptors.
    parameter int unsigned DESTINATIONS = 4,
    // Per stream: total number of CLOP buffers, and of send-ring descriptors, of all devices; a power of two,
    // at most 8192.
    parameter int unsigned MAX_BUFFERS = 8192,
    // Width of the MAC streams in bits: 64 (10 GbE) or 8 (1 GbE).
    parameter int unsigned MAC_W = 64,
    // 1: the MAC streams have separate clocks, and frames are received there; 0: they use `clk`.
    parameter bit MAC_CLOCKS = 1'b0,
    // 1: the PCIe block streams use `pcie_clk` and `clk` is the card clock only; 0: they use `clk`.
    parameter bit PCIE_CLOCK = 1'b0,
    // Width of the DMA data and of the PCIe block streams in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Channel buffer in words of 128 bits; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // Sets of four pages in the TLB; a power of two.
    parameter int unsigned TLB_SETS = 64,
    // Outstanding read TLPs, a power of two, at most 32.
    parameter int unsigned TAGS = 32,
    // Maximum bytes per read TLP, a power of two from 128 to 4096.
    parameter int unsigned MAX_READ = 512,
    // Completion timeout in cycles of the PCIe block clock.
    parameter int unsigned TIMEOUT = 16_000_000
) (
    input logic clk,
    input logic rst,

    /*
     * clock and reset of the block's streams, used with PCIE_CLOCK
     */
    input logic pcie_clk,
    input logic pcie_rst,

    /*
     * clocks of the MACs' streams, used with MAC_CLOCKS; a reset lasts four cycles of the slower clock
     */
    input logic [CHANNELS-1:0] mac_rx_clk,
    input logic [CHANNELS-1:0] mac_rx_rst,
    input logic [CHANNELS-1:0] mac_tx_clk,
    input logic [CHANNELS-1:0] mac_tx_rst,

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
     * microcontroller bus: a request stays until it is acknowledged; stream s begins at s * 256; interrupt:
     * request of the stream pending
     */
    input  fw_req_t                    fw_req,
    input  logic [7+$clog2(STREAMS):0] fw_addr,
    output fw_rsp_t                    fw_rsp,
    output logic [STREAMS-1:0]         fw_interrupt,

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

  localparam int unsigned AddrW = STREAMS < 3 ? 17 : 16 + $clog2(STREAMS);

  dma_wr_req_t wr_req;
  dma_wr_rsp_t wr_rsp;
  dma_rd_req_t rd_req;
  logic rd_data_ready;
  logic [DATA_W-1:0] wr_data, rd_data;
  dma_rd_rsp_t rd_rsp;
  reg_req_t reg_req;
  reg_rsp_t reg_rsp;
  logic bus_master, unsupported, card_rst;
  logic [AddrW-1:0] reg_addr;

  pcie_us_shim #(
      .PCIE_CLOCK(PCIE_CLOCK),
      .DATA_W    (DATA_W),
      .TAGS      (TAGS),
      .MAX_READ  (MAX_READ),
      .TIMEOUT   (TIMEOUT),
      .ADDR_W    (AddrW)
  ) shim (
      .*
  );

  // Transmitted frames in the card clock; received ones stay in the MACs' clocks.
  logic [CHANNELS-1:0] rx_tvalid, rx_tlast, rx_tuser, tx_tvalid, tx_tready, tx_tlast;
  logic [CHANNELS-1:0][MAC_W-1:0] rx_tdata, tx_tdata;
  logic [CHANNELS-1:0][MAC_W/8-1:0] rx_tkeep, tx_tkeep;

  axis_crossing #(
      .CLOCKS  (MAC_CLOCKS),
      .RECEIVE (1'b0),
      .CHANNELS(CHANNELS),
      .MAC_W   (MAC_W),
      .TX_DEPTH(2048 / (MAC_W / 8))
  ) macs (
      .rst(card_rst),
      .*
  );

  // Without final trigger.
  logic unused_valid;
  logic [5:0] unused_kind;
  logic [31:0] unused_timestamp;

  nanet_card #(
      .CHANNELS    (CHANNELS),
      .STREAMS     (STREAMS),
      .FILTERS     (FILTERS),
      .DEVICES     (DEVICES),
      .DESTINATIONS(DESTINATIONS),
      .MAX_BUFFERS (MAX_BUFFERS),
      .MAC_W       (MAC_W),
      .DATA_W      (DATA_W),
      .BUFFER_WORDS(BUFFER_WORDS),
      .TLB_SETS    (TLB_SETS),
      .MAC_CLOCKS  (MAC_CLOCKS),
      .ADDR_W      (AddrW)
  ) card (
      .rst             (card_rst),
      .s_axis_rx_tvalid(rx_tvalid),
      .s_axis_rx_tdata (rx_tdata),
      .s_axis_rx_tkeep (rx_tkeep),
      .s_axis_rx_tlast (rx_tlast),
      .s_axis_rx_tuser (rx_tuser),
      .m_axis_tx_tvalid(tx_tvalid),
      .m_axis_tx_tready(tx_tready),
      .m_axis_tx_tdata (tx_tdata),
      .m_axis_tx_tkeep (tx_tkeep),
      .m_axis_tx_tlast (tx_tlast),
      .ttc_samples      ('0),
      .trigger_valid    (unused_valid),
      .trigger_kind     (unused_kind),
      .trigger_timestamp(unused_timestamp),
      .*
  );

endmodule
