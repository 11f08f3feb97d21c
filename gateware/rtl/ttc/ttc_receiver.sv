// SPDX-License-Identifier: SHL-2.1
// TTC receiver without a clock chip: samples of the line to periods, frames and time.
module ttc_receiver
  import nanet_ttc_pkg::*;
(
    input logic clk,
    input logic rst,

    // Four samples of the line, the oldest in bit 0.
    input logic [3:0] samples,

    /*
     * Configuration: see ttc_time
     */
    input logic [31:0] offset,
    input logic [12:0] orbit,

    /*
     * Periods: pulse `tick`
     */
    output logic      tick,
    output ttc_tick_t number,
    output ttc_pair_t pair,

    /*
     * Frames: pulse
     */
    output logic       frame_valid,
    output ttc_frame_t frame,

    /*
     * Time
     */
    output logic      now_tick,
    output ttc_tick_t now_number,
    output ttc_now_t  now,
    output logic      sob,
    output logic      eob,

    output ttc_frame_counts_t frame_counts,
    output ttc_time_counts_t  time_counts
);

  logic bit_valid, bit_value, line_locked, violation, locked;

  ttc_sample i_sample (
      .clk,
      .rst,
      .samples,
      .bit_valid,
      .bit_value,
      .locked(line_locked),
      .violation
  );

  ttc_align i_align (
      .clk,
      .rst,
      .bit_valid,
      .bit_value,
      .line_locked,
      .tick,
      .number,
      .pair,
      .locked
  );

  ttc_frames i_frames (
      .clk,
      .rst,
      .tick,
      .pair,
      .locked,
      .frame_valid,
      .frame,
      .counts(frame_counts)
  );

  ttc_time i_time (
      .clk,
      .rst,
      .offset,
      .orbit,
      .tick,
      .number,
      .frame_valid,
      .frame,
      .locked,
      .slip  (violation),
      .now_tick,
      .now_number,
      .now,
      .sob,
      .eob,
      .counts(time_counts)
  );

endmodule
