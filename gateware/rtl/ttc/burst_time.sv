// SPDX-License-Identifier: SHL-2.1
// Bursts of the boards in TTC time. Compares their numbers with the count of SOBs; counts packets outside
// the last L periods; names the frames that TTC time closes, and those whose answers it makes late. A burst
// that does not match has no TTC time; the next one is compared with it.
module burst_time
  import nanet_ttc_pkg::*;
#(
    // Width of L.
    parameter int unsigned LATENCY_W = 15,
    // Cycles from the begin of a burst of the boards to the comparison; its SOB may come in between.
    parameter int unsigned SETTLE_CYCLES = 1023
) (
    input logic clk,
    input logic rst,

    /*
     * Configuration
     */
    input logic [LATENCY_W-1:0] latency,
    input logic [15:0]          close_ticks,   // periods from a frame's end until it is closed; 0: off
    input logic [15:0]          answer_ticks,  // from a frame's first period to its answer's deadline; 0: off

    input ttc_now_t now,

    /*
     * Pulse: a burst of the boards begins, with this number and first n
     */
    input logic        burst_begins,
    input logic [7:0]  burst_number,
    input logic [63:0] burst_base,

    /*
     * A cycle after the sender's n: its burst has TTC time; low bit of the count of SOBs
     */
    input  logic [63:0] sender_next,
    output logic        timed,
    output logic        burst,

    /*
     * Pulse: a packet has been placed
     */
    input logic        packet_placed,
    input logic [7:0]  packet_burst,
    input logic [23:0] packet_frame,

    /*
     * Open frames of this burst below `close_frames` are to be closed; 0: none
     */
    output logic [7:0]  close_burst,
    output logic [23:0] close_frames,

    /*
     * Answers of the sender's burst up to this frame are late
     */
    output logic        overdue_valid,
    output logic [23:0] overdue_frame,

    /*
     * Counter pulses
     */
    output logic burst_mismatch,  // a burst whose number does not follow the SOBs
    output logic out_of_time      // a packet whose frame has no period within the last L
);

  localparam int unsigned SettleW = $clog2(SETTLE_CYCLES + 1);

  // ---------------------------------------------------------------- bursts and SOBs

  logic known_q, apart_q;
  logic [7:0] number_q, sobs_q;  // of the newest burst; count of SOBs with its own
  logic [63:0] base_q;
  logic before_timed_q;  // the burst before
  logic [7:0] before_sobs_q;
  logic [SettleW-1:0] settle_q;
  logic of_newest_q, newest_timed_q, before_now_q;

  assign timed = of_newest_q ? newest_timed_q : before_now_q;

  always_ff @(posedge clk) begin
    burst_mismatch <= 1'b0;
    // All of one cycle, so that an SOB makes a decision untimed.
    of_newest_q    <= sender_next >= base_q;
    newest_timed_q <= known_q && !apart_q && now.burst == sobs_q;
    before_now_q   <= before_timed_q && now.burst == before_sobs_q;
    burst          <= now.burst[0];

    if (settle_q != '0) settle_q <= settle_q - 1'b1;
    if (settle_q == SettleW'(1) && now.burst != sobs_q) begin
      burst_mismatch <= 1'b1;
      apart_q        <= 1'b1;
      sobs_q         <= now.burst;
    end
    if (burst_begins) begin
      known_q        <= 1'b1;
      apart_q        <= 1'b0;
      number_q       <= burst_number;
      base_q         <= burst_base;
      sobs_q         <= known_q ? sobs_q + (burst_number - number_q) : now.burst == '0 ? 8'd1 : now.burst;
      before_timed_q <= known_q && !apart_q;
      before_sobs_q  <= sobs_q;
      settle_q       <= SettleW'(SETTLE_CYCLES);
    end
    if (rst) begin
      known_q        <= 1'b0;
      apart_q        <= 1'b0;
      base_q         <= '0;
      before_timed_q <= 1'b0;
      settle_q       <= '0;
      burst_mismatch <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- frames in time

  logic usable_q, placed_q, ahead_q, old_q;
  logic [32:0] oldest, closes, overdue;  // bit 32: before SOB
  logic [23:0] oldest_q, newest_q;

  assign oldest      = {1'b0, now.timestamp} - 33'(latency);
  assign closes      = {1'b0, now.timestamp} - 33'(close_ticks);
  assign overdue     = {1'b0, now.timestamp} - 33'(answer_ticks);
  assign close_burst = number_q;

  always_ff @(posedge clk) begin
    usable_q      <= known_q && !apart_q && now.burst == sobs_q && !now.lost;
    newest_q      <= now.timestamp[31:8];
    oldest_q      <= oldest[32] ? '0 : oldest[31:8];
    close_frames  <= usable_q && close_ticks != '0 && !closes[32] ? closes[31:8] : '0;
    overdue_valid <= usable_q && of_newest_q && answer_ticks != '0 && !overdue[32];
    overdue_frame <= overdue[31:8];
    placed_q      <= packet_placed && usable_q && packet_burst == number_q;
    ahead_q       <= packet_frame > newest_q;
    old_q         <= packet_frame < oldest_q;
    out_of_time   <= placed_q && (ahead_q || old_q);
    if (burst_begins) begin  // not with the number that changes
      usable_q      <= 1'b0;
      close_frames  <= '0;
      overdue_valid <= 1'b0;
    end
    if (rst) begin
      usable_q      <= 1'b0;
      close_frames  <= '0;
      overdue_valid <= 1'b0;
      placed_q      <= 1'b0;
      out_of_time   <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, now.locked, now.in_burst, now.bunch, oldest[7:0], closes[7:0],
                    overdue[7:0]};

endmodule
