// SPDX-License-Identifier: SHL-2.1
// Counter increments and status inputs of a stream's registers. Pulses of several channels in one cycle
// are all counted.
module card_counters
  import nanet_dma_pkg::*;
  import nanet_pkg::*;
  import nanet_regs_pkg::nanet_regs__in_t;
#(
    // Resources of the stream, each at most the number in the register map.
    parameter int unsigned CHANNELS = 2,
    parameter int unsigned FILTERS = 2,
    parameter int unsigned DEVICES = 1,
    parameter int unsigned DESTINATIONS = 4,
    // 1: the card can merge.
    parameter bit MERGE = 1'b0,
    // Number of streams of the card, and the number of this stream.
    parameter int unsigned STREAMS = 1,
    parameter int unsigned STREAM = 0
) (
    input logic clk,
    input logic rst,

    /*
     * receive path
     */
    input logic [CHANNELS-1:0]           verdict_valid,
    input frame_verdict_e [CHANNELS-1:0] verdict,
    input logic [CHANNELS-1:0]           overflow,
    input logic [CHANNELS-1:0]           refused,
    input refusal_e [CHANNELS-1:0]       refusal,
    input logic                          burst_begun,
    input frame_cnt_t                    cnt,
    input logic                          tlb_hit,
    input logic                          tlb_miss,
    input logic [CHANNELS:0]             untranslated,

    /*
     * send path, memory
     */
    input send_cnt_t count_cnt,
    input logic      read_error,
    input logic      write_error,
    input logic      unsupported,

    /*
     * state
     */
    input logic                    bus_master,
    input logic                    ready,
    input logic                    stopped,
    input logic                    idle,
    input logic [63:0]             now,
    input logic [63:0]             sender_next,
    input profile_t [CHANNELS-1:0] profile,
    input logic [1:0][31:0]        burst_report,

    // An input of a counter is active in this cycle.
    output logic active,

    // `histogram` and `returned` are not used.
    output nanet_regs__in_t hwif_in
);

  localparam int unsigned RegisterChannels = nanet_regs_pkg::CHANNELS;

  if (CHANNELS > RegisterChannels) begin : gen_check_channels
    $fatal(1, "the registers have fewer channels (%m)");
  end

  // One cycle later: sums over the channels.
  logic [RegisterChannels-1:0][FrameVerdicts-1:0] verdicts_q;
  logic [Refusals-1:0][3:0] refusals_q;
  logic [15:0] placed_q;
  logic [3:0] packets_q, overflows_q, untranslated_q;
  logic [15:0] events_q, hits_q;

  function automatic logic [3:0] ones(input logic [CHANNELS:0] bits);
    logic [3:0] sum;
    sum = '0;
    for (int unsigned i = 0; i <= CHANNELS; i++) sum = sum + 4'(bits[i]);
    return sum;
  endfunction

  always_ff @(posedge clk) begin
    verdicts_q <= '0;
    for (int unsigned c = 0; c < CHANNELS; c++) begin
      for (int unsigned v = 0; v < FrameVerdicts; v++) begin
        verdicts_q[c][v] <= verdict_valid[c] && verdict[c] == frame_verdict_e'(v);
      end
      verdicts_q[c][FrameOverflow] <= overflow[c];
    end
    for (int unsigned r = 0; r < Refusals; r++) begin
      logic [CHANNELS:0] same;
      same = '0;
      for (int unsigned c = 0; c < CHANNELS; c++) same[c] = refused[c] && refusal[c] == refusal_e'(r);
      // Refusals by the firmware.
      if (r == 32'(MgpWrongBurst)) same[CHANNELS] = cnt.counted && cnt.counted_as == PlacedWrongBurst;
      refusals_q[r] <= ones(same);
    end
    placed_q       <= cnt.counted ? 16'd1 << cnt.counted_as : '0;
    packets_q      <= ones({cnt.counted, refused});
    overflows_q    <= ones({1'b0, overflow});
    untranslated_q <= ones(untranslated);
    events_q       <= cnt.counted && cnt.counted_as == PlacedUsed ? 16'(cnt.counted_events) : '0;
    hits_q         <= cnt.counted && cnt.counted_as == PlacedUsed ? cnt.counted_hits : '0;
    if (rst) begin
      verdicts_q     <= '0;
      refusals_q     <= '0;
      placed_q       <= '0;
      packets_q      <= '0;
      overflows_q    <= '0;
      untranslated_q <= '0;
      events_q       <= '0;
      hits_q         <= '0;
    end
  end

  assign active = verdict_valid != 0 || overflow != 0 || refused != 0 || burst_begun || cnt.counted ||
                  cnt.frame_in || cnt.frame_overrun || cnt.frame_incomplete || cnt.frame_unmerged ||
                  cnt.skipped_valid || tlb_hit || tlb_miss || untranslated != 0 || count_cnt.out ||
                  count_cnt.answered || count_cnt.late || count_cnt.after_deadline ||
                  count_cnt.bad_descriptor || read_error || write_error || unsupported;

  // Status values and single pulses are registered, so that no input of
  // the register block changes while `clk` is gated.
  typedef struct packed {
    logic bus_master;
    logic ready;
    logic stopped;
    logic idle;
    logic [63:0] now;
    logic [63:0] sender_next;
    profile_t [CHANNELS-1:0] profile;
    logic [1:0][31:0] burst_report;
    logic [3:0][63:0] missing;
    logic frame_in;
    logic frame_overrun;
    logic frame_incomplete;
    logic frame_unmerged;
    logic skipped_valid;
    logic [24:0] skipped;
    logic tlb_hit;
    logic tlb_miss;
    logic count_out;
    logic count_answered;
    logic count_late;
    logic count_after_deadline;
    logic count_bad_descriptor;
    logic read_error;
    logic write_error;
    logic unsupported;
    logic burst_begun;
  } seen_t;

  seen_t seen_q;
  always_ff @(posedge clk) begin
    seen_q <= '{
        bus_master: bus_master,
        ready: ready,
        stopped: stopped,
        idle: idle,
        now: now,
        sender_next: sender_next,
        profile: profile,
        burst_report: burst_report,
        missing: cnt.missing,
        frame_in: cnt.frame_in,
        frame_overrun: cnt.frame_overrun,
        frame_incomplete: cnt.frame_incomplete,
        frame_unmerged: cnt.frame_unmerged,
        skipped_valid: cnt.skipped_valid,
        skipped: cnt.skipped,
        tlb_hit: tlb_hit,
        tlb_miss: tlb_miss,
        count_out: count_cnt.out,
        count_answered: count_cnt.answered,
        count_late: count_cnt.late,
        count_after_deadline: count_cnt.after_deadline,
        count_bad_descriptor: count_cnt.bad_descriptor,
        read_error: read_error,
        write_error: write_error,
        unsupported: unsupported,
        burst_begun: burst_begun
    };
    if (rst) seen_q <= '0;
  end

  always_comb begin
    hwif_in = '{default: '0};

    hwif_in.built.channels.next     = 4'(CHANNELS);
    hwif_in.built.filters.next      = 4'(FILTERS);
    hwif_in.built.devices.next      = 4'(DEVICES);
    hwif_in.built.destinations.next = 4'(DESTINATIONS);
    hwif_in.built.streams.next      = 4'(STREAMS);
    hwif_in.built.stream.next       = 4'(STREAM);
    hwif_in.merge.built.next        = MERGE;
    hwif_in.status.bus_master.next = seen_q.bus_master;
    hwif_in.status.ready.next      = seen_q.ready;
    hwif_in.status.stopped.next    = seen_q.stopped;
    hwif_in.status.idle.next       = seen_q.idle;
    hwif_in.now.low.value.next     = seen_q.now[31:0];
    hwif_in.now.high.value.next    = seen_q.now[63:32];
    hwif_in.sender_next.low.value.next  = seen_q.sender_next[31:0];
    hwif_in.sender_next.high.value.next = seen_q.sender_next[63:32];
    for (int unsigned b = 0; b < 2; b++) begin
      hwif_in.burst_report[b].burst.next = seen_q.burst_report[b][15:0];
      hwif_in.burst_report[b].sob.next   = seen_q.burst_report[b][19:16];
      hwif_in.burst_report[b].eob.next   = seen_q.burst_report[b][23:20];
      hwif_in.burst_report[b].how.next   = seen_q.burst_report[b][25:24];
    end

    for (int unsigned c = 0; c < RegisterChannels; c++) begin
      hwif_in.verdicts[c].udp.value.incr          = verdicts_q[c][FrameUdp];
      hwif_in.verdicts[c].not_udp.value.incr      = verdicts_q[c][FrameNotUdp];
      hwif_in.verdicts[c].other_port.value.incr   = verdicts_q[c][FrameOtherPort];
      hwif_in.verdicts[c].ip_fragment.value.incr  = verdicts_q[c][FrameIpFragment];
      hwif_in.verdicts[c].bad_checksum.value.incr = verdicts_q[c][FrameBadChecksum];
      hwif_in.verdicts[c].not_ipv4.value.incr     = verdicts_q[c][FrameNotIpv4];
      hwif_in.verdicts[c].cut_short.value.incr    = verdicts_q[c][FrameCutShort];
      hwif_in.verdicts[c].udp_length.value.incr   = verdicts_q[c][FrameUdpLength];
      hwif_in.verdicts[c].bad_fcs.value.incr      = verdicts_q[c][FrameBadFcs];
      hwif_in.verdicts[c].other_mac.value.incr    = verdicts_q[c][FrameOtherMac];
      hwif_in.verdicts[c].other_ip.value.incr     = verdicts_q[c][FrameOtherIp];
      hwif_in.verdicts[c].arp.value.incr          = verdicts_q[c][FrameArp];
      hwif_in.verdicts[c].overflow.value.incr     = verdicts_q[c][FrameOverflow];
    end
    for (int unsigned c = 0; c < CHANNELS; c++) begin
      hwif_in.profile[c].start.value.next      = seen_q.profile[c].start;
      hwif_in.profile[c].controller.value.next = seen_q.profile[c].controller;
      hwif_in.profile[c].placed.value.next     = seen_q.profile[c].placed;
      hwif_in.profile[c].written.value.next    = seen_q.profile[c].written;
    end

    hwif_in.bad_packets.short_header.value.incr                 = refusals_q[MgpShortHeader] != 0;
    hwif_in.bad_packets.short_header.value.incrvalue            = refusals_q[MgpShortHeader];
    hwif_in.bad_packets.bad_version.value.incr                  = refusals_q[MgpBadVersion] != 0;
    hwif_in.bad_packets.bad_version.value.incrvalue             = refusals_q[MgpBadVersion];
    hwif_in.bad_packets.bad_source.value.incr                   = refusals_q[MgpBadSource] != 0;
    hwif_in.bad_packets.bad_source.value.incrvalue              = refusals_q[MgpBadSource];
    hwif_in.bad_packets.bad_board.value.incr                    = refusals_q[MgpBadBoard] != 0;
    hwif_in.bad_packets.bad_board.value.incrvalue               = refusals_q[MgpBadBoard];
    hwif_in.bad_packets.bad_encoding.value.incr                 = refusals_q[MgpBadEncoding] != 0;
    hwif_in.bad_packets.bad_encoding.value.incrvalue            = refusals_q[MgpBadEncoding];
    hwif_in.bad_packets.length_mismatch.value.incr              = refusals_q[MgpLengthMismatch] != 0;
    hwif_in.bad_packets.length_mismatch.value.incrvalue         = refusals_q[MgpLengthMismatch];
    hwif_in.bad_packets.oversized.value.incr                    = refusals_q[MgpOversized] != 0;
    hwif_in.bad_packets.oversized.value.incrvalue               = refusals_q[MgpOversized];
    hwif_in.bad_packets.sob_eob_with_events.value.incr          = refusals_q[MgpSobEobWithEvents] != 0;
    hwif_in.bad_packets.sob_eob_with_events.value.incrvalue     = refusals_q[MgpSobEobWithEvents];
    hwif_in.bad_packets.event_past_end.value.incr               = refusals_q[MgpEventPastEnd] != 0;
    hwif_in.bad_packets.event_past_end.value.incrvalue          = refusals_q[MgpEventPastEnd];
    hwif_in.bad_packets.trailing_bytes.value.incr               = refusals_q[MgpTrailingBytes] != 0;
    hwif_in.bad_packets.trailing_bytes.value.incrvalue          = refusals_q[MgpTrailingBytes];
    hwif_in.bad_packets.timestamp_outside_frame.value.incr      = refusals_q[MgpTimestampOutsideFrame] != 0;
    hwif_in.bad_packets.timestamp_outside_frame.value.incrvalue = refusals_q[MgpTimestampOutsideFrame];
    hwif_in.bad_packets.hits_above_32.value.incr                = refusals_q[MgpHitsAbove32] != 0;
    hwif_in.bad_packets.hits_above_32.value.incrvalue           = refusals_q[MgpHitsAbove32];
    hwif_in.bad_packets.seen_below_stored.value.incr            = refusals_q[MgpSeenBelowStored] != 0;
    hwif_in.bad_packets.seen_below_stored.value.incrvalue       = refusals_q[MgpSeenBelowStored];
    hwif_in.bad_packets.pm_out_of_range.value.incr              = refusals_q[MgpPmOutOfRange] != 0;
    hwif_in.bad_packets.pm_out_of_range.value.incrvalue         = refusals_q[MgpPmOutOfRange];
    hwif_in.bad_packets.pm_of_other_board.value.incr            = refusals_q[MgpPmOfOtherBoard] != 0;
    hwif_in.bad_packets.pm_of_other_board.value.incrvalue       = refusals_q[MgpPmOfOtherBoard];
    hwif_in.bad_packets.frame_beyond_spill.value.incr           = refusals_q[MgpFrameBeyondSpill] != 0;
    hwif_in.bad_packets.frame_beyond_spill.value.incrvalue      = refusals_q[MgpFrameBeyondSpill];
    hwif_in.bad_packets.wrong_burst.value.incr                  = refusals_q[MgpWrongBurst] != 0;
    hwif_in.bad_packets.wrong_burst.value.incrvalue             = refusals_q[MgpWrongBurst];

    hwif_in.lost.late.value.incr                 = placed_q[PlacedLate];
    hwif_in.lost.duplicate.value.incr            = placed_q[PlacedDuplicate];
    hwif_in.lost.replayed_sequence.value.incr    = placed_q[PlacedReplayed];
    hwif_in.lost.unconfirmed_jump.value.incr     = placed_q[PlacedJump];
    hwif_in.lost.overrun.value.incr              = placed_q[PlacedOverrun];
    hwif_in.lost.segment_overflow.value.incr     = placed_q[PlacedOverflow];
    hwif_in.lost.socket_overflow.value.incr      = overflows_q != 0;
    hwif_in.lost.socket_overflow.value.incrvalue = overflows_q;
    for (int unsigned b = 0; b < 4; b++) begin
      hwif_in.lost.missing[b].value.next      = seen_q.missing[b][31:0];
      hwif_in.lost.missing_high[b].value.next = seen_q.missing[b][63:32];
    end

    hwif_in.frames.packets_in.value.incr             = packets_q != 0;
    hwif_in.frames.packets_in.value.incrvalue        = packets_q;
    hwif_in.frames.packets_used.value.incr           = placed_q[PlacedUsed];
    hwif_in.frames.burst_markers.value.incr          = placed_q[PlacedMarker];
    hwif_in.frames.frames_in.value.incr              = seen_q.frame_in;
    hwif_in.frames.frames_out.value.incr             = seen_q.count_out;
    hwif_in.frames.frames_answered.value.incr        = seen_q.count_answered;
    hwif_in.frames.frames_late.value.incr            = seen_q.count_late;
    hwif_in.frames.frames_skipped.value.incr         = seen_q.skipped_valid;
    hwif_in.frames.frames_skipped.value.incrvalue    = seen_q.skipped;
    hwif_in.frames.frames_incomplete.value.incr      = seen_q.frame_incomplete;
    hwif_in.frames.frames_unmerged.value.incr        = seen_q.frame_unmerged;
    hwif_in.frames.frames_overrun.value.incr         = seen_q.frame_overrun;
    hwif_in.frames.answers_after_deadline.value.incr = seen_q.count_after_deadline;
    hwif_in.frames.bad_descriptors.value.incr        = seen_q.count_bad_descriptor;
    hwif_in.frames.read_errors.value.incr            = seen_q.read_error;
    hwif_in.frames.write_errors.value.incr           = seen_q.write_error;
    hwif_in.frames.unsupported_requests.value.incr   = seen_q.unsupported;
    hwif_in.frames.tlb_hits.value.incr               = seen_q.tlb_hit;
    hwif_in.frames.tlb_misses.value.incr             = seen_q.tlb_miss;
    hwif_in.frames.untranslated.value.incr           = untranslated_q != 0;
    hwif_in.frames.untranslated.value.incrvalue      = untranslated_q;
    hwif_in.frames.events_in.value.incr              = events_q != 0;
    hwif_in.frames.events_in.value.incrvalue         = 25'(events_q);
    hwif_in.frames.hits_in.value.incr                = hits_q != 0;
    hwif_in.frames.hits_in.value.incrvalue           = 25'(hits_q);
    hwif_in.frames.bursts.value.incr                 = seen_q.burst_begun;
  end

  logic unused;
  assign unused = ^{placed_q, 1'b0};

  logic unused_count_cnt;
  assign unused_count_cnt = &{1'b0, count_cnt.read_error, cnt.counted_frame, cnt.counted_burst};

endmodule
