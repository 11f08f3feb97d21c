// SPDX-License-Identifier: SHL-2.1
// Sequence numbers of the boards in the two bursts that may be open: which came in, which are missing, which
// lie too far ahead. Free running with clop's steps: what is asked for in the step `read` is known three
// steps later, in `decide`, which says what becomes of it; the next `read` may be in the cycle after.
module clop_sequence
  import nanet_pkg::*;
#(
    // Sequence numbers a board may be ahead, or behind, of its newest; a power of two.
    parameter int unsigned WINDOW = 4096,
    // Frames that its frame may be ahead.
    parameter int unsigned FRAMES = 1024
) (
    input logic clk,
    input logic rst,

    /*
     * memory is cleared from outside after reset: 1024 words
     */
    input logic       clear,
    input logic [9:0] clear_addr,

    /*
     * a burst begins in this half: its boards are forgotten
     */
    input logic forget,
    input logic forget_half,

    /*
     * the request, steady from `read` to `decide`
     */
    input logic        half,
    input logic [1:0]  board,
    input logic [31:0] number,
    input logic [23:0] frame,
    input logic        started,     // the burst: an owed frame is known, or its SOB
    input logic [23:0] last_known,  // its newest frame, 0 if none

    /*
     * in `decide`
     */
    output logic replayed,
    output logic jump,
    output logic far_ahead,  // the frame is
    output logic watched,   // number 1 of a watched board
    output logic ordinary,

    /*
     * in `decide`: what becomes of it
     */
    input logic take,       // the number came in
    input logic admit,      // an ordinary packet of `frame`
    input logic asked,      // goes to the firmware
    input logic restart,    // its numbers begin anew
    input logic at_frame,   // an SOB: it is at frame 0, if at none yet
    input logic watch,
    input logic watch_flag,

    // sequence numbers that never came in, by board, over all bursts
    output logic [3:0][31:0] missing
);

  localparam int unsigned WindowW = $clog2(WINDOW);
  localparam int unsigned RingW = WindowW + 1;  // numbers of a board in memory: two windows
  localparam int unsigned WordW = RingW - 6;
  localparam int unsigned TagW = 32 - RingW;
  localparam logic signed [32:0] Window = 33'(WINDOW);
  localparam logic signed [25:0] Frames = 26'(FRAMES);
  localparam int unsigned EraW = 24;  // a board's beginnings

  if (2 ** WindowW != WINDOW || WordW != 7) begin : gen_check_window
    $fatal(1, "WINDOW must be 4096: the memory is cleared by 1024 words (%m)");
  end

  // Words of 64 numbers, with what they are words of: so nothing has to be cleared as numbers go on.
  typedef struct packed {
    logic [EraW-1:0] era;
    logic [TagW-1:0] tag;
    logic [63:0]     bits;
  } word_t;

  typedef struct packed {
    logic            started;
    logic [31:0]     newest;
    logic [31:0]     span;     // numbers from the first one that came in to the newest
    logic [EraW-1:0] era;
    logic            has_frame;
    logic [23:0]     frame;    // newest
    logic            ordinary;
    logic            watch;
  } board_t;

  // ------------------------------------------------------------------ read

  board_t boards[8];
  logic [7:0] valid_q;
  logic [2:0] sel;
  board_t board_q, next_q;
  logic next_we_q;
  logic [2:0] next_sel_q;
  word_t word_wr, word_rd;
  logic word_we;
  logic [9:0] word_wr_addr;

  assign sel = {half, board};

  ram_through #(
      .WIDTH($bits(word_t)),
      .DEPTH(1024)
  ) words (
      .clk,
      .wr_en  (word_we),
      .wr_addr(word_wr_addr),
      .wr_data(word_wr),
      .rd_addr({sel, number[6+:WordW]}),
      .rd_data(word_rd)
  );

  always_ff @(posedge clk) begin
    board_q <= next_we_q && next_sel_q == sel ? next_q : valid_q[sel] ? boards[sel] : '0;
    if (next_we_q) boards[next_sel_q] <= next_q;
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

  // ------------------------------------------------------------------ judge

  logic ahead_some_q, ahead_far_q, behind_far_q, frame_far_q, match_q, bit_q, newer_frame_q;
  logic [31:0] behind_q, sum_q;
  logic [63:0] bits_q;

  always_ff @(posedge clk) begin
    ahead_some_q  <= ahead_q > 0;
    ahead_far_q   <= ahead_q > Window;
    behind_far_q  <= ahead_q <= -Window;
    frame_far_q   <= reference_q && frame_ahead_q > Frames;
    newer_frame_q <= !board_q.has_frame || frame_ahead_q > 0;
    match_q       <= board_q.started && word_rd.era == board_q.era && word_rd.tag == number[RingW+:TagW];
    bit_q         <= word_rd.bits[number[5:0]];
    bits_q        <= word_rd.bits;
    behind_q      <= 32'(-ahead_q);
    sum_q         <= board_q.span + ahead_q[31:0];
  end

  // ------------------------------------------------------------------ weigh

  logic [EraW-1:0] era_q;
  logic [63:0] bits_next_q;
  logic [31:0] span_next_q, gained_q;  // gained: numbers that are missing more than before, or -1
  logic newest_next_q, newer_q;

  always_ff @(posedge clk) begin
    replayed      <= board_q.started && (behind_far_q || (!ahead_some_q && match_q && bit_q));
    jump          <= board_q.started && ahead_far_q;
    far_ahead     <= frame_far_q;
    watched       <= board_q.watch && one_q;
    ordinary      <= board_q.ordinary;
    newer_q       <= newer_frame_q;
    bits_next_q   <= (match_q ? bits_q : '0) | 64'd1 << number[5:0];
    newest_next_q <= !board_q.started || ahead_some_q;
    if (!board_q.started) begin
      span_next_q <= 32'd1;
      gained_q    <= '0;
    end else if (ahead_some_q) begin
      span_next_q <= sum_q;
      gained_q    <= ahead_q[31:0] - 32'd1;
    end else if (behind_q >= board_q.span) begin
      span_next_q <= behind_q + 32'd1;
      gained_q    <= behind_q - board_q.span;
    end else begin
      span_next_q <= board_q.span;
      gained_q    <= '1;
    end
  end

  // ------------------------------------------------------------------ decide

  logic [1:0] gained_board_q;
  logic gain_q;
  logic [31:0] gain_by_q;

  always_ff @(posedge clk) begin
    next_we_q  <= take || admit || asked || restart || at_frame || watch;
    next_sel_q <= sel;
    next_q     <= board_q;
    if (take) begin
      next_q.started <= 1'b1;
      if (newest_next_q) next_q.newest <= number;
      next_q.span <= span_next_q;
      if (!board_q.started) next_q.era <= era_q;
    end
    if (admit) begin
      next_q.ordinary  <= 1'b1;
      next_q.watch     <= 1'b0;
      next_q.has_frame <= 1'b1;
      if (newer_q) next_q.frame <= frame;
    end
    if (asked) next_q.ordinary <= 1'b0;
    if (restart) next_q.started <= 1'b0;
    if (at_frame) begin
      next_q.has_frame <= 1'b1;
      if (!board_q.has_frame) next_q.frame <= '0;
    end
    if (watch) next_q.watch <= watch_flag;
    if (take && !board_q.started) era_q <= era_q + 1'b1;

    word_we      <= take;
    word_wr_addr <= {sel, number[6+:WordW]};
    word_wr      <= '{era: board_q.started ? board_q.era : era_q, tag: number[RingW+:TagW],
                      bits: bits_next_q};
    if (clear) begin
      word_we      <= 1'b1;
      word_wr_addr <= clear_addr;
      word_wr      <= '0;
    end

    gain_q         <= take;
    gained_board_q <= board;
    gain_by_q      <= gained_q;
    if (gain_q) missing[gained_board_q] <= missing[gained_board_q] + gain_by_q;

    if (next_we_q) valid_q[next_sel_q] <= 1'b1;
    if (forget) valid_q[{forget_half, 2'd0}+:4] <= '0;
    if (rst) begin
      next_we_q <= 1'b0;
      gain_q    <= 1'b0;
      valid_q   <= '0;
      era_q     <= EraW'(1);
      missing   <= '0;
    end
  end

endmodule
