// SPDX-License-Identifier: SHL-2.1
// Receive path of one stream, from MACs to DMA and events (doc/architecture.md).
module receive_path
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_ttc_pkg::*;
#(
    // MACs, 64 bits each.
    parameter int unsigned CHANNELS = 2,
    // Filters of the stream.
    parameter int unsigned FILTERS = 2,
    // Maximum number of buffers N; a power of two, at least 2048.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Channel buffer in words of 128 bits; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // Sets of four pages in the TLB; a power of two.
    parameter int unsigned TLB_SETS = 64,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1,
    // 1: with merging of the boards; at least two channels.
    parameter bit MERGE = 1'b0,
    // Number n of frame 0 of the first burst.
    parameter logic [63:0] FIRST_N = 0,
    // Channels that take datagrams from the torus instead of frames from their MAC.
    parameter logic [CHANNELS-1:0] TORUS = '0,
    // 1: the MACs have separate clocks, and their frames are received there.
    parameter bit MAC_CLOCKS = 1'b0
) (
    input logic clk,
    input logic rst,

    /*
     * clocks and resets of the MACs, used with MAC_CLOCKS
     */
    input logic [CHANNELS-1:0] mac_clk,
    input logic [CHANNELS-1:0] mac_rst,

    /*
     * configuration, steady while enabled
     */
    input logic                     enable,
    input host_t [CHANNELS-1:0]     host,
    input filter_t [FILTERS-1:0]    filter,
    input mgp_rules_t               rules,
    input receive_cfg_t             cfg,
    input logic [DEVICES-1:0][63:0] base_vaddr,
    input logic                     tlb_enable,
    input logic [4:0]               log2_page,
    input logic                     tlb_flush,
    input logic [63:0]              now,
    input ttc_stamp_t               ttc_stamp,  // of merged buffers
    input logic                     take,       // with MAC_CLOCKS: frames are accepted

    /*
     * frames from the MACs
     */
    input logic [CHANNELS-1:0]       s_axis_rx_tvalid,
    input logic [CHANNELS-1:0][63:0] s_axis_rx_tdata,
    input logic [CHANNELS-1:0][7:0]  s_axis_rx_tkeep,
    input logic [CHANNELS-1:0]       s_axis_rx_tlast,
    input logic [CHANNELS-1:0]       s_axis_rx_tuser,

    /*
     * packets from the torus, whose sender monitors the level
     */
    input  apenet_req_t [CHANNELS-1:0]                           torus_req,
    output logic        [CHANNELS-1:0][$clog2(BUFFER_WORDS):0] torus_level,

    /*
     * ARP replies, per channel if enabled
     */
    input  logic [CHANNELS-1:0]       arp_answers,
    output logic [CHANNELS-1:0]       m_axis_arp_tvalid,
    input  logic [CHANNELS-1:0]       m_axis_arp_tready,
    output logic [CHANNELS-1:0][63:0] m_axis_arp_tdata,
    output logic [CHANNELS-1:0][7:0]  m_axis_arp_tkeep,
    output logic [CHANNELS-1:0]       m_axis_arp_tlast,

    /*
     * return slots: index = {buffer, device}, the low bits of n
     */
    input logic                           return_valid,
    input logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input logic [31:0]                    return_value,

    /*
     * sender
     */
    output tx_pending_req_t tx_pending_req,
    input  logic            tx_pending_ready,
    input  logic [63:0]     sender_next,

    /*
     * firmware: FIFO REQ (slow-path packets, pages) and FIFO RESP (commands, translations)
     */
    output slowpath_req_t slowpath_req,
    input  logic          slowpath_ready,
    input  command_req_t  command_req,
    output logic          command_ready,
    output miss_req_t     miss_req,
    input  logic          miss_ready,
    input  fill_req_t     fill_req,
    output logic          fill_ready,

    /*
     * DMA write
     */
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,

    /*
     * events
     */
    output logic [DEVICES-1:0]       ev_valid,
    input  logic [DEVICES-1:0]       ev_ready,
    output event_req_t               ev_req,
    output logic [DEVICES-1:0]       promise,
    input  logic [DEVICES-1:0][15:0] room,
    input  logic [DEVICES-1:0]       half_free,
    output logic                     ready,        // all memories cleared: frames are accepted
    output logic                     idle,         // no packet data between the MACs and the host
    output logic [63:0]              last_packet,  // card clock, newest packet of the current burst

    /*
     * counters: pulses, and missing sequence numbers per board
     */
    output logic [CHANNELS-1:0]           verdict_valid,
    output frame_verdict_e [CHANNELS-1:0] verdict,
    output logic [CHANNELS-1:0]           overflow,
    output logic [CHANNELS-1:0]           refused,
    output refusal_e [CHANNELS-1:0]       refusal,
    output frame_cnt_t                    cnt,
    output logic [CHANNELS-1:0]           profile_valid,
    output profile_t [CHANNELS-1:0]       profile,
    output logic                          tlb_hit,
    output logic                          tlb_miss,
    output logic [CHANNELS:0]             untranslated,

    /*
     * with MAC_CLOCKS, pulse per frame: card clock at its first and last word
     */
    output logic [CHANNELS-1:0]       frame_valid,
    output logic [CHANNELS-1:0][31:0] frame_start,
    output logic [CHANNELS-1:0][31:0] frame_end
);

  localparam int unsigned Clients = CHANNELS + 1;  // channels, then clop_close

  logic [3:0] expected;
  assign expected = rules.boards == 0 ? 4'd1 : rules.boards;

  logic [CHANNELS-1:0] place_valid, place_ready, placed_valid;
  place_request_t [CHANNELS-1:0] place;
  placed_rsp_t placed_rsp;
  logic placement_idle;
  serial_t [CHANNELS-1:0] done_serial;
  logic [CHANNELS-1:0] writer_idle, arriving;

  logic [Clients-1:0] tlb_req, tlb_ready, tlb_resp, no_page;
  logic [Clients-1:0][63:0] tlb_vaddr;
  logic tlb_ok;
  logic [63:0] tlb_paddr;
  dma_wr_req_t [Clients-1:0] m_wr_req;
  dma_wr_rsp_t [Clients-1:0] m_wr_rsp;
  logic [Clients-1:0][DATA_W-1:0] m_wr_data;

  // Channels: writes and translations, which merging takes over.
  tlb_req_t [CHANNELS-1:0] channel_tlb_req;
  tlb_rsp_t [CHANNELS-1:0] channel_tlb_rsp;
  dma_wr_req_t [CHANNELS-1:0] channel_wr_req;
  dma_wr_rsp_t [CHANNELS-1:0] channel_wr_rsp;
  logic [CHANNELS-1:0][DATA_W-1:0] channel_wr_data;
  logic [CHANNELS-1:0] channel_no_page;

  for (genvar c = 0; c < int'(CHANNELS); c++) begin : gen_channel
    receive_channel #(
        .FILTERS     (FILTERS),
        .BUFFER_WORDS(BUFFER_WORDS),
        .DATA_W      (DATA_W),
        .TORUS       (TORUS[c]),
        .MAC_CLOCK   (MAC_CLOCKS)
    ) channel (
        .mac_clk          (mac_clk[c]),
        .mac_rst          (mac_rst[c]),
        .host             (host[c]),
        .now              (now[31:0]),
        .s_axis_rx_req    ('{
            tvalid: s_axis_rx_tvalid[c],
            tdata: s_axis_rx_tdata[c],
            tkeep: s_axis_rx_tkeep[c],
            tlast: s_axis_rx_tlast[c],
            tuser: s_axis_rx_tuser[c]
        }),
        .arp_answers      (arp_answers[c]),
        .torus_req        (torus_req[c]),
        .torus_level      (torus_level[c]),
        .m_axis_arp_tvalid(m_axis_arp_tvalid[c]),
        .m_axis_arp_tready(m_axis_arp_tready[c]),
        .m_axis_arp_tdata (m_axis_arp_tdata[c]),
        .m_axis_arp_tkeep (m_axis_arp_tkeep[c]),
        .m_axis_arp_tlast (m_axis_arp_tlast[c]),
        .place_valid      (place_valid[c]),
        .place_ready      (place_ready[c]),
        .place            (place[c]),
        .placed_valid     (placed_valid[c]),
        .done_serial      (done_serial[c]),
        .idle             (writer_idle[c]),
        .arriving         (arriving[c]),
        .tlb_req      (channel_tlb_req[c]),
        .tlb_rsp      (channel_tlb_rsp[c]),
        .wr_req       (channel_wr_req[c]),
        .wr_rsp       (channel_wr_rsp[c]),
        .wr_data      (channel_wr_data[c]),
        .verdict_valid(verdict_valid[c]),
        .verdict      (verdict[c]),
        .overflow     (overflow[c]),
        .refused      (refused[c]),
        .refusal      (refusal[c]),
        .untranslated (channel_no_page[c]),
        .profile_valid(profile_valid[c]),
        .profile      (profile[c]),
        .frame_valid  (frame_valid[c]),
        .frame_start  (frame_start[c]),
        .frame_end    (frame_end[c]),
        .*
    );
  end

  // Latency from a MAC to its writer is below 64 cycles.
  logic [5:0] quiet_q;
  always_ff @(posedge clk) begin
    quiet_q <= arriving != 0 ? '0 : quiet_q + 6'(quiet_q != '1);
    idle    <= quiet_q == '1 && writer_idle == '1 && placement_idle;
    if (rst) begin
      quiet_q <= '0;
      idle    <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ merging

  dma_wr_req_t store_wr_req;
  dma_wr_rsp_t store_wr_rsp;
  logic [DATA_W-1:0] store_wr_data;
  tlb_req_t [1:0] merge_tlb_req;
  tlb_rsp_t [1:0] merge_tlb_rsp;
  dma_wr_req_t [1:0] merge_wr_req;
  dma_wr_rsp_t [1:0] merge_wr_rsp;
  logic [1:0][DATA_W-1:0] merge_wr_data;
  logic [1:0] merge_untranslated;

  logic merging;
  assign merging = MERGE && cfg.merge && !cfg.packets_mode;

  // Memory and translation ports: those of channels 0 and 1 belong to frame_merge while it is on.
  for (genvar c = 0; c < int'(CHANNELS); c++) begin : gen_port
    localparam bit Shared = MERGE && c < 2;
    logic place_q;  // a place in the store needs no translation
    logic [63:0] vaddr_q;
    dma_wr_req_t request;
    always_comb begin
      request       = channel_wr_req[c];
      request.valid = !merging && channel_wr_req[c].valid;
    end
    assign m_wr_req[c]  = Shared && merging ? merge_wr_req[c%2] : request;
    assign m_wr_data[c] = Shared && merging ? merge_wr_data[c%2] : channel_wr_data[c];
    assign tlb_req[c]   = Shared && merging ? merge_tlb_req[c%2].valid : !merging && channel_tlb_req[c].valid;
    assign tlb_vaddr[c] = Shared && merging ? merge_tlb_req[c%2].vaddr : channel_tlb_req[c].vaddr;
    assign no_page[c]   = Shared && merging ? merge_untranslated[c%2] : channel_no_page[c];
    assign channel_tlb_rsp[c] = merging ? '{ready: 1'b1, resp_valid: place_q, resp_ok: 1'b1,
                                            resp_paddr: vaddr_q} :
                                          '{ready: tlb_ready[c], resp_valid: tlb_resp[c], resp_ok: tlb_ok,
                                            resp_paddr: tlb_paddr};
    always_ff @(posedge clk) begin
      place_q <= merging && channel_tlb_req[c].valid;
      vaddr_q <= channel_tlb_req[c].vaddr;
    end
  end

  if (MERGE) begin : gen_merge
    if (CHANNELS < 2) begin : gen_check_channels
      $fatal(1, "merging uses the translation and write ports of two channels (%m)");
    end
    dma_wr_req_t [CHANNELS-1:0] s_wr_req;
    dma_wr_rsp_t [CHANNELS-1:0] s_wr_rsp;
    dma_rd_req_t unused_store_rd_req;
    logic unused_store_rd_ready, clk_store;
    dma_rd_rsp_t [CHANNELS-1:0] unused_store_rd_rsp;
    logic [CHANNELS-1:0][DATA_W-1:0] unused_store_rd_data;

    always_comb begin
      for (int c = 0; c < int'(CHANNELS); c++) begin
        s_wr_req[c]       = channel_wr_req[c];
        s_wr_req[c].valid = merging && channel_wr_req[c].valid;
        channel_wr_rsp[c] = merging ? s_wr_rsp[c] : m_wr_rsp[c];
      end
      for (int m = 0; m < 2; m++) begin
        merge_wr_rsp[m]  = m_wr_rsp[m];
        merge_tlb_rsp[m] = '{ready: tlb_ready[m], resp_valid: tlb_resp[m], resp_ok: tlb_ok,
                             resp_paddr: tlb_paddr};
      end
    end

    clock_gate #(
        .HOLD(4)
    ) store_clock (
        .clk,
        .active(rst || merging),
        .gated (clk_store)
    );
    dma_arbiter #(
        .PORTS (CHANNELS),
        .DATA_W(DATA_W)
    ) channels (
        .clk            (clk_store),
        .rst,
        .m_wr_req       (s_wr_req),
        .m_wr_rsp       (s_wr_rsp),
        .m_wr_data      (channel_wr_data),
        .wr_req         (store_wr_req),
        .wr_rsp         (store_wr_rsp),
        .wr_data        (store_wr_data),
        .m_rd_req       ('0),
        .m_rd_data_ready('0),
        .m_rd_rsp       (unused_store_rd_rsp),
        .m_rd_data      (unused_store_rd_data),
        .rd_req         (unused_store_rd_req),
        .rd_data_ready  (unused_store_rd_ready),
        .rd_rsp         ('0),
        .rd_data        ('0)
    );
    logic unused_store;
    assign unused_store = &{1'b0, unused_store_rd_req, unused_store_rd_ready, unused_store_rd_rsp,
                            unused_store_rd_data};
  end else begin : gen_no_merge
    assign channel_wr_rsp = m_wr_rsp[CHANNELS-1:0];
    assign store_wr_req   = '0;
    assign store_wr_data  = '0;
    assign merge_tlb_rsp  = '0;
    assign merge_wr_rsp   = '0;
    logic unused_merge;
    assign unused_merge = &{1'b0, store_wr_rsp, merge_tlb_req, merge_wr_req, merge_wr_data,
                            merge_untranslated};
  end
  assign untranslated = no_page;

  // ------------------------------------------------------------------ placement

  tlb_req_t placement_tlb_req;
  assign tlb_req[CHANNELS] = placement_tlb_req.valid;
  assign tlb_vaddr[CHANNELS] = placement_tlb_req.vaddr;
  receive_placement #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DATA_W     (DATA_W),
      .DEVICES    (DEVICES),
      .MERGE      (MERGE),
      .FIRST_N    (FIRST_N)
  ) placement (
      .tlb_req(placement_tlb_req),
      .tlb_rsp     ('{
          ready: tlb_ready[CHANNELS],
          resp_valid: tlb_resp[CHANNELS],
          resp_ok: tlb_ok,
          resp_paddr: tlb_paddr
      }),
      .wr_req      (m_wr_req[CHANNELS]),
      .wr_rsp      (m_wr_rsp[CHANNELS]),
      .wr_data     (m_wr_data[CHANNELS]),
      .idle        (placement_idle),
      .untranslated(no_page[CHANNELS]),
      .*
  );

  // ------------------------------------------------------------------ translation, memory

  // A flush takes one cycle per set.
  logic clk_tlb;
  clock_gate #(
      .HOLD(TLB_SETS + 16)
  ) tlb_clock (
      .clk,
      .active(rst || tlb_req != 0 || fill_req.valid || miss_req.valid || tlb_flush),
      .gated (clk_tlb)
  );

  tlb #(
      .CLIENTS(Clients),
      .SETS   (TLB_SETS)
  ) translation (
      .clk       (clk_tlb),
      .enable    (tlb_enable),
      .flush     (tlb_flush),
      .req_valid (tlb_req),
      .req_ready (tlb_ready),
      .req_vaddr (tlb_vaddr),
      .resp_valid(tlb_resp),
      .resp_ok   (tlb_ok),
      .resp_paddr(tlb_paddr),
      .hit       (tlb_hit),
      .miss      (tlb_miss),
      .*
  );

  dma_rd_req_t unused_rd_req;
  logic unused_rd_data_ready;
  dma_rd_rsp_t [Clients-1:0] unused_m_rd_rsp;
  logic [Clients-1:0][DATA_W-1:0] unused_rd_data;

  dma_arbiter #(
      .PORTS (Clients),
      .DATA_W(DATA_W)
  ) merge (
      .m_rd_req       ('0),
      .m_rd_data_ready('0),
      .m_rd_rsp       (unused_m_rd_rsp),
      .m_rd_data      (unused_rd_data),
      .rd_req         (unused_rd_req),
      .rd_data_ready  (unused_rd_data_ready),
      .rd_rsp         ('0),
      .rd_data        ('0),
      .*
  );

  logic unused;
  assign unused = &{1'b0, unused_rd_req, unused_rd_data_ready, unused_m_rd_rsp, unused_rd_data};

endmodule
