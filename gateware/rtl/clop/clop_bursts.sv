// SPDX-License-Identifier: SHL-2.1
// State of the two bursts that packets may belong to, the current and the previous one: number, first n,
// opened frames and progress.
module clop_bursts
  import nanet_pkg::*;
#(
    // Number n of frame 0 of the first burst.
    parameter logic [63:0] FIRST_N = 0
) (
    input logic clk,
    input logic rst,

    /*
     * pulses: firmware commands
     */
    input logic       begins,          // pulse: a burst begins; the current burst becomes the older one
    input logic [7:0] begins_number,
    input logic       begins_started,
    input logic       ends,            // pulse: no further frames in the current burst
    input logic [1:0] starts,          // pulse: SOB received, of {older, current}

    /*
     * frames of the current burst
     */
    input clop_opened_t opened,
    input clop_skip_t   shift,   // skip caused by a packet
    input clop_skip_t   skip,    // skip commanded by the firmware

    /*
     * pulses, of {older, current}
     */
    input logic [1:0] closed,    // pulse: a frame is closed
    input logic [1:0] notified,  // pulse: end reported to the consumers

    output clop_burst_t current,
    output clop_burst_t old,
    output logic        half,       // half of clop_sequence that holds the current burst's boards
    output logic [63:0] end_n,      // n of frame `next`, one cycle later
    output logic [63:0] next_base,  // n of frame 0 of the next burst, two cycles later

    /*
     * skipped frames, two cycles later
     */
    output logic        skipped_valid,
    output logic [24:0] skipped
);

  // Stored burst state without the derived fields.
  typedef struct packed {
    logic        known;
    logic [7:0]  number;
    logic [63:0] base;
    logic [24:0] next;
    logic        started;
    logic        ending;
    logic        ended;
  } state_t;

  state_t current_q, old_q;
  logic [1:0][15:0] open_q;  // number of open frames
  logic [1:0] over_q;
  logic [1:0][23:0] last_known_q;
  logic [1:0][31:0] last_n_q;
  logic skip_q;
  logic [24:0] skip_from_q, skip_to_q;

  function automatic clop_burst_t shown(input state_t state, input logic over, input logic [23:0] last_known,
                                        input logic [31:0] last_n);
    return '{known: state.known, number: state.number, base: state.base, next: state.next,
             started: state.started, ending: state.ending, ended: state.ended, over: over,
             last_known: last_known, last_n: last_n};
  endfunction

  assign current = shown(current_q, over_q[0], last_known_q[0], last_n_q[0]);
  assign old     = shown(old_q, over_q[1], last_known_q[1], last_n_q[1]);

  function automatic logic [23:0] newest(input logic [24:0] next);
    logic [24:0] less;
    less = next - 25'd1;
    return less[24] ? '0 : less[23:0];  // limited to 24 bits
  endfunction

  always_ff @(posedge clk) begin
    last_known_q <= {newest(old_q.next), newest(current_q.next)};
    last_n_q     <= {old_q.base[31:0] + 32'(last_known_q[1]), current_q.base[31:0] + 32'(last_known_q[0])};
    end_n        <= current_q.base + 64'(current_q.next);
    next_base    <= current_q.known ? end_n : FIRST_N;
    over_q       <= {old_q.known && old_q.ending && open_q[1] == 0,
                     current_q.known && current_q.ending && open_q[0] == 0};

    open_q[0] <= open_q[0] + 16'(opened.valid && opened.ok && !opened.closes) - 16'(closed[0]);
    open_q[1] <= open_q[1] - 16'(closed[1]);
    if (opened.valid) current_q.next <= opened.after;
    if (shift.valid) current_q.next <= shift.next;
    if (skip.valid) current_q.next <= skip.next;
    if (shift.valid || skip.valid || starts[0]) current_q.started <= 1'b1;
    if (starts[1]) old_q.started <= 1'b1;
    if (ends || (opened.valid && opened.last && !opened.packet)) current_q.ending <= 1'b1;
    if (notified[0]) current_q.ended <= 1'b1;
    if (notified[1]) old_q.ended <= 1'b1;

    skip_q        <= (shift.valid && shift.counted) || (skip.valid && skip.counted);
    skip_from_q   <= current_q.next;
    skip_to_q     <= shift.valid ? shift.next : skip.next;
    skipped_valid <= skip_q;
    skipped       <= skip_to_q - skip_from_q;

    if (begins) begin
      old_q     <= current_q;
      current_q <= '{known: 1'b1, number: begins_number, base: next_base, started: begins_started,
                     default: '0};
      open_q    <= {open_q[0], 16'd0};
      half      <= !half;
      over_q    <= {over_q[0], 1'b0};
    end
    if (rst) begin
      current_q     <= '0;
      old_q         <= '0;
      open_q        <= '0;
      over_q        <= '0;
      half          <= 1'b0;
      skip_q        <= 1'b0;
      skipped_valid <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, opened};

endmodule
