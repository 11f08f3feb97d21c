// SPDX-License-Identifier: SHL-2.1
// Page memory of one board: pages of 256 B, page table of the open frames, free list. Reads 16 B at any even
// offset per cycle, four cycles later.
module merge_pages
  import nanet_merge_pkg::*;
#(
    // Open frames; a power of two, at most 64.
    parameter int unsigned SLOTS = 64,
    // Pages; a power of two, at least 64.
    parameter int unsigned PAGES = 128
) (
    input logic clk,
    input logic rst,

    output logic ready,  // the free list is filled

    /*
     * table: pages of a slot, and number of a page one cycle later
     */
    input  logic [5:0]               slot,
    input  logic [4:0]               page,
    output logic [5:0]               count,
    output logic [$clog2(PAGES)-1:0] number,

    /*
     * a free page, which becomes the next page of the slot, or its first one after `clear`
     */
    output logic                     free_valid,
    output logic [$clog2(PAGES)-1:0] free_number,
    input  logic                     take,
    input  logic                     clear,

    /*
     * 32 B to lines of 16 B: the first line, and the next one
     */
    input logic                     wr_en,
    input logic                     wr_high,    // the upper half is written too
    input logic [$clog2(PAGES)-1:0] wr_number,
    input logic [3:0]               wr_line,
    input logic [255:0]             wr_data,

    /*
     * read
     */
    input  merge_read_t  rd,
    output logic [127:0] rd_data,

    /*
     * returns the pages of a slot; no reads meanwhile
     */
    input  logic       drop,       // held until dropped
    input  logic [5:0] drop_slot,
    output logic [5:0] drop_count, // pages of that slot
    output logic       dropped
);

  localparam int unsigned PageW = $clog2(PAGES);
  localparam int unsigned SlotW = $clog2(SLOTS);
  localparam int unsigned SegmentPages = SegmentBytes / PageBytes;

  if (SLOTS > 64 || 2 ** SlotW != SLOTS || PAGES < 64 || 2 ** PageW != PAGES) begin : gen_check_sizes
    $fatal(1, "SLOTS and PAGES must be powers of two, at most 64 and at least 64 (%m)");
  end

  // ------------------------------------------------------------------ page table

  (* no_rw_check *) logic [5:0] counts[SLOTS];
  logic [5:0] next;
  assign count      = counts[slot[SlotW-1:0]];
  assign drop_count = counts[drop_slot[SlotW-1:0]];
  assign next       = clear ? '0 : count;
  always_ff @(posedge clk) if (clear || take) counts[slot[SlotW-1:0]] <= next + 6'(take);

  // Even and odd pages in separate memories, so that a page and the next one are found in one cycle. A third
  // copy serves the writes.
  logic [4:0] rd_page;
  logic [5:0] drop_q;
  logic [SlotW-1:0] rd_slot;
  logic [3:0] even_index, odd_index;
  logic [PageW-1:0] even_number, odd_number;
  assign rd_page    = drop ? drop_q[4:0] : rd.offset[12:8];
  assign rd_slot    = drop ? drop_slot[SlotW-1:0] : rd.slot[SlotW-1:0];
  assign even_index = 4'((6'(rd_page) + 6'd1) >> 1);
  assign odd_index  = rd_page[4:1];

  ram_1r1w #(
      .WIDTH(PageW),
      .DEPTH(SLOTS * SegmentPages)
  ) of_writes (
      .clk,
      .wr_en  (take),
      .wr_addr({slot[SlotW-1:0], next[4:0]}),
      .wr_data(free_number),
      .rd_addr({slot[SlotW-1:0], page}),
      .rd_data(number)
  );
  ram_1r1w #(
      .WIDTH(PageW),
      .DEPTH(SLOTS * SegmentPages / 2)
  ) even_pages (
      .clk,
      .wr_en  (take && !next[0]),
      .wr_addr({slot[SlotW-1:0], next[4:1]}),
      .wr_data(free_number),
      .rd_addr({rd_slot, even_index}),
      .rd_data(even_number)
  );
  ram_1r1w #(
      .WIDTH(PageW),
      .DEPTH(SLOTS * SegmentPages / 2)
  ) odd_pages (
      .clk,
      .wr_en  (take && next[0]),
      .wr_addr({slot[SlotW-1:0], next[4:1]}),
      .wr_data(free_number),
      .rd_addr({rd_slot, odd_index}),
      .rd_data(odd_number)
  );

  // ------------------------------------------------------------------ free list

  logic [PageW:0] filled_q;
  logic drop_valid_q, drop_odd_q, drop_end, give, unused_free_room;
  logic [PageW-1:0] given;
  logic [PageW:0] unused_free_level;
  assign ready   = filled_q[PageW];
  assign dropped = drop && drop_end;

  assign drop_end = drop_q == drop_count;
  always_ff @(posedge clk) begin
    if (!ready) filled_q <= filled_q + 1'b1;
    drop_valid_q <= drop && !drop_end;
    drop_odd_q   <= drop_q[0];
    give         <= !ready || drop_valid_q;
    given        <= !ready ? filled_q[PageW-1:0] : drop_odd_q ? odd_number : even_number;
    if (!drop) drop_q <= '0;
    else if (!drop_end) drop_q <= drop_q + 1'b1;
    if (rst) begin
      filled_q     <= '0;
      drop_valid_q <= 1'b0;
      give         <= 1'b0;
    end
  end

  fifo #(
      .WIDTH(PageW),
      .DEPTH(PAGES)
  ) free (
      .clk,
      .rst,
      .in_valid (give),
      .in_ready (unused_free_room),
      .in_data  (given),
      .out_valid(free_valid),
      .out_ready(take),
      .out_data (free_number),
      .level    (unused_free_level)
  );

  // ------------------------------------------------------------------ data: even and odd lines of 16 B

  logic odd_first;
  logic even_en, odd_en;
  logic [2:0] even_line, odd_line;
  logic [127:0] even_in, odd_in, even_out, odd_out;
  assign odd_first = wr_line[0];
  assign even_en   = wr_en && (!odd_first || wr_high);
  assign odd_en    = wr_en && (odd_first || wr_high);
  assign even_line = wr_line[3:1] + 3'(odd_first);
  assign odd_line  = wr_line[3:1];
  assign even_in   = odd_first ? wr_data[255:128] : wr_data[127:0];
  assign odd_in    = odd_first ? wr_data[127:0] : wr_data[255:128];

  logic [12:1] offset_q;
  logic [7:1] offset_q2;
  logic [4:1] offset_q3, offset_q4;
  logic [PageW-1:0] this_page_q, even_page_q, even_kept_q, odd_kept_q;
  logic [12:1] offset;
  logic direct, keep_q;
  logic [PageW-1:0] even_here, odd_here;
  assign direct    = rd.valid && rd.direct;
  assign offset    = direct ? rd.offset[12:1] : offset_q;
  assign even_here = direct ? even_kept_q : even_number;
  assign odd_here  = direct ? odd_kept_q : odd_number;

  ram_1r1w #(
      .WIDTH(128),
      .DEPTH(PAGES * 8)
  ) even_lines (
      .clk,
      .wr_en  (even_en),
      .wr_addr({wr_number, even_line}),
      .wr_data(even_in),
      .rd_addr({even_page_q, offset_q2[7:5] + 3'(offset_q2[4])}),
      .rd_data(even_out)
  );
  ram_1r1w #(
      .WIDTH(128),
      .DEPTH(PAGES * 8)
  ) odd_lines (
      .clk,
      .wr_en  (odd_en),
      .wr_addr({wr_number, odd_line}),
      .wr_data(odd_in),
      .rd_addr({this_page_q, offset_q2[7:5]}),
      .rd_data(odd_out)
  );

  // Registers behind each memory; the shift is in the reader's cycle.
  logic [127:0] even_q, odd_q;
  logic [255:0] lines;
  assign lines   = offset_q4[4] ? {even_q, odd_q} : {odd_q, even_q};
  assign rd_data = 128'(lines >> {offset_q4[3:1], 4'd0});
  always_ff @(posedge clk) begin
    offset_q    <= rd.offset[12:1];
    offset_q2   <= offset[7:1];
    keep_q      <= rd.valid && rd.keep;
    if (keep_q) even_kept_q <= even_number;
    if (keep_q) odd_kept_q <= odd_number;
    offset_q3   <= offset_q2[4:1];
    offset_q4   <= offset_q3;
    this_page_q <= offset[8] ? odd_here : even_here;
    even_page_q <= offset[8] ^ (offset[7:4] == '1) ? odd_here : even_here;
    even_q      <= even_out;
    odd_q       <= odd_out;
  end

  logic unused;
  assign unused = &{1'b0, unused_free_room, unused_free_level, rd.offset[0],
                    slot, drop_slot, rd.slot, offset[12:9]};

endmodule
