// SPDX-License-Identifier: SHL-2.1
// DMA read engine for the requester streams of the UltraScale+ integrated block (AMD PG213, dword-aligned,
// no straddling). Splits requests at the maximum read request size, reassembles completions of any tag
// order, and returns words in request order. A completion takes four steps, a word out takes four. An
// abandoned tag stays reserved until its completion arrives.
module pcie_us_read
  import nanet_dma_pkg::*;
#(
    // Width of DMA words and of the block streams in bits: 128 or 256.
    parameter int unsigned DATA_W = 256,
    // Outstanding read TLPs, a power of two, at most 32 (tags without extended tags).
    parameter int unsigned TAGS = 32,
    // Maximum bytes per read TLP, a power of two from 128 to 4096; the host may allow less.
    parameter int unsigned MAX_READ = 512,
    // Completion timeout in cycles; the completion timeout of the block should come first.
    parameter int unsigned TIMEOUT = 16_000_000
) (
    input logic clk,
    input logic rst,

    /*
     * Configuration by the host
     */
    input logic       bus_master,
    input logic [2:0] max_read,    // 128 B << max_read
    input logic       may_send,    // non-posted credit available

    /*
     * DMA read
     */
    input  dma_rd_req_t       rd_req,
    input  logic              rd_data_ready,
    output dma_rd_rsp_t       rd_rsp,
    output logic [DATA_W-1:0] rd_data,

    /*
     * Read TLPs: one beat, a descriptor
     */
    output logic         tlp_valid,
    input  logic         tlp_ready,
    output logic [127:0] tlp_descriptor,
    output logic [3:0]   tlp_first_be,
    output logic [3:0]   tlp_last_be,

    /*
     * Requester completions of the block; always accepted
     */
    input logic              rc_tvalid,
    input logic [DATA_W-1:0] rc_tdata,
    input logic              rc_tlast,
    input logic              rc_discontinue
);

  localparam int unsigned N = DATA_W / 32;
  localparam int unsigned LaneW = $clog2(N);
  localparam int unsigned CountW = $clog2(N + 1);
  localparam int unsigned TagW = $clog2(TAGS);
  localparam int unsigned SlotDwords = MAX_READ / 4;
  localparam int unsigned SlotW = $clog2(SlotDwords);  // dword within a slot
  localparam int unsigned WordW = SlotW - LaneW;  // word within a slot
  localparam int unsigned TimeW = $clog2(TIMEOUT + 1);

  if (DATA_W != 128 && DATA_W != 256) begin : gen_check_width
    $fatal(1, "pcie_us_read: DATA_W must be 128 or 256");
  end
  if (TAGS > 32 || 1 << TagW != TAGS) begin : gen_check_tags
    $fatal(1, "pcie_us_read: TAGS must be a power of two, at most 32");
  end
  if (MAX_READ < 128 || MAX_READ > 4096 || 1 << (SlotW + 2) != MAX_READ) begin : gen_check_read
    $fatal(1, "pcie_us_read: MAX_READ must be a power of two from 128 to 4096");
  end

  // ---------------------------------------------------------------- requests

  // State of each outstanding TLP; tags are allocated and released in a ring.
  typedef struct packed {
    logic [7:0]     tag;     // tag of the DMA request
    logic           last;    // last TLP of the request
    logic           skip;    // no TLP: skipped tag
    logic [SlotW:0] dwords;
  } slot_t;

  slot_t slots[TAGS];
  logic [TagW:0] tail_q, head_q;  // next tag to allocate; oldest tag with memory in use
  logic [TAGS-1:0] active_q, done_q, failed_q;
  logic [TAGS-1:0] lost_q;  // timed-out tags whose completion may still arrive
  logic lost_at_q, none_left_q;  // the next tag is timed out; all tags are

  typedef enum logic [1:0] {
    Idle,
    Room,
    Chunk,
    Send
  } state_t;

  // All in dwords: addresses are multiples of 4.
  state_t state_q;
  logic [63:2] addr_q;
  logic [14:0] left_q;  // remaining dwords of the request
  logic [1:0] rest_q;  // bytes of the last dword of the request, 0: all
  logic [7:0] tag_q;
  logic [9:0] limit_q;  // maximum dwords per TLP, minus one
  logic [10:0] room_q, length_q;  // distance to the next multiple of that limit; length of this TLP
  logic more_q, full_q, offer_q, more, issue, issue_dead, issue_skip;
  logic single;

  function automatic logic [10:0] room_at(input logic [9:0] at, input logic [9:0] limit);
    return {1'b0, ~at & limit} + 11'd1;
  endfunction

  assign more = left_q > 15'(room_q);
  assign rd_rsp.ready = state_q == Idle;
  assign tlp_valid = offer_q;
  assign issue_dead = state_q == Send && !offer_q && !full_q && (!bus_master || none_left_q);
  assign issue_skip = state_q == Send && !offer_q && !full_q && bus_master && lost_at_q && !none_left_q;
  assign issue = (tlp_valid && tlp_ready) || issue_dead;

  function automatic logic [3:0] bytes_enabled(input logic [1:0] rest);
    case (rest)
      2'd1: return 4'b0001;
      2'd2: return 4'b0011;
      2'd3: return 4'b0111;
      default: return 4'b1111;
    endcase
  endfunction

  assign single = length_q == 11'd1;
  assign tlp_first_be = single && !more_q ? bytes_enabled(rest_q) : 4'b1111;
  assign tlp_last_be = single ? 4'b0000 : more_q ? 4'b1111 : bytes_enabled(rest_q);
  assign tlp_descriptor = {
    8'd0, 16'd0, 8'(tail_q[TagW-1:0]), 16'd0, 1'b0, 4'b0000, length_q, addr_q, 2'd0
  };

  // Bookkeeping one cycle after issue; completions arrive much later.
  logic issued_q, issued_dead_q;
  logic [TagW-1:0] issued_tag_q;
  slot_t issued_slot_q;

  always_ff @(posedge clk) begin
    issued_q      <= issue || issue_skip;
    issued_dead_q <= issue_dead || issue_skip;
    issued_tag_q  <= tail_q[TagW-1:0];
    issued_slot_q <= '{tag: tag_q, last: !more_q, skip: issue_skip, dwords: (SlotW + 1)'(length_q)};
    if (issued_q) slots[issued_tag_q] <= issued_slot_q;
    if (rst) issued_q <= 1'b0;
  end

  always_ff @(posedge clk) begin
    if (max_read > 3'd4 || 32'd128 << max_read >= MAX_READ) limit_q <= 10'(MAX_READ / 4 - 1);
    else limit_q <= 10'((11'd32 << max_read) - 11'd1);
    // TLPs are more than two cycles apart.
    full_q      <= (tail_q - head_q) == (TagW + 1)'(TAGS);
    // The next tag never times out while there is room.
    lost_at_q   <= lost_q[tail_q[TagW-1:0]];
    none_left_q <= lost_q == '1;
    case (state_q)
      Idle:
      if (rd_req.valid) begin
        addr_q  <= rd_req.cmd.addr[63:2];
        left_q  <= 15'((17'(rd_req.cmd.len) + 17'd3) >> 2);
        rest_q  <= rd_req.cmd.len[1:0];
        tag_q   <= rd_req.cmd.tag;
        room_q  <= room_at(rd_req.cmd.addr[11:2], limit_q);
        state_q <= Chunk;
      end
      Room: begin
        room_q  <= room_at(addr_q[11:2], limit_q);
        state_q <= Chunk;
      end
      Chunk: begin
        length_q <= more ? room_q : left_q[10:0];
        more_q   <= more;
        state_q  <= Send;
      end
      Send:
      if (issue) begin
        addr_q  <= addr_q + 62'(length_q);
        left_q  <= left_q - 15'(length_q);
        tail_q  <= tail_q + 1'b1;
        state_q <= more_q ? Room : Idle;
      end else if (issue_skip) begin  // repeat with the next tag
        tail_q  <= tail_q + 1'b1;
        state_q <= Room;
      end
      default: state_q <= Idle;
    endcase
    // A request, once offered, stays valid.
    if (offer_q) offer_q <= !tlp_ready;
    else offer_q <= state_q == Send && !full_q && bus_master && may_send && !lost_at_q;
    if (rst) begin
      offer_q <= 1'b0;
      state_q <= Idle;
      tail_q  <= '0;
    end
  end

  // ---------------------------------------------------------------- completions

  // Stage 1: input register.
  logic c_valid_q, c_last_q, c_bad_q, c_first_q;
  logic [DATA_W-1:0] c_data_q;
  logic [TagW-1:0] c_tag;
  assign c_tag = c_data_q[64+:TagW];

  always_ff @(posedge clk) begin
    c_valid_q <= rc_tvalid;
    c_data_q  <= rc_tdata;
    c_last_q  <= rc_tlast;
    c_bad_q   <= rc_discontinue;
    if (c_valid_q) c_first_q <= c_last_q;
    if (rst) begin
      c_valid_q <= 1'b0;
      c_first_q <= 1'b1;
    end
  end

  // Stage 2: tag lookup and number of valid dwords in the beat.
  logic [TAGS-1:0][SlotW:0] filled_q;  // received dwords per tag
  logic d_valid_q, d_first_q, d_last_q, d_bad_q, d_ours_q, d_good_q, d_failed_q, d_ends_q;
  logic d_follows_q;  // the previous completion had the same tag and ended in the previous beat
  logic [TagW-1:0] d_tag_q;
  logic [SlotW:0] d_filled_q;
  logic [10:0] d_left_q, c_left;
  logic [CountW-1:0] d_count_q, c_lanes;
  logic [DATA_W-1:0] d_data_q;

  logic e_end_q;
  logic [TagW-1:0] e_tag_q;
  logic [SlotW:0] e_next_q;

  logic ours;
  assign ours    = c_data_q[71:64] < 8'(TAGS) && c_data_q[15:12] != 4'd6;  // otherwise a foreign tag
  assign c_left  = c_first_q ? c_data_q[42:32] : d_left_q;
  assign c_lanes = c_first_q ? CountW'(N - 3) : CountW'(N);

  always_ff @(posedge clk) begin
    d_valid_q <= c_valid_q;
    if (c_valid_q) begin
      d_first_q   <= c_first_q;
      d_last_q    <= c_last_q;
      d_bad_q     <= c_bad_q;
      d_data_q    <= c_data_q;
      d_count_q   <= c_left > 11'(c_lanes) ? c_lanes : CountW'(c_left);
      d_left_q    <= c_left > 11'(c_lanes) ? c_left - 11'(c_lanes) : '0;
      d_follows_q <= d_valid_q && d_last_q && d_good_q && d_tag_q == c_tag;
      if (c_first_q) begin
        d_tag_q    <= c_tag;
        d_ours_q   <= ours;
        d_good_q   <= active_q[c_tag] && !done_q[c_tag] && ours;
        d_filled_q <= e_end_q && e_tag_q == c_tag ? e_next_q : filled_q[c_tag];
        d_failed_q <= c_data_q[15:12] != 4'd0 || c_data_q[45:43] != 3'd0 || c_data_q[46];
        d_ends_q   <= c_data_q[30];
      end
    end
    if (rst) d_valid_q <= 1'b0;
  end

  // Stage 3: destination address.
  logic [SlotW:0] run_at_q, at, next_at, e_at_q;
  logic run_bad_q, bad, fits, e_store_q, e_bad_q, e_ends_q, e_free_q;
  logic [CountW-1:0] e_count_q;
  logic [LaneW-1:0] e_turn_q;  // lane rotation of the beat
  logic [DATA_W-1:0] e_data_q;

  assign at = d_first_q && !d_follows_q ? d_filled_q : run_at_q;
  assign next_at = at + (SlotW + 1)'(d_count_q);
  assign fits = next_at <= (SlotW + 1)'(SlotDwords);
  assign bad = (!d_first_q && run_bad_q) || d_failed_q || d_bad_q || !fits;

  always_ff @(posedge clk) begin
    if (d_valid_q) begin
      run_at_q  <= fits ? next_at : at;
      run_bad_q <= bad;
    end
    e_store_q <= d_valid_q && d_good_q && fits;
    e_end_q   <= d_valid_q && d_last_q && d_good_q;
    e_ends_q  <= d_ends_q;
    e_free_q  <= d_valid_q && d_last_q && d_ours_q && d_ends_q;
    e_bad_q   <= bad;
    e_tag_q   <= d_tag_q;
    e_at_q    <= at;
    e_next_q  <= fits ? next_at : at;
    e_count_q <= d_count_q;
    e_turn_q  <= at[LaneW-1:0] - (d_first_q ? LaneW'(3) : '0);
    e_data_q  <= d_data_q;
    if (rst) begin
      e_store_q <= 1'b0;
      e_end_q   <= 1'b0;
      e_free_q  <= 1'b0;
    end
  end

  // Stage 4: rotated data.
  logic f_end_q, f_done_q, f_failed_q;
  logic f_free_q;  // no further data for this tag
  logic [TagW-1:0] f_tag_q;

  always_ff @(posedge clk) begin
    if (issued_q) filled_q[issued_tag_q] <= '0;
    if (e_end_q) filled_q[e_tag_q] <= e_next_q;
    f_end_q    <= e_end_q;
    f_done_q   <= e_end_q && e_ends_q;
    f_free_q   <= e_free_q;
    // Fewer dwords than requested are also a failure.
    f_failed_q <= e_bad_q || (e_ends_q && e_next_q != slots[e_tag_q].dwords);
    f_tag_q    <= e_tag_q;
    if (rst) begin
      f_end_q  <= 1'b0;
      f_done_q <= 1'b0;
      f_free_q <= 1'b0;
    end
  end

  // One memory per lane, so that a completion may begin at any dword.
  logic [N-1:0][31:0] word_q;
  logic fetch;
  logic [TagW-1:0] now_slot_q;
  logic [WordW-1:0] now_word_q;

  for (genvar b = 0; b < N; b++) begin : gen_lane
    // Read only after all data are written, or after a failure.
    (* no_rw_check *) logic [31:0] mem[TAGS << WordW];
    logic [LaneW-1:0] from, lane;
    logic store_q;
    logic [WordW-1:0] to_q;
    logic [31:0] data_q;
    assign from = LaneW'(b) - e_at_q[LaneW-1:0];
    assign lane = LaneW'(b) - e_turn_q;
    always_ff @(posedge clk) begin
      store_q <= e_store_q && CountW'(from) < e_count_q;
      // First dword of this lane at or after e_at_q.
      to_q    <= WordW'((e_at_q + (SlotW + 1)'(N - 1 - b)) >> LaneW);
      data_q  <= e_data_q[{lane, 5'd0}+:32];
      if (store_q) mem[{f_tag_q, to_q}] <= data_q;
    end
    always_ff @(posedge clk) begin
      if (fetch) word_q[b] <= mem[{now_slot_q, now_word_q}];
    end
  end

  // ---------------------------------------------------------------- completed TLPs

  // Oldest TLP not yet seen complete; its record moves to `next` on completion.
  logic [TagW:0] look_q;
  logic [TagW-1:0] oldest;
  logic ready_q, waiting_q, load, expired_q;
  logic [TimeW-1:0] wait_q;

  logic give_up;

  assign oldest  = look_q[TagW-1:0];
  assign give_up = expired_q && waiting_q && !done_q[oldest];

  always_ff @(posedge clk) begin
    if (issued_q) begin
      active_q[issued_tag_q] <= 1'b1;
      done_q[issued_tag_q]   <= issued_dead_q;
      failed_q[issued_tag_q] <= issued_dead_q;
    end
    if (f_done_q) done_q[f_tag_q] <= 1'b1;
    if (f_end_q && f_failed_q) failed_q[f_tag_q] <= 1'b1;

    ready_q   <= active_q[oldest] && done_q[oldest] && !load;
    waiting_q <= active_q[oldest] && !done_q[oldest];
    wait_q    <= waiting_q ? wait_q + 1'b1 : '0;
    expired_q <= wait_q == TimeW'(TIMEOUT);
    if (give_up) begin
      done_q[oldest]   <= 1'b1;
      failed_q[oldest] <= 1'b1;
      lost_q[oldest]   <= 1'b1;
    end
    if (f_free_q) lost_q[f_tag_q] <= 1'b0;
    if (load) begin
      active_q[oldest] <= 1'b0;
      look_q           <= look_q + 1'b1;
    end
    if (rst) begin
      active_q  <= '0;
      done_q    <= '0;
      lost_q    <= '0;
      look_q    <= '0;
      wait_q    <= '0;
      ready_q   <= 1'b0;
      waiting_q <= 1'b0;
      expired_q <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- delivery: memory reads

  // TLPs of one request join without a gap: a partial word of held_q dwords waits in `hold_q`.
  slot_t next_q;
  logic next_valid_q, next_failed_q, take;
  logic [TagW-1:0] next_slot_q;
  logic [SlotW:0] next_end;
  logic now_valid_q, now_last_q, now_failed_q, slot_end_q, ends, over, fills, flush_q, flush, seat_q;
  logic [7:0] now_tag_q;
  logic [WordW-1:0] now_left_q;  // remaining words, minus one
  logic [CountW-1:0] now_tail_q, count_q, next_tail;  // dwords of the last word; of this word
  logic [LaneW-1:0] held_q;
  logic [CountW:0] have;

  assign load = ready_q && (!next_valid_q || take);
  assign take = next_valid_q && (!now_valid_q || (fetch && slot_end_q));
  assign next_end = next_q.dwords - 1'b1;
  assign next_tail = CountW'(next_end[LaneW-1:0]) + 1'b1;

  assign fetch = now_valid_q && seat_q && !flush_q;
  assign flush = flush_q && seat_q;
  assign ends = slot_end_q && now_last_q;
  assign have = (CountW + 1)'(held_q) + (CountW + 1)'(count_q);
  assign fills = have[CountW:LaneW] != 0;
  assign over = ends && fills && have[LaneW-1:0] != 0;  // the rest of the last word needs an extra word

  typedef struct packed {
    logic             valid;
    logic             emits;
    logic             last;
    logic             error;
    logic [7:0]       tag;
    logic [LaneW-1:0] turn;
    logic [N-1:0]     from_hold;  // lanes
    logic [N-1:0]     from_word;
  } step_t;

  step_t fetched_q, out_q, turned_q;

  always_ff @(posedge clk) begin
    if (load) begin
      next_q        <= slots[oldest];
      next_failed_q <= failed_q[oldest];
      next_slot_q   <= oldest;
    end
    if (load) next_valid_q <= 1'b1;
    else if (take) next_valid_q <= 1'b0;

    if (fetch) begin
      now_word_q <= now_word_q + 1'b1;
      now_left_q <= now_left_q - 1'b1;
      slot_end_q <= now_left_q == WordW'(1);
      if (now_left_q == WordW'(1)) count_q <= now_tail_q;
      held_q     <= ends && !over ? '0 : have[LaneW-1:0];
      flush_q    <= over;
      if (slot_end_q) now_valid_q <= 1'b0;
    end
    if (flush) begin
      flush_q <= 1'b0;
      held_q  <= '0;
    end
    head_q <= head_q + (TagW + 1)'(fetch && slot_end_q) + (TagW + 1)'(take && next_q.skip);
    if (take && !next_q.skip) begin
      now_valid_q  <= 1'b1;
      now_word_q   <= '0;
      now_left_q   <= WordW'(next_end >> LaneW);
      slot_end_q   <= WordW'(next_end >> LaneW) == 0;
      now_tail_q   <= next_tail;
      count_q      <= WordW'(next_end >> LaneW) == 0 ? next_tail : CountW'(N);
      now_last_q   <= next_q.last;
      now_tag_q    <= next_q.tag;
      now_slot_q   <= next_slot_q;
      now_failed_q <= next_failed_q || (!now_last_q && now_failed_q);
    end

    fetched_q.valid <= fetch || flush;
    fetched_q.emits <= flush_q || ends || fills;
    fetched_q.last  <= flush_q || (ends && !over);
    if (fetch) begin  // flushed words belong to the same request
      fetched_q.error <= now_failed_q;
      fetched_q.tag   <= now_tag_q;
    end
    fetched_q.turn  <= held_q;
    for (int unsigned i = 0; i < N; i++) begin
      fetched_q.from_hold[i] <= LaneW'(i) < held_q;
      fetched_q.from_word[i] <= LaneW'(i) >= held_q && (fills || LaneW'(i) < have[LaneW-1:0]) && !flush_q;
    end
    if (rst) begin
      next_valid_q    <= 1'b0;
      now_valid_q     <= 1'b0;
      now_last_q      <= 1'b1;
      head_q          <= '0;
      held_q          <= '0;
      flush_q         <= 1'b0;
      fetched_q.valid <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- memory output, rotation and merge

  logic [N-1:0][31:0] out_word_q, turned_word_q, hold_q, joined;

  always_ff @(posedge clk) begin
    out_word_q <= word_q;
    out_q      <= fetched_q;
    turned_q   <= out_q;
    for (int unsigned i = 0; i < N; i++) turned_word_q[i] <= out_word_q[LaneW'(i)-out_q.turn];
    if (turned_q.valid) hold_q <= turned_q.emits ? turned_word_q : joined;
    if (rst) begin
      out_q.valid    <= 1'b0;
      turned_q.valid <= 1'b0;
    end
  end

  always_comb begin
    for (int unsigned i = 0; i < N; i++) begin
      joined[i] = (turned_q.from_hold[i] ? hold_q[i] : '0) | (turned_q.from_word[i] ? turned_word_q[i] : '0);
    end
  end

  // Memory reads are issued only with output slots for all words in flight.
  logic [4:0] level;
  logic unused_ready;

  fifo #(
      .WIDTH(DATA_W + 10),
      .DEPTH(16),
      .CHOOSE(1'b1)
  ) i_out (
      .clk,
      .rst,
      .in_valid (turned_q.valid && turned_q.emits),
      .in_ready (unused_ready),
      .in_data  ({turned_q.last && turned_q.error, turned_q.last, turned_q.tag, joined}),
      .out_valid(rd_rsp.data_valid),
      .out_ready(rd_data_ready),
      .out_data ({rd_rsp.data_error, rd_rsp.data_last, rd_rsp.data_tag, rd_data}),
      .level
  );

  always_ff @(posedge clk) begin
    seat_q <= level < 5'd8;
    if (rst) seat_q <= 1'b0;
  end

  logic unused;
  assign unused = ^{unused_ready, rd_req.cmd.addr[1:0], turned_q.turn};

endmodule
