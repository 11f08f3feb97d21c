// SPDX-License-Identifier: SHL-2.1
// Bench wrapper of card_counters with a separate port for each increment.
module counters_bench
  import nanet_pkg::*;
  import nanet_regs_pkg::nanet_regs__in_t;
#(
    // Number of MACs.
    parameter int unsigned CHANNELS = 2
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
    input logic                          counted,
    input placed_e                       counted_as,
    input logic [15:0]                   counted_hits,
    input logic [7:0]                    counted_events,
    input logic [23:0]                   counted_frame,
    input logic [7:0]                    counted_burst,
    input logic                          frame_in,
    input logic                          frame_overrun,
    input logic                          frame_incomplete,
    input logic                          frame_unmerged,
    input logic                          skipped_valid,
    input logic [24:0]                   skipped,
    input logic                          tlb_hit,
    input logic                          tlb_miss,
    input logic [CHANNELS:0]             untranslated,
    input logic [3:0][63:0]              missing,

    /*
     * send path, memory
     */
    input logic count_out,
    input logic count_answered,
    input logic count_late,
    input logic count_after_deadline,
    input logic count_bad_descriptor,
    input logic read_error,
    input logic write_error,
    input logic unsupported,

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

    // A counted input is active in this cycle.
    output logic active,

    /*
     * increments of this cycle, in register order
     */
    output logic [1:0][12:0] by_verdict,
    output logic [16:0][3:0] by_refusal,
    output logic [6:0][3:0]  by_lost,
    output logic [16:0]      by_frames,
    output logic [4:0][24:0] by_many,

    // Live values that are not accumulated.
    output logic [63:0] read_now,
    output logic [63:0] read_next,
    output logic [3:0]  read_status,
    output logic [31:0] read_written
);

  nanet_regs__in_t hwif_in;

  card_counters_flat #(
      .CHANNELS(CHANNELS)
  ) counters (
      .count_read_error(1'b0),
      .*
  );

  assign by_verdict[0] = {
    hwif_in.verdicts[0].overflow.value.incr,
    hwif_in.verdicts[0].arp.value.incr,
    hwif_in.verdicts[0].other_ip.value.incr,
    hwif_in.verdicts[0].other_mac.value.incr,
    hwif_in.verdicts[0].bad_fcs.value.incr,
    hwif_in.verdicts[0].udp_length.value.incr,
    hwif_in.verdicts[0].cut_short.value.incr,
    hwif_in.verdicts[0].not_ipv4.value.incr,
    hwif_in.verdicts[0].bad_checksum.value.incr,
    hwif_in.verdicts[0].ip_fragment.value.incr,
    hwif_in.verdicts[0].other_port.value.incr,
    hwif_in.verdicts[0].not_udp.value.incr,
    hwif_in.verdicts[0].udp.value.incr
  };
  assign by_verdict[1] = {
    hwif_in.verdicts[1].overflow.value.incr,
    hwif_in.verdicts[1].arp.value.incr,
    hwif_in.verdicts[1].other_ip.value.incr,
    hwif_in.verdicts[1].other_mac.value.incr,
    hwif_in.verdicts[1].bad_fcs.value.incr,
    hwif_in.verdicts[1].udp_length.value.incr,
    hwif_in.verdicts[1].cut_short.value.incr,
    hwif_in.verdicts[1].not_ipv4.value.incr,
    hwif_in.verdicts[1].bad_checksum.value.incr,
    hwif_in.verdicts[1].ip_fragment.value.incr,
    hwif_in.verdicts[1].other_port.value.incr,
    hwif_in.verdicts[1].not_udp.value.incr,
    hwif_in.verdicts[1].udp.value.incr
  };
  assign by_refusal[0] = hwif_in.bad_packets.short_header.value.incr ? hwif_in.bad_packets.short_header.value.incrvalue : '0;
  assign by_refusal[1] = hwif_in.bad_packets.bad_version.value.incr ? hwif_in.bad_packets.bad_version.value.incrvalue : '0;
  assign by_refusal[2] = hwif_in.bad_packets.bad_source.value.incr ? hwif_in.bad_packets.bad_source.value.incrvalue : '0;
  assign by_refusal[3] = hwif_in.bad_packets.bad_board.value.incr ? hwif_in.bad_packets.bad_board.value.incrvalue : '0;
  assign by_refusal[4] = hwif_in.bad_packets.bad_encoding.value.incr ? hwif_in.bad_packets.bad_encoding.value.incrvalue : '0;
  assign by_refusal[5] = hwif_in.bad_packets.length_mismatch.value.incr ? hwif_in.bad_packets.length_mismatch.value.incrvalue : '0;
  assign by_refusal[6] = hwif_in.bad_packets.oversized.value.incr ? hwif_in.bad_packets.oversized.value.incrvalue : '0;
  assign by_refusal[7] = hwif_in.bad_packets.sob_eob_with_events.value.incr ? hwif_in.bad_packets.sob_eob_with_events.value.incrvalue : '0;
  assign by_refusal[8] = hwif_in.bad_packets.event_past_end.value.incr ? hwif_in.bad_packets.event_past_end.value.incrvalue : '0;
  assign by_refusal[9] = hwif_in.bad_packets.trailing_bytes.value.incr ? hwif_in.bad_packets.trailing_bytes.value.incrvalue : '0;
  assign by_refusal[10] = hwif_in.bad_packets.timestamp_outside_frame.value.incr ? hwif_in.bad_packets.timestamp_outside_frame.value.incrvalue : '0;
  assign by_refusal[11] = hwif_in.bad_packets.hits_above_32.value.incr ? hwif_in.bad_packets.hits_above_32.value.incrvalue : '0;
  assign by_refusal[12] = hwif_in.bad_packets.seen_below_stored.value.incr ? hwif_in.bad_packets.seen_below_stored.value.incrvalue : '0;
  assign by_refusal[13] = hwif_in.bad_packets.pm_out_of_range.value.incr ? hwif_in.bad_packets.pm_out_of_range.value.incrvalue : '0;
  assign by_refusal[14] = hwif_in.bad_packets.pm_of_other_board.value.incr ? hwif_in.bad_packets.pm_of_other_board.value.incrvalue : '0;
  assign by_refusal[15] = hwif_in.bad_packets.frame_beyond_spill.value.incr ? hwif_in.bad_packets.frame_beyond_spill.value.incrvalue : '0;
  assign by_refusal[16] = hwif_in.bad_packets.wrong_burst.value.incr ? hwif_in.bad_packets.wrong_burst.value.incrvalue : '0;
  assign by_lost[0] = 4'(hwif_in.lost.late.value.incr);
  assign by_lost[1] = 4'(hwif_in.lost.duplicate.value.incr);
  assign by_lost[2] = 4'(hwif_in.lost.replayed_sequence.value.incr);
  assign by_lost[3] = 4'(hwif_in.lost.unconfirmed_jump.value.incr);
  assign by_lost[4] = 4'(hwif_in.lost.overrun.value.incr);
  assign by_lost[5] = 4'(hwif_in.lost.segment_overflow.value.incr);
  assign by_lost[6] = hwif_in.lost.socket_overflow.value.incr ? hwif_in.lost.socket_overflow.value.incrvalue : '0;
  assign by_frames = {
    hwif_in.frames.frames_unmerged.value.incr,
    hwif_in.frames.bursts.value.incr,
    hwif_in.frames.tlb_misses.value.incr,
    hwif_in.frames.tlb_hits.value.incr,
    hwif_in.frames.unsupported_requests.value.incr,
    hwif_in.frames.write_errors.value.incr,
    hwif_in.frames.read_errors.value.incr,
    hwif_in.frames.bad_descriptors.value.incr,
    hwif_in.frames.answers_after_deadline.value.incr,
    hwif_in.frames.frames_overrun.value.incr,
    hwif_in.frames.frames_incomplete.value.incr,
    hwif_in.frames.frames_late.value.incr,
    hwif_in.frames.frames_answered.value.incr,
    hwif_in.frames.frames_out.value.incr,
    hwif_in.frames.frames_in.value.incr,
    hwif_in.frames.burst_markers.value.incr,
    hwif_in.frames.packets_used.value.incr
  };
  assign by_many[0] = hwif_in.frames.packets_in.value.incr ? 25'(hwif_in.frames.packets_in.value.incrvalue) : '0;
  assign by_many[1] = hwif_in.frames.frames_skipped.value.incr ? 25'(hwif_in.frames.frames_skipped.value.incrvalue) : '0;
  assign by_many[2] = hwif_in.frames.untranslated.value.incr ? 25'(hwif_in.frames.untranslated.value.incrvalue) : '0;
  assign by_many[3] = hwif_in.frames.events_in.value.incr ? 25'(hwif_in.frames.events_in.value.incrvalue) : '0;
  assign by_many[4] = hwif_in.frames.hits_in.value.incr ? 25'(hwif_in.frames.hits_in.value.incrvalue) : '0;
  assign read_now = {hwif_in.now.high.value.next, hwif_in.now.low.value.next};
  assign read_next = {hwif_in.sender_next.high.value.next, hwif_in.sender_next.low.value.next};
  assign read_status = {
    hwif_in.status.idle.next,
    hwif_in.status.stopped.next,
    hwif_in.status.ready.next,
    hwif_in.status.bus_master.next
  };
  assign read_written = hwif_in.profile[CHANNELS-1].written.value.next;

endmodule
