// SPDX-License-Identifier: SHL-2.1
// Torus card top of the C++ model of a network: link words in unpacked arrays, DMA requests by field, packets
// between network interface and router visible. Not for synthesis.
module torus_card_sim
  import nanet_dma_pkg::*;
  import nanet_torus_pkg::*;
  import rdma_pkg::*;
#(
    // Words of an input buffer.
    parameter int unsigned DEPTH = 512
) (
    input logic clk,
    input logic rst,

    input  logic        reg_request,
    input  logic        reg_write,
    input  logic [16:0] reg_address,
    input  logic [31:0] reg_wdata,
    output logic        reg_acknowledge,
    output logic [31:0] reg_rdata,
    output logic        miss,

    output logic         wr_valid,
    output logic [63:0]  wr_address,
    output logic [15:0]  wr_len,
    output logic [7:0]   wr_tag,
    output logic         wr_last,
    output logic [127:0] wr_data,
    input  logic         wr_done,
    input  logic [7:0]   wr_done_tag,
    input  logic         wr_done_error,

    output logic         rd_valid,
    output logic [63:0]  rd_address,
    output logic [15:0]  rd_len,
    output logic [7:0]   rd_tag,
    output logic         rd_data_ready,
    input  logic         rd_data_valid,
    input  logic [7:0]   rd_data_tag,
    input  logic         rd_data_last,
    input  logic         rd_data_error,
    input  logic [127:0] rd_data,

    output logic [TorusLinks-1:0] tx_valid,
    output logic [TorusLinks-1:0] tx_control,
    output logic [127:0]          tx_data[TorusLinks],
    input  logic [TorusLinks-1:0] rx_valid,
    input  logic [TorusLinks-1:0] rx_control,
    input  logic [127:0]          rx_data[TorusLinks],

    /*
     * observation: words into the router and out of it, state, counters
     */
    output logic         into_valid,
    output logic         into_vc,
    output logic [129:0] into_word,
    output logic         out_valid,
    output logic         out_vc,
    output logic [129:0] out_word,
    output logic         sent,       // every posted packet has entered the router
    output logic         waits,      // a message is under way
    output logic         overflow,
    output logic [31:0]  refused[Reasons],
    output logic [31:0]  unexpected,
    output logic [31:0]  events_lost,
    output logic [31:0]  lost        // packets dropped or cut by links
);

  logic [TorusLinks-1:0][127:0] tx_words, rx_words;
  dma_wr_req_t wr_req;
  dma_rd_req_t rd_req;
  reg_rsp_t reg_rsp;

  for (genvar i = 0; i < TorusLinks; i++) begin : gen_link
    assign rx_words[i] = rx_data[i];
    assign tx_data[i]  = tx_words[i];
  end
  for (genvar i = 0; i < int'(Reasons); i++) begin : gen_reason
    assign refused[i] = i_card.counters.refused[i];
  end

  assign reg_acknowledge = reg_rsp.acknowledge;
  assign reg_rdata       = reg_rsp.rdata;
  assign wr_valid        = wr_req.valid;
  assign wr_address      = wr_req.cmd.addr;
  assign wr_len          = wr_req.cmd.len;
  assign wr_tag          = wr_req.cmd.tag;
  assign wr_last         = wr_req.last;
  assign rd_valid        = rd_req.valid;
  assign rd_address      = rd_req.cmd.addr;
  assign rd_len          = rd_req.cmd.len;
  assign rd_tag          = rd_req.cmd.tag;

  assign into_valid      = i_card.i_node.out_valid;
  assign into_vc         = i_card.i_node.out_vc;
  assign into_word       = i_card.i_node.out_word;
  assign out_valid       = i_card.i_node.in_valid;
  assign out_vc          = i_card.i_node.in_vc;
  assign out_word        = i_card.i_node.in_word;
  assign sent            = i_card.i_node.i_rdma.put_empty && i_card.i_node.i_rdma.tx_idle;
  assign waits           = !i_card.i_node.i_rdma.no_message;
  assign overflow        = i_card.overflow != 0;
  assign unexpected      = i_card.counters.unexpected;
  assign events_lost     = i_card.counters.events_lost;
  always_comb begin
    lost = '0;
    for (int i = 0; i < TorusLinks; i++)
      lost += i_card.reliable_counters[i].dropped + 32'(i_card.reliable_counters[i].cut) +
              i_card.reliable_counters[i].unconfirmed;
  end

  nanet_torus_card #(
      .DEPTH(DEPTH)
  ) i_card (
      .clk,
      .rst,
      .reg_req   ('{request: reg_request, write: reg_write, bar: '0, wdata: reg_wdata, enable: '1}),
      .reg_addr  (reg_address),
      .reg_rsp,
      .bus_master(1'b1),
      .miss,
      .wr_req,
      .wr_rsp    ('{ready: 1'b1, done_valid: wr_done, done_tag: wr_done_tag, done_error: wr_done_error}),
      .wr_data,
      .rd_req,
      .rd_data_ready,
      .rd_rsp    ('{
          ready: 1'b1,
          data_valid: rd_data_valid,
          data_tag: rd_data_tag,
          data_last: rd_data_last,
          data_error: rd_data_error
      }),
      .rd_data,
      .channel_up('1),
      .tx_valid,
      .tx_ready  ('1),
      .tx_control,
      .tx_data   (tx_words),
      .rx_valid,
      .rx_control,
      .rx_data   (rx_words)
  );

endmodule
