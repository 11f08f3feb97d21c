// SPDX-License-Identifier: SHL-2.1
// Circular list of persistent buffers of one stream, gather mode `packets`. Each buffer has a fixed number
// of payloads, in order of completion; n counts buffers (docs/formats.md, Memory contract). Replaces clop
// and clop_close in this mode; the firmware decides on slow-path packets.
module clop_packets
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2,
    // Total number of buffers of all devices; a power of two.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1,
    // Number of the first buffer.
    parameter logic [63:0] FIRST_N = 0,
    // log2 of the clearing cycles; 10 clears clop_sequence.
    parameter int unsigned CLEAR_W = 10
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while enabled; enabling clears all state
     */
    input  logic                     enable,
    input  logic [4:0]               log2_buffers,
    input  logic [4:0]               log2_devices,
    input  logic [DEVICES-1:0][63:0] base_vaddr,
    input  logic [17:0]              buffer_units,  // bytes of a buffer / 64
    input  logic [12:0]              packets,       // payloads per buffer, 1 to 4096
    input  logic [16:0]              slot_bytes,    // bytes per payload slot, a multiple of 16
    input  logic                     waits,         // payloads without a buffer wait instead of being dropped
    input  logic [63:0]              now,
    output logic                     ready,         // all memories cleared

    /*
     * requests of the channels; `placed_defer`: repeat the request once the packet is complete
     */
    input  logic [CHANNELS-1:0]           place_valid,
    output logic [CHANNELS-1:0]           place_ready,
    input  place_request_t [CHANNELS-1:0] place,         // steady until the response
    output logic [CHANNELS-1:0]           placed_valid,
    output placed_rsp_t                   placed_rsp,
    input  serial_t [CHANNELS-1:0]        done_serial,

    /*
     * return slots: the consumers' writes of n + 1; index = {buffer, device}
     */
    input logic                           return_valid,
    input logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input logic [31:0]                    return_value,

    /*
     * sender
     */
    output tx_pending_req_t tx_pending_req,
    input  logic            tx_pending_ready,
    input  logic [31:0]     sender_next,       // low word

    /*
     * firmware
     */
    output slowpath_req_t slowpath_req,
    input  logic          slowpath_ready,
    input  command_req_t  command_req,
    output logic          command_ready,
    output logic [63:0]   last_packet,     // card clock, newest packet of the current burst

    /*
     * ordered notifications to clop_packets_close
     */
    output logic                   notice_valid,
    input  logic                   notice_ready,
    output packets_notice_t        notice,
    output serial_t [CHANNELS-1:0] notice_fence,  // write fence: packets that must be written first
    output serial_t [CHANNELS-1:0] done,          // completed packets
    input  logic                   notice_done,   // an overrun event has its queue entry

    /*
     * event queues
     */
    output logic [DEVICES-1:0]       promise,
    input  logic [DEVICES-1:0][15:0] room,
    input  logic [DEVICES-1:0]       half_free,

    /*
     * counters: pulses, and missing sequence numbers per board
     */
    output logic             counted,
    output placed_e          counted_as,
    output logic [15:0]      counted_hits,
    output logic [7:0]       counted_events,
    output logic             buffer_pending,
    output logic [3:0][63:0] missing,

    // No packet or notification pending.
    output logic idle
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);
  localparam int unsigned ChannelW = CHANNELS > 1 ? $clog2(CHANNELS) : 1;
  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;

  if (2 ** IndexW != MAX_BUFFERS || MAX_BUFFERS < 2 || MAX_BUFFERS > 65536) begin : gen_check_buffers
    $fatal(1, "MAX_BUFFERS must be a power of two, 2 to 65536 (%m)");
  end
  if (CHANNELS < 1 || CHANNELS > 8) begin : gen_check_channels
    $fatal(1, "CHANNELS must be 1 to 8 (%m)");
  end

  typedef enum logic [3:0] {
    StepIdle,
    StepChoose,  // burst selection
    StepRead,    // lookup in clop_sequence, up to StepClassify
    StepWait,
    StepCapture,
    StepCompare,
    StepClassify,
    StepPlace,
    StepSettle  // wait after closing a buffer or changing a choice input
  } step_e;

  typedef enum logic [1:0] {
    WorkPlace,
    WorkSeen,
    WorkRestart,
    WorkWatch
  } work_e;

  step_e step_q;
  work_e work_q;
  logic run_q;
  logic [CLEAR_W-1:0] clear_q;

  assign ready = run_q;

  // ------------------------------------------------------------------ bursts and channel selection

  logic current_known_q, old_known_q, old_over_q;
  logic [7:0] current_number_q, old_number_q;
  logic half_q;  // half of clop_sequence that holds the current burst's boards
  logic flush;

  logic slowpath_busy_q;  // a firmware request is pending
  logic [ChannelW-1:0] slowpath_channel_q;
  logic [1:0] slowpath_busy_board_q;
  logic [CHANNELS-1:0] blocked_q;   // blocked by a firmware request; repeated after it
  logic [CHANNELS-1:0] trusted_q;  // confirmed by the firmware
  logic first_q;                    // the channel answered last has priority
  logic [ChannelW-1:0] first_channel_q, turn_q, pick, pick_q;
  logic [CHANNELS-1:0] may_place, looks;
  logic look, look_q, picked_q;
  logic [ChannelW-1:0] look_channel, look_channel_q;

  function automatic logic [1:0] board_of(input logic [7:0] board);
    return board == 8'hFF ? 2'd0 : board[1:0];  // a merged stream uses board 0
  endfunction

  always_comb begin
    for (int c = 0; c < int'(CHANNELS); c++) begin
      looks[c]     = place_valid[c] && place[c].kind == PlaceLook && !placed_valid[c];
      may_place[c] = place_valid[c] && place[c].kind != PlaceLook && !placed_valid[c] && !blocked_q[c] &&
                     !(slowpath_busy_q && (slowpath_channel_q == ChannelW'(c) ||
                                    slowpath_busy_board_q == board_of(place[c].header.board)));
    end
    look_channel = '0;
    for (int c = int'(CHANNELS) - 1; c >= 0; c--) if (looks[c]) look_channel = ChannelW'(c);
    pick = '0;
    for (int c = int'(CHANNELS) - 1; c >= 0; c--) if (may_place[c]) pick = ChannelW'(c);
    for (int c = int'(CHANNELS) - 1; c >= 0; c--)
      if (may_place[c] && ChannelW'(c) > turn_q) pick = ChannelW'(c);
    if (first_q && may_place[first_channel_q]) pick = first_channel_q;
  end

  // The choice is made one cycle early because its inputs and outputs have long wires. Channels answered
  // in between are excluded.
  assign look = look_q && !placed_valid[look_channel_q];
  always_ff @(posedge clk) begin
    look_q         <= looks != 0;
    look_channel_q <= look_channel;
    picked_q       <= may_place != 0;
    pick_q         <= pick;
    if (rst || !enable) begin
      look_q   <= 1'b0;
      picked_q <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ current request

  place_request_t request_q;
  logic [ChannelW-1:0] channel_q;
  logic [1:0] board_q;
  logic [31:0] number_q;  // sequence number under lookup
  logic of_current_q, of_old_q, trusts_q, flag_q, marker_q;
  logic [63:0] stamp_q;  // 64-bit packet stamp
  logic wrapped_q;

  // ------------------------------------------------------------------ selection of the next action

  logic settled, held_q, overrun_due, take_overrun_notice;
  logic take_command, take_look, take_place, take_tracked, take_close;
  logic take_response, notice_full, notice_waiting, command_valid_q;
  logic drops_q;  // the firmware's answer drops the packet; counted by its reason
  placed_e drops_as_q;
  command_t command_q;

  // Buffer being filled.
  logic has, opens, fills, closed;
  placed_e place_as;
  logic [63:0] slot_vaddr;
  logic [31:0] n, start_q;
  logic [2:0] start_channel_q;
  logic [DeviceW-1:0] device;
  packets_notice_t closing;

  // Registered conditions only, since the result has a large fan-out.
  assign settled             = step_q == StepIdle && !held_q;
  assign take_overrun_notice = settled && overrun_due;
  assign take_command        = settled && !overrun_due && command_valid_q;
  assign take_tracked        = take_command && (command_q.op == CommandSeen ||
                                                command_q.op == CommandRestart ||
                                                command_q.op == CommandWatch);
  assign take_close          = take_command && command_q.op == CommandClose && !command_q.flag;
  assign take_response       = take_command && command_q.op == CommandAnswer && slowpath_busy_q;
  assign take_look           = settled && !overrun_due && !command_valid_q && look;
  assign take_place          = settled && !overrun_due && !command_valid_q && !look && picked_q &&
                               !placed_valid[pick_q];
  assign flush               = take_command && command_q.op == CommandBurst;

  assign command_ready = !command_valid_q;

  // ------------------------------------------------------------------ sequence numbers

  logic replayed, jump, watched, ordinary, unused_far;
  logic taken, admitted, escalates, waits_q, places, late, other, escalates_now, drops_replayed;

  clop_sequence sequence_numbers (
      .clk,
      .rst       (rst || !enable),
      .clear     (!run_q),
      .clear_addr(10'(clear_q)),
      .flush,
      .flush_half(!half_q),
      .half      (half_q ^ of_old_q),
      .board     (board_q),
      .number    (number_q),
      .frame     ('0),
      .started   (1'b0),
      .last_known('0),
      .replayed,
      .jump,
      .far_ahead(unused_far),
      .watched,
      .ordinary,
      .take      (taken),
      .admit     (admitted),
      .escalated (escalates_now && !other),
      .restart   (step_q == StepClassify && work_q == WorkRestart),
      .at_frame  (1'b0),
      .watch     (step_q == StepClassify && work_q == WorkWatch),
      .watch_flag(flag_q),
      .missing
  );

  // Valid in StepClassify; first match applies.
  always_comb begin
    other          = !of_current_q && !of_old_q;
    late           = of_old_q && old_over_q && !trusts_q;
    escalates      = !trusts_q && (other || (!late && (marker_q || watched || (jump && !replayed))));
    drops_replayed = !trusts_q && !late && !escalates && replayed;
    places         = step_q == StepClassify && work_q == WorkPlace && !late && !escalates &&
                     !drops_replayed && !(waits_q && !has);
    escalates_now  = step_q == StepClassify && work_q == WorkPlace && escalates && !slowpath_busy_q;
    admitted       = places;
    taken          = places && !trusts_q;
    if (step_q == StepClassify && (work_q == WorkSeen || (work_q == WorkPlace && late)))
      taken = !replayed && (work_q == WorkSeen || !jump);
  end

  // ------------------------------------------------------------------ current buffer, notifications

  clop_packets_fill #(
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES),
      .FIRST_N    (FIRST_N)
  ) fill (
      .clk,
      .rst    (rst || !enable),
      .log2_buffers,
      .log2_devices,
      .base_vaddr,
      .buffer_units,
      .packets,
      .slot_bytes,
      .now,
      .return_valid,
      .return_index,
      .return_value,
      .room,
      .promise,
      .place  (step_q == StepPlace),
      .request(request_q),
      .has,
      .as     (place_as),
      .opens,
      .fills,
      .vaddr  (slot_vaddr),
      .close  (take_close),
      .start  (start_q),
      .channel(start_channel_q),
      .closed,
      .closing,
      .n,
      .device,
      .tx_pending_req,
      .tx_pending_ready,
      .sender_next
  );

  clop_packets_notify #(
      .CHANNELS(CHANNELS),
      .DEVICES (DEVICES)
  ) i_notify (
      .clk,
      .rst          (rst || !enable),
      .used         (step_q == StepPlace && place_as == PlacedUsed),
      .channel      (channel_q),
      .serial       (request_q.serial),
      .missed       (step_q == StepPlace && place_as == PlacedOverrun),
      .missed_n     (n),
      .missed_frame (request_q.header.frame),
      .missed_device(device),
      .done_serial,
      .closed,
      .closing,
      .overrun_due,
      .take(take_overrun_notice),
      .room,
      .half_free,
      .notice_valid,
      .notice_ready,
      .notice,
      .notice_fence,
      .done,
      .notice_done,
      .full   (notice_full),
      .waiting(notice_waiting)
  );

  // ------------------------------------------------------------------ state machine

  // Pulses from the current packet to its channel and to the counters.
  logic ends;
  placed_e ends_as;
  always_comb begin
    ends    = 1'b0;
    ends_as = PlacedUsed;
    if (step_q == StepClassify && work_q == WorkPlace) begin
      ends    = late || drops_replayed;
      ends_as = late ? PlacedLate : PlacedReplayed;
    end else if (step_q == StepPlace) begin
      ends    = 1'b1;
      ends_as = place_as;
    end else if (drops_q) begin
      ends    = 1'b1;
      ends_as = drops_as_q;
    end
    place_ready = '0;
    if (take_look) place_ready[look_channel_q] = 1'b1;
    if (ends) place_ready[drops_q ? slowpath_channel_q : channel_q] = 1'b1;
  end

  always_ff @(posedge clk) begin
    placed_valid   <= place_ready;
    placed_rsp.accept  <= step_q == StepPlace && place_as == PlacedUsed;
    placed_rsp.defer   <= take_look;
    placed_rsp.vaddr   <= slot_vaddr;
    counted        <= ends;
    counted_as     <= ends_as;
    counted_hits   <= request_q.hits;
    counted_events <= request_q.header.events;
    buffer_pending <= opens;
    waits_q        <= waits;
    drops_q        <= take_response && command_q.as != PlacedUsed && command_q.as != PlacedAdmit;
    drops_as_q     <= command_q.as;
    if (rst || !enable) begin
      placed_valid   <= '0;
      drops_q        <= 1'b0;
      counted        <= 1'b0;
      buffer_pending <= 1'b0;
    end
  end

  // Steps.
  always_ff @(posedge clk) begin
    unique case (step_q)
      StepIdle: begin
        request_q <= place[pick_q];
        channel_q <= pick_q;
        trusts_q  <= trusted_q[pick_q];
        if (take_place) begin
          turn_q  <= pick_q;
          step_q  <= StepChoose;
          first_q <= 1'b0;
        end
        if (take_command) step_q <= take_tracked ? StepRead : StepSettle;
        // A pending command has priority over packets, so its presence is a sufficient condition.
        if (command_valid_q) begin
          unique case (command_q.op)
            CommandSeen:    work_q <= WorkSeen;
            CommandRestart: work_q <= WorkRestart;
            default:        work_q <= WorkWatch;
          endcase
          board_q  <= command_q.board;
          number_q <= command_q.sequence_number;
          of_old_q <= command_q.old;
          flag_q   <= command_q.flag;
        end else begin
          work_q   <= WorkPlace;
        end
      end
      StepChoose: begin
        of_current_q <= current_known_q && request_q.header.burst == current_number_q;
        of_old_q     <= old_known_q && request_q.header.burst == old_number_q &&
                        !(current_known_q && request_q.header.burst == current_number_q);
        stamp_q      <= {now[63:32], request_q.stamp};
        wrapped_q    <= now[31:0] < request_q.stamp;
        marker_q     <= (request_q.header.flags & (MgpSob | MgpEob)) != 0;
        board_q      <= board_of(request_q.header.board);
        number_q     <= (request_q.header.flags & MgpSob) != 0 ? '0 : request_q.header.sequence_number;
        step_q       <= StepRead;
      end
      StepRead: begin
        stamp_q[63:32] <= stamp_q[63:32] - 32'(wrapped_q);
        step_q         <= StepWait;
      end
      StepWait: step_q <= StepCapture;
      StepCapture: step_q <= StepCompare;
      StepCompare: step_q <= StepClassify;
      StepClassify: begin
        step_q <= places ? StepPlace : work_q == WorkPlace && escalates ? StepSettle : StepIdle;
        if (work_q == WorkPlace) begin
          if (of_current_q) last_packet <= stamp_q;
          if (escalates && slowpath_busy_q) blocked_q[channel_q] <= 1'b1;
        end
      end
      StepPlace: step_q <= fills ? StepSettle : StepIdle;
      StepSettle: step_q <= StepIdle;
      default: step_q <= StepIdle;
    endcase

    // Firmware requests and commands.
    if (slowpath_req.valid && slowpath_ready) slowpath_req.valid <= 1'b0;
    if (escalates_now) begin
      slowpath_busy_q                   <= 1'b1;
      slowpath_channel_q                <= channel_q;
      slowpath_busy_board_q             <= board_q;
      slowpath_req.valid                    <= 1'b1;
      slowpath_req.item <= '{header: request_q.header, stamp: request_q.stamp, channel: 3'(channel_q),
                             reason: '0,
                    old: of_old_q, ordinary: ordinary && !other, active: !other, old_active: 1'b0};
      slowpath_req.item.reason[SlowpathMarker]   <= marker_q;
      slowpath_req.item.reason[SlowpathOther]    <= other;
      slowpath_req.item.reason[SlowpathJump]     <= jump && !other;
      slowpath_req.item.reason[SlowpathWatched]  <= watched && !other;
      slowpath_req.item.reason[SlowpathReplayed] <= replayed && !other;
    end
    if (step_q == StepClassify && places) trusted_q[channel_q] <= 1'b0;
    if (take_response) begin
      slowpath_busy_q <= 1'b0;
      blocked_q       <= '0;
      first_q         <= 1'b1;
      first_channel_q <= slowpath_channel_q;
      if (command_q.as == PlacedAdmit) trusted_q[slowpath_channel_q] <= 1'b1;
    end
    if (flush) begin
      current_known_q  <= 1'b1;
      current_number_q <= command_q.frame[7:0];
      old_known_q      <= current_known_q;
      old_number_q     <= current_number_q;
      old_over_q       <= 1'b0;
      half_q           <= !half_q;
    end
    if (take_command && command_q.op == CommandClose && command_q.flag && command_q.old) old_over_q <= 1'b1;

    if (step_q == StepPlace) begin
      start_q         <= request_q.stamp;
      start_channel_q <= 3'(channel_q);
    end else if (take_close) begin  // by an EOB or a timeout
      start_q         <= slowpath_busy_q ? slowpath_req.item.stamp : '0;
      start_channel_q <= slowpath_busy_q ? slowpath_req.item.channel : '0;
    end
    command_q <= command_ready ? command_req.item : command_q;
    if (command_ready) command_valid_q <= command_req.valid;
    if (take_command) command_valid_q <= 1'b0;

    // Waits for the sender, the notification queue or clearing; StepSettle then closes and passes the number.
    held_q <= !run_q || notice_full || closed || (tx_pending_req.valid && !tx_pending_ready);

    if (!run_q) begin
      clear_q <= clear_q + 1'b1;
      if (clear_q == '1) run_q <= 1'b1;
    end

    if (rst || !enable) begin
      step_q          <= StepIdle;
      run_q           <= 1'b0;
      held_q          <= 1'b1;
      clear_q         <= '0;
      current_known_q <= 1'b0;
      old_known_q     <= 1'b0;
      old_over_q      <= 1'b0;
      half_q          <= 1'b0;
      slowpath_busy_q <= 1'b0;
      slowpath_req.valid  <= 1'b0;
      blocked_q       <= '0;
      trusted_q       <= '0;
      first_q         <= 1'b0;
      turn_q          <= '0;
      command_valid_q <= 1'b0;
      last_packet     <= '0;
    end
  end

  always_ff @(posedge clk)
    idle <= run_q && step_q == StepIdle && place_valid == 0 && !slowpath_busy_q && !drops_q && !closed &&
            !tx_pending_req.valid && !notice_waiting && !command_valid_q;

  logic unused;
  assign unused = &{1'b0, unused_far, command_q, request_q};

endmodule
