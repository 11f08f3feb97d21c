// SPDX-License-Identifier: SHL-2.1
// Sample selection for the latency histogram, and profile of the last packet of each channel. Samples of
// several channels are serialised. A table keyed by the cycle of a frame's first word holds the cycle of
// its last word.
module latency_samples
  import nanet_pkg::*;
#(
    // MACs.
    parameter int unsigned CHANNELS = 2,
    // 1: frames are reported with their times. 0: word by word.
    parameter bit TIMES = 1'b0
) (
    input logic clk,
    input logic rst,

    /*
     * `latency` register
     */
    input logic [2:0] stage,
    input logic       hold,

    input logic [31:0] now,  // card clock, low word

    /*
     * words from the MACs
     */
    input logic [CHANNELS-1:0] rx_valid,
    input logic [CHANNELS-1:0] rx_last,

    /*
     * with TIMES, pulse per frame: cycles of its first and last word
     */
    input logic [CHANNELS-1:0]       frame_valid,
    input logic [CHANNELS-1:0][31:0] frame_start,
    input logic [CHANNELS-1:0][31:0] frame_end,

    /*
     * used packets; events of frames closed by a packet, with the time of that packet's first word
     */
    input logic     [CHANNELS-1:0] profile_valid,
    input profile_t [CHANNELS-1:0] profile,
    input logic                    closed_valid,
    input logic     [31:0]         closed_start,
    input logic     [2:0]          closed_channel,

    output profile_t [CHANNELS-1:0] last,

    /*
     * to the histogram: at most every fourth cycle
     */
    output logic        sample_valid,
    output logic [31:0] sample
);

  localparam int unsigned Sources = CHANNELS + 1;

  logic [Sources-1:0] waits_q;
  logic [CHANNELS-1:0] passed_q;
  logic [Sources-1:0][31:0] value_q;
  logic [$clog2(Sources)-1:0] turn_q;
  logic [CHANNELS-1:0][31:0] from_q, to_q;
  logic [1:0] pause_q;

  // A frame has at least eight words, so two frames within 4096 cycles never share an entry.
  // `tag` detects older entries.
  typedef struct packed {
    logic [9:0]  tag;
    logic [31:0] last;
  } end_t;

  logic [CHANNELS-1:0] within_q, write_q;
  logic [CHANNELS-1:0][31:0] start_q, frame_end_q;
  logic [31:0] ended_q;
  end_t [CHANNELS-1:0] end_rd;

  for (genvar c = 0; c < int'(CHANNELS); c++) begin : gen_ends
    end_t end_in;
    assign end_in = '{tag: start_q[c][21:12], last: TIMES ? frame_end_q[c] : ended_q};
    ram_1r1w #(
        .WIDTH($bits(end_t)),
        .DEPTH(512)
    ) ends (
        .clk,
        .wr_en  (write_q[c]),
        .wr_addr(start_q[c][11:3]),
        .wr_data(end_in),
        .rd_addr(closed_start[11:3]),
        .rd_data(end_rd[c])
    );
    always_ff @(posedge clk) begin
      write_q[c] <= rx_valid[c] && rx_last[c];
      if (rx_valid[c]) within_q[c] <= !rx_last[c];
      if (rx_valid[c] && !within_q[c]) start_q[c] <= now;
      if (TIMES) begin
        write_q[c] <= frame_valid[c];
        start_q[c] <= frame_start[c];
      end
      frame_end_q[c] <= frame_end[c];
      if (rst) within_q[c] <= 1'b0;
    end
  end

  // Four steps: memory read, channel selection, frame match, difference.
  typedef struct packed {
    logic        valid;
    logic [2:0]  channel;
    logic [31:0] start;
    logic [31:0] at;
  } closed_t;

  closed_t closed_q, read_q, looked_q;
  logic found_q;
  logic [31:0] closed_cycles_q;
  end_t [CHANNELS-1:0] end_q;
  end_t found, found_end_q;

  always_comb begin
    found = end_q[0];
    for (int unsigned c = 0; c < CHANNELS; c++) if (read_q.channel == 3'(c)) found = end_q[c];
  end

  always_ff @(posedge clk) begin
    ended_q         <= now;
    closed_q        <= '{valid: closed_valid && (stage == 3'd0 || stage == 3'd6), channel: closed_channel,
                         start: closed_start, at: now};
    read_q          <= closed_q;
    end_q           <= end_rd;
    looked_q        <= read_q;
    found_end_q     <= found;
    found_q         <= looked_q.valid && (stage == 3'd6 || found_end_q.tag == looked_q.start[21:12]);
    closed_cycles_q <= looked_q.at - (stage == 3'd6 ? looked_q.start : found_end_q.last);
    if (rst) begin
      closed_q.valid <= 1'b0;
      read_q.valid   <= 1'b0;
      looked_q.valid <= 1'b0;
      found_q        <= 1'b0;
    end
  end

  logic event_valid, event_ready, unused_room;
  logic [31:0] event_cycles;
  logic [4:0] unused_level;
  assign event_ready = !waits_q[CHANNELS];
  logic unused;
  assign unused = ^{looked_q.channel, unused_room, unused_level};

  fifo #(
      .WIDTH(32),
      .DEPTH(16)
  ) events (
      .clk,
      .rst,
      .in_valid (found_q),
      .in_ready (unused_room),
      .in_data  (closed_cycles_q),
      .out_valid(event_valid),
      .out_ready(event_ready),
      .out_data (event_cycles),
      .level    (unused_level)
  );

  always_ff @(posedge clk) begin
    for (int unsigned c = 0; c < CHANNELS; c++) begin
      if (profile_valid[c] || !nanet_dma_pkg::Lazy)
        case (stage)
          3'd1: {to_q[c], from_q[c]} <= {profile[c].controller, profile[c].start};
          3'd2: {to_q[c], from_q[c]} <= {profile[c].placed, profile[c].controller};
          3'd3: {to_q[c], from_q[c]} <= {profile[c].written, profile[c].placed};
          3'd4: {to_q[c], from_q[c]} <= {profile[c].written, profile[c].start};
          default: {to_q[c], from_q[c]} <= {profile[c].placed, profile[c].start};
        endcase
      passed_q[c] <= profile_valid[c] && stage != 3'd0 && stage != 3'd6;
    end

    // One source is selected per cycle; every source has at most one sample per round.
    if (pause_q != 0) pause_q <= pause_q - 1'b1;
    sample_valid <= waits_q[turn_q] && pause_q == 0;
    sample       <= value_q[turn_q];
    if (pause_q == 0) begin
      waits_q[turn_q] <= 1'b0;
      if (waits_q[turn_q]) pause_q <= 2'd3;
      turn_q <= turn_q == ($bits(turn_q))'(Sources - 1) ? '0 : turn_q + 1'b1;
    end
    for (int unsigned c = 0; c < CHANNELS; c++) begin
      if (profile_valid[c] && !hold) last[c] <= profile[c];
      if (passed_q[c]) value_q[c] <= to_q[c] - from_q[c];
    end
    // Events may arrive faster than the histogram accepts them.
    if (event_ready) begin
      waits_q[CHANNELS] <= event_valid;
      value_q[CHANNELS] <= event_cycles;
    end
    for (int unsigned c = 0; c < CHANNELS; c++) if (passed_q[c]) waits_q[c] <= 1'b1;
    if (rst) begin
      sample_valid <= 1'b0;
      passed_q     <= '0;
      waits_q      <= '0;
      turn_q       <= '0;
      pause_q      <= '0;
      last         <= '0;
    end
  end

endmodule
