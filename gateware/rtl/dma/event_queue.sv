// SPDX-License-Identifier: SHL-2.1
// Producer side of one event queue (doc/dma.md). Numbers the events, writes each as one 32 B entry with
// its lap, and counts free and promised entries.
module event_queue
  import nanet_dma_pkg::*;
#(
    // Width of a data word in bits, a multiple of 128.
    parameter int unsigned DATA_W = 128
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while enabled
     */
    input logic        enable,
    input logic [63:0] queue_base,
    input logic [4:0]  log2_entries,
    input logic [63:0] finished_addr,
    input logic [31:0] poll_cycles,

    /*
     * events
     */
    input  logic   ev_valid,
    output logic   ev_ready,
    input  event_t ev,
    input  logic   ev_promised,

    /*
     * accounting
     */
    input  logic        promise,
    output logic [15:0] room,
    output logic        half_free,
    output logic        waits,      // for poll time or for a read response

    /*
     * DMA write
     */
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,

    /*
     * DMA read
     */
    output dma_rd_req_t       rd_req,
    output logic              rd_data_ready,
    input  dma_rd_rsp_t       rd_rsp,
    input  logic [DATA_W-1:0] rd_data
);

  localparam int unsigned Words = 256 / DATA_W == 0 ? 1 : 256 / DATA_W;
  localparam int unsigned CountW = 22;

  if (DATA_W % 128 != 0) begin : gen_check_width
    $fatal(1, "DATA_W must be a multiple of 128 (%m)");
  end

  logic running_q;
  logic [31:0] next_q;  // k of the next entry, low word
  logic [31:0] lap_q;  // lap of the next entry
  logic [31:0] finished_q;
  logic signed [CountW-1:0] free_q, room_q;
  logic signed [CountW-1:0] entries;
  logic [31:0] last_index;

  logic pending_q;  // an entry write is outstanding
  event_t entry_q;
  logic [63:0] addr_q;
  logic word_q;

  logic accept, written;

  // Event counts are updated one cycle late, the room and wrap flags one cycle later. Hence at most one of
  // three cycles accepts an event, and none of them during an entry write. A promise needs room for four
  // entries, so the delay cannot hide it.
  logic taken_q, taken_room_q, pause_q, free_ok_q, room_ok_q, wraps_q;
  always_ff @(posedge clk) begin
    taken_q   <= accept;
    pause_q   <= taken_q;
    wraps_q   <= (next_q & last_index) == last_index;
    free_ok_q <= free_q != 0 && !free_q[CountW-1];  // greater than zero
    room_ok_q <= room_q != 0 && !room_q[CountW-1];
    if (rst || !enable) begin
      taken_q   <= 1'b0;
      free_ok_q <= 1'b0;
      room_ok_q <= 1'b0;
    end
    taken_room_q <= !ev_promised;
  end

  assign entries = CountW'(1) << log2_entries;
  assign last_index = (32'd1 << log2_entries) - 32'd1;
  assign written = pending_q && wr_rsp.ready && wr_req.last;
  assign ev_ready = running_q && !pending_q && !taken_q && !pause_q && (ev_promised ? free_ok_q : room_ok_q);
  assign accept = ev_valid && ev_ready;

  assign room = room_q[CountW-1] ? '0 : room_q[CountW-2:16] != '0 ? 16'hFFFF : room_q[15:0];
  assign half_free = free_q >= (entries >>> 1);

  assign wr_req.valid = pending_q;
  assign wr_req.cmd = '{addr: addr_q, len: 16'd32, tag: 8'd0};
  if (Words == 1) begin : gen_one_word
    assign wr_data = DATA_W'(entry_q);
    assign wr_req.last = 1'b1;
  end else begin : gen_two_words
    assign wr_data = word_q ? entry_q[255:128] : entry_q[127:0];
    assign wr_req.last = word_q;
  end

  // Consumer position: accepted if it lies between the last accepted position and the write position.
  logic poll_q, poll_due_q;
  logic [31:0] wait_q;
  // Evaluation in three steps: difference, comparison, sum.
  logic poll_valid_q, poll_good_q, check_q, check_good_q, apply_q;
  logic [31:0] answer_q, step_q, span_q;
  logic signed [CountW-1:0] gain_q;

  // Next counts without and with an event.
  logic signed [CountW-1:0] free_if_idle, free_if_taken, room_if_idle, room_if_taken;
  assign free_if_idle  = free_q + gain_q;
  assign free_if_taken = free_q + gain_q - CountW'(1);
  assign room_if_idle  = room_q + gain_q - (promise ? CountW'(2) : '0);
  assign room_if_taken = room_q + gain_q - (promise ? CountW'(3) : CountW'(1));

  always_ff @(posedge clk) begin
    poll_valid_q <= rd_rsp.data_valid && rd_rsp.data_last;
    poll_good_q  <= !rd_rsp.data_error;
    answer_q     <= rd_data[31:0];
    check_q      <= poll_valid_q;
    check_good_q <= poll_good_q;
    step_q       <= answer_q - finished_q;
    span_q       <= next_q - finished_q;
    apply_q      <= check_q;
    gain_q       <= check_q && check_good_q && running_q && step_q <= span_q ? CountW'(step_q) : '0;
    if (rst) begin
      poll_valid_q <= 1'b0;
      check_q      <= 1'b0;
      apply_q      <= 1'b0;
      gain_q       <= '0;
    end
  end

  assign waits = wait_q != 0 || poll_q || poll_due_q || free_q < entries - (entries >>> 2);
  assign rd_req.valid = poll_q;
  assign rd_req.cmd = '{addr: finished_addr, len: 16'd8, tag: 8'd0};
  assign rd_data_ready = 1'b1;

  logic unused_bits;
  assign unused_bits = ^rd_data[DATA_W-1:32];

  always_ff @(posedge clk) begin
    if (rst || !enable) begin
      running_q  <= 1'b0;
      next_q     <= '0;
      lap_q      <= 32'd1;
      finished_q <= '0;
      free_q     <= entries;
      room_q     <= entries;
      wait_q     <= '0;
      poll_q     <= poll_q && !rst && !rd_rsp.ready;
      poll_due_q <= !rst && ((poll_q && rd_rsp.ready) || (poll_due_q && !apply_q));
    end else begin
      // A stale response would be counted twice.
      if (!poll_q && !poll_due_q) running_q <= 1'b1;

      if (accept) begin
        next_q <= next_q + 1'b1;
        if (wraps_q) lap_q <= lap_q + 1'b1;
      end
      free_q <= taken_q ? free_if_taken : free_if_idle;
      room_q <= taken_q && taken_room_q ? room_if_taken : room_if_idle;

      if (wait_q != 0) wait_q <= wait_q - 1'b1;
      if (running_q && !poll_q && !poll_due_q && wait_q == 0 && free_q < entries - (entries >>> 2)) begin
        poll_q <= 1'b1;
      end
      if (poll_q && rd_rsp.ready) begin
        poll_q     <= 1'b0;
        poll_due_q <= 1'b1;
        wait_q     <= poll_cycles;
      end
      if (apply_q) begin
        poll_due_q <= 1'b0;
        finished_q <= finished_q + 32'(gain_q);
      end
    end
  end

  // A started entry is completed even if the queue is disabled.
  always_ff @(posedge clk) begin
    if (rst) begin
      pending_q <= 1'b0;
      word_q    <= 1'b0;
    end else begin
      if (pending_q && wr_rsp.ready) word_q <= (Words == 2) && !word_q;
      if (accept) pending_q <= 1'b1;
      else if (written) pending_q <= 1'b0;
    end
    if (accept) begin
      entry_q     <= ev;
      entry_q.lap <= lap_q;
      addr_q      <= queue_base + {27'd0, next_q & last_index, 5'd0};
    end
  end

  logic unused_wr_rsp;
  assign unused_wr_rsp = &{1'b0, wr_rsp.done_valid, wr_rsp.done_tag, wr_rsp.done_error};

  logic unused_rd_rsp;
  assign unused_rd_rsp = &{1'b0, rd_rsp.data_tag};

endmodule
