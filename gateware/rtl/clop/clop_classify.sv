// SPDX-License-Identifier: SHL-2.1
// Decision on a packet or on a frame with a due timer, from the results of clop_lookup and clop_sequence.
// Decides in step `classify`; registered outputs take effect in the cycle after.
module clop_classify
  import nanet_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * configuration
     */
    input logic        window,  // replay: packets without a buffer wait
    input logic [63:0] now,

    /*
     * pipeline steps and their contents
     */
    input logic        in_compare,
    input logic        in_classify,
    input clop_work_t  work,
    input logic        room,                 // in the event queue of the frame's device
    input clop_burst_t current,
    input clop_burst_t old,
    input logic        begins,               // pulse: a burst begins
    input logic        slowpath_busy,        // a firmware request is pending
    input logic [1:0]  slowpath_busy_board,  // the pending firmware request concerns this board

    /*
     * in `classify`: lookup results
     */
    input clop_found_t found,
    input logic        replayed,
    input logic        jump,
    input logic        far_ahead,
    input logic        watched,
    input logic        ordinary,

    /*
     * in `classify`: update of clop_sequence; frames to open
     */
    output logic        take,
    output logic        admit,
    output logic        escalated,
    output logic        opens,
    output logic        usable,     // buffer and event-queue entry available
    output logic [63:0] stamp,      // 64-bit packet stamp

    /*
     * in the cycle after
     */
    output clop_verdict_t verdict,
    output clop_act_t     act,
    output clop_skip_t    shift,
    output logic [63:0]   vaddr,     // destination address
    output slowpath_t     slowpath,  // steady during a firmware request

    output logic [63:0] last_packet  // card clock, newest packet of the current burst
);

  // ------------------------------------------------------------------ precomputation

  logic marker;
  logic started_q, over_q, ask_q, busy_board_q, room_q, borrow_q;
  logic commit_q, open_q, look_q, unsound_q, seen_q, expire_q, bears_q;
  logic [31:0] now_high_q, stamp_high_q;
  logic latest_q, newest_q;  // packet of the current burst; newest packet of it

  assign marker = (work.request.header.flags & (MgpSob | MgpEob)) != 0;
  assign stamp  = {stamp_high_q, work.request.stamp};

  always_ff @(posedge clk) begin
    started_q    <= work.old ? old.started : current.started;
    over_q       <= work.old ? old.over : current.over;
    ask_q        <= marker || work.other;  // independent of the other results
    busy_board_q <= work.board == slowpath_busy_board;
    room_q       <= room;
    now_high_q   <= now[63:32];
    borrow_q     <= now[31:0] < work.request.stamp;
    stamp_high_q <= now_high_q - 32'(borrow_q);
    bears_q      <= !(work.request.kind == PlaceCommit && !work.request.placed);
    // Inputs of step `classify`.
    look_q    <= in_compare && work.place && work.request.kind == PlaceLook;
    commit_q  <= in_compare && work.place && work.request.kind != PlaceLook && work.request.sound;
    open_q    <= in_compare && work.place && work.request.kind != PlaceLook && work.request.sound &&
                 !marker && !work.other && !(slowpath_busy && work.board == slowpath_busy_board);
    unsound_q <= in_compare && work.place && work.request.kind != PlaceLook && !work.request.sound;
    seen_q    <= in_compare && work.seen;
    expire_q  <= in_compare && work.expire;
  end

  // ------------------------------------------------------------------ classify

  logic lost, escalates, odd, plain, dropped, admitted, shifts, uses, full, expires;

  assign lost      = found.late || found.duplicate;
  assign odd       = watched || replayed || jump || far_ahead;
  assign escalates = ask_q || (!work.trusted && (watched || (!lost && !replayed && (jump || far_ahead))));
  // Ordinary or trusted, and neither late nor duplicate. `open_q`: no firmware request is needed and none is
  // pending for the board.
  assign plain    = work.trusted || !odd;
  assign admitted = open_q && !lost && plain;
  assign dropped  = open_q && (work.trusted ? lost : !watched && (lost || replayed));
  // Skipped frames are handled first.
  assign shifts   = !found.known && (!started_q || found.gap);
  assign uses     = admitted && found.known && found.open_frame && found.fits && bears_q;
  assign expires  = expire_q && found.due;
  assign usable   = found.available && room_q;
  // In a replay, a look without a buffer is deferred, because the packet may have to wait.
  assign full     = window && !found.known && !usable;

  // Equals `admitted && !shifts && !found.known`, with fewer logic levels.
  assign opens     = open_q && plain && started_q && found.is_new;
  assign admit     = admitted && !shifts;
  assign escalated = commit_q && escalates && !slowpath_busy && !work.other;
  assign take      = (dropped && lost && !replayed && !jump) || (admit && !work.trusted) ||
                     (seen_q && !replayed);

  // ------------------------------------------------------------------ registered results

  always_ff @(posedge clk) begin
    verdict.looked    <= look_q;
    verdict.ends      <= unsound_q || dropped || (admitted && found.known);
    verdict.waits     <= commit_q && slowpath_busy && (escalates || busy_board_q);
    verdict.escalates <= commit_q && escalates && !slowpath_busy;
    verdict.lost      <= dropped;
    verdict.shifts    <= admitted && shifts;
    verdict.known     <= admitted && found.known;
    verdict.uses      <= uses;
    verdict.expires   <= expires;
    verdict.closes    <= {2{(uses && found.closes) || expires}} & {work.old, !work.old};
    latest_q          <= commit_q && !work.old && !work.other && !over_q;
    newest_q          <= latest_q && act.stamp >= last_packet && !begins;
    if (rst) begin
      verdict  <= '0;
      latest_q <= 1'b0;
      newest_q <= 1'b0;
    end
  end

  assign shift = '{valid: verdict.shifts, counted: act.started, next: {1'b0, act.frame}};

  always_ff @(posedge clk) begin
    if (in_classify) begin
      vaddr            <= found.vaddr;
      act.accept       <= !found.late && !replayed && found.fits &&
                          (found.known ? found.open_frame && !found.duplicate : usable);
      act.defer        <= escalates || (slowpath_busy && busy_board_q) || full;
      act.trusted      <= work.trusted;
      act.as           <= found.late ? PlacedLate : found.duplicate ? PlacedDuplicate :
                          !work.trusted && replayed ? PlacedReplayed : !found.open_frame ? PlacedOverrun :
                          !found.fits ? PlacedOverflow : bears_q ? PlacedUsed : PlacedOverrun;
      act.channel      <= work.channel;
      act.board        <= work.board;
      act.serial       <= work.request.serial;
      act.hits         <= work.request.hits;
      act.events       <= work.request.header.events;
      act.stamp        <= stamp;
      act.frame        <= work.request.header.frame;
      act.burst        <= work.request.header.burst;
      act.n            <= work.n;
      act.started      <= started_q;
      act.timed_out    <= work.expire;
      act.placed       <= bears_q;
      act.fits_alone   <= found.fits_alone;
      act.closes_alone <= found.closes_alone;
      act.done_alone   <= found.done_alone;
      act.retimed      <= found.retimed;
      act.part         <= found.here ? found.board : found.first;
      act.slot         <= found.slot;
      if (work.expire) begin
        act.slot.open <= 1'b0;
      end else begin
        act.slot.seen     <= 1'b1;
        act.slot.present  <= found.present;
        act.slot.complete <= found.complete;
        act.slot.open     <= !found.closes;
        // The frame was opened before its first packet; its timer starts now.
        if (found.retimed) act.slot.first <= work.request.stamp;
      end
    end
    if (in_classify && !slowpath_busy)
      slowpath <= '{header: work.request.header, stamp: work.request.stamp, channel: work.channel,
                reason: {2'd0, replayed, watched && !marker && !work.other, far_ahead, jump, work.other,
                         marker},
                old: work.old, ordinary: ordinary && !work.other, active: !over_q && !work.other,
                old_active: old.known && !old.over};
  end

  always_ff @(posedge clk) begin
    if (newest_q) last_packet <= act.stamp;
    if (begins) last_packet <= now;
    if (rst) last_packet <= '0;
  end

  logic unused;
  assign unused = &{1'b0, work, found, current, old};

endmodule
