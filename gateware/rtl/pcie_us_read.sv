// SPDX-License-Identifier: SHL-2.1
// DMA reads by the requester side of the UltraScale+ integrated block (AMD PG213, dword-aligned, no
// straddling): splits requests at multiples of the maximum read request size, puts completions back together
// whatever the order of tags, and hands the words out in the order of the requests.
module pcie_us_read
  import nanet_dma_pkg::*;
#(
    // Width of DMA words and of the block's streams in bits: 128 or 256.
    parameter int unsigned DATA_W = 256,
    // Read TLPs under way, a power of two, at most 32 (tags without the extended ones).
    parameter int unsigned TAGS = 32,
    // Bytes that one of them may ask for, a power of two from 128 to 4096; the host may allow less.
    parameter int unsigned MAX_READ = 512,
    // Cycles after which an answer is given up; the block's own completion timeout should come first.
    parameter int unsigned TIMEOUT = 16_000_000
) (
    input logic clk,
    input logic rst,

    /*
     * Configuration by the host
     */
    input logic       bus_master,
    input logic [2:0] max_read,    // 128 B << this
    input logic       may_send,    // non-posted credit is there

    /*
     * DMA read
     */
    input  logic              rd_valid,
    output logic              rd_ready,
    input  dma_cmd_t          rd_cmd,
    output logic              rd_data_valid,
    input  logic              rd_data_ready,
    output logic [DATA_W-1:0] rd_data,
    output logic [7:0]        rd_data_tag,
    output logic              rd_data_last,
    output logic              rd_data_error,

    /*
     * Read TLPs: one beat, a descriptor
     */
    output logic         tlp_valid,
    input  logic         tlp_ready,
    output logic [127:0] tlp_descriptor,
    output logic [3:0]   tlp_first_be,
    output logic [3:0]   tlp_last_be,

    /*
     * Requester completions of the block; always taken
     */
    input logic                 rc_tvalid,
    input logic [DATA_W-1:0]    rc_tdata,
    input logic                 rc_tlast,
    input logic                 rc_discontinue
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

  // What is known of each TLP under way; tags are given out and come back in a ring.
  typedef struct packed {
    logic [7:0]     tag;     // of the DMA request
    logic           last;    // its last TLP
    logic [SlotW:0] dwords;
  } slot_t;

  slot_t slots[TAGS];
  logic [TagW:0] tail_q, head_q;
  logic [TAGS-1:0] active_q, done_q, failed_q;

  typedef enum logic [1:0] {
    Idle,
    Chunk,
    Send
  } state_t;

  state_t state_q;
  logic [63:0] addr_q;
  logic [15:0] left_q;
  logic [7:0] tag_q;
  logic [12:0] limit, room, chunk, chunk_q;
  logic full, issue, issue_dead;
  logic [10:0] length;

  always_comb begin
    limit = max_read > 3'd5 ? 13'd4096 : 13'd128 << max_read;
    if (limit > 13'(MAX_READ)) limit = 13'(MAX_READ);
  end
  assign room = limit - ({1'b0, addr_q[11:0]} & (limit - 13'd1));
  assign chunk = left_q > 16'(room) ? room : left_q[12:0];
  assign full = (tail_q - head_q) == (TagW + 1)'(TAGS);
  assign length = 11'((chunk_q + 13'd3) >> 2);

  assign rd_ready = state_q == Idle;
  assign tlp_valid = state_q == Send && !full && bus_master && may_send;
  assign issue_dead = state_q == Send && !full && !bus_master;
  assign issue = (tlp_valid && tlp_ready) || issue_dead;

  function automatic logic [3:0] bytes_enabled(input logic [1:0] rest);
    case (rest)
      2'd1: return 4'b0001;
      2'd2: return 4'b0011;
      2'd3: return 4'b0111;
      default: return 4'b1111;
    endcase
  endfunction

  assign tlp_first_be = chunk_q < 13'd4 ? bytes_enabled(chunk_q[1:0]) : 4'b1111;
  assign tlp_last_be = chunk_q <= 13'd4 ? 4'b0000 : bytes_enabled(chunk_q[1:0]);
  assign tlp_descriptor = {
    8'd0, 16'd0, 8'(tail_q[TagW-1:0]), 16'd0, 1'b0, 4'b0000, length, addr_q[63:2], 2'd0
  };

  always_ff @(posedge clk) begin
    if (issue) begin
      slots[tail_q[TagW-1:0]] <= '{
          tag: tag_q,
          last: left_q == 16'(chunk_q),
          dwords: (SlotW + 1)'(length)
      };
    end
  end

  always_ff @(posedge clk) begin
    case (state_q)
      Idle:
      if (rd_valid) begin
        addr_q  <= rd_cmd.addr;
        left_q  <= rd_cmd.len;
        tag_q   <= rd_cmd.tag;
        state_q <= Chunk;
      end
      Chunk: begin
        chunk_q <= chunk;
        state_q <= Send;
      end
      Send:
      if (issue) begin
        addr_q  <= addr_q + 64'(chunk_q);
        left_q  <= left_q - 16'(chunk_q);
        tail_q  <= tail_q + 1'b1;
        state_q <= left_q == 16'(chunk_q) ? Idle : Chunk;
      end
      default: state_q <= Idle;
    endcase
    if (rst) begin
      state_q <= Idle;
      tail_q  <= '0;
    end
  end

  // ---------------------------------------------------------------- completions

  // One register between the block and the memory.
  logic c_valid_q, c_last_q, c_bad_q, c_first_q;
  logic [DATA_W-1:0] c_data_q;

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

  // Dwords that have come for each tag.
  logic [TAGS-1:0][SlotW:0] filled_q;

  logic [TagW-1:0] now_tag, run_tag_q;
  logic [SlotW:0] now_at, run_at_q, next_at;
  logic [10:0] now_left, run_left_q;
  logic [CountW-1:0] count;
  logic now_good, run_good_q, now_failed, run_failed_q, now_ends, run_ends_q, fits, store;
  logic [DATA_W-1:0] lanes;
  logic completion_end;

  always_comb begin
    if (c_first_q) begin
      now_tag = c_data_q[64+:TagW];
      now_good = active_q[now_tag] && !done_q[now_tag] && c_data_q[71:64] < 8'(TAGS)
                 && c_data_q[15:12] != 4'd6;  // not a tag of ours
      now_at = filled_q[now_tag];
      now_left = c_data_q[42:32];
      now_failed = c_data_q[15:12] != 4'd0 || c_data_q[45:43] != 3'd0 || c_data_q[46];
      now_ends = c_data_q[30];
      lanes = {96'd0, c_data_q[DATA_W-1:96]};
      count = now_left > 11'(N - 3) ? CountW'(N - 3) : CountW'(now_left);
    end else begin
      now_tag = run_tag_q;
      now_good = run_good_q;
      now_at = run_at_q;
      now_left = run_left_q;
      now_failed = run_failed_q;
      now_ends = run_ends_q;
      lanes = c_data_q;
      count = now_left > 11'(N) ? CountW'(N) : CountW'(now_left);
    end
    next_at = now_at + (SlotW + 1)'(count);
    fits = next_at <= (SlotW + 1)'(SlotDwords);
    store = c_valid_q && now_good && fits;
    completion_end = c_valid_q && c_last_q && now_good;
  end

  always_ff @(posedge clk) begin
    if (c_valid_q) begin
      run_tag_q    <= now_tag;
      run_good_q   <= now_good;
      run_at_q     <= fits ? next_at : now_at;
      run_left_q   <= now_left - 11'(count);
      run_failed_q <= now_failed || c_bad_q || !fits;
      run_ends_q   <= now_ends;
    end
  end

  always_ff @(posedge clk) begin
    if (issue) filled_q[tail_q[TagW-1:0]] <= '0;
    if (completion_end) filled_q[now_tag] <= fits ? next_at : now_at;
  end

  // A memory per lane, so that a completion may begin at any dword.
  logic [N-1:0][31:0] word_q;
  logic fetch;
  logic [TagW-1:0] fetch_slot;
  logic [WordW-1:0] fetch_word;

  for (genvar b = 0; b < N; b++) begin : gen_lane
    logic [31:0] mem[TAGS << WordW];
    logic [LaneW-1:0] from;
    logic [WordW-1:0] word;
    assign from = LaneW'(b) - now_at[LaneW-1:0];
    // The first dword at or after now_at that lies in this lane.
    assign word = WordW'((now_at + (SlotW + 1)'(N - 1 - b)) >> LaneW);
    always_ff @(posedge clk) begin
      if (store && CountW'(from) < count) mem[{now_tag, word}] <= lanes[{from, 5'd0}+:32];
    end
    always_ff @(posedge clk) begin
      if (fetch) word_q[b] <= mem[{fetch_slot, fetch_word}];
    end
  end

  // ---------------------------------------------------------------- which are done

  logic [TimeW-1:0] wait_q;
  logic expired, freed;
  logic [TagW-1:0] oldest;

  assign oldest = head_q[TagW-1:0];
  assign expired = wait_q == TimeW'(TIMEOUT);

  always_ff @(posedge clk) begin
    if (issue) begin
      active_q[tail_q[TagW-1:0]] <= 1'b1;
      done_q[tail_q[TagW-1:0]]   <= issue_dead;
      failed_q[tail_q[TagW-1:0]] <= issue_dead;
    end
    if (completion_end) begin
      if (now_ends) begin
        done_q[now_tag] <= 1'b1;
        // Fewer dwords than were asked for are a failure as well.
        if (next_at != slots[now_tag].dwords) failed_q[now_tag] <= 1'b1;
      end
      if (now_failed || c_bad_q || !fits) failed_q[now_tag] <= 1'b1;
    end
    wait_q <= active_q[oldest] && !done_q[oldest] && !freed ? wait_q + 1'b1 : '0;
    if (expired && active_q[oldest] && !done_q[oldest]) begin
      done_q[oldest]   <= 1'b1;
      failed_q[oldest] <= 1'b1;
    end
    if (freed) begin
      active_q[oldest] <= 1'b0;
      head_q           <= head_q + 1'b1;
    end
    if (rst) begin
      active_q <= '0;
      done_q   <= '0;
      head_q   <= '0;
      wait_q   <= '0;
    end
  end

  // ---------------------------------------------------------------- delivery

  // Fetched word, and how much of it counts.
  logic word_valid_q, word_ends_q, word_failed_q, move;
  logic [CountW-1:0] word_count_q;
  logic [7:0] word_tag_q;
  logic [WordW-1:0] at_q;
  logic [SlotW:0] word_dwords;
  logic slot_end, any_failed_q;

  assign fetch_slot = oldest;
  assign fetch_word = at_q;
  assign fetch = active_q[oldest] && done_q[oldest] && (!word_valid_q || move);
  assign word_dwords = slots[oldest].dwords - {1'b0, at_q, {LaneW{1'b0}}};
  assign slot_end = word_dwords <= (SlotW + 1)'(N);
  assign freed = fetch && slot_end;

  // TLPs of one request join without a gap: what does not fill a word waits.
  logic [DATA_W-1:0] hold_q;
  logic [CountW-1:0] held_q;
  logic [CountW:0] have;
  logic [2*DATA_W-1:0] joined;
  logic [DATA_W-1:0] masked;
  logic flush_q, flush_failed_q, emits, can_out;
  logic [7:0] flush_tag_q;

  assign can_out = !rd_data_valid || rd_data_ready;
  assign have = (CountW + 1)'(held_q) + (CountW + 1)'(word_count_q);
  assign joined = {{DATA_W{1'b0}}, hold_q} | ({{DATA_W{1'b0}}, masked} << {held_q, 5'd0});
  assign emits = have >= (CountW + 1)'(N) || word_ends_q;
  assign move = word_valid_q && !flush_q && (can_out || !emits);

  always_comb begin
    for (int unsigned i = 0; i < N; i++) begin
      masked[32*i+:32] = CountW'(i) < word_count_q ? word_q[i] : 32'd0;
    end
  end

  always_ff @(posedge clk) begin
    if (fetch) begin
      word_valid_q  <= 1'b1;
      word_count_q  <= slot_end ? CountW'(word_dwords) : CountW'(N);
      word_ends_q   <= slot_end && slots[oldest].last;
      word_failed_q <= any_failed_q || failed_q[oldest];
      word_tag_q    <= slots[oldest].tag;
      at_q          <= slot_end ? '0 : at_q + 1'b1;
      any_failed_q  <= slot_end && slots[oldest].last ? 1'b0 : any_failed_q || failed_q[oldest];
    end else if (move) begin
      word_valid_q <= 1'b0;
    end

    if (can_out) rd_data_valid <= 1'b0;
    if (move) begin
      hold_q <= emits ? joined[2*DATA_W-1:DATA_W] : joined[DATA_W-1:0];
      held_q <= word_ends_q ? (have > (CountW + 1)'(N) ? CountW'(have - (CountW + 1)'(N)) : '0)
                : emits ? CountW'(have - (CountW + 1)'(N)) : CountW'(have);
      if (emits) begin
        rd_data_valid <= 1'b1;
        rd_data       <= joined[DATA_W-1:0];
        rd_data_tag   <= word_tag_q;
        rd_data_last  <= word_ends_q && have <= (CountW + 1)'(N);
        rd_data_error <= word_ends_q && word_failed_q;
        // The rest of the last word needs one more.
        flush_q        <= word_ends_q && have > (CountW + 1)'(N);
        flush_tag_q    <= word_tag_q;
        flush_failed_q <= word_failed_q;
      end
    end else if (flush_q && can_out) begin
      rd_data_valid <= 1'b1;
      rd_data       <= hold_q;
      rd_data_tag   <= flush_tag_q;
      rd_data_last  <= 1'b1;
      rd_data_error <= flush_failed_q;
      flush_q       <= 1'b0;
      hold_q        <= '0;
      held_q        <= '0;
    end

    if (rst) begin
      word_valid_q  <= 1'b0;
      any_failed_q  <= 1'b0;
      at_q          <= '0;
      rd_data_valid <= 1'b0;
      flush_q       <= 1'b0;
      hold_q        <= '0;
      held_q        <= '0;
    end
  end

endmodule
