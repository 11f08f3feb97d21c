// SPDX-License-Identifier: Apache-2.0
// Counter list of a run: name, metric and description of each counter, one line each.
// Declarations, accounting, JSON, Prometheus metrics and docs/counters.md all follow from these lists:
//   1. Add a line here and increment the counter where the thing happens.
//   2. Run `./dev shell python docs/hooks/counters.py`: tables of the documentation, panels of the dashboard.
// A description is a noun phrase without full stop. Counters that share a metric are distinguished by the
// label `reason`, the counter's name.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

// CARD: incremented by the card (card::Counters). TRIGGER: by the accounting (trigger::Accounting).
#define NANET_RUN_COUNTERS(CARD, TRIGGER)                                                                    \
  CARD(packets_in, "nanet_packets", "UDP datagrams received on the MGP port")                                \
  CARD(packets_used, "nanet_packets_used", "packets whose payload was stored in a buffer")                   \
  CARD(burst_markers, "nanet_burst_markers", "SOB and EOB packets accepted")                                 \
  CARD(bytes_in, "nanet_received_bytes", "bytes of all datagrams received, padding included")                \
  CARD(events_in, "nanet_fragments", "event fragments in the packets used")                                  \
  CARD(hits_in, "nanet_hits", "hits in the packets used, before duplicates are removed")                     \
  TRIGGER(events_built, "nanet_events", "events built from fragments")                                       \
  TRIGGER(rings, "nanet_rings", "rings found")                                                               \
  TRIGGER(primitives_out, "nanet_primitives", "primitives sent in time")                                     \
  TRIGGER(below_min_hits, "nanet_primitives_withheld", "events with fewer hits than min_hits; no primitive") \
  TRIGGER(mtp_overflow, "nanet_primitives_withheld", "primitives beyond the 255th of a frame; not sent")     \
  TRIGGER(in_late_frames, "nanet_primitives_withheld",                                                       \
          "primitives of frames that had already been answered header-only; not sent")                       \
  CARD(frames_in, "nanet_frames", "frames that require an answer")                                           \
  CARD(frames_out, "nanet_frames_out", "frames answered, one MTP packet each")                               \
  CARD(frames_answered, "nanet_frames_answered", "frames answered in time with the result of the trigger")   \
  CARD(frames_late, "nanet_frames_late",                                                                     \
       "frames answered header-only (sub ID 0xFF): at the deadline, skipped before it, or without a buffer") \
  CARD(frames_skipped, "nanet_frames_skipped", "frames in a confirmed gap of more than 1024; no answer due") \
  CARD(frames_incomplete, "nanet_frames_incomplete", "frames closed with a board missing")                   \
  CARD(frames_unmerged, "nanet_frames_unmerged", "frames that a merging card left as segments")              \
  CARD(frames_overrun, "nanet_frames_overrun", "frames without a free buffer; also counted as frames_late")  \
  TRIGGER(duplicate_hits, "nanet_duplicate_hits", "hits dropped because a fragment named the same PM twice") \
  TRIGGER(split_at_frame_edge, "nanet_split_events",                                                         \
          "events built twice because their fragments fell in two adjacent frames")                          \
  TRIGGER(masked_hits, "nanet_masked_hits", "hits of photomultipliers masked by the conditions; dropped")    \
  CARD(bursts, "nanet_bursts", "bursts started")                                                             \
  CARD(answers_after_deadline, "nanet_answers_after_deadline",                                               \
       "answers that arrived after their frame had been answered header-only")                               \
  CARD(send_errors, "nanet_send_errors", "datagrams that the network rejected, at once or afterwards")       \
  CARD(bad_descriptors, "nanet_bad_descriptors",                                                             \
       "descriptors that point outside the send buffers (faulty consumer)")                                  \
  CARD(events_dropped, "nanet_events_dropped", "events dropped because a stalled consumer's queue was full") \
  TRIGGER(account_checks, "nanet_account_checks", "checks of the accounting identities while running")       \
  TRIGGER(account_violations, "nanet_account_violations", "checks of the accounting identities that failed")

// Valid packets that were not used, by the first reason that applies (docs/formats.md, Refusals). The last
// three never arrived. `missing` is a running balance: it falls when a packet arrives late.
#define NANET_LOST_PACKETS(X)                                                                                \
  X(late, "nanet_packets_lost", "packets of a closed frame or of a finished burst")                          \
  X(duplicate, "nanet_packets_lost", "packets with a repeated index, or contradicting the last-packet mark") \
  X(replayed_sequence, "nanet_packets_lost",                                                                 \
    "packets with a sequence number already seen or older than the window of 4096")                          \
  X(unconfirmed_jump, "nanet_packets_lost",                                                                  \
    "first packets of a jump in frame or sequence number, or of a burst without SOB")                        \
  X(overrun, "nanet_packets_lost", "packets of frames without a buffer")                                     \
  X(segment_overflow, "nanet_packets_lost", "packets that did not fit into the segment of their board")      \
  X(other_node, "nanet_packets_lost", "packets of frames dealt to another node (card.node)")                 \
  X(missing, "nanet_packets_missing", "sequence numbers that never arrived (running balance)")               \
  X(socket_overflow, "nanet_packets_lost",                                                                   \
    "messages dropped by the kernel from a full socket buffer, up to 64 datagrams each (see lost.missing); " \
    "datagrams discarded there because they were too late")                                                  \
  X(ring_overflow, "nanet_packets_lost", "frames dropped because the receive ring of the xdp card was full")

// Primitives not sent because of the downscaling factor of their kind, bits 13:12 of the primitive ID.
#define NANET_DOWNSCALED(X)                           \
  X(rings_0, "primitives without a ring; downscaled") \
  X(rings_1, "primitives with one ring; downscaled")  \
  X(rings_2, "primitives with two rings; downscaled") \
  X(rings_3, "primitives with three or more rings; downscaled")

// Recording of raw packets (trigger::Recorder). A metric is given for the outcomes of a packet only.
#define NANET_RECORD_COUNTERS(X)                                                                             \
  X(packets, "nanet_packets_recorded", "valid packets written to raw-*.pcap")                                \
  X(bad_packets, "nanet_packets_recorded", "refused packets written to bad-*.pcap")                          \
  X(bytes, "", "bytes of both")                                                                              \
  X(files, "", "files started")                                                                              \
  X(files_removed, "", "oldest files removed to keep the size limit")                                        \
  X(ring_full, "nanet_packets_recorded", "packets lost because the writer was a whole ring (64 MiB) behind") \
  X(write_failed, "nanet_packets_recorded", "packets lost because the disk accepted no more data")

// Final trigger (trigger::FinalTrigger), which decides here or passes on the releases of a card.
#define NANET_FINAL_COUNTERS(X)                                                     \
  X(primitives, "", "primitives")                                                   \
  X(decisions, "", "primitives that a mask passed")                                 \
  X(triggers, "nanet_final_decisions", "triggers sent")                             \
  X(joined, "nanet_final_decisions", "decisions in a trigger's period; types ORed") \
  X(dead, "nanet_final_decisions", "decisions closer than min_ticks to a trigger")  \
  X(passed, "", "decisions for periods of late frames")                             \
  X(datagrams, "nanet_final_datagrams", "trigger datagrams sent, per destination")  \
  X(send_errors, "nanet_final_send_errors", "trigger datagrams rejected by the network")

// Final trigger of a card that releases the triggers. CARD: counted by it (card::CardTriggerCounts). TRIGGER:
// by trigger::FinalTrigger. Lines with a separate metric count faults.
#define NANET_CARD_TRIGGER_COUNTERS(CARD, TRIGGER)                                                     \
  CARD(primitives, "", "as above")                                                                     \
  CARD(decisions, "", "as above")                                                                      \
  CARD(sent, "", "triggers released")                                                                  \
  CARD(joined, "", "as above")                                                                         \
  CARD(late, "nanet_final_decisions", "decisions after their release was due")                         \
  CARD(early, "nanet_final_decisions", "decisions for a later period")                                 \
  CARD(dead, "", "as above")                                                                           \
  CARD(choked, "nanet_final_decisions", "decisions while choked, and until L after")                   \
  CARD(untimed, "nanet_final_decisions", "decisions of another burst, or without time")                \
  CARD(flushed, "nanet_final_decisions", "decisions held at SOB or loss of time")                      \
  CARD(overflow, "nanet_final_packets_undecided", "packets not decided")                               \
  CARD(missed, "nanet_final_releases_missed", "releases behind their period; dropped")                 \
  CARD(time_lost, "nanet_final_time_losses", "losses of time")                                         \
  CARD(out_of_time, "nanet_final_packets_out_of_time", "packets outside the last L")                   \
  CARD(burst_mismatch, "nanet_final_burst_mismatches", "bursts whose number does not follow the SOBs") \
  TRIGGER(differs, "nanet_final_releases_differing", "releases without the same decision in software")

// Torus model that carries a program (torus::Progress, `nanet torus demo`).
#define NANET_TORUS_COUNTERS(X)                                                        \
  X(iterations, "nanet_torus_iterations", "iterations completed by every node")        \
  X(packets, "nanet_torus_packets", "packets delivered")                               \
  X(words, "nanet_torus_words", "words of 16 B delivered, header and footer included") \
  X(cells_sent, "nanet_torus_cells", "cells sent the first time")                      \
  X(cells_damaged, "nanet_torus_cells", "cells refused for their CRC")                 \
  X(cells_resent, "nanet_torus_cells", "cells sent again: damaged, or behind them")

// Latency histograms by stage: name, start, end.
#define NANET_STAGES(X)                                                                           \
  X(gather, "kernel time stamp of the frame's first packet", "event written")                     \
  X(queue, "event written", "event read by an executor")                                          \
  X(build, "event read", "fragments merged")                                                      \
  X(reconstruct, "fragments merged", "rings found")                                               \
  X(post, "rings found", "descriptor posted")                                                     \
  X(send, "descriptor posted", "packet sent")                                                     \
  X(total, "kernel time stamp of the frame's first packet", "answer sent (late frames included)") \
  X(header_only, "deadline", "header-only answer sent; 0 if it left earlier")

namespace nanet::stats {

// One line of the lists above. Families (lost, downscaled, recorded, final, final.card) are objects in JSON.
struct CounterDescription {
  std::string_view family, name, metric, text;
};

inline constexpr CounterDescription counter_descriptions[] = {
#define NANET_LINE(name, metric, text) {"", #name, metric, text},
    NANET_RUN_COUNTERS(NANET_LINE, NANET_LINE)
#undef NANET_LINE
#define NANET_LINE(name, metric, text) {"lost", #name, metric, text},
        NANET_LOST_PACKETS(NANET_LINE)
#undef NANET_LINE
#define NANET_LINE(name, text) {"downscaled", #name, "nanet_primitives_withheld", text},
            NANET_DOWNSCALED(NANET_LINE)
#undef NANET_LINE
#define NANET_LINE(name, metric, text) {"recorded", #name, metric, text},
                NANET_RECORD_COUNTERS(NANET_LINE)
#undef NANET_LINE
#define NANET_LINE(name, metric, text) {"final", #name, metric, text},
                    NANET_FINAL_COUNTERS(NANET_LINE)
#undef NANET_LINE
#define NANET_LINE(name, metric, text) {"final.card", #name, metric, text},
                        NANET_CARD_TRIGGER_COUNTERS(NANET_LINE, NANET_LINE)
#undef NANET_LINE
#define NANET_LINE(name, metric, text) {"program", #name, metric, text},
                            NANET_TORUS_COUNTERS(NANET_LINE)
#undef NANET_LINE
};

struct StageDescription {
  std::string_view name, from, to;
};
inline constexpr StageDescription stage_descriptions[] = {
#define NANET_LINE(name, from, to) {#name, from, to},
    NANET_STAGES(NANET_LINE)
#undef NANET_LINE
};
inline constexpr std::size_t stage_count = std::size(stage_descriptions);

}  // namespace nanet::stats
