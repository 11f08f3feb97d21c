// SPDX-License-Identifier: SHL-2.1
// Bench wrapper of receive_path and firmware_port, connected as in the card. The Python bench models MACs,
// memory, consumer and microcontroller; checks of every cycle are here, which is faster.
module firmware_path_bench
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Number of MACs.
    parameter int unsigned CHANNELS = 2,
    // Number of buffers.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Width of the DMA data in bits.
    parameter int unsigned DATA_W = 256
) (
    input logic clk,
    input logic rst,

    /*
     * configuration
     */
    input logic                 enable,
    input host_t [CHANNELS-1:0] host,
    input filter_t              filter,
    input mgp_rules_t           rules,
    input logic [63:0]          base_vaddr,
    input logic [17:0]          buffer_units,
    input logic [16:0]          segment_bytes,
    input logic [31:0]          timeout_cycles,
    input logic [15:0]          grace_cycles,
    input logic [15:0]          window_frames,
    input logic [63:0]          silence_cycles,
    input logic                 tlb_enable,
    input logic [63:0]          pages_base,
    input logic [31:0]          pages_count,
    input logic                 drain,
    input logic [63:0]          first,           // clock value at the reset

    /*
     * MACs
     */
    input logic [CHANNELS-1:0]       s_axis_rx_tvalid,
    input logic [CHANNELS-1:0][63:0] s_axis_rx_tdata,
    input logic [CHANNELS-1:0][7:0]  s_axis_rx_tkeep,
    input logic [CHANNELS-1:0]       s_axis_rx_tlast,

    /*
     * consumer
     */
    input  logic                           return_valid,
    input  logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input  logic [31:0]                    return_value,
    output logic                           ev_valid,
    output event_t                         ev,

    /*
     * memory
     */
    output logic              wr_valid,
    output dma_cmd_t          wr_cmd,
    output logic [DATA_W-1:0] wr_data,
    output logic              rd_valid,
    output dma_cmd_t          rd_cmd,
    input  logic              rd_data_valid,
    input  logic [DATA_W-1:0] rd_data,

    /*
     * microcontroller
     */
    input  logic        fw_request,
    input  logic        fw_write,
    input  logic [7:0]  fw_addr,
    input  logic [31:0] fw_wdata,
    output logic        fw_acknowledge,
    output logic [31:0] fw_rdata,
    output logic        fw_interrupt,

    /*
     * observation
     */
    output logic             ready,
    output logic [63:0]      now,
    output logic [15:0]      quiet,        // cycles since the last activity
    output logic [9:0][31:0] counts,       // packets by placed_e
    output logic [31:0]      packets,      // all packets
    output logic [31:0]      frames_in,
    output logic [31:0]      skips,
    output logic [31:0]      overruns,
    output logic [31:0]      overflows,
    output logic [3:0][63:0] missing,
    output logic [1:0][31:0] burst_report
);

  localparam logic [4:0] Log2Page = 5'd16;

  logic slowpath_valid, slowpath_ready, command_valid, command_ready;
  logic miss_valid, miss_ready, fill_valid, fill_ready, fill_ok;
  logic [63:0] miss_vaddr, fill_vaddr, fill_paddr, last_packet;
  slowpath_t slowpath;
  command_t command;
  logic wr_last, wr_done_valid_q, rd_data_ready, tx_pending_valid, idle, counted, skipped_valid, frame_overrun;
  logic [7:0] wr_done_tag_q;
  logic [24:0] skipped;
  placed_e counted_as;
  tx_pending_t tx_pending;
  logic [63:0] sender_next_q;
  logic [CHANNELS-1:0][10:0] unused_torus_level;
  logic [CHANNELS-1:0] overflow, unused_tvalid, unused_tlast, unused_verdict_valid, unused_refused;
  logic [CHANNELS-1:0] unused_profile_valid, unused_frame_valid;
  logic [CHANNELS-1:0][31:0] unused_frame_start, unused_frame_end;
  logic [CHANNELS-1:0][63:0] unused_tdata;
  logic [CHANNELS-1:0][7:0] unused_tkeep;
  frame_verdict_e [CHANNELS-1:0] unused_verdict;
  refusal_e [CHANNELS-1:0] unused_refusal;
  profile_t [CHANNELS-1:0] unused_profile;
  logic [15:0] unused_hits;
  logic [7:0] unused_events, unused_burst;
  logic [23:0] unused_frame;
  logic [31:0] unused_start;
  logic [2:0] unused_channel;
  logic unused_promised, unused_promise, unused_tx_pending, unused_incomplete, unused_unmerged, unused_hit;
  logic unused_miss;
  logic [CHANNELS:0] unused_untranslated;

  always_ff @(posedge clk) begin
    now   <= now + 1'b1;
    quiet <= fw_interrupt || fw_request || !idle ? '0 : quiet + 16'(quiet != '1);
    if (counted) begin
      counts[counted_as] <= counts[counted_as] + 1'b1;
      packets            <= packets + 1'b1;
    end
    if (tx_pending_valid) begin
      frames_in     <= frames_in + 1'b1;
      sender_next_q <= tx_pending.n + 1'b1;
    end
    if (skipped_valid) skips <= skips + 32'(skipped);
    overruns        <= overruns + 32'(frame_overrun);
    overflows       <= overflows + 32'(overflow != 0);
    wr_done_valid_q <= wr_valid && wr_last;
    wr_done_tag_q   <= wr_cmd.tag;
    if (rst) begin
      now             <= first;
      quiet           <= '0;
      counts          <= '0;
      packets         <= '0;
      frames_in       <= '0;
      sender_next_q   <= '0;
      skips           <= '0;
      overruns        <= '0;
      overflows       <= '0;
      wr_done_valid_q <= 1'b0;
    end
  end

  receive_path_flat #(
      .CHANNELS   (CHANNELS),
      .FILTERS    (1),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DATA_W     (DATA_W)
  ) path (
      .clk,
      .rst,
      .mac_clk          ('0),
      .mac_rst          ('0),
      .take             (1'b1),
      .frame_valid      (unused_frame_valid),
      .frame_start      (unused_frame_start),
      .frame_end        (unused_frame_end),
      .enable,
      .host,
      .filter,
      .rules,
      .log2_buffers(5'($clog2(MAX_BUFFERS))),
      .log2_devices(5'd0),
      .base_vaddr,
      .buffer_units,
      .segment_bytes,
      .timeout_cycles,
      .grace_cycles,
      .window_frames,
      .packets_mode(1'b0),
      .packets     (13'd1),
      .slot_bytes  (17'd1472),
      .merge       (1'b0),
      .merge_window('0),
      .ttc_stamp   ('0),
      .tlb_enable,
      .log2_page(Log2Page),
      .tlb_flush(1'b0),
      .now,
      .s_axis_rx_tvalid,
      .s_axis_rx_tdata,
      .s_axis_rx_tkeep,
      .s_axis_rx_tlast,
      .s_axis_rx_tuser  ('0),
      .torus_valid      ('0),
      .torus_kind       ({CHANNELS{nanet_pkg::ApenetHeader}}),
      .torus_data       ('0),
      .torus_level      (unused_torus_level),
      .arp_answers      ('1),
      .m_axis_arp_tvalid(unused_tvalid),
      .m_axis_arp_tready('1),
      .m_axis_arp_tdata (unused_tdata),
      .m_axis_arp_tkeep (unused_tkeep),
      .m_axis_arp_tlast (unused_tlast),
      .return_valid,
      .return_index,
      .return_value,
      .tx_pending_valid,
      .tx_pending_ready(1'b1),
      .tx_pending,
      .sender_next(sender_next_q),
      .slowpath_valid,
      .slowpath_ready,
      .slowpath,
      .command_valid,
      .command_ready,
      .command,
      .miss_valid,
      .miss_ready,
      .miss_vaddr,
      .fill_valid,
      .fill_ready,
      .fill_vaddr,
      .fill_paddr,
      .fill_ok,
      .wr_valid,
      .wr_ready(1'b1),
      .wr_cmd,
      .wr_data,
      .wr_last,
      .wr_done_valid(wr_done_valid_q),
      .wr_done_tag  (wr_done_tag_q),
      .wr_done_error(1'b0),
      .ev_valid,
      .ev_ready(1'b1),
      .ev,
      .ev_promised(unused_promised),
      .ev_start   (unused_start),
      .ev_channel (unused_channel),
      .promise    (unused_promise),
      .room       (16'd4096),
      .half_free  (1'b1),
      .ready,
      .idle,
      .last_packet,
      .verdict_valid(unused_verdict_valid),
      .verdict      (unused_verdict),
      .overflow,
      .refused(unused_refused),
      .refusal(unused_refusal),
      .counted,
      .counted_as,
      .counted_hits  (unused_hits),
      .counted_events(unused_events),
      .counted_frame (unused_frame),
      .counted_burst (unused_burst),
      .skipped_valid,
      .skipped,
      .profile_valid(unused_profile_valid),
      .profile      (unused_profile),
      .frame_in     (unused_tx_pending),
      .frame_overrun,
      .frame_incomplete(unused_incomplete),
      .frame_unmerged  (unused_unmerged),
      .tlb_hit         (unused_hit),
      .tlb_miss        (unused_miss),
      .untranslated    (unused_untranslated),
      .missing
  );

  firmware_port_flat #(
      .DATA_W(DATA_W)
  ) port (
      .clk,
      .rst,
      .enable,
      .replay (window_frames != 0),
      .packets(1'b0),
      .boards (rules.boards),
      .timeout_cycles,
      .grace_cycles,
      .silence_cycles,
      .pages_base,
      .pages_count,
      .clop_base(base_vaddr),
      .log2_page(Log2Page),
      .drain,
      .now,
      .slowpath_valid,
      .slowpath_ready,
      .slowpath,
      .command_valid,
      .command_ready,
      .command,
      .miss_valid,
      .miss_ready,
      .miss_vaddr,
      .fill_valid,
      .fill_ready,
      .fill_vaddr,
      .fill_paddr,
      .fill_ok,
      .last_packet,
      .rd_valid,
      .rd_ready(1'b1),
      .rd_cmd,
      .rd_data_valid,
      .rd_data_ready,
      .rd_data,
      .rd_data_tag('0),
      .rd_data_last (1'b1),
      .rd_data_error(1'b0),
      .fw_request,
      .fw_write,
      .fw_addr,
      .fw_wdata,
      .fw_acknowledge,
      .fw_rdata,
      .fw_interrupt,
      .burst_report
  );

  logic unused;
  assign unused = &{1'b0, unused_torus_level, unused_tvalid, unused_tdata, unused_tkeep, unused_tlast, unused_verdict_valid,
                    unused_verdict, unused_refused, unused_refusal, unused_profile_valid, unused_profile,
                    unused_hits, unused_events, unused_frame, unused_burst, unused_start, unused_channel, unused_promised,
                    unused_promise, unused_tx_pending, unused_incomplete, unused_unmerged, unused_hit,
                    unused_miss,
                    unused_untranslated, rd_data_ready, tx_pending};

endmodule
