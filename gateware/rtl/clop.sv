// SPDX-License-Identifier: SHL-2.1
// Circular list of persistent buffers of one stream, gather mode `frame`: decides where each packet goes and
// whether it is of use, opens and closes frames, tells the sender what is owed and the consumer what is done
// (docs/formats.md, Memory contract). One request is worked on at a time, seven cycles for an open frame.
module clop
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Channels that place packets.
    parameter int unsigned CHANNELS = 2,
    // Largest number of buffers N; a power of two. Memory grows with it.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Number of the first burst's frame 0.
    parameter logic [63:0] FIRST_N = 0
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while enabled; enabling forgets everything
     */
    input logic        enable,
    input logic [4:0]  log2_buffers,
    input logic [63:0] base_vaddr,
    input logic [17:0] buffer_units,    // bytes of a buffer / 64
    input logic [16:0] segment_bytes,   // a multiple of 16
    input logic [3:0]  expected,        // boards; 1 for a merged stream
    input logic [31:0] timeout_cycles,
    input logic [15:0] grace_cycles,    // longest way of a packet from the MAC to here
    input logic [63:0] now,

    /*
     * requests of the channels
     */
    input  logic           [CHANNELS-1:0] place_valid,
    output logic           [CHANNELS-1:0] place_ready,
    input  place_request_t [CHANNELS-1:0] place,
    output logic           [CHANNELS-1:0] placed_valid,
    output logic                          placed_accept,
    output logic           [63:0]         placed_vaddr,

    /*
     * return slots: the consumer's writes of n + 1
     */
    input logic                           return_valid,
    input logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input logic [31:0]                    return_value,

    /*
     * the sender
     */
    output logic        owed_valid,
    input  logic        owed_ready,
    output owed_t       owed,
    input  logic [63:0] sender_next,

    /*
     * the firmware
     */
    output logic     rare_valid,
    input  logic     rare_ready,
    output rare_t    rare,
    input  logic     command_valid,
    output logic     command_ready,
    input  command_t command,

    /*
     * closed frames and other news, in order, to clop_close
     */
    output logic                           news_valid,
    input  logic                           news_ready,
    output clop_news_t                     news,
    output logic [CHANNELS-1:0][7:0]       news_ticket,  // packets that have to be written before
    input  logic [$clog2(MAX_BUFFERS)+1:0] board_read_index,
    output clop_board_t                    board_read,

    /*
     * the event queue
     */
    output logic        promise,
    input  logic [15:0] room,
    input  logic        half_free,

    /*
     * counters: pulses, and sequence numbers that are missing by board
     */
    output logic             counted,
    output placed_e          counted_as,
    output logic [15:0]      counted_hits,
    output logic [7:0]       counted_events,
    output logic             skipped_valid,  // frames that are owed by nobody
    output logic [24:0]      skipped,
    output logic [63:0]      last_packet,    // card clock, newest packet of the burst
    output logic             frame_owed,
    output logic             frame_overrun,
    output logic [3:0][31:0] missing
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);
  localparam int unsigned StatusW = IndexW + 2;  // numbers whose overrun is remembered: 4 N
  localparam int unsigned ChannelW = CHANNELS > 1 ? $clog2(CHANNELS) : 1;
  localparam logic [24:0] FrameWindow = 25'd1024;
  localparam logic signed [32:0] SequenceWindow = 33'sd4096;

  if (MAX_BUFFERS < 64 || 2 ** IndexW != MAX_BUFFERS || MAX_BUFFERS > 65536) begin : gen_check_buffers
    $fatal(1, "MAX_BUFFERS must be a power of two, 64 to 65536 (%m)");
  end
  if (CHANNELS < 1 || CHANNELS > 8) begin : gen_check_channels
    $fatal(1, "CHANNELS must be 1 to 8 (%m)");
  end

  // ------------------------------------------------------------------ memories

  typedef struct packed {
    logic        used;     // was handed out at least once
    logic        open;
    logic        seen;     // a packet has come
    logic [3:0]  there;    // boards of which something is in
    logic [3:0]  complete;
    logic [31:0] n;
    logic [23:0] frame;
    logic [31:0] first;    // stamp of the first packet, or of the packet that made the frame owed
  } slot_t;

  typedef struct packed {
    logic        overrun;
    logic [15:0] tag;      // of n, above the index
  } status_t;

  typedef struct packed {
    logic [31:0] n;
    logic [31:0] first;
  } timer_t;

  logic [IndexW-1:0] slot_addr, slot_wr_addr;
  logic [StatusW-1:0] status_addr;
  logic [IndexW+1:0] board_addr;
  logic [8:0] seen_addr, seen_wr_addr;
  slot_t slot_rd, slot_rd_q, slot_wr;
  status_t status_rd, status_rd_q, status_wr;
  logic [31:0] return_rd, return_rd_q;
  clop_board_t board_rd, board_rd_q, board_wr;
  logic [63:0] seen_rd, seen_rd_q, seen_wr;
  logic slot_we, status_we, board_we, seen_we;
  logic [StatusW-1:0] status_wr_addr;

  ram_1r1w #(
      .WIDTH($bits(slot_t)),
      .DEPTH(MAX_BUFFERS)
  ) slots (
      .clk,
      .wr_en  (slot_we),
      .wr_addr(slot_wr_addr),
      .wr_data(slot_wr),
      .rd_addr(slot_addr),
      .rd_data(slot_rd)
  );
  ram_1r1w #(
      .WIDTH($bits(status_t)),
      .DEPTH(2 ** StatusW)
  ) statuses (
      .clk,
      .wr_en  (status_we),
      .wr_addr(status_wr_addr),
      .wr_data(status_wr),
      .rd_addr(status_addr),
      .rd_data(status_rd)
  );
  ram_1r1w #(
      .WIDTH(32),
      .DEPTH(MAX_BUFFERS)
  ) returned (
      .clk,
      .wr_en  (return_valid),
      .wr_addr(return_index),
      .wr_data(return_value),
      .rd_addr(slot_addr),
      .rd_data(return_rd)
  );
  // The same twice: one copy is read here, the other by clop_close.
  ram_1r1w #(
      .WIDTH($bits(clop_board_t)),
      .DEPTH(4 * MAX_BUFFERS)
  ) boards (
      .clk,
      .wr_en  (board_we),
      .wr_addr(board_addr),
      .wr_data(board_wr),
      .rd_addr(board_addr),
      .rd_data(board_rd)
  );
  ram_1r1w #(
      .WIDTH($bits(clop_board_t)),
      .DEPTH(4 * MAX_BUFFERS)
  ) boards_to_close (
      .clk,
      .wr_en  (board_we),
      .wr_addr(board_addr),
      .wr_data(board_wr),
      .rd_addr(board_read_index),
      .rd_data(board_read)
  );
  // Sequence numbers: 128 words of 64 for each board.
  ram_1r1w #(
      .WIDTH(64),
      .DEPTH(512)
  ) seen (
      .clk,
      .wr_en  (seen_we),
      .wr_addr(seen_wr_addr),
      .wr_data(seen_wr),
      .rd_addr(seen_addr),
      .rd_data(seen_rd)
  );

  // Block RAM answers late in the cycle: what it says is registered before anything is made of it.
  always_ff @(posedge clk) begin
    slot_rd_q   <= slot_rd;
    status_rd_q <= status_rd;
    return_rd_q <= return_rd;
    board_rd_q  <= board_rd;
    seen_rd_q   <= seen_rd;
  end

  // ------------------------------------------------------------------ who is next

  typedef enum logic [4:0] {
    StateInit,
    StateIdle,
    StateRead,
    StateWait,
    StateJudge,
    StateWeigh,
    StateDecide,
    StateOpenRead,
    StateOpenWait,
    StateOpenJudge,
    StateOpen,
    StatePlace,
    StateExpireRead,
    StateExpireWait,
    StateExpireJudge,
    StateExpire,
    StateForget
  } state_e;

  state_e state_q;
  logic [ChannelW-1:0] turn_q, pick;
  logic [CHANNELS-1:0] may_ask;
  logic [CHANNELS-1:0] holds_q;  // has looked and not yet committed
  logic [CHANNELS-1:0][1:0] holds_board_q;
  logic picked;

  always_comb begin
    for (int c = 0; c < int'(CHANNELS); c++) begin
      may_ask[c] = place_valid[c];
      // A place that another channel was given is not given again before that packet has ended.
      for (int o = 0; o < int'(CHANNELS); o++)
        if (o != c && holds_q[o] && !holds_q[c] && holds_board_q[o] == place[c].header.board[1:0])
          may_ask[c] = 1'b0;
    end
    pick   = '0;
    picked = may_ask != 0;
    for (int c = int'(CHANNELS) - 1; c >= 0; c--) if (may_ask[c]) pick = ChannelW'(c);
    for (int c = int'(CHANNELS) - 1; c >= 0; c--)
      if (may_ask[c] && ChannelW'(c) > turn_q) pick = ChannelW'(c);
  end

  // ------------------------------------------------------------------ the burst and its boards

  logic burst_q, ending_q, over_q;
  logic [7:0] burst_number_q;
  logic [63:0] base_q;
  logic [24:0] next_q;  // frames below are known
  logic [15:0] open_q;  // frames that are open
  logic flush_q;

  typedef struct packed {
    logic        started;
    logic [31:0] newest;  // sequence number
    logic        has_frame;
    logic [23:0] frame;   // newest
    logic [31:0] span;    // sequence numbers from the first one seen to the newest
    logic [31:0] received;
  } progress_t;
  progress_t [3:0] progress_q;

  always_ff @(posedge clk)
    for (int b = 0; b < 4; b++) missing[b] <= progress_q[b].span - progress_q[b].received;

  // ------------------------------------------------------------------ what is known of the request

  place_request_t op_q;
  logic [ChannelW-1:0] op_channel_q;
  logic [1:0] op_board;
  logic [63:0] op_n, n_q;
  logic [IndexW-1:0] index_mask, index_mask_q;
  logic [24:0] frame;
  progress_t progress_sel_q;
  logic signed [32:0] ahead_q;
  logic signed [25:0] frame_ahead_q;
  logic known_q, forgotten_q, rare_header_q;
  logic [12:0] units;  // of 16 B that the packet takes
  logic [63:0] segment_vaddr_q;
  logic [33:0] product_q;
  logic [19:0] segment_offset_q;
  logic [23:0] last_known_q;  // the newest frame that is known, 0 if none

  assign op_board   = op_q.header.board[1:0];  // 0xFF, one merged stream, lies in segment 0, see below
  assign frame      = {1'b0, op_q.header.frame};
  assign op_n       = base_q + 64'(frame);
  assign index_mask = index_mask_q;
  always_ff @(posedge clk) index_mask_q <= IndexW'((32'd1 << log2_buffers) - 32'd1);
  assign units      = 13'((17'(op_q.header.length) + 17'd15) >> 4);

  logic [1:0] segment;
  assign segment = op_q.header.board == 8'hFF ? 2'd0 : op_board;

  // Opening and expiring go through numbers of their own.
  logic [24:0] open_frame_q, open_last_q;
  logic [63:0] open_n;  // of open_frame_q
  logic open_for_packet_q;
  timer_t timer, timer_in;
  logic timer_valid, timer_ready, timer_push, timer_room;
  logic [IndexW+1:0] unused_timer_level;

  fifo #(
      .WIDTH($bits(timer_t)),
      .DEPTH(2 * MAX_BUFFERS)
  ) timers (
      .clk,
      .rst      (rst || !enable),
      .in_valid (timer_push),
      .in_ready (timer_room),
      .in_data  (timer_in),
      .out_valid(timer_valid),
      .out_ready(timer_ready),
      .out_data (timer),
      .level    (unused_timer_level)
  );

  logic expired_q;
  logic [31:0] age;
  assign age = now[31:0] - timer.first;
  always_ff @(posedge clk)
    expired_q <= timer_valid && !timer_ready &&
                 (flush_q || (!age[31] && age >= timeout_cycles + 32'(grace_cycles)));

  // ------------------------------------------------------------------ judged

  logic j_over_q, j_open_q, j_there_q, j_replayed_q, j_jump_q, j_far_q, j_avail_q, j_fits_q;
  logic op_buffer_ok;
  clop_board_t board_now;  // of this frame, nothing where the board has not been seen yet
  logic same_n;

  assign same_n    = slot_rd_q.used && slot_rd_q.n == n_q[31:0];
  assign board_now = same_n && slot_rd_q.there[segment] ? board_rd_q : '0;
  assign op_buffer_ok = !slot_rd_q.used || (return_rd_q == slot_rd_q.n + 1'b1 && !slot_rd_q.open &&
                                            sender_past(slot_rd_q.n));

  // The sender has passed n: compared in 32 bits, as n and sender_next are near.
  function automatic logic sender_past(input logic [31:0] n);
    logic [31:0] difference;
    difference = sender_next[31:0] - n;
    return !difference[31] && difference != 0;
  endfunction

  // ------------------------------------------------------------------ memory addresses

  // All from registers: an address goes far, and is compared with the one that is written.
  logic [StatusW-1:0] place_low_q;  // low bits of n
  always_comb begin
    status_addr = place_low_q;
    if (state_q == StateOpenRead) status_addr = StatusW'(open_n);
    if (state_q == StateExpireRead) status_addr = StatusW'(timer.n);
    slot_addr  = IndexW'(status_addr) & index_mask_q;
    board_addr = {IndexW'(place_low_q) & index_mask_q, segment};
    seen_addr  = {segment, op_q.header.sequence_number[12:6]};
  end

  // ------------------------------------------------------------------ the machine

  logic [StatusW:0] clear_q;
  logic sweep_q;  // words of sequence numbers that were jumped over are being cleared
  logic [8:0] sweep_at_q;
  logic [6:0] sweep_end_q;
  logic [25:0] words_ahead;
  slot_t slot_q;  // of the frame a packet goes to
  clop_board_t board_q;
  logic seen_accept_q;
  logic [15:0] lower;
  logic board_done, board_done_q;  // board_q and op_q are steady for a cycle before it is asked for
  clop_board_t board_next;
  logic news_push;
  clop_news_t news_in;
  logic owed_pending_q;
  owed_t owed_q;
  logic overrun_pending_q;
  clop_news_t overrun_q;
  logic [31:0] overrun_next_q;  // the number that would continue it
  logic [CHANNELS-1:0][7:0] ticket_q;
  logic rare_pending_q;
  logic news_room;
  logic [4:0] news_level;
  logic open_ok_q;
  logic closes;

  assign skipped     = '0;
  assign last_packet = '0;
  assign owed_valid = owed_pending_q;
  assign owed       = owed_q;
  assign rare_valid = rare_pending_q;

  assign words_ahead = op_q.header.sequence_number[31:6] - progress_sel_q.newest[31:6];

  always_comb begin
    board_next = board_q;
    board_next.indices = board_q.indices | (16'd1 << op_q.header.index);
    board_next.units   = board_q.units + 12'(units);
    board_next.packets = board_q.packets + 1'b1;
    board_next.flags   = board_q.flags | op_q.header.flags;
    if ((op_q.header.flags & MgpLast) != 0) begin
      board_next.has_last = 1'b1;
      board_next.last     = op_q.header.index;
    end
    lower = (16'd2 << board_next.last) - 16'd1;
    board_done = board_next.has_last && (board_next.indices & lower) == lower;
  end

  fifo #(
      .WIDTH($bits(clop_news_t) + 8 * CHANNELS),
      .DEPTH(16)
  ) news_fifo (
      .clk,
      .rst      (rst || !enable),
      .in_valid (news_push),
      .in_ready (news_room),
      .in_data  ({ticket_q, news_in}),
      .out_valid(news_valid),
      .out_ready(news_ready),
      .out_data ({news_ticket, news}),
      .level    (news_level)
  );

  // What an idle machine takes up, in this order.
  logic idle_ok, take_overrun, take_end, take_command, take_expired, take_place;
  assign idle_ok      = state_q == StateIdle && news_level < 5'd8 && timer_room && !owed_pending_q &&
                        !sweep_q;
  assign take_overrun = idle_ok && overrun_pending_q && half_free && room != 0;
  assign take_end     = idle_ok && !take_overrun && burst_q && ending_q && !over_q && open_q == 0;
  assign take_command = idle_ok && !take_overrun && !take_end && command_valid;
  assign take_expired = idle_ok && !take_overrun && !take_end && !command_valid && expired_q;
  assign take_place   = idle_ok && !take_overrun && !take_end && !command_valid && !expired_q && picked;
  assign command_ready = take_command;
  assign timer_ready   = state_q == StateExpire;
  always_comb begin
    place_ready = '0;
    place_ready[pick] = take_place;
  end
  assign closes = board_done_q && (slot_q.complete | 4'd1 << segment) == expected;

  // A packet's place is decided: the last step of a request.
  logic unused;
  assign unused = &{1'b0, command, news_room, sender_next, unused_timer_level};
  task automatic finish(input placed_e what, input logic accept);
    placed_valid[op_channel_q] <= 1'b1;
    placed_accept              <= accept;
    counted                    <= op_q.sound;
    counted_as                 <= what;
    holds_q[op_channel_q]      <= 1'b0;
  endtask

  always_ff @(posedge clk) begin
    placed_valid   <= '0;
    counted        <= 1'b0;
    counted_hits   <= op_q.hits;
    counted_events <= op_q.header.events;
    skipped_valid  <= 1'b0;
    frame_owed     <= 1'b0;
    frame_overrun  <= 1'b0;
    promise        <= 1'b0;
    slot_we        <= 1'b0;
    status_we      <= 1'b0;
    board_we       <= 1'b0;
    seen_we        <= 1'b0;
    news_push      <= 1'b0;
    timer_push     <= 1'b0;
    last_known_q   <= 24'(next_q - 25'(next_q != 0));
    board_done_q   <= board_done;
    if (owed_ready) owed_pending_q <= 1'b0;
    if (rare_ready) rare_pending_q <= 1'b0;

    unique case (state_q)
      StateInit: begin  // forget everything
        slot_we        <= 1'b1;
        slot_wr_addr   <= IndexW'(clear_q);
        slot_wr        <= '0;
        status_we      <= 1'b1;
        status_wr_addr <= StatusW'(clear_q);
        status_wr      <= '1;
        seen_we        <= 1'b1;
        seen_wr_addr   <= 9'(clear_q);
        seen_wr        <= '0;
        clear_q        <= clear_q + 1'b1;
        if (clear_q[StatusW]) state_q <= StateIdle;
      end
      StateIdle: begin
        if (take_overrun) begin
          news_push         <= 1'b1;
          news_in           <= overrun_q;
          overrun_pending_q <= 1'b0;
        end else if (take_end) begin
          over_q    <= 1'b1;
          news_push <= 1'b1;
          news_in   <= '{kind: KindBurstEnds, index: '0, n: base_q + 64'(next_q) - 64'(next_q != 0),
                         frame: 24'(next_q - 25'(next_q != 0)), count: '0, timed_out: 1'b0, complete: '0,
                         there: '0, default: '0};
        end else if (take_command) begin
          unique case (command.op)
            CommandBurst: begin
              burst_q        <= 1'b1;
              ending_q       <= 1'b0;
              over_q         <= 1'b0;
              burst_number_q <= command.frame[7:0];
              base_q         <= burst_q ? base_q + 64'(next_q) : FIRST_N;
              next_q         <= '0;
              progress_q     <= '0;
              clear_q        <= '0;
              state_q        <= StateForget;
              news_push      <= 1'b1;
              news_in        <= '{kind: KindBurstBegins, frame: command.frame,
                                  n: burst_q ? base_q + 64'(next_q) : FIRST_N, default: '0};
            end
            CommandLast: begin
              ending_q          <= 1'b1;
              open_frame_q      <= next_q;
              open_n            <= base_q + 64'(next_q);
              open_last_q       <= {1'b0, command.frame};
              open_for_packet_q <= 1'b0;
              op_q.stamp        <= now[31:0];
              if (command.flag && {1'b0, command.frame} >= next_q) state_q <= StateOpenRead;
            end
            CommandClose: flush_q <= 1'b1;
            default: ;
          endcase
        end else if (take_expired) begin
          state_q <= StateExpireRead;
        end else if (take_place) begin
          op_q         <= place[pick];
          place_low_q  <= StatusW'(base_q) + StatusW'(place[pick].header.frame);
          op_channel_q <= pick;
          turn_q       <= pick;
          state_q      <= StateRead;
        end
        if (flush_q && !timer_valid) flush_q <= 1'b0;
      end

      StateRead: begin
        n_q            <= op_n;
        known_q        <= frame < next_q || ending_q;
        forgotten_q    <= frame >= next_q || next_q - frame > 25'd1 << StatusW;
        rare_header_q  <= (op_q.header.flags & (MgpSob | MgpEob)) != 0 || !burst_q ||
                          op_q.header.burst != burst_number_q;
        progress_sel_q <= progress_q[segment];
        ahead_q        <= signed'({1'b0, op_q.header.sequence_number}) -
                          signed'({1'b0, progress_q[segment].newest});
        frame_ahead_q  <= signed'({1'b0, frame}) -
                          signed'({2'b0, progress_q[segment].has_frame ? progress_q[segment].frame :
                                   last_known_q});
        state_q        <= StateWait;
      end
      StateWait: begin
        product_q        <= 34'(IndexW'(n_q) & index_mask) * 34'(buffer_units);
        segment_offset_q <= 20'(segment_offset(segment)) + 20'd64;
        state_q          <= StateJudge;
      end
      StateJudge: begin
        j_over_q     <= known_q && !forgotten_q && status_rd_q.overrun &&
                        status_rd_q.tag == n_q[StatusW+:16];
        j_open_q     <= known_q && same_n && slot_rd_q.open;
        j_replayed_q <= progress_sel_q.started && ahead_q <= 0 &&
                        (ahead_q <= -SequenceWindow || seen_rd_q[op_q.header.sequence_number[5:0]]);
        j_jump_q     <= progress_sel_q.started && ahead_q > SequenceWindow;
        j_far_q      <= frame_ahead_q > signed'({1'b0, FrameWindow});
        j_avail_q    <= op_buffer_ok;
        slot_q       <= slot_rd_q;
        board_q      <= board_now;
        segment_vaddr_q <= base_vaddr + {24'd0, product_q, 6'd0};
        seen_wr      <= seen_rd_q;
        state_q      <= StateWeigh;
      end
      StateWeigh: begin
        j_there_q <= board_q.indices[op_q.header.index] ||
                     (board_q.has_last &&
                      (op_q.header.index > board_q.last ||
                       ((op_q.header.flags & MgpLast) != 0 && op_q.header.index != board_q.last)));
        j_fits_q  <= 18'({board_q.units, 4'd0}) + 18'({units, 4'd0}) <= 18'(segment_bytes) &&
                     14'(board_q.units) + 14'(units) <= 14'd4095;
        segment_vaddr_q <= segment_vaddr_q + 64'(segment_offset_q);
        state_q   <= StateDecide;
      end
      StateDecide: begin
        placed_vaddr <= segment_vaddr_q + 64'({board_q.units, 4'd0});
        seen_accept_q <= 1'b0;
        state_q       <= StateIdle;
        if (op_q.kind == PlaceLook) begin
          placed_valid[op_channel_q]  <= 1'b1;
          placed_accept               <= !rare_header_q && !j_replayed_q && !j_jump_q && !j_far_q &&
                                         j_fits_q && (known_q ? j_open_q && !j_there_q :
                                                      j_avail_q && room >= 16'd4);
          holds_q[op_channel_q]       <= 1'b1;
          holds_board_q[op_channel_q] <= op_board;
        end else if (!op_q.sound) begin
          finish(PlacedUsed, 1'b0);
          ticket_q[op_channel_q] <= op_q.serial + 1'b1;
        end else begin
          ticket_q[op_channel_q] <= op_q.serial + 1'b1;
          if (rare_header_q) begin
            finish(PlacedMarker, 1'b0);
            rare_pending_q <= 1'b1;
            if (!rare_pending_q || rare_ready) rare <= '{stamp: op_q.stamp, header: op_q.header, default: '0};
          end else if (known_q && !j_over_q && !j_open_q) begin
            finish(PlacedLate, 1'b0);
            seen_accept_q <= 1'b1;
          end else if (known_q && j_open_q && j_there_q) begin
            finish(PlacedDuplicate, 1'b0);
            seen_accept_q <= 1'b1;
          end else if (j_replayed_q) begin
            finish(PlacedReplayed, 1'b0);
          end else if (j_jump_q || j_far_q) begin
            finish(PlacedMarker, 1'b0);
            rare_pending_q <= 1'b1;
            if (!rare_pending_q || rare_ready) rare <= '{stamp: op_q.stamp, header: op_q.header, default: '0};
          end else begin
            seen_accept_q <= 1'b1;
            progress_q[segment].has_frame <= 1'b1;
            if (!progress_sel_q.has_frame || op_q.header.frame > progress_sel_q.frame)
              progress_q[segment].frame <= op_q.header.frame;
            if (!known_q) begin
              open_frame_q      <= next_q;
              open_n            <= base_q + 64'(next_q);
              open_last_q       <= frame;
              open_for_packet_q <= 1'b1;
              open_ok_q         <= j_avail_q && room >= 16'd4;  // known already where no other comes first
              state_q           <= StateOpenRead;
              if (frame == next_q && timer_room && news_level < 5'd12) state_q <= StateOpen;
            end else begin
              open_ok_q <= j_open_q;
              state_q   <= StatePlace;
            end
          end
        end
      end
      StatePlace: begin
        state_q <= StateIdle;
        if (!open_ok_q) begin
          finish(PlacedOverrun, 1'b0);
        end else if (!j_fits_q) begin
          finish(PlacedOverflow, 1'b0);
        end else if (op_q.kind == PlaceCommit && !op_q.placed) begin
          finish(PlacedOverrun, 1'b0);  // there was no buffer when it came by
        end else begin
          finish(PlacedUsed, 1'b1);
          board_we     <= 1'b1;
          board_wr     <= board_next;
          slot_we      <= 1'b1;
          slot_wr_addr <= IndexW'(n_q) & index_mask;
          slot_wr      <= slot_q;
          slot_wr.seen <= 1'b1;
          slot_wr.there[segment] <= 1'b1;
          if (!slot_q.seen && slot_q.first != op_q.stamp) begin
            slot_wr.first <= op_q.stamp;  // it was owed before: its time begins with its own first packet
            timer_push    <= 1'b1;
            timer_in      <= '{n: n_q[31:0], first: op_q.stamp};
          end
          if (board_done_q) slot_wr.complete[segment] <= 1'b1;
          if (closes) begin
            slot_wr.open <= 1'b0;
            open_q       <= open_q - 1'b1;
            news_push    <= 1'b1;
            news_in      <= '{kind: KindReceiveDone, index: 16'(IndexW'(n_q) & index_mask), n: n_q,
                              frame: op_q.header.frame, count: '0, timed_out: 1'b0, complete: expected,
                              there: slot_q.there | 4'd1 << segment, start: op_q.stamp,
                              channel: 3'(op_channel_q)};
          end
        end
      end

      StateOpenRead: if (timer_room && news_level < 5'd12) state_q <= StateOpenWait;
      StateOpenWait: state_q <= StateOpenJudge;
      StateOpenJudge: begin
        open_ok_q <= op_buffer_ok && room >= 16'd4;
        state_q   <= StateOpen;
      end
      StateOpen: begin
        if (!owed_pending_q || owed_ready) begin
          frame_owed     <= 1'b1;
          frame_overrun  <= !open_ok_q;
          next_q         <= open_frame_q + 1'b1;
          status_we      <= 1'b1;
          status_wr_addr <= StatusW'(open_n);
          status_wr      <= '{overrun: !open_ok_q, tag: open_n[StatusW+:16]};
          owed_pending_q <= 1'b1;
          owed_q         <= '{overrun: !open_ok_q, count: 32'd1, frame: 32'(open_frame_q), n: open_n,
                              stamp: {now[63:32] - 32'(now[31:0] < op_q.stamp), op_q.stamp}};
          if (open_ok_q) begin
            promise      <= 1'b1;
            open_q       <= open_q + 1'b1;
            slot_we      <= 1'b1;
            slot_wr_addr <= IndexW'(open_n) & index_mask;
            slot_wr      <= '{used: 1'b1, open: 1'b1, seen: 1'b0, there: '0, complete: '0, n: open_n[31:0],
                              frame: 24'(open_frame_q), first: op_q.stamp};
            slot_q       <= '{used: 1'b1, open: 1'b1, seen: 1'b0, there: '0, complete: '0, n: open_n[31:0],
                              frame: 24'(open_frame_q), first: op_q.stamp};
            timer_push   <= 1'b1;
            timer_in     <= '{n: open_n[31:0], first: op_q.stamp};
          end else begin
            // Consecutive ones become one entry while the queue is short of room.
            overrun_pending_q <= 1'b1;
            overrun_next_q    <= open_n[31:0] + 1'b1;
            if (overrun_pending_q && overrun_next_q == open_n[31:0]) begin
              overrun_q.count <= overrun_q.count + 1'b1;
            end else begin
              overrun_q <= '{kind: KindError, index: '0, n: open_n, frame: 24'(open_frame_q), count: 32'd1,
                             timed_out: 1'b0, complete: '0, there: '0, default: '0};
              news_push <= overrun_pending_q && room != 0;
              news_in   <= overrun_q;
            end
          end
          if (open_frame_q == open_last_q) begin
            board_q  <= '0;
            state_q  <= open_for_packet_q ? StatePlace : StateIdle;
          end else begin
            open_frame_q <= open_frame_q + 1'b1;
            open_n       <= open_n + 1'b1;
            state_q      <= StateOpenRead;
          end
        end
      end

      StateExpireRead: begin
        n_q[31:0] <= timer.n;
        state_q   <= StateExpireWait;
      end
      StateExpireWait: state_q <= StateExpireJudge;
      StateExpireJudge: begin
        slot_q    <= slot_rd_q;
        open_ok_q <= same_n && slot_rd_q.open && (slot_rd_q.first == timer.first || flush_q);
        state_q   <= StateExpire;
      end
      StateExpire: begin
        state_q <= StateIdle;
        if (open_ok_q) begin
          slot_we      <= 1'b1;
          slot_wr_addr <= IndexW'(n_q) & index_mask;
          slot_wr      <= slot_q;
          slot_wr.open <= 1'b0;
          open_q       <= open_q - 1'b1;
          news_push    <= 1'b1;
          news_in      <= '{kind: KindReceiveDone, index: 16'(IndexW'(n_q) & index_mask), n: 64'(n_q[31:0]),
                            frame: slot_q.frame, count: '0, timed_out: 1'b1, complete: slot_q.complete,
                            there: slot_q.there, default: '0};
        end
      end

      StateForget: begin  // sequence numbers of the burst before
        seen_we      <= 1'b1;
        seen_wr_addr <= 9'(clear_q);
        seen_wr      <= '0;
        clear_q      <= clear_q + 1'b1;
        if (clear_q[8:0] == '1) state_q <= StateIdle;
      end
      default: state_q <= StateIdle;
    endcase

    if (sweep_q) begin
      seen_we      <= 1'b1;
      seen_wr_addr <= sweep_at_q;
      seen_wr      <= '0;
      sweep_at_q[6:0] <= sweep_at_q[6:0] + 1'b1;
      sweep_q      <= sweep_at_q[6:0] != sweep_end_q;
    end

    // A number that came in is marked as seen while the machine goes on; words that are entered are cleared.
    if (seen_accept_q) begin
      seen_accept_q <= 1'b0;
      if (!j_replayed_q && !j_jump_q) begin
        seen_we      <= 1'b1;
        seen_wr_addr <= {segment, op_q.header.sequence_number[12:6]};
        seen_wr      <= (!progress_sel_q.started || ahead_q <= 0 ||
                         op_q.header.sequence_number[31:6] == progress_sel_q.newest[31:6] ? seen_wr : '0) |
                        64'd1 << op_q.header.sequence_number[5:0];
        progress_q[segment].started  <= 1'b1;
        progress_q[segment].received <= progress_sel_q.received + 1'b1;
        if (!progress_sel_q.started) begin
          progress_q[segment].newest <= op_q.header.sequence_number;
          progress_q[segment].span   <= 32'd1;
        end else if (ahead_q > 0) begin
          progress_q[segment].newest <= op_q.header.sequence_number;
          progress_q[segment].span   <= progress_sel_q.span + ahead_q[31:0];
          if (words_ahead > 26'd1) begin
            sweep_q     <= 1'b1;
            sweep_at_q  <= {segment, progress_sel_q.newest[12:6] + 7'd1};
            sweep_end_q <= op_q.header.sequence_number[12:6] - 7'd1;
          end
        end else if (32'(-ahead_q) >= progress_sel_q.span) begin
          progress_q[segment].span <= 32'(-ahead_q) + 1'b1;
        end
      end
    end

    if (rst || !enable) begin
      state_q           <= StateInit;
      clear_q           <= '0;
      holds_q           <= '0;
      owed_pending_q    <= 1'b0;
      rare_pending_q    <= 1'b0;
      overrun_pending_q <= 1'b0;
      burst_q           <= 1'b0;
      ending_q          <= 1'b0;
      over_q            <= 1'b0;
      flush_q           <= 1'b0;
      next_q            <= '0;
      open_q            <= '0;
      progress_q        <= '0;
      ticket_q          <= '0;
      turn_q            <= '0;
      placed_valid      <= '0;
      counted           <= 1'b0;
      promise           <= 1'b0;
      news_push         <= 1'b0;
      timer_push        <= 1'b0;
      seen_accept_q     <= 1'b0;
      sweep_q           <= 1'b0;
    end
  end

  function automatic logic [18:0] segment_offset(input logic [1:0] board);
    return (board[0] ? 19'(segment_bytes) : 19'd0) + (board[1] ? {1'b0, segment_bytes, 1'b0} : 19'd0);
  endfunction

endmodule
