// SPDX-License-Identifier: SHL-2.1
// Sender (docs/formats.md, Send ring): passes every pending number in order of n. Sends the consumer's
// posted payload, read by DMA, or at the deadline, which TTC time may advance, a header-only packet; it alone
// decides on lateness.
// Reads of an abandoned number are discarded.
module sender
  import nanet_dma_pkg::*;
#(
    // Width of a DMA word in bits: 128 or 256.
    parameter int unsigned DATA_W = 256,
    // Consumer devices that share the numbering: 1, 2, 4 or 8.
    parameter int unsigned DEVICES = 1,
    // UDP endpoints.
    parameter int unsigned DESTINATIONS = 4,
    // Depth of the queue of pending numbers, a power of two.
    parameter int unsigned TX_PENDING = 2048,
    // Numbers tracked for late answers, a power of two; at least devices times descriptors.
    parameter int unsigned REMEMBERED = 4096
) (
    input logic clk,
    input logic rst,

    /*
     * Configuration, steady while enabled. Counts are powers of two, given by their exponents
     */
    input logic                            enable,
    input send_cfg_t                       cfg,
    input logic [DEVICES-1:0][63:0]        ring_base,         // bus address of the send ring
    input logic [DEVICES-1:0][63:0]        send_base,         // send-buffer base in descriptor addresses
    input logic [DEVICES-1:0][63:0]        send_bus,          // send-buffer base on the bus
    input logic [$clog2(DESTINATIONS)-1:0] late_destination,
    input endpoint_t [DESTINATIONS-1:0]    destinations,

    input logic [63:0] now,

    /*
     * From the final trigger: answers up to this frame are late
     */
    input logic        overdue_valid,
    input logic [23:0] overdue_frame,

    /*
     * From the receive path
     */
    input  tx_pending_req_t tx_pending_req,
    output logic            tx_pending_ready,
    output logic [63:0]     sender_next,

    /*
     * Doorbell register
     */
    input logic        bell_valid,
    input logic [31:0] bell_n,

    /*
     * DMA read; tags use 6 bits
     */
    output dma_rd_req_t       rd_req,
    output logic              rd_data_ready,
    input  dma_rd_rsp_t       rd_rsp,
    input  logic [DATA_W-1:0] rd_data,

    /*
     * To udp_transmit
     */
    output logic data_valid,
    input  logic data_ready,
    // Room for the longest payload.
    input  logic                      data_room,
    output logic [DATA_W-1:0]         data,
    output logic [$clog2(DATA_W/8):0] data_bytes,
    output logic                      cmd_valid,
    input  logic                      cmd_ready,
    output logic                      cmd_send,
    output logic [15:0]               cmd_bytes,
    output endpoint_t                 cmd_to,

    /*
     * Send-done events, to each device's event queue (promised)
     */
    output logic [DEVICES-1:0] ev_valid,
    input  logic [DEVICES-1:0] ev_ready,
    output event_t             ev,

    /*
     * Counters: pulses
     */
    output send_cnt_t count_cnt
);

  localparam int unsigned DataB = DATA_W / 8;
  localparam int unsigned DevW = DEVICES > 1 ? $clog2(DEVICES) : 1;
  localparam int unsigned DestW = $clog2(DESTINATIONS);
  localparam logic [15:0] MaxPayload = 16'd1472;  // limit of a send buffer (docs/formats.md)
  localparam logic [3:0] MaxReads = 4'd8;

  localparam logic [1:0] ReadDescriptor = 2'd0;
  localparam logic [1:0] ReadPayload = 2'd1;
  localparam logic [1:0] ReadAgain = 2'd2;

  if (DATA_W != 128 && DATA_W != 256) begin : gen_check_width
    $fatal(1, "sender: DATA_W must be 128 or 256");
  end
  if (DESTINATIONS < 2) begin : gen_check_destinations
    $fatal(1, "sender: DESTINATIONS must be at least 2");
  end

  // ---------------------------------------------------------------- pending numbers

  logic fifo_valid, fifo_ready, head_valid, head_ready;
  tx_pending_t fifo_head, head;
  logic [$clog2(TX_PENDING):0] unused_tx_pending_level;

  fifo #(
      .WIDTH($bits(tx_pending_t)),
      .DEPTH(TX_PENDING)
  ) i_tx_pending (
      .clk,
      .rst,
      .in_valid (tx_pending_req.valid),
      .in_ready (tx_pending_ready),
      .in_data  (tx_pending_req.item),
      .out_valid(fifo_valid),
      .out_ready(fifo_ready),
      .out_data (fifo_head),
      .level    (unused_tx_pending_level)
  );

  // Register stage: the state of the current number has no path into the queue.
  assign fifo_ready = !head_valid;
  always_ff @(posedge clk) begin
    if (fifo_ready) head <= fifo_head;
    if (fifo_ready) head_valid <= fifo_valid;
    else if (head_ready) head_valid <= 1'b0;
    if (rst) head_valid <= 1'b0;
  end

  typedef enum logic [3:0] {
    Idle,
    Locate,  // ring index and lap of the number
    Address,
    Look,  // waits for a reason to read the descriptor, or for the deadline
    WaitDescriptor,
    Offset,
    End,
    Decode,
    Validate,
    WaitPayload,
    Discard,
    Header,
    Commit,
    Pass,
    Next
  } state_t;

  // One-hot states: most actions depend on one state and need no decoding.
  (* fsm_encoding = "one-hot" *) state_t state_q;
  tx_pending_t tx_pending_q;
  logic late_q, posted_q, look_q;
  logic [63:0] due_at_q, ring_addr_q, base_q;
  logic [31:0] index_q;
  logic [6:0] lap_shift_q;
  logic due_q, overdue_q;
  logic [31:0] turn_q, lap_q;
  logic [38:0] lap_part_q;
  logic [DevW-1:0] device_q;
  descriptor_t descriptor_q;
  logic [63:0] offset_q, end_q, payload_addr_q;
  logic [15:0] bytes_q, left_q;
  logic [DestW-1:0] destination_q;
  logic [31:0] token_q;
  logic [31:0] poll_q;
  logic [3:0] generation_q;

  // Descriptor checks: payload within the send buffers, valid endpoint. Each is evaluated with valid
  // operands.
  logic names_endpoint, fits_q, named_q, starts_inside_q, sound_q, empty_q;
  logic give_up;  // deadline reached
  assign give_up = due_q;

  function automatic logic [31:0] ring_index(input logic [63:0] n, input logic [4:0] devices,
                                             input logic [4:0] descriptors);
    return 32'(n >> devices) & ((32'd1 << descriptors) - 32'd1);
  endfunction

  // First half of a shift, in steps of eight; returns the bits needed by the second half.
  function automatic logic [38:0] by_eights(input logic [63:0] n, input logic [3:0] eights);
    return 39'(n >> {eights, 3'd0});
  endfunction

  logic [DevW-1:0] device;
  assign device = DevW'(tx_pending_q.n) & DevW'((32'd1 << cfg.log2_devices) - 32'd1);

  // ---------------------------------------------------------------- reads

  logic rd_valid_q;
  dma_cmd_t rd_cmd_q;
  logic [3:0] reads_q;
  logic may_read, needs_descriptor, read_descriptor, read_payload, read_again;

  assign rd_req.valid = rd_valid_q;
  assign rd_req.cmd = rd_cmd_q;
  assign may_read = !rd_valid_q && reads_q < MaxReads;
  assign needs_descriptor = state_q == Look && look_q;
  assign read_descriptor = needs_descriptor && !give_up && enable && may_read;
  // Without room, the payload read would block all later read responses.
  assign read_payload = state_q == Validate && sound_q && !empty_q && !give_up && may_read && data_room;

  logic [1:0] answer_kind;
  logic answer_current, answer_end;
  assign answer_kind = rd_rsp.data_tag[1:0];
  assign answer_current = rd_rsp.data_tag[5:2] == generation_q;
  assign answer_end = rd_rsp.data_valid && rd_data_ready && rd_rsp.data_last;

  logic payload_word, descriptor_end, payload_end;
  assign payload_word = rd_rsp.data_valid && state_q == WaitPayload && answer_kind == ReadPayload
                        && answer_current && !give_up;
  assign descriptor_end = answer_end && state_q == WaitDescriptor && answer_kind == ReadDescriptor
                          && answer_current;
  assign payload_end = answer_end && payload_word;
  assign rd_data_ready = payload_word ? data_ready : 1'b1;

  // A descriptor spans one or two words.
  logic [255:0] whole;
  if (DATA_W == 256) begin : gen_one_word
    assign whole = rd_data;
  end else begin : gen_two_words
    logic [127:0] lower_q;
    always_ff @(posedge clk) begin
      if (rd_rsp.data_valid && !rd_rsp.data_last && !payload_word) lower_q <= rd_data;
    end
    assign whole = {rd_data, lower_q};
  end
  descriptor_t arrived;
  assign arrived = whole;

  // ---------------------------------------------------------------- late answers

  // Every number passed late is checked once more: its doorbell may have come before the pass.
  // Later doorbells are counted directly; the table counts each number once.
  typedef enum logic [2:0] {
    Behind,  // distance behind the sender
    Compare,
    Decide,
    Query,
    Place,
    Read,
    Wait,
    Report
  } again_t;

  again_t again_q;
  logic [63:0] again_n_q, again_addr_q, gap_q, oldest_q;
  logic [31:0] again_lap_q, again_turn_q, again_index_q;
  logic [38:0] again_part_q;
  logic again_end, caught_up_q, forgotten_q;
  logic query_ready, reply_valid, reply_waiting, counted_after;
  logic set_valid, set_ready;

  assign read_again = again_q == Read && !needs_descriptor && state_q != Validate && may_read;
  assign again_end = answer_end && answer_kind == ReadAgain;

  late_answer_tracker #(
      .ENTRIES(REMEMBERED)
  ) i_late (
      .clk,
      .rst,
      .set_valid,
      .set_ready,
      .set_n      (tx_pending_q.n[31:0]),
      .set_late   (late_q && !tx_pending_q.overrun && !posted_q),
      .query_valid(again_q == Query || again_q == Report),
      .query_ready,
      .query_found(again_q == Report),
      .query_n    (again_n_q[31:0]),
      .reply_valid,
      .reply_waiting,
      .bell_valid,
      .bell_n,
      .next_n (sender_next[31:0]),
      .counted(counted_after)
  );

  logic [DevW-1:0] again_device;
  assign again_device = DevW'(again_n_q) & DevW'((32'd1 << cfg.log2_devices) - 32'd1);

  always_ff @(posedge clk) begin
    case (again_q)
      Behind: begin
        gap_q    <= sender_next - again_n_q;
        oldest_q <= sender_next - 64'(REMEMBERED);
        again_q  <= Compare;
      end
      Compare: begin
        caught_up_q <= gap_q == 0;
        forgotten_q <= gap_q > 64'(REMEMBERED);
        again_q     <= Decide;
      end
      Decide: begin
        // Numbers no longer tracked, and numbers before the first, are skipped.
        if (forgotten_q) again_n_q <= oldest_q;
        again_q <= caught_up_q || forgotten_q ? Behind : Query;
      end
      Query: if (query_ready) again_q <= Place;
      Place: begin
        // The table latency covers the three steps.
        again_index_q <= ring_index(again_n_q, cfg.log2_devices, cfg.log2_descriptors);
        again_part_q  <= by_eights(again_n_q, lap_shift_q[6:3]);
        again_turn_q  <= 32'(again_part_q >> lap_shift_q[2:0]);
        again_addr_q  <= ring_base[again_device] + {27'd0, again_index_q, 5'd0};
        again_lap_q   <= again_turn_q + 32'd1;
        if (reply_valid) begin
          again_q <= reply_waiting ? Read : Behind;
          if (!reply_waiting) again_n_q <= again_n_q + 64'd1;
        end
      end
      Read: if (read_again) again_q <= Wait;
      Wait:
      if (again_end) begin
        again_q <= !rd_rsp.data_error && arrived.lap == again_lap_q ? Report : Behind;
        if (rd_rsp.data_error || arrived.lap != again_lap_q) again_n_q <= again_n_q + 64'd1;
      end
      Report:
      if (query_ready) begin
        again_q   <= Behind;
        again_n_q <= again_n_q + 64'd1;
      end
      default: again_q <= Behind;
    endcase
    if (rst) begin
      again_q   <= Behind;
      again_n_q <= '0;
    end
  end

  // ---------------------------------------------------------------- passing a number

  logic ev_busy_q;
  logic [DevW-1:0] ev_device_q;
  logic passes;

  assign set_valid = state_q == Pass && !ev_busy_q;
  assign passes = set_valid && set_ready;

  always_comb begin
    ev_valid = '0;
    ev_valid[ev_device_q] = ev_busy_q;
  end

  assign head_ready = state_q == Idle;

  assign names_endpoint = descriptor_q.destination < 32'(DESTINATIONS)
                          && destinations[descriptor_q.destination[DestW-1:0]].valid;

  assign data_valid = payload_word || state_q == Header;
  assign data = state_q == Header ? DATA_W'({cfg.late_template[63:24], tx_pending_q.frame[23:0]}) : rd_data;
  assign data_bytes = state_q == Header ? ($bits(data_bytes))'(8)
                      : left_q >= 16'(DataB) ? ($bits(data_bytes))'(DataB) : ($bits(data_bytes))'(left_q);
  assign cmd_valid = state_q == Discard || state_q == Commit;
  assign cmd_send = state_q == Commit;
  assign cmd_bytes = bytes_q;
  assign cmd_to = destinations[destination_q];

  assign count_cnt.out = passes;
  assign count_cnt.answered = passes && !late_q;
  assign count_cnt.late = passes && late_q;
  assign count_cnt.after_deadline = counted_after || (passes && late_q && posted_q);
  assign count_cnt.bad_descriptor = state_q == Validate && !sound_q;
  assign count_cnt.read_error = answer_end && rd_rsp.data_error;

  always_ff @(posedge clk) begin
    lap_shift_q <= 7'(cfg.log2_devices) + 7'(cfg.log2_descriptors);
    lap_q       <= turn_q + 32'd1;  // valid before a descriptor can arrive
    overdue_q   <= overdue_valid && tx_pending_q.frame[23:0] <= overdue_frame;
    due_q       <= state_q != Idle && state_q != Locate &&
                   (cfg.deadline != 0 && now >= due_at_q || overdue_q);

    // A doorbell during a read triggers another read, since the first may have been too early.
    if (read_descriptor) look_q <= 1'b0;
    if (bell_valid || (cfg.poll_cycles != 0 && poll_q >= cfg.poll_cycles)) look_q <= 1'b1;
    poll_q <= read_descriptor || state_q != Look ? '0 : poll_q + 1'b1;

    if (rd_req.valid && rd_rsp.ready) rd_valid_q <= 1'b0;
    if (read_descriptor || read_payload || read_again) rd_valid_q <= 1'b1;
    // The type of the read is selected before the request is decided.
    if (!rd_valid_q) begin
      if (needs_descriptor)
        rd_cmd_q <= '{addr: ring_addr_q, len: 16'd32, tag: {2'd0, generation_q, ReadDescriptor}};
      else if (state_q == Validate)
        rd_cmd_q <= '{addr: payload_addr_q, len: bytes_q, tag: {2'd0, generation_q, ReadPayload}};
      else rd_cmd_q <= '{addr: again_addr_q, len: 16'd32, tag: {6'd0, ReadAgain}};
    end
    reads_q <= reads_q + 4'(rd_req.valid && rd_rsp.ready) - 4'(answer_end);

    if (ev_busy_q && ev_ready[ev_device_q]) ev_busy_q <= 1'b0;

    case (state_q)
      Idle:
      if (head_valid) begin
        tx_pending_q <= head;
        if (enable && head.count != 0) state_q <= Locate;
      end
      Locate: begin
        late_q      <= 1'b0;
        posted_q    <= 1'b0;
        look_q      <= 1'b1;
        token_q     <= '0;
        device_q    <= device;
        due_at_q    <= tx_pending_q.stamp + 64'(cfg.deadline);
        lap_part_q  <= by_eights(tx_pending_q.n, lap_shift_q[6:3]);
        index_q     <= ring_index(tx_pending_q.n, cfg.log2_devices, cfg.log2_descriptors);
        base_q      <= ring_base[device];
        state_q     <= tx_pending_q.overrun ? Header : Address;
        if (tx_pending_q.overrun) late_q <= 1'b1;
      end
      Address: begin
        turn_q      <= 32'(lap_part_q >> lap_shift_q[2:0]);
        ring_addr_q <= base_q + {27'd0, index_q, 5'd0};
        state_q     <= Look;
      end
      Look:
      if (give_up) begin
        late_q  <= 1'b1;
        state_q <= Header;
      end else if (!enable) begin
        state_q <= Idle;
      end else if (read_descriptor) begin
        state_q <= WaitDescriptor;
      end
      WaitDescriptor:
      if (give_up) begin
        late_q       <= 1'b1;
        generation_q <= generation_q + 1'b1;
        state_q      <= Header;
      end else if (!enable) begin
        generation_q <= generation_q + 1'b1;
        state_q      <= Idle;
      end else if (descriptor_end) begin
        descriptor_q <= arrived;
        state_q      <= !rd_rsp.data_error && arrived.lap == lap_q ? Offset : Look;
      end
      Offset: begin
        posted_q      <= 1'b1;
        token_q       <= descriptor_q.token;
        offset_q      <= descriptor_q.addr - send_base[device_q];
        bytes_q       <= descriptor_q.bytes[15:0];
        left_q        <= descriptor_q.bytes[15:0];
        destination_q <= descriptor_q.destination[DestW-1:0];
        fits_q        <= descriptor_q.bytes <= 32'(MaxPayload) && descriptor_q.addr[1:0] == 2'd0;
        named_q       <= names_endpoint;
        state_q       <= End;
      end
      End: begin
        end_q           <= offset_q + 64'(descriptor_q.bytes);
        starts_inside_q <= offset_q <= 64'(cfg.send_bytes);
        payload_addr_q  <= send_bus[device_q] + offset_q;
        state_q         <= Decode;
      end
      Decode: begin
        sound_q <= fits_q && named_q && starts_inside_q && end_q <= 64'(cfg.send_bytes);
        empty_q <= bytes_q == 0;
        state_q <= Validate;
      end
      Validate:
      if (give_up || !sound_q) begin
        late_q  <= 1'b1;
        state_q <= Header;
      end else if (empty_q) begin
        state_q <= Commit;
      end else if (read_payload) begin
        state_q <= WaitPayload;
      end
      WaitPayload:
      if (give_up) begin
        late_q       <= 1'b1;
        generation_q <= generation_q + 1'b1;
        state_q      <= Discard;
      end else if (payload_word && data_ready) begin
        left_q <= left_q - 16'(DataB);
        if (payload_end) state_q <= rd_rsp.data_error ? Discard : Commit;
      end
      Discard:
      // A failed read counts as no descriptor until the next poll.
      if (cmd_ready) state_q <= late_q ? Header : Look;
      Header: begin
        bytes_q       <= 16'd8;
        destination_q <= late_destination;
        if (data_ready) state_q <= Commit;
      end
      Commit: if (cmd_ready) state_q <= Pass;
      Pass:
      if (passes) begin
        ev_device_q <= device_q;
        ev_busy_q   <= !tx_pending_q.overrun;
        ev          <= '{
            lap: '0,
            n: tx_pending_q.n[31:0],
            stamp: now,
            frame: tx_pending_q.frame,
            bytes: 32'(bytes_q),
            buffer: token_q,
            flags: late_q ? FlagLate : '0,
            stream: cfg.stream,
            kind: KindSendDone
        };
        sender_next <= tx_pending_q.n + 64'd1;
        state_q     <= Next;
      end
      Next: begin
        tx_pending_q.n     <= tx_pending_q.n + 64'd1;
        tx_pending_q.frame <= tx_pending_q.frame + 32'd1;
        tx_pending_q.count <= tx_pending_q.count - 32'd1;
        state_q            <= tx_pending_q.count == 32'd1 ? Idle : Locate;
      end
      default: state_q <= Idle;
    endcase

    if (rst) begin
      state_q      <= Idle;
      look_q       <= 1'b0;
      due_q        <= 1'b0;
      rd_valid_q   <= 1'b0;
      reads_q      <= '0;
      ev_busy_q    <= 1'b0;
      ev_device_q  <= '0;
      generation_q <= '0;
      sender_next  <= '0;
      poll_q       <= '0;
    end
  end

  logic unused_bits;
  assign unused_bits = ^{rd_rsp.data_tag[7:6], descriptor_q.reserved, descriptor_q.flags, descriptor_q.lap,
                         cfg.late_template[23:0], tx_pending_q.frame[31:24]};

endmodule
