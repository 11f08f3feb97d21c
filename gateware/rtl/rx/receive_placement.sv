// SPDX-License-Identifier: SHL-2.1
// Placement of a stream's packets: clop and clop_close in gather mode `frame`, clop_packets and
// clop_packets_close in gather mode `packets`. The unused pair is idle.
module receive_placement
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2,
    // Total number of buffers of all devices; a power of two.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1,
    // Number n of frame 0 of the first burst.
    parameter logic [63:0] FIRST_N = 0
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while enabled
     */
    input logic                     enable,
    input logic [3:0]               expected,        // boards
    input logic [4:0]               log2_buffers,
    input logic [4:0]               log2_devices,
    input logic [DEVICES-1:0][63:0] base_vaddr,
    input logic [17:0]              buffer_units,
    input logic [16:0]              segment_bytes,
    input logic [31:0]              timeout_cycles,  // 0: no timeout
    input logic [15:0]              grace_cycles,
    input logic [15:0]              window_frames,   // frames this far behind the newest are closed; 0: none
    input logic                     packets_mode,    // gather mode: 1 `packets`, 0 `frame`
    input logic [12:0]              packets,         // payloads per buffer (packets)
    input logic [16:0]              slot_bytes,      // payload slot, a multiple of 16 (packets)
    input logic [63:0]              now,

    /*
     * channels: writer requests, and the number of the last written packet
     */
    input  logic [CHANNELS-1:0]           place_valid,
    output logic [CHANNELS-1:0]           place_ready,
    input  place_request_t [CHANNELS-1:0] place,
    output logic [CHANNELS-1:0]           placed_valid,
    output logic                          placed_accept,
    output logic                          placed_defer,
    output logic [63:0]                   placed_vaddr,
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
    output logic        tx_pending_valid,
    input  logic        tx_pending_ready,
    output tx_pending_t tx_pending,
    input  logic [63:0] sender_next,

    /*
     * firmware: slow-path packets, commands
     */
    output logic      slowpath_valid,
    input  logic      slowpath_ready,
    output slowpath_t slowpath,
    input  logic      command_valid,
    output logic      command_ready,
    input  command_t  command,

    /*
     * headers and empty slots: translation, DMA write
     */
    output logic              tlb_valid,
    input  logic              tlb_ready,
    output logic [63:0]       tlb_vaddr,
    input  logic              tlb_resp_valid,
    input  logic              tlb_resp_ok,
    input  logic [63:0]       tlb_resp_paddr,
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,

    /*
     * events
     */
    output logic [DEVICES-1:0]       ev_valid,
    input  logic [DEVICES-1:0]       ev_ready,
    output event_t                   ev,
    output logic                     ev_promised,
    output logic [31:0]              ev_start,     // of the packet that closed the frame
    output logic [2:0]               ev_channel,
    output logic [DEVICES-1:0]       promise,
    input  logic [DEVICES-1:0][15:0] room,
    input  logic [DEVICES-1:0]       half_free,
    output logic                     ready,        // all memories cleared: packets are accepted
    output logic                     idle,         // no packet data pending
    output logic [63:0]              last_packet,  // card clock, newest packet of the current burst

    /*
     * counters: pulses, and missing sequence numbers per board
     */
    output logic             counted,
    output placed_e          counted_as,
    output logic [15:0]      counted_hits,
    output logic [7:0]       counted_events,
    output logic             skipped_valid,     // frames skipped by a jump
    output logic [24:0]      skipped,
    output logic             frame_in,
    output logic             frame_overrun,
    output logic             frame_incomplete,
    output logic             untranslated,
    output logic [3:0][63:0] missing
);

  // ------------------------------------------------------------------ selection of the gather mode

  logic f_ready, p_ready, f_placed_accept, p_placed_accept, f_placed_defer, p_placed_defer, f_idle, p_idle;
  logic f_tx_pending_valid, p_tx_pending_valid, f_slowpath_valid, p_slowpath_valid;
  logic f_command_ready, p_command_ready;
  logic f_counted, p_counted, f_frame_in, p_frame_in, f_close_idle, p_close_idle;
  dma_wr_req_t f_wr_req;
  dma_wr_req_t p_wr_req;
  logic f_tlb_valid, p_tlb_valid;
  logic f_ev_promised, p_ev_promised, f_untranslated, p_untranslated, f_incomplete, p_incomplete;
  logic [CHANNELS-1:0] f_place_ready, p_place_ready, f_placed_valid, p_placed_valid;
  logic [63:0] f_placed_vaddr, p_placed_vaddr, f_last_packet, p_last_packet, f_tlb_vaddr, p_tlb_vaddr;
  logic [DEVICES-1:0] f_promise, p_promise, f_ev_valid, p_ev_valid;
  logic [15:0] f_counted_hits, p_counted_hits;
  logic [7:0] f_counted_events, p_counted_events;
  logic [3:0][63:0] f_missing, p_missing;
  logic [DATA_W-1:0] f_wr_data, p_wr_data;
  logic [31:0] f_ev_start, p_ev_start;
  logic [2:0] f_ev_channel, p_ev_channel;
  tx_pending_t f_tx_pending, p_tx_pending;
  slowpath_t f_slowpath, p_slowpath;
  placed_e f_counted_as, p_counted_as;
  event_t f_ev, p_ev;

  assign ready = packets_mode ? p_ready : f_ready;
  assign place_ready = packets_mode ? p_place_ready : f_place_ready;
  assign placed_valid = packets_mode ? p_placed_valid : f_placed_valid;
  assign placed_accept = packets_mode ? p_placed_accept : f_placed_accept;
  assign placed_defer = packets_mode ? p_placed_defer : f_placed_defer;
  assign placed_vaddr = packets_mode ? p_placed_vaddr : f_placed_vaddr;
  assign tx_pending_valid = packets_mode ? p_tx_pending_valid : f_tx_pending_valid;
  assign tx_pending = packets_mode ? p_tx_pending : f_tx_pending;
  assign slowpath_valid = packets_mode ? p_slowpath_valid : f_slowpath_valid;
  assign slowpath = packets_mode ? p_slowpath : f_slowpath;
  assign command_ready = packets_mode ? p_command_ready : f_command_ready;
  assign promise = packets_mode ? p_promise : f_promise;
  assign counted = packets_mode ? p_counted : f_counted;
  assign counted_as = packets_mode ? p_counted_as : f_counted_as;
  assign counted_hits = packets_mode ? p_counted_hits : f_counted_hits;
  assign counted_events = packets_mode ? p_counted_events : f_counted_events;
  assign last_packet = packets_mode ? p_last_packet : f_last_packet;
  assign missing = packets_mode ? p_missing : f_missing;
  assign frame_in = packets_mode ? p_frame_in : f_frame_in;
  assign idle = packets_mode ? p_idle && p_close_idle : f_idle && f_close_idle;
  assign tlb_valid = packets_mode ? p_tlb_valid : f_tlb_valid;
  assign tlb_vaddr = packets_mode ? p_tlb_vaddr : f_tlb_vaddr;
  assign wr_req = packets_mode ? p_wr_req : f_wr_req;
  assign wr_data = packets_mode ? p_wr_data : f_wr_data;
  assign ev_valid = packets_mode ? p_ev_valid : f_ev_valid;
  assign ev = packets_mode ? p_ev : f_ev;
  assign ev_promised = packets_mode ? p_ev_promised : f_ev_promised;
  assign ev_start = packets_mode ? p_ev_start : f_ev_start;
  assign ev_channel = packets_mode ? p_ev_channel : f_ev_channel;
  assign untranslated = packets_mode ? p_untranslated : f_untranslated;
  assign frame_incomplete = packets_mode ? p_incomplete : f_incomplete;

  // ------------------------------------------------------------------ gather mode `frame`

  logic notice_valid, notice_ready;
  clop_notice_t notice;
  serial_t [CHANNELS-1:0] notice_fence;
  logic [$clog2(MAX_BUFFERS)+1:0] board_read_index;
  clop_part_t board_read;

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
      .active(rst || !enable || window_frames != 0 || place_valid != 0 || command_valid || return_valid ||
              f_due || notice_valid || !f_idle || !f_close_idle || far != far_q),
      .gated(clk_placement)
  );

  clop #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES),
      .FIRST_N    (FIRST_N)
  ) placement (
      .clk       (clk_placement),
      .clk_timers(clk),
      .rst,
      .enable(enable && !packets_mode),
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
      .ready      (f_ready),
      .place_valid(packets_mode ? '0 : place_valid),
      .place_ready(f_place_ready),
      .place,
      .placed_valid (f_placed_valid),
      .placed_accept(f_placed_accept),
      .placed_defer (f_placed_defer),
      .placed_vaddr (f_placed_vaddr),
      .done_serial,
      .return_valid,
      .return_index,
      .return_value,
      .tx_pending_valid(f_tx_pending_valid),
      .tx_pending_ready,
      .tx_pending(f_tx_pending),
      .sender_next,
      .slowpath_valid(f_slowpath_valid),
      .slowpath_ready,
      .slowpath     (f_slowpath),
      .command_valid(command_valid && !packets_mode),
      .command_ready(f_command_ready),
      .command,
      .notice_valid,
      .notice_ready,
      .notice,
      .notice_fence,
      .board_read_index,
      .board_read,
      .promise(f_promise),
      .room,
      .half_free,
      .counted       (f_counted),
      .counted_as    (f_counted_as),
      .counted_hits  (f_counted_hits),
      .counted_events(f_counted_events),
      .skipped_valid,
      .skipped,
      .last_packet(f_last_packet),
      .frame_in   (f_frame_in),
      .frame_overrun,
      .missing(f_missing),
      .due    (f_due),
      .idle   (f_idle)
  );

  clop_close #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DATA_W     (DATA_W),
      .DEVICES    (DEVICES)
  ) close (
      .clk         (clk_placement),
      .rst         (rst || !enable || packets_mode),
      .log2_devices,
      .base_vaddr,
      .buffer_units,
      .expected,
      .now,
      .notice_valid,
      .notice_ready,
      .notice,
      .notice_fence,
      .board_read_index,
      .board_read,
      .done_serial,
      .tlb_valid   (f_tlb_valid),
      .tlb_ready,
      .tlb_vaddr   (f_tlb_vaddr),
      .tlb_resp_valid,
      .tlb_resp_ok,
      .tlb_resp_paddr,
      .wr_req      (f_wr_req),
      .wr_rsp,
      .wr_data     (f_wr_data),
      .ev_valid    (f_ev_valid),
      .ev_ready,
      .ev          (f_ev),
      .ev_promised (f_ev_promised),
      .ev_start    (f_ev_start),
      .ev_channel  (f_ev_channel),
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
      .active(rst || packets_mode),
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
      .clk(clk_packets),
      .rst,
      .enable(enable && packets_mode),
      .log2_buffers,
      .log2_devices,
      .base_vaddr,
      .buffer_units,
      .packets,
      .slot_bytes,
      .waits(window_frames != 0),
      .now,
      .ready      (p_ready),
      .place_valid(packets_mode ? place_valid : '0),
      .place_ready(p_place_ready),
      .place,
      .placed_valid (p_placed_valid),
      .placed_accept(p_placed_accept),
      .placed_defer (p_placed_defer),
      .placed_vaddr (p_placed_vaddr),
      .done_serial,
      .return_valid,
      .return_index,
      .return_value,
      .tx_pending_valid(p_tx_pending_valid),
      .tx_pending_ready,
      .tx_pending    (p_tx_pending),
      .sender_next   (sender_next[31:0]),
      .slowpath_valid(p_slowpath_valid),
      .slowpath_ready,
      .slowpath     (p_slowpath),
      .command_valid(command_valid && packets_mode),
      .command_ready(p_command_ready),
      .command,
      .last_packet (p_last_packet),
      .notice_valid(p_notice_valid),
      .notice_ready(p_notice_ready),
      .notice      (p_notice),
      .notice_fence(p_notice_fence),
      .done        (p_done),
      .notice_done (p_notice_done),
      .promise     (p_promise),
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
      .rst         (rst || !enable || !packets_mode),
      .slot_bytes,
      .now,
      .notice_valid(p_notice_valid),
      .notice_ready(p_notice_ready),
      .notice      (p_notice),
      .notice_fence(p_notice_fence),
      .done        (p_done),
      .notice_done (p_notice_done),
      .tlb_valid   (p_tlb_valid),
      .tlb_ready,
      .tlb_vaddr   (p_tlb_vaddr),
      .tlb_resp_valid,
      .tlb_resp_ok,
      .tlb_resp_paddr,
      .wr_req      (p_wr_req),
      .wr_rsp,
      .wr_data     (p_wr_data),
      .ev_valid    (p_ev_valid),
      .ev_ready,
      .ev          (p_ev),
      .ev_promised (p_ev_promised),
      .ev_start    (p_ev_start),
      .ev_channel  (p_ev_channel),
      .idle        (p_close_idle),
      .untranslated(p_untranslated),
      .incomplete  (p_incomplete)
  );

  logic unused_wr_rsp;
  assign unused_wr_rsp = &{1'b0, wr_rsp.done_tag, wr_rsp.done_error};

endmodule
