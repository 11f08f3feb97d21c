// SPDX-License-Identifier: SHL-2.1
// Proof of clop: no buffer is reused before the consumer has returned it and the sender has passed its
// number, and no packet is placed in a buffer that the consumer holds. One arbitrary buffer is tracked
// with its memory words; clop_sequence, clop_timers and the notification FIFO are unconstrained.
module clop_proof
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    parameter int unsigned CHANNELS = 2,
    parameter int unsigned MAX_BUFFERS = 8,
    parameter int unsigned DEVICES = 1
) (
    input logic                           clk,
    input logic                           rst,
    input logic [$clog2(MAX_BUFFERS)-1:0] watched,           // tracked buffer
    input logic [4:0]                     log2_buffers,
    input logic [16:0]                    segment_bytes,
    input logic [3:0]                     expected,
    input logic [15:0]                    window_frames,
    input logic [63:0]                    now,
    input logic [CHANNELS-1:0]            place_valid,
    input place_request_t [CHANNELS-1:0]  place,
    input serial_t [CHANNELS-1:0]         done_serial,
    input logic                           return_valid,
    input logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input logic [31:0]                    return_value,
    input logic                           tx_pending_ready,
    input logic [63:0]                    sender_next,
    input logic                           slowpath_ready,
    input logic                           command_valid,
    input command_t                       command,
    input logic                           notice_ready,
    input logic [$clog2(MAX_BUFFERS)+1:0] board_read_index,
    input logic [DEVICES-1:0][15:0]       room,
    input logic [DEVICES-1:0]             half_free
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);

  logic ready, placed_accept, placed_defer, tx_pending_valid, slowpath_valid, command_ready;
  logic notice_valid, counted, due, frame_in, frame_overrun, skipped_valid, idle;
  logic [CHANNELS-1:0] place_ready, placed_valid;
  logic [DEVICES-1:0] promise;
  logic [63:0] placed_vaddr, last_packet;
  tx_pending_t tx_pending;
  slowpath_t slowpath;
  clop_notice_t notice;
  serial_t [CHANNELS-1:0] notice_fence;
  clop_part_t board_read;
  placed_e counted_as;
  logic [15:0] counted_hits;
  logic [7:0] counted_events, counted_burst;
  logic [23:0] counted_frame;
  logic [24:0] skipped;
  logic [3:0][63:0] missing;

  clop_flat #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES),
      .CLEAR_W    (IndexW + 2)
  ) i_clop (
      .clk_timers    (clk),
      .enable        (1'b1),
      .log2_devices  (5'd0),
      .base_vaddr    ('0),
      .buffer_units  (18'd64),
      .timeout_cycles(32'd0),
      .grace_cycles  (16'd0),
      .close_burst   (8'd0),
      .close_frames  (24'd0),
      .*
  );

  // ------------------------------------------------------------------ history of the tracked buffer

  logic [1:0] age_q = 2'd0;  // two cycles of reset, one more inside
  logic live;
  assign live = age_q == 2'd3;
  logic out_q, ever_q, closed_q, takes, returns, closes;
  logic [31:0] out_n_q;
  logic [63:0] next_n;

  // Buffer used, returned, frame closed: an event follows.
  assign takes   = i_clop.dut.opened.valid && i_clop.dut.opened.ok && here(i_clop.dut.opened.n[31:0]);
  assign returns = return_valid && return_index == watched;
  assign closes  = i_clop.dut.closed.valid && i_clop.dut.slot_addr == watched;
  assign next_n  = i_clop.dut.current.base + 64'(i_clop.dut.current.next);

  function automatic logic here(input logic [31:0] n);
    return (IndexW'(n) & i_clop.dut.index_mask_q) == watched;
  endfunction

  // Packet of the next response: its bytes, and its position relative to the tracked buffer.
  logic [15:0] length_q;
  logic in_front, behind;
  logic [63:0] place_of_buffer, segment;  // and offset of the board's segment in a buffer
  assign place_of_buffer = {52'(watched), 12'd0};
  assign segment         = 64'd64 + (i_clop.dut.work.board[0] ? 64'(segment_bytes) : 64'd0) +
                           (i_clop.dut.work.board[1] ? 64'({segment_bytes, 1'b0}) : 64'd0);
  assign in_front        = placed_vaddr < place_of_buffer;
  assign behind          = placed_vaddr + 64'(length_q) > place_of_buffer + 64'd4096;

  // From the commands so far: a burst exists, its last frame is fixed.
  logic burst_q, last_q;

  // Invariants of steady and monotonic signals
  logic [IndexW-1:0] watched_q;
  logic [4:0] log2_buffers_q;
  logic [16:0] segment_bytes_q;
  logic [63:0] sender_q;

  always_ff @(posedge clk) begin
    if (!live) age_q <= age_q + 2'd1;
    watched_q       <= watched;
    log2_buffers_q  <= log2_buffers;
    segment_bytes_q <= segment_bytes;
    sender_q        <= sender_next;
    if (returns) out_q <= 1'b0;
    if (closes) closed_q <= 1'b1;
    if (takes) begin
      out_q    <= 1'b1;
      ever_q   <= 1'b1;
      closed_q <= 1'b0;
      out_n_q  <= i_clop.dut.opened.n[31:0];
    end
    if (command_valid && command_ready) begin
      if (command.op == CommandBurst) burst_q <= 1'b1;
      if (command.op == CommandBurst) last_q <= 1'b0;
      if (command.op == CommandLast) last_q <= 1'b1;
    end
    if (i_clop.dut.in_classify) length_q <= i_clop.dut.work.request.header.length;
    if (!age_q[1]) begin
      out_q   <= 1'b0;
      ever_q  <= 1'b0;
      burst_q <= 1'b0;
      last_q  <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ environment assumptions

  always_comb begin
    assume (rst == (age_q < 2'd2));
    assume (i_clop.dut.lookup.slots.watched == watched && i_clop.dut.lookup.returned.watched == watched);
    assume (log2_buffers >= 1 && log2_buffers <= 5'(IndexW));
    assume (segment_bytes <= 17'd1008 && segment_bytes[3:0] == 0);  // four segments and 64 B fill a buffer
    // The driver has written zero to all return slots; the stored value is the slot minus one.
    if (age_q == 0) assume (i_clop.dut.lookup.returned.word_q == '1 && !i_clop.dut.lookup.return_valid_q);
    if (!live) assume (!return_valid && !command_valid);
    if (age_q != 0) begin
      assume (watched == watched_q && log2_buffers == log2_buffers_q);
      assume (segment_bytes == segment_bytes_q);
      assume (i_clop.dut.current.base < 64'h2000_0000);  // below the wrap of the numbers
      assume (!live || (sender_next <= next_n && sender_next >= sender_q));
      // A consumer writes number + 1 once per received buffer; the sender passes pending numbers.
      if (returns) assume (out_q && return_value == out_n_q + 32'd1);
      // The firmware fixes the last frame of a burst before the next burst.
      if (command_valid && command_ready) begin
        if (command.op == CommandLast) assume (burst_q);
        if (command.op == CommandBurst) assume (!burst_q || last_q);
      end
    end
  end

  // ------------------------------------------------------------------ main property

  always_comb begin
    if (live) begin
      if (takes) assert (!ever_q || (!out_q && sender_next > 64'(out_n_q)));
      // The consumer holds the buffer from the event, after its closing, to its return.
      if (placed_valid != 0 && placed_accept && here(i_clop.dut.act.n)) begin
        assert (!(closed_q && out_q));
        assert (!in_front && !behind);
      end
    end
  end

  // ------------------------------------------------------------------ induction invariants

  // The following properties are proved with the rest; they relate the state of each step to the history.
  clop_work_t work;
  clop_found_t found;
  clop_verdict_t verdict;
  clop_act_t act;
  command_t waiting_for;
  assign work        = i_clop.dut.work;
  assign found       = i_clop.dut.found;
  assign verdict     = i_clop.dut.verdict;
  assign act         = i_clop.dut.act;
  assign waiting_for = i_clop.dut.waiting_for;

  function automatic logic one_of(input logic [5:0] bits);
    return bits != 0 && (bits & (bits - 6'd1)) == 0;
  endfunction

  // State of the tracked buffer, including pending writes
  clop_slot_t slot, slot_written, slot_rd, slot_q;
  logic [31:0] returned;
  logic return_arrives, back;
  assign slot_written   = i_clop.dut.slot;
  assign slot           = i_clop.dut.slot_we && i_clop.dut.slot_addr == watched ? slot_written :
                          i_clop.dut.lookup.slots.word_q;
  assign slot_rd        = i_clop.dut.lookup.slot_rd;
  assign slot_q         = i_clop.dut.lookup.slot_q;
  assign returned       = i_clop.dut.lookup.returned.word_q;  // number: its slot minus one
  assign return_arrives = i_clop.dut.lookup.return_valid_q && i_clop.dut.lookup.return_index_q == watched;
  assign back           = !ever_q || (!out_q && sender_next > 64'(out_n_q));

  // Steps of a packet and of a frame opening: one of them at a time reads
  logic in_read, in_wait, in_capture, in_compare, past_read, at_here;
  assign in_read    = i_clop.dut.issue.step_q[1];
  assign in_wait    = i_clop.dut.issue.step_q[2];
  assign in_capture = i_clop.dut.issue.step_q[3];
  assign in_compare = i_clop.dut.issue.step_q[4];
  assign past_read  = i_clop.dut.issue.step_q[5:2] != 0;
  assign at_here    = here(i_clop.dut.open_busy ? i_clop.dut.open_n[31:0] : work.n);

  // Frame position of the packet in its burst
  logic below, ending, at_next;
  logic [24:0] next;
  logic [12:0] units;
  assign next    = work.old ? i_clop.dut.old.next : i_clop.dut.current.next;
  assign ending  = work.old ? i_clop.dut.old.ending : i_clop.dut.current.ending;
  assign below   = {1'b0, work.request.header.frame} < next;
  assign at_next = {1'b0, work.request.header.frame} == next;
  assign units   = 13'((17'(work.request.header.length) + 17'd15) >> 4);

  // Command state: executed; opens frames; the last frame is fixed or about to be
  logic executed, joins, extend, will_end;
  assign executed = i_clop.dut.commands.leaving_q || i_clop.dut.commands.left_q;
  assign joins    = waiting_for.flag && !i_clop.dut.current.started;
  assign extend   = waiting_for.flag && i_clop.dut.current.started &&
                  {1'b0, waiting_for.frame} >= i_clop.dut.current.next;
  assign will_end = i_clop.dut.current.ending || (i_clop.dut.open_busy && !i_clop.dut.opened.packet);

  always_comb begin
    if (age_q != 0) begin
      assert (i_clop.dut.rst_q == !live);
      assert (i_clop.dut.index_mask_q == IndexW'((32'd1 << log2_buffers) - 32'd1));
      assert (i_clop.dut.lookup.segment_units_q == segment_bytes[16:4]);
      assert (i_clop.dut.lookup.device_q == '0);  // a single device
    end
    if (age_q == 2'd1) assert (returned == '1 && !return_arrives);
    if (age_q[1]) begin
      // Buffer
      if (i_clop.dut.run_q) begin
        assert (slot.used == ever_q);
        if (ever_q)
          assert (slot.n == out_n_q && 64'(out_n_q) < next_n && slot.open == !(closed_q || closes));
      end else begin
        assert (!ever_q && !i_clop.dut.open_busy && i_clop.dut.steps_idle && !i_clop.dut.acts_q && !i_clop.dut.command_now);
        assert (next_n == 0 && !i_clop.dut.may_begin_q);
        if (live && 32'(i_clop.dut.clear_q) > 32'(watched)) assert (!slot.used);
        if (!live) assert (i_clop.dut.clear_q == 0);
      end
      assert (!out_q || ever_q);
      if (!ever_q) assert (returned == '1 && !return_arrives);
      else if (return_arrives)
        assert (!out_q && i_clop.dut.lookup.returned_q == out_n_q && returned + 32'd1 <= out_n_q);
      else if (out_q) assert (returned + 32'd1 <= out_n_q);
      else assert (returned == out_n_q);
      if (live) assert (i_clop.dut.lookup.sender_last_q + 32'd1 <= sender_next[31:0]);

      // Numbers
      assert (i_clop.dut.current.next <= 25'h100_0000);
      assert (i_clop.dut.current.started || i_clop.dut.current.next == 0);
      assert (i_clop.dut.current.known || (next_n == 0 && !i_clop.dut.old.known && !i_clop.dut.open_busy));
      assert (!i_clop.dut.old.known || i_clop.dut.old.ending);
      if (past_read || i_clop.dut.command_now) assert (i_clop.dut.end_n == next_n);

      // Frame opening
      assert (one_of(i_clop.dut.opener.state_q) && !(past_read && i_clop.dut.open_busy));
      if (i_clop.dut.open_busy) begin
        assert (i_clop.dut.current.started && i_clop.dut.open_n == next_n);
        assert (i_clop.dut.opened.frame == i_clop.dut.current.next);
        assert (i_clop.dut.opened.frame <= {1'b0, i_clop.dut.opener.last_frame_q});
      end
      if (i_clop.dut.open_busy && i_clop.dut.opened.packet) begin
        assert (act.n == 32'(i_clop.dut.current.base) + 32'(i_clop.dut.opener.last_frame_q));
        if (here(act.n)) assert (!in_front && !(act.fits_alone && behind));
      end
      if (i_clop.dut.now_open) begin
        assert (i_clop.dut.opened.last == (i_clop.dut.opened.frame == {1'b0, i_clop.dut.opener.last_frame_q}));
        assert (i_clop.dut.opened.after == i_clop.dut.opened.frame + 25'd1);
        if (i_clop.dut.opened.ok && here(i_clop.dut.open_n[31:0])) assert (back);
      end

      // Firmware
      assert (!executed || (i_clop.dut.command_waits && !i_clop.dut.command_now));
      if (i_clop.dut.command_now) begin
        assert (i_clop.dut.command_waits && !i_clop.dut.open_busy && i_clop.dut.steps_idle && !i_clop.dut.acts_q);
        assert (i_clop.dut.next_base == next_n);
        assert (i_clop.dut.commands.burst_q == (waiting_for.op == CommandBurst));
        assert (i_clop.dut.commands.last_q == (waiting_for.op == CommandLast));
        assert (i_clop.dut.commands.joins_q == joins && i_clop.dut.commands.ends_q == !extend);
        assert (extend || !(i_clop.dut.commands.skips_q || i_clop.dut.commands.extend_q));
        assert (i_clop.dut.commands.skip_to_q == {1'b0, waiting_for.frame} + 25'(joins));
      end
      if (i_clop.dut.command_waits && waiting_for.op == CommandBurst && !executed) begin
        assert (burst_q && !last_q && (!i_clop.dut.current.known || will_end));
      end else begin
        assert (i_clop.dut.current.known == burst_q);
        if (last_q && !(i_clop.dut.command_waits && waiting_for.op == CommandLast && !executed))
          assert (will_end);
      end
      if (i_clop.dut.command_waits && waiting_for.op == CommandLast) assert (last_q && i_clop.dut.current.known);

      // Contents of the pipeline
      assert (one_of(i_clop.dut.issue.step_q));
      if (i_clop.dut.issue.valid_q)
        assert (one_of({3'd0, i_clop.dut.issue.place_q, i_clop.dut.issue.expire_q, i_clop.dut.issue.tracked_q}));
      if (i_clop.dut.issue.valid_q && i_clop.dut.issue.place_q)
        assert ((!i_clop.dut.issue.current_q || i_clop.dut.current.known) &&
                (!i_clop.dut.issue.old_q || i_clop.dut.old.known));
      if (in_read || past_read) assert (!(work.place && work.expire));
      if ((in_read || past_read) && work.place) begin
        assert (work.old ? i_clop.dut.old.known : work.other || i_clop.dut.current.known);
        if (!work.old) assert (work.n == i_clop.dut.current.base[31:0] + 32'(work.request.header.frame));
      end

      // Lookup result, step by step
      if (in_wait) assert (i_clop.dut.lookup.next_q == next && i_clop.dut.lookup.ending_q == ending);
      if (in_wait || in_capture) assert (i_clop.dut.lookup.units_q == units);
      if (in_capture || in_compare)
        assert (i_clop.dut.lookup.below_q == below && i_clop.dut.lookup.known_q == (below || ending) &&
                i_clop.dut.lookup.at_next_q == at_next);
      if (i_clop.dut.in_classify)
        assert (found.known == (below || ending) && found.at_next == at_next && (!found.open_frame || below));
      if (live && i_clop.dut.in_classify) begin
        assert (work.place || !(i_clop.dut.classify.commit_q || i_clop.dut.classify.look_q));
        assert (!(i_clop.dut.classify.commit_q && i_clop.dut.classify.look_q));
        assert (work.expire || !i_clop.dut.classify.expire_q);
        assert (i_clop.dut.classify.ask_q || !work.other);
        assert (i_clop.dut.classify.started_q == (work.old ? i_clop.dut.old.started : i_clop.dut.current.started));
      end
      if (live && !i_clop.dut.in_classify)
        assert (!(i_clop.dut.classify.commit_q || i_clop.dut.classify.look_q || i_clop.dut.classify.unsound_q ||
                  i_clop.dut.classify.expire_q));

      // Address of the packet
      assert (i_clop.dut.lookup.device_q == '0 && i_clop.dut.lookup.units_of_one_q == 18'd64);
      if (here(work.n)) begin
        if (in_wait) assert (i_clop.dut.lookup.buffer_q == watched);
        if (in_capture) assert (i_clop.dut.lookup.product_q == {28'(watched), 6'd0});
        if (in_capture) assert (i_clop.dut.lookup.base_q == segment);
        if (in_compare) assert (i_clop.dut.lookup.segment_vaddr_q == place_of_buffer + segment);
        if (i_clop.dut.in_classify) begin
          assert (found.vaddr >= place_of_buffer);
          if (found.fits || (found.fits_alone && !found.here))
            assert (found.vaddr + 64'(work.request.header.length) <= place_of_buffer + 64'd4096);
        end
      end

      // The word read for the tracked buffer equals its state until the decision.
      if (in_wait || i_clop.dut.opener.state_q[2])
        assert (i_clop.dut.lookup.slots.present_q == at_here && i_clop.dut.lookup.returned.present_q == at_here);
      if (at_here && i_clop.dut.run_q) begin
        if (in_capture || i_clop.dut.opener.state_q[3]) begin
          assert (slot_rd == slot && !i_clop.dut.slot_we);
          assert (!out_q || i_clop.dut.lookup.return_rd != out_n_q);
        end
        if (in_compare || i_clop.dut.opener.state_q[4])
          assert (slot_q == slot && !i_clop.dut.slot_we && (!i_clop.dut.lookup.back || back));
        if (i_clop.dut.in_classify) begin
          assert (found.slot == slot && !i_clop.dut.slot_we && (!found.available || back));
          if (found.open_frame || found.due) assert (slot.used && slot.open && slot.n == work.n);
          if (found.here) assert (slot.used && slot.n == work.n);
        end
      end

      // Results in the following cycle
      assert (verdict == '0 || i_clop.dut.acts_q);
      assert (verdict.shifts + verdict.escalates + verdict.waits + verdict.ends + verdict.looked <= 1);
      assert (!(verdict.looked && verdict.uses));
      if (i_clop.dut.acts_q) assert (!past_read && (!i_clop.dut.open_busy || verdict == '0));
      if (verdict.shifts) assert ({1'b0, act.frame} >= i_clop.dut.current.next);
      if ((verdict.uses || verdict.expires) && here(act.n)) begin
        assert (ever_q && act.slot.used && act.slot.n == out_n_q && !closed_q && !closes && !i_clop.dut.slot_we);
        assert (act.slot.open == (verdict.closes == '0));
      end
    end
  end

endmodule
