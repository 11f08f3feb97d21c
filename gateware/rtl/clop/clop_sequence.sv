// SPDX-License-Identifier: SHL-2.1
// Sequence-number tracker of the boards, for both open bursts: received, missing and out-of-window
// numbers. Free running with clop: an access in step `read` gives its result three steps later, in
// `classify`, which commits the update. The next `read` may follow in the cycle after.
module clop_sequence
  import nanet_pkg::*;
#(
    // Window of sequence numbers around a board's newest number; a power of two.
    parameter int unsigned WINDOW = 4096,
    // Maximum jump of a board's frame number.
    parameter int unsigned FRAMES = 1024
) (
    input logic clk,
    input logic rst,

    /*
     * external clearing of the memory after reset: 1024 words
     */
    input logic       clear,
    input logic [9:0] clear_addr,

    /*
     * a burst begins in this half: its boards are cleared
     */
    input logic flush,
    input logic flush_half,

    /*
     * request, steady from `read` to `classify`
     */
    input logic        half,
    input logic [1:0]  board,
    input logic [31:0] number,
    input logic [23:0] frame,
    input logic        started,     // a frame or the SOB of the burst was seen
    input logic [23:0] last_known,  // newest frame of the burst, 0 if none

    /*
     * in `classify`
     */
    output logic replayed,
    output logic jump,
    output logic far_ahead,  // the frame is too far ahead
    output logic watched,    // number 1 of a watched board
    output logic ordinary,

    /*
     * in `classify`: outcome
     */
    input logic take,        // the number was received
    input logic admit,       // an ordinary packet of `frame` was admitted
    input logic escalated,   // the packet goes to the firmware
    input logic restart,     // the board's numbers restart
    input logic at_frame,    // SOB: the board is at frame 0, unless it has a frame
    input logic watch,
    input logic watch_flag,

    // Missing sequence numbers per board, over all bursts. The high word follows the low word by one cycle.
    output logic [3:0][63:0] missing
);

  localparam int unsigned WindowW = $clog2(WINDOW);
  localparam int unsigned RingW = WindowW + 1;  // numbers kept per board: two windows
  localparam int unsigned WordW = RingW - 6;
  localparam int unsigned TagW = 32 - RingW;
  localparam logic signed [32:0] Window = 33'(WINDOW);
  localparam logic signed [25:0] Frames = 26'(FRAMES);
  localparam int unsigned EraW = 24;  // restart counter of a board

  if (2 ** WindowW != WINDOW || WordW != 7) begin : gen_check_window
    $fatal(1, "WINDOW must be 4096: the memory is cleared by 1024 words (%m)");
  end

  // Words of 64 numbers, tagged with their range; stale words need no clearing.
  typedef struct packed {
    logic [EraW-1:0] era;
    logic [TagW-1:0] tag;
    logic [63:0]     bits;
  } word_t;

  typedef struct packed {
    logic            started;
    logic [31:0]     newest;
    logic [31:0]     reach;    // distance from the first to the newest received number
    logic [EraW-1:0] era;
    logic            has_frame;
    logic [23:0]     frame;    // newest frame
    logic            ordinary;
    logic            watch;
  } board_t;

  // ------------------------------------------------------------------ read

  board_t boards[8];
  logic [7:0] valid_q;
  logic [2:0] sel, sel_q;
  board_t board_q, next;
  logic update_q;  // the result of `classify` is applied one cycle later, in the next `read`
  logic [31:0] number_q;
  logic [23:0] frame_q;
  word_t word_wr, word_rd;
  logic word_we;
  logic [9:0] word_wr_addr;

  assign sel = {half, board};

  ram_bypass #(
      .WIDTH($bits(word_t)),
      .DEPTH(1024),
      .LATE (1'b1)
  ) words (
      .clk,
      .wr_en  (word_we),
      .wr_addr(word_wr_addr),
      .wr_data(word_wr),
      .rd_addr({sel, number[6+:WordW]}),
      .rd_data(word_rd)
  );

  always_ff @(posedge clk) begin
    sel_q    <= sel;
    number_q <= number;
    frame_q  <= frame;
    board_q  <= update_q && sel_q == sel ? next : valid_q[sel] ? boards[sel] : '0;
    if (update_q) boards[sel_q] <= next;
  end

  // ------------------------------------------------------------------ wait: distances

  logic signed [32:0] ahead_q;
  logic signed [25:0] frame_ahead_q;
  logic reference_q, one_q;

  always_ff @(posedge clk) begin
    ahead_q       <= signed'({1'b0, number}) - signed'({1'b0, board_q.newest});
    frame_ahead_q <= signed'({2'b0, frame}) - signed'({2'b0, board_q.has_frame ? board_q.frame : last_known});
    reference_q   <= board_q.has_frame || started;
    one_q         <= number == 32'd1;
  end

  // ------------------------------------------------------------------ capture: tag comparison

  logic ahead_some_q, ahead_far_q, behind_far_q, frame_far_q, newer_frame_q;
  logic [(EraW+TagW+3)/4-1:0] same_q;  // equality of 4-bit groups of era and tag
  logic [31:0] behind_q, sum_q;
  logic [63:0] bits_q;

  always_ff @(posedge clk) begin
    ahead_some_q  <= ahead_q > 0;
    ahead_far_q   <= ahead_q > Window;
    behind_far_q  <= ahead_q <= -Window;
    frame_far_q   <= reference_q && frame_ahead_q > Frames;
    newer_frame_q <= !board_q.has_frame || frame_ahead_q > 0;
    same_q        <= same_by_four({word_rd.era, word_rd.tag}, {board_q.era, number[RingW+:TagW]});
    bits_q        <= word_rd.bits;
    behind_q      <= 32'(-ahead_q);
    sum_q         <= board_q.reach + ahead_q[31:0];
  end

  function automatic logic [(EraW+TagW+3)/4-1:0] same_by_four(input logic [EraW+TagW-1:0] a,
                                                              input logic [EraW+TagW-1:0] b);
    logic [(EraW+TagW+3)/4*4-1:0] differ;
    differ = '0;
    differ[EraW+TagW-1:0] = a ^ b;
    for (int unsigned i = 0; i < (EraW + TagW + 3) / 4; i++) same_by_four[i] = differ[4*i+:4] == '0;
  endfunction

  // ------------------------------------------------------------------ compare: classification of the number

  logic [EraW-1:0] era_q;
  logic match, match_q;
  logic [31:0] reach_next_q, gained_q;  // gained: change of the number of missing packets, -1 or more
  logic fell_q;  // change is -1
  logic newest_next_q, newer_q;

  assign match = board_q.started && same_q == '1;

  always_ff @(posedge clk) begin
    replayed      <= board_q.started && (behind_far_q || (!ahead_some_q && match && bits_q[number[5:0]]));
    jump          <= board_q.started && ahead_far_q;
    far_ahead     <= frame_far_q;
    watched       <= board_q.watch && one_q;
    ordinary      <= board_q.ordinary;
    newer_q       <= newer_frame_q;
    match_q       <= match;
    newest_next_q <= !board_q.started || ahead_some_q;
    fell_q        <= 1'b0;
    if (!board_q.started) begin
      reach_next_q <= '0;
      gained_q     <= '0;
    end else if (ahead_some_q) begin
      reach_next_q <= sum_q;
      gained_q     <= ahead_q[31:0] - 32'd1;
    end else if (behind_q > board_q.reach) begin  // older than the first number
      reach_next_q <= behind_q;
      gained_q     <= behind_q + ~board_q.reach;
    end else begin
      reach_next_q <= board_q.reach;
      gained_q     <= '1;
      fell_q       <= 1'b1;
    end
  end

  // ---------------------------------------------------------------- classify, and the update one cycle later

  logic take_q, admit_q, asked_q, restart_q, at_frame_q, watch_q, watch_flag_q;
  logic over_q, under_q;  // carry and borrow of the low word of `missing`
  logic [1:0] moved_q;
  logic [32:0] total;

  assign total = {1'b0, missing[sel_q[1:0]][31:0]} + {1'b0, gained_q};

  always_comb begin
    next = board_q;
    if (take_q) begin
      next.started = 1'b1;
      if (newest_next_q) next.newest = number_q;
      next.reach = reach_next_q;
      if (!board_q.started) next.era = era_q;
    end
    if (admit_q) begin
      next.ordinary  = 1'b1;
      next.watch     = 1'b0;
      next.has_frame = 1'b1;
      if (newer_q) next.frame = frame_q;
    end
    if (asked_q) next.ordinary = 1'b0;
    if (restart_q) next.started = 1'b0;
    if (at_frame_q) begin
      next.has_frame = 1'b1;
      if (!board_q.has_frame) next.frame = '0;
    end
    if (watch_q) next.watch = watch_flag_q;
  end

  // Written one cycle after the next read; the memory bypass covers this case.
  always_ff @(posedge clk) begin
    word_we      <= clear || take_q;
    word_wr_addr <= clear ? clear_addr : {sel_q, number_q[6+:WordW]};
    word_wr      <= '{era: board_q.started ? board_q.era : era_q, tag: number_q[RingW+:TagW],
                      bits: (match_q ? bits_q : '0) | 64'd1 << number_q[5:0]};
    if (clear) word_wr <= '0;
  end

  always_ff @(posedge clk) begin
    update_q     <= take || admit || escalated || restart || at_frame || watch;
    take_q       <= take;
    admit_q      <= admit;
    asked_q      <= escalated;
    restart_q    <= restart;
    at_frame_q   <= at_frame;
    watch_q      <= watch;
    watch_flag_q <= watch_flag;
    if (take_q && !board_q.started) era_q <= era_q + 1'b1;
    if (take_q) missing[sel_q[1:0]][31:0] <= total[31:0];
    over_q  <= take_q && !fell_q && total[32];
    under_q <= take_q && fell_q && !total[32];
    moved_q <= sel_q[1:0];
    if (over_q || under_q) missing[moved_q][63:32] <= missing[moved_q][63:32] + {{31{under_q}}, 1'b1};
    if (update_q) valid_q[sel_q] <= 1'b1;
    if (flush) valid_q[{flush_half, 2'd0}+:4] <= '0;
    if (rst) begin
      update_q <= 1'b0;
      take_q   <= 1'b0;
      over_q   <= 1'b0;
      under_q  <= 1'b0;
      valid_q  <= '0;
      era_q    <= EraW'(1);
      missing  <= '0;
    end
  end

endmodule
