// SPDX-License-Identifier: SHL-2.1
// Buffer, board, return-slot and status memories of clop, with their evaluation for a packet. Reads in
// step `read`, registers the words in `capture` and delivers the result in `classify`. Free running:
// inputs are steady over these steps.
module clop_lookup
  import nanet_pkg::*;
#(
    // As in clop.
    parameter int unsigned MAX_BUFFERS = 2048,
    parameter int unsigned DEVICES = 1
) (
    input logic clk,

    /*
     * configuration, as in clop
     */
    input logic [4:0]                     log2_devices,
    input logic [DEVICES-1:0][63:0]       base_vaddr,
    input logic [17:0]                    buffer_units,
    input logic [16:0]                    segment_bytes,
    input logic [3:0]                     expected,
    input logic                           window,         // frames are closed by number
    input logic [$clog2(MAX_BUFFERS)-1:0] index_mask,
    input logic [31:0]                    sender_next,

    /*
     * return slots
     */
    input logic                           return_valid,
    input logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input logic [31:0]                    return_value,

    /*
     * packet or timer, steady from `read` to `classify`, and its burst
     */
    input  place_request_t request,
    input  logic [31:0]    n,
    input  logic [1:0]     board,
    input  logic [24:0]    next,
    input  logic           ending,
    input  logic           over,
    input  logic [23:0]    last_known,
    input  logic           timer,
    input  logic [31:0]    timer_first,
    input  logic           forced,
    output clop_found_t    found,

    /*
     * alternative number: its buffer is returned, or held by an open frame, three cycles later
     */
    input  logic                           other,
    input  logic [$clog2(MAX_BUFFERS)+1:0] other_n,
    output logic                           back,
    output logic                           held,

    /*
     * writes
     */
    input logic                           slot_we,
    input logic [$clog2(MAX_BUFFERS)-1:0] slot_wr_addr,
    input clop_slot_t                     slot_wr,
    input logic                           status_we,
    input logic [$clog2(MAX_BUFFERS)+1:0] status_wr_addr,
    input clop_status_t                   status_wr,
    input logic                           board_we,
    input logic [$clog2(MAX_BUFFERS)+1:0] board_wr_addr,
    input clop_board_t                    board_wr,

    /*
     * clop_close reads a board's part
     */
    input  logic [$clog2(MAX_BUFFERS)+1:0] board_read_index,
    output clop_part_t                     board_read
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);
  localparam int unsigned StatusW = IndexW + 2;  // overrun status is kept for 4 N numbers
  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;
  localparam logic [24:0] FrameWindow = 25'd1024;

  // ------------------------------------------------------------------ memories

  logic [IndexW-1:0] slot_addr;
  logic [StatusW-1:0] status_addr;
  logic [IndexW+1:0] board_addr;
  clop_slot_t slot_rd;
  clop_status_t status_rd;
  logic [31:0] return_rd;
  clop_board_t board_rd;

  // Returned number: the slot's value minus one, compared directly after the read.
  logic return_valid_q;
  logic [IndexW-1:0] return_index_q;
  logic [31:0] returned_q;
  always_ff @(posedge clk) begin
    return_valid_q <= return_valid;
    return_index_q <= return_index;
    returned_q     <= return_value - 1'b1;
  end

  assign status_addr = other ? other_n : StatusW'(n);
  assign slot_addr   = IndexW'(status_addr) & index_mask;
  assign board_addr  = {IndexW'(n) & index_mask, board};

  ram_bypass #(
      .WIDTH($bits(clop_slot_t)),
      .DEPTH(MAX_BUFFERS),
      .LATE (1'b1)
  ) slots (
      .clk,
      .wr_en  (slot_we),
      .wr_addr(slot_wr_addr),
      .wr_data(slot_wr),
      .rd_addr(slot_addr),
      .rd_data(slot_rd)
  );
  ram_bypass #(
      .WIDTH($bits(clop_status_t)),
      .DEPTH(2 ** StatusW),
      .LATE (1'b1)
  ) statuses (
      .clk,
      .wr_en  (status_we),
      .wr_addr(status_wr_addr),
      .wr_data(status_wr),
      .rd_addr(status_addr),
      .rd_data(status_rd)
  );
  ram_bypass #(
      .WIDTH(32),
      .DEPTH(MAX_BUFFERS),
      .LATE (1'b1)
  ) returned (
      .clk,
      .wr_en  (return_valid_q),
      .wr_addr(return_index_q),
      .wr_data(returned_q),
      .rd_addr(slot_addr),
      .rd_data(return_rd)
  );
  // Two copies: one is read here; clop_close reads the other for the frame header.
  ram_bypass #(
      .WIDTH($bits(clop_board_t)),
      .DEPTH(4 * MAX_BUFFERS),
      .LATE (1'b1)
  ) boards (
      .clk,
      .wr_en  (board_we),
      .wr_addr(board_wr_addr),
      .wr_data(board_wr),
      .rd_addr(board_addr),
      .rd_data(board_rd)
  );
  // Split in two: tools would divide a 25-bit memory into banks and add a multiplexer behind them.
  ram_bypass #(
      .WIDTH($bits(board_wr.units)),
      .DEPTH(4 * MAX_BUFFERS)
  ) units_to_close (
      .clk,
      .wr_en  (board_we),
      .wr_addr(board_wr_addr),
      .wr_data(board_wr.units),
      .rd_addr(board_read_index),
      .rd_data(board_read.units)
  );
  ram_bypass #(
      .WIDTH($bits(board_wr.packets) + $bits(board_wr.flags)),
      .DEPTH(4 * MAX_BUFFERS)
  ) packets_to_close (
      .clk,
      .wr_en  (board_we),
      .wr_addr(board_wr_addr),
      .wr_data({board_wr.packets, board_wr.flags}),
      .rd_addr(board_read_index),
      .rd_data({board_read.packets, board_read.flags})
  );

  // ------------------------------------------------------------------ capture

  logic [24:0] frame, next_q, limit_q, passed_q;
  logic [12:0] units_q, segment_units_q;  // in units of 16 B: packet size, segment size
  logic [13:0] units_left_q;              // space left after the packet if it were the first in its segment
  logic ending_q, known_q, below_q, forgotten_q, at_next_q, gap_q;
  logic last_q, alone_q, fits_alone_q;  // last packet of its board; only packet; only packet and fits
  logic [31:0] time_q;  // stamp of the frame's first packet, or the timer's
  clop_slot_t slot_q;
  clop_board_t board_q;
  logic same, first_same, tag_same;
  logic [7:0] same_q, first_same_q;  // equality of 4-bit groups of the number and of the time
  logic [3:0] tag_same_q, own_done_q, done_q, index_in_q;  // equality of 4-bit groups of the indices
  logic overrun_q, present_q;
  logic [15:0] index_bit_q, before_q, own_missing, missing_indices;

  assign frame = {1'b0, request.header.frame};
  // Missing indices up to the last packet; the last packet is this one or an earlier one.
  assign own_missing     = before_q & ~board_rd.indices;
  assign missing_indices = board_rd.indices & ~index_bit_q;

  function automatic logic [15:0] those_before(input logic [3:0] index);
    for (int unsigned i = 0; i < 16; i++) those_before[i] = 4'(i) < index;
  endfunction

  // The buffer is returned and the sender has passed its number. 32 bits suffice, as the two are close.
  logic [31:0] sender_last_q, passed_by;
  logic slot_used_q, slot_open_q;
  logic [7:0] returned_same_q;
  always_ff @(posedge clk) begin
    sender_last_q   <= sender_next - 1'b1;
    returned_same_q <= nibbles_equal(return_rd, slot_rd.n);
    slot_used_q     <= slot_rd.used;
    slot_open_q     <= slot_rd.open;
  end
  assign passed_by = sender_last_q - slot_q.n;
  assign held = slot_used_q && slot_open_q;
  assign back = !slot_used_q || (returned_same_q == '1 && !slot_open_q && !passed_by[31]);

  always_ff @(posedge clk) begin
    segment_units_q <= segment_bytes[16] ? 13'd4095 : segment_bytes[16:4];  // `units` has 12 bits
    // read
    next_q      <= next;
    ending_q    <= ending;
    limit_q     <= {1'b0, last_known} + FrameWindow;
    index_bit_q <= 16'd1 << request.header.index;
    before_q    <= those_before(request.header.index);
    last_q      <= (request.header.flags & MgpLast) != 0;
    alone_q     <= (request.header.flags & MgpLast) != 0 && request.header.index == 0;
    units_q     <= 13'((17'(request.header.length) + 17'd15) >> 4);
    time_q      <= timer ? timer_first : request.stamp;
    // wait
    below_q      <= frame < next_q;  // otherwise the number may belong to a frame of another burst
    known_q      <= frame < next_q || ending_q;
    at_next_q    <= frame == next_q;
    passed_q     <= next_q + ~frame;  // frames between this one and `next`
    gap_q        <= frame > limit_q;
    fits_alone_q <= units_q <= segment_units_q;
    units_left_q <= {1'b0, segment_units_q} - {1'b0, units_q};
    // capture: read data
    forgotten_q  <= passed_q[24:StatusW] != '0;
    slot_q       <= slot_rd;
    board_q      <= board_rd;
    same_q       <= nibbles_equal(slot_rd.n, n);
    first_same_q <= nibbles_equal(slot_rd.first, time_q);
    overrun_q    <= status_rd.overrun;
    tag_same_q   <= 4'(nibbles_equal(32'(status_rd.tag), 32'(n[StatusW+:15])));
    present_q    <= slot_rd.present[board];
    for (int i = 0; i < 4; i++) begin
      own_done_q[i] <= own_missing[4*i+:4] == 0;
      done_q[i]     <= missing_indices[4*i+:4] == 0;
      index_in_q[i] <= (board_rd.indices[4*i+:4] & index_bit_q[4*i+:4]) != 0;
    end
  end

  // ------------------------------------------------------------------ addresses, parallel to the steps

  // The product and operand registers map to DSP registers.
  logic [IndexW-1:0] buffer_q;
  logic [17:0] units_of_one_q;
  logic [33:0] product_q;
  logic [DeviceW-1:0] device_q;
  logic [19:0] segment_offset_q;
  logic [63:0] base_q, segment_vaddr_q, part_vaddr_q;  // segment in buffer 0; segment; end of its part

  always_ff @(posedge clk) begin
    // read
    buffer_q         <= DEVICES > 1 ? (IndexW'(n) & index_mask) >> log2_devices :
                                      IndexW'(n) & index_mask;
    units_of_one_q   <= buffer_units;
    device_q         <= DEVICES > 1 ? DeviceW'(n) & DeviceW'((32'd1 << log2_devices) - 32'd1) : '0;
    segment_offset_q <= 20'(segment_offset(board)) + 20'd64;
    // wait, capture, compare
    product_q        <= 34'(buffer_q) * 34'(units_of_one_q);
    base_q           <= base_vaddr[device_q] + 64'(segment_offset_q);
    segment_vaddr_q  <= base_q + {24'd0, product_q, 6'd0};
    part_vaddr_q     <= segment_vaddr_q + {48'd0, board_q.units, 4'd0};
  end

  function automatic logic [18:0] segment_offset(input logic [1:0] which);
    return (which[0] ? 19'(segment_bytes) : 19'd0) + (which[1] ? {1'b0, segment_bytes, 1'b0} : 19'd0);
  endfunction

  // ------------------------------------------------------------------ compare

  logic [3:0] board_bit;
  logic here_q;
  logic here, open_frame, board_is_done, index_present, contradicts, fits_after, overrun_frame;

  assign board_bit     = 4'd1 << board;
  assign same          = slot_q.used && same_q == '1;
  assign first_same    = first_same_q == '1;
  assign tag_same      = tag_same_q == '1;
  assign overrun_frame = below_q && !forgotten_q && overrun_q && tag_same;
  assign open_frame    = below_q && same && slot_q.open;
  assign here          = same && present_q;
  assign board_is_done = !here ? alone_q : last_q ? own_done_q == '1 : board_q.has_last && done_q == '1;
  assign index_present = (index_in_q != 0) != board_q.has_last;
  assign contradicts   = board_q.has_last && (request.header.index > board_q.last ||
                                              (last_q && request.header.index != board_q.last));
  assign fits_after    = !units_left_q[13] && 13'(board_q.units) <= units_left_q[12:0];

  always_ff @(posedge clk) begin
    found.known          <= known_q;
    found.at_next        <= at_next_q;
    found.gap            <= gap_q;
    found.is_new         <= !known_q && !gap_q && !over;
    found.available      <= back;
    found.slot           <= slot_q;
    found.open_frame     <= open_frame;
    here_q               <= here;
    found.late           <= over || (known_q && !overrun_frame && !open_frame);
    found.duplicate      <= open_frame && here && (index_present || contradicts);
    found.fits           <= here ? fits_after : fits_alone_q;
    found.fits_alone     <= fits_alone_q;
    found.due            <= timer && same && slot_q.open && (first_same || forced);
    found.retimed        <= !slot_q.seen && !first_same && !window;
    found.present        <= slot_q.present | board_bit;
    found.complete       <= slot_q.complete | (board_is_done ? board_bit : 4'd0);
    found.closes         <= board_is_done && (slot_q.complete | board_bit) == expected;
    found.done_alone     <= alone_q;
    found.closes_alone   <= alone_q && board_bit == expected;
    found.board.has_last <= board_q.has_last || last_q;
    found.board.last     <= last_q ? request.header.index : board_q.last;
    found.board.indices  <= last_q ? before_q & ~board_q.indices :
                            board_q.has_last ? board_q.indices & ~index_bit_q :
                            board_q.indices | index_bit_q;
    found.board.units    <= board_q.units + units_q[11:0];
    found.board.packets  <= board_q.packets + 1'b1;
    found.board.flags    <= board_q.flags | request.header.flags;
    found.first.has_last <= last_q;
    found.first.last     <= request.header.index;
    found.first.indices  <= last_q ? before_q : index_bit_q;
    found.first.units    <= units_q[11:0];
    found.first.packets  <= 5'd1;
    found.first.flags    <= request.header.flags;
  end

  assign found.here  = here_q;
  assign found.vaddr = here_q ? part_vaddr_q : segment_vaddr_q;

  logic unused;
  assign unused = &{1'b0, request, passed_by[30:0], passed_q};

endmodule
