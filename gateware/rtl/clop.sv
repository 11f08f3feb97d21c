// SPDX-License-Identifier: SHL-2.1
// Circular list of persistent buffers of one stream, gather mode `frame`: decides where each packet goes and
// whether it is of use, opens and closes frames, tells the sender what is owed and the consumer what is done
// (docs/formats.md, Memory contract). A packet takes five steps, and two cycles before them that overlap with
// the one before; frames are opened in between. What is rare waits, with its channel, for the firmware.
module clop
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Channels that place packets.
    parameter int unsigned CHANNELS = 2,
    // Largest number of buffers of all devices together; a power of two. Memory grows with it.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1,
    // Number of the first burst's frame 0.
    parameter logic [63:0] FIRST_N = 0,
    // Cycles of forgetting, as an exponent of two: 10 clears clop_sequence, 2 + log2 MAX_BUFFERS the rest.
    parameter int unsigned CLEAR_W = $clog2(MAX_BUFFERS) > 8 ? $clog2(MAX_BUFFERS) + 2 : 10
) (
    input logic clk,
    // Of the timers, which go on by themselves; `clk` may stand still while nothing happens.
    input logic clk_timers,
    input logic rst,

    /*
     * configuration, steady while enabled; enabling forgets everything
     */
    input logic                     enable,
    input logic [4:0]               log2_buffers,
    input logic [4:0]               log2_devices,
    input logic [DEVICES-1:0][63:0] base_vaddr,
    input logic [17:0]              buffer_units,    // bytes of a buffer / 64
    input logic [16:0]              segment_bytes,   // a multiple of 16
    input logic [3:0]               expected,        // boards; 1 for a merged stream
    input logic [31:0]              timeout_cycles,  // 0: none
    input logic [15:0]              grace_cycles,    // longest way of a packet from the MAC to here
    input logic [15:0]              window_frames,   // frames this far behind are closed; 0: none
    input logic [63:0]              now,
    output logic                    ready,           // has forgotten everything

    /*
     * requests of the channels; `placed_defer`: to be asked again when the packet is here whole
     */
    input  logic           [CHANNELS-1:0] place_valid,
    output logic           [CHANNELS-1:0] place_ready,
    input  place_request_t [CHANNELS-1:0] place,         // steady until it is answered
    output logic           [CHANNELS-1:0] placed_valid,
    output logic                          placed_accept,
    output logic                          placed_defer,
    output logic           [63:0]         placed_vaddr,

    /*
     * return slots: the consumers' writes of n + 1; index = {buffer, device}
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
    output logic        rare_valid,
    input  logic        rare_ready,
    output rare_t       rare,
    input  logic        command_valid,
    output logic        command_ready,
    input  command_t    command,
    output logic [63:0] last_packet,  // card clock, newest packet of the current burst

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
     * the event queues
     */
    output logic [DEVICES-1:0]       promise,
    input  logic [DEVICES-1:0][15:0] room,
    input  logic [DEVICES-1:0]       half_free,

    /*
     * counters: pulses, and sequence numbers that are missing by board
     */
    output logic             counted,
    output placed_e          counted_as,
    output logic [15:0]      counted_hits,
    output logic [7:0]       counted_events,
    output logic             frame_owed,
    output logic             frame_overrun,
    output logic             skipped_valid,  // frames that are owed by nobody: a jump's
    output logic [24:0]      skipped,
    output logic [3:0][31:0] missing,

    output logic due,  // a timer has run out
    // nothing is under way, and nothing waits
    output logic idle
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);
  localparam int unsigned StatusW = IndexW + 2;  // numbers whose overrun is remembered: 4 N
  localparam int unsigned ChannelW = CHANNELS > 1 ? $clog2(CHANNELS) : 1;
  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;
  localparam logic [24:0] FrameWindow = 25'd1024;

  if (MAX_BUFFERS < 2 || 2 ** IndexW != MAX_BUFFERS || MAX_BUFFERS > 65536) begin : gen_check_buffers
    $fatal(1, "MAX_BUFFERS must be a power of two, 2 to 65536 (%m)");
  end
  if (CHANNELS < 1 || CHANNELS > 8) begin : gen_check_channels
    $fatal(1, "CHANNELS must be 1 to 8 (%m)");
  end
  if (DEVICES != 1 && 2 ** DeviceW != DEVICES) begin : gen_check_devices
    $fatal(1, "DEVICES must be a power of two (%m)");
  end

  // ------------------------------------------------------------------ types

  typedef struct packed {
    logic        known;    // there is such a burst
    logic [7:0]  number;
    logic [63:0] base;     // n of its frame 0
    logic [24:0] next;     // frames below are known
    logic        started;  // a frame is, or its SOB
    logic        ending;   // no further frames
    logic        ended;    // and the consumers have been told
    logic [15:0] open;     // frames that are
  } burst_t;

  // What goes through the steps.
  typedef enum logic [2:0] {
    WorkPlace,
    WorkExpire,
    WorkSeen,
    WorkRestart,
    WorkBoard,
    WorkWatch
  } work_e;

  typedef enum logic [2:0] {
    StepIdle,
    StepRead,
    StepWait,
    StepJudge,
    StepWeigh,
    StepDecide
  } step_e;

  typedef enum logic [2:0] {
    OpenIdle,
    OpenRead,
    OpenWait,
    OpenJudge,
    OpenWeigh,
    OpenNow
  } open_e;

  // ------------------------------------------------------------------ state

  burst_t current_q, old_q;
  logic half_q;  // where clop_sequence keeps the current burst's boards
  logic current_over_q, old_over_q;
  logic [63:0] end_q;  // current_q.base + current_q.next, a cycle later
  logic [23:0] last_known_q, last_known_old_q;
  logic [31:0] current_last_n_q, old_last_n_q;  // of the newest frames
  logic run_q;
  logic [CLEAR_W-1:0] clear_q;
  logic window_q;
  logic [IndexW-1:0] index_mask_q;
  logic [DEVICES-1:0] room_q;   // for another frame
  logic [DEVICES-1:0] flush_q;  // for overruns that wait

  // The channels' requests.
  logic [CHANNELS-1:0] holds_q;  // has looked and not yet committed
  logic [CHANNELS-1:0][1:0] holds_board_q;
  logic [CHANNELS-1:0] again_q, admit_q;  // to be judged anew; believed
  logic first_q;  // the channel that was answered last goes before the others
  logic [ChannelW-1:0] first_channel_q, turn_q;
  logic [CHANNELS-1:0][7:0] ticket_q;

  // The request that is the firmware's.
  logic asking_q;
  logic [1:0] asking_board_q;
  logic [ChannelW-1:0] asking_channel_q;

  // In front: chosen, not yet in the steps.
  logic f_valid_q, f_take;
  work_e f_work_q;
  place_request_t f_request_q;
  logic [ChannelW-1:0] f_channel_q;
  logic f_current_q, f_old_q, f_admit_q, f_flag_q, f_forced_q;
  logic [31:0] f_n_q, f_first_q;

  // In the steps.
  step_e step_q;
  work_e work_q;
  place_request_t request_q;
  logic [ChannelW-1:0] channel_q;
  logic [1:0] board_sel_q;  // 0xFF, one merged stream, lies in segment 0
  logic [31:0] number_q;  // sequence number that is looked at
  logic of_old_q, of_other_q, believed_q, flag_q, forced_q;
  logic [31:0] n_q;
  logic [31:0] expire_first_q;

  // Opening frames.
  open_e open_q;
  logic [31:0] o_stamp_q, o_stamp_high_q;
  logic [7:0] o_serial_q;
  logic [ChannelW-1:0] o_channel_q;
  logic [1:0] o_board_q;
  logic [24:0] o_frame_q, o_last_q;
  logic [63:0] o_n_q;
  logic o_packet_q, o_ok_q, o_held_q;
  logic o_is_last_q;  // o_frame_q is o_last_q
  logic o_fits_q, o_placed_q, o_done_q, o_closes_q;  // the packet, alone in its frame
  logic o_uses;
  logic [3:0] o_bit;

  // Commands.
  logic command_q_valid_q, command_now;
  command_t command_q;
  logic [1:0] pause_q;  // cycles until what follows from the last step or command is known
  logic close_pulse, closing_begun_q;

  // News.
  logic news_push, unused_news_room;
  clop_news_t news_in;
  logic [4:0] news_level;
  logic news_room_q;
  logic [DEVICES-1:0] side_overrun;  // goes out now
  logic [DEVICES-1:0] overrun_q;  // an overrun waits for more of its kind, or for room
  clop_news_t [DEVICES-1:0] overrun_news_q;
  logic [DEVICES-1:0][31:0] overrun_next_q;  // the number that would continue it

  logic owed_pending_q;
  owed_t owed_q;

  // ------------------------------------------------------------------ what is known of a frame

  logic [24:0] frame;
  logic marker, over, buffer_back, buffer_held;
  clop_found_t found;
  logic slot_we, status_we, board_we;
  logic [IndexW-1:0] slot_wr_addr;
  logic [StatusW-1:0] status_wr_addr;
  logic [IndexW+1:0] board_wr_addr;
  clop_slot_t slot_wr;
  clop_status_t status_wr;
  clop_board_t board_wr;

  assign frame = {1'b0, request_q.header.frame};

  clop_judge #(
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES)
  ) judge (
      .clk,
      .log2_devices,
      .base_vaddr,
      .buffer_units,
      .segment_bytes,
      .expected,
      .window     (window_q),
      .index_mask (index_mask_q),
      .sender_next(sender_next[31:0]),
      .return_valid,
      .return_index,
      .return_value,
      .request    (request_q),
      .n          (n_q),
      .board      (board_sel_q),
      .next       (of_old_q ? old_q.next : current_q.next),
      .ending     (of_old_q ? old_q.ending : current_q.ending),
      .over,
      .last_known (last_known_q),
      .timer      (work_q == WorkExpire),
      .timer_first(expire_first_q),
      .forced     (forced_q),
      .found,
      .other      (open_q != OpenIdle),
      .other_n    (StatusW'(o_n_q)),
      .back       (buffer_back),
      .held       (buffer_held),
      .slot_we,
      .slot_wr_addr,
      .slot_wr,
      .status_we,
      .status_wr_addr,
      .status_wr,
      .board_we,
      .board_wr_addr,
      .board_wr,
      .board_read_index,
      .board_read
  );

  // ------------------------------------------------------------------ timers

  logic timer_push, timer_room, due_valid, due_ready, due_old, due_forced, closing, timer_moved;
  logic [31:0] timer_n, timer_first, due_n, due_first;

  clop_timers #(
      .MAX_BUFFERS(MAX_BUFFERS)
  ) timers (
      .clk       (clk_timers),
      .rst       (rst || !enable),
      .timeout_cycles,
      .grace_cycles,
      .window_frames,
      .now       (now[31:0]),
      .index_mask(index_mask_q),
      .push      (timer_push),
      .push_n    (timer_n),
      .push_first(timer_first),
      .room      (timer_room),
      .slot_we,
      .slot_addr (slot_wr_addr),
      .slot_open (slot_wr.open),
      .slot_first(slot_wr.first),
      .base_n    (current_q.base[31:0]),
      .end_n     (end_q[31:0]),
      .close     (close_pulse),
      .close_old (command_q.old),
      .closing,
      .due_valid,
      .due_ready,
      .due_n,
      .due_first,
      .due_old,
      .due_forced,
      .moved     (timer_moved)
  );

  // ------------------------------------------------------------------ front: what comes next

  logic [CHANNELS-1:0] may_ask, of_current, of_old;
  logic [ChannelW-1:0] pick;
  logic picked, front_free, steps_idle, settled, held, take_place, take_expired, take_tracked, command_done;
  logic [3:0] quiet_q;

  always_comb begin
    for (int c = 0; c < int'(CHANNELS); c++) begin
      of_current[c] = current_q.known && place[c].header.burst == current_q.number;
      of_old[c]     = old_q.known && place[c].header.burst == old_q.number;
      may_ask[c] = again_q[c] ? !asking_q : place_valid[c];
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
    if (first_q && may_ask[first_channel_q]) pick = first_channel_q;
  end

  assign f_take     = f_valid_q && (step_q == StepIdle || step_q == StepDecide);
  assign front_free = (!f_valid_q || f_take) && run_q && news_room_q;
  assign steps_idle = !f_valid_q && step_q == StepIdle && open_q == OpenIdle;
  // Frames that are overtaken are closed before anything else is done, one thing after the other.
  assign settled      = !window_q || (steps_idle && quiet_q == '1);
  // In a replay the other channels wait for the firmware, too.
  assign held         = window_q && asking_q;
  assign take_expired = due_valid && front_free && !command_now;
  assign take_place   = picked && front_free && !due_valid && !command_q_valid_q && settled && !held;
  assign due_ready    = take_expired;
  assign due          = due_valid;
  always_comb begin
    place_ready = '0;
    place_ready[pick] = take_place && !again_q[pick];
  end

  // A command is carried out when nothing else is under way.
  logic command_can, burst_waits_q;
  assign command_can  = command_q_valid_q && steps_idle && run_q && news_room_q && pause_q == 0 && !closing &&
                        settled && !due_valid && !command_now;
  assign take_tracked = command_now && (command_q.op == CommandSeen || command_q.op == CommandRestart ||
                                        command_q.op == CommandBoard || command_q.op == CommandWatch);
  assign close_pulse  = command_now && command_q.op == CommandClose && !closing_begun_q;

  assign command_ready = !command_q_valid_q;

  logic [24:0] command_frame, command_newest;
  logic command_beyond_q, command_gap_q;  // of CommandLast: there are frames to be owed; too many
  assign command_frame  = {1'b0, command_q.frame};
  assign command_newest = command_frame - {1'b0, last_known_q};
  always_ff @(posedge clk) begin
    // Nothing changes between this and the next cycle: a timer that is due goes first.
    command_now      <= command_can && !rst && enable;
    burst_waits_q    <= side_overrun != 0 || (current_over_q && !current_q.ended) ||
                        (old_over_q && !old_q.ended);
    command_beyond_q <= command_frame >= current_q.next;
    command_gap_q    <= !command_newest[24] && command_newest > FrameWindow;
  end

  always_comb begin
    command_done = 1'b0;
    if (command_now) begin
      unique case (command_q.op)
        CommandBurst: command_done = !burst_waits_q;
        CommandLast:  command_done = !command_q.flag || !current_q.started || !command_beyond_q ||
                                     (!command_gap_q && timer_room);
        CommandClose: command_done = closing_begun_q;
        default:      command_done = 1'b1;
      endcase
    end
  end

  // ------------------------------------------------------------------ sequence numbers

  logic replayed, jump, far_ahead, watched, ordinary;
  logic number_taken, number_admitted, number_asked, forget;

  clop_sequence sequence_numbers (
      .clk,
      .rst        (rst || !enable),
      .clear      (!run_q),
      .clear_addr (10'(clear_q)),
      .forget,
      .forget_half(!half_q),
      .half       (half_q ^ of_old_q),
      .board      (board_sel_q),
      .number     (number_q),
      .frame      (request_q.header.frame),
      .started    (of_old_q ? old_q.started : current_q.started),
      .last_known (of_old_q ? last_known_old_q : last_known_q),
      .replayed,
      .jump,
      .far_ahead,
      .watched,
      .ordinary,
      .take       (number_taken),
      .admit      (number_admitted),
      .asked      (number_asked),
      .restart    (step_q == StepDecide && work_q == WorkRestart),
      .at_frame   (step_q == StepDecide && work_q == WorkBoard),
      .watch      (step_q == StepDecide && work_q == WorkWatch),
      .watch_flag (flag_q),
      .missing
  );

  // ------------------------------------------------------------------ beside the steps

  logic started_q, over_q, ask_q, busy_board_q, borrow_q, use_room_q;
  logic [31:0] now_high_q, stamp_high_q, newer_q;  // newer: in bit 31: it is not
  logic [DeviceW-1:0] device_q, o_device;

  assign over     = of_old_q ? old_over_q : current_over_q;
  assign marker   = (request_q.header.flags & (MgpSob | MgpEob)) != 0;
  assign device_q = DEVICES > 1 ? DeviceW'(n_q) & DeviceW'((32'd1 << log2_devices) - 32'd1) : '0;
  assign o_device = DEVICES > 1 ? DeviceW'(o_n_q) & DeviceW'((32'd1 << log2_devices) - 32'd1) : '0;

  always_ff @(posedge clk) begin
    started_q    <= of_old_q ? old_q.started : current_q.started;
    over_q       <= over;
    ask_q        <= marker || of_other_q;  // whatever else is said of it
    busy_board_q <= board_sel_q == asking_board_q;
    use_room_q     <= room_q[device_q];
    // The packet's stamp in 64 bits.
    now_high_q   <= now[63:32];
    borrow_q     <= now[31:0] < request_q.stamp;
    stamp_high_q <= now_high_q - 32'(borrow_q);
    newer_q      <= request_q.stamp - last_packet[31:0];
  end

  // ------------------------------------------------------------------ decide

  logic decide, is_look, asks, waits, judged, admitted, shifts, uses;
  logic expires, closed_current_q, closed_old_q;

  assign decide   = step_q == StepDecide && work_q == WorkPlace;
  assign is_look  = request_q.kind == PlaceLook;
  assign asks     = ask_q || (!believed_q && (watched || (!found.late && !found.duplicate && !replayed &&
                                                          (jump || far_ahead))));
  assign waits    = asking_q && (asks || busy_board_q);
  assign judged   = decide && !is_look && request_q.sound && !asks && !waits;
  assign admitted = judged && !found.late && !found.duplicate && (believed_q || !replayed);
  // Frames that nobody owes are passed over before.
  assign shifts   = !found.known && (!started_q || found.gap);
  assign uses     = admitted && found.known && found.open_frame && found.fits &&
                    !(request_q.kind == PlaceCommit && !request_q.placed);
  assign expires  = step_q == StepDecide && work_q == WorkExpire && found.due;

  assign number_admitted = admitted && !shifts;
  assign number_asked    = decide && !is_look && request_q.sound && asks && !waits && !of_other_q;
  assign number_taken    = (judged && (found.late || found.duplicate) && !replayed && !jump) ||
                           (number_admitted && !believed_q) ||
                           (step_q == StepDecide && work_q == WorkSeen && !replayed);

  // ------------------------------------------------------------------ the machine

  logic side_ok, side_old_end, side_current_end;
  logic force_news;
  logic [DeviceW-1:0] side_device;

  assign o_bit  = 4'd1 << o_board_q;
  assign o_uses = o_packet_q && o_ok_q && o_fits_q && o_placed_q && o_is_last_q;
  assign owed_valid = owed_pending_q;
  assign owed       = owed_q;
  assign ready      = run_q;
  assign forget     = command_done && command_q.op == CommandBurst;

  // Overruns that waited, and ends of bursts, between the steps that have news of their own.
  assign force_news       = (current_over_q && !current_q.ended) || (old_over_q && !old_q.ended) ||
                            (command_q_valid_q && command_q.op == CommandBurst);
  assign side_ok          = step_q != StepDecide && open_q == OpenIdle && !forget && news_room_q;
  assign side_old_end     = old_over_q && !old_q.ended;
  assign side_current_end = !side_old_end && current_over_q && !current_q.ended;
  always_comb begin
    for (int d = 0; d < int'(DEVICES); d++)
      side_overrun[d] = overrun_q[d] && flush_q[d];
    side_device = '0;
    for (int d = int'(DEVICES) - 1; d >= 0; d--) if (side_overrun[d]) side_device = DeviceW'(d);
  end

  fifo #(
      .WIDTH($bits(clop_news_t) + 8 * CHANNELS),
      .DEPTH(16)
  ) news_fifo (
      .clk,
      .rst      (rst || !enable),
      .in_valid (news_push),
      .in_ready (unused_news_room),
      .in_data  ({ticket_q, news_in}),
      .out_valid(news_valid),
      .out_ready(news_ready),
      .out_data ({news_ticket, news}),
      .level    (news_level)
  );

  // A packet's place is decided: the last step of a request.
  task automatic finish(input logic [ChannelW-1:0] channel, input placed_e what, input logic accept);
    placed_valid[channel] <= 1'b1;
    placed_accept         <= accept;
    counted_as            <= what;
    holds_q[channel]      <= 1'b0;
    again_q[channel]      <= 1'b0;
    admit_q[channel]      <= 1'b0;
  endtask

  always_ff @(posedge clk) begin
    placed_valid   <= '0;
    placed_defer   <= 1'b0;
    counted        <= 1'b0;
    frame_owed     <= 1'b0;
    frame_overrun  <= 1'b0;
    skipped_valid  <= 1'b0;
    promise        <= '0;
    slot_we        <= 1'b0;
    status_we      <= 1'b0;
    board_we       <= 1'b0;
    news_push      <= 1'b0;
    timer_push     <= 1'b0;
    index_mask_q   <= IndexW'((64'd1 << (log2_buffers + (DEVICES > 1 ? log2_devices : 5'd0))) - 64'd1);
    window_q       <= window_frames != 0;
    last_known_q   <= 24'(current_q.next - 25'(current_q.next != 0));
    last_known_old_q <= 24'(old_q.next - 25'(old_q.next != 0));
    end_q          <= current_q.base + 64'(current_q.next);
    old_last_n_q     <= old_q.base[31:0] + 32'(last_known_old_q);
    current_last_n_q <= current_q.base[31:0] + 32'(last_known_q);
    current_over_q <= current_q.known && current_q.ending && current_q.open == 0;
    old_over_q     <= old_q.known && old_q.ending && old_q.open == 0;
    news_room_q    <= news_level < 5'd8;
    for (int d = 0; d < int'(DEVICES); d++) begin
      room_q[d]  <= room[d] >= 16'd4;
      flush_q[d] <= room[d] != 0 && (half_free[d] || force_news);
    end
    if (owed_ready) owed_pending_q <= 1'b0;
    if (rare_ready) rare_valid <= 1'b0;
    if (!steps_idle) pause_q <= 2'd3;
    else if (pause_q != 0) pause_q <= pause_q - 1'b1;
    quiet_q <= steps_idle && !due_valid && !timer_moved && !take_place && !take_expired && !command_done &&
               pause_q == 0 ? quiet_q + 4'(quiet_q != '1) : '0;
    idle    <= steps_idle && run_q && !command_q_valid_q && !asking_q && again_q == 0 && !owed_pending_q &&
               !due_valid && !closing && overrun_q == 0 && news_level == 0 && !news_push;

    // -------------------------------------------------------------- front
    if (f_take) f_valid_q <= 1'b0;
    if (take_place || take_expired || take_tracked) f_valid_q <= 1'b1;
    if (!f_valid_q || f_take) f_request_q <= place[pick];
    if (take_place) begin
      f_work_q    <= WorkPlace;
      f_channel_q <= pick;
      f_current_q <= of_current[pick];
      f_old_q     <= of_old[pick] && !of_current[pick];
      f_admit_q   <= again_q[pick] && admit_q[pick];
      turn_q      <= pick;
      first_q     <= 1'b0;
      again_q[pick] <= 1'b0;
      if (place[pick].kind == PlaceLook) begin
        holds_q[pick]       <= 1'b1;
        holds_board_q[pick] <= place[pick].header.board[1:0];
      end
    end
    if (take_expired) begin
      f_work_q    <= WorkExpire;
      f_n_q       <= due_n;
      f_first_q   <= due_first;
      f_old_q     <= due_old;
      f_current_q <= !due_old;
      f_forced_q  <= due_forced;
    end
    if (take_tracked) begin
      f_work_q    <= command_q.op == CommandSeen ? WorkSeen : command_q.op == CommandRestart ? WorkRestart :
                     command_q.op == CommandBoard ? WorkBoard : WorkWatch;
      f_old_q     <= command_q.old;
      f_current_q <= !command_q.old;
      f_flag_q    <= command_q.flag;
      f_request_q.header.board           <= {6'd0, command_q.board};
      f_request_q.header.sequence_number <= command_q.sequence_number;
      f_request_q.header.flags           <= '0;
      if (command_q.op == CommandBoard && !command_q.old) current_q.started <= 1'b1;
      if (command_q.op == CommandBoard && command_q.old) old_q.started <= 1'b1;
    end

    // -------------------------------------------------------------- steps
    unique case (step_q)
      StepIdle:  if (f_valid_q) step_q <= StepRead;
      StepRead:  if (open_q == OpenIdle) step_q <= StepWait;
      StepWait:  step_q <= StepJudge;
      StepJudge: step_q <= StepWeigh;
      StepWeigh: step_q <= StepDecide;
      default:   step_q <= f_valid_q ? StepRead : StepIdle;
    endcase
    if (step_q == StepIdle || step_q == StepDecide) begin
      work_q         <= f_work_q;
      request_q      <= f_request_q;
      channel_q      <= f_channel_q;
      board_sel_q    <= f_request_q.header.board == 8'hFF ? 2'd0 : f_request_q.header.board[1:0];
      number_q       <= (f_request_q.header.flags & MgpSob) != 0 ? '0 : f_request_q.header.sequence_number;
      of_old_q       <= f_old_q;
      of_other_q     <= !f_current_q && !f_old_q;
      believed_q     <= f_admit_q;
      flag_q         <= f_flag_q;
      forced_q       <= f_forced_q;
      expire_first_q <= f_first_q;
      n_q            <= f_work_q == WorkExpire ? f_n_q :
                        (f_old_q ? old_q.base[31:0] : current_q.base[31:0]) + 32'(f_request_q.header.frame);
    end

    // -------------------------------------------------------------- decide
    if (open_q != OpenNow) o_is_last_q <= o_frame_q == o_last_q;
    if (step_q == StepDecide) begin
      o_is_last_q    <= found.at_next;
      placed_vaddr   <= found.vaddr;
      counted_hits   <= request_q.hits;
      counted_events <= request_q.header.events;
      slot_wr_addr   <= IndexW'(n_q) & index_mask_q;
      slot_wr        <= found.slot;
      if (work_q == WorkExpire) begin
        slot_wr.open <= 1'b0;
      end else begin
        slot_wr.seen     <= 1'b1;
        slot_wr.there    <= found.there;
        slot_wr.complete <= found.complete;
        slot_wr.open     <= !found.closes;
        // It was owed before: its time begins with its own first packet.
        if (found.retimed) slot_wr.first <= request_q.stamp;
      end
      board_wr_addr  <= {IndexW'(n_q) & index_mask_q, board_sel_q};
      board_wr       <= found.board;
      o_stamp_q      <= request_q.stamp;
      o_stamp_high_q <= stamp_high_q;
      o_serial_q     <= request_q.serial;
      o_placed_q     <= !(request_q.kind == PlaceCommit && !request_q.placed);
      o_done_q       <= found.done_alone;
      o_closes_q     <= found.closes_alone;
      o_channel_q    <= channel_q;
      o_board_q      <= board_sel_q;
      o_frame_q      <= current_q.next;
      o_n_q          <= end_q;
      o_last_q       <= frame;
      o_packet_q     <= 1'b1;
      o_ok_q         <= found.available && use_room_q;
      o_fits_q       <= found.fits_alone;
      news_in        <= '{kind: KindReceiveDone, index: 16'(IndexW'(n_q) & index_mask_q), n: 64'(n_q),
                          frame: found.slot.frame, count: '0, timed_out: work_q == WorkExpire,
                          complete: work_q == WorkExpire ? found.slot.complete : expected,
                          there: work_q == WorkExpire ? found.slot.there : found.there,
                          start: request_q.stamp, channel: 3'(channel_q)};
      timer_n        <= n_q;
      timer_first    <= request_q.stamp;
    end
    if (step_q == StepDecide && !asking_q)
      rare <= '{header: request_q.header, stamp: request_q.stamp, channel: 3'(channel_q),
              reason: {2'd0, replayed, watched && !marker && !of_other_q, far_ahead, jump, of_other_q,
                       marker}, old: of_old_q,
              ordinary: ordinary && !of_other_q, active: !over_q && !of_other_q,
              old_active: old_q.known && !old_over_q};
    if (decide && is_look) begin
      placed_valid[channel_q] <= 1'b1;
      placed_accept <= !found.late && !replayed && found.fits &&
                       (found.known ? found.open_frame && !found.duplicate : found.available && use_room_q);
      // What the firmware is to decide, and what may have to wait for a buffer, is decided at its end.
      placed_defer  <= asks || waits || (window_q && !found.known && !(found.available && use_room_q));
      if (asks || waits || (window_q && !found.known && !(found.available && use_room_q)))
        holds_q[channel_q] <= 1'b0;
    end
    if (decide && !is_look) begin
      if (!request_q.sound) begin
        finish(channel_q, PlacedUsed, 1'b0);
        ticket_q[channel_q] <= request_q.serial + 1'b1;
      end else if (waits) begin
        again_q[channel_q] <= 1'b1;
        admit_q[channel_q] <= believed_q;
      end else if (asks) begin
        rare_valid       <= 1'b1;
        asking_q         <= 1'b1;
        asking_board_q   <= board_sel_q;
        asking_channel_q <= channel_q;
      end else if (found.late || found.duplicate) begin
        finish(channel_q, found.late ? PlacedLate : PlacedDuplicate, 1'b0);
        counted <= 1'b1;
        ticket_q[channel_q] <= request_q.serial + 1'b1;
      end else if (!admitted) begin
        finish(channel_q, PlacedReplayed, 1'b0);
        counted <= 1'b1;
        ticket_q[channel_q] <= request_q.serial + 1'b1;
      end else if (shifts) begin
        again_q[channel_q] <= 1'b1;
        admit_q[channel_q] <= believed_q;
        first_q            <= 1'b1;
        first_channel_q    <= channel_q;
        current_q.started  <= 1'b1;
        current_q.next     <= frame;
        skipped_valid      <= started_q;
        skipped            <= frame - current_q.next;
      end else if (!found.known) begin
        open_q <= found.at_next && timer_room && (!window_q || (found.available && use_room_q)) ? OpenNow :
                  OpenRead;
      end else begin
        finish(channel_q, uses ? PlacedUsed : found.open_frame && !found.fits ? PlacedOverflow :
               PlacedOverrun, uses);
        counted <= 1'b1;
        ticket_q[channel_q] <= request_q.serial + 1'b1;
      end
      if (request_q.sound && !of_old_q && !of_other_q && !over_q && !newer_q[31])
        last_packet <= {stamp_high_q, request_q.stamp};
    end
    if (uses) begin
      board_we   <= 1'b1;
      slot_we    <= 1'b1;
      timer_push <= found.retimed;
      news_push  <= found.closes;
    end
    if (expires) begin
      slot_we   <= 1'b1;
      news_push <= 1'b1;
    end
    closed_current_q <= ((uses && found.closes) || expires) && !of_old_q;
    closed_old_q     <= ((uses && found.closes) || expires) && of_old_q;
    if (closed_current_q) current_q.open <= current_q.open - 1'b1;
    if (closed_old_q) old_q.open <= old_q.open - 1'b1;

    // -------------------------------------------------------------- frames are opened
    unique case (open_q)
      OpenIdle: ;
      OpenRead:  if (timer_room && news_level < 5'd12) open_q <= OpenWait;
      OpenWait:  open_q <= OpenJudge;
      OpenJudge: open_q <= OpenWeigh;
      OpenWeigh: begin
        o_ok_q   <= buffer_back && room_q[o_device];
        // The frame before it is still open, and would not be closed by waiting.
        o_held_q <= buffer_held && room_q[o_device];
        open_q   <= OpenNow;
      end
      OpenNow: begin
        if (window_q && !o_ok_q && !o_held_q) begin
          open_q <= OpenRead;
        end else if (!owed_pending_q || owed_ready) begin
          frame_owed     <= 1'b1;
          frame_overrun  <= !o_ok_q;
          current_q.next <= o_frame_q + 1'b1;
          status_we      <= 1'b1;
          status_wr_addr <= StatusW'(o_n_q);
          status_wr      <= '{overrun: !o_ok_q, tag: o_n_q[StatusW+:15]};
          owed_pending_q <= 1'b1;
          owed_q         <= '{overrun: !o_ok_q, count: 32'd1, frame: 32'(o_frame_q), n: o_n_q,
                              stamp: {o_stamp_high_q, o_stamp_q}};
          slot_wr_addr   <= IndexW'(o_n_q) & index_mask_q;
          slot_wr        <= '{used: 1'b1, open: 1'b1, seen: 1'b0, there: '0, complete: '0, n: o_n_q[31:0],
                              frame: 24'(o_frame_q), first: o_stamp_q};
          timer_n        <= o_n_q[31:0];
          timer_first    <= o_stamp_q;
          slot_we        <= o_ok_q;
          timer_push     <= o_ok_q;
          promise[o_device] <= o_ok_q;
          news_in        <= '{kind: KindReceiveDone, index: 16'(IndexW'(o_n_q) & index_mask_q), n: o_n_q,
                              frame: 24'(o_frame_q), count: '0, timed_out: 1'b0, complete: expected,
                              there: o_bit, start: o_stamp_q, channel: 3'(o_channel_q)};
          if (o_ok_q && !(o_uses && o_closes_q)) current_q.open <= current_q.open + 1'b1;
          if (!o_ok_q) begin
            // Consecutive ones become one entry while the queue is short of room.
            overrun_q[o_device]      <= 1'b1;
            overrun_next_q[o_device] <= o_n_q[31:0] + (32'd1 << (DEVICES > 1 ? log2_devices : 5'd0));
            if (overrun_q[o_device] && overrun_next_q[o_device] == o_n_q[31:0]) begin
              overrun_news_q[o_device].count <= overrun_news_q[o_device].count + 1'b1;
            end else begin
              overrun_news_q[o_device] <= '{kind: KindError, n: o_n_q, frame: 24'(o_frame_q), count: 32'd1,
                                            default: '0};
              news_push <= overrun_q[o_device] && room[o_device] != 0;
              news_in   <= overrun_news_q[o_device];
            end
          end
          if (o_is_last_q) begin
            open_q <= OpenIdle;
            if (!o_packet_q) current_q.ending <= 1'b1;
            if (o_uses) begin
              board_we         <= 1'b1;
              slot_wr.seen     <= 1'b1;
              slot_wr.there    <= o_bit;
              slot_wr.complete <= o_done_q ? o_bit : 4'd0;
              slot_wr.open     <= !o_closes_q;
              news_push        <= o_closes_q;
            end
            if (o_packet_q) begin
              finish(o_channel_q, o_uses ? PlacedUsed : o_ok_q && !o_fits_q ? PlacedOverflow :
                     PlacedOverrun, o_uses);
              counted <= 1'b1;
              ticket_q[o_channel_q] <= o_serial_q + 1'b1;
            end
          end else begin
            o_frame_q <= o_frame_q + 1'b1;
            o_n_q     <= o_n_q + 1'b1;
            open_q    <= OpenRead;
          end
        end
      end
      default: open_q <= OpenIdle;
    endcase

    // -------------------------------------------------------------- news between the steps
    if (side_ok) begin
      if (side_overrun != 0) begin
        overrun_q[side_device] <= 1'b0;
        news_push              <= 1'b1;
        news_in                <= overrun_news_q[side_device];
      end else if (side_old_end) begin
        old_q.ended <= 1'b1;
        news_push   <= 1'b1;
        news_in     <= '{kind: KindBurstEnds, n: 64'(old_last_n_q), frame: last_known_old_q,
                         default: '0};
      end else if (side_current_end) begin
        current_q.ended <= 1'b1;
        news_push       <= 1'b1;
        news_in         <= '{kind: KindBurstEnds, n: 64'(current_last_n_q), frame: last_known_q,
                             default: '0};
      end
    end

    // -------------------------------------------------------------- commands
    if (command_valid && command_ready) begin
      command_q         <= command;
      command_q_valid_q <= 1'b1;
      pause_q           <= 2'd3;
    end
    if (command_done) begin
      command_q_valid_q <= 1'b0;
      closing_begun_q   <= 1'b0;
    end
    if (command_now) begin
      unique case (command_q.op)
        CommandBurst: begin
          if (!burst_waits_q) begin
            old_q     <= current_q;
            current_q <= '{known: 1'b1, number: command_q.frame[7:0], base: current_q.known ? end_q : FIRST_N,
                           started: command_q.flag, default: '0};
            half_q         <= !half_q;
            old_over_q     <= current_over_q;
            current_over_q <= 1'b0;
            last_packet <= now;
            news_push   <= 1'b1;
            news_in     <= '{kind: KindBurstBegins, n: current_q.known ? end_q : FIRST_N,
                             frame: command_q.frame, default: '0};
          end
        end
        CommandLast: begin
          if (command_q.flag && !current_q.started) begin
            current_q.started <= 1'b1;
            current_q.next    <= command_frame + 1'b1;
          end
          if (command_q.flag && current_q.started && command_beyond_q) begin
            if (command_gap_q) begin
              current_q.next <= command_frame;
              skipped_valid  <= 1'b1;
              skipped        <= command_frame - current_q.next;
              pause_q        <= 2'd3;
            end else if (timer_room) begin
              o_frame_q         <= current_q.next;
              o_n_q             <= end_q;
              o_last_q          <= command_frame;
              o_packet_q        <= 1'b0;
              o_stamp_q         <= now[31:0];
              o_stamp_high_q    <= now[63:32];
              open_q            <= OpenRead;
            end
          end else begin
            current_q.ending <= 1'b1;
          end
        end
        CommandClose: closing_begun_q <= !command_done;
        CommandAnswer: begin
          asking_q <= 1'b0;
          if (command_q.as == PlacedUsed || command_q.as == PlacedAdmit) begin
            again_q[asking_channel_q] <= 1'b1;
            admit_q[asking_channel_q] <= command_q.as == PlacedAdmit;
            first_q                   <= 1'b1;
            first_channel_q           <= asking_channel_q;
          end else begin
            finish(asking_channel_q, command_q.as, 1'b0);
            counted <= 1'b1;
            ticket_q[asking_channel_q] <= place[asking_channel_q].serial + 1'b1;
          end
        end
        default: ;
      endcase
    end

    // -------------------------------------------------------------- everything is forgotten
    if (!run_q) begin
      slot_we        <= 1'b1;
      slot_wr_addr   <= IndexW'(clear_q);
      slot_wr        <= '0;
      status_we      <= 1'b1;
      status_wr_addr <= StatusW'(clear_q);
      status_wr      <= '1;
      clear_q        <= clear_q + 1'b1;
      if (clear_q == '1) run_q <= 1'b1;
    end

    if (rst || !enable) begin
      run_q             <= 1'b0;
      clear_q           <= '0;
      current_q         <= '0;
      old_q             <= '0;
      current_over_q    <= 1'b0;
      old_over_q        <= 1'b0;
      half_q            <= 1'b0;
      holds_q           <= '0;
      again_q           <= '0;
      admit_q           <= '0;
      first_q           <= 1'b0;
      turn_q            <= '0;
      ticket_q          <= '0;
      asking_q          <= 1'b0;
      rare_valid        <= 1'b0;
      f_valid_q         <= 1'b0;
      step_q            <= StepIdle;
      open_q            <= OpenIdle;
      command_q_valid_q <= 1'b0;
      closing_begun_q   <= 1'b0;
      pause_q           <= '0;
      quiet_q           <= '0;
      overrun_q         <= '0;
      owed_pending_q    <= 1'b0;
      placed_valid      <= '0;
      placed_defer      <= 1'b0;
      counted           <= 1'b0;
      closed_current_q  <= 1'b0;
      closed_old_q      <= 1'b0;
      promise           <= '0;
      news_push         <= 1'b0;
      timer_push        <= 1'b0;
      frame_owed        <= 1'b0;
      frame_overrun     <= 1'b0;
      skipped_valid     <= 1'b0;
      last_packet       <= '0;
      idle              <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, unused_news_room, sender_next, command_q.channel, newer_q[30:0],
                    log2_devices};

endmodule
