// SPDX-License-Identifier: SHL-2.1
// Page memory of one board: pages of 256 B, page table of the open frames, free list. Reads 16 B at any even
// offset per cycle, seven cycles later, or three where no read was valid four cycles before.
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

    input logic [5:0] slot,
    input logic [4:0] page,

    /*
     * a free page: held, and page `next` of the slot with `take` a cycle later; at most every third cycle
     */
    output logic       free_valid,
    input  logic       hold,
    input  logic       take,
    input  logic [4:0] next,

    /*
     * lines of 16 B, even and odd ones; of the page held last, or of `page`, which has stood for two cycles
     */
    input logic              wr_en,
    input logic              wr_taken,
    input logic [1:0]        wr_odd,    // 0: the even line is written, 1: the odd one
    input logic [1:0][2:0]   wr_line,
    input logic [1:0][127:0] wr_data,

    /*
     * read; offset of a direct read
     */
    input  merge_read_t  rd,
    input  logic [12:0]  direct_offset,
    output logic [127:0] rd_data,

    /*
     * returns the pages of a slot; no reads meanwhile
     */
    input  logic       drop,        // held until dropped
    input  logic [5:0] drop_slot,
    input  logic [5:0] drop_count,  // pages of that slot
    output logic       dropped
);

  localparam int unsigned PageW = $clog2(PAGES);
  localparam int unsigned SlotW = $clog2(SLOTS);
  localparam int unsigned SegmentPages = SegmentBytes / PageBytes;

  if (SLOTS > 64 || 2 ** SlotW != SLOTS || PAGES < 64 || 2 ** PageW != PAGES) begin : gen_check_sizes
    $fatal(1, "SLOTS and PAGES must be powers of two, at most 64 and at least 64 (%m)");
  end

  // ------------------------------------------------------------------ page table

  // Even and odd pages in separate memories, so that a page and the next one are found in one cycle. A third
  // copy serves the writes. A frame is read when all its writes have ended.
  logic [4:0] rd_page;
  logic [5:0] drop_q;
  logic [SlotW-1:0] rd_slot;
  logic [3:0] even_index, odd_index;
  logic [SlotW+3:0] even_at_q, odd_at_q;  // registers before the memories
  // Registers behind each memory.
  logic [PageW-1:0] even_number, odd_number, number, even_number_q, odd_number_q, number_q;
  logic [PageW-1:0] free_number, taken_q, wr_number;
  assign wr_number = wr_taken ? taken_q : number_q;
  always_ff @(posedge clk) begin
    even_number_q <= even_number;
    odd_number_q  <= odd_number;
    number_q      <= number;
    even_at_q     <= {rd_slot, even_index};
    odd_at_q      <= {rd_slot, odd_index};
    if (hold) taken_q <= free_number;
  end
  assign rd_page    = drop ? drop_q[4:0] : rd.offset[12:8];
  assign rd_slot    = drop ? drop_slot[SlotW-1:0] : rd.slot[SlotW-1:0];
  assign even_index = 4'((6'(rd_page) + 6'd1) >> 1);
  assign odd_index  = rd_page[4:1];

  ram_1r1w #(
      .WIDTH  (PageW),
      .DEPTH  (SLOTS * SegmentPages),
      .CHECKED(1'b0)
  ) of_writes (
      .clk,
      .wr_en  (take),
      .wr_addr({slot[SlotW-1:0], next}),
      .wr_data(free_number),
      .rd_addr({slot[SlotW-1:0], page}),
      .rd_data(number)
  );
  ram_1r1w #(
      .WIDTH  (PageW),
      .DEPTH  (SLOTS * SegmentPages / 2),
      .CHECKED(1'b0)
  ) even_pages (
      .clk,
      .wr_en  (take && !next[0]),
      .wr_addr({slot[SlotW-1:0], next[4:1]}),
      .wr_data(free_number),
      .rd_addr(even_at_q),
      .rd_data(even_number)
  );
  ram_1r1w #(
      .WIDTH  (PageW),
      .DEPTH  (SLOTS * SegmentPages / 2),
      .CHECKED(1'b0)
  ) odd_pages (
      .clk,
      .wr_en  (take && next[0]),
      .wr_addr({slot[SlotW-1:0], next[4:1]}),
      .wr_data(free_number),
      .rd_addr(odd_at_q),
      .rd_data(odd_number)
  );

  // ------------------------------------------------------------------ free list

  logic [PageW:0] filled_q;
  logic drop_end, give;
  logic [PageW:0] put_q, got_q;  // of the list, which has room for all pages
  logic some_q;
  logic [PageW-1:0] free_read;
  logic [2:0] drop_valid_q, drop_odd_q;  // of addresses, memories' outputs, registers behind them
  logic [PageW-1:0] given;
  assign ready   = filled_q[PageW];
  assign dropped = drop && drop_end;

  assign drop_end = drop_q == drop_count;
  always_ff @(posedge clk) begin
    if (!ready) filled_q <= filled_q + 1'b1;
    drop_valid_q <= {drop_valid_q[1:0], drop && !drop_end};
    drop_odd_q   <= {drop_odd_q[1:0], drop_q[0]};
    give         <= !ready || drop_valid_q[2];
    given        <= !ready ? filled_q[PageW-1:0] : drop_odd_q[2] ? odd_number_q : even_number_q;
    if (!drop) drop_q <= '0;
    else if (!drop_end) drop_q <= drop_q + 1'b1;
    if (give) put_q <= put_q + 1'b1;
    if (take) got_q <= got_q + 1'b1;
    // As long as the word takes through the memory and the register behind it.
    some_q      <= put_q != got_q;
    free_valid  <= some_q;
    free_number <= free_read;
    if (rst) begin
      filled_q     <= '0;
      drop_valid_q <= '0;
      give         <= 1'b0;
      put_q        <= '0;
      got_q        <= '0;
      some_q       <= 1'b0;
      free_valid   <= 1'b0;
    end
  end

  ram_1r1w #(
      .WIDTH  (PageW),
      .DEPTH  (PAGES),
      .CHECKED(1'b0),
      .BLOCK  (1'b1)
  ) free_list (
      .clk,
      .wr_en  (give),
      .wr_addr(put_q[PageW-1:0]),
      .wr_data(given),
      .rd_addr(got_q[PageW-1:0]),
      .rd_data(free_read)
  );

  // ------------------------------------------------------------------ data: even and odd lines of 16 B

  logic [127:0] even_out, odd_out;

  // The even line after line 15 is in the next page.
  logic [8:1] offset_q, offset_q1, offset_q2;
  logic [7:1] offset_q3, offset;
  logic [2:0] even_at_q3, even_at;
  logic [4:1] offset_q4;
  logic [3:1] offset_q5;
  logic [3:0] valid_q, keep_q;
  logic [PageW-1:0] this_q, next_q, of_even_q, this_kept_q, next_kept_q, this_page, even_page;
  assign offset    = valid_q[3] ? offset_q3 : direct_offset[7:1];
  assign even_at   = valid_q[3] ? even_at_q3 : direct_offset[7:5] + 3'(direct_offset[4]);
  assign this_page = valid_q[3] ? this_q : this_kept_q;
  assign even_page = valid_q[3] ? of_even_q : direct_offset[7:4] == '1 ? next_kept_q : this_kept_q;

  ram_1r1w #(
      .WIDTH  (128),
      .DEPTH  (PAGES * 8),
      .CHECKED(1'b0)
  ) even_lines (
      .clk,
      .wr_en  (wr_en && wr_odd[0]),
      .wr_addr({wr_number, wr_line[0]}),
      .wr_data(wr_data[0]),
      .rd_addr({even_page, even_at}),
      .rd_data(even_out)
  );
  ram_1r1w #(
      .WIDTH  (128),
      .DEPTH  (PAGES * 8),
      .CHECKED(1'b0)
  ) odd_lines (
      .clk,
      .wr_en  (wr_en && wr_odd[1]),
      .wr_addr({wr_number, wr_line[1]}),
      .wr_data(wr_data[1]),
      .rd_addr({this_page, offset[7:5]}),
      .rd_data(odd_out)
  );

  // Registers behind each memory and behind the selection. 16 bit words of the first line from the offset on,
  // then those of the other one: a word of one of both at each place, rotated.
  logic [7:0][15:0] even_q, odd_q, taken, by_four, by_two;
  logic [7:0] word_odd_q;
  always_comb begin
    for (int i = 0; i < 8; i++) taken[i] = word_odd_q[i] ? odd_q[i] : even_q[i];
    for (int i = 0; i < 8; i++) by_four[i] = offset_q5[3] ? taken[3'(i)+3'd4] : taken[i];
    for (int i = 0; i < 8; i++) by_two[i] = offset_q5[2] ? by_four[3'(i)+3'd2] : by_four[i];
  end
  always_ff @(posedge clk)
    for (int i = 0; i < 8; i++) rd_data[16*i+:16] <= offset_q5[1] ? by_two[3'(i)+3'd1] : by_two[i];
  always_ff @(posedge clk) begin
    offset_q   <= rd.offset[8:1];
    offset_q1  <= offset_q;
    offset_q2  <= offset_q1;
    valid_q    <= {valid_q[2:0], rd.valid};
    keep_q     <= {keep_q[2:0], rd.valid && rd.keep};
    this_q     <= offset_q2[8] ? odd_number_q : even_number_q;
    next_q     <= offset_q2[8] ? even_number_q : odd_number_q;
    of_even_q  <= offset_q2[8] ^ (offset_q2[7:4] == '1) ? odd_number_q : even_number_q;
    if (keep_q[3]) this_kept_q <= this_q;
    if (keep_q[3]) next_kept_q <= next_q;
    offset_q3  <= offset_q2[7:1];
    even_at_q3 <= offset_q2[7:5] + 3'(offset_q2[4]);
    offset_q4  <= offset[4:1];
    offset_q5  <= offset_q4[3:1];
    for (int i = 0; i < 8; i++) word_odd_q[i] <= offset_q4[4] ^ (4'(i) < {1'b0, offset_q4[3:1]});
    even_q     <= even_out;
    odd_q      <= odd_out;
  end

  logic unused;
  assign unused = &{1'b0, rd.offset[0],
                    slot, drop_slot, rd.slot, rd.direct, direct_offset};

endmodule
