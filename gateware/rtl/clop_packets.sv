// SPDX-License-Identifier: SHL-2.1
// Circular list of persistent buffers of one stream, gather mode `packets`: a fixed number of payloads in
// each buffer, in the order in which they are here whole, n counting buffers (docs/formats.md, Memory
// contract). Sits where clop and clop_close sit in the other mode; what is rare waits for the firmware.
module clop_packets
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Channels that place packets.
    parameter int unsigned CHANNELS = 2,
    // Largest number of buffers of all devices together; a power of two.
    parameter int unsigned MAX_BUFFERS = 2048,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1,
    // Number of the first buffer.
    parameter logic [63:0] FIRST_N = 0,
    // Cycles of forgetting, as an exponent of two; 10 clears clop_sequence.
    parameter int unsigned CLEAR_W = 10
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while enabled; enabling forgets everything
     */
    input  logic                     enable,
    input  logic [4:0]               log2_buffers,
    input  logic [4:0]               log2_devices,
    input  logic [DEVICES-1:0][63:0] base_vaddr,
    input  logic [17:0]              buffer_units,  // bytes of a buffer / 64
    input  logic [12:0]              packets,       // payloads of a buffer, 1 to 4096
    input  logic [16:0]              slot_bytes,    // of a payload, a multiple of 16
    input  logic                     waits,         // for a buffer, where payloads are dropped else
    input  logic [63:0]              now,
    output logic                     ready,         // has forgotten everything

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
    input  logic [CHANNELS-1:0][7:0]      done_serial,

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
    input  logic [31:0] sender_next,  // low word

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
     * closed buffers and other news, in order, to clop_packets_close
     */
    output logic                                news_valid,
    input  logic                                news_ready,
    output packets_news_t                       news,
    output logic [CHANNELS-1:0][PacketsTicket-1:0] news_ticket,  // packets that have to be written before
    output logic [CHANNELS-1:0][PacketsTicket-1:0] done,         // that are
    input  logic                                news_told,    // an overrun's event has its entry

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
    output logic             buffer_owed,
    output logic [3:0][31:0] missing,

    // nothing is under way, and nothing waits
    output logic idle
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);
  localparam int unsigned ChannelW = CHANNELS > 1 ? $clog2(CHANNELS) : 1;
  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;
  localparam int unsigned News = 16;

  if (MAX_BUFFERS < 2 || 2 ** IndexW != MAX_BUFFERS || MAX_BUFFERS > 65536) begin : gen_check_buffers
    $fatal(1, "MAX_BUFFERS must be a power of two, 2 to 65536 (%m)");
  end
  if (CHANNELS < 1 || CHANNELS > 8) begin : gen_check_channels
    $fatal(1, "CHANNELS must be 1 to 8 (%m)");
  end

  typedef enum logic [2:0] {
    StepIdle,
    StepChoose,  // of which burst
    StepRead,    // clop_sequence looks, up to StepDecide
    StepWait,
    StepJudge,
    StepWeigh,
    StepDecide,
    StepPlace
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

  // ------------------------------------------------------------------ bursts, and who is next

  logic current_known_q, old_known_q, old_over_q;
  logic [7:0] current_number_q, old_number_q;
  logic half_q;  // where clop_sequence keeps the current burst's boards
  logic forget;

  logic asking_q;  // a request is with the firmware
  logic [ChannelW-1:0] asking_channel_q;
  logic [1:0] asking_board_q;
  logic [CHANNELS-1:0] blocked_q;   // would ask, too: judged anew after that
  logic [CHANNELS-1:0] believed_q;  // the firmware has said so
  logic first_q;                    // the channel that was answered goes before the others
  logic [ChannelW-1:0] first_channel_q, turn_q, pick;
  logic [CHANNELS-1:0] may_place, looks;
  logic look;
  logic [ChannelW-1:0] look_channel;

  function automatic logic [1:0] board_of(input logic [7:0] board);
    return board == 8'hFF ? 2'd0 : board[1:0];  // one merged stream is board 0
  endfunction

  always_comb begin
    for (int c = 0; c < int'(CHANNELS); c++) begin
      looks[c]     = place_valid[c] && place[c].kind == PlaceLook && !placed_valid[c];
      may_place[c] = place_valid[c] && place[c].kind != PlaceLook && !placed_valid[c] && !blocked_q[c] &&
                     !(asking_q && (asking_channel_q == ChannelW'(c) ||
                                    asking_board_q == board_of(place[c].header.board)));
    end
    look         = looks != 0;
    look_channel = '0;
    for (int c = int'(CHANNELS) - 1; c >= 0; c--) if (looks[c]) look_channel = ChannelW'(c);
    pick = '0;
    for (int c = int'(CHANNELS) - 1; c >= 0; c--) if (may_place[c]) pick = ChannelW'(c);
    for (int c = int'(CHANNELS) - 1; c >= 0; c--)
      if (may_place[c] && ChannelW'(c) > turn_q) pick = ChannelW'(c);
    if (first_q && may_place[first_channel_q]) pick = first_channel_q;
  end

  // ------------------------------------------------------------------ the request

  place_request_t request_q;
  logic [ChannelW-1:0] channel_q;
  logic [1:0] board_q;
  logic [31:0] number_q;  // sequence number that is looked at
  logic of_current_q, of_old_q, believes_q, flag_q, marker_q, fits_q;
  logic [63:0] stamp_q;
  logic [PacketsTicket-1:0] ticket_now_q;

  // Packets of a channel that are done, in more bits than their serial has: news may wait long.
  logic [CHANNELS-1:0][7:0] serial_q;
  logic [CHANNELS-1:0][PacketsTicket-1:0] done_q, ticket_q;
  always_ff @(posedge clk) begin
    for (int c = 0; c < int'(CHANNELS); c++)
      done_q[c] <= done_q[c] + PacketsTicket'(8'(done_serial[c] - serial_q[c]));
    serial_q <= done_serial;
    if (rst || !enable) done_q <= '0;
  end

  // ------------------------------------------------------------------ the buffer that is next

  logic [63:0] n_q;
  logic open_q;
  logic [12:0] filled_q;
  logic [31:0] bytes_q;
  logic [23:0] frame_q;
  logic [63:0] slot_vaddr_q;

  logic [IndexW-1:0] buffer_q;
  logic [DeviceW-1:0] device_q;
  logic [63:0] buffer_vaddr_q;
  logic avail_q, opens;
  logic [DEVICES-1:0] room_q, told_room_q;

  // Known long before it is asked for: n changes when a buffer is closed.
  clop_packets_buffer #(
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES)
  ) buffers (
      .clk,
      .rst      (rst || !enable),
      .log2_buffers,
      .log2_devices,
      .base_vaddr,
      .buffer_units,
      .sender_next,
      .return_valid,
      .return_index,
      .return_value,
      .n        (n_q[31:0]),
      .taken    (opens),
      .buffer   (buffer_q),
      .device   (device_q),
      .vaddr    (buffer_vaddr_q),
      .available(avail_q)
  );

  always_ff @(posedge clk) begin
    for (int d = 0; d < int'(DEVICES); d++) begin
      room_q[d]      <= room[d] >= 16'd4;
      told_room_q[d] <= room[d] != 0 && half_free[d];
    end
  end

  // ------------------------------------------------------------------ what the machine takes up

  logic settled, take_told, take_command, take_look, take_place, take_tracked, take_close, take_answer;
  logic owed_pending_q, overrun_q, news_push_q, unused_news_room, closes_q;
  logic [$clog2(News):0] news_level;
  packets_news_t news_in_q;
  logic [CHANNELS-1:0][PacketsTicket-1:0] news_ticket_q;
  logic news_room_q, command_valid_q;
  logic drops_q;  // the packet that was with the firmware, counted as it said
  placed_e drops_as_q;
  command_t command_q;
  logic [31:0] overrun_count_q;
  logic [31:0] overrun_n_q;
  logic [23:0] overrun_frame_q;
  logic [DeviceW-1:0] overrun_device_q;
  logic told_out_q;
  logic [31:0] start_q;
  logic [2:0] start_channel_q;

  assign settled      = run_q && step_q == StepIdle && !owed_pending_q && !closes_q && !drops_q &&
                        news_room_q;
  assign take_told    = settled && overrun_q && told_room_q[overrun_device_q] && !told_out_q;
  assign take_command = settled && !take_told && command_valid_q;
  assign take_tracked = take_command && (command_q.op == CommandSeen || command_q.op == CommandRestart ||
                                         command_q.op == CommandWatch);
  assign take_close   = take_command && command_q.op == CommandClose && !command_q.flag;
  assign take_answer  = take_command && command_q.op == CommandAnswer && asking_q;
  assign take_look    = settled && !take_told && !command_valid_q && look;
  assign take_place   = settled && !take_told && !command_valid_q && !look && may_place != 0;
  assign forget       = take_command && command_q.op == CommandBurst;

  assign command_ready = !command_valid_q;
  assign owed_valid    = owed_pending_q;

  // ------------------------------------------------------------------ sequence numbers

  logic replayed, jump, watched, ordinary, unused_far;
  logic taken, admitted, asks, waits_q, places, late, other, asks_now, drops_replayed;

  clop_sequence sequence_numbers (
      .clk,
      .rst        (rst || !enable),
      .clear      (!run_q),
      .clear_addr (10'(clear_q)),
      .forget,
      .forget_half(!half_q),
      .half       (half_q ^ of_old_q),
      .board      (board_q),
      .number     (number_q),
      .frame      ('0),
      .started    (1'b0),
      .last_known ('0),
      .replayed,
      .jump,
      .far_ahead  (unused_far),
      .watched,
      .ordinary,
      .take       (taken),
      .admit      (admitted),
      .asked      (asks_now && !other),
      .restart    (step_q == StepDecide && work_q == WorkRestart),
      .at_frame   (1'b0),
      .watch      (step_q == StepDecide && work_q == WorkWatch),
      .watch_flag (flag_q),
      .missing
  );

  // In StepDecide; the first that applies.
  always_comb begin
    other          = !of_current_q && !of_old_q;
    late           = of_old_q && old_over_q && !believes_q;
    asks           = !believes_q && (other || (!late && (marker_q || watched || (jump && !replayed))));
    drops_replayed = !believes_q && !late && !asks && replayed;
    places         = step_q == StepDecide && work_q == WorkPlace && !late && !asks && !drops_replayed &&
                     !(waits_q && !open_q && !(avail_q && room_q[device_q]));
    asks_now       = step_q == StepDecide && work_q == WorkPlace && asks && !asking_q;
    admitted       = places;
    taken          = places && !believes_q;
    if (step_q == StepDecide && (work_q == WorkSeen || (work_q == WorkPlace && late)))
      taken = !replayed && (work_q == WorkSeen || !jump);
  end

  // ------------------------------------------------------------------ the machine

  // What StepPlace needs, known before it; the buffer is closed in the cycle after.
  logic opens_q, has_q, fills_q, uses;
  logic [63:0] here_q;
  logic [12:0] filled_next_q;
  logic [31:0] bytes_next_q;

  assign opens = step_q == StepPlace && opens_q;
  assign uses  = step_q == StepPlace && has_q && fits_q;

  always_ff @(posedge clk) begin
    opens_q       <= !open_q && avail_q && room_q[device_q];
    has_q         <= open_q || (avail_q && room_q[device_q]);
    here_q        <= open_q ? slot_vaddr_q : buffer_vaddr_q;
    filled_next_q <= (open_q ? filled_q : '0) + 13'd1;
    bytes_next_q  <= (open_q ? bytes_q : '0) + 32'(request_q.header.length);
    fills_q       <= (open_q ? filled_q : '0) + 13'd1 == packets;
    closes_q      <= (uses && fills_q) || (take_close && open_q);
    if (rst || !enable) closes_q <= 1'b0;
  end

  // Pulses that carry the packet in hand to its channel and to the counters.
  logic ends;
  placed_e ends_as;
  always_comb begin
    ends    = 1'b0;
    ends_as = PlacedUsed;
    if (step_q == StepDecide && work_q == WorkPlace) begin
      ends    = late || drops_replayed;
      ends_as = late ? PlacedLate : PlacedReplayed;
    end else if (step_q == StepPlace) begin
      ends    = 1'b1;
      ends_as = !has_q ? PlacedOverrun : !fits_q ? PlacedOverflow : PlacedUsed;
    end else if (drops_q) begin
      ends    = 1'b1;
      ends_as = drops_as_q;
    end
    place_ready = '0;
    if (take_look) place_ready[look_channel] = 1'b1;
    if (ends) place_ready[drops_q ? asking_channel_q : channel_q] = 1'b1;
  end

  always_ff @(posedge clk) begin
    placed_valid  <= place_ready;
    placed_accept <= uses;
    placed_defer  <= take_look;
    placed_vaddr  <= here_q;
    counted       <= ends;
    counted_as    <= ends_as;
    counted_hits  <= request_q.hits;
    counted_events <= request_q.header.events;
    buffer_owed   <= opens;
    promise       <= '0;
    if (opens) promise[device_q] <= 1'b1;
    waits_q       <= waits;
    drops_q       <= take_answer && command_q.as != PlacedUsed && command_q.as != PlacedAdmit;
    drops_as_q    <= command_q.as;
    if (rst || !enable) begin
      placed_valid <= '0;
      drops_q      <= 1'b0;
      counted      <= 1'b0;
      promise      <= '0;
      buffer_owed  <= 1'b0;
    end
  end

  // Steps.
  always_ff @(posedge clk) begin
    unique case (step_q)
      StepIdle: begin
        request_q  <= place[pick];
        channel_q  <= pick;
        marker_q   <= (place[pick].header.flags & (MgpSob | MgpEob)) != 0;
        believes_q <= believed_q[pick];
        if (take_place) begin
          turn_q  <= pick;
          step_q  <= StepChoose;
          first_q <= 1'b0;
        end
        if (take_tracked) step_q <= StepRead;
        // Whatever is taken up: a command goes before packets, so its being there says enough.
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
          board_q  <= board_of(place[pick].header.board);
          number_q <= (place[pick].header.flags & MgpSob) != 0 ? '0 : place[pick].header.sequence_number;
        end
      end
      StepChoose: begin
        of_current_q <= current_known_q && request_q.header.burst == current_number_q;
        of_old_q     <= old_known_q && request_q.header.burst == old_number_q &&
                        !(current_known_q && request_q.header.burst == current_number_q);
        stamp_q      <= {now[63:32] - 32'(now[31:0] < request_q.stamp), request_q.stamp};
        step_q       <= StepRead;
      end
      StepRead: step_q <= StepWait;
      StepWait: step_q <= StepJudge;
      StepJudge: step_q <= StepWeigh;
      StepWeigh: begin
        fits_q       <= 17'(request_q.header.length) <= slot_bytes;
        ticket_now_q <= done_q[channel_q] + PacketsTicket'(8'(request_q.serial + 8'd1 - serial_q[channel_q]));
        step_q       <= StepDecide;
      end
      StepDecide: begin
        step_q <= places ? StepPlace : StepIdle;
        if (work_q == WorkPlace) begin
          if (of_current_q) last_packet <= stamp_q;
          if (asks && asking_q) blocked_q[channel_q] <= 1'b1;
        end
      end
      StepPlace: step_q <= StepIdle;
      default: step_q <= StepIdle;
    endcase

    // The firmware's part.
    if (rare_valid && rare_ready) rare_valid <= 1'b0;
    if (asks_now) begin
      asking_q         <= 1'b1;
      asking_channel_q <= channel_q;
      asking_board_q   <= board_q;
      rare_valid       <= 1'b1;
      rare             <= '{header: request_q.header, stamp: request_q.stamp, channel: 3'(channel_q),
                            reason: '0, old: of_old_q, ordinary: ordinary && !other, active: !other,
                            old_active: 1'b0};
      rare.reason[RareMarker]   <= marker_q;
      rare.reason[RareOther]    <= other;
      rare.reason[RareJump]     <= jump && !other;
      rare.reason[RareWatched]  <= watched && !other;
      rare.reason[RareReplayed] <= replayed && !other;
    end
    if (step_q == StepDecide && places) believed_q[channel_q] <= 1'b0;
    if (take_answer) begin
      asking_q        <= 1'b0;
      blocked_q       <= '0;
      first_q         <= 1'b1;
      first_channel_q <= asking_channel_q;
      if (command_q.as == PlacedAdmit) believed_q[asking_channel_q] <= 1'b1;
    end
    if (forget) begin
      current_known_q  <= 1'b1;
      current_number_q <= command_q.frame[7:0];
      old_known_q      <= current_known_q;
      old_number_q     <= current_number_q;
      old_over_q       <= 1'b0;
      half_q           <= !half_q;
    end
    if (take_command && command_q.op == CommandClose && command_q.flag && command_q.old) old_over_q <= 1'b1;

    // The buffer.
    if (opens) begin
      open_q   <= 1'b1;
      filled_q <= '0;
      bytes_q  <= '0;
      frame_q  <= request_q.header.frame;
      slot_vaddr_q <= buffer_vaddr_q;
    end
    if (uses) begin
      ticket_q[channel_q] <= ticket_now_q;
      filled_q     <= filled_next_q;
      bytes_q      <= bytes_next_q;
      slot_vaddr_q <= here_q + 64'(slot_bytes);
    end
    if (owed_ready) owed_pending_q <= 1'b0;
    if (closes_q) begin
      open_q         <= 1'b0;
      n_q            <= n_q + 64'd1;
      owed_pending_q <= 1'b1;
      owed           <= '{overrun: 1'b0, count: 32'd1, frame: 32'(frame_q), n: n_q, stamp: now};
    end

    // Payloads without a buffer are one entry for as long as fewer than half of the entries are free.
    // One such event at a time: what opening leaves of the room is enough for it, wherever it waits.
    if (news_told) told_out_q <= 1'b0;
    if (take_told) begin
      overrun_q  <= 1'b0;
      told_out_q <= 1'b1;
    end
    if (step_q == StepPlace && !has_q) begin
      overrun_q       <= 1'b1;
      overrun_count_q <= overrun_q ? overrun_count_q + 1'b1 : 32'd1;
      if (!overrun_q) begin
        overrun_n_q      <= n_q[31:0];
        overrun_frame_q  <= request_q.header.frame;
        overrun_device_q <= device_q;
      end
    end

    if (step_q == StepPlace) begin
      start_q         <= request_q.stamp;
      start_channel_q <= 3'(channel_q);
    end else if (take_close) begin  // by an EOB, or by nobody
      start_q         <= asking_q ? rare.stamp : '0;
      start_channel_q <= asking_q ? rare.channel : '0;
    end
    command_q <= command_ready ? command : command_q;
    if (command_ready) command_valid_q <= command_valid;
    if (take_command) command_valid_q <= 1'b0;

    news_room_q   <= news_level < ($clog2(News) + 1)'(News - 3);
    news_push_q   <= closes_q || take_told;
    news_ticket_q <= ticket_q;
    if (take_told) begin
      // How many payloads found no buffer, with number and frame of the one that was wanted.
      news_in_q <= '{overrun: 1'b1, n: overrun_n_q, device: 8'(overrun_device_q), frame: overrun_frame_q,
                     bytes: overrun_count_q, default: '0};
    end else begin
      news_in_q <= '{overrun: 1'b0, n: n_q[31:0], buffer: 16'(buffer_q), device: 8'(device_q), frame: frame_q,
                     bytes: bytes_q, empty: packets - filled_q, vaddr: slot_vaddr_q, start: start_q,
                     channel: start_channel_q};
    end

    if (!run_q) begin
      clear_q <= clear_q + 1'b1;
      if (clear_q == '1) run_q <= 1'b1;
    end

    if (rst || !enable) begin
      step_q           <= StepIdle;
      run_q            <= 1'b0;
      clear_q          <= '0;
      current_known_q  <= 1'b0;
      old_known_q      <= 1'b0;
      old_over_q       <= 1'b0;
      half_q           <= 1'b0;
      asking_q         <= 1'b0;
      rare_valid       <= 1'b0;
      blocked_q        <= '0;
      believed_q       <= '0;
      first_q          <= 1'b0;
      turn_q           <= '0;
      n_q              <= FIRST_N;
      open_q           <= 1'b0;
      owed_pending_q   <= 1'b0;
      overrun_q        <= 1'b0;
      news_push_q      <= 1'b0;
      command_valid_q  <= 1'b0;
      told_out_q       <= 1'b0;
      ticket_q         <= '0;
      last_packet      <= '0;
    end
  end

  fifo #(
      .WIDTH($bits(packets_news_t) + CHANNELS * PacketsTicket),
      .DEPTH(News)
  ) news_fifo (
      .clk,
      .rst      (rst || !enable),
      .in_valid (news_push_q),
      .in_ready (unused_news_room),
      .in_data  ({news_ticket_q, news_in_q}),
      .out_valid(news_valid),
      .out_ready(news_ready),
      .out_data ({news_ticket, news}),
      .level    (news_level)
  );

  assign done = done_q;
  always_ff @(posedge clk)
    idle <= run_q && step_q == StepIdle && place_valid == 0 && !asking_q && !drops_q && !closes_q &&
            !owed_pending_q && !overrun_q && !news_push_q && !news_valid && !command_valid_q;

  logic unused;
  assign unused = &{1'b0, unused_news_room, unused_far, command_q, request_q};

endmodule
