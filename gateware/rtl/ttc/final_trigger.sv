// SPDX-License-Identifier: SHL-2.1
// Final trigger without registers: primitives in passing, latency memory, release in the experiment's clock,
// histogram of the slack t + L - now.
module final_trigger
  import nanet_ttc_pkg::*;
#(
    // Places of the latency memory.
    parameter int unsigned LOG2_PLACES = 15,
    // Ticks from reading a place to its release.
    parameter int unsigned AHEAD = 8,
    // Bins of the histogram.
    parameter int unsigned BINS = 128
) (
    input logic clk,
    input logic rst,

    /*
     * Configuration: see trigger_line and trigger_tap
     */
    input  logic [LOG2_PLACES-1:0] latency,
    input  logic [3:0]             min_ticks,
    input  logic                   choke,
    input  logic [2:0]             mask_write,  // as in trigger_tap
    input  logic [3:0]             mask_index,
    input  logic [31:0]            mask_word,
    output logic                   ready,

    /*
     * Time
     */
    input logic      now_tick,
    input ttc_tick_t now_number,
    input ttc_now_t  now,
    input logic      sob,
    input logic      eob,

    /*
     * Sender's words: see trigger_tap
     */
    input logic         word_valid,
    input logic [255:0] word,
    input logic [5:0]   word_bytes,
    input logic         sent,
    input logic         discarded,
    input logic         timed,
    input logic         burst,

    /*
     * Counter pulses; histogram: `read_count` is valid with `read_valid`
     */
    output trigger_counts_t         counts,
    output logic                    count_primitive,
    output logic                    count_overflow,
    input  logic                    clear,
    input  logic                    read,
    input  logic [$clog2(BINS)-1:0] read_bin,
    output logic                    read_valid,
    output logic [31:0]             read_count,

    /*
     * Experiment's clock: see trigger_out
     */
    input  logic       clk_ttc,
    input  logic       rst_ttc,
    input  logic       tick_ttc,
    input  ttc_tick_t  number_ttc,
    output logic       pulse,
    output logic [5:0] kind,
    output logic       missed
);

  logic decision_valid, decision_ready, release_valid, slack_valid;
  decision_t decision;
  release_t released;
  logic [31:0] slack;

  trigger_tap i_tap (
      .clk,
      .rst,
      .mask_write,
      .mask_index,
      .mask_word,
      .word_valid,
      .word,
      .word_bytes,
      .sent,
      .discarded,
      .timed,
      .burst,
      .decision_valid,
      .decision_ready,
      .decision,
      .count_primitive,
      .count_overflow
  );

  trigger_line #(
      .LOG2_PLACES(LOG2_PLACES),
      .AHEAD      (AHEAD)
  ) i_line (
      .clk,
      .rst,
      .latency,
      .min_ticks,
      .choke,
      .ready,
      .now_tick,
      .now_number,
      .now,
      .sob,
      .eob,
      .decision_valid,
      .decision_ready,
      .decision,
      .release_valid,
      .released,
      .counts,
      .slack_valid,
      .slack
  );

  // The histogram takes a sample every fourth cycle; the queue holds those of a full packet.
  logic waits, take;
  logic sample_valid_q;
  logic [31:0] sample, sample_q;  // a register between the memories of queue and histogram
  logic [1:0] turn_q;
  logic unused_slack_ready;
  logic [7:0] unused_level;
  assign take = waits && turn_q == '0;

  always_ff @(posedge clk) begin
    if (take || turn_q != '0) turn_q <= turn_q + 1'b1;
    sample_valid_q <= take;
    sample_q       <= sample;
    if (rst) begin
      turn_q         <= '0;
      sample_valid_q <= 1'b0;
    end
  end

  fifo #(
      .WIDTH(32),
      .DEPTH(128)
  ) i_slack_queue (
      .clk,
      .rst,
      .in_valid (slack_valid),
      .in_ready (unused_slack_ready),
      .in_data  (slack),
      .out_valid(waits),
      .out_ready(take),
      .out_data (sample),
      .level    (unused_level)
  );

  histogram #(
      .BINS(BINS)
  ) i_slack (
      .clk,
      .rst,
      .sample_valid(sample_valid_q),
      .sample      (sample_q),
      .clear,
      .read,
      .read_bin,
      .read_valid,
      .read_count
  );

  trigger_out i_out (
      .clk,
      .rst,
      .release_valid,
      .released,
      .clk_ttc,
      .rst_ttc,
      .tick_ttc,
      .number_ttc,
      .pulse,
      .kind,
      .missed
  );

endmodule
