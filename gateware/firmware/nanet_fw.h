// SPDX-License-Identifier: SHL-2.1
// Card firmware: slow-path decisions (burst markers, unknown bursts, jumps) and page translation behind
// gateware/rtl/control/firmware_port.sv. Portable C11 without a library; two function pointers give access to
// the bus. Description: gateware/doc/firmware.md.
#ifndef NANET_FW_H
#define NANET_FW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Firmware bus registers: byte addresses of 32-bit words, equal to those in firmware_port.sv.
enum {
  NANET_FW_ID = 0x00,       // r: NANET_FW_MAGIC
  NANET_FW_STATUS = 0x04,   // r: NANET_FW_HAS_*; w: 1 clears START, ALARM or DRAIN
  NANET_FW_CONFIG = 0x08,   // r: 3:0 boards, 4 replay, 5 gather mode `packets`, 12:8 log2 of the page size
  NANET_FW_TIMEOUT = 0x0C,  // r: frame timeout in cycles after the first packet; 0: none
  NANET_FW_GRACE = 0x10,    // r: maximum latency of a packet to this port, in cycles
  NANET_FW_SILENCE = 0x14,  // r: burst silence timeout in cycles, low word (high: 0x18); 0: none
  NANET_FW_NOW = 0x1C,      // r: card clock, low word; latches the high word (0x20)
  NANET_FW_NEWEST =
      0x24,  // r: time stamp of the current burst's newest packet, low word; latches the high word (0x28)
  NANET_FW_ALARM = 0x2C,     // w: alarm time, low word; writing the high word (0x30) arms the alarm
  NANET_FW_REPORT = 0x34,    // w: NANET_FW_REPORT_* of the current burst; previous burst: 0x38
  NANET_FW_SLOWPATH = 0x40,  // r: NANET_FW_SLOWPATH_*; valid from STATUS bit set to the response
  NANET_FW_STAMP = 0x44,     // r: arrival time of the Ethernet frame, card clock, low word
  NANET_FW_HEADER = 0x48,    // r: MGP header, four words
  NANET_FW_MISS =
      0x60,  // r: virtual address of the TLB miss, low word (high: 0x64); valid while STATUS has MISS
  NANET_FW_FILL = 0x68,    // w: bus address, low word (high: 0x6C)
  NANET_FW_FILLED = 0x70,  // w: bit 0: page present; completes the miss
  NANET_FW_FETCH =
      0x74,  // w: bus address of an 8-byte read, low word; writing the high word (0x78) starts it
  NANET_FW_FETCHED = 0x7C,  // r: read data, low word (high: 0x80); valid once STATUS clears BUSY
  NANET_FW_CLOP = 0x84,     // r: base virtual address of the receive buffers (high: 0x88)
  NANET_FW_PAGES = 0x8C,    // r: bus address of the page list (high: 0x90)
  NANET_FW_COUNT = 0x94,    // r: number of page list entries
  NANET_FW_FRAME = 0xA0,    // w: `frame` of the next command
  NANET_FW_NUMBER = 0xA4,   // w: `sequence` of the next command
  NANET_FW_COMMAND = 0xA8   // w: remaining fields; issues the command
};

#define NANET_FW_MAGIC 0x3157464Eu  // "NFW1"

// STATUS
enum {
  NANET_FW_HAS_START = 1 << 0,     // card enabled: reset all state
  NANET_FW_HAS_SLOWPATH = 1 << 1,  // a packet awaits a decision
  NANET_FW_HAS_MISS = 1 << 2,      // an address awaits translation
  NANET_FW_HAS_ALARM = 1 << 3,     // the alarm time has passed
  NANET_FW_HAS_DRAIN = 1 << 4,     // drain requested: no further packets
  NANET_FW_BUSY = 1 << 8,          // read in progress
  NANET_FW_FAILED = 1 << 9         // the last read failed
};

// RARE: slowpath_t of nanet_pkg without stamp and header.
enum {
  NANET_FW_SLOWPATH_MARKER = 1 << 0,       // SOB or EOB
  NANET_FW_SLOWPATH_OTHER = 1 << 1,        // burst number matches neither tracked burst, or none is tracked
  NANET_FW_SLOWPATH_JUMP = 1 << 2,         // sequence number beyond the window
  NANET_FW_SLOWPATH_FAR = 1 << 3,          // frame number beyond the window
  NANET_FW_SLOWPATH_WATCHED = 1 << 4,      // sequence number 1 of a board under watch
  NANET_FW_SLOWPATH_REPLAYED = 1 << 5,     // sequence number (SOB: 0) already seen, or older than the window
  NANET_FW_SLOWPATH_OLD = 1 << 8,          // belongs to the previous burst
  NANET_FW_SLOWPATH_ORDINARY = 1 << 9,     // an in-window packet of this board arrived since its last request
  NANET_FW_SLOWPATH_ACTIVE = 1 << 10,      // its burst accepts packets
  NANET_FW_SLOWPATH_OLD_ACTIVE = 1 << 11,  // the previous burst accepts packets
  NANET_FW_SLOWPATH_CHANNEL_SHIFT = 16     // 18:16
};

// COMMAND: command_t of nanet_pkg.
enum nanet_fw_op {
  NANET_FW_BURST = 0,    // begin a burst; frame: unwrapped burst number; flag: SOB seen
  NANET_FW_LAST = 1,     // end of the current burst's frames; flag: all frames up to `frame` must be answered
  NANET_FW_SEEN = 2,     // mark the sequence number as received
  NANET_FW_RESTART = 3,  // restart the board's sequence numbers
  NANET_FW_BOARD = 4,    // the board's SOB arrived
  NANET_FW_WATCH = 5,    // flag: forward sequence number 1 to the firmware
  NANET_FW_CLOSE = 6,    // close the burst's open frames; gather mode `packets`: close the open buffer, or
                         // with the flag set, treat further packets of that burst as late
  NANET_FW_ANSWER = 7    // decision for the waiting packet
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
  NANET_FW_AGAIN = 0,  // classify again
  NANET_FW_LATE = 1,
  NANET_FW_REPLAYED = 3,
  NANET_FW_MARKER = 7,
  NANET_FW_JUMP = 8,  // first packet of a jump or of a burst
  NANET_FW_WRONG_BURST = 9,
  NANET_FW_ADMIT = 10  // sequence and frame numbers accepted: place the packet
};

// REPORT: status of an ended burst, for the host.
enum {
  NANET_FW_REPORT_SOB_SHIFT = 16,  // 19:16: boards with SOB received; 15:0: unwrapped burst number
  NANET_FW_REPORT_EOB_SHIFT = 20,  // 23:20: boards with EOB received
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
  uint8_t jumping;      // a packet beyond the windows arrived, and no in-window packet since
  uint8_t sob_pending;  // a repeated SOB arrived, and no in-window packet since
  uint8_t sob, eob;     // marker received
  uint32_t eob_frame, jump_frame, jump_sequence;
} nanet_fw_board;

typedef struct {
  uint8_t known;      // slot in use
  uint8_t ending;     // no further frames are accepted
  uint8_t over;       // previous burst: closed, including late EOBs
  uint8_t how;        // reason of the end: nanet_fw_how
  uint32_t number;    // unwrapped burst number
  uint32_t reported;  // last value of its REPORT register
  uint64_t close_at;  // previous burst: closing time, card clock
  nanet_fw_board board[NANET_FW_BOARDS];
} nanet_fw_burst;

typedef struct {
  nanet_fw_bus bus;
  uint8_t replay;    // replay mode: no timeouts
  uint8_t packets;   // gather mode `packets`
  uint8_t expected;  // mask of the expected boards
  uint8_t page_shift;
  uint8_t slowpath_waited;  // the last request served was a translation while a packet waited
  uint32_t timeout, grace, pages;
  uint64_t silence, clop, list, alarm;
  nanet_fw_burst current, old;
  uint8_t candidate[256];        // per burst number; 7: packet seen; 3:0: boards with SOB seen
  uint64_t candidate_time[256];  // arrival time of that packet, card clock
} nanet_fw;

// Resets all state and reads the configuration. Copies `bus`.
void nanet_fw_init(nanet_fw* fw, const nanet_fw_bus* bus);

// Serves one pending request; returns 0 if none is pending. Call while the port's interrupt is high.
int nanet_fw_step(nanet_fw* fw);

#ifdef __cplusplus
}
#endif

#endif
