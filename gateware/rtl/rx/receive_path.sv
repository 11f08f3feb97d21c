// SPDX-License-Identifier: SHL-2.1
// Receive path of one stream, from MACs to DMA and events (doc/architecture.md).
module receive_path
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
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
    // Number n of frame 0 of the first burst.
    parameter logic [63:0] FIRST_N = 0
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while enabled
     */
    input logic                     enable,
    input host_t [CHANNELS-1:0]     host,
    input filter_t [FILTERS-1:0]    filter,
    input mgp_rules_t               rules,
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
    input logic                     tlb_enable,
    input logic [4:0]               log2_page,
    input logic                     tlb_flush,
    input logic [63:0]              now,

    /*
     * frames from the MACs
     */
    input logic [CHANNELS-1:0]       s_axis_rx_tvalid,
    input logic [CHANNELS-1:0][63:0] s_axis_rx_tdata,
    input logic [CHANNELS-1:0][7:0]  s_axis_rx_tkeep,
    input logic [CHANNELS-1:0]       s_axis_rx_tlast,
    input logic [CHANNELS-1:0]       s_axis_rx_tuser,

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
    output logic        tx_pending_valid,
    input  logic        tx_pending_ready,
    output tx_pending_t tx_pending,
    input  logic [63:0] sender_next,

    /*
     * firmware: FIFO REQ (slow-path packets, pages) and FIFO RESP (commands, translations)
     */
    output logic        slowpath_valid,
    input  logic        slowpath_ready,
    output slowpath_t   slowpath,
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
    output logic                          counted,
    output placed_e                       counted_as,
    output logic [15:0]                   counted_hits,
    output logic [7:0]                    counted_events,
    output logic                          skipped_valid,     // frames skipped by a jump
    output logic [24:0]                   skipped,
    output logic [CHANNELS-1:0]           profile_valid,
    output profile_t [CHANNELS-1:0]       profile,
    output logic                          frame_in,
    output logic                          frame_overrun,
    output logic                          frame_incomplete,
    output logic                          tlb_hit,
    output logic                          tlb_miss,
    output logic [CHANNELS:0]             untranslated,
    output logic [3:0][63:0]              missing
);

  localparam int unsigned Clients = CHANNELS + 1;  // channels, then clop_close

  logic [3:0] expected;
  assign expected = rules.boards == 0 ? 4'd1 : rules.boards;

  logic [CHANNELS-1:0] place_valid, place_ready, placed_valid;
  place_request_t [CHANNELS-1:0] place;
  logic placed_accept, placed_defer, placement_idle;
  logic [63:0] placed_vaddr;
  serial_t [CHANNELS-1:0] done_serial;
  logic [CHANNELS-1:0] writer_idle;

  logic [Clients-1:0] tlb_req, tlb_ready, tlb_resp, no_page;
  logic [Clients-1:0][63:0] tlb_vaddr;
  logic tlb_ok;
  logic [63:0] tlb_paddr;
  dma_wr_req_t [Clients-1:0] m_wr_req;
  dma_wr_rsp_t [Clients-1:0] m_wr_rsp;
  logic [Clients-1:0][DATA_W-1:0] m_wr_data;

  assign untranslated = no_page;

  for (genvar c = 0; c < int'(CHANNELS); c++) begin : gen_channel
    receive_channel #(
        .FILTERS     (FILTERS),
        .BUFFER_WORDS(BUFFER_WORDS),
        .DATA_W      (DATA_W)
    ) channel (
        .host             (host[c]),
        .now              (now[31:0]),
        .s_axis_rx_tvalid (s_axis_rx_tvalid[c]),
        .s_axis_rx_tdata  (s_axis_rx_tdata[c]),
        .s_axis_rx_tkeep  (s_axis_rx_tkeep[c]),
        .s_axis_rx_tlast  (s_axis_rx_tlast[c]),
        .s_axis_rx_tuser  (s_axis_rx_tuser[c]),
        .arp_answers      (arp_answers[c]),
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
        .tlb_valid        (tlb_req[c]),
        .tlb_ready        (tlb_ready[c]),
        .tlb_vaddr        (tlb_vaddr[c]),
        .tlb_resp_valid   (tlb_resp[c]),
        .tlb_resp_ok      (tlb_ok),
        .tlb_resp_paddr   (tlb_paddr),
        .wr_req           (m_wr_req[c]),
        .wr_rsp           (m_wr_rsp[c]),
        .wr_data          (m_wr_data[c]),
        .verdict_valid    (verdict_valid[c]),
        .verdict          (verdict[c]),
        .overflow         (overflow[c]),
        .refused          (refused[c]),
        .refusal          (refusal[c]),
        .untranslated     (no_page[c]),
        .profile_valid    (profile_valid[c]),
        .profile          (profile[c]),
        .*
    );
  end

  // Latency from a MAC to its writer is below 64 cycles.
  logic [5:0] quiet_q;
  always_ff @(posedge clk) begin
    quiet_q <= s_axis_rx_tvalid != 0 ? '0 : quiet_q + 6'(quiet_q != '1);
    idle    <= quiet_q == '1 && writer_idle == '1 && placement_idle;
    if (rst) begin
      quiet_q <= '0;
      idle    <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ placement

  receive_placement #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DATA_W     (DATA_W),
      .DEVICES    (DEVICES),
      .FIRST_N    (FIRST_N)
  ) placement (
      .tlb_valid     (tlb_req[CHANNELS]),
      .tlb_ready     (tlb_ready[CHANNELS]),
      .tlb_vaddr     (tlb_vaddr[CHANNELS]),
      .tlb_resp_valid(tlb_resp[CHANNELS]),
      .tlb_resp_ok   (tlb_ok),
      .tlb_resp_paddr(tlb_paddr),
      .wr_req        (m_wr_req[CHANNELS]),
      .wr_rsp        (m_wr_rsp[CHANNELS]),
      .wr_data       (m_wr_data[CHANNELS]),
      .idle          (placement_idle),
      .untranslated  (no_page[CHANNELS]),
      .*
  );

  // ------------------------------------------------------------------ translation, memory

  // A flush takes one cycle per set.
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
