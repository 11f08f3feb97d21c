// SPDX-License-Identifier: SHL-2.1
// Store of the payloads of open frames: takes the DMA writes of the channels, page by page, until the frame
// is merged. A write without a slot or page passes to memory, to its place in the segment.
module merge_store
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_merge_pkg::*;
  import nanet_ttc_pkg::*;
#(
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
     * configuration, as in clop
     */
    input  logic [4:0]               log2_devices,
    input  logic [DEVICES-1:0][63:0] base_vaddr,
    input  logic [17:0]              buffer_units,
    input  ttc_stamp_t               ttc_stamp,
    output logic                     ready,         // the page memories are empty

    /*
     * writes of the channels; the address is a merge_place_t
     */
    input  dma_wr_req_t       s_wr_req,
    output dma_wr_rsp_t       s_wr_rsp,
    input  logic [DATA_W-1:0] s_wr_data,

    /*
     * writes that pass: translation, DMA write
     */
    output tlb_req_t          tlb_req,
    input  tlb_rsp_t          tlb_rsp,
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,
    output logic              untranslated,  // pulse: a write dropped for lack of a translation

    /*
     * a closed frame: its slot, and whether all its payloads are in pages; two cycles after the
     * index, `held` four, and three after its last write is done
     */
    input  logic [15:0]      closed_index,
    output logic             held,          // the slot belongs to this frame
    output logic [5:0]       slot,
    output logic             passed,        // a write of the frame passed
    output logic [3:0][5:0]  pages,         // of each board
    output logic [31:0]      first_period,  // TTC time of its first payload in a page
    input  logic             drop,          // held until dropped: returns the pages
    output logic             dropped,

    /*
     * reads, per board; offsets of direct ones
     */
    input  merge_read_t [3:0]        rd,
    input  logic [3:0][12:0]         direct_offset,
    output logic [3:0][127:0]        rd_data
);

  localparam int unsigned SlotW = $clog2(SLOTS);
  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;

  if (DATA_W != 256 || SLOTS < 16) begin : gen_check_width
    $fatal(1, "DATA_W must be 256, SLOTS at least 16 (%m)");
  end

  typedef enum logic [3:0] {
    StoreIdle,
    StoreLook,
    StoreCompare,
    StoreJudge,
    StoreWords,
    PassAddress,
    PassTranslate,
    PassTranslated,
    PassWords,
    PassDrop
  } state_e;

  state_e state_q;
  merge_place_t place_q;
  logic [15:0] index_q, left_q;
  logic [5:0] slot_q;
  logic [3:0] line_q;
  // Of the slot and page: used, by this frame, a write of it passed; pages known, exactly one page less; the
  // write begins a page, begins the segment; a page is free.
  logic used_here_q, same_q, passed_here_q, more_q, equal_q, page_begins_q, begins_q, room_q;
  // A page is taken in the cycle after the decision.
  logic known, claim, take, claim_q, taken_q;
  logic [3:0] take_q;
  logic [3:0] board_is, board_free, board_ready, board_drop_q, board_dropped, board_dropped_q;
  logic drop_safe;
  logic [7:0] tag_q;

  // ------------------------------------------------------------------ slots

  // A slot: whether it is used, whether a write of its frame passed, the upper bits of the frame's index, and
  // the pages of each board. After reset all slots are written once.
  localparam int unsigned MarkW = 16 - SlotW;
  typedef struct packed {
    logic             used;
    logic             passed;
    logic [MarkW-1:0] mark;
    logic [3:0][5:0]  count;
  } entry_t;

  logic [SlotW:0] swept_q;
  logic pass_q;  // a write of the frame of slot_q passes
  logic writes_entry, sets_entry, frees;
  logic [SlotW-1:0] closed_slot, looked_slot, entry_slot;
  logic [15:0] index_in;
  entry_t here, here_q, closed, closed_q, entry;
  logic [31:0] period;
  logic closed_used_q;
  // The memory is far from the boards. A frame is judged and dropped later.
  logic [MarkW-1:0] closed_mark_q;
  logic [3:0][5:0] drop_count_q;
  assign closed_slot = closed_index[SlotW-1:0];
  assign slot        = 6'(closed_slot);
  assign pages       = closed_q.count;
  assign passed      = closed_q.passed;
  assign looked_slot = state_q == StoreIdle ? index_in[SlotW-1:0] : slot_q[SlotW-1:0];
  // The slot of a dropped frame is freed in a cycle without another entry.
  assign sets_entry   = take_q != '0 || pass_q;
  assign frees        = dropped && held;
  assign writes_entry = sets_entry || frees || !swept_q[SlotW];
  assign entry_slot   = sets_entry ? slot_q[SlotW-1:0] : swept_q[SlotW] ? closed_slot : swept_q[SlotW-1:0];
  assign entry.used   = sets_entry;
  assign entry.passed = pass_q;
  assign entry.mark   = index_q[15:SlotW];
  // Both counts stand in registers before the decision: no memory's output is another one's input.
  logic [3:0][5:0] count_q, count_more_q;
  always_comb
    for (int b = 0; b < 4; b++)
      entry.count[b] = claim_q ? 6'(take_q[b]) : take_q[b] ? count_more_q[b] : count_q[b];
  always_ff @(posedge clk) begin
    here_q               <= here;
    for (int b = 0; b < 4; b++) begin
      count_q[b]      <= here_q.count[b];
      count_more_q[b] <= count_q[b] + 6'd1;
    end
    closed_q             <= closed;
    first_period         <= period;
    closed_used_q        <= closed_q.used;
    held                 <= closed_used_q && closed_mark_q == closed_index[15:SlotW];
    closed_mark_q        <= closed_q.mark;
    drop_count_q         <= closed_q.count;
    if (!swept_q[SlotW]) swept_q <= swept_q + 1'b1;
    if (rst) swept_q <= '0;
  end

  // Two copies, for the writes and for the closed frame. A word read in its write cycle: the next write looks
  // later, and the slot of another frame is not used before.
  ram_1r1w #(
      .WIDTH  ($bits(entry_t)),
      .DEPTH  (SLOTS),
      .CHECKED(1'b0),
      .BLOCK  (1'b1)
  ) slots_of_writes (
      .clk,
      .wr_en  (writes_entry),
      .wr_addr(entry_slot),
      .wr_data(entry),
      .rd_addr(looked_slot),
      .rd_data(here)
  );
  ram_1r1w #(
      .WIDTH  ($bits(entry_t)),
      .DEPTH  (SLOTS),
      .CHECKED(1'b0),
      .BLOCK  (1'b1)
  ) slots_of_closing (
      .clk,
      .wr_en  (writes_entry),
      .wr_addr(entry_slot),
      .wr_data(entry),
      .rd_addr(closed_slot),
      .rd_data(closed)
  );
  ram_1r1w #(
      .WIDTH  (32),
      .DEPTH  (SLOTS),
      .CHECKED(1'b0),
      .BLOCK  (1'b1)
  ) periods (
      .clk,
      .wr_en  (claim_q),
      .wr_addr(slot_q[SlotW-1:0]),
      .wr_data(ttc_stamp.timestamp),
      .rd_addr(closed_slot),
      .rd_data(period)
  );

  // ------------------------------------------------------------------ one write at a time

  merge_place_t place_in;
  assign place_in = s_wr_req.cmd.addr[39:0];
  assign index_in = DEVICES > 1 ? 16'(place_in.buffer << log2_devices) | 16'(place_in.device) :
                                  place_in.buffer;
  assign board_is = 4'd1 << place_q.board;

  logic [5:0] count_here;
  assign count_here = here_q.count[place_q.board];
  assign known = used_here_q && same_q && more_q;
  assign claim = state_q == StoreJudge && !used_here_q && begins_q && room_q;
  // The first write to a page begins with its first byte, unless an earlier one has passed.
  assign take  = claim || (state_q == StoreJudge && used_here_q && same_q && !passed_here_q && equal_q &&
                           page_begins_q && room_q);

  logic [33:0] product_q;
  logic [63:0] vaddr_q, paddr_q;
  logic done_room, done_valid;
  logic [7:0] done_tag;
  logic [5:0] unused_done_level;
  logic [7:0] passes_done_q;
  logic [4:0] done_writes, writes_q, writes;
  logic halves_q, high_q, half_ends;  // a write that crosses a page passes in halves of a word
  logic short_q;  // at most 16 B are left
  logic [12:0] page_end;

  assign half_ends           = high_q || short_q;
  assign s_wr_rsp.ready      = state_q == StoreWords || state_q == PassDrop ||
                               (state_q == PassWords && wr_rsp.ready && (!halves_q || half_ends));
  assign s_wr_rsp.done_valid = done_valid && passes_done_q >= 8'(done_writes);
  assign s_wr_rsp.done_tag   = done_tag;
  assign s_wr_rsp.done_error = 1'b0;
  assign writes              = writes_q + 5'(state_q == PassWords);

  assign tlb_req.valid = state_q == PassTranslate;
  assign tlb_req.vaddr = vaddr_q;
  assign wr_req.valid  = state_q == PassWords && s_wr_req.valid;
  assign wr_req.cmd    = '{addr: paddr_q, len: !halves_q ? s_wr_req.cmd.len :
                                               short_q ? left_q : 16'd16, tag: '0};
  assign wr_req.last   = s_wr_req.last || halves_q;
  assign wr_data       = high_q ? {128'd0, s_wr_data[255:128]} : s_wr_data;
  assign page_end      = 13'(vaddr_q[11:0]) + left_q[12:0];

  logic stored, dropping_this;
  assign stored = s_wr_req.valid && s_wr_rsp.ready && s_wr_req.last;
  // The pages of a slot are not extended while they are returned.
  assign dropping_this = drop && index_in[SlotW-1:0] == closed_slot;

  always_ff @(posedge clk) begin
    untranslated <= 1'b0;
    unique case (state_q)
      StoreIdle: begin
        place_q <= place_in;
        index_q <= index_in;
        slot_q  <= 6'(index_in[SlotW-1:0]);
        left_q  <= s_wr_req.cmd.len;
        short_q <= s_wr_req.cmd.len <= 16'd16;
        tag_q   <= s_wr_req.cmd.tag;
        writes_q <= '0;
        halves_q <= 1'b0;
        high_q   <= 1'b0;
        if (s_wr_req.valid && done_room && !dropping_this && ready) state_q <= StoreLook;
      end
      StoreLook: state_q <= StoreCompare;
      StoreCompare: begin
        used_here_q   <= here_q.used;
        passed_here_q <= here_q.passed;
        same_q        <= here_q.mark == index_q[15:SlotW];
        more_q        <= count_here > 6'(place_q.offset[12:8]);
        equal_q       <= count_here == 6'(place_q.offset[12:8]);
        page_begins_q <= place_q.offset[7:0] == 0;
        begins_q      <= place_q.offset == 0;
        room_q        <= board_free[place_q.board];
        state_q       <= StoreJudge;
      end
      StoreJudge: begin
        line_q  <= place_q.offset[7:4];
        taken_q <= take;
        state_q <= known || take ? StoreWords : PassAddress;
      end
      StoreWords: begin
        if (s_wr_req.valid) begin
          left_q  <= left_q - 16'd32;
          short_q <= left_q <= 16'd48;
          line_q  <= line_q + 4'd2;
          if (s_wr_req.last) state_q <= StoreIdle;
        end
      end
      PassAddress: begin
        vaddr_q <= base_vaddr[DeviceW'(place_q.device)] + {24'd0, product_q, 6'd0} +
                   64'd64 + {49'd0, place_q.board, place_q.offset};
        state_q <= PassTranslate;
      end
      PassTranslate: begin
        if (page_end > 13'd4096) halves_q <= 1'b1;
        if (tlb_rsp.ready) state_q <= PassTranslated;
      end
      PassTranslated: begin
        paddr_q <= tlb_rsp.resp_paddr;
        if (tlb_rsp.resp_valid) begin
          state_q      <= tlb_rsp.resp_ok ? PassWords : PassDrop;
          untranslated <= !tlb_rsp.resp_ok;
        end
      end
      PassWords: begin
        if (s_wr_req.valid && wr_rsp.ready) begin
          if (halves_q) begin
            high_q   <= !high_q;
            left_q   <= left_q - 16'd16;
            short_q  <= left_q <= 16'd32;
            vaddr_q  <= vaddr_q + 64'd16;
            writes_q <= writes_q + 1'b1;
            state_q  <= PassTranslate;
          end
          if (s_wr_req.last && (!halves_q || half_ends)) state_q <= StoreIdle;
        end
      end
      PassDrop: if (s_wr_req.valid && s_wr_req.last) state_q <= StoreIdle;
      default: state_q <= StoreIdle;
    endcase
    product_q <= 34'(place_q.buffer) * 34'(buffer_units);
    claim_q   <= claim;
    take_q    <= take ? board_is : '0;
    pass_q    <= state_q == StoreJudge && used_here_q && same_q && !known && !take;
    passes_done_q <= passes_done_q + 8'(wr_rsp.done_valid) - (s_wr_rsp.done_valid ? 8'(done_writes) : 8'd0);
    if (rst) begin
      state_q       <= StoreIdle;
      claim_q       <= 1'b0;
      take_q        <= '0;
      pass_q        <= 1'b0;
      passes_done_q <= '0;
      untranslated  <= 1'b0;
    end
  end

  // Completions in order of the writes: tag, and writes to memory.
  fifo #(
      .WIDTH(13),
      .DEPTH(32)
  ) completions (
      .clk,
      .rst,
      .in_valid (stored),
      .in_ready (done_room),
      .in_data  ({writes, tag_q}),
      .out_valid(done_valid),
      .out_ready(s_wr_rsp.done_valid),
      .out_data ({done_writes, done_tag}),
      .level    (unused_done_level)
  );

  // ------------------------------------------------------------------ pages of each board

  // 32 B are an even and an odd line in either order, or at the end the first one alone. Registers stand in
  // front of the memories, which lie far apart; the page numbers stand for two cycles more.
  logic word_in;
  logic [3:0] word_board_q;
  logic [1:0] line_written_q;
  logic [1:0][2:0] at_line_q;
  logic [1:0][127:0] line_data_q;
  assign word_in = state_q == StoreWords && s_wr_req.valid;
  always_ff @(posedge clk) begin
    word_board_q <= word_in ? board_is : '0;
    if (word_in) begin
      line_written_q <= !short_q ? 2'b11 : line_q[0] ? 2'b10 : 2'b01;
      at_line_q      <= {line_q[3:1], line_q[3:1] + 3'(line_q[0])};
      line_data_q    <= line_q[0] ? {s_wr_data[127:0], s_wr_data[255:128]} : s_wr_data;
    end
    if (rst) word_board_q <= '0;
  end

  for (genvar b = 0; b < 4; b++) begin : gen_board
    merge_pages #(
        .SLOTS(SLOTS),
        .PAGES(PAGES)
    ) board (
        .clk,
        .rst,
        .ready      (board_ready[b]),
        .slot       (slot_q),
        .page       (place_q.offset[12:8]),
        .free_valid (board_free[b]),
        .hold       (state_q == StoreJudge),
        .take       (take_q[b]),
        .next       (claim_q ? '0 : count_q[b][4:0]),
        .wr_en      (word_board_q[b]),
        .wr_taken   (taken_q),
        .wr_odd     (line_written_q),
        .wr_line    (at_line_q),
        .wr_data    (line_data_q),
        .rd         (rd[b]),
        .direct_offset(direct_offset[b]),
        .rd_data    (rd_data[b]),
        .drop       (board_drop_q[b]),
        .drop_slot  (slot),
        .drop_count (drop_count_q[b]),
        .dropped    (board_dropped[b])
    );
  end

  // The slot is free when all boards have returned their pages.
  assign drop_safe = state_q == StoreIdle || slot_q != slot;
  assign dropped   = drop && (!held || board_dropped_q == '1) && !sets_entry;
  assign ready     = board_ready == '1;
  always_ff @(posedge clk) begin
    board_drop_q    <= drop && held && drop_safe ? ~board_dropped_q : '0;
    board_dropped_q <= drop && held ? board_dropped_q | board_dropped : '0;
    if (rst) board_drop_q <= '0;
    if (rst) board_dropped_q <= '0;
  end

  logic unused;
  assign unused = &{1'b0, unused_done_level, ttc_stamp, place_q.spare, index_q, wr_rsp.done_tag,
                    wr_rsp.done_error, s_wr_req.cmd};

endmodule
