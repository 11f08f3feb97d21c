// SPDX-License-Identifier: SHL-2.1
// Proof of clop_packets: no buffer is reused before the consumer has returned it and the sender has passed
// its number. Two buffers; one arbitrary buffer is tracked; clop_sequence is unconstrained.
module clop_packets_proof
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
(
    input logic           clk,
    input logic           rst,
    input logic           watched,           // tracked buffer
    input logic [12:0]    packets,
    input logic [16:0]    slot_bytes,
    input logic           waits,
    input logic [63:0]    now,
    input logic           place_valid,
    input place_request_t place,
    input serial_t        done_serial,
    input logic           return_valid,
    input logic           return_index,
    input logic [31:0]    return_value,
    input logic           tx_pending_ready,
    input logic [31:0]    sender_next,
    input logic           slowpath_ready,
    input logic           command_valid,
    input command_t       command,
    input logic           notice_ready,
    input logic           notice_done,
    input logic [15:0]    room,
    input logic           half_free
);

  localparam logic [31:0] Buffers = 32'd2;

  logic ready, place_ready, placed_valid, placed_accept, placed_defer;
  logic tx_pending_valid, slowpath_valid, command_ready;
  logic notice_valid, promise, counted, buffer_pending, idle;
  logic [63:0] placed_vaddr, last_packet;
  tx_pending_t tx_pending;
  slowpath_t slowpath;
  packets_notice_t notice;
  serial_t notice_fence, done;
  placed_e counted_as;
  logic [15:0] counted_hits;
  logic [7:0] counted_events;
  logic [3:0][63:0] missing;

  clop_packets_flat #(
      .CHANNELS   (1),
      .MAX_BUFFERS(2),
      .CLEAR_W    (1)
  ) i_clop (
      .enable      (1'b1),
      .log2_buffers(5'd1),
      .log2_devices(5'd0),
      .base_vaddr  (64'd0),
      .buffer_units(18'd1),
      .*
  );

  logic started_q = 1'b0;
  logic watched_q, out_q, ever_q, closed_q;
  logic [31:0] packets_q, sender_q, out_n_q, n, handed, last, slot;
  logic takes, returns;

  assign n       = i_clop.dut.fill.n_q[31:0];
  assign takes   = i_clop.dut.fill.opens && n[0] == watched;
  assign returns = return_valid && return_index == watched;
  assign slot    = i_clop.dut.fill.buffers.returned.mem[watched];
  assign handed  = n + 32'(i_clop.dut.fill.open_q);  // numbers used
  assign last    = handed - 32'd1 - 32'(handed[0] == watched);  // newest number of the tracked buffer

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    watched_q <= watched;
    packets_q <= 32'(packets);
    sender_q  <= sender_next;
    if (returns) out_q <= 1'b0;
    if (takes) begin
      out_q   <= 1'b1;
      ever_q  <= 1'b1;
      out_n_q <= n;
    end
    if (rst) begin
      out_q  <= 1'b0;
      ever_q <= 1'b0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    if (!started_q) assume (slot == 32'd0);  // cleared by the driver
    if (rst) assume (!return_valid);
    if (started_q) begin
      assume (watched == watched_q && 32'(packets) == packets_q && packets != 0);
      assume (n < 32'h4000_0000);  // below the wrap of the numbers
      // A consumer writes number + 1 once per received buffer; the sender passes pending numbers.
      if (returns) assume (out_q && return_value == out_n_q + 32'd1);
      assume (sender_next <= n && (rst || sender_next >= sender_q));

      // Main property
      if (takes && ever_q) assert (!out_q && sender_next > out_n_q);

      // Induction invariants
      if (!rst) begin
        assert (i_clop.dut.run_q || (n == 0 && !i_clop.dut.fill.open_q && !i_clop.dut.closed && i_clop.dut.step_q == 0));
        assert (i_clop.dut.fill.n_q[63:32] == 0);
        assert (32'(i_clop.dut.fill.buffers.count_q) == (handed < Buffers ? handed : Buffers));
        assert (ever_q == (handed > 32'(watched)));
        assert (!out_q || ever_q);
        if (ever_q) assert (out_n_q == last);
        if (!ever_q) assert (slot == 32'd0);
        else if (!out_q) assert (slot == last + 32'd1);
        else assert (slot == (last < Buffers ? 32'd0 : last + 32'd1 - Buffers));
      end
    end
  end

endmodule
