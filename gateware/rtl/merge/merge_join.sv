// SPDX-License-Identifier: SHL-2.1
// Merging rule: joins the fragments of four boards to events. The earliest remaining fragment opens an event;
// the next fragment of each board joins if it lies in the window. One event in four cycles.
module merge_join
  import nanet_merge_pkg::*;
(
    input logic clk,
    input logic rst,

    input logic [7:0] window,  // LSB

    /*
     * a frame
     */
    input  logic         start,
    input  merge_frame_t frame,
    output logic         done,        // every event has been taken
    output logic         disordered,  // a board's fragments are out of order
    output logic [15:0]  events,
    output logic [15:0]  fragments,
    output logic [16:0]  hits,

    /*
     * reads of the walkers
     */
    output merge_read_t [3:0]        rd,
    input  logic [3:0]               rd_ready,
    input  logic [3:0][127:0]        rd_data,

    /*
     * events
     */
    output logic         out_valid,
    input  logic         out_ready,
    output merge_event_t out
);

  logic [3:0] walked, disorder, head_valid, pop;
  logic [3:0][12:0] walk_fragments;
  logic [3:0][15:0] walk_hits;
  merge_fragment_t [3:0] head;

  for (genvar b = 0; b < 4; b++) begin : gen_walk
    merge_walk walk (
        .clk,
        .rst,
        .start,
        .slot      (frame.slot),
        .units     (frame.units[b]),
        .done      (walked[b]),
        .disordered(disorder[b]),
        .fragments (walk_fragments[b]),
        .hits      (walk_hits[b]),
        .rd        (rd[b]),
        .rd_ready  (rd_ready[b]),
        .rd_data   (rd_data[b]),
        .out_valid (head_valid[b]),
        .out_ready (pop[b]),
        .out       (head[b])
    );
  end

  // ------------------------------------------------------------------ earliest fragment, joining ones

  typedef enum logic [2:0] {
    JoinIdle,
    JoinFirst,
    JoinSubtract,
    JoinCompare,
    JoinTake
  } state_e;

  state_e state_q;
  logic [15:0] first_low, first_high, first_q;
  logic [3:0] joins, joins_q;
  logic [3:0][15:0] since_q;  // after the earliest
  logic low_valid, high_valid, event_valid, event_ready;
  merge_event_t event_in, event_q;
  logic [4:0] level;

  function automatic logic [15:0] earlier(input logic a_valid, input logic [15:0] a, input logic b_valid,
                                          input logic [15:0] b);
    return b_valid && (!a_valid || b < a) ? b : a;
  endfunction

  assign low_valid  = head_valid[0] || head_valid[1];
  assign high_valid = head_valid[2] || head_valid[3];
  assign first_low  = earlier(head_valid[0], head[0].since, head_valid[1], head[1].since);
  assign first_high = earlier(head_valid[2], head[2].since, head_valid[3], head[3].since);
  always_comb begin
    for (int b = 0; b < 4; b++) begin
      event_in.delay[b] = 8'(since_q[b]);
      event_in.hits[b]  = head[b].stored;
      event_in.at[b]    = head[b].at;
      joins[b]          = head_valid[b] && since_q[b] <= 16'(window);
      if (!joins[b]) begin
        event_in.delay[b] = '0;
        event_in.hits[b]  = '0;
      end
    end
    event_in.opened    = first_q;
    event_in.boards    = joins;
    event_in.truncated = |(joins & {head[3].truncated, head[2].truncated, head[1].truncated,
                                    head[0].truncated});
  end
  always_ff @(posedge clk) begin
    for (int b = 0; b < 4; b++) since_q[b] <= head[b].since - first_q;
    event_q <= event_in;
    joins_q <= joins;
  end
  assign event_valid = state_q == JoinTake;
  assign pop         = event_valid && event_ready ? joins_q : '0;

  // A walker is done two cycles after its last fragment, which has then reached the head of its queue.
  always_ff @(posedge clk) begin
    unique case (state_q)
      JoinIdle: ;
      JoinFirst: begin
        first_q <= earlier(low_valid, first_low, high_valid, first_high);
        if ((head_valid | walked) == '1) state_q <= head_valid == 0 ? JoinIdle : JoinSubtract;
      end
      JoinSubtract: state_q <= JoinCompare;
      JoinCompare: state_q <= JoinTake;
      JoinTake: begin
        if (event_ready) begin
          state_q <= JoinFirst;
          events  <= events + 1'b1;
        end
      end
      default: state_q <= JoinIdle;
    endcase
    if (start) begin
      state_q <= JoinFirst;
      events  <= '0;
    end
    if (rst) state_q <= JoinIdle;
  end

  fifo #(
      .WIDTH($bits(merge_event_t)),
      .DEPTH(16)
  ) queue (
      .clk,
      .rst,
      .in_valid (event_valid),
      .in_ready (event_ready),
      .in_data  (event_q),
      .out_valid,
      .out_ready,
      .out_data (out),
      .level
  );

  assign disordered = disorder != 0;
  assign done       = state_q == JoinIdle && !out_valid && level == 0;
  always_ff @(posedge clk) begin
    fragments <= 16'(walk_fragments[0]) + 16'(walk_fragments[1]) + 16'(walk_fragments[2]) +
                 16'(walk_fragments[3]);
    hits      <= 17'(walk_hits[0]) + 17'(walk_hits[1]) + 17'(walk_hits[2]) + 17'(walk_hits[3]);
  end

endmodule
