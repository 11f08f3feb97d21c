// SPDX-License-Identifier: SHL-2.1
// Placement of a stream's packets: clop and clop_close in gather mode `frame`, clop_packets and
// clop_packets_close in gather mode `packets`. The unused pair is idle.
module receive_placement
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_merge_pkg::*;
  import nanet_ttc_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2,
    // Total number of buffers of all devices; a power of two.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1,
    // 1: with frame_merge.
    parameter bit MERGE = 1'b0,
    // Number n of frame 0 of the first burst.
    parameter logic [63:0] FIRST_N = 0
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while enabled
     */
    input logic                     enable,
    input logic [3:0]               expected,    // boards
    input receive_cfg_t             cfg,
    input logic [DEVICES-1:0][63:0] base_vaddr,
    input logic [63:0]              now,
    input ttc_stamp_t               ttc_stamp,   // of merged buffers; frames to close

    /*
     * channels: writer requests, and the number of the last written packet
     */
    input  logic [CHANNELS-1:0]           place_valid,
    output logic [CHANNELS-1:0]           place_ready,
    input  place_request_t [CHANNELS-1:0] place,
    output logic [CHANNELS-1:0]           placed_valid,
    output placed_rsp_t                   placed_rsp,
    input  serial_t [CHANNELS-1:0]        done_serial,

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
     * firmware: slow-path packets, commands
     */
    output slowpath_req_t slowpath_req,
    input  logic          slowpath_ready,
    input  command_req_t  command_req,
    output logic          command_ready,

    /*
     * headers and empty slots: translation, DMA write
     */
    output tlb_req_t          tlb_req,
    input  tlb_rsp_t          tlb_rsp,
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,

    /*
     * merging: writes of the channels; translations and DMA writes of frame_merge
     */
    input  dma_wr_req_t            store_wr_req,
    output dma_wr_rsp_t            store_wr_rsp,
    input  logic [DATA_W-1:0]      store_wr_data,
    output tlb_req_t [1:0]         merge_tlb_req,
    input  tlb_rsp_t [1:0]         merge_tlb_rsp,
    output dma_wr_req_t [1:0]      merge_wr_req,
    input  dma_wr_rsp_t [1:0]      merge_wr_rsp,
    output logic [1:0][DATA_W-1:0] merge_wr_data,
    output logic [1:0]             merge_untranslated,

    /*
     * events
     */
    output logic [DEVICES-1:0]       ev_valid,
    input  logic [DEVICES-1:0]       ev_ready,
    output event_req_t               ev_req,
    output logic [DEVICES-1:0]       promise,
    input  logic [DEVICES-1:0][15:0] room,
    input  logic [DEVICES-1:0]       half_free,
    output logic                     ready,        // all memories cleared: packets are accepted
    output logic                     idle,         // no packet data pending
    output logic [63:0]              last_packet,  // card clock, newest packet of the current burst

    /*
     * counters: pulses, and missing sequence numbers per board
     */
    output frame_cnt_t cnt,
    output logic       untranslated
);

  // ------------------------------------------------------------------ selection of the gather mode

  placed_rsp_t f_placed_rsp;
  placed_rsp_t p_placed_rsp;
  logic f_ready, p_ready, f_idle, p_idle;
  tx_pending_req_t f_tx_pending_req;
  tx_pending_req_t p_tx_pending_req;
  slowpath_req_t f_slowpath_req;
  slowpath_req_t p_slowpath_req;
  logic f_command_ready, p_command_ready;
  logic f_counted, p_counted, f_frame_in, p_frame_in, f_close_idle, p_close_idle;
  dma_wr_req_t f_wr_req;
  dma_wr_req_t p_wr_req;
  tlb_req_t f_tlb_req;
  tlb_req_t p_tlb_req;
  event_req_t f_ev_req;
  event_req_t p_ev_req;
  logic f_untranslated, p_untranslated, f_incomplete, p_incomplete;
  logic [CHANNELS-1:0] f_place_ready, p_place_ready, f_placed_valid, p_placed_valid;
  logic [63:0] f_last_packet, p_last_packet;
  logic [DEVICES-1:0] f_promise, p_promise, f_ev_valid, p_ev_valid;
  logic [15:0] f_counted_hits, p_counted_hits;
  logic [7:0] f_counted_events, p_counted_events;
  logic [3:0][63:0] f_missing, p_missing;
  logic [DATA_W-1:0] f_wr_data, p_wr_data;
  placed_e f_counted_as, p_counted_as;
  logic merge_ready, merge_idle;

  assign ready = cfg.packets_mode ? p_ready : f_ready && merge_ready;
  assign place_ready = cfg.packets_mode ? p_place_ready : f_place_ready;
  assign placed_valid = cfg.packets_mode ? p_placed_valid : f_placed_valid;
  assign placed_rsp = cfg.packets_mode ? p_placed_rsp : f_placed_rsp;
  assign tx_pending_req = cfg.packets_mode ? p_tx_pending_req : f_tx_pending_req;
  assign slowpath_req = cfg.packets_mode ? p_slowpath_req : f_slowpath_req;
  assign command_ready = cfg.packets_mode ? p_command_ready : f_command_ready;
  assign promise = cfg.packets_mode ? p_promise : f_promise;
  assign cnt.counted = cfg.packets_mode ? p_counted : f_counted;
  assign cnt.counted_as = cfg.packets_mode ? p_counted_as : f_counted_as;
  assign cnt.counted_hits = cfg.packets_mode ? p_counted_hits : f_counted_hits;
  assign cnt.counted_events = cfg.packets_mode ? p_counted_events : f_counted_events;
  assign last_packet = cfg.packets_mode ? p_last_packet : f_last_packet;
  assign cnt.missing = cfg.packets_mode ? p_missing : f_missing;
  assign cnt.frame_in = cfg.packets_mode ? p_frame_in : f_frame_in;
  assign idle = cfg.packets_mode ? p_idle && p_close_idle : f_idle && f_close_idle && merge_idle;
  assign tlb_req = cfg.packets_mode ? p_tlb_req : f_tlb_req;
  assign wr_req = cfg.packets_mode ? p_wr_req : f_wr_req;
  assign wr_data = cfg.packets_mode ? p_wr_data : f_wr_data;
  assign ev_valid = cfg.packets_mode ? p_ev_valid : f_ev_valid;
  assign ev_req = cfg.packets_mode ? p_ev_req : f_ev_req;
  assign untranslated = cfg.packets_mode ? p_untranslated : f_untranslated;
  assign cnt.frame_incomplete = cfg.packets_mode ? p_incomplete : f_incomplete;

  // ------------------------------------------------------------------ gather mode `frame`

  logic notice_valid, notice_ready;
  clop_notice_t notice;
  serial_t [CHANNELS-1:0] notice_fence;
  logic [$clog2(MAX_BUFFERS)+1:0] board_read_index;
  clop_part_t board_read;

  // Merging takes the notifications on their way to clop_close. Payload addresses are then merge_place_t.
  logic merging, closing_valid, closing_ready, board_reading;
  logic [$clog2(MAX_BUFFERS)+1:0] close_index, merge_index;
  logic [DEVICES-1:0][63:0] place_vaddr;
  logic [17:0] place_units;
  merge_result_t merged;
  serial_t closing_fence, frames_done;
  assign merging          = MERGE && cfg.merge && !cfg.packets_mode;
  assign place_units      = merging ? 18'(65536 / 64) : cfg.buffer_units;
  assign board_read_index = merging && board_reading ? merge_index : close_index;
  always_comb
    for (int d = 0; d < int'(DEVICES); d++)
      place_vaddr[d] = merging ? (64'(d) << 32) - 64'd64 : base_vaddr[d];

  // Gated between packets, except in a replay, which counts idle cycles.
  // Packets refused without a request advance the write fence from time to time (clop_respond).
  logic clk_placement, f_due;
  logic [CHANNELS-1:0][3:0] far_q, far;
  always_comb for (int c = 0; c < int'(CHANNELS); c++) far[c] = done_serial[c][23:20];
  always_ff @(posedge clk) far_q <= far;
  clock_gate #(
      .HOLD(16)
  ) placement_clock (
      .clk,
      .active(rst || !enable || cfg.window_frames != 0 || place_valid != 0 || command_req.valid ||
              return_valid || f_due || notice_valid || !f_idle || !f_close_idle || !merge_idle ||
              far != far_q),
      .gated(clk_placement)
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
      .enable        (enable && !cfg.packets_mode),
      .log2_buffers  (cfg.log2_buffers),
      .log2_devices  (cfg.log2_devices),
      .base_vaddr    (place_vaddr),
      .buffer_units  (place_units),
      .segment_bytes (cfg.segment_bytes),
      .expected,
      .timeout_cycles(cfg.timeout_cycles),
      .grace_cycles  (cfg.grace_cycles),
      .window_frames (cfg.window_frames),
      .now,
      .close_burst   (ttc_stamp.close_burst),
      .close_frames  (ttc_stamp.close_frames),
      .ready         (f_ready),
      .place_valid   (cfg.packets_mode ? '0 : place_valid),
      .place_ready   (f_place_ready),
      .place,
      .placed_valid  (f_placed_valid),
      .placed_rsp    (f_placed_rsp),
      .done_serial,
      .return_valid,
      .return_index,
      .return_value,
      .tx_pending_req(f_tx_pending_req),
      .tx_pending_ready,
      .sender_next,
      .slowpath_req  (f_slowpath_req),
      .slowpath_ready,
      .command_req     ('{
          valid: command_req.valid && !cfg.packets_mode,
          item: command_req.item
      }),
      .command_ready (f_command_ready),
      .notice_valid,
      .notice_ready,
      .notice,
      .notice_fence,
      .board_read_index,
      .board_read,
      .promise       (f_promise),
      .room,
      .half_free,
      .counted       (f_counted),
      .counted_as    (f_counted_as),
      .counted_hits  (f_counted_hits),
      .counted_events(f_counted_events),
      .counted_frame (cnt.counted_frame),
      .counted_burst (cnt.counted_burst),
      .skipped_valid (cnt.skipped_valid),
      .skipped       (cnt.skipped),
      .last_packet   (f_last_packet),
      .frame_in      (f_frame_in),
      .frame_overrun (cnt.frame_overrun),
      .missing       (f_missing),
      .due           (f_due),
      .idle          (f_idle)
  );

  if (MERGE) begin : gen_merge
    logic clk_merge, merge_notice_ready, merge_closing_valid, page_ready, merge_done, unused_merged;
    merge_result_t result;
    serial_t fence, fence_done;
    clock_gate #(
        .HOLD(4)
    ) merge_clock (
        .clk,
        .active(rst || merging),
        .gated (clk_merge)
    );

    frame_merge #(
        .CHANNELS   (CHANNELS),
        .MAX_BUFFERS(MAX_BUFFERS),
        .DATA_W     (DATA_W),
        .DEVICES    (DEVICES)
    ) merge (
        .clk             (clk_merge),
        .rst             (rst || !enable || !merging),
        .on              (1'b1),
        .window          (cfg.merge_window),
        .log2_devices    (cfg.log2_devices),
        .base_vaddr,
        .buffer_units    (cfg.buffer_units),
        .ttc_stamp,
        .ready           (page_ready),
        .s_wr_req        (store_wr_req),
        .s_wr_rsp        (store_wr_rsp),
        .s_wr_data       (store_wr_data),
        .notice_valid    (merging && notice_valid),
        .notice_ready    (merge_notice_ready),
        .notice,
        .notice_fence,
        .board_read_index(merge_index),
        .board_reading,
        .board_read,
        .done_serial,
        .closing_valid   (merge_closing_valid),
        .closing_ready,
        .result,
        .closing_fence   (fence),
        .frames_done     (fence_done),
        .tlb_req         (merge_tlb_req),
        .tlb_rsp         (merge_tlb_rsp),
        .wr_req          (merge_wr_req),
        .wr_rsp          (merge_wr_rsp),
        .wr_data         (merge_wr_data),
        .untranslated    (merge_untranslated),
        .merged          (unused_merged),
        .unmerged        (cnt.frame_unmerged),
        .idle            (merge_done)
    );

    assign closing_valid = merging ? merge_closing_valid : notice_valid;
    assign notice_ready  = merging ? merge_notice_ready : closing_ready;
    assign merged        = merging ? result : '0;
    assign closing_fence = merging ? fence : '0;
    assign frames_done   = merging ? fence_done : '0;
    assign merge_ready   = !merging || page_ready;
    assign merge_idle    = !merging || merge_done;
  end else begin : gen_no_merge
    assign closing_valid      = notice_valid;
    assign notice_ready       = closing_ready;
    assign merged             = '0;
    assign merge_ready        = 1'b1;
    assign merge_idle         = 1'b1;
    assign board_reading      = 1'b0;
    assign merge_index        = '0;
    assign closing_fence      = '0;
    assign frames_done        = '0;
    assign store_wr_rsp       = '0;
    assign merge_tlb_req      = '0;
    assign merge_wr_req       = '0;
    assign merge_wr_data      = '0;
    assign merge_untranslated = '0;
    assign cnt.frame_unmerged = 1'b0;
    logic unused_merge;
    assign unused_merge = &{1'b0, store_wr_req, store_wr_data, merge_tlb_rsp, merge_wr_rsp,
                            cfg.merge_window, ttc_stamp.lost, ttc_stamp.in_burst, ttc_stamp.locked,
                            ttc_stamp.timestamp};
  end

  clop_close #(
      .CHANNELS   (CHANNELS + 1),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DATA_W     (DATA_W),
      .DEVICES    (DEVICES)
  ) close (
      .clk         (clk_placement),
      .rst         (rst || !enable || cfg.packets_mode),
      .log2_devices(cfg.log2_devices),
      .base_vaddr,
      .buffer_units(cfg.buffer_units),
      .expected,
      .now,
      .notice_valid(closing_valid),
      .notice_ready(closing_ready),
      .notice,
      .notice_fence({closing_fence, notice_fence}),
      .board_read_index(close_index),
      .board_read,
      .done_serial ({frames_done, done_serial}),
      .merged,
      .tlb_req     (f_tlb_req),
      .tlb_rsp,
      .wr_req      (f_wr_req),
      .wr_rsp,
      .wr_data     (f_wr_data),
      .ev_valid    (f_ev_valid),
      .ev_ready,
      .ev_req      (f_ev_req),
      .idle        (f_close_idle),
      .untranslated(f_untranslated),
      .incomplete  (f_incomplete)
  );

  // ------------------------------------------------------------------ gather mode `packets`

  logic p_notice_valid, p_notice_ready, p_notice_done, clk_packets;

  clock_gate #(
      .HOLD(4)
  ) packets_clock (
      .clk,
      .active(rst || cfg.packets_mode),
      .gated (clk_packets)
  );

  packets_notice_t p_notice;
  serial_t [CHANNELS-1:0] p_notice_fence, p_done;

  clop_packets #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES),
      .FIRST_N    (FIRST_N)
  ) packets_placement (
      .clk           (clk_packets),
      .rst,
      .enable        (enable && cfg.packets_mode),
      .log2_buffers  (cfg.log2_buffers),
      .log2_devices  (cfg.log2_devices),
      .base_vaddr,
      .buffer_units  (cfg.buffer_units),
      .packets       (cfg.packets),
      .slot_bytes    (cfg.slot_bytes),
      .waits         (cfg.window_frames != 0),
      .now,
      .ready         (p_ready),
      .place_valid   (cfg.packets_mode ? place_valid : '0),
      .place_ready   (p_place_ready),
      .place,
      .placed_valid  (p_placed_valid),
      .placed_rsp    (p_placed_rsp),
      .done_serial,
      .return_valid,
      .return_index,
      .return_value,
      .tx_pending_req(p_tx_pending_req),
      .tx_pending_ready,
      .sender_next   (sender_next[31:0]),
      .slowpath_req  (p_slowpath_req),
      .slowpath_ready,
      .command_req   ('{valid: command_req.valid && cfg.packets_mode, item: command_req.item}),
      .command_ready (p_command_ready),
      .last_packet   (p_last_packet),
      .notice_valid  (p_notice_valid),
      .notice_ready  (p_notice_ready),
      .notice        (p_notice),
      .notice_fence  (p_notice_fence),
      .done          (p_done),
      .notice_done   (p_notice_done),
      .promise       (p_promise),
      .room,
      .half_free,
      .counted       (p_counted),
      .counted_as    (p_counted_as),
      .counted_hits  (p_counted_hits),
      .counted_events(p_counted_events),
      .buffer_pending(p_frame_in),
      .missing       (p_missing),
      .idle          (p_idle)
  );

  clop_packets_close #(
      .CHANNELS(CHANNELS),
      .DEVICES (DEVICES),
      .DATA_W  (DATA_W)
  ) packets_close (
      .clk         (clk_packets),
      .rst         (rst || !enable || !cfg.packets_mode),
      .slot_bytes  (cfg.slot_bytes),
      .now,
      .notice_valid(p_notice_valid),
      .notice_ready(p_notice_ready),
      .notice      (p_notice),
      .notice_fence(p_notice_fence),
      .done        (p_done),
      .notice_done (p_notice_done),
      .tlb_req     (p_tlb_req),
      .tlb_rsp,
      .wr_req      (p_wr_req),
      .wr_rsp,
      .wr_data     (p_wr_data),
      .ev_valid    (p_ev_valid),
      .ev_ready,
      .ev_req      (p_ev_req),
      .idle        (p_close_idle),
      .untranslated(p_untranslated),
      .incomplete  (p_incomplete)
  );

  logic unused_wr_rsp;
  assign unused_wr_rsp = &{1'b0, wr_rsp.done_tag, wr_rsp.done_error};

endmodule
