// SPDX-License-Identifier: SHL-2.1
// Bursts, boards and jumps as docs/formats.md has them, and the list of pages. The fast path (clop) holds
// bases, frames and sequence numbers and decides what is ordinary; here is what it asks about.
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
// Low word first: it makes the port keep a clock's high word.
static uint64_t read64(nanet_fw* fw, uint32_t address) {
  const uint64_t low = read32(fw, address);
  return low | (uint64_t)read32(fw, address + 4) << 32;
}
static void write64(nanet_fw* fw, uint32_t address, uint64_t value) {
  write32(fw, address, (uint32_t)value);
  write32(fw, address + 4, (uint32_t)(value >> 32));
}

// ---------------------------------------------------------------- commands

// Tells the host how a burst ended, before it ends.
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

// Wakes the firmware when the next of its clocks has run out: the older burst's, or the silence of the
// current one, after `last`.
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

// Whether every board has sent EOB for this burst or, for the older of two, SOB for the newer.
static int all_done(const nanet_fw* fw, const nanet_fw_burst* burst) {
  for (uint32_t b = 0; b < NANET_FW_BOARDS; ++b)
    if ((fw->expected >> b & 1) && !burst->board[b].eob && !(burst == &fw->old && fw->current.board[b].sob))
      return 0;
  return 1;
}

static void close_old_if_done(nanet_fw* fw) {
  if (fw->packets) return;  // its packets are as good as the new one's, up to the timeout
  if (!fw->old.known || !all_done(fw, &fw->old)) return;
  fw->old.over = 1;
  command(fw, NANET_FW_CLOSE, &fw->old, 0, 0);
}

// The current burst's last frame: the largest that two boards, or the only one, give; where none agree the
// second largest, which two boards reached. Without an EOB, the last that is known.
static void fix_last(nanet_fw* fw, enum nanet_fw_how how) {
  if (fw->packets) {  // owes no frames, and ends with the next one only
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

// The current burst becomes the old one. `first`: clock of the new one's first packet.
static void begin(nanet_fw* fw, const request* r, uint64_t first, uint64_t now) {
  nanet_fw_burst* const current = &fw->current;
  uint32_t number = r->number;
  if (current->known) {
    number = current->number + (uint8_t)(r->number - current->number);
    current->over = current->ending;
    if (!current->ending) fix_last(fw, NANET_FW_BY_NEXT_BURST);
    fw->old = *current;
    fw->old.reported = UINT32_MAX;
    fw->old.close_at = first + fw->timeout + fw->packets;  // there up to the timeout, and with it
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

// A further SOB was followed by number 1: the board did begin anew, whatever becomes of the packet itself.
// Returns whether the request has to be judged anew.
static int renew(nanet_fw* fw, const nanet_fw_burst* burst, nanet_fw_board* board, const request* r) {
  if (!board->sob_pending || r->sequence != 1) return 0;
  board->sob_pending = 0;
  command(fw, NANET_FW_RESTART, burst, r->board, 0);
  seen(fw, burst, r->board, 0);
  command(fw, NANET_FW_WATCH, burst, r->board, 0);
  return 1;
}

// The packet came in, even if it is of no use.
static void remember(nanet_fw* fw, const nanet_fw_burst* burst, const request* r) {
  if (!(r->reason & (NANET_FW_SLOWPATH_REPLAYED | NANET_FW_SLOWPATH_JUMP)))
    seen(fw, burst, r->board, r->flags & flag_sob ? 0 : r->sequence);
}

static uint32_t distance(uint32_t a, uint32_t b) {
  return a > b ? a - b : b - a;
}

// Whether a packet ahead of the windows is confirmed by one that came before it, and if not, keeps it in
// mind. The same packet come twice confirms nothing.
static int confirmed(nanet_fw* fw, const nanet_fw_burst* burst, nanet_fw_board* board, const request* r) {
  const uint32_t numbers = distance(r->sequence, board->jump_sequence);
  if (!board->jumping || (!fw->packets && distance(r->frame, board->jump_frame) > frame_window) ||
      numbers > sequence_window || numbers == 0) {
    board->jumping = 1;
    board->jump_frame = r->frame;
    board->jump_sequence = r->sequence;
    return 0;
  }
  // Both came in; the lower one first, for the upper one may leave it a window behind.
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
    seen(fw, burst, r->board, 0);  // this board's first one, even if data overtook it
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

// A packet of a burst that is known.
static void of_a_burst(nanet_fw* fw, nanet_fw_burst* burst, const request* r) {
  nanet_fw_board* const board = &burst->board[r->board];
  if (r->reason & NANET_FW_SLOWPATH_ORDINARY) board->jumping = board->sob_pending = 0;
  // All frames of the older one may be closed, but the other boards' EOBs are as good as the first one's.
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

// A packet of neither burst, or the first one of all.
static void of_another_burst(nanet_fw* fw, const request* r) {
  const uint64_t now = read64(fw, NANET_FW_NOW);
  const uint64_t stamp = now - (uint32_t)((uint32_t)now - r->stamp);
  uint64_t first = stamp;
  if (fw->current.known) {
    if ((uint8_t)(r->number - fw->current.number) > 127) return answer(fw, r, NANET_FW_LATE);
    if ((r->reason & NANET_FW_SLOWPATH_OLD_ACTIVE) && !fw->replay) return answer(fw, r, NANET_FW_WRONG_BURST);
    uint8_t* const candidate = &fw->candidate[r->number];
    if (!*candidate) {
      if (fw->packets) forget_candidates(fw);  // there the newest one only
      *candidate = candidate_seen;
      fw->candidate_time[r->number] = stamp;
      if (!(r->flags & flag_sob)) return answer(fw, r, NANET_FW_JUMP);
      *candidate |= (uint8_t)(1u << r->board);
      return answer(fw, r, NANET_FW_MARKER);
    }
    first = fw->candidate_time[r->number];
    // A replay: no clock closes the older one, but the third does.
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

// No packet will follow until a new burst: what is open is closed, the last frame is the last known.
static void drain(nanet_fw* fw) {
  write32(fw, NANET_FW_STATUS, NANET_FW_HAS_DRAIN);
  if (!fw->current.known) return;
  if (fw->packets) {  // a burst goes on as long as it likes
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
  } else if (miss && !(rare && fw->slowpath_waited)) {  // one after the other, where both wait
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
