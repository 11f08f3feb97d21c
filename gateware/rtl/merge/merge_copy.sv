// SPDX-License-Identifier: SHL-2.1
// Copier of hits. Reads those of each event from the store, up to eight a cycle, of one board or of two;
// packs them into words of 256 bits and makes a row per event. Also copies a segment as it is.
module merge_copy
  import nanet_merge_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * a frame or a segment begins
     */
    input logic         start,
    input logic [5:0]   slot,
    input logic         segment,   // copy one segment instead of events
    input logic [1:0]   board,
    input logic [11:0]  units,     // of the segment, 16 B each

    /*
     * events
     */
    input  logic         in_valid,
    output logic         in_ready,
    input  merge_event_t in,

    /*
     * store; data seven cycles later, never refused
     */
    output merge_read_t [3:0]        rd,
    input  logic [3:0][127:0]        rd_data,

    /*
     * words: 0 hits, 1 rows; `room` for eight of each
     */
    output logic [1:0]        out_valid,
    output logic [1:0][255:0] out_data,
    input  logic              room,
    input  logic              flush,     // pulse: the last partial words
    output logic              idle,      // no words on their way
    output logic [16:0]       hits       // 16 bit words so far
);

  // ------------------------------------------------------------------ fragments

  // A board, and the one copied with it.
  typedef struct packed {
    logic [1:0]       board;
    logic [12:0]      at;
    logic [12:0]      left;    // hits
    logic [1:0]       mate;
    logic [12:0]      mate_at;
    logic [2:0]       mate_hits;  // 0: no mate
    logic [3:0]       reads;   // boards
    logic             last;    // of the event
    logic [15:0]      opened;
    logic [3:0]       boards;
    logic             truncated;
    logic [3:0][5:0]  hits;
    logic [3:0][7:0]  delay;
  } fragment_t;

  function automatic logic at_most_one(input logic [3:0] boards);
    return (boards & (boards - 4'd1)) == '0;
  endfunction

  function automatic logic together(input logic [5:0] one, input logic [5:0] other);
    return one != 0 && other != 0 && 7'(one) + 7'(other) <= 7'd8;
  endfunction

  // Plan: in order of the boards, one with hits joins the one before it, unless that has joined another.
  merge_event_t plan_q;
  logic plan_valid_q, plan_ready;
  logic pair01_q, pair02_q, pair03_q, pair12_q, pair13_q, pair23_q;
  logic [3:0] some_q, joins, mated;
  logic [2:0][1:0] mate;
  assign in_ready = !plan_valid_q || plan_ready;

  always_ff @(posedge clk) begin
    if (in_ready) begin
      plan_q       <= in;
      plan_valid_q <= in_valid;
      for (int b = 0; b < 4; b++) some_q[b] <= in.hits[b] != 0;
      pair01_q <= together(in.hits[0], in.hits[1]);
      pair02_q <= together(in.hits[0], in.hits[2]);
      pair03_q <= together(in.hits[0], in.hits[3]);
      pair12_q <= together(in.hits[1], in.hits[2]);
      pair13_q <= together(in.hits[1], in.hits[3]);
      pair23_q <= together(in.hits[2], in.hits[3]);
    end
    if (rst) plan_valid_q <= 1'b0;
  end

  always_comb begin
    joins[0] = 1'b0;
    joins[1] = pair01_q;
    joins[2] = some_q[1] ? pair12_q && !joins[1] : pair02_q;
    joins[3] = some_q[2] ? pair23_q && !joins[2] : some_q[1] ? pair13_q && !joins[1] : pair03_q;
    mate[0]  = some_q[1] ? 2'd1 : some_q[2] ? 2'd2 : 2'd3;
    mate[1]  = some_q[2] ? 2'd2 : 2'd3;
    mate[2]  = 2'd3;
    mated[0] = joins[mate[0]];
    mated[1] = joins[mate[1]];
    mated[2] = joins[3];
    mated[3] = 1'b0;
  end

  merge_event_t event_q;
  logic event_valid_q;
  logic [3:0] rest_q, rest_after;  // boards with hits that join no other
  logic [1:0] pick;
  logic [3:0] short_q;  // boards with one chunk
  logic [3:0][1:0] mate_q;
  logic [3:0][12:0] mate_at_q;
  logic [3:0][2:0] mate_hits_q;
  // Computed with the registers that they follow from: the fragment's last chunk, the event's last fragment.
  logic ends_q, single_q;
  logic fragment_valid_q, fragment_first_q, take_fragment, issue, room_q;
  fragment_t fragment_q, fragment_in;
  logic segment_q;
  logic [5:0] slot_q;

  always_comb begin
    pick       = rest_q[0] ? 2'd0 : rest_q[1] ? 2'd1 : rest_q[2] ? 2'd2 : 2'd3;
    rest_after = rest_q & ~(4'd1 << pick);
    fragment_in = '{board: pick, at: event_q.at[pick], left: rest_q == 0 ? '0 : 13'(event_q.hits[pick]),
                    mate: mate_q[pick], mate_at: mate_at_q[pick], mate_hits: mate_hits_q[pick],
                    reads: '0, last: single_q, opened: event_q.opened, boards: event_q.boards,
                    truncated: event_q.truncated, hits: event_q.hits, delay: event_q.delay};
    if (rest_q != 0) fragment_in.reads[pick] = 1'b1;
    if (mate_hits_q[pick] != 0) fragment_in.reads[mate_q[pick]] = 1'b1;
  end
  assign issue         = fragment_valid_q && room_q;
  assign take_fragment = !fragment_valid_q || (room_q && ends_q);
  assign plan_ready    = !event_valid_q || (take_fragment && single_q);

  always_ff @(posedge clk) begin
    room_q <= room;  // up to 14 chunks are on their way: seven words of each
    if (plan_ready) begin
      event_q       <= plan_q;
      rest_q        <= some_q & ~joins;
      single_q      <= at_most_one(some_q & ~joins);
      event_valid_q <= plan_valid_q;
      for (int b = 0; b < 4; b++) short_q[b] <= plan_q.hits[b] <= 6'd8;
      mate_q      <= {2'd0, mate};
      mate_at_q   <= '0;
      mate_hits_q <= '0;
      for (int b = 0; b < 3; b++) begin
        mate_at_q[b] <= plan_q.at[mate[b]];
        if (mated[b]) mate_hits_q[b] <= plan_q.hits[mate[b]][2:0];
      end
    end else if (take_fragment) begin
      rest_q   <= rest_after;
      single_q <= at_most_one(rest_after);
    end
    if (take_fragment) begin
      fragment_q       <= fragment_in;
      fragment_valid_q <= event_valid_q;
      fragment_first_q <= 1'b1;
      ends_q           <= rest_q == 0 || short_q[pick];
    end else if (issue) begin
      fragment_q.at    <= fragment_q.at + 13'd16;
      fragment_q.left  <= fragment_q.left - 13'd8;
      fragment_first_q <= 1'b0;
      ends_q           <= fragment_q.left <= 13'd16;
    end
    if (start) begin
      slot_q    <= slot;
      segment_q <= segment;
      if (segment) begin
        fragment_valid_q     <= units != 0;
        fragment_first_q     <= 1'b1;
        fragment_q.board     <= board;
        fragment_q.reads     <= 4'd1 << board;
        fragment_q.mate_hits <= '0;
        fragment_q.at        <= '0;
        fragment_q.left      <= {units[9:0], 3'd0};
        ends_q               <= 1'b0;  // an empty chunk follows a single one
        fragment_q.last      <= 1'b1;
      end
    end
    if (rst) begin
      event_valid_q    <= 1'b0;
      fragment_valid_q <= 1'b0;
    end
  end

  always_comb begin
    for (int b = 0; b < 4; b++) begin
      rd[b].valid  = issue && fragment_q.reads[b];
      rd[b].keep   = 1'b0;
      rd[b].direct = 1'b0;
      rd[b].slot   = slot_q;
      rd[b].offset = fragment_q.mate_hits != 0 && fragment_q.mate == 2'(b) ? fragment_q.mate_at :
                                                                             fragment_q.at;
    end
  end

  // ------------------------------------------------------------------ chunks of up to eight hits

  typedef struct packed {
    logic             valid;
    logic [1:0]       board;
    logic [3:0]       hits;
    logic [1:0]       mate;
    logic [2:0]       mate_hits;
    logic [3:0]       all;     // hits of both
    logic             first;   // of its fragment
    logic             last;    // of its event
    logic [15:0]      opened;
    logic [3:0]       boards;
    logic             truncated;
    logic [3:0][5:0]  counts;
    logic [3:0][7:0]  delay;
  } chunk_t;

  chunk_t [8:0] chunk_q;  // 6: beside the store's data, 8: beside words_q
  logic [3:0] hits_here;
  assign hits_here = fragment_q.left >= 13'd8 ? 4'd8 : fragment_q.left[3:0];
  always_ff @(posedge clk) begin
    chunk_q[0] <= '{valid: issue, board: fragment_q.board, hits: hits_here, mate: fragment_q.mate,
                    mate_hits: fragment_q.mate_hits, all: hits_here + 4'(fragment_q.mate_hits),
                    first: fragment_first_q, last: fragment_q.last && fragment_q.left <= 13'd8,
                    opened: fragment_q.opened, boards: fragment_q.boards, truncated: fragment_q.truncated,
                    counts: fragment_q.hits, delay: fragment_q.delay};
    for (int i = 1; i < 9; i++) chunk_q[i] <= chunk_q[i-1];
    if (rst) for (int i = 0; i < 9; i++) chunk_q[i].valid <= 1'b0;
  end

  // Hits of both boards, zero beyond; those of the second one follow those of the first.
  logic [3:0][7:0] one_here_q, other_here_q;  // of each board's words
  logic [7:0][15:0] one, other, one_q, other_q, words_q;
  always_comb begin
    one   = '0;
    other = '0;
    for (int b = 0; b < 4; b++) begin
      for (int i = 0; i < 8; i++) begin
        one[i]   |= rd_data[b][16*i+:16] & {16{one_here_q[b][i]}};
        other[i] |= rd_data[b][16*i+:16] & {16{other_here_q[b][i]}};
      end
    end
  end
  always_ff @(posedge clk) begin
    for (int b = 0; b < 4; b++) begin
      for (int i = 0; i < 8; i++) begin
        one_here_q[b][i]   <= chunk_q[5].board == 2'(b) && 4'(i) < chunk_q[5].hits;
        other_here_q[b][i] <= b != 0 && chunk_q[5].mate == 2'(b) && 4'(i) < 4'(chunk_q[5].mate_hits);
      end
    end
    one_q   <= one;
    other_q <= other;
    words_q <= one_q | other_q << {chunk_q[7].hits[2:0], 4'd0};
  end

  // Beyond MergeHits the frame is not merged: its buffer has room for one chunk more.
  logic [16:0] hits_q;
  logic [15:0] first_q;
  logic [3:0] place_q, place_q2, add_q, add_q2;
  logic fresh_q, fits;
  assign fits = segment_q || hits_q < 17'(MergeHits);
  always_ff @(posedge clk) begin
    place_q <= hits_q[3:0];
    add_q   <= chunk_q[7].valid && fits ? chunk_q[7].all : '0;
    if (chunk_q[7].valid) begin
      if (fresh_q) first_q <= hits_q[15:0];
      fresh_q <= chunk_q[7].last;
      if (fits) hits_q <= hits_q + 17'(chunk_q[7].all);
    end
    if (start) begin
      hits_q  <= '0;
      fresh_q <= 1'b1;
    end
  end
  assign hits = hits_q;

  // ------------------------------------------------------------------ sums and order, shift, words

  chunk_t now_q;  // one cycle behind chunk_q[8]
  logic [15:0] first_q2;
  logic [10:0] above_q;
  logic signed [7:0] sum, sum_q;
  logic descends, descends_q, disordered_q;
  // The words rotated to their places among 16; the places that they fill in this word and in the next one.
  logic [7:0][15:0] by_four, by_two, rotated_q;
  logic [15:0] here_q;
  logic [7:0] beyond_q;
  logic [15:0][15:0] rest_words_q, packed_words;
  logic [7:0][15:0] next_words;
  logic signed [15:0] event_sum_q, event_sum;
  merged_row_t row, row_q;
  logic odd_row_q, makes_row, disorder;
  logic [9:0] rows_q;

  always_comb begin
    sum = '0;
    descends = 1'b0;
    for (int i = 0; i < 8; i++) sum += 8'(signed'(words_q[i][15:11]));
    for (int i = 1; i < 8; i++)
      if (4'(i) < chunk_q[8].all && 4'(i) != chunk_q[8].hits && words_q[i][10:0] <= words_q[i-1][10:0])
        descends = 1'b1;
    if (!chunk_q[8].first && chunk_q[8].hits != 0 && words_q[0][10:0] <= above_q) descends = 1'b1;
  end
  always_comb begin
    for (int i = 0; i < 8; i++) by_four[i] = place_q[2] ? words_q[3'(i)-3'd4] : words_q[i];
    for (int i = 0; i < 8; i++) by_two[i] = place_q[1] ? by_four[3'(i)-3'd2] : by_four[i];
    for (int i = 0; i < 16; i++)
      packed_words[i] = here_q[i] ? rest_words_q[i] | rotated_q[3'(i)] : rest_words_q[i];
    for (int i = 0; i < 8; i++) next_words[i] = beyond_q[i] ? rotated_q[i] : '0;
  end
  assign event_sum    = event_sum_q + 16'(sum_q);
  assign disorder     = disordered_q || descends_q;
  assign makes_row    = now_q.valid && now_q.last && !segment_q && rows_q < 10'(MergeRows);
  always_comb begin
    row = '{first: first_q2, sum: event_sum, opened: now_q.opened, boards: 8'(now_q.boards),
            flags: {6'd0, disorder, now_q.truncated}, hits: '0, delay: now_q.delay};
    for (int b = 0; b < 4; b++) row.hits[b] = 8'(now_q.counts[b]);
  end

  always_ff @(posedge clk) begin
    if (chunk_q[8].valid) above_q <= words_q[7][10:0];
    now_q      <= chunk_q[8];
    first_q2   <= first_q;
    sum_q      <= sum;
    descends_q <= descends;
    for (int i = 0; i < 8; i++) begin
      rotated_q[i] <= place_q[0] ? by_two[3'(i)-3'd1] : by_two[i];
      beyond_q[i]  <= 4'd8 + 4'(i) < place_q;
    end
    for (int i = 0; i < 16; i++) here_q[i] <= 5'(i) >= 5'(place_q) && 5'(i) < 5'(place_q) + 5'd8;
    place_q2   <= place_q;
    add_q2     <= add_q;
    out_valid  <= '0;
    out_data   <= {row, row_q, packed_words};
    if (now_q.valid) begin
      event_sum_q  <= now_q.last ? '0 : event_sum;
      disordered_q <= !now_q.last && disorder;
      if (add_q2 != 0) begin
        out_valid[0] <= 5'(place_q2) + 5'(add_q2) >= 5'd16;
        rest_words_q <= 5'(place_q2) + 5'(add_q2) >= 5'd16 ? {128'd0, next_words} : packed_words;
      end
      if (makes_row) begin
        row_q        <= row;
        rows_q       <= rows_q + 1'b1;
        odd_row_q    <= !odd_row_q;
        out_valid[1] <= odd_row_q;
      end
    end
    if (flush) begin
      out_valid <= {odd_row_q, hits_q[3:0] != 0};
      out_data  <= {128'd0, row_q, rest_words_q};
    end
    if (start) begin
      rest_words_q <= '0;
      event_sum_q  <= '0;
      disordered_q <= 1'b0;
      rows_q       <= '0;
      odd_row_q    <= 1'b0;
    end
    if (rst) begin
      now_q.valid <= 1'b0;
      out_valid   <= '0;
    end
  end

  logic [8:0] on_way;
  always_comb for (int i = 0; i < 9; i++) on_way[i] = chunk_q[i].valid;
  always_ff @(posedge clk)
    idle <= !start && !flush && !in_valid && !plan_valid_q && !event_valid_q && !fragment_valid_q &&
            on_way == '0 && !now_q.valid;

  logic unused;
  assign unused = &{1'b0, units[11:10], chunk_q, now_q};

endmodule
