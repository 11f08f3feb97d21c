// SPDX-License-Identifier: SHL-2.1
// Writer of merged frames. For a closed frame, writes rows and hits, or the segments where the frame cannot
// be merged exactly; then passes the notification on to clop_close with the result.
module merge_write
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_merge_pkg::*;
  import nanet_ttc_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2,
    // As in clop.
    parameter int unsigned MAX_BUFFERS = 2048,
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
    input logic                     on,
    input logic [4:0]               log2_devices,
    input logic [DEVICES-1:0][63:0] base_vaddr,
    input logic [17:0]              buffer_units,
    input ttc_stamp_t               ttc_stamp,

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
     * store
     */
    output logic [15:0]              closed_index,
    input  logic                     held,
    input  logic [5:0]               slot,
    input  logic                     passed,
    input  logic [3:0][5:0]          pages,
    input  logic [31:0]              first_period,
    output logic                     drop,
    input  logic                     dropped,
    output merge_read_t [3:0]        rd,
    input  logic [3:0][127:0]        rd_data,

    /*
     * events
     */
    output logic         join_start,
    output merge_frame_t frame,
    input  logic         join_done,
    input  logic         disordered,
    input  logic [15:0]  events,
    input  logic [15:0]  fragments,
    input  logic [16:0]  hits,
    input  logic         event_valid,
    output logic         event_ready,
    input  merge_event_t item,

    /*
     * translation, DMA write
     */
    output tlb_req_t          tlb_req,
    input  tlb_rsp_t          tlb_rsp,
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,
    output logic              untranslated,

    output logic merged,    // pulse per frame written as rows and hits
    output logic unmerged,  // pulse per frame written as segments
    output logic idle
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);
  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;
  localparam int unsigned HeaderBytes = 64;

  typedef enum logic [3:0] {
    WriteIdle,
    WriteBoards,
    WriteFence,
    WriteJudge,
    WriteStart,
    WriteEvents,
    WriteFlush,
    WriteDrain,
    WriteSegment,
    WriteSegmentStart,
    WriteSegmentCopy,
    WriteSegmentFlush,
    WriteSegmentDrain,
    WriteClose
  } state_e;

  state_e state_q;
  logic fence_q, fence;
  logic [2:0] board_q;
  logic [1:0] segment_q;
  logic [3:0][11:0] units_q;
  logic [3:0] covered, covered_q, empty, empty_q;
  logic [33:0] product_q;
  logic [63:0] vaddr_q, rows_vaddr_q, hits_vaddr_q, segment_vaddr_q;
  logic [15:0] buffer, index_q;
  logic [DeviceW-1:0] device;
  logic given_q, drained_q, leaves_q, written, dropped_q, held_q, seen, room_q, whole;
  logic [2:0] reason, reason_q;  // a cycle later, when the counts have stood
  logic [11:0] segment_units_q;

  assign device = DEVICES > 1 ? DeviceW'(notice.n) & DeviceW'((32'd1 << log2_devices) - 32'd1) : '0;
  assign buffer = DEVICES > 1 ? notice.index >> log2_devices : notice.index;
  // The notification has left when its pages are returned.
  assign closed_index     = state_q == WriteClose ? index_q : notice.index;
  assign board_read_index = {IndexW'(notice.index), board_q[1:0]};
  assign board_reading    = state_q == WriteIdle || state_q == WriteBoards;
  assign seen             = notice.present[2'(board_q - 3'd2)];
  assign frame            = '{slot: slot, units: units_q};
  assign join_start       = state_q == WriteStart;

  always_comb begin
    fence = 1'b1;
    for (int c = 0; c < int'(CHANNELS); c++) if (!reached(done_serial[c], notice_fence[c])) fence = 1'b0;
    for (int b = 0; b < 4; b++) begin
      empty[b]   = units_q[b] == 0;
      covered[b] = 12'({pages[b], 4'd0}) >= units_q[b];
    end
  end

  assign reason = room_q ? UnmergedRoom : disordered ? UnmergedDisordered :
                  hits > 17'(MergeHits) ? UnmergedHits :
                  events > 16'(MergeRows) ? UnmergedEvents : UnmergedNone;
  assign whole  = empty_q == '1 || (held && !passed && covered_q == '1);  // all payloads are in pages

  // ------------------------------------------------------------------ control

  logic copy_start, copy_idle, copy_flush, room, drained;
  logic [16:0] copied;
  logic [1:0] word_valid, burst_start;
  logic [1:0][255:0] words;
  logic [1:0][63:0] start_vaddr;
  logic [1:0][4:0] tail;
  logic kind_done;

  assign kind_done   = notice.kind == KindReceiveDone;
  assign copy_start  = state_q == WriteStart || state_q == WriteSegmentStart;
  assign copy_flush  = state_q == WriteFlush || state_q == WriteSegmentFlush;
  assign burst_start = {state_q == WriteStart, copy_start};
  assign start_vaddr = {rows_vaddr_q, state_q == WriteStart ? hits_vaddr_q : segment_vaddr_q};
  assign tail        = {events[0], 4'd0, copied[3:0], 1'b0};

  assign closing_valid = state_q == WriteClose && !given_q;
  assign notice_ready  = closing_valid && closing_ready;
  assign drop          = state_q == WriteClose && held_q && !dropped_q;
  assign idle          = state_q == WriteIdle && !notice_valid;

  always_ff @(posedge clk) begin
    merged    <= 1'b0;
    unmerged  <= 1'b0;
    fence_q   <= fence;
    reason_q  <= reason;
    covered_q <= covered;
    empty_q   <= empty;
    segment_units_q <= covered_q[segment_q] ? units_q[segment_q] : 12'({pages[segment_q], 4'd0});
    product_q <= 34'(buffer) * 34'(buffer_units);
    vaddr_q   <= base_vaddr[device] + {24'd0, product_q, 6'd0};
    rows_vaddr_q <= vaddr_q + 64'(HeaderBytes);
    hits_vaddr_q <= vaddr_q + 64'(HeaderBytes + 16 * MergeRows);
    if (state_q != WriteClose) index_q <= notice.index;
    // A notification waits for the writes of its frame.
    if (state_q == WriteJudge) closing_fence <= closing_fence + 1'b1;
    if (state_q == WriteClose && drained && copy_idle) leaves_q <= 1'b1;
    if (leaves_q && written) begin
      leaves_q    <= 1'b0;
      frames_done <= closing_fence;
    end
    unique case (state_q)
      WriteIdle: begin
        board_q   <= 3'(notice_valid);  // board 0 is read in this cycle
        given_q   <= 1'b0;
        dropped_q <= 1'b0;
        held_q    <= 1'b0;
        drained_q <= 1'b0;
        room_q    <= 1'b0;
        result    <= '{on: on, ttc: {ttc_stamp.lost, ttc_stamp.in_burst, ttc_stamp.locked},
                       close_period: ttc_stamp.timestamp, default: '0};
        if (notice_valid) state_q <= on && kind_done ? WriteBoards : WriteClose;
      end
      WriteBoards: begin  // data of the read two cycles ago
        board_q <= board_q + 1'b1;
        if (board_q >= 3'd2) units_q[2'(board_q-3'd2)] <= seen ? board_read.units : '0;
        if (board_q == 3'd5) state_q <= WriteFence;
      end
      // The copier and the writes of the frame before must have ended.
      WriteFence: if (fence_q && frames_done == closing_fence) state_q <= WriteJudge;
      WriteJudge: begin
        held_q    <= held;
        result.first_period <= held ? first_period : '0;
        room_q    <= !whole;
        segment_q <= '0;
        segment_vaddr_q <= rows_vaddr_q;
        state_q   <= whole ? WriteStart : held ? WriteSegment : WriteClose;
        if (!whole && !held) begin
          result.unmerged <= UnmergedRoom;
          unmerged        <= 1'b1;
        end
      end
      WriteStart:  state_q <= WriteEvents;
      WriteEvents: if (join_done && copy_idle) state_q <= WriteFlush;
      WriteFlush: begin
        if (reason_q == UnmergedNone) begin  // the header is written while the last words leave
          result.merged    <= 1'b1;
          result.events    <= events;
          result.fragments <= fragments;
          result.hits      <= hits[15:0];
          merged           <= 1'b1;
        end
        state_q <= reason_q == UnmergedNone ? WriteClose : WriteDrain;
      end
      WriteDrain: if (drained && copy_idle) state_q <= WriteSegment;
      WriteSegment: state_q <= WriteSegmentStart;
      WriteSegmentStart: begin
        result.unmerged <= reason_q;
        state_q         <= WriteSegmentCopy;
      end
      WriteSegmentCopy: if (copy_idle) state_q <= WriteSegmentFlush;
      WriteSegmentFlush: state_q <= WriteSegmentDrain;
      WriteSegmentDrain: begin
        if (drained && copy_idle) begin
          segment_q <= segment_q + 1'b1;
          segment_vaddr_q <= segment_vaddr_q + 64'(SegmentBytes);
          state_q   <= segment_q == 2'd3 ? WriteClose : WriteSegment;
          unmerged  <= segment_q == 2'd3;
        end
      end
      WriteClose: begin
        board_q <= '0;
        if (drained && copy_idle) drained_q <= 1'b1;
        if (notice_ready) given_q <= 1'b1;
        if (dropped) dropped_q <= 1'b1;
        if ((given_q || notice_ready) && (!held_q || dropped_q || dropped) && drained_q) state_q <= WriteIdle;
      end
      default: state_q <= WriteIdle;
    endcase
    if (rst) begin
      state_q       <= WriteIdle;
      closing_fence <= '0;
      frames_done   <= '0;
      leaves_q      <= 1'b0;
      fence_q       <= 1'b0;
      merged        <= 1'b0;
      unmerged      <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ copy and writes

  merge_copy copy (
      .clk,
      .rst,
      .start    (copy_start),
      .slot,
      .segment  (state_q == WriteSegmentStart),
      .board    (segment_q),
      .units    (segment_units_q),
      .in_valid (event_valid),
      .in_ready (event_ready),
      .in       (item),
      .rd,
      .rd_data,
      .out_valid(word_valid),
      .out_data (words),
      .room,
      .flush    (copy_flush),
      .idle     (copy_idle),
      .hits     (copied)
  );

  merge_burst #(
      .DATA_W(DATA_W)
  ) bursts (
      .clk,
      .rst,
      .start   (burst_start),
      .start_vaddr,
      .in_valid(word_valid),
      .in_data (words),
      .room,
      .flush   (copy_idle && (state_q == WriteDrain || state_q == WriteSegmentDrain ||
                              state_q == WriteClose)),
      .tail,
      .drained,
      .tlb_req,
      .tlb_rsp,
      .wr_req,
      .wr_rsp,
      .wr_data,
      .written,
      .untranslated
  );

  logic unused;
  assign unused = &{1'b0, copied, notice, board_read, tlb_rsp, ttc_stamp};

endmodule
