// SPDX-License-Identifier: SHL-2.1
// Bench top of nanet_card with two 10 GbE MACs in separate clocks; memory and microcontroller are the
// harness. Counts the busy cycles of the stages that all packets pass.
module line_rate_bench
  import nanet_dma_pkg::*;
#(
    // CLOP buffers; a power of two.
    parameter int unsigned MAX_BUFFERS = 2048
) (
    input logic clk,
    input logic rst,

    /*
     * clocks, resets and frames of the MACs
     */
    input logic [1:0]       mac_clk,
    input logic [1:0]       mac_rst,
    input logic [1:0]       rx_valid,
    input logic [1:0][63:0] rx_data,
    input logic [1:0][7:0]  rx_keep,
    input logic [1:0]       rx_last,

    /*
     * register bus
     */
    input  logic        reg_request,
    input  logic        reg_write,
    input  logic [16:0] reg_addr,
    input  logic [31:0] reg_wdata,
    output logic        reg_acknowledge,
    output logic [31:0] reg_rdata,

    /*
     * microcontroller bus
     */
    input  logic        fw_request,
    input  logic        fw_write,
    input  logic [7:0]  fw_addr,
    input  logic [31:0] fw_wdata,
    output logic        fw_acknowledge,
    output logic [31:0] fw_rdata,
    output logic        fw_interrupt,

    /*
     * DMA: requests are always accepted
     */
    output logic         wr_valid,
    output logic [63:0]  wr_addr,
    output logic [15:0]  wr_len,
    output logic [7:0]   wr_tag,
    output logic         wr_last,
    output logic [255:0] wr_data,
    input  logic         wr_done_valid,
    input  logic [7:0]   wr_done_tag,
    output logic         rd_valid,
    output logic [63:0]  rd_addr,
    output logic [15:0]  rd_len,
    output logic [7:0]   rd_tag,
    output logic         rd_data_ready,
    input  logic         rd_data_valid,
    input  logic [255:0] rd_data,
    input  logic [7:0]   rd_data_tag,
    input  logic         rd_data_last,

    /*
     * busy in this cycle: CLOP pipeline, placement request, division and write of each channel, DMA
     */
    output logic       busy_clop,
    output logic [1:0] busy_place,
    output logic [1:0] busy_cut,
    output logic [1:0] busy_write,
    output logic       busy_dma
);

  reg_rsp_t reg_rsp;
  fw_rsp_t fw_rsp;
  dma_wr_req_t wr_req;
  dma_rd_req_t rd_req;
  logic [1:0] rx_tvalid, rx_tlast, rx_tuser, tx_tvalid, tx_tready, tx_tlast;
  logic [1:0][63:0] rx_tdata, tx_tdata;
  logic [1:0][7:0] rx_tkeep, tx_tkeep;
  logic [1:0] unused_tx_tvalid, unused_tx_tlast;
  logic [1:0][63:0] unused_tx_tdata;
  logic [1:0][7:0] unused_tx_tkeep;
  logic unused_trigger;
  logic [5:0] unused_kind;
  logic [31:0] unused_timestamp;

  assign reg_acknowledge = reg_rsp.acknowledge;
  assign reg_rdata       = reg_rsp.rdata;
  assign fw_acknowledge  = fw_rsp.acknowledge;
  assign fw_rdata        = fw_rsp.rdata;
  assign wr_valid        = wr_req.valid;
  assign wr_addr         = wr_req.cmd.addr;
  assign wr_len          = wr_req.cmd.len;
  assign wr_tag          = wr_req.cmd.tag;
  assign wr_last         = wr_req.last;
  assign rd_valid        = rd_req.valid;
  assign rd_addr         = rd_req.cmd.addr;
  assign rd_len          = rd_req.cmd.len;
  assign rd_tag          = rd_req.cmd.tag;

  axis_crossing #(
      .RECEIVE (1'b0),
      .CHANNELS(2),
      .MAC_W   (64)
  ) macs (
      .clk,
      .rst,
      .mac_rx_clk      (mac_clk),
      .mac_rx_rst      (mac_rst),
      .mac_tx_clk      (mac_clk),
      .mac_tx_rst      (mac_rst),
      .s_axis_rx_tvalid(rx_valid),
      .s_axis_rx_tdata (rx_data),
      .s_axis_rx_tkeep (rx_keep),
      .s_axis_rx_tlast (rx_last),
      .s_axis_rx_tuser ('0),
      .m_axis_tx_tvalid(unused_tx_tvalid),
      .m_axis_tx_tready('1),
      .m_axis_tx_tdata (unused_tx_tdata),
      .m_axis_tx_tkeep (unused_tx_tkeep),
      .m_axis_tx_tlast (unused_tx_tlast),
      .*
  );

  nanet_card #(
      .MAX_BUFFERS(MAX_BUFFERS),
      .MAC_CLOCKS (1'b1)
  ) card (
      .clk,
      .rst,
      .mac_rx_clk      (mac_clk),
      .mac_rx_rst      (mac_rst),
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
      .reg_req          ('{request: reg_request, write: reg_write, bar: '0, wdata: reg_wdata, enable: '1}),
      .wr_rsp           ('{ready: 1'b1, done_valid: wr_done_valid, done_tag: wr_done_tag, done_error: 1'b0}),
      .rd_rsp           ('{
          ready: 1'b1,
          data_valid: rd_data_valid,
          data_tag: rd_data_tag,
          data_last: rd_data_last,
          data_error: 1'b0
      }),
      .fw_req           ('{request: fw_request, write: fw_write, wdata: fw_wdata}),
      .bus_master       (1'b1),
      .unsupported      (1'b0),
      .ttc_samples      ('0),
      .trigger_valid    (unused_trigger),
      .trigger_kind     (unused_kind),
      .trigger_timestamp(unused_timestamp),
      .*
  );

  assign busy_dma  = wr_req.valid;
  assign busy_clop = !card.gen_stream[0].stream.receive.placement.placement.steps_idle;
  for (genvar c = 0; c < 2; c++) begin : gen_channel
    assign busy_place[c] = card.gen_stream[0].stream.receive.gen_channel[c].channel.writer.request_q != '0;
    assign busy_cut[c]   = card.gen_stream[0].stream.receive.gen_channel[c].channel.writer.cut_q != '0;
    assign busy_write[c] = card.gen_stream[0].stream.receive.gen_channel[c].channel.writer.write_q != '0;
  end

endmodule
