// SPDX-License-Identifier: SHL-2.1
// Types of the TTC receiver and of the final trigger. Timestamps are periods since SOB.
package nanet_ttc_pkg;

  // Both bits of one period.
  typedef struct packed {
    logic a;  // A channel: trigger pulse
    logic b;  // B channel: serial frames
  } ttc_pair_t;

  // Decoded frame: short broadcast (data 7:0) or addressed word {A13..A0, E, 1, S7..S0, D7..D0}.
  typedef struct packed {
    logic        addressed;
    logic        corrected;
    logic [31:0] data;
  } ttc_frame_t;

  typedef struct packed {
    logic        locked;
    logic        in_burst;
    logic        lost;       // no SOB yet, or time was lost since the last one
    logic [7:0]  burst;      // SOBs since reset, mod 256
    logic [11:0] bunch;
    logic [31:0] timestamp;
  } ttc_now_t;

  // Time for the receive path; zero without a running receiver. Open frames of the MGP burst below
  // `close_frames` are closed.
  typedef struct packed {
    logic [7:0]  close_burst;
    logic [23:0] close_frames;
    logic        lost;
    logic        in_burst;
    logic        locked;
    logic [31:0] timestamp;
  } ttc_stamp_t;

  // Free-running count of periods in the experiment's clock, mod 16. It names the period of a release.
  typedef logic [3:0] ttc_tick_t;

  // Counter pulses.
  typedef struct packed {
    logic corrected;  // frame with one wrong bit
    logic refused;    // frame with two or more
    logic bad_stop;   // stop bit 0: the receiver waits for an idle line
  } ttc_frame_counts_t;

  typedef struct packed {
    logic starts;
    logic ends;
    logic start_in_burst;
    logic bunch_errors;
    logic slips;
    logic lock_losses;
  } ttc_time_counts_t;

  // Check bits of a short broadcast and of an addressed word, h0 in bit 0.
  function automatic logic [4:0] ttc_check_short(input logic [7:0] d);
    return {^(d & 8'hED), ^(d & 8'hDA), ^(d & 8'hB6), ^(d & 8'h71), ^(d & 8'h0F)};
  endfunction

  function automatic logic [6:0] ttc_check_long(input logic [31:0] d);
    return {
      ^(d & 32'hED3A65B4),
      ^(d & 32'hDAB5556A),
      ^(d & 32'hB66CCCD9),
      ^(d & 32'h71E3C3C7),
      ^(d & 32'h0FE03FC0),
      ^(d & 32'h001FFFC0),
      ^(d & 32'h0000003F)
    };
  endfunction

  localparam logic [5:0] KindSob = 6'h22;
  localparam logic [5:0] KindEob = 6'h23;
  localparam logic [5:0] KindChokeOn = 6'h24;
  localparam logic [5:0] KindChokeOff = 6'h25;

  typedef struct packed {
    logic        timed;      // its burst has TTC time
    logic        burst;      // low bit of the burst's number
    logic [31:0] timestamp;
    logic [5:0]  kind;
  } decision_t;

  typedef struct packed {
    ttc_tick_t  tick;
    logic [5:0] kind;
  } release_t;

  // Counter pulses of the final trigger. Every decision ends in exactly one of sent, joined, late, early,
  // dead, choked, untimed, flushed.
  typedef struct packed {
    logic decisions;
    logic sent;
    logic joined;    // same period as an earlier decision: types ORed
    logic late;      // too late for its release
    logic early;     // its period is still to come
    logic dead;      // closer than the dead time to the release before
    logic choked;
    logic untimed;   // no valid time, or another burst
    logic flushed;   // held when its burst's time ended or was lost
    logic specials;  // SOB, EOB, choke on or off released
  } trigger_counts_t;

endpackage
