// SPDX-License-Identifier: SHL-2.1
// Port of one MAC: 64-bit received words for all streams, and a round-robin merge of their transmitted
// frames. MACs of 8 bits are widened and narrowed here.
module mac_port #(
    // Streams of the card.
    parameter int unsigned STREAMS = 1,
    // Width of the MAC's streams in bits: 64 (10 GbE) or 8 (1 GbE).
    parameter int unsigned MAC_W = 64
) (
    input logic clk,
    input logic rst,
    // Clock and reset of the received words; equal to clk and rst unless the MAC has a separate clock.
    input logic rx_clk,
    input logic rx_rst,

    /*
     * frames from the MAC, and their copy for the streams
     */
    input  logic               s_axis_rx_tvalid,
    input  logic [MAC_W-1:0]   s_axis_rx_tdata,
    input  logic [MAC_W/8-1:0] s_axis_rx_tkeep,
    input  logic               s_axis_rx_tlast,
    input  logic               s_axis_rx_tuser,
    output logic               m_axis_rx_tvalid,
    output logic [63:0]        m_axis_rx_tdata,
    output logic [7:0]         m_axis_rx_tkeep,
    output logic               m_axis_rx_tlast,
    output logic               m_axis_rx_tuser,

    /*
     * per stream: reset, block new frames, frame in progress
     */
    input  logic [STREAMS-1:0] stream_rst,
    input  logic [STREAMS-1:0] stop,
    output logic [STREAMS-1:0] busy,

    /*
     * ARP replies
     */
    input  logic [STREAMS-1:0]       s_axis_arp_tvalid,
    output logic [STREAMS-1:0]       s_axis_arp_tready,
    input  logic [STREAMS-1:0][63:0] s_axis_arp_tdata,
    input  logic [STREAMS-1:0][7:0]  s_axis_arp_tkeep,
    input  logic [STREAMS-1:0]       s_axis_arp_tlast,

    /*
     * frames of the send paths
     */
    input  logic [STREAMS-1:0]              s_axis_send_tvalid,
    output logic [STREAMS-1:0]              s_axis_send_tready,
    input  logic [STREAMS-1:0][MAC_W-1:0]   s_axis_send_tdata,
    input  logic [STREAMS-1:0][MAC_W/8-1:0] s_axis_send_tkeep,
    input  logic [STREAMS-1:0]              s_axis_send_tlast,

    /*
     * frames to the MAC
     */
    output logic               m_axis_tx_tvalid,
    input  logic               m_axis_tx_tready,
    output logic [MAC_W-1:0]   m_axis_tx_tdata,
    output logic [MAC_W/8-1:0] m_axis_tx_tkeep,
    output logic               m_axis_tx_tlast
);

  if (MAC_W != 8 && MAC_W != 64) begin : gen_check_mac
    $fatal(1, "MAC_W must be 8 or 64 (%m)");
  end

  // ------------------------------------------------------------------ to the streams

  if (MAC_W == 64) begin : gen_rx_wide
    assign m_axis_rx_tvalid = s_axis_rx_tvalid;
    assign m_axis_rx_tdata  = s_axis_rx_tdata;
    assign m_axis_rx_tkeep  = s_axis_rx_tkeep;
    assign m_axis_rx_tlast  = s_axis_rx_tlast;
    assign m_axis_rx_tuser  = s_axis_rx_tuser;
    logic unused;
    assign unused = &{1'b0, rst, rx_clk, rx_rst, stream_rst};
  end else begin : gen_rx_narrow
    axis_widen widen (
        .clk             (rx_clk),
        .rst             (rx_rst),
        .s_axis_rx_tvalid,
        .s_axis_rx_tdata,
        .s_axis_rx_tlast,
        .s_axis_rx_tuser,
        .m_axis_rx_tvalid,
        .m_axis_rx_tdata,
        .m_axis_rx_tkeep,
        .m_axis_rx_tlast,
        .m_axis_rx_tuser
    );
    logic unused;
    assign unused = &{1'b0, s_axis_rx_tkeep};
  end

  // ------------------------------------------------------------------ to the MAC

  // Per stream: ARP replies, then the send path.
  logic [STREAMS-1:0][1:0] tx_tvalid, tx_tready, tx_tlast, tx_stop, tx_busy;
  logic [STREAMS-1:0][1:0][MAC_W-1:0] tx_tdata;
  logic [STREAMS-1:0][1:0][MAC_W/8-1:0] tx_tkeep;

  for (genvar s = 0; s < int'(STREAMS); s++) begin : gen_stream
    if (MAC_W == 64) begin : gen_wide
      assign tx_tvalid[s][0]      = s_axis_arp_tvalid[s];
      assign s_axis_arp_tready[s] = tx_tready[s][0];
      assign tx_tdata[s][0]       = s_axis_arp_tdata[s];
      assign tx_tkeep[s][0]       = s_axis_arp_tkeep[s];
      assign tx_tlast[s][0]       = s_axis_arp_tlast[s];
    end else begin : gen_narrow
      axis_narrow narrow (
          .clk,
          .rst          (stream_rst[s]),
          .s_axis_tvalid(s_axis_arp_tvalid[s]),
          .s_axis_tready(s_axis_arp_tready[s]),
          .s_axis_tdata (s_axis_arp_tdata[s]),
          .s_axis_tkeep (s_axis_arp_tkeep[s]),
          .s_axis_tlast (s_axis_arp_tlast[s]),
          .m_axis_tvalid(tx_tvalid[s][0]),
          .m_axis_tready(tx_tready[s][0]),
          .m_axis_tdata (tx_tdata[s][0]),
          .m_axis_tlast (tx_tlast[s][0])
      );
      assign tx_tkeep[s][0] = '1;
    end
    assign tx_tvalid[s][1]       = s_axis_send_tvalid[s];
    assign s_axis_send_tready[s] = tx_tready[s][1];
    assign tx_tdata[s][1]        = s_axis_send_tdata[s];
    assign tx_tkeep[s][1]        = s_axis_send_tkeep[s];
    assign tx_tlast[s][1]        = s_axis_send_tlast[s];
    assign tx_stop[s]            = {2{stop[s]}};
    assign busy[s]               = tx_busy[s] != '0;
  end

  axis_mux #(
      .PORTS (2 * STREAMS),
      .DATA_W(MAC_W)
  ) tx (
      .clk,
      .rst,
      .stop         (tx_stop),
      .busy         (tx_busy),
      .s_axis_tvalid(tx_tvalid),
      .s_axis_tready(tx_tready),
      .s_axis_tdata (tx_tdata),
      .s_axis_tkeep (tx_tkeep),
      .s_axis_tlast (tx_tlast),
      .m_axis_tvalid(m_axis_tx_tvalid),
      .m_axis_tready(m_axis_tx_tready),
      .m_axis_tdata (m_axis_tx_tdata),
      .m_axis_tkeep (m_axis_tx_tkeep),
      .m_axis_tlast (m_axis_tx_tlast)
  );

endmodule
