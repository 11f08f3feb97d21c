// SPDX-License-Identifier: SHL-2.1
// Merging of the boards of a stream: store, join and write, between the channels' writes and clop_close
// (doc/receive.md).
module frame_merge
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_merge_pkg::*;
  import nanet_ttc_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2,
    // As in clop.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Open frames; a power of two, 16 to 64.
    parameter int unsigned SLOTS = 64,
    // Pages of 256 B per board; a power of two, at least 64.
    parameter int unsigned PAGES = 128,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, as in clop; `on`: the card merges
     */
    input  logic                     on,
    input  logic [7:0]               window,        // LSB
    input  logic [4:0]               log2_devices,
    input  logic [DEVICES-1:0][63:0] base_vaddr,
    input  logic [17:0]              buffer_units,
    input  ttc_stamp_t               ttc_stamp,     // zero without TTC
    output logic                     ready,

    /*
     * writes of the channels; the address is a merge_place_t
     */
    input  dma_wr_req_t       s_wr_req,
    output dma_wr_rsp_t       s_wr_rsp,
    input  logic [DATA_W-1:0] s_wr_data,

    /*
     * notifications from clop
     */
    input  logic                           notice_valid,
    output logic                           notice_ready,
    input  clop_notice_t                   notice,
    input  serial_t [CHANNELS-1:0]         notice_fence,
    output logic [$clog2(MAX_BUFFERS)+1:0] board_read_index,
    output logic                           board_reading,
    input  clop_part_t                     board_read,
    input  serial_t [CHANNELS-1:0]         done_serial,

    /*
     * notifications to clop_close, and a further fence: frames written
     */
    output logic          closing_valid,
    input  logic          closing_ready,
    output merge_result_t result,
    output serial_t       closing_fence,
    output serial_t       frames_done,

    /*
     * translations and DMA writes: 0 merged frames, 1 writes that pass
     */
    output tlb_req_t [1:0]          tlb_req,
    input  tlb_rsp_t [1:0]          tlb_rsp,
    output dma_wr_req_t [1:0]       wr_req,
    input  dma_wr_rsp_t [1:0]       wr_rsp,
    output logic [1:0][DATA_W-1:0]  wr_data,
    output logic [1:0]              untranslated,

    output logic merged,    // pulse per frame written as rows and hits
    output logic unmerged,  // pulse per frame written as segments
    output logic idle
);

  logic [15:0] closed_index;
  logic held, passed, drop, dropped;
  logic [5:0] slot;
  logic [3:0][5:0] pages;
  logic [31:0] first_period;
  merge_read_t [3:0] rd, walk_rd, copy_rd;
  logic [3:0] walk_ready;
  logic [3:0][127:0] rd_data;

  // The copier is never refused; a walker waits. A direct read meets the reads of four cycles before.
  logic [3:0] reads_q, reads_q2, reads_q3, reads_q4;
  logic [3:0][12:0] direct_offset;
  always_ff @(posedge clk) begin
    for (int b = 0; b < 4; b++) reads_q[b] <= rd[b].valid;
    reads_q2 <= reads_q;
    reads_q3 <= reads_q2;
    reads_q4 <= reads_q3;
  end
  always_comb begin
    for (int b = 0; b < 4; b++) begin
      walk_ready[b]    = walk_rd[b].direct ? !reads_q4[b] : !copy_rd[b].valid;
      rd[b]            = copy_rd[b].valid ? copy_rd[b] : walk_rd[b];
      rd[b].valid      = copy_rd[b].valid || (walk_rd[b].valid && !walk_rd[b].direct);
      direct_offset[b] = walk_rd[b].offset;
    end
  end

  merge_store #(
      .SLOTS  (SLOTS),
      .PAGES  (PAGES),
      .DATA_W (DATA_W),
      .DEVICES(DEVICES)
  ) store (
      .tlb_req     (tlb_req[1]),
      .tlb_rsp     (tlb_rsp[1]),
      .wr_req      (wr_req[1]),
      .wr_rsp      (wr_rsp[1]),
      .wr_data     (wr_data[1]),
      .untranslated(untranslated[1]),
      .*
  );

  logic join_start, join_done, disordered, event_valid, event_ready;
  merge_frame_t frame;
  logic [15:0] events, fragments;
  logic [16:0] hits;
  merge_event_t item;

  merge_join joining (
      .start    (join_start),
      .done     (join_done),
      .rd       (walk_rd),
      .rd_ready (walk_ready),
      .out_valid(event_valid),
      .out_ready(event_ready),
      .out      (item),
      .*
  );

  merge_write #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DATA_W     (DATA_W),
      .DEVICES    (DEVICES)
  ) write (
      .rd          (copy_rd),
      .tlb_req     (tlb_req[0]),
      .tlb_rsp     (tlb_rsp[0]),
      .wr_req      (wr_req[0]),
      .wr_rsp      (wr_rsp[0]),
      .wr_data     (wr_data[0]),
      .untranslated(untranslated[0]),
      .*
  );

endmodule
