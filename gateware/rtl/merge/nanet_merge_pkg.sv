// SPDX-License-Identifier: SHL-2.1
// Types of the merging of boards (docs/formats.md, Merged buffer).
package nanet_merge_pkg;

  localparam int unsigned MergeRows = 512;
  localparam int unsigned MergeHits = 8192;
  localparam int unsigned SegmentBytes = 8192;  // bytes per board
  localparam int unsigned PageBytes = 256;      // bytes; a piece of rx_writer lies in one page

  // Address of a payload byte for merge_store: bits 31:16 buffer, 14:13 board, 12:0 offset in the segment.
  typedef struct packed {
    logic [7:0]  device;
    logic [15:0] buffer;
    logic        spare;
    logic [1:0]  board;
    logic [12:0] offset;
  } merge_place_t;

  // Row in its memory layout, byte 0 in bits 7:0.
  typedef struct packed {
    logic [3:0][7:0] delay;
    logic [3:0][7:0] hits;
    logic [7:0]      flags;
    logic [7:0]      boards;
    logic [15:0]     opened;
    logic [15:0]     sum;
    logic [15:0]     first;
  } merged_row_t;

  typedef struct packed {
    logic [12:0] at;         // offset of its hit words in the segment
    logic [15:0] since;      // time within the frame, LSB
    logic [5:0]  stored;
    logic        truncated;
  } merge_fragment_t;

  typedef struct packed {
    logic [15:0]      opened;
    logic [3:0]       boards;
    logic             truncated;
    logic [3:0][5:0]  hits;
    logic [3:0][7:0]  delay;
    logic [3:0][12:0] at;
  } merge_event_t;

  localparam logic [2:0] UnmergedNone = 3'd0;
  localparam logic [2:0] UnmergedDisordered = 3'd1;
  localparam logic [2:0] UnmergedHits = 3'd2;
  localparam logic [2:0] UnmergedEvents = 3'd3;
  localparam logic [2:0] UnmergedRoom = 3'd4;

  // Header fields of a merging card.
  typedef struct packed {
    logic        on;        // the card merges
    logic        merged;    // layout
    logic [2:0]  unmerged;  // reason for segments
    logic [15:0] events;
    logic [15:0] fragments;
    logic [15:0] hits;
    logic [2:0]  ttc;           // TTC at closing: lost, in a burst, locked
    logic [31:0] first_period;  // TTC time of the first payload
    logic [31:0] close_period;
  } merge_result_t;

  // Extents of a closed frame: units of 16 B per board, and its slot in the store.
  typedef struct packed {
    logic [5:0]       slot;
    logic [3:0][11:0] units;
  } merge_frame_t;

  // Read of 16 B from the store, from any even offset; data seven cycles later. A `direct` one is in the
  // pages of the last one with `keep`, enters the store behind the page table, and takes three cycles.
  typedef struct packed {
    logic        valid;
    logic        keep;
    logic        direct;
    logic [5:0]  slot;
    logic [12:0] offset;
  } merge_read_t;

endpackage
