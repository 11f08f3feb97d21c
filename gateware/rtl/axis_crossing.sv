// SPDX-License-Identifier: SHL-2.1
// One MAC's streams to and from the card's clock. Received frames pass word by word; where the card is too
// slow a frame is cut and its end says that it is bad. Frames to the MAC wait until they are here whole, so
// that they leave without a gap whatever the clocks are.
module axis_crossing #(
    // Width of the streams in bits: 64 or 8.
    parameter int unsigned DATA_W = 64,
    // Words of received frames that can wait; a power of two.
    parameter int unsigned RX_DEPTH = 32,
    // Words of frames to the MAC; a power of two, with room for the largest frame.
    parameter int unsigned TX_DEPTH = 256
) (
    input logic clk,
    input logic rst,

    /*
     * MAC, received frames in the clock mac_rx_clk
     */
    input logic                mac_rx_clk,
    input logic                mac_rx_rst,
    input logic                s_axis_rx_tvalid,
    input logic [DATA_W-1:0]   s_axis_rx_tdata,
    input logic [DATA_W/8-1:0] s_axis_rx_tkeep,
    input logic                s_axis_rx_tlast,
    input logic                s_axis_rx_tuser,

    /*
     * the same for the card, which takes every word
     */
    output logic                m_axis_rx_tvalid,
    output logic [DATA_W-1:0]   m_axis_rx_tdata,
    output logic [DATA_W/8-1:0] m_axis_rx_tkeep,
    output logic                m_axis_rx_tlast,
    output logic                m_axis_rx_tuser,

    /*
     * frames of the card
     */
    input  logic                s_axis_tx_tvalid,
    output logic                s_axis_tx_tready,
    input  logic [DATA_W-1:0]   s_axis_tx_tdata,
    input  logic [DATA_W/8-1:0] s_axis_tx_tkeep,
    input  logic                s_axis_tx_tlast,

    /*
     * the same to the MAC, in the clock mac_tx_clk
     */
    input  logic                mac_tx_clk,
    input  logic                mac_tx_rst,
    output logic                m_axis_tx_tvalid,
    input  logic                m_axis_tx_tready,
    output logic [DATA_W-1:0]   m_axis_tx_tdata,
    output logic [DATA_W/8-1:0] m_axis_tx_tkeep,
    output logic                m_axis_tx_tlast
);

  localparam int unsigned KeepW = DATA_W / 8;

  // ------------------------------------------------------------------ received

  logic rx_valid, rx_ready, rx_last, rx_bad;
  logic [DATA_W-1:0] rx_data;
  logic [KeepW-1:0] rx_keep;
  logic cut_q;      // a word was lost: the frame's end is owed
  logic dropped_q;  // the rest of the frame that the MAC brings is not wanted
  logic lost;

  // The frame's end goes in by itself, as soon as there is room: a word that says bad.
  assign rx_valid = cut_q || (s_axis_rx_tvalid && !dropped_q);
  assign rx_data  = s_axis_rx_tdata;
  assign rx_keep  = cut_q ? KeepW'(1) : s_axis_rx_tkeep;
  assign rx_last  = cut_q || s_axis_rx_tlast;
  assign rx_bad   = cut_q || s_axis_rx_tuser;
  // A frame that begins while the end of the one before is owed is lost with it.
  assign lost     = s_axis_rx_tvalid && (cut_q || !rx_ready);

  always_ff @(posedge mac_rx_clk) begin
    if (cut_q && rx_ready) cut_q <= 1'b0;
    else if (lost && !dropped_q) cut_q <= 1'b1;
    if (s_axis_rx_tvalid && s_axis_rx_tlast) dropped_q <= 1'b0;
    else if (lost) dropped_q <= 1'b1;
    if (mac_rx_rst) begin
      cut_q     <= 1'b0;
      dropped_q <= 1'b0;
    end
  end

  async_fifo #(
      .WIDTH(DATA_W + KeepW + 2),
      .DEPTH(RX_DEPTH)
  ) rx (
      .wr_clk   (mac_rx_clk),
      .wr_rst   (mac_rx_rst),
      .in_valid (rx_valid),
      .in_ready (rx_ready),
      .in_data  ({rx_bad, rx_last, rx_keep, rx_data}),
      .rd_clk   (clk),
      .rd_rst   (rst),
      .out_valid(m_axis_rx_tvalid),
      .out_ready(1'b1),
      .out_data ({m_axis_rx_tuser, m_axis_rx_tlast, m_axis_rx_tkeep, m_axis_rx_tdata})
  );

  // ------------------------------------------------------------------ to the MAC

  logic tx_valid, tx_ready, tx_last, whole_ready, whole;
  logic [DATA_W-1:0] tx_data;
  logic [KeepW-1:0] tx_keep;

  // For each frame that is in whole, an entry of the second FIFO; its last word waits for that, too.
  assign s_axis_tx_tready = tx_ready && (whole_ready || !s_axis_tx_tlast);

  async_fifo #(
      .WIDTH(DATA_W + KeepW + 1),
      .DEPTH(TX_DEPTH)
  ) tx (
      .wr_clk   (clk),
      .wr_rst   (rst),
      .in_valid (s_axis_tx_tvalid && s_axis_tx_tready),
      .in_ready (tx_ready),
      .in_data  ({s_axis_tx_tlast, s_axis_tx_tkeep, s_axis_tx_tdata}),
      .rd_clk   (mac_tx_clk),
      .rd_rst   (mac_tx_rst),
      .out_valid(tx_valid),
      .out_ready(whole && m_axis_tx_tready),
      .out_data ({tx_last, tx_keep, tx_data})
  );

  logic unused_data;
  async_fifo #(
      .WIDTH(1),
      .DEPTH(8)
  ) frames (
      .wr_clk   (clk),
      .wr_rst   (rst),
      .in_valid (s_axis_tx_tvalid && s_axis_tx_tlast && s_axis_tx_tready),
      .in_ready (whole_ready),
      .in_data  (1'b0),
      .rd_clk   (mac_tx_clk),
      .rd_rst   (mac_tx_rst),
      .out_valid(whole),
      .out_ready(m_axis_tx_tvalid && m_axis_tx_tready && tx_last),
      .out_data (unused_data)
  );

  assign m_axis_tx_tvalid = whole && tx_valid;
  assign m_axis_tx_tdata  = tx_data;
  assign m_axis_tx_tkeep  = tx_keep;
  assign m_axis_tx_tlast  = tx_last;

endmodule
