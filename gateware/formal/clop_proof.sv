// SPDX-License-Identifier: SHL-2.1
// clop: no buffer is handed out again before the consumer has returned it and the sender has passed its
// number, and no packet is sent to a buffer that the consumer has. One buffer, any, is watched; of each
// memory the watched buffer's word is kept; clop_sequence, clop_timers and the news' fifo may say what they like.
module clop_proof
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    parameter int unsigned CHANNELS = 2,
    parameter int unsigned MAX_BUFFERS = 8,
    parameter int unsigned DEVICES = 1
) (
    input logic                                  clk,
    input logic                                  rst,
    input logic [$clog2(MAX_BUFFERS)-1:0]        watched,  // the buffer
    input logic [4:0]                            log2_buffers,
    input logic [16:0]                           segment_bytes,
    input logic [3:0]                            expected,
    input logic [15:0]                           window_frames,
    input logic [63:0]                           now,
    input logic           [CHANNELS-1:0]         place_valid,
    input place_request_t [CHANNELS-1:0]         place,
    input logic                                  return_valid,
    input logic [$clog2(MAX_BUFFERS)-1:0]        return_index,
    input logic [31:0]                           return_value,
    input logic                                  owed_ready,
    input logic [63:0]                           sender_next,
    input logic                                  rare_ready,
    input logic                                  command_valid,
    input command_t                              command,
    input logic                                  news_ready,
    input logic [$clog2(MAX_BUFFERS)+1:0]        board_read_index,
    input logic [DEVICES-1:0][15:0]              room,
    input logic [DEVICES-1:0]                    half_free
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);

  logic ready, placed_accept, placed_defer, owed_valid, rare_valid, command_ready;
  logic news_valid, counted, due, frame_owed, frame_overrun, skipped_valid, idle;
  logic [CHANNELS-1:0] place_ready, placed_valid;
  logic [DEVICES-1:0] promise;
  logic [63:0] placed_vaddr, last_packet;
  owed_t owed;
  rare_t rare;
  clop_news_t news;
  logic [CHANNELS-1:0][7:0] news_ticket;
  clop_board_t board_read;
  placed_e counted_as;
  logic [15:0] counted_hits;
  logic [7:0] counted_events;
  logic [24:0] skipped;
  logic [3:0][31:0] missing;

  clop #(
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
      .*
  );

  // ------------------------------------------------------------------ what happens to the watched buffer

  logic started_q = 1'b0;
  logic out_q, ever_q, closed_q, takes, returns, out, ever;
  logic [31:0] out_n_q, out_n, returned;
  logic [63:0] next_n;
  clop_slot_t slot, written, kept;

  assign takes    = promise != 0 && i_clop.slot_wr_addr == watched;  // number slot_wr.n
  assign returns  = return_valid && return_index == watched;
  assign returned = i_clop.judge.returned.word_q;
  assign next_n   = i_clop.current_q.base + 64'(i_clop.current_q.next);
  assign out      = takes || out_q;
  assign ever     = takes || ever_q;
  assign out_n    = takes ? i_clop.slot_wr.n : out_n_q;
  // What the card knows of the buffer, with what is being written
  assign written  = i_clop.slot_wr;
  assign kept     = i_clop.judge.slots.word_q;
  assign slot     = i_clop.slot_we && i_clop.slot_wr_addr == watched ? written : kept;

  // The packet that is answered next: its number, its bytes, and where they would lie in the watched buffer.
  logic [31:0] answer_n_q;
  logic [15:0] answer_length_q;
  logic answer_here, answer_begins, answer_ends;
  logic [63:0] place_of_buffer;
  assign place_of_buffer = {52'(watched), 12'd0};
  assign answer_here     = (IndexW'(answer_n_q) & i_clop.index_mask_q) == watched;
  assign answer_begins   = placed_vaddr >= place_of_buffer;
  assign answer_ends     = placed_vaddr + 64'(answer_length_q) <= place_of_buffer + 64'd4096;

  // Of the commands: there is a burst, its last frame is fixed.
  logic burst_q, last_q;

  // What is steady, or never falls
  logic [IndexW-1:0] watched_q;
  logic [4:0] log2_buffers_q;
  logic [16:0] segment_bytes_q;
  logic [63:0] sender_q;

  always_ff @(posedge clk) begin
    started_q       <= 1'b1;
    watched_q       <= watched;
    log2_buffers_q  <= log2_buffers;
    segment_bytes_q <= segment_bytes;
    sender_q        <= sender_next;
    out_q           <= out && !returns;
    ever_q          <= ever;
    out_n_q         <= out_n;
    if (i_clop.slot_we && i_clop.slot_wr_addr == watched) closed_q <= !written.open;
    if (command_valid && command_ready) begin
      if (command.op == CommandBurst) burst_q <= 1'b1;
      if (command.op == CommandBurst) last_q <= 1'b0;
      if (command.op == CommandLast) last_q <= 1'b1;
    end
    if (i_clop.step_q == 3'd5) begin
      answer_n_q      <= i_clop.n_q;
      answer_length_q <= i_clop.request_q.header.length;
    end
    if (rst) begin
      out_q   <= 1'b0;
      ever_q  <= 1'b0;
      burst_q <= 1'b0;
      last_q  <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ the contract

  always_comb begin
    assume (rst == !started_q);
    assume (i_clop.judge.slots.watched == watched && i_clop.judge.returned.watched == watched);
    assume (log2_buffers >= 1 && log2_buffers <= 5'(IndexW));
    assume (segment_bytes <= 17'd1008 && segment_bytes[3:0] == 0);  // four and 64 B fill a buffer
    if (!started_q) assume (returned == 32'd0);  // the driver has seen to it
    if (rst) assume (!return_valid && !command_valid);
    if (started_q) begin
      assume (watched == watched_q && log2_buffers == log2_buffers_q);
      assume (segment_bytes == segment_bytes_q);
      assume (i_clop.current_q.base < 64'h2000_0000);  // below the wrap of the numbers
      // A consumer writes number + 1, once, of what it was given; the sender passes what it is owed.
      if (returns) assume (out_q && return_value == out_n_q + 32'd1);
      assume (sender_next <= next_n && (rst || sender_next >= sender_q));
      // The firmware fixes the last frame of a burst before it begins another.
      if (command_valid && command_ready) begin
        if (command.op == CommandLast) assume (burst_q);
        if (command.op == CommandBurst) assume (!burst_q || last_q);
      end
    end
  end

  // ------------------------------------------------------------------ the heart of it

  always_comb begin
    if (started_q && !rst) begin
      if (takes) assert (!ever_q || (!out_q && sender_next > 64'(out_n_q)));
      // The consumer has it from its event, which follows its closing, to its return.
      if (placed_valid != 0 && placed_accept && answer_here) begin
        assert (!(closed_q && out_q));
        assert (answer_begins && answer_ends);
      end
    end
  end

  // ------------------------------------------------------------------ what the induction needs

  logic stepping, opening, place_step, ends;
  command_e op;
  assign stepping   = i_clop.step_q >= 3'd2;  // past `read`
  assign opening    = i_clop.open_q != 0;
  assign place_step = i_clop.step_q != 0 && i_clop.work_q == 0;

  always_comb begin
    ends = 1'b0;
    op   = CommandBurst;
    if (started_q && !rst) begin
      assert (i_clop.index_mask_q == IndexW'((32'd1 << log2_buffers) - 32'd1));
      if (i_clop.run_q) begin
        assert (slot.used == ever);
        if (ever) assert (slot.n == out_n && 64'(out_n) < next_n);
        if (ever_q) assert (closed_q == !kept.open);
      end else begin
        assert (!ever && !opening && i_clop.step_q == 0 && !i_clop.f_valid_q && !i_clop.command_now);
        assert (next_n == 0);
        if (32'(i_clop.clear_q) > 32'(watched)) assert (!slot.used);
      end
      assert (!out || ever);
      if (!ever) assert (returned == 0);
      else if (!out) assert (returned == out_n + 32'd1);
      else assert (returned <= out_n);

      // Numbers
      assert (i_clop.current_q.next <= 25'h100_0000);
      assert (i_clop.current_q.started || i_clop.current_q.next == 0);
      assert (i_clop.current_q.known || (next_n == 0 && !i_clop.old_q.known && !opening));
      assert (!i_clop.old_q.known || i_clop.old_q.ending);
      assert (!(stepping && opening));
      if (stepping || i_clop.command_now) assert (i_clop.end_q == next_n);
      if (i_clop.command_now)
        assert (i_clop.command_q_valid_q && !opening && i_clop.step_q == 0 && !i_clop.f_valid_q);
      if (opening) begin
        assert (i_clop.current_q.started && i_clop.o_n_q == next_n);
        assert (i_clop.o_frame_q == i_clop.current_q.next);
        assert (i_clop.o_frame_q <= i_clop.o_last_q && !i_clop.o_last_q[24]);
      end
      if (opening && i_clop.o_packet_q) begin
        assert (answer_n_q == 32'(i_clop.current_q.base) + 32'(i_clop.o_last_q));
        if (answer_here) assert (answer_begins && (!i_clop.o_fits_q || answer_ends));
      end
      if (i_clop.open_q == 3'd5) assert (i_clop.o_is_last_q == (i_clop.o_frame_q == i_clop.o_last_q));

      // Firmware
      ends = i_clop.current_q.ending || (opening && !i_clop.o_packet_q);
      op   = i_clop.command_q.op;
      if (i_clop.command_q_valid_q && op == CommandBurst) begin
        assert (burst_q && !last_q && (!i_clop.current_q.known || ends));
      end else begin
        assert (i_clop.current_q.known == burst_q);
        if (last_q && !(i_clop.command_q_valid_q && op == CommandLast)) assert (ends);
      end
      if (i_clop.command_q_valid_q && op == CommandLast) assert (last_q && i_clop.current_q.known);

      // Packets
      if (i_clop.f_valid_q && i_clop.f_work_q == 0)
        assert ((!i_clop.f_current_q || i_clop.current_q.known) && (!i_clop.f_old_q || i_clop.old_q.known));
      if (place_step) begin
        assert (i_clop.of_old_q ? i_clop.old_q.known : i_clop.of_other_q || i_clop.current_q.known);
        if (!i_clop.of_old_q)
          assert (i_clop.n_q == i_clop.current_q.base[31:0] + 32'(i_clop.request_q.header.frame));
      end

      // A buffer that is found to be back stays so until it is handed out.
      if (i_clop.open_q == 3'd5 && i_clop.o_ok_q && (IndexW'(i_clop.o_n_q) & i_clop.index_mask_q) == watched)
        assert ((!ever || (!out && sender_next > 64'(out_n))) && !i_clop.slot_we);
    end
  end

endmodule
