// SPDX-License-Identifier: SHL-2.1
// Torus node with registers; its RDMA network interface is configured through them.
module nanet_torus_card
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
  import rdma_pkg::*;
#(
    // Width of a byte address on the register bus, as in torus_registers.
    parameter int unsigned ADDR_W = 17,
    // Words of an input buffer of the router; a power of two.
    parameter int unsigned DEPTH = 512,
    // Messages under way; sets of four pages in the TLB, of four buffers in the table; powers of two.
    parameter int unsigned MESSAGES = 64,
    parameter int unsigned SETS = 64
) (
    input logic clk,
    input logic rst,

    /*
     * register bus; `miss`: a key or a page waits for the driver
     */
    input  reg_req_t              reg_req,
    input  logic     [ADDR_W-1:0] reg_addr,
    output reg_rsp_t              reg_rsp,
    input  logic                  bus_master,
    output logic                  miss,

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
    input  logic [127:0] rd_data,

    /*
     * PHY of each link, as in torus_node
     */
    input  logic [TorusLinks-1:0]        channel_up,
    output logic [TorusLinks-1:0]        tx_valid,
    input  logic [TorusLinks-1:0]        tx_ready,
    output logic [TorusLinks-1:0]        tx_control,
    output logic [TorusLinks-1:0][127:0] tx_data,
    input  logic [TorusLinks-1:0]        rx_valid,
    input  logic [TorusLinks-1:0]        rx_control,
    input  logic [TorusLinks-1:0][127:0] rx_data
);

  torus_size_t size;
  torus_node_t me;
  logic [TorusLinks-1:0] connected, compatible, up;
  logic balanced, node_rst, key_flush, tlb_flush, idle;
  apelink_config_t settings;
  logic [9:0] capacity;
  rdma_cfg_t cfg;
  logic [63:0] now;
  apelink_counters_t [TorusLinks-1:0] compatible_counters;
  reliable_counters_t [TorusLinks-1:0] reliable_counters;
  logic [TorusPorts-1:0] astray, overflow;
  rdma_counters_t counters;
  miss_req_t miss_req;
  fill_req_t fill_req;
  key_miss_req_t key_miss_req;
  key_fill_req_t key_fill_req;
  logic miss_ready, fill_ready, key_miss_ready, key_fill_ready;

  torus_registers #(
      .ADDR_W  (ADDR_W),
      .MESSAGES(MESSAGES),
      .SETS    (SETS)
  ) i_registers (
      .miss_pending(miss),
      .*
  );

  logic unused_verdict_valid, unused_overflow, unused_too_long;
  frame_verdict_e unused_verdict;
  apenet_req_t unused_torus_req;

  nanet_torus_node #(
      .UDP     (1'b0),
      .DEPTH   (DEPTH),
      .MESSAGES(MESSAGES),
      .SETS    (SETS)
  ) i_node (
      .rst              (node_rst),
      .host             ('0),
      .filter           ('0),
      .rules            ('0),
      .datagram_node    ('0),
      .datagram_intra   ('0),
      .datagram_channel ('0),
      .s_axis_rx_req    ('0),
      .verdict_valid    (unused_verdict_valid),
      .verdict          (unused_verdict),
      .datagram_overflow(unused_overflow),
      .datagram_too_long(unused_too_long),
      .torus_req        (unused_torus_req),
      .torus_level      ('0),
      .*
  );

  logic unused;
  assign unused = &{
          1'b0, unused_verdict_valid, unused_verdict, unused_overflow, unused_too_long, unused_torus_req, 1'b0
      };

endmodule
