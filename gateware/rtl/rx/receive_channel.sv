// SPDX-License-Identifier: SHL-2.1
// Receive channel: from the frames of one MAC to DMA writes into CLOP buffers, and ARP replies.
module receive_channel
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Filters of the stream.
    parameter int unsigned FILTERS = 2,
    // Buffer depth in words of 128 bits; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while frames arrive
     */
    input host_t                 host,
    input filter_t [FILTERS-1:0] filter,
    input mgp_rules_t            rules,
    input logic [31:0]           now,

    /*
     * frames from the MAC
     */
    input axis_rx_req_t s_axis_rx_req,

    /*
     * ARP replies, where enabled for this stream
     */
    input  logic        arp_answers,
    output logic        m_axis_arp_tvalid,
    input  logic        m_axis_arp_tready,
    output logic [63:0] m_axis_arp_tdata,
    output logic [7:0]  m_axis_arp_tkeep,
    output logic        m_axis_arp_tlast,

    /*
     * placement: as in rx_writer
     */
    output logic           place_valid,
    input  logic           place_ready,
    output place_request_t place,
    input  logic           placed_valid,
    input  placed_rsp_t    placed_rsp,
    output serial_t        done_serial,
    output logic           idle,          // the writer is empty

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
     * counters: pulses
     */
    output logic           verdict_valid,
    output frame_verdict_e verdict,
    output logic           overflow,
    output logic           refused,
    output refusal_e       refusal,
    output logic           untranslated,
    output logic           profile_valid,
    output profile_t       profile
);

  payload_req_t udp_req;
  payload_req_t mgp_req;
  logic apenet_valid, arp_valid;
  refusal_e mgp_refusal;
  logic [15:0] mgp_hits;
  logic [7:0] unused_events;
  apenet_kind_e apenet_kind;
  logic [127:0] apenet_data;
  logic [$clog2(BUFFER_WORDS):0] level;
  arp_request_t arp;
  logic clk_channel;

  // Latency from a MAC to its writer is below 64 cycles.
  clock_gate #(
      .HOLD(64)
  ) channel_clock (
      .clk,
      .active(rst || s_axis_rx_req.tvalid || m_axis_arp_tvalid || !idle),
      .gated (clk_channel)
  );

  udp_receive #(
      .FILTERS(FILTERS)
  ) udp (
      .clk    (clk_channel),
      .rst,
      .host,
      .filter,
      .now,
      .s_axis_rx_req,
      .out_req(udp_req),
      .verdict_valid,
      .verdict,
      .arp_valid,
      .arp
  );

  arp_reply arp_answer (
      .clk             (clk_channel),
      .rst,
      .host,
      .arp_valid       (arp_valid && arp_answers),
      .arp,
      .m_axis_tx_tvalid(m_axis_arp_tvalid),
      .m_axis_tx_tready(m_axis_arp_tready),
      .m_axis_tx_tdata (m_axis_arp_tdata),
      .m_axis_tx_tkeep (m_axis_arp_tkeep),
      .m_axis_tx_tlast (m_axis_arp_tlast)
  );

  mgp_check mgp (
      .clk        (clk_channel),
      .rst,
      .rules,
      .in_req     (udp_req),
      .out_req    (mgp_req),
      .out_refusal(mgp_refusal),
      .out_hits   (mgp_hits),
      .out_events (unused_events)
  );

  nanet_controller #(
      .BUFFER_WORDS(BUFFER_WORDS)
  ) controller (
      .clk         (clk_channel),
      .rst,
      .now,
      .in_req      (mgp_req),
      .in_refusal  (mgp_refusal),
      .in_hits     (mgp_hits),
      .buffer_level(level),
      .out_valid   (apenet_valid),
      .out_kind    (apenet_kind),
      .out_data    (apenet_data),
      .overflow
  );

  rx_writer #(
      .BUFFER_WORDS(BUFFER_WORDS),
      .DATA_W      (DATA_W)
  ) writer (
      .clk     (clk_channel),
      .rst,
      .now,
      .in_valid(apenet_valid),
      .in_kind (apenet_kind),
      .in_data (apenet_data),
      .level,
      .place_valid,
      .place_ready,
      .place,
      .placed_valid,
      .placed_rsp,
      .refused,
      .refusal,
      .done_serial,
      .idle,
      .tlb_req,
      .tlb_rsp,
      .wr_req,
      .wr_rsp,
      .wr_data,
      .untranslated,
      .profile_valid,
      .profile
  );

  logic unused;
  assign unused = &{1'b0, unused_events};

  logic unused_wr_rsp;
  assign unused_wr_rsp = &{1'b0, wr_rsp.done_tag, wr_rsp.done_error};

endmodule
