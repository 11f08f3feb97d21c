// SPDX-License-Identifier: SHL-2.1
// Cut-through validator of MGP packets, by the rules and names of docs/formats.md, Refusals. The last word
// carries the first refusal that applies. `wrong_burst` is decided later, since it depends on earlier
// packets. An event begins at any of the four 16-bit lanes of a word, at most once per word.
module mgp_check
  import nanet_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while packets arrive
     */
    input mgp_rules_t rules,

    /*
     * payloads, from udp_receive
     */
    input payload_req_t in_req,

    /*
     * the same, 6 cycles later; refusal, hits and events are valid on the last word
     */
    output payload_req_t out_req,
    output refusal_e     out_refusal,
    output logic [15:0]  out_hits,
    output logic [7:0]   out_events
);

  typedef struct packed {
    logic           valid;
    logic           first;
    logic           last;
    logic [3:0]     bytes;
    frame_verdict_e verdict;
    logic [63:0]    data;
  } word_t;

  // ------------------------------------------------------------------ a, b: a word and its successor

  word_t a_q, b_q;
  datagram_t info_mem[8];  // packets between a_q and the output
  logic [2:0] info_in_q, info_out_q;
  logic [15:0] a_size_q, b_size_q;
  logic step;  // b_q is checked, with its successor in a_q

  assign step = b_q.valid && (a_q.valid || b_q.last);

  always_ff @(posedge clk) begin
    a_q.valid   <= in_req.valid;
    a_q.first   <= in_req.first;
    a_q.last    <= in_req.last;
    a_q.bytes   <= in_req.bytes;
    a_q.verdict <= in_req.verdict;
    a_q.data    <= in_req.data;
    if (in_req.valid && in_req.first) begin
      info_mem[info_in_q] <= in_req.info;
      info_in_q           <= info_in_q + 1'b1;
      a_size_q            <= in_req.info.length;
    end
    b_size_q <= a_q.valid ? a_size_q : b_size_q;
    if (a_q.valid) b_q <= a_q;
    else if (step) b_q.valid <= 1'b0;
    if (rst) begin
      a_q.valid <= 1'b0;
      b_q.valid <= 1'b0;
      info_in_q <= '0;
    end
  end

  // Start of the next event, in lanes from the start of b_q.
  logic [8:0] next_q;
  logic [1:0] index_q;  // word index of b_q in its packet: 0, 1, then 2 for the rest
  logic [1:0] index;
  logic fixed_q;
  logic [127:0] pair;
  logic [63:0] event_head;
  logic [7:0] event_stored;
  logic starts;
  mgp_header_t header_q;
  logic [15:0] size_q;

  assign index  = b_q.first ? 2'd0 : index_q;
  assign pair   = {b_q.last ? 64'd0 : a_q.data, b_q.data};
  assign starts = index == 2'd2 && next_q[8:2] == 0;

  always_comb begin
    event_head = pair[63:0];
    for (int lane = 1; lane < 4; lane++)
      if (next_q[1:0] == 2'(lane)) event_head = pair[16*lane+:64];
  end
  assign event_stored = event_head[47:40];

  word_t c_q;
  logic c_starts_q;
  logic [1:0] c_lane_q, c_index_q;
  logic [63:0] c_head_q;
  logic [8:0] c_size_q;  // lanes of the event after its header

  always_ff @(posedge clk) begin
    c_q.valid <= step;
    if (step) begin
      c_q        <= b_q;
      c_starts_q <= starts;
      c_lane_q   <= next_q[1:0];
      c_head_q   <= event_head;
      c_size_q   <= fixed_q ? 9'd32 : {1'b0, event_stored};
      c_index_q  <= index;
      index_q    <= index == 2'd2 ? 2'd2 : index + 1'b1;
      if (index == 2'd0) begin
        header_q[63:0] <= b_q.data;
        fixed_q        <= (b_q.data[31:24] & MgpFixed) != 0;
        size_q         <= b_size_q;
      end
      if (index == 2'd1) header_q[127:64] <= b_q.data;
      if (index != 2'd2) next_q <= '0;
      else if (starts) next_q <= 9'(next_q[1:0]) + (fixed_q ? 9'd32 : {1'b0, event_stored});
      else next_q <= next_q - 9'd4;
    end
    if (rst) c_q.valid <= 1'b0;
  end

  // ------------------------------------------------------------------ c: walks from event to event

  logic signed [16:0] left_q, left_after;  // bytes from the start of the event to `length`
  logic [7:0] events_left_q;
  logic stopped_q;
  logic counts, past_end;
  logic [2:0] hit_from_q;  // first lane of the next word with hits of the event
  logic [5:0] hit_to_q;
  logic [5:0] stored_capped;

  assign left_after  = left_q - signed'({7'd0, c_size_q + 9'd4, 1'b0});
  assign counts      = c_starts_q && events_left_q != 0 && !stopped_q;
  assign past_end    = counts && left_after < 0;
  assign stored_capped = c_head_q[47:40] > 8'd32 ? 6'd32 : c_head_q[45:40];

  word_t d_q;
  mgp_header_t d_header_q;
  logic [15:0] d_size_q;
  logic d_counts_q;
  logic [63:0] d_head_q;
  logic [3:0] d_hit_q;
  logic d_past_end_q;
  logic signed [16:0] d_left_q;
  logic [5:0] d_stored_q;
  logic any_events;

  assign any_events = (header_q.flags & (MgpSob | MgpEob)) == 0;

  always_ff @(posedge clk) begin
    d_q        <= c_q;
    d_counts_q <= c_q.valid && counts;  // data beyond the end are masked: event_past_end has priority
    d_stored_q <= stored_capped;
    d_head_q   <= c_head_q;
    d_header_q <= header_q;
    d_size_q   <= size_q;
    for (int lane = 0; lane < 4; lane++)
      d_hit_q[lane] <= c_q.valid && c_index_q == 2'd2 && 6'(lane) >= 6'(hit_from_q) && 6'(lane) < hit_to_q;
    if (c_q.valid) begin
      if (c_index_q != 2'd2) begin
        left_q        <= signed'(17'(header_q.length)) - 17'sd16;
        events_left_q <= header_q.events;
        stopped_q     <= 1'b0;
      end else begin
        if (counts) left_q <= left_after;
        events_left_q <= events_left_q - 8'(counts);
        stopped_q     <= stopped_q || past_end;
      end
      if (counts) begin
        hit_from_q <= {1'b0, c_lane_q};
        hit_to_q   <= 6'(c_lane_q) + stored_capped;
      end else begin
        hit_from_q <= '0;
        hit_to_q   <= c_index_q != 2'd2 || hit_to_q < 6'd4 ? '0 : hit_to_q - 6'd4;
      end
    end
    // State at the end of the packet, if this is its last word.
    if (c_index_q == 2'd2) begin
      d_past_end_q <= any_events && (stopped_q || past_end || events_left_q != 8'(counts));
      d_left_q     <= counts ? left_after : left_q;
    end else begin
      d_past_end_q <= any_events && header_q.events != 0;
      d_left_q     <= signed'(17'(header_q.length)) - 17'sd16;
    end
    if (rst) d_q.valid <= 1'b0;
  end

  // ------------------------------------------------------------------ d: checks headers and hits

  word_t e_q;
  logic [Refusals-1:0] e_broken_q;  // errors of the packet header and of the walk
  logic [4:0] e_event_q;  // errors of this word: time, stored, seen, PM, board
  logic [5:0] e_stored_q;
  logic sob, eob, e_markers_q;
  logic [7:0] e_events_q;

  logic unused_fields;  // unchecked header fields
  assign unused_fields = &{1'b0, d_header_q.burst, d_header_q.sequence_number, d_header_q.index, d_head_q};

  assign sob = (d_header_q.flags & MgpSob) != 0;
  assign eob = (d_header_q.flags & MgpEob) != 0;

  function automatic logic [4:0] bit_of(input refusal_e which);
    return which;
  endfunction

  always_ff @(posedge clk) begin
    e_q         <= d_q;
    e_stored_q  <= d_counts_q ? d_stored_q : '0;
    e_markers_q <= sob || eob;
    e_events_q  <= d_header_q.events;
    e_event_q   <= '0;
    if (d_counts_q) begin
      e_event_q[0] <= d_head_q[31:8] != d_header_q.frame;
      e_event_q[1] <= d_head_q[47:40] > 8'd32;
      e_event_q[2] <= d_head_q[55:48] < d_head_q[47:40];
    end
    for (int lane = 0; lane < 4; lane++)
      if (d_hit_q[lane]) begin
        if (d_q.data[16*lane+:11] >= PmCount) e_event_q[3] <= 1'b1;
        if (d_header_q.board != 8'hFF && {6'd0, d_q.data[16*lane+9+:2]} != d_header_q.board)
          e_event_q[4] <= 1'b1;
      end

    if (d_q.valid || !nanet_dma_pkg::Lazy) begin
      e_broken_q                                <= '0;
      e_broken_q[bit_of(MgpShortHeader)]        <= d_size_q < 16'd16;
      e_broken_q[bit_of(MgpBadVersion)]         <= d_header_q.version != 8'd1;
      e_broken_q[bit_of(MgpBadSource)]          <= d_header_q.source != rules.source;
      e_broken_q[bit_of(MgpBadBoard)]           <= rules.boards == 0 ? d_header_q.board != 8'hFF :
                                                   d_header_q.board > 8'd3 ||
                                                   !rules.boards[d_header_q.board[1:0]];
      e_broken_q[bit_of(MgpBadEncoding)]        <= d_header_q.encoding != 0;
      e_broken_q[bit_of(MgpLengthMismatch)]     <= d_header_q.length < 16'd16 ||
                                                   d_size_q < d_header_q.length ||
                                                   (d_size_q > d_header_q.length &&
                                                    (d_header_q.flags & MgpPadded) == 0) ||
                                                   (sob && !eob && d_header_q.length != 16'd16) ||
                                                   (eob && !sob && d_header_q.length != 16'd40);
      e_broken_q[bit_of(MgpOversized)]          <= d_size_q > rules.max_payload;
      e_broken_q[bit_of(MgpSobEobWithEvents)]   <= (sob && eob) ||
                                                   ((sob || eob) && (d_header_q.events != 0 ||
                                                                     (d_header_q.flags & MgpLast) != 0));
      e_broken_q[bit_of(MgpEventPastEnd)]       <= d_past_end_q;
      e_broken_q[bit_of(MgpTrailingBytes)]      <= !sob && !eob && d_left_q != 0;
      e_broken_q[bit_of(MgpFrameBeyondSpill)]   <= {1'b0, d_header_q.frame} >= rules.max_frames;
    end
    if (rst) e_q.valid <= 1'b0;
  end

  // ------------------------------------------------------------------ e: accumulates errors; f: first error

  logic [4:0] sticky_q, sticky;
  logic [15:0] hits_q, hits;
  word_t f_q;
  logic [Refusals-1:0] f_broken_q;
  logic [7:0] f_events_q;

  assign sticky = (e_q.first ? '0 : sticky_q) | e_event_q;
  assign hits   = (e_q.first ? '0 : hits_q) + 16'(e_stored_q);

  always_ff @(posedge clk) begin
    f_q        <= e_q;
    f_events_q <= e_events_q;
    f_broken_q <= e_broken_q;
    f_broken_q[MgpPmOfOtherBoard:MgpTimestampOutsideFrame] <=
        e_markers_q ? '0 : {sticky[4], sticky[3], sticky[2], sticky[1], sticky[0]};
    if (e_q.valid) begin
      sticky_q <= sticky;
      hits_q   <= hits;
    end
    if (rst) f_q.valid <= 1'b0;
  end

  always_ff @(posedge clk) begin
    out_req.valid   <= f_q.valid;
    out_req.first   <= f_q.first && f_q.valid;
    out_req.last    <= f_q.last && f_q.valid;
    out_req.bytes   <= f_q.bytes;
    out_req.data    <= f_q.data;
    out_req.verdict <= f_q.verdict;
    out_hits    <= hits_q;
    out_events  <= f_events_q;
    if (f_q.valid || !nanet_dma_pkg::Lazy) begin
      out_refusal <= MgpNone;
      for (int i = int'(Refusals) - 1; i >= 0; i--) if (f_broken_q[i]) out_refusal <= refusal_e'(5'(i));
    end
    if (f_q.valid && f_q.first) begin
      out_req.info   <= info_mem[info_out_q];
      info_out_q <= info_out_q + 1'b1;
    end
    if (rst) begin
      out_req.valid  <= 1'b0;
      info_out_q <= '0;
    end
  end

endmodule
