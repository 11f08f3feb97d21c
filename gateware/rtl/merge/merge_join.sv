// SPDX-License-Identifier: SHL-2.1
// Merging rule: joins the fragments of four boards to events. The earliest remaining fragment opens an event;
// the next fragment of each board joins if it lies in the window. One event in three cycles.
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

  typedef enum logic [1:0] {
    JoinIdle,
    JoinFirst,
    JoinSubtract,
    JoinCompare
  } state_e;

  state_e state_q;
  logic [15:0] first, first_q;
  logic [3:0] earliest, joins;
  logic [3:0][15:0] since_q;  // after the earliest
  logic takes, event_valid_q, room_q, unused_ready;
  merge_event_t event_in, event_q;
  logic [4:0] level;

  // All pairs are compared at once.
  always_comb begin
    earliest = head_valid;
    first    = '0;
    for (int b = 0; b < 4; b++) begin
      for (int c = b + 1; c < 4; c++) begin
        if (head[c].since < head[b].since) earliest[b] &= !head_valid[c];
        else earliest[c] &= !head_valid[b];
      end
    end
    for (int b = 0; b < 4; b++) if (earliest[b]) first |= head[b].since;
  end

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
    event_q       <= event_in;
    event_valid_q <= takes;
    room_q        <= level < 5'd14;  // one event is on its way, one follows
    if (rst) event_valid_q <= 1'b0;
  end
  assign takes = state_q == JoinCompare && room_q;
  assign pop   = takes ? joins : '0;

  // A walker is done two cycles after its last fragment, which has then reached the head of its queue.
  always_ff @(posedge clk) begin
    unique case (state_q)
      JoinIdle: ;
      JoinFirst: begin
        first_q <= first;
        if ((head_valid | walked) == '1) state_q <= head_valid == 0 ? JoinIdle : JoinSubtract;
      end
      JoinSubtract: state_q <= JoinCompare;
      JoinCompare: begin
        if (takes) begin
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
      .in_valid (event_valid_q),
      .in_ready (unused_ready),
      .in_data  (event_q),
      .out_valid,
      .out_ready,
      .out_data (out),
      .level
  );

  assign disordered = disorder != 0;
  assign done       = state_q == JoinIdle && !event_valid_q && !out_valid && level == 0;
  always_ff @(posedge clk) begin
    fragments <= 16'(walk_fragments[0]) + 16'(walk_fragments[1]) + 16'(walk_fragments[2]) +
                 16'(walk_fragments[3]);
    hits      <= 17'(walk_hits[0]) + 17'(walk_hits[1]) + 17'(walk_hits[2]) + 17'(walk_hits[3]);
  end

  logic unused;
  assign unused = &{1'b0, unused_ready};

endmodule
