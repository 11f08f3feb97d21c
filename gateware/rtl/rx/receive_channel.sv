// SPDX-License-Identifier: SHL-2.1
// Receive channel: frames of one MAC, or datagrams of the torus, to DMA writes into CLOP buffers; ARP reply.
module receive_channel
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Filters of the stream.
    parameter int unsigned FILTERS = 2,
    // Buffer depth in words of 128 bits; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256,
    // 1: packets come from the torus, not from a MAC.
    parameter bit TORUS = 1'b0,
    // 1: the MAC has a separate clock, and its frames are received there (receive_mac).
    parameter bit MAC_CLOCK = 1'b0
) (
    input logic clk,
    input logic rst,

    /*
     * clock and reset of the MAC, used with MAC_CLOCK
     */
    input logic mac_clk,
    input logic mac_rst,

    /*
     * configuration, steady while frames arrive
     */
    input host_t                 host,
    input filter_t [FILTERS-1:0] filter,
    input mgp_rules_t            rules,
    input logic [31:0]           now,
    input logic                  take,    // with MAC_CLOCK: frames are accepted

    /*
     * frames from the MAC
     */
    input axis_rx_req_t s_axis_rx_req,

    /*
     * packets from the torus, whose sender monitors the level
     */
    input  apenet_req_t                   torus_req,
    output logic [$clog2(BUFFER_WORDS):0] torus_level,

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
    output logic           arriving,      // words on their way to the writer

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
    output profile_t       profile,

    /*
     * with MAC_CLOCK, pulse per frame: card clock at its first and last word
     */
    output logic        frame_valid,
    output logic [31:0] frame_start,
    output logic [31:0] frame_end
);

  localparam bit Clocks = MAC_CLOCK && !TORUS;

  apenet_req_t apenet_req;
  logic [$clog2(BUFFER_WORDS):0] level;
  logic clk_channel, channel_rst, apenet_rst, clear;

  assign torus_level = level;

  // Latency from a MAC to its writer is below 64 cycles.
  clock_gate #(
      .HOLD(64)
  ) channel_clock (
      .clk,
      .active(Clocks || rst || s_axis_rx_req.tvalid || torus_req.valid || m_axis_arp_tvalid ||
              !idle),
      .gated (clk_channel)
  );

  if (TORUS) begin : gen_torus
    assign apenet_req        = torus_req;
    assign m_axis_arp_tvalid = 1'b0;
    assign m_axis_arp_tdata  = '0;
    assign m_axis_arp_tkeep  = '0;
    assign m_axis_arp_tlast  = 1'b0;
    assign verdict_valid     = 1'b0;
    assign verdict           = frame_verdict_e'(0);
    assign overflow          = 1'b0;
    assign arriving          = torus_req.valid;
    logic unused_front;
    assign unused_front = &{1'b0, mac_clk, mac_rst, take, host, filter, rules, s_axis_rx_req,
                            arp_answers, m_axis_arp_tready};
  end else if (MAC_CLOCK) begin : gen_mac
    receive_mac #(
        .FILTERS     (FILTERS),
        .BUFFER_WORDS(BUFFER_WORDS)
    ) front (
        .*
    );
    logic unused_torus;
    assign unused_torus = &{1'b0, torus_req, 1'b0};
  end else begin : gen_front
    assign arriving = s_axis_rx_req.tvalid;
    receive_front #(
        .FILTERS     (FILTERS),
        .BUFFER_WORDS(BUFFER_WORDS)
    ) front (
        .clk(clk_channel),
        .rst,
        .host,
        .filter,
        .rules,
        .now,
        .s_axis_rx_req,
        .arp_answers,
        .m_axis_arp_tvalid,
        .m_axis_arp_tready,
        .m_axis_arp_tdata,
        .m_axis_arp_tkeep,
        .m_axis_arp_tlast,
        .apenet_valid(apenet_req.valid),
        .apenet_kind (apenet_req.kind),
        .apenet_data (apenet_req.data),
        .level,
        .verdict_valid,
        .verdict,
        .overflow
    );
    logic unused_torus;
    assign unused_torus = &{1'b0, torus_req, mac_clk, mac_rst, take, 1'b0};
  end

  if (!Clocks) begin : gen_clock
    assign channel_rst = rst;
    assign apenet_rst  = rst;
    assign clear       = rst;
    assign frame_valid = 1'b0;
    assign frame_start = '0;
    assign frame_end   = '0;
  end

  rx_writer #(
      .BUFFER_WORDS(BUFFER_WORDS),
      .DATA_W      (DATA_W),
      .CLOCKS      (Clocks)
  ) writer (
      .clk     (clk_channel),
      .rst     (channel_rst),
      .now,
      .in_clk  (mac_clk),
      .in_rst  (apenet_rst),
      .in_clear(clear),
      .in_valid(apenet_req.valid),
      .in_kind (apenet_req.kind),
      .in_data (apenet_req.data),
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

  logic unused_wr_rsp;
  assign unused_wr_rsp = &{1'b0, wr_rsp.done_tag, wr_rsp.done_error};

endmodule
