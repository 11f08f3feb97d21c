// SPDX-License-Identifier: SHL-2.1
// Bench of final_trigger with its time: pins of a TTCrq, sender's words, pulses in the experiment's clock.
module final_trigger_bench
  import nanet_ttc_pkg::*;
(
    input  logic         clk,
    input  logic         rst,
    input  logic         clk_ttc,
    input  logic         rst_ttc,
    input  logic         bcr,
    input  logic         ecr,
    input  logic [9:0]   latency,
    input  logic         word_valid,
    input  logic [255:0] word,
    input  logic [5:0]   word_bytes,
    input  logic         sent,
    input  logic         burst,
    input  logic         read,
    input  logic [6:0]   read_bin,
    output logic         read_valid,
    output logic [31:0]  read_count,
    output logic         ready,
    output logic         pulse,
    output logic [5:0]   kind,
    output logic         missed,
    output logic [9:0]   counts,
    output logic [31:0]  timestamp,
    output logic         lost
);

  ttc_tick_t number_ttc, number, now_number;
  logic tick, frame_valid, locked, slip, now_tick, sob, eob;
  ttc_pair_t unused_pair;
  ttc_frame_t frame;
  ttc_now_t now;
  ttc_time_counts_t unused_counts;
  trigger_counts_t trigger_counts;
  // Fields of all masks in turn until the unit is ready; masks from 2 on are off.
  logic [5:0] mask_at_q;
  logic [2:0] mask_write;
  logic [31:0] mask_word;
  logic unused_primitive, unused_overflow;

  assign counts    = trigger_counts;
  assign timestamp = now.timestamp;
  assign lost      = now.lost;
  assign mask_write = !ready ? 3'd1 << mask_at_q[1:0] : '0;
  always_comb begin
    mask_word = '0;
    case (mask_at_q)
      6'h00: mask_word = 32'h4000_4000;
      6'h01: mask_word = 32'h01;
      6'h02: mask_word = 32'd1;
      6'h04: mask_word = 32'h0001_0001;
      6'h05: mask_word = 32'h02;
      6'h06: mask_word = 32'd1;
      default: ;
    endcase
  end
  always_ff @(posedge clk) mask_at_q <= mask_at_q + 1'b1;

  ttcrq_port i_port (
      .ready       (1'b1),
      .l1_accept   (1'b0),
      .brcst_strobe(1'b0),
      .brcst       (6'd0),
      .pair        (unused_pair),
      .*
  );

  ttc_time i_time (
      .offset(32'd0),
      .orbit (13'd0),
      .counts(unused_counts),
      .*
  );

  final_trigger #(
      .LOG2_PLACES(10)
  ) i_final (
      .min_ticks      (4'd0),
      .mask_index     (mask_at_q[5:2]),
      .choke          (1'b0),
      .discarded      (1'b0),
      .timed          (1'b1),
      .clear          (1'b0),
      .tick_ttc       (1'b1),
      .counts         (trigger_counts),
      .count_primitive(unused_primitive),
      .count_overflow (unused_overflow),
      .*
  );

endmodule
