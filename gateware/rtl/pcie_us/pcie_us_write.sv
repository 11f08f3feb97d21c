// SPDX-License-Identifier: SHL-2.1
// DMA write engine: memory-write TLPs for the requester stream of the UltraScale+ integrated block (AMD
// PG213, dword-aligned, no straddling). Splits at the maximum payload size and so never crosses 4 KB. With
// bus mastering off, a write is discarded with an error. Planning, counting, rotation and merging take one
// step each; a TLP is planned while the previous one leaves.
module pcie_us_write
  import nanet_dma_pkg::*;
#(
    // Width of DMA words and of the block streams in bits: 128 or 256.
    parameter int unsigned DATA_W = 256,
    // Depth of the word queue and of the beat queue; a power of two, at least 8.
    parameter int unsigned WAITING = 16
) (
    input logic clk,
    input logic rst,

    /*
     * Configuration by the host
     */
    input logic       bus_master,
    input logic [2:0] max_payload,  // 128 B << max_payload, at most 1024 B

    /*
     * DMA write
     */
    input  dma_wr_req_t       wr_req,
    output dma_wr_rsp_t       wr_rsp,
    input  logic [DATA_W-1:0] wr_data,

    /*
     * TLPs, beat by beat
     */
    output logic                 tlp_valid,
    input  logic                 tlp_ready,
    output logic [DATA_W-1:0]    tlp_data,
    output logic [DATA_W/32-1:0] tlp_keep,
    output logic [3:0]           tlp_first_be,
    output logic [3:0]           tlp_last_be,
    output logic                 tlp_last
);

  localparam int unsigned N = DATA_W / 32;  // dwords per beat
  localparam int unsigned LaneW = $clog2(N);

  if (DATA_W != 128 && DATA_W != 256) begin : gen_check_width
    $fatal(1, "pcie_us_write: DATA_W must be 128 or 256");
  end

  // ---------------------------------------------------------------- input words

  // Input queue: the next request is visible while words of the current one wait.
  logic inside_q, swallow_q;  // after the first word of a request; the request is discarded
  logic swallow, take, words_in_ready, word_valid, pop;
  logic [DATA_W-1:0] word;
  logic [$clog2(WAITING):0] unused_level;

  fifo #(
      .WIDTH(DATA_W),
      .DEPTH(WAITING),
      .CHOOSE(1'b1)
  ) i_words (
      .clk,
      .rst,
      .in_valid (take && !swallow),
      .in_ready (words_in_ready),
      .in_data  (wr_data),
      .out_valid(word_valid),
      .out_ready(pop),
      .out_data (word),
      .level    (unused_level)
  );

  // ---------------------------------------------------------------- plan: one TLP at a time

  typedef enum logic [2:0] {
    Free,
    Size,
    Next,
    Room,
    Drop,
    Mark
  } state_t;

  typedef struct packed {
    logic             error;     // the request was discarded: no TLP
    logic             more;      // further TLPs of the request follow
    logic [7:0]       tag;
    logic [63:2]      addr;
    logic [8:0]       length;    // dwords
    logic [1:0]       rest;      // bytes of the last dword of the request, 0: all
    logic [LaneW-1:0] offset;    // of the first dword within its first word
  } plan_t;

  state_t state_q;
  plan_t plan_q;
  logic plan_valid_q, load;
  logic [63:2] addr_q;
  logic [14:0] left_q;  // remaining dwords of the request
  logic [1:0] rest_q;
  logic [7:0] tag_q;
  logic [LaneW-1:0] offset_q;
  logic [7:0] limit_q;  // payload limit of the host in dwords, minus one
  logic [8:0] room_q;  // dwords to the next multiple of the limit; then of this TLP
  logic first_ready, more;

  assign first_ready = state_q == Free;
  assign swallow = inside_q ? swallow_q : !bus_master;
  assign wr_rsp.ready = inside_q ? swallow_q || words_in_ready : first_ready && words_in_ready;
  assign take = wr_req.valid && wr_rsp.ready;
  assign more = left_q > 15'(room_q);

  function automatic logic [8:0] room_at(input logic [7:0] at, input logic [7:0] limit);
    return {1'b0, ~at & limit} + 9'd1;
  endfunction

  always_ff @(posedge clk) begin
    limit_q <= 8'((9'd32 << (max_payload > 3'd3 ? 2'd3 : max_payload[1:0])) - 9'd1);
    if (take) begin
      inside_q  <= !wr_req.last;
      swallow_q <= swallow;
    end
    if (load) plan_valid_q <= 1'b0;
    case (state_q)
      Free:
      if (take && !inside_q) begin
        addr_q   <= wr_req.cmd.addr[63:2];
        left_q   <= 15'((17'(wr_req.cmd.len) + 17'd3) >> 2);
        rest_q   <= wr_req.cmd.len[1:0];
        tag_q    <= wr_req.cmd.tag;
        offset_q <= '0;
        room_q   <= room_at(wr_req.cmd.addr[9:2], limit_q);
        state_q  <= bus_master ? Size : wr_req.last ? Mark : Drop;
      end
      Room: begin
        room_q  <= room_at(addr_q[9:2], limit_q);
        state_q <= Size;
      end
      Size:
      if (!plan_valid_q || load) begin
        plan_valid_q <= 1'b1;
        plan_q <= '{
            error: 1'b0,
            more: more,
            tag: tag_q,
            addr: addr_q,
            length: more ? room_q : left_q[8:0],
            rest: more ? 2'd0 : rest_q,
            offset: offset_q
        };
        // In Next the plan may already be consumed.
        room_q  <= more ? room_q : left_q[8:0];
        state_q <= more ? Next : Free;
      end
      Next: begin
        addr_q   <= addr_q + 62'(room_q);
        left_q   <= left_q - 15'(room_q);
        offset_q <= offset_q + room_q[LaneW-1:0];
        state_q  <= Room;
      end
      Drop: if (take && wr_req.last) state_q <= Mark;
      Mark:
      if (!plan_valid_q || load) begin
        plan_valid_q <= 1'b1;
        plan_q       <= '0;
        plan_q.error <= 1'b1;
        plan_q.tag   <= tag_q;
        state_q      <= Free;
      end
      default: state_q <= Free;
    endcase
    if (rst) begin
      inside_q     <= 1'b0;
      plan_valid_q <= 1'b0;
      state_q      <= Free;
    end
  end

  // ---------------------------------------------------------------- steps: one word in, one beat out

  // In a TLP, four descriptor dwords precede the data; in a request, the dwords of earlier TLPs do. All words
  // of a TLP are rotated by the same number of lanes; a beat merges one word or two neighbours. A word with a
  // TLP end in the middle is also the first word of the next TLP.
  localparam int unsigned StepW = 10 - LaneW;

  logic active_q, seat_q, step, last_step;
  plan_t run_q;
  logic [StepW-1:0] steps_q, words_q;  // remaining, minus one
  logic needs_q;  // the step takes a word
  logic stays_q;  // the last word holds dwords of the next TLP
  logic skip_q, head_q;  // the step emits no beat; its beat holds the descriptor
  logic [N-1:0] last_keep_q, before_q;  // lanes of the last beat; lanes from the previous word
  logic [LaneW-1:0] turn_q;
  logic [3:0] first_be_q, last_be_q;

  assign last_step = steps_q == 0;
  assign step = active_q && seat_q && (!needs_q || word_valid);
  assign pop = step && needs_q && !(words_q == 0 && stays_q);
  assign load = plan_valid_q && (!active_q || (step && last_step));

  function automatic logic [3:0] bytes_enabled(input logic [1:0] rest);
    case (rest)
      2'd1: return 4'b0001;
      2'd2: return 4'b0011;
      2'd3: return 4'b0111;
      default: return 4'b1111;
    endcase
  endfunction

  logic late, single;  // plan properties: the first beat needs two words; single dword
  logic [9:0] beats_end, words_end;
  logic [LaneW:0] ahead;  // lanes up to the first data that need no previous word
  assign late = N > 4 && 32'(plan_q.offset) > 32'd4;
  assign single = plan_q.length == 9'd1;
  assign beats_end = 10'(plan_q.length) + 10'd3;
  assign words_end = 10'(plan_q.length) + 10'(plan_q.offset) - 10'd1;
  assign ahead = N == 4 ? (LaneW + 1)'(4) - (LaneW + 1)'(plan_q.offset)
                        : {1'b0, LaneW'(4) - plan_q.offset};

  always_ff @(posedge clk) begin
    if (step) begin
      steps_q <= steps_q - 1'b1;
      words_q <= words_q - 1'b1;
      if (words_q == 0) needs_q <= 1'b0;
      skip_q <= 1'b0;
      head_q <= skip_q;
      if (last_step) active_q <= 1'b0;
    end
    if (load) begin
      active_q   <= 1'b1;
      run_q      <= plan_q;
      steps_q    <= plan_q.error ? '0 : StepW'(beats_end >> LaneW) + StepW'(late);
      words_q    <= StepW'(words_end >> LaneW);
      needs_q    <= !plan_q.error;
      stays_q    <= plan_q.more && words_end[LaneW-1:0] != LaneW'(N - 1);
      skip_q     <= late;
      head_q     <= !late;
      turn_q     <= plan_q.offset - LaneW'(4);
      first_be_q <= single ? bytes_enabled(plan_q.rest) : 4'b1111;
      last_be_q  <= single ? 4'b0000 : bytes_enabled(plan_q.rest);
      for (int unsigned i = 0; i < N; i++) begin
        last_keep_q[i] <= LaneW'(i) <= beats_end[LaneW-1:0];
        before_q[i]    <= (LaneW + 1)'(i) < ahead;
      end
    end
    if (rst) active_q <= 1'b0;
  end

  // ---------------------------------------------------------------- rotated words, merged to bus words

  typedef struct packed {
    logic              closes;    // end of the request
    logic              error;     // error report only
    logic [7:0]        tag;
    logic              last;
    logic [3:0]        last_be;
    logic [3:0]        first_be;
    logic [N-1:0]      keep;
    logic [DATA_W-1:0] data;
  } beat_t;

  logic turned_valid_q, turned_skip_q, turned_head_q;
  logic [N-1:0][31:0] turned_q, before_word_q;
  logic [N-1:0] turned_before_q;
  logic [71:0] turned_head_bits_q;  // length, address
  beat_t turned_beat_q, beat;
  logic [127:0] descriptor;

  always_ff @(posedge clk) begin
    turned_valid_q <= step;
    turned_skip_q  <= skip_q;
    turned_head_q  <= head_q;
    for (int unsigned i = 0; i < N; i++) turned_q[i] <= word[{LaneW'(i) + turn_q, 5'd0}+:32];
    turned_before_q    <= before_q;
    turned_head_bits_q <= {1'b0, run_q.length, run_q.addr};
    turned_beat_q <= '{
        closes: last_step && !run_q.more,
        error: run_q.error,
        tag: run_q.tag,
        last: last_step,
        last_be: last_be_q,
        first_be: first_be_q,
        keep: last_step ? last_keep_q : '1,
        data: '0
    };
    if (turned_valid_q) before_word_q <= turned_q;
    if (rst) turned_valid_q <= 1'b0;
  end

  assign descriptor = {
    8'd0,  // no ECRC, attributes 0 (strict order), traffic class 0, requester ID from the block
    16'd0,  // completer ID: routed by address
    8'd0,  // tag: posted
    16'd0,
    1'b0,
    4'b0001,  // memory write
    1'b0,
    turned_head_bits_q,
    2'd0
  };

  always_comb begin
    beat = turned_beat_q;
    for (int unsigned i = 0; i < N; i++) begin
      beat.data[32*i+:32] = i < 4 && turned_head_q ? descriptor[32*(i%4)+:32]
                            : turned_before_q[i] ? before_word_q[i] : turned_q[i];
    end
  end

  // ---------------------------------------------------------------- output beats

  // Steps run only with room for all beats in flight: four, since `level` lags by two cycles.
  beat_t out;
  logic out_valid, fire, unused_ready;
  logic [$clog2(WAITING):0] level;

  fifo #(
      .WIDTH($bits(beat_t)),
      .DEPTH(WAITING),
      .CHOOSE(1'b1)
  ) i_beats (
      .clk,
      .rst,
      .in_valid (turned_valid_q && !turned_skip_q),
      .in_ready (unused_ready),
      .in_data  (beat),
      .out_valid,
      .out_ready(fire),
      .out_data (out),
      .level
  );

  assign tlp_valid = out_valid && !out.error;
  assign fire = out_valid && (out.error || tlp_ready);
  assign tlp_data = out.data;
  assign tlp_keep = out.keep;
  assign tlp_first_be = out.first_be;
  assign tlp_last_be = out.last_be;
  assign tlp_last = out.last;

  always_ff @(posedge clk) begin
    seat_q        <= 32'(level) < WAITING / 2;
    wr_rsp.done_valid <= fire && out.closes;
    wr_rsp.done_tag   <= out.tag;
    wr_rsp.done_error <= out.error;
    if (rst) begin
      seat_q        <= 1'b0;
      wr_rsp.done_valid <= 1'b0;
    end
  end

  logic unused;
  assign unused = ^{unused_level, unused_ready, wr_req.cmd.addr[1:0], run_q.rest, run_q.offset};

endmodule
