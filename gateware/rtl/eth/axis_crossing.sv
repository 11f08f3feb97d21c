// SPDX-License-Identifier: SHL-2.1
// Clock crossing of the MACs' streams. Received frames pass word by word, or stay in the MACs' clocks. If the
// card is too slow, a frame is cut or dropped, and a bad end is reported for each. Transmitted frames are
// stored whole, so that they leave without a gap at any clock ratio.
module axis_crossing #(
    // 1: every MAC has separate clocks. 0: all MACs use the card clock and the module reduces to wires.
    parameter bit CLOCKS = 1'b1,
    // 1: received frames pass to the card clock. 0: they stay in the MACs' clocks.
    parameter bit RECEIVE = 1'b1,
    // MACs.
    parameter int unsigned CHANNELS = 1,
    // Width of the streams in bits: 64 or 8.
    parameter int unsigned MAC_W = 64,
    // Receive FIFO depth in words; a power of two.
    parameter int unsigned RX_DEPTH = 32,
    // Transmit FIFO depth in words; a power of two, with room for the longest frame.
    parameter int unsigned TX_DEPTH = 256
) (
    input logic clk,
    input logic rst,

    /*
     * clocks of the MACs; a reset lasts four cycles of the slower clock
     */
    input logic [CHANNELS-1:0] mac_rx_clk,
    input logic [CHANNELS-1:0] mac_rx_rst,
    input logic [CHANNELS-1:0] mac_tx_clk,
    input logic [CHANNELS-1:0] mac_tx_rst,

    /*
     * frames from the MACs in their clocks mac_rx_clk
     */
    input logic [CHANNELS-1:0]              s_axis_rx_tvalid,
    input logic [CHANNELS-1:0][MAC_W-1:0]   s_axis_rx_tdata,
    input logic [CHANNELS-1:0][MAC_W/8-1:0] s_axis_rx_tkeep,
    input logic [CHANNELS-1:0]              s_axis_rx_tlast,
    input logic [CHANNELS-1:0]              s_axis_rx_tuser,

    /*
     * the same for the card, which accepts every word
     */
    output logic [CHANNELS-1:0]              rx_tvalid,
    output logic [CHANNELS-1:0][MAC_W-1:0]   rx_tdata,
    output logic [CHANNELS-1:0][MAC_W/8-1:0] rx_tkeep,
    output logic [CHANNELS-1:0]              rx_tlast,
    output logic [CHANNELS-1:0]              rx_tuser,

    /*
     * frames of the card
     */
    input  logic [CHANNELS-1:0]              tx_tvalid,
    output logic [CHANNELS-1:0]              tx_tready,
    input  logic [CHANNELS-1:0][MAC_W-1:0]   tx_tdata,
    input  logic [CHANNELS-1:0][MAC_W/8-1:0] tx_tkeep,
    input  logic [CHANNELS-1:0]              tx_tlast,

    /*
     * the same to the MACs, in their clocks mac_tx_clk
     */
    output logic [CHANNELS-1:0]              m_axis_tx_tvalid,
    input  logic [CHANNELS-1:0]              m_axis_tx_tready,
    output logic [CHANNELS-1:0][MAC_W-1:0]   m_axis_tx_tdata,
    output logic [CHANNELS-1:0][MAC_W/8-1:0] m_axis_tx_tkeep,
    output logic [CHANNELS-1:0]              m_axis_tx_tlast
);

  localparam int unsigned KeepW = MAC_W / 8;
  // Saturates only if frames arrive faster than the card accepts a word and pauses.
  localparam int unsigned MoreW = 8;

  if (CLOCKS) begin : gen_clocks
    for (genvar c = 0; c < int'(CHANNELS); c++) begin : gen_mac
      // -------------------------------------------------------------- receive

      if (RECEIVE) begin : gen_receive
        logic rx_valid, rx_ready, rx_last, rx_bad, rx_got;
        logic [KeepW-1:0] rx_keep;
        logic cut_q;               // an end word is pending, one per frame that lost a word
        logic [MoreW-1:0] more_q;  // further pending end words
        logic dropped_q;           // the rest of the incoming frame is dropped
        logic lost, cuts;

        // End words are marked bad and inserted as soon as there is room. The first ends a partly stored
        // frame; the others represent frames without stored words, so that these are counted too.
        assign rx_valid = cut_q || (s_axis_rx_tvalid[c] && !dropped_q);
        assign rx_keep  = cut_q ? KeepW'(1) : s_axis_rx_tkeep[c];
        assign rx_last  = cut_q || s_axis_rx_tlast[c];
        assign rx_bad   = cut_q || s_axis_rx_tuser[c];
        assign lost     = s_axis_rx_tvalid[c] && (cut_q || !rx_ready);
        assign cuts     = lost && !dropped_q;

        always_ff @(posedge mac_rx_clk[c]) begin
          cut_q <= cuts || (cut_q && (!rx_ready || more_q != 0));
          if (cut_q && cuts && !rx_ready) more_q <= more_q + MoreW'(more_q != '1);
          else if (cut_q && !cuts && rx_ready) more_q <= more_q - MoreW'(more_q != 0);
          if (s_axis_rx_tvalid[c] && s_axis_rx_tlast[c]) dropped_q <= 1'b0;
          else if (lost) dropped_q <= 1'b1;
          if (mac_rx_rst[c]) begin
            more_q    <= '0;
            cut_q     <= 1'b0;
            dropped_q <= 1'b0;
          end
        end

        // Pause after each bad frame: consecutive end words would exceed the count rate of the card.
        logic pause_q;
        assign rx_tvalid[c] = rx_got && !pause_q;

        always_ff @(posedge clk) begin
          pause_q <= rx_tvalid[c] && rx_tlast[c] && rx_tuser[c];
          if (rst) pause_q <= 1'b0;
        end

        async_fifo #(
            .WIDTH(MAC_W + KeepW + 2),
            .DEPTH(RX_DEPTH)
        ) rx (
            .wr_clk   (mac_rx_clk[c]),
            .wr_rst   (mac_rx_rst[c]),
            .in_valid (rx_valid),
            .in_ready (rx_ready),
            .in_data  ({rx_bad, rx_last, rx_keep, s_axis_rx_tdata[c]}),
            .rd_clk   (clk),
            .rd_rst   (rst),
            .out_valid(rx_got),
            .out_ready(!pause_q),
            .out_data ({rx_tuser[c], rx_tlast[c], rx_tkeep[c], rx_tdata[c]})
        );

      end else begin : gen_mac_clock
        assign rx_tvalid[c] = s_axis_rx_tvalid[c];
        assign rx_tdata[c]  = s_axis_rx_tdata[c];
        assign rx_tkeep[c]  = s_axis_rx_tkeep[c];
        assign rx_tlast[c]  = s_axis_rx_tlast[c];
        assign rx_tuser[c]  = s_axis_rx_tuser[c];
        logic unused;
        assign unused = &{1'b0, mac_rx_clk[c], mac_rx_rst[c], 1'(RX_DEPTH), 1'(MoreW)};
      end

      // -------------------------------------------------------------- transmit

      logic tx_valid, tx_ready, whole_ready, whole, go;
      logic ended_q;  // the last word left in the previous cycle; the frame's entry is sent now

      // The second FIFO has one entry per complete frame; the last word of a frame waits for room in it, too.
      assign tx_tready[c] = tx_ready && (whole_ready || !tx_tlast[c]);

      async_fifo #(
          .WIDTH(MAC_W + KeepW + 1),
          .DEPTH(TX_DEPTH)
      ) tx (
          .wr_clk   (clk),
          .wr_rst   (rst),
          .in_valid (tx_tvalid[c] && tx_tready[c]),
          .in_ready (tx_ready),
          .in_data  ({tx_tlast[c], tx_tkeep[c], tx_tdata[c]}),
          .rd_clk   (mac_tx_clk[c]),
          .rd_rst   (mac_tx_rst[c]),
          .out_valid(tx_valid),
          .out_ready(go && m_axis_tx_tready[c]),
          .out_data ({m_axis_tx_tlast[c], m_axis_tx_tkeep[c], m_axis_tx_tdata[c]})
      );

      logic unused_data;
      async_fifo #(
          .WIDTH(1),
          .DEPTH(8)
      ) frames (
          .wr_clk   (clk),
          .wr_rst   (rst),
          .in_valid (tx_tvalid[c] && tx_tlast[c] && tx_tready[c]),
          .in_ready (whole_ready),
          .in_data  (1'b0),
          .rd_clk   (mac_tx_clk[c]),
          .rd_rst   (mac_tx_rst[c]),
          .out_valid(whole),
          .out_ready(ended_q),
          .out_data (unused_data)
      );

      assign go                  = whole && !ended_q;
      assign m_axis_tx_tvalid[c] = go && tx_valid;

      // Registered, since block RAM data arrive late in the cycle. MACs pause longer between frames.
      always_ff @(posedge mac_tx_clk[c]) begin
        ended_q <= m_axis_tx_tvalid[c] && m_axis_tx_tready[c] && m_axis_tx_tlast[c];
        if (mac_tx_rst[c]) ended_q <= 1'b0;
      end
    end
  end else begin : gen_wires
    assign rx_tvalid        = s_axis_rx_tvalid;
    assign rx_tdata         = s_axis_rx_tdata;
    assign rx_tkeep         = s_axis_rx_tkeep;
    assign rx_tlast         = s_axis_rx_tlast;
    assign rx_tuser         = s_axis_rx_tuser;
    assign m_axis_tx_tvalid = tx_tvalid;
    assign tx_tready        = m_axis_tx_tready;
    assign m_axis_tx_tdata  = tx_tdata;
    assign m_axis_tx_tkeep  = tx_tkeep;
    assign m_axis_tx_tlast  = tx_tlast;

    logic unused;
    assign unused = &{1'b0, clk, rst, mac_rx_clk, mac_rx_rst, mac_tx_clk, mac_tx_rst, 1'(RX_DEPTH),
                      1'(TX_DEPTH), 1'(KeepW), 1'(MoreW)};
  end

endmodule
