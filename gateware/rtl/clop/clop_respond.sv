// SPDX-License-Identifier: SHL-2.1
// Responses of clop to its channels, from a decision, an opened frame or the firmware. Counts each packet
// once and advances the write fence of its channel.
module clop_respond
  import nanet_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2
) (
    input logic clk,
    input logic rst,

    /*
     * mutually exclusive
     */
    input clop_verdict_t  verdict,
    input clop_opened_t   opened,
    input clop_response_t firmware,
    input clop_act_t      act,       // decision on the packet

    // Completed packets of each channel, with any outcome.
    input serial_t [CHANNELS-1:0] done_serial,

    output clop_response_t response,

    /*
     * to the channels
     */
    output logic [CHANNELS-1:0] placed_valid,
    output logic                placed_accept,
    output logic                placed_defer,

    /*
     * pulses, and per channel: number of the next undecided packet and of the next incomplete one
     */
    output logic                   counted,
    output placed_e                counted_as,
    output logic [15:0]            counted_hits,
    output logic [7:0]             counted_events,
    output logic [23:0]            counted_frame,
    output logic [7:0]             counted_burst,
    output serial_t [CHANNELS-1:0] write_fence
);

  localparam int unsigned ChannelW = CHANNELS > 1 ? $clog2(CHANNELS) : 1;

  clop_response_t next;
  logic opens, accept_q;
  logic [CHANNELS-1:0] responded_q, decided, behind_q;

  logic [CHANNELS-1:0] ends;
  always_comb begin
    ends = '0;
    ends[ChannelW'(next.channel)] = next.valid && next.ended;
  end

  assign opens = opened.valid && opened.last && opened.packet;

  always_comb begin
    next = firmware;
    if (!(firmware.valid || firmware.again)) begin
      next.valid   = verdict.looked || verdict.ends || opens;
      next.keeps   = verdict.looked && !act.defer;
      next.again   = verdict.waits || verdict.shifts;
      next.admit   = act.trusted;
      next.first   = verdict.shifts;
      next.channel = act.channel;
      next.counted = verdict.lost || verdict.known || opens;
      next.as      = !opens ? act.as : opened.uses ? PlacedUsed :
                     opened.ok && !act.fits_alone ? PlacedOverflow : PlacedOverrun;
      next.ended   = verdict.ends || opens;
      next.serial  = act.serial;
    end
  end

  // Unregistered decisions: a channel with minimum-size packets repeats after ten cycles.
  always_comb begin
    decided = '0;
    decided[ChannelW'(act.channel)] = verdict.looked || verdict.ends;
  end
  assign placed_valid  = responded_q | decided;
  assign placed_accept = responded_q != '0 ? accept_q : verdict.looked ? act.accept : verdict.uses;
  assign placed_defer  = verdict.looked && act.defer;

  always_ff @(posedge clk) begin
    response       <= next;
    responded_q    <= '0;
    accept_q       <= opens && opened.uses;
    counted        <= next.valid && next.counted;
    counted_as     <= next.as;
    counted_hits   <= act.hits;
    counted_events <= act.events;
    counted_frame  <= act.frame;
    counted_burst  <= act.burst;
    if (opens || firmware.valid) responded_q[ChannelW'(next.channel)] <= 1'b1;
    // Without this update, a channel whose packets are all refused early would have a fence half the
    // range behind, which compares as ahead.
    for (int unsigned c = 0; c < CHANNELS; c++) begin
      behind_q[c] <= reached(done_serial[c], write_fence[c]) && !ends[c];
      if (ends[c]) write_fence[c] <= next.serial + 1'b1;
      else if (behind_q[c]) write_fence[c] <= done_serial[c];
    end
    if (rst) begin
      response   <= '0;
      responded_q   <= '0;
      counted  <= 1'b0;
      write_fence   <= done_serial;
      behind_q <= '0;
    end
  end

  logic unused;
  assign unused = &{1'b0, verdict, opened, act, next};

endmodule
