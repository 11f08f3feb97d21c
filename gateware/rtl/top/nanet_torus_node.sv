// SPDX-License-Identifier: SHL-2.1
// Node of the torus with RDMA network interface; with UDP, datagrams of a MAC travel to the CLOP of another
// node, and arriving datagrams enter the receive path of this one.
module nanet_torus_node
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
  import rdma_pkg::*;
#(
    // 1: with MAC and datagrams.
    parameter bit UDP = 1'b1,
    // Words of an input buffer of the router; a power of two.
    parameter int unsigned DEPTH = 512,
    // Words of the datagram buffers; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 2048,
    // Messages under way; sets of four pages in the TLB, of four buffers in the table; powers of two.
    parameter int unsigned MESSAGES = 64,
    parameter int unsigned SETS = 64
) (
    input logic clk,
    input logic rst,

    /*
     * configuration: lattice, coordinates, links as in torus_node; network interface; card clock
     */
    input torus_size_t                      size,
    input torus_node_t                      me,
    input logic            [TorusLinks-1:0] connected,
    input logic            [TorusLinks-1:0] compatible,
    input logic                             balanced,
    input apelink_config_t                  settings,
    input logic            [           9:0] capacity,
    input rdma_cfg_t                        cfg,
    input logic            [          63:0] now,
    input logic                             key_flush,
    input logic                             tlb_flush,

    /*
     * state
     */
    output logic               [TorusLinks-1:0] up,
    output apelink_counters_t  [TorusLinks-1:0] compatible_counters,
    output reliable_counters_t [TorusLinks-1:0] reliable_counters,
    output logic               [TorusPorts-1:0] astray,
    output logic               [TorusPorts-1:0] overflow,
    output rdma_counters_t                      counters,
    output logic                                idle,                 // network interface, as in rdma

    /*
     * firmware: pages and registered buffers
     */
    output miss_req_t     miss_req,
    input  logic          miss_ready,
    input  fill_req_t     fill_req,
    output logic          fill_ready,
    output key_miss_req_t key_miss_req,
    input  logic          key_miss_ready,
    input  key_fill_req_t key_fill_req,
    output logic          key_fill_ready,

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
     * UDP: configuration, destination of the datagrams, frames from the MAC; pulses: verdict on a frame, a
     * datagram without room in the buffer, or too long for a packet
     */
    input  host_t                  host,
    input  filter_t                filter,
    input  mgp_rules_t             rules,
    input  torus_node_t            datagram_node,
    input  logic            [ 3:0] datagram_intra,
    input  logic            [15:0] datagram_channel,
    input  axis_rx_req_t           s_axis_rx_req,
    output logic                   verdict_valid,
    output frame_verdict_e         verdict,
    output logic                   datagram_overflow,
    output logic                   datagram_too_long,

    /*
     * UDP: datagrams from the torus, to a torus channel of receive_path
     */
    output apenet_req_t                   torus_req,
    input  logic [$clog2(BUFFER_WORDS):0] torus_level,

    /*
     * PHY of each link
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

  // Room for a datagram of each virtual channel, with words under way.
  localparam int unsigned Margin = 2 * (TorusMaxPayload / 16) + 8;

  logic out_valid, out_vc, in_valid, in_vc;
  torus_word_t out_word, in_word;
  logic [TorusVcs-1:0] out_freed;
  torus_words_t [TorusVcs-1:0] space;
  inject_req_t datagram_req;
  logic datagram_sent, datagram_in_valid, datagram_in_ready, datagram_room_q;
  logic datagram_out_valid, datagram_out_first, datagram_out_last;
  logic [127:0] datagram_in_data, datagram_out_data;

  torus_node #(
      .DEPTH(DEPTH)
  ) i_node (
      .local_in_valid (out_valid),
      .local_in_vc    (out_vc),
      .local_in_word  (out_word),
      .local_in_freed (out_freed),
      .local_out_valid(in_valid),
      .local_out_vc   (in_vc),
      .local_out_word (in_word),
      .local_space    (space),
      .*
  );

  rdma #(
      .DEPTH   (DEPTH),
      .MESSAGES(MESSAGES),
      .SETS    (SETS)
  ) i_rdma (
      .datagram_room     (datagram_room_q),
      .datagram_out_ready(1'b1),
      .*
  );

  if (UDP) begin : gen_udp
    apenet_footer_t last;
    apenet_req_t front_req;
    logic [$clog2(BUFFER_WORDS):0] level;
    logic unused_arp_valid, unused_arp_last;
    logic [63:0] unused_arp_data;
    logic [7:0] unused_arp_keep;

    receive_front #(
        .FILTERS     (1),
        .BUFFER_WORDS(BUFFER_WORDS)
    ) i_front (
        .clk,
        .rst,
        .host,
        .filter,
        .rules,
        .now              (now[31:0]),
        .s_axis_rx_req,
        .arp_answers      (1'b0),
        .m_axis_arp_tvalid(unused_arp_valid),
        .m_axis_arp_tready(1'b1),
        .m_axis_arp_tdata (unused_arp_data),
        .m_axis_arp_tkeep (unused_arp_keep),
        .m_axis_arp_tlast (unused_arp_last),
        .apenet_valid     (front_req.valid),
        .apenet_kind      (front_req.kind),
        .apenet_data      (front_req.data),
        .level,
        .verdict_valid,
        .verdict,
        .overflow         (datagram_overflow)
    );

    rdma_datagram #(
        .DEPTH(BUFFER_WORDS)
    ) i_datagram (
        .clk,
        .rst,
        .me,
        .node          (datagram_node),
        .intra         (datagram_intra),
        .channel       (datagram_channel),
        .in_req        (front_req),
        .level,
        .datagram_req,
        .datagram_sent,
        .datagram_valid(datagram_in_valid),
        .datagram_ready(datagram_in_ready),
        .datagram_data (datagram_in_data),
        .too_long      (datagram_too_long)
    );

    // A footer of the network ends its datagram, whatever it contains.
    always_comb begin
      last      = datagram_out_data;
      last.last = 1'b1;
    end
    always_ff @(posedge clk) begin
      torus_req <= '{
          valid: datagram_out_valid,
          kind: datagram_out_first ? ApenetHeader : datagram_out_last ? ApenetFooter : ApenetPayload,
          data: datagram_out_last ? last : datagram_out_data
      };
      datagram_room_q <= 32'(torus_level) + Margin <= BUFFER_WORDS;
      if (rst) begin
        torus_req.valid <= 1'b0;
        datagram_room_q <= 1'b0;
      end
    end

    logic unused;
    assign unused = &{1'b0, unused_arp_valid, unused_arp_data, unused_arp_keep, unused_arp_last, 1'b0};
  end else begin : gen_no_udp
    assign datagram_req      = '0;
    assign datagram_in_valid = 1'b0;
    assign datagram_in_data  = '0;
    assign datagram_room_q   = 1'b0;
    assign torus_req         = '0;
    assign verdict_valid     = 1'b0;
    assign verdict           = frame_verdict_e'(0);
    assign datagram_overflow = 1'b0;
    assign datagram_too_long = 1'b0;
    logic unused;
    assign unused = &{
            1'b0, host, filter, rules, datagram_node, datagram_intra, datagram_channel, s_axis_rx_req,
            torus_level, datagram_sent, datagram_in_ready, datagram_out_valid, datagram_out_first,
            datagram_out_last, datagram_out_data, 1'b0
        };
  end

endmodule
