// SPDX-License-Identifier: SHL-2.1
// Proof of event_queue: entry k is written to slot k mod entries with lap k / entries + 1, in order; no
// unfinished entry is overwritten; `room` never exceeds the free entries; a promised event always has an
// entry. Eight entries.
module event_queue_proof
  import nanet_dma_pkg::*;
(
    input logic         clk,
    input logic         rst,
    input logic         ev_valid,
    input event_t       ev,
    input logic         ev_promised,
    input logic         promise,
    input logic         wr_ready,
    input logic         rd_ready,
    input logic         rd_data_valid,
    input logic [255:0] rd_data,
    input logic         rd_data_error,
    input logic         finishes        // the consumer finishes one more entry
);

  localparam logic [63:0] Base = 64'h1000;
  localparam logic [4:0] Log2Entries = 5'd3;
  localparam logic [31:0] Entries = 32'd8;

  logic ev_ready, half_free, wr_valid, wr_last, rd_valid, rd_data_ready;
  logic [15:0] room;
  logic [255:0] wr_data;
  dma_cmd_t wr_cmd, rd_cmd;
  event_t written;
  assign written = wr_data;

  event_queue_flat #(
      .DATA_W(256)
  ) i_queue (
      .enable       (1'b1),
      .queue_base   (Base),
      .finished_addr(64'h10),
      .poll_cycles  (32'd0),
      .log2_entries (Log2Entries),
      .wr_done_valid(1'b0),
      .wr_done_tag  ('0),
      .wr_done_error(1'b0),
      .rd_data_tag  ('0),
      .rd_data_last (1'b1),
      .waits        (),
      .*
  );

  logic started_q = 1'b0;
  logic [31:0] taken_q, written_q, done_q;
  logic [7:0] reserved_q;  // open promises
  logic waits_q, offers_q, offers_promised_q, polled_q;
  dma_cmd_t cmd_q;
  logic [255:0] data_q;

  logic late;  // an accepted event is not yet in all counts
  assign late = i_queue.dut.taken_q || i_queue.dut.pause_q;

  logic [3:0] poll_at;  // processing step of the consumer's response
  assign poll_at = {polled_q, i_queue.dut.poll_valid_q, i_queue.dut.check_q, i_queue.dut.apply_q};

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    if (ev_valid && ev_ready) taken_q <= taken_q + 1'b1;
    if (wr_valid && wr_ready) written_q <= written_q + 1'b1;
    if (finishes && done_q != written_q) done_q <= done_q + 1'b1;
    reserved_q        <= reserved_q + (promise ? 8'd2 : 8'd0) - 8'(ev_valid && ev_ready && ev_promised);
    waits_q           <= wr_valid && !wr_ready;
    cmd_q             <= wr_cmd;
    data_q            <= wr_data;
    offers_q          <= ev_valid && !ev_ready;
    offers_promised_q <= ev_promised;
    if (rd_valid && rd_ready) polled_q <= 1'b1;
    else if (rd_data_valid) polled_q <= 1'b0;
    if (rst) begin
      taken_q    <= '0;
      written_q  <= '0;
      done_q     <= '0;
      reserved_q <= '0;
      waits_q    <= 1'b0;
      offers_q   <= 1'b0;
      polled_q   <= 1'b0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    if (started_q) begin
      if (offers_q) assume (ev_valid && ev_promised == offers_promised_q);
      // A promise requires `room`; a promised event requires a promise.
      if (promise) assume (room >= 16'd4);
      if (ev_valid && ev_promised) assume (reserved_q != 8'd0);
      // The memory returns an earlier published value of the consumer.
      if (!polled_q) assume (!rd_data_valid);
      if (rd_data_valid && !rd_data_error) begin
        assume (rd_data[31:0] - i_queue.dut.finished_q <= done_q - i_queue.dut.finished_q);
      end

      // Main property
      assert (taken_q - done_q <= Entries);
      if (wr_valid) begin
        assert (written.lap == (written_q >> Log2Entries) + 32'd1);
        assert (wr_cmd.addr == Base + {27'd0, written_q & (Entries - 32'd1), 5'd0} && wr_cmd.len == 16'd32);
        assert (written_q - done_q < Entries);
      end
      // An event of the previous cycle is not yet subtracted.
      if (room != 0)
        assert (32'(room) + 32'(reserved_q) + (taken_q - done_q) <= Entries + 32'(i_queue.dut.taken_q));
      if (ev_valid && ev_promised && !i_queue.dut.taken_q) assert (i_queue.dut.free_q > 0);
      if (ev_ready && ev_valid) assert (ev_promised ? i_queue.dut.free_q > 0 : i_queue.dut.room_q > 0);
      if (i_queue.dut.free_ok_q && !late) assert (i_queue.dut.free_q > 0);
      if (i_queue.dut.room_ok_q && !late) assert (i_queue.dut.room_q > 0);
      if (i_queue.dut.running_q && !late)
        assert (i_queue.dut.wraps_q == ((i_queue.dut.next_q & (Entries - 32'd1)) == Entries - 32'd1));
      if (waits_q) assert (wr_valid && wr_cmd == cmd_q && wr_data == data_q);

      // Induction invariants
      assert (taken_q == i_queue.dut.next_q);
      assert (taken_q == written_q + 32'(i_queue.dut.pending_q));
      assert (i_queue.dut.lap_q == (i_queue.dut.next_q >> Log2Entries) + 32'd1);
      assert (i_queue.dut.finished_q - done_q == 32'd0 || done_q - i_queue.dut.finished_q <= Entries);
      assert (done_q - i_queue.dut.finished_q <= taken_q - i_queue.dut.finished_q);
      assert (taken_q - i_queue.dut.finished_q <= Entries);
      assert (written_q - done_q <= Entries);
      assert (i_queue.dut.free_q == 22'(Entries) - 22'(i_queue.dut.next_q - i_queue.dut.finished_q) + 22'(i_queue.dut.taken_q));
      assert (i_queue.dut.room_q == i_queue.dut.free_q - 22'(reserved_q) - 22'(i_queue.dut.taken_q && !i_queue.dut.taken_room_q));
      assert (22'(reserved_q) + 22'(i_queue.dut.taken_q) <= i_queue.dut.free_q && i_queue.dut.free_q <= 22'(Entries));
      assert (!(i_queue.dut.taken_q && i_queue.dut.pause_q));
      assert (i_queue.dut.poll_due_q == (poll_at != 4'd0) && (poll_at & (poll_at - 4'd1)) == 4'd0);
      if (i_queue.dut.poll_valid_q && i_queue.dut.poll_good_q) begin
        assert (i_queue.dut.answer_q - i_queue.dut.finished_q <= done_q - i_queue.dut.finished_q);
      end
      if (i_queue.dut.check_q && i_queue.dut.check_good_q) begin
        assert (i_queue.dut.step_q <= done_q - i_queue.dut.finished_q);
        assert (i_queue.dut.span_q <= taken_q - i_queue.dut.finished_q);
      end
      if (i_queue.dut.apply_q) begin
        assert (i_queue.dut.gain_q >= 0 && 32'(i_queue.dut.gain_q) <= done_q - i_queue.dut.finished_q);
      end
      assert (i_queue.dut.word_q == 1'b0);
      assert (!(i_queue.dut.poll_q && i_queue.dut.poll_due_q));
      assume (taken_q < 32'hF000_0000);  // the low word's wrap is covered by the tests
    end
  end

endmodule
