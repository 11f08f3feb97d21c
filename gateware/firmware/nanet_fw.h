// SPDX-License-Identifier: SHL-2.1
// The card's firmware: decides what is rare (burst markers, other bursts, jumps) and translates pages, behind
// gateware/rtl/control/firmware_port.sv. Portable C11 without a library: two function pointers are all it knows of
// the machine it runs on. docs: gateware/doc/firmware.md.
#ifndef NANET_FW_H
#define NANET_FW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Registers of the firmware bus: byte addresses of 32-bit words. The same numbers stand in firmware_port.sv.
enum {
  NANET_FW_ID = 0x00,       // r: NANET_FW_MAGIC
  NANET_FW_STATUS = 0x04,   // r: NANET_FW_HAS_*; w: what is done of START, ALARM, DRAIN, by 1
  NANET_FW_CONFIG = 0x08,   // r: 3:0 boards, 4 replay, 5 gather mode packets, 12:8 log2 of the page
  NANET_FW_TIMEOUT = 0x0C,  // r: cycles after a frame's first packet; 0: none
  NANET_FW_GRACE = 0x10,    // r: cycles that a packet takes to get here
  NANET_FW_SILENCE = 0x14,  // r: cycles after which a burst is over, low word (high: 0x18); 0: none
  NANET_FW_NOW = 0x1C,      // r: card clock, low word, and keeps the high one (0x20) for the next read
  NANET_FW_NEWEST = 0x24,   // r: clock of the current burst's newest packet, in the same way (0x28)
  NANET_FW_ALARM = 0x2C,    // w: low word; the high one (0x30) arms it
  NANET_FW_REPORT = 0x34,   // w: NANET_FW_REPORT_*, of the current burst; of the old one: 0x38
  NANET_FW_SLOWPATH = 0x40,     // r: NANET_FW_SLOWPATH_*; valid while STATUS has RARE, until it is answered
  NANET_FW_STAMP = 0x44,    // r: card clock, low word, when the packet's frame came in
  NANET_FW_HEADER = 0x48,   // r: the MGP header, four words
  NANET_FW_MISS = 0x60,     // r: virtual address, low word (high: 0x64); valid while STATUS has MISS
  NANET_FW_FILL = 0x68,     // w: bus address, low word (high: 0x6C)
  NANET_FW_FILLED = 0x70,   // w: bit 0: there is such a page; the miss is answered
  NANET_FW_FETCH = 0x74,    // w: bus address of 8 B, low word; the high one (0x78) starts the read
  NANET_FW_FETCHED = 0x7C,  // r: what came, low word (high: 0x80); valid when STATUS is no more BUSY
  NANET_FW_CLOP = 0x84,     // r: first virtual address of the receive buffers (high: 0x88)
  NANET_FW_PAGES = 0x8C,    // r: bus address of the list of pages (high: 0x90)
  NANET_FW_COUNT = 0x94,    // r: entries of that list
  NANET_FW_FRAME = 0xA0,    // w: `frame` of the next command
  NANET_FW_NUMBER = 0xA4,   // w: `sequence` of the next command
  NANET_FW_COMMAND = 0xA8   // w: the rest; the command goes out
};

#define NANET_FW_MAGIC 0x3157464Eu  // "NFW1"

// STATUS
enum {
  NANET_FW_HAS_START = 1 << 0,  // the card was enabled: everything is forgotten
  NANET_FW_HAS_SLOWPATH = 1 << 1,   // a packet waits for a decision
  NANET_FW_HAS_MISS = 1 << 2,   // an address waits for its translation
  NANET_FW_HAS_ALARM = 1 << 3,  // the time that was set has come
  NANET_FW_HAS_DRAIN = 1 << 4,  // no packet will follow
  NANET_FW_BUSY = 1 << 8,       // a read is under way
  NANET_FW_FAILED = 1 << 9      // the last read failed
};

// RARE: slowpath_t of nanet_pkg without stamp and header.
enum {
  NANET_FW_SLOWPATH_MARKER = 1 << 0,       // SOB or EOB
  NANET_FW_SLOWPATH_OTHER = 1 << 1,        // of neither burst that is known, or there is none
  NANET_FW_SLOWPATH_JUMP = 1 << 2,         // its sequence number lies beyond the window
  NANET_FW_SLOWPATH_FAR = 1 << 3,          // its frame does
  NANET_FW_SLOWPATH_WATCHED = 1 << 4,      // number 1 of a board that was to be watched for it
  NANET_FW_SLOWPATH_REPLAYED = 1 << 5,     // its number (an SOB's: 0) was seen, or is too old to be told
  NANET_FW_SLOWPATH_OLD = 1 << 8,          // of the older of the two bursts
  NANET_FW_SLOWPATH_ORDINARY = 1 << 9,     // since this board's last request an ordinary packet of it came in
  NANET_FW_SLOWPATH_ACTIVE = 1 << 10,      // its burst is not over
  NANET_FW_SLOWPATH_OLD_ACTIVE = 1 << 11,  // the older burst is not over
  NANET_FW_SLOWPATH_CHANNEL_SHIFT = 16     // 18:16
};

// COMMAND: command_t of nanet_pkg.
enum nanet_fw_op {
  NANET_FW_BURST = 0,    // frame: number with wraps counted; flag: its SOB was seen
  NANET_FW_LAST = 1,     // the current burst takes no further frames; flag: it owes all up to `frame`
  NANET_FW_SEEN = 2,     // the number came in
  NANET_FW_RESTART = 3,  // the board's numbers begin anew
  NANET_FW_BOARD = 4,    // its SOB was there
  NANET_FW_WATCH = 5,    // flag: ask about its number 1
  NANET_FW_CLOSE = 6,    // what is open of that burst is closed; gather mode packets: the open buffer, or
                         // with the flag: packets of that burst are late from now on
  NANET_FW_ANSWER = 7    // the packet that waits
};
enum {
  NANET_FW_COMMAND_OLD = 1 << 4,
  NANET_FW_COMMAND_FLAG = 1 << 5,
  NANET_FW_COMMAND_BOARD_SHIFT = 6,    // 7:6
  NANET_FW_COMMAND_CHANNEL_SHIFT = 8,  // 10:8
  NANET_FW_COMMAND_AS_SHIFT = 12       // 15:12
};
// ANSWER, as: placed_e of nanet_pkg.
enum nanet_fw_as {
  NANET_FW_AGAIN = 0,  // judge it anew
  NANET_FW_LATE = 1,
  NANET_FW_REPLAYED = 3,
  NANET_FW_MARKER = 7,
  NANET_FW_JUMP = 8,  // the first packet of a jump, or of a burst
  NANET_FW_WRONG_BURST = 9,
  NANET_FW_ADMIT = 10  // its number and frame are believed: place it
};

// REPORT: what a host may want to know of a burst that has ended.
enum {
  NANET_FW_REPORT_SOB_SHIFT = 16,  // 19:16: boards whose SOB came; 15:0: number, wraps counted
  NANET_FW_REPORT_EOB_SHIFT = 20,  // 23:20
  NANET_FW_REPORT_HOW_SHIFT = 24   // 25:24: nanet_fw_how
};
enum nanet_fw_how {
  NANET_FW_BY_EOB = 0,
  NANET_FW_BY_SILENCE = 1,
  NANET_FW_BY_NEXT_BURST = 2,
  NANET_FW_BY_DRAIN = 3
};

#define NANET_FW_BOARDS 4

typedef struct {
  void* context;
  uint32_t (*read32)(void* context, uint32_t address);
  void (*write32)(void* context, uint32_t address, uint32_t value);
} nanet_fw_bus;

typedef struct {
  uint8_t jumping;      // a packet far ahead came, and no ordinary one since
  uint8_t sob_pending;  // a further SOB came, and no ordinary packet since
  uint8_t sob, eob;     // came
  uint32_t eob_frame, jump_frame, jump_sequence;
} nanet_fw_board;

typedef struct {
  uint8_t known;      // there is such a burst
  uint8_t ending;     // takes no further frames
  uint8_t over;       // the older of two: nothing of it is awaited, not even an EOB
  uint8_t how;        // it ended: nanet_fw_how
  uint32_t number;    // wraps counted
  uint32_t reported;  // what stands in its REPORT register
  uint64_t close_at;  // the older of two: card clock
  nanet_fw_board board[NANET_FW_BOARDS];
} nanet_fw_burst;

typedef struct {
  nanet_fw_bus bus;
  uint8_t replay;    // no clock decides
  uint8_t packets;   // gather mode
  uint8_t expected;  // boards
  uint8_t page_shift;
  uint8_t slowpath_waited;  // the last request was a translation while a packet waited
  uint32_t timeout, grace, pages;
  uint64_t silence, clop, list, alarm;
  nanet_fw_burst current, old;
  uint8_t candidate[256];        // by burst number: bit 7: a packet came; 3:0: boards whose SOB it was
  uint64_t candidate_time[256];  // card clock of that packet
} nanet_fw;

// Forgets everything and reads the configuration. The bus is copied.
void nanet_fw_init(nanet_fw* fw, const nanet_fw_bus* bus);

// Handles one request, if one waits. Returns 0 if none does. To be called while the port's interrupt is high.
int nanet_fw_step(nanet_fw* fw);

#ifdef __cplusplus
}
#endif

#endif
