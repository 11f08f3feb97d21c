// SPDX-License-Identifier: SHL-2.1
// TTC encoder: trigger pulses on the A channel, a queue of frames on the B channel, biphase-mark half cells.
module ttc_encode
  import nanet_ttc_pkg::*;
#(
    // Depth of the frame queue, a power of two.
    parameter int unsigned QUEUE = 16
) (
    input logic clk,
    input logic rst,

    // Pulse, once a period.
    input logic tick,

    /*
     * With `tick`: trigger pulse of this period
     */
    input logic trigger,

    /*
     * Frames; `corrected` is ignored
     */
    input  logic       frame_valid,
    output logic       frame_ready,
    input  ttc_frame_t frame,

    /*
     * One period, in the cycle after `tick`; half cells of the line, the first in bit 0
     */
    output logic       out_tick,
    output ttc_pair_t  pair,
    output logic [3:0] cells
);

  logic head_valid, head_ready, start;
  logic [32:0] head;
  logic [41:0] shift_q;  // the next bit in bit 41
  logic [5:0] left_q;
  logic [$clog2(QUEUE):0] unused_level;
  logic unused_corrected;
  assign unused_corrected = frame.corrected;

  fifo #(
      .WIDTH(33),
      .DEPTH(QUEUE)
  ) i_queue (
      .clk,
      .rst,
      .in_valid (frame_valid),
      .in_ready (frame_ready),
      .in_data  ({frame.addressed, frame.data}),
      .out_valid(head_valid),
      .out_ready(head_ready),
      .out_data (head),
      .level    (unused_level)
  );

  assign start      = head_valid && left_q == 0;
  assign head_ready = tick && start;

  // A biphase-mark bit: a transition at its begin, a 1 has another in its middle.
  logic a, b;
  assign a = trigger;
  assign b = start ? 1'b0 : left_q == 0 || shift_q[41];

  logic level_q;
  logic [3:0] next;
  always_comb begin
    next[0] = !level_q;
    next[1] = next[0] ^ a;
    next[2] = !next[1];
    next[3] = next[2] ^ b;
  end

  always_ff @(posedge clk) begin
    out_tick <= tick;
    if (tick) begin
      pair    <= '{a: a, b: b};
      cells   <= next;
      level_q <= next[3];
      if (start) begin
        // The start bit leaves with this tick.
        shift_q <= head[32] ? {1'b1, head[31:0], ttc_check_long(head[31:0]), 1'b1, 1'b1} :
            {1'b0, head[7:0], ttc_check_short(head[7:0]), 1'b1, 27'd1};
        left_q <= head[32] ? 6'd41 : 6'd15;
      end else if (left_q != 0) begin
        shift_q <= {shift_q[40:0], 1'b1};
        left_q  <= left_q - 1'b1;
      end
    end
    if (rst) begin
      out_tick <= 1'b0;
      left_q   <= '0;
      level_q  <= 1'b0;
    end
  end

endmodule
