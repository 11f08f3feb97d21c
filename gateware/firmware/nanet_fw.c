// SPDX-License-Identifier: SHL-2.1
// Card firmware: burst, board and jump rules of docs/formats.md, and the page list. The fast path (clop)
// holds bases, frames and sequence numbers and classifies in-window packets; all other packets are decided
// here.
#include "nanet_fw.h"

enum { flag_sob = 1, flag_eob = 2 };
enum { frame_window = 1024, sequence_window = 4096 };
enum { candidate_seen = 0x80 };

typedef struct {
  uint32_t reason;
  uint32_t channel, board;
  uint32_t sequence, frame;
  uint32_t stamp;
  uint8_t number, flags;
} request;

static uint32_t read32(nanet_fw* fw, uint32_t address) {
  return fw->bus.read32(fw->bus.context, address);
}
static void write32(nanet_fw* fw, uint32_t address, uint32_t value) {
  fw->bus.write32(fw->bus.context, address, value);
}
// Low word first: reading it latches the high word of a clock.
static uint64_t read64(nanet_fw* fw, uint32_t address) {
  const uint64_t low = read32(fw, address);
  return low | (uint64_t)read32(fw, address + 4) << 32;
}
static void write64(nanet_fw* fw, uint32_t address, uint64_t value) {
  write32(fw, address, (uint32_t)value);
  write32(fw, address + 4, (uint32_t)(value >> 32));
}

// ---------------------------------------------------------------- commands

// Writes the end reason of both bursts to the REPORT registers, before the burst ends.
static void report(nanet_fw* fw) {
  nanet_fw_burst* const bursts[2] = {&fw->current, &fw->old};
  for (uint32_t i = 0; i < 2; ++i) {
    nanet_fw_burst* const burst = bursts[i];
    if (!burst->known) continue;
    uint32_t word = (burst->number & 0xFFFFu) | (uint32_t)burst->how << NANET_FW_REPORT_HOW_SHIFT;
    for (uint32_t b = 0; b < NANET_FW_BOARDS; ++b)
      word |= (uint32_t)burst->board[b].sob << (NANET_FW_REPORT_SOB_SHIFT + b) |
              (uint32_t)burst->board[b].eob << (NANET_FW_REPORT_EOB_SHIFT + b);
    if (word == burst->reported) continue;
    burst->reported = word;
    write32(fw, NANET_FW_REPORT + 4 * i, word);
  }
}

static void command(nanet_fw* fw, enum nanet_fw_op op, const nanet_fw_burst* burst, uint32_t board,
                    int flag) {
  uint32_t word = (uint32_t)op | board << NANET_FW_COMMAND_BOARD_SHIFT;
  if (burst == &fw->old) word |= NANET_FW_COMMAND_OLD;
  if (flag) word |= NANET_FW_COMMAND_FLAG;
  if (op == NANET_FW_LAST || op == NANET_FW_CLOSE) report(fw);
  write32(fw, NANET_FW_COMMAND, word);
}

static void seen(nanet_fw* fw, const nanet_fw_burst* burst, uint32_t board, uint32_t sequence) {
  write32(fw, NANET_FW_NUMBER, sequence);
  command(fw, NANET_FW_SEEN, burst, board, 0);
}

static void answer(nanet_fw* fw, const request* r, enum nanet_fw_as as) {
  write32(fw, NANET_FW_COMMAND,
          (uint32_t)NANET_FW_ANSWER | r->channel << NANET_FW_COMMAND_CHANNEL_SHIFT |
              (uint32_t)as << NANET_FW_COMMAND_AS_SHIFT);
}

// ---------------------------------------------------------------- bursts

// Sets the alarm to the earlier of two times: close of the previous burst, or silence of the current burst
// after `last`.
static void set_alarm(nanet_fw* fw, uint64_t last) {
  uint64_t at = UINT64_MAX;
  if (fw->replay) return;
  if (fw->old.known && !fw->old.over && fw->timeout) at = fw->old.close_at + fw->grace;
  if (fw->current.known && !fw->current.ending && fw->silence) {
    const uint64_t quiet = last + fw->silence + fw->grace;
    if (quiet < at) at = quiet;
  }
  if (at == fw->alarm) return;
  fw->alarm = at;
  write64(fw, NANET_FW_ALARM, at);
}

static int all_ended(const nanet_fw* fw, const nanet_fw_burst* burst) {
  for (uint32_t b = 0; b < NANET_FW_BOARDS; ++b)
    if ((fw->expected >> b & 1) && !burst->board[b].eob) return 0;
  return 1;
}

// True when every board has sent EOB for this burst or, for the previous burst, SOB for the current one.
static int all_done(const nanet_fw* fw, const nanet_fw_burst* burst) {
  for (uint32_t b = 0; b < NANET_FW_BOARDS; ++b)
    if ((fw->expected >> b & 1) && !burst->board[b].eob && !(burst == &fw->old && fw->current.board[b].sob))
      return 0;
  return 1;
}

static void close_old_if_done(nanet_fw* fw) {
  if (fw->packets) return;  // packets of both bursts are accepted until the timeout
  if (!fw->old.known || !all_done(fw, &fw->old)) return;
  fw->old.over = 1;
  command(fw, NANET_FW_CLOSE, &fw->old, 0, 0);
}

// Last frame of the current burst: the largest value that two boards report, or that of a single board.
// Without agreement: the second largest, which two boards reached. Without an EOB: the last known frame.
static void fix_last(nanet_fw* fw, enum nanet_fw_how how) {
  if (fw->packets) {  // no frames to answer; the burst ends with the next burst only
    if (!all_ended(fw, &fw->current)) fw->current.how = (uint8_t)how;
    return;
  }
  uint32_t largest = 0, second = 0, agreed = 0, count = 0, agree = 0;
  for (uint32_t b = 0; b < NANET_FW_BOARDS; ++b) {
    const nanet_fw_board* board = &fw->current.board[b];
    if (!board->eob) continue;
    ++count;
    if (board->eob_frame >= largest) {
      second = largest;
      largest = board->eob_frame;
    } else if (board->eob_frame > second) {
      second = board->eob_frame;
    }
    for (uint32_t o = 0; o < b; ++o)
      if (fw->current.board[o].eob && fw->current.board[o].eob_frame == board->eob_frame &&
          (!agree || board->eob_frame > agreed)) {
        agree = 1;
        agreed = board->eob_frame;
      }
  }
  if (count) write32(fw, NANET_FW_FRAME, count == 1 ? largest : agree ? agreed : second);
  fw->current.ending = 1;
  fw->current.how = (uint8_t)how;
  command(fw, NANET_FW_LAST, &fw->current, 0, count != 0);
}

static void forget_candidates(nanet_fw* fw) {
  for (uint32_t i = 0; i < 256; ++i) fw->candidate[i] = 0;
}

// Makes the current burst the previous one. `first`: arrival time of the new burst's first packet.
static void begin(nanet_fw* fw, const request* r, uint64_t first, uint64_t now) {
  nanet_fw_burst* const current = &fw->current;
  uint32_t number = r->number;
  if (current->known) {
    number = current->number + (uint8_t)(r->number - current->number);
    current->over = current->ending;
    if (!current->ending) fix_last(fw, NANET_FW_BY_NEXT_BURST);
    fw->old = *current;
    fw->old.reported = UINT32_MAX;
    fw->old.close_at = first + fw->timeout + fw->packets;  // gather mode `packets`: inclusive timeout
  }
  *current = (nanet_fw_burst){0};
  current->known = 1;
  current->number = number;
  current->reported = UINT32_MAX;
  const uint32_t kept = fw->candidate[r->number] & 0xFu;
  write32(fw, NANET_FW_FRAME, number & 0xFFFFFFu);
  command(fw, NANET_FW_BURST, current, 0, kept != 0);
  for (uint32_t b = 0; b < NANET_FW_BOARDS; ++b)
    if (kept >> b & 1) {
      current->board[b].sob = 1;
      command(fw, NANET_FW_BOARD, current, b, 0);
      seen(fw, current, b, 0);
    }
  forget_candidates(fw);
  close_old_if_done(fw);
  set_alarm(fw, now);
}

// ---------------------------------------------------------------- boards

// Restarts a board's sequence numbers when number 1 follows a repeated SOB, independent of the packet's own
// outcome. Returns true if the request must be classified again.
static int renew(nanet_fw* fw, const nanet_fw_burst* burst, nanet_fw_board* board, const request* r) {
  if (!board->sob_pending || r->sequence != 1) return 0;
  board->sob_pending = 0;
  command(fw, NANET_FW_RESTART, burst, r->board, 0);
  seen(fw, burst, r->board, 0);
  command(fw, NANET_FW_WATCH, burst, r->board, 0);
  return 1;
}

// Marks the packet's sequence number as received, also for a refused packet.
static void remember(nanet_fw* fw, const nanet_fw_burst* burst, const request* r) {
  if (!(r->reason & (NANET_FW_SLOWPATH_REPLAYED | NANET_FW_SLOWPATH_JUMP)))
    seen(fw, burst, r->board, r->flags & flag_sob ? 0 : r->sequence);
}

static uint32_t distance(uint32_t a, uint32_t b) {
  return a > b ? a - b : b - a;
}

// True if an earlier packet confirms this packet beyond the windows; otherwise stores it. A duplicate of the
// same packet does not confirm.
static int confirmed(nanet_fw* fw, const nanet_fw_burst* burst, nanet_fw_board* board, const request* r) {
  const uint32_t numbers = distance(r->sequence, board->jump_sequence);
  if (!board->jumping || (!fw->packets && distance(r->frame, board->jump_frame) > frame_window) ||
      numbers > sequence_window || numbers == 0) {
    board->jumping = 1;
    board->jump_frame = r->frame;
    board->jump_sequence = r->sequence;
    return 0;
  }
  // Mark both as received, the lower first: the upper may move the window past the lower.
  const int behind = r->sequence < board->jump_sequence;
  seen(fw, burst, r->board, behind ? r->sequence : board->jump_sequence);
  seen(fw, burst, r->board, behind ? board->jump_sequence : r->sequence);
  board->jumping = board->sob_pending = 0;
  return 1;
}

// ---------------------------------------------------------------- requests

static void sob(nanet_fw* fw, nanet_fw_burst* burst, nanet_fw_board* board, const request* r) {
  board->sob = 1;
  command(fw, NANET_FW_BOARD, burst, r->board, 0);
  if (r->reason & NANET_FW_SLOWPATH_REPLAYED) {
    board->sob_pending = 1;
    command(fw, NANET_FW_WATCH, burst, r->board, 1);
  } else {
    seen(fw, burst, r->board, 0);  // first SOB of this board, also when data overtook it
  }
  if (burst == &fw->current) close_old_if_done(fw);
  answer(fw, r, NANET_FW_MARKER);
}

static void eob(nanet_fw* fw, nanet_fw_burst* burst, nanet_fw_board* board, const request* r) {
  if (r->reason & NANET_FW_SLOWPATH_REPLAYED) return answer(fw, r, NANET_FW_REPLAYED);
  if (r->reason & (NANET_FW_SLOWPATH_JUMP | NANET_FW_SLOWPATH_FAR)) {
    if (!confirmed(fw, burst, board, r)) return answer(fw, r, NANET_FW_JUMP);
  } else {
    seen(fw, burst, r->board, r->sequence);
    board->jumping = board->sob_pending = 0;
  }
  board->eob = 1;
  board->eob_frame = r->frame;
  if (fw->packets) {
    if (all_ended(fw, burst)) command(fw, NANET_FW_CLOSE, burst, 0, 0);
  } else if (burst == &fw->old) {
    close_old_if_done(fw);
  } else if (!burst->ending && all_done(fw, burst)) {
    fix_last(fw, NANET_FW_BY_EOB);
    if (fw->replay) command(fw, NANET_FW_CLOSE, burst, 0, 0);
  }
  answer(fw, r, NANET_FW_MARKER);
}

// Packet of a tracked burst.
static void of_a_burst(nanet_fw* fw, nanet_fw_burst* burst, const request* r) {
  nanet_fw_board* const board = &burst->board[r->board];
  if (r->reason & NANET_FW_SLOWPATH_ORDINARY) board->jumping = board->sob_pending = 0;
  // Markers of the previous burst are accepted until it is over, even with all its frames closed.
  const int marker = (r->flags & (flag_sob | flag_eob)) != 0;
  const int late = !(r->reason & NANET_FW_SLOWPATH_ACTIVE) && !(burst == &fw->old && marker && !burst->over);
  if (!(r->flags & flag_sob) && !(late && fw->packets) && renew(fw, burst, board, r))
    return answer(fw, r, NANET_FW_AGAIN);
  if (r->reason & NANET_FW_SLOWPATH_WATCHED) {
    command(fw, NANET_FW_WATCH, burst, r->board, 0);
    return answer(fw, r, NANET_FW_AGAIN);
  }
  if (late) {
    remember(fw, burst, r);
    return answer(fw, r, NANET_FW_LATE);
  }
  if (r->flags & flag_sob) return sob(fw, burst, board, r);
  if (r->flags & flag_eob) return eob(fw, burst, board, r);
  if (!(r->reason & (NANET_FW_SLOWPATH_JUMP | NANET_FW_SLOWPATH_FAR))) return answer(fw, r, NANET_FW_AGAIN);
  answer(fw, r, confirmed(fw, burst, board, r) ? NANET_FW_ADMIT : NANET_FW_JUMP);
}

// Packet of an untracked burst, or the very first packet.
static void of_another_burst(nanet_fw* fw, const request* r) {
  const uint64_t now = read64(fw, NANET_FW_NOW);
  const uint64_t stamp = now - (uint32_t)((uint32_t)now - r->stamp);
  uint64_t first = stamp;
  if (fw->current.known) {
    if ((uint8_t)(r->number - fw->current.number) > 127) return answer(fw, r, NANET_FW_LATE);
    if ((r->reason & NANET_FW_SLOWPATH_OLD_ACTIVE) && !fw->replay) return answer(fw, r, NANET_FW_WRONG_BURST);
    uint8_t* const candidate = &fw->candidate[r->number];
    if (!*candidate) {
      if (fw->packets) forget_candidates(fw);  // gather mode `packets`: track the newest candidate only
      *candidate = candidate_seen;
      fw->candidate_time[r->number] = stamp;
      if (!(r->flags & flag_sob)) return answer(fw, r, NANET_FW_JUMP);
      *candidate |= (uint8_t)(1u << r->board);
      return answer(fw, r, NANET_FW_MARKER);
    }
    first = fw->candidate_time[r->number];
    // Replay: a third burst closes the previous one, as no timeout does.
    if (r->reason & NANET_FW_SLOWPATH_OLD_ACTIVE) command(fw, NANET_FW_CLOSE, &fw->old, 0, 0);
  }
  begin(fw, r, first, stamp);
  answer(fw, r, NANET_FW_AGAIN);
}

static void decide(nanet_fw* fw) {
  request r;
  r.reason = read32(fw, NANET_FW_SLOWPATH);
  r.stamp = read32(fw, NANET_FW_STAMP);
  const uint32_t first = read32(fw, NANET_FW_HEADER);      // flags, version, board, source
  const uint32_t last = read32(fw, NANET_FW_HEADER + 12);  // burst, frame
  r.channel = r.reason >> NANET_FW_SLOWPATH_CHANNEL_SHIFT & 7u;
  const uint32_t board = first >> 8 & 0xFFu;
  r.board = board == 0xFF ? 0 : board & 3u;
  r.flags = (uint8_t)(first >> 24);
  r.sequence = read32(fw, NANET_FW_HEADER + 8);
  r.frame = last & 0xFFFFFFu;
  r.number = (uint8_t)(last >> 24);
  if (r.reason & NANET_FW_SLOWPATH_OTHER)
    of_another_burst(fw, &r);
  else
    of_a_burst(fw, r.reason & NANET_FW_SLOWPATH_OLD ? &fw->old : &fw->current, &r);
  report(fw);
}

static void translate(nanet_fw* fw) {
  const uint64_t index = (read64(fw, NANET_FW_MISS) - fw->clop) >> fw->page_shift;
  uint32_t ok = 0;
  if (index < fw->pages) {
    uint32_t status;
    write64(fw, NANET_FW_FETCH, fw->list + 8 * index);
    do status = read32(fw, NANET_FW_STATUS);
    while (status & NANET_FW_BUSY);
    ok = !(status & NANET_FW_FAILED);
    if (ok) write64(fw, NANET_FW_FILL, read64(fw, NANET_FW_FETCHED));
  }
  write32(fw, NANET_FW_FILLED, ok);
}

static void on_alarm(nanet_fw* fw) {
  const uint64_t last = read64(fw, NANET_FW_NEWEST), now = read64(fw, NANET_FW_NOW);
  write32(fw, NANET_FW_STATUS, NANET_FW_HAS_ALARM);
  fw->alarm = 0;
  if (fw->old.known && !fw->old.over && fw->timeout && fw->old.close_at + fw->grace <= now) {
    fw->old.over = 1;
    command(fw, NANET_FW_CLOSE, &fw->old, 0, fw->packets);
  }
  if (fw->current.known && !fw->current.ending && fw->silence && last + fw->silence + fw->grace <= now)
    fix_last(fw, NANET_FW_BY_SILENCE);
  set_alarm(fw, last);
  report(fw);
}

// Drain: closes all open frames; the last known frame is the last of the burst.
static void drain(nanet_fw* fw) {
  write32(fw, NANET_FW_STATUS, NANET_FW_HAS_DRAIN);
  if (!fw->current.known) return;
  if (fw->packets) {  // a burst has no last frame in this mode
    command(fw, NANET_FW_CLOSE, &fw->current, 0, 0);
    return;
  }
  if (fw->old.known) command(fw, NANET_FW_CLOSE, &fw->old, 0, 0);
  if (!fw->current.ending) {
    fw->current.ending = 1;
    fw->current.how = NANET_FW_BY_DRAIN;
    command(fw, NANET_FW_LAST, &fw->current, 0, 0);
  }
  command(fw, NANET_FW_CLOSE, &fw->current, 0, 0);
}

static void start(nanet_fw* fw) {
  const nanet_fw_bus bus = fw->bus;
  *fw = (nanet_fw){0};
  fw->bus = bus;
  const uint32_t config = read32(fw, NANET_FW_CONFIG);
  fw->expected = (config & 0xFu) ? (uint8_t)(config & 0xFu) : 1;
  fw->replay = config >> 4 & 1u;
  fw->page_shift = config >> 8 & 0x1Fu;
  fw->timeout = read32(fw, NANET_FW_TIMEOUT);
  fw->grace = read32(fw, NANET_FW_GRACE);
  fw->packets = config >> 5 & 1u;
  fw->silence = fw->packets ? 0 : read64(fw, NANET_FW_SILENCE);
  fw->clop = read64(fw, NANET_FW_CLOP);
  fw->list = read64(fw, NANET_FW_PAGES);
  fw->pages = read32(fw, NANET_FW_COUNT);
  fw->alarm = UINT64_MAX;
  write32(fw, NANET_FW_STATUS, NANET_FW_HAS_START);
}

void nanet_fw_init(nanet_fw* fw, const nanet_fw_bus* bus) {
  *fw = (nanet_fw){0};
  fw->bus = *bus;
  start(fw);
}

int nanet_fw_step(nanet_fw* fw) {
  const uint32_t status = read32(fw, NANET_FW_STATUS);
  const uint32_t rare = status & NANET_FW_HAS_SLOWPATH, miss = status & NANET_FW_HAS_MISS;
  if (status & NANET_FW_HAS_START) {
    start(fw);
  } else if (miss && !(rare && fw->slowpath_waited)) {  // alternate when both are pending
    fw->slowpath_waited = rare != 0;
    translate(fw);
  } else if (rare) {
    fw->slowpath_waited = 0;
    decide(fw);
  } else if (status & NANET_FW_HAS_ALARM) {
    on_alarm(fw);
  } else if (status & NANET_FW_HAS_DRAIN) {
    drain(fw);
  } else {
    return 0;
  }
  return 1;
}
