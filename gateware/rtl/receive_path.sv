// SPDX-License-Identifier: SHL-2.1
// The receive path of one stream: MACs in front, DMA and events behind (doc/architecture.md).
module receive_path
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // MACs, 64 bits each.
    parameter int unsigned CHANNELS = 2,
    // Filters that choose datagrams; all of them feed this stream.
    parameter int unsigned FILTERS = 2,
    // Largest number of buffers N; a power of two, at least 2048.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Words of 128 bits that wait in a channel; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // Sets of four pages in the TLB; a power of two.
    parameter int unsigned TLB_SETS = 64,
    // Number of the stream, in events.
    parameter int unsigned STREAM = 0,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1,
    // Number of the first burst's frame 0.
    parameter logic [63:0] FIRST_N = 0
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while enabled
     */
    input logic                       enable,
    input host_t [CHANNELS-1:0]       host,
    input filter_t [FILTERS-1:0]      filter,
    input mgp_rules_t                 rules,
    input logic [4:0]                 log2_buffers,
    input logic [4:0]                 log2_devices,
    input logic [DEVICES-1:0][63:0]   base_vaddr,
    input logic [17:0]                buffer_units,
    input logic [16:0]                segment_bytes,
    input logic [31:0]                timeout_cycles,  // 0: none
    input logic [15:0]                grace_cycles,
    input logic [15:0]                window_frames,   // frames this far behind are closed; 0: none
    input logic                       packets_mode,    // gather mode: `packets`, else `frame`
    input logic [12:0]                packets,         // payloads of a buffer (packets)
    input logic [16:0]                slot_bytes,      // of a payload, a multiple of 16 (packets)
    input logic                       tlb_enable,
    input logic [4:0]                 log2_page,
    input logic                       tlb_flush,
    input logic [63:0]                now,

    /*
     * frames from the MACs
     */
    input logic [CHANNELS-1:0]       s_axis_rx_tvalid,
    input logic [CHANNELS-1:0][63:0] s_axis_rx_tdata,
    input logic [CHANNELS-1:0][7:0]  s_axis_rx_tkeep,
    input logic [CHANNELS-1:0]       s_axis_rx_tlast,
    input logic [CHANNELS-1:0]       s_axis_rx_tuser,

    /*
     * answers to ARP requests
     */
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
     * the sender
     */
    output logic        owed_valid,
    input  logic        owed_ready,
    output owed_t       owed,
    input  logic [63:0] sender_next,

    /*
     * the firmware: FIFO REQ (rare packets, pages) and FIFO RESP (commands, translations)
     */
    output logic        rare_valid,
    input  logic        rare_ready,
    output rare_t       rare,
    input  logic        command_valid,
    output logic        command_ready,
    input  command_t    command,
    output logic        miss_valid,
    input  logic        miss_ready,
    output logic [63:0] miss_vaddr,
    input  logic        fill_valid,
    output logic        fill_ready,
    input  logic [63:0] fill_vaddr,
    input  logic [63:0] fill_paddr,
    input  logic        fill_ok,

    /*
     * DMA write
     */
    output logic              wr_valid,
    input  logic              wr_ready,
    output dma_cmd_t          wr_cmd,
    output logic [DATA_W-1:0] wr_data,
    output logic              wr_last,
    input  logic              wr_done_valid,
    input  logic [7:0]        wr_done_tag,
    input  logic              wr_done_error,

    /*
     * events
     */
    output logic [DEVICES-1:0]       ev_valid,
    input  logic [DEVICES-1:0]       ev_ready,
    output event_t                   ev,
    output logic                     ev_promised,
    output logic [31:0]              ev_start,    // of the packet that closed the frame
    output logic [2:0]               ev_channel,
    output logic [DEVICES-1:0]       promise,
    input  logic [DEVICES-1:0][15:0] room,
    input  logic [DEVICES-1:0]       half_free,
    output logic                     ready,       // everything is forgotten: frames may come
    output logic                     idle,        // nothing of any packet is between the MACs and the host
    output logic [63:0]              last_packet, // card clock, newest packet of the current burst

    /*
     * counters: pulses, and sequence numbers that are missing by board
     */
    output logic           [CHANNELS-1:0] verdict_valid,
    output frame_verdict_e [CHANNELS-1:0] verdict,
    output logic           [CHANNELS-1:0] overflow,
    output logic           [CHANNELS-1:0] refused,
    output refusal_e       [CHANNELS-1:0] refusal,
    output logic                          counted,
    output placed_e                       counted_as,
    output logic           [15:0]         counted_hits,
    output logic           [7:0]          counted_events,
    output logic                          skipped_valid,  // frames that are owed by nobody: a jump's
    output logic           [24:0]         skipped,
    output logic           [CHANNELS-1:0] profile_valid,
    output profile_t       [CHANNELS-1:0] profile,
    output logic                          frame_owed,
    output logic                          frame_overrun,
    output logic                          frame_incomplete,
    output logic                          tlb_hit,
    output logic                          tlb_miss,
    output logic           [CHANNELS:0]   untranslated,
    output logic           [3:0][31:0]    missing
);

  localparam int unsigned Clients = CHANNELS + 1;  // channels, then clop_close

  logic [3:0] expected;
  assign expected = rules.boards == 0 ? 4'd1 : rules.boards;

  logic [CHANNELS-1:0] place_valid, place_ready, placed_valid;
  place_request_t [CHANNELS-1:0] place;
  logic placed_accept, placed_defer, clop_idle;
  logic [63:0] placed_vaddr;
  logic [CHANNELS-1:0][7:0] done_serial;
  logic [CHANNELS-1:0] writer_idle;
  logic close_idle;

  logic [Clients-1:0] tlb_req, tlb_ready, tlb_resp, no_page;
  logic [Clients-1:0][63:0] tlb_vaddr;
  logic tlb_ok;
  logic [63:0] tlb_paddr;
  logic [Clients-1:0] m_wr_valid, m_wr_ready, m_wr_last, m_wr_done_valid, unused_done_error;
  dma_cmd_t [Clients-1:0] m_wr_cmd;
  logic [Clients-1:0][DATA_W-1:0] m_wr_data;
  logic [Clients-1:0][7:0] unused_done_tag;

  assign untranslated = no_page;

  for (genvar c = 0; c < int'(CHANNELS); c++) begin : gen_channel
    logic udp_valid, udp_first, udp_last, mgp_valid, mgp_first, mgp_last, apenet_valid, arp_valid;
    logic [63:0] udp_data, mgp_data;
    logic [3:0] udp_bytes, mgp_bytes;
    datagram_t udp_info, mgp_info;
    frame_verdict_e udp_verdict, mgp_verdict;
    refusal_e mgp_refusal;
    logic [15:0] mgp_hits;
    logic [7:0] unused_events;
    apenet_kind_e apenet_kind;
    logic [127:0] apenet_data;
    logic [$clog2(BUFFER_WORDS):0] level;
    arp_request_t arp;
    logic clk_channel;

    // The way from a MAC to its writer takes less than 64 cycles.
    clock_gate #(
        .HOLD(64)
    ) channel_clock (
        .clk,
        .active(rst || s_axis_rx_tvalid[c] || m_axis_arp_tvalid[c] || !writer_idle[c]),
        .gated (clk_channel)
    );

    udp_receive #(
        .STREAMS(FILTERS)
    ) udp (
        .clk             (clk_channel),
        .rst,
        .host            (host[c]),
        .filter,
        .now             (now[31:0]),
        .s_axis_rx_tvalid(s_axis_rx_tvalid[c]),
        .s_axis_rx_tdata (s_axis_rx_tdata[c]),
        .s_axis_rx_tkeep (s_axis_rx_tkeep[c]),
        .s_axis_rx_tlast (s_axis_rx_tlast[c]),
        .s_axis_rx_tuser (s_axis_rx_tuser[c]),
        .out_valid       (udp_valid),
        .out_data        (udp_data),
        .out_bytes       (udp_bytes),
        .out_first       (udp_first),
        .out_last        (udp_last),
        .out_info        (udp_info),
        .out_verdict     (udp_verdict),
        .verdict_valid   (verdict_valid[c]),
        .verdict         (verdict[c]),
        .arp_valid,
        .arp
    );

    arp_reply arp_answer (
        .clk             (clk_channel),
        .rst,
        .host            (host[c]),
        .arp_valid,
        .arp,
        .m_axis_tx_tvalid(m_axis_arp_tvalid[c]),
        .m_axis_tx_tready(m_axis_arp_tready[c]),
        .m_axis_tx_tdata (m_axis_arp_tdata[c]),
        .m_axis_tx_tkeep (m_axis_arp_tkeep[c]),
        .m_axis_tx_tlast (m_axis_arp_tlast[c])
    );

    mgp_check mgp (
        .clk        (clk_channel),
        .rst,
        .rules,
        .in_valid   (udp_valid),
        .in_data    (udp_data),
        .in_bytes   (udp_bytes),
        .in_first   (udp_first),
        .in_last    (udp_last),
        .in_info    (udp_info),
        .in_verdict (udp_verdict),
        .out_valid  (mgp_valid),
        .out_data   (mgp_data),
        .out_bytes  (mgp_bytes),
        .out_first  (mgp_first),
        .out_last   (mgp_last),
        .out_info   (mgp_info),
        .out_verdict(mgp_verdict),
        .out_refusal(mgp_refusal),
        .out_hits   (mgp_hits),
        .out_events (unused_events)
    );

    nanet_controller #(
        .BUFFER_WORDS(BUFFER_WORDS)
    ) controller (
        .clk         (clk_channel),
        .rst,
        .now         (now[31:0]),
        .in_valid    (mgp_valid),
        .in_data     (mgp_data),
        .in_bytes    (mgp_bytes),
        .in_first    (mgp_first),
        .in_last     (mgp_last),
        .in_info     (mgp_info),
        .in_verdict  (mgp_verdict),
        .in_refusal  (mgp_refusal),
        .in_hits     (mgp_hits),
        .buffer_level(level),
        .out_valid   (apenet_valid),
        .out_kind    (apenet_kind),
        .out_data    (apenet_data),
        .overflow    (overflow[c])
    );

    rx_writer #(
        .BUFFER_WORDS(BUFFER_WORDS),
        .DATA_W      (DATA_W)
    ) writer (
        .clk           (clk_channel),
        .rst,
        .now           (now[31:0]),
        .in_valid      (apenet_valid),
        .in_kind       (apenet_kind),
        .in_data       (apenet_data),
        .level,
        .place_valid   (place_valid[c]),
        .place_ready   (place_ready[c]),
        .place         (place[c]),
        .placed_valid  (placed_valid[c]),
        .placed_accept,
        .placed_defer,
        .placed_vaddr,
        .refused       (refused[c]),
        .refusal       (refusal[c]),
        .done_serial   (done_serial[c]),
        .idle          (writer_idle[c]),
        .tlb_valid     (tlb_req[c]),
        .tlb_ready     (tlb_ready[c]),
        .tlb_vaddr     (tlb_vaddr[c]),
        .tlb_resp_valid(tlb_resp[c]),
        .tlb_resp_ok   (tlb_ok),
        .tlb_resp_paddr(tlb_paddr),
        .wr_valid      (m_wr_valid[c]),
        .wr_ready      (m_wr_ready[c]),
        .wr_cmd        (m_wr_cmd[c]),
        .wr_data       (m_wr_data[c]),
        .wr_last       (m_wr_last[c]),
        .wr_done_valid (m_wr_done_valid[c]),
        .untranslated  (no_page[c]),
        .profile_valid (profile_valid[c]),
        .profile       (profile[c])
    );

    logic unused;
    assign unused = &{1'b0, unused_events};
  end

  // The way from a MAC to its writer takes less than 64 cycles.
  logic [5:0] quiet_q;
  always_ff @(posedge clk) begin
    quiet_q <= s_axis_rx_tvalid != 0 ? '0 : quiet_q + 6'(quiet_q != '1);
    idle    <= quiet_q == '1 && writer_idle == '1 && close_idle && clop_idle;
    if (rst) begin
      quiet_q <= '0;
      idle    <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ which of the two decides

  logic f_ready, p_ready, f_placed_accept, p_placed_accept, f_placed_defer, p_placed_defer, f_idle, p_idle;
  logic f_owed_valid, p_owed_valid, f_rare_valid, p_rare_valid, f_command_ready, p_command_ready;
  logic f_counted, p_counted, f_frame_owed, p_frame_owed, f_close_idle, p_close_idle;
  logic f_tlb_valid, p_tlb_valid, f_wr_valid, p_wr_valid, f_wr_last, p_wr_last;
  logic f_ev_promised, p_ev_promised, f_untranslated, p_untranslated, f_incomplete, p_incomplete;
  logic [CHANNELS-1:0] f_place_ready, p_place_ready, f_placed_valid, p_placed_valid;
  logic [63:0] f_placed_vaddr, p_placed_vaddr, f_last_packet, p_last_packet, f_tlb_vaddr, p_tlb_vaddr;
  logic [DEVICES-1:0] f_promise, p_promise, f_ev_valid, p_ev_valid;
  logic [15:0] f_counted_hits, p_counted_hits;
  logic [7:0] f_counted_events, p_counted_events;
  logic [3:0][31:0] f_missing, p_missing;
  logic [DATA_W-1:0] f_wr_data, p_wr_data;
  logic [31:0] f_ev_start, p_ev_start;
  logic [2:0] f_ev_channel, p_ev_channel;
  owed_t f_owed, p_owed;
  rare_t f_rare, p_rare;
  placed_e f_counted_as, p_counted_as;
  dma_cmd_t f_wr_cmd, p_wr_cmd;
  event_t f_ev, p_ev;

  assign ready = packets_mode ? p_ready : f_ready;
  assign place_ready = packets_mode ? p_place_ready : f_place_ready;
  assign placed_valid = packets_mode ? p_placed_valid : f_placed_valid;
  assign placed_accept = packets_mode ? p_placed_accept : f_placed_accept;
  assign placed_defer = packets_mode ? p_placed_defer : f_placed_defer;
  assign placed_vaddr = packets_mode ? p_placed_vaddr : f_placed_vaddr;
  assign owed_valid = packets_mode ? p_owed_valid : f_owed_valid;
  assign owed = packets_mode ? p_owed : f_owed;
  assign rare_valid = packets_mode ? p_rare_valid : f_rare_valid;
  assign rare = packets_mode ? p_rare : f_rare;
  assign command_ready = packets_mode ? p_command_ready : f_command_ready;
  assign promise = packets_mode ? p_promise : f_promise;
  assign counted = packets_mode ? p_counted : f_counted;
  assign counted_as = packets_mode ? p_counted_as : f_counted_as;
  assign counted_hits = packets_mode ? p_counted_hits : f_counted_hits;
  assign counted_events = packets_mode ? p_counted_events : f_counted_events;
  assign last_packet = packets_mode ? p_last_packet : f_last_packet;
  assign missing = packets_mode ? p_missing : f_missing;
  assign frame_owed = packets_mode ? p_frame_owed : f_frame_owed;
  assign clop_idle = packets_mode ? p_idle : f_idle;
  assign close_idle = packets_mode ? p_close_idle : f_close_idle;
  assign tlb_req[CHANNELS] = packets_mode ? p_tlb_valid : f_tlb_valid;
  assign tlb_vaddr[CHANNELS] = packets_mode ? p_tlb_vaddr : f_tlb_vaddr;
  assign m_wr_valid[CHANNELS] = packets_mode ? p_wr_valid : f_wr_valid;
  assign m_wr_cmd[CHANNELS] = packets_mode ? p_wr_cmd : f_wr_cmd;
  assign m_wr_data[CHANNELS] = packets_mode ? p_wr_data : f_wr_data;
  assign m_wr_last[CHANNELS] = packets_mode ? p_wr_last : f_wr_last;
  assign ev_valid = packets_mode ? p_ev_valid : f_ev_valid;
  assign ev = packets_mode ? p_ev : f_ev;
  assign ev_promised = packets_mode ? p_ev_promised : f_ev_promised;
  assign ev_start = packets_mode ? p_ev_start : f_ev_start;
  assign ev_channel = packets_mode ? p_ev_channel : f_ev_channel;
  assign no_page[CHANNELS] = packets_mode ? p_untranslated : f_untranslated;
  assign frame_incomplete = packets_mode ? p_incomplete : f_incomplete;

  // ------------------------------------------------------------------ gather mode `frame`

  logic news_valid, news_ready;
  clop_news_t news;
  logic [CHANNELS-1:0][7:0] news_ticket;
  logic [$clog2(MAX_BUFFERS)+1:0] board_read_index;
  clop_board_t board_read;

  // Stands still between the packets. A replay is not live, and counts the cycles in which nothing happens.
  logic clk_placement, f_due;
  clock_gate #(
      .HOLD(16)
  ) placement_clock (
      .clk,
      .active(rst || !enable || window_frames != 0 || place_valid != 0 || command_valid || return_valid ||
              f_due || news_valid || !f_idle || !f_close_idle),
      .gated (clk_placement)
  );

  clop #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES),
      .FIRST_N    (FIRST_N)
  ) placement (
      .clk           (clk_placement),
      .clk_timers    (clk),
      .rst,
      .enable        (enable && !packets_mode),
      .log2_buffers,
      .log2_devices,
      .base_vaddr,
      .buffer_units,
      .segment_bytes,
      .expected,
      .timeout_cycles,
      .grace_cycles,
      .window_frames,
      .now,
      .ready         (f_ready),
      .place_valid   (packets_mode ? '0 : place_valid),
      .place_ready   (f_place_ready),
      .place,
      .placed_valid  (f_placed_valid),
      .placed_accept (f_placed_accept),
      .placed_defer  (f_placed_defer),
      .placed_vaddr  (f_placed_vaddr),
      .return_valid,
      .return_index,
      .return_value,
      .owed_valid    (f_owed_valid),
      .owed_ready,
      .owed          (f_owed),
      .sender_next,
      .rare_valid    (f_rare_valid),
      .rare_ready,
      .rare          (f_rare),
      .command_valid (command_valid && !packets_mode),
      .command_ready (f_command_ready),
      .command,
      .news_valid,
      .news_ready,
      .news,
      .news_ticket,
      .board_read_index,
      .board_read,
      .promise       (f_promise),
      .room,
      .half_free,
      .counted       (f_counted),
      .counted_as    (f_counted_as),
      .counted_hits  (f_counted_hits),
      .counted_events(f_counted_events),
      .skipped_valid,
      .skipped,
      .last_packet   (f_last_packet),
      .frame_owed    (f_frame_owed),
      .frame_overrun,
      .missing       (f_missing),
      .due           (f_due),
      .idle          (f_idle)
  );

  clop_close #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DATA_W     (DATA_W),
      .STREAM     (STREAM),
      .DEVICES    (DEVICES)
  ) close (
      .clk           (clk_placement),
      .rst           (rst || !enable || packets_mode),
      .log2_devices,
      .base_vaddr,
      .buffer_units,
      .expected,
      .now,
      .news_valid,
      .news_ready,
      .news,
      .news_ticket,
      .board_read_index,
      .board_read,
      .done_serial,
      .tlb_valid     (f_tlb_valid),
      .tlb_ready     (tlb_ready[CHANNELS]),
      .tlb_vaddr     (f_tlb_vaddr),
      .tlb_resp_valid(tlb_resp[CHANNELS]),
      .tlb_resp_ok   (tlb_ok),
      .tlb_resp_paddr(tlb_paddr),
      .wr_valid      (f_wr_valid),
      .wr_ready      (m_wr_ready[CHANNELS]),
      .wr_cmd        (f_wr_cmd),
      .wr_data       (f_wr_data),
      .wr_last       (f_wr_last),
      .wr_done_valid (m_wr_done_valid[CHANNELS]),
      .ev_valid      (f_ev_valid),
      .ev_ready,
      .ev            (f_ev),
      .ev_promised   (f_ev_promised),
      .ev_start      (f_ev_start),
      .ev_channel    (f_ev_channel),
      .idle          (f_close_idle),
      .untranslated  (f_untranslated),
      .incomplete    (f_incomplete)
  );

  // ------------------------------------------------------------------ gather mode `packets`

  logic p_news_valid, p_news_ready, p_news_told, clk_packets;

  clock_gate #(
      .HOLD(4)
  ) packets_clock (
      .clk,
      .active(rst || packets_mode),
      .gated (clk_packets)
  );

  packets_news_t p_news;
  logic [CHANNELS-1:0][PacketsTicket-1:0] p_news_ticket, p_done;

  clop_packets #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES),
      .FIRST_N    (FIRST_N)
  ) packets_placement (
      .clk           (clk_packets),
      .rst,
      .enable        (enable && packets_mode),
      .log2_buffers,
      .log2_devices,
      .base_vaddr,
      .buffer_units,
      .packets,
      .slot_bytes,
      .waits         (window_frames != 0),
      .now,
      .ready         (p_ready),
      .place_valid   (packets_mode ? place_valid : '0),
      .place_ready   (p_place_ready),
      .place,
      .placed_valid  (p_placed_valid),
      .placed_accept (p_placed_accept),
      .placed_defer  (p_placed_defer),
      .placed_vaddr  (p_placed_vaddr),
      .done_serial,
      .return_valid,
      .return_index,
      .return_value,
      .owed_valid    (p_owed_valid),
      .owed_ready,
      .owed          (p_owed),
      .sender_next   (sender_next[31:0]),
      .rare_valid    (p_rare_valid),
      .rare_ready,
      .rare          (p_rare),
      .command_valid (command_valid && packets_mode),
      .command_ready (p_command_ready),
      .command,
      .last_packet   (p_last_packet),
      .news_valid    (p_news_valid),
      .news_ready    (p_news_ready),
      .news          (p_news),
      .news_ticket   (p_news_ticket),
      .done          (p_done),
      .news_told     (p_news_told),
      .promise       (p_promise),
      .room,
      .half_free,
      .counted       (p_counted),
      .counted_as    (p_counted_as),
      .counted_hits  (p_counted_hits),
      .counted_events(p_counted_events),
      .buffer_owed   (p_frame_owed),
      .missing       (p_missing),
      .idle          (p_idle)
  );

  clop_packets_close #(
      .CHANNELS(CHANNELS),
      .DEVICES (DEVICES),
      .DATA_W  (DATA_W),
      .STREAM  (STREAM)
  ) packets_close (
      .clk           (clk_packets),
      .rst           (rst || !enable || !packets_mode),
      .slot_bytes,
      .now,
      .news_valid    (p_news_valid),
      .news_ready    (p_news_ready),
      .news          (p_news),
      .news_ticket   (p_news_ticket),
      .done          (p_done),
      .news_told     (p_news_told),
      .tlb_valid     (p_tlb_valid),
      .tlb_ready     (tlb_ready[CHANNELS]),
      .tlb_vaddr     (p_tlb_vaddr),
      .tlb_resp_valid(tlb_resp[CHANNELS]),
      .tlb_resp_ok   (tlb_ok),
      .tlb_resp_paddr(tlb_paddr),
      .wr_valid      (p_wr_valid),
      .wr_ready      (m_wr_ready[CHANNELS]),
      .wr_cmd        (p_wr_cmd),
      .wr_data       (p_wr_data),
      .wr_last       (p_wr_last),
      .wr_done_valid (m_wr_done_valid[CHANNELS]),
      .ev_valid      (p_ev_valid),
      .ev_ready,
      .ev            (p_ev),
      .ev_promised   (p_ev_promised),
      .ev_start      (p_ev_start),
      .ev_channel    (p_ev_channel),
      .idle          (p_close_idle),
      .untranslated  (p_untranslated),
      .incomplete    (p_incomplete)
  );

  // A flush takes as many cycles as there are sets.
  logic clk_tlb;
  clock_gate #(
      .HOLD(TLB_SETS + 16)
  ) tlb_clock (
      .clk,
      .active(rst || tlb_req != 0 || fill_valid || miss_valid || tlb_flush),
      .gated (clk_tlb)
  );

  tlb #(
      .CLIENTS(Clients),
      .SETS   (TLB_SETS)
  ) translation (
      .clk       (clk_tlb),
      .rst,
      .enable    (tlb_enable),
      .log2_page,
      .flush     (tlb_flush),
      .req_valid (tlb_req),
      .req_ready (tlb_ready),
      .req_vaddr (tlb_vaddr),
      .resp_valid(tlb_resp),
      .resp_ok   (tlb_ok),
      .resp_paddr(tlb_paddr),
      .miss_valid,
      .miss_ready,
      .miss_vaddr,
      .fill_valid,
      .fill_ready,
      .fill_vaddr,
      .fill_paddr,
      .fill_ok,
      .hit       (tlb_hit),
      .miss      (tlb_miss)
  );

  logic [Clients-1:0] unused_rd_ready, unused_rd_valid, unused_rd_last, unused_rd_error;
  logic [Clients-1:0][DATA_W-1:0] unused_rd_data;
  logic [Clients-1:0][7:0] unused_rd_tag;
  logic unused_m_rd_valid, unused_m_rd_ready;
  dma_cmd_t unused_m_rd_cmd;

  dma_arbiter #(
      .PORTS (Clients),
      .DATA_W(DATA_W)
  ) merge (
      .clk,
      .rst,
      .m_wr_valid,
      .m_wr_ready,
      .m_wr_cmd,
      .m_wr_data,
      .m_wr_last,
      .m_wr_done_valid,
      .m_wr_done_tag  (unused_done_tag),
      .m_wr_done_error(unused_done_error),
      .m_rd_valid     ('0),
      .m_rd_ready     (unused_rd_ready),
      .m_rd_cmd       ('0),
      .m_rd_data_valid(unused_rd_valid),
      .m_rd_data_ready('0),
      .m_rd_data      (unused_rd_data),
      .m_rd_data_tag  (unused_rd_tag),
      .m_rd_data_last (unused_rd_last),
      .m_rd_data_error(unused_rd_error),
      .wr_valid,
      .wr_ready,
      .wr_cmd,
      .wr_data,
      .wr_last,
      .wr_done_valid,
      .wr_done_tag,
      .wr_done_error,
      .rd_valid       (unused_m_rd_valid),
      .rd_ready       (1'b0),
      .rd_cmd         (unused_m_rd_cmd),
      .rd_data_valid  (1'b0),
      .rd_data_ready  (unused_m_rd_ready),
      .rd_data        ('0),
      .rd_data_tag    ('0),
      .rd_data_last   (1'b0),
      .rd_data_error  (1'b0)
  );

  logic unused;
  assign unused = &{1'b0, unused_done_tag, unused_done_error,
                    unused_rd_ready, unused_rd_valid,
                    unused_rd_last, unused_rd_error, unused_rd_data, unused_rd_tag, unused_m_rd_valid,
                    unused_m_rd_ready, unused_m_rd_cmd};

endmodule
