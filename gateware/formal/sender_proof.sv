// SPDX-License-Identifier: SHL-2.1
// Proof of sender: numbers are passed strictly in order of n, each after exactly one packet; every answer
// was posted; every late packet is header-only; no word of an abandoned read enters a packet. A number is
// late by its deadline, by TTC time or for its descriptor only; one that TTC time makes late waits no longer.
module sender_proof
  import nanet_dma_pkg::*;
(
    input logic         clk,
    input logic         rst,
    input logic [2:0]   log2_descriptors,
    input logic [3:0]   deadline,
    input logic         overdue_valid,
    input logic [3:0]   overdue_up_to,
    input logic         tx_pending_valid,
    input logic         tx_pending_overrun,
    input logic [3:0]   tx_pending_n,
    input logic [1:0]   tx_pending_count,
    input logic         bell_valid,
    input logic         rd_ready,
    input logic         rd_data_valid,
    input logic [255:0] rd_data,
    input logic [7:0]   rd_data_tag,
    input logic         rd_data_last,
    input logic         rd_data_error,
    input logic         data_ready,
    input logic         data_room,
    input logic         cmd_ready,
    input logic         ev_ready
);

  logic started_q = 1'b0;
  logic [63:0] now_q, sender_next, expected_q;
  logic tx_pending_ready, rd_valid, rd_data_ready, data_valid, cmd_valid, cmd_send, ev_valid;
  logic count_out, count_answered, count_late, count_bad_descriptor, count_after_deadline, count_read_error;
  logic [255:0] data;
  logic [5:0] data_bytes;
  logic [15:0] cmd_bytes;
  endpoint_t cmd_to;
  endpoint_t [1:0] destinations;
  dma_cmd_t rd_cmd;
  event_t ev;
  tx_pending_t tx_pending;

  always_comb begin
    tx_pending = '{overrun: tx_pending_overrun, count: 32'(tx_pending_overrun ? tx_pending_count : 2'd1),
                   frame: 32'(tx_pending_n),
             n: 64'(tx_pending_n), stamp: now_q};
    destinations = '0;
    destinations[0].valid = 1'b1;
  end

  sender_flat #(
      .DATA_W      (256),
      .DEVICES     (1),
      .DESTINATIONS(2),
      .TX_PENDING  (2),
      .REMEMBERED  (2)
  ) i_sender (
      .enable          (1'b1),
      .stream          (8'd0),
      .log2_devices    (5'd0),
      .log2_descriptors(5'(log2_descriptors)),
      .ring_base       (64'h1000),
      .send_base       (64'h2000),
      .send_bus        (64'h3000),
      .send_bytes      (32'd4096),
      .deadline        (48'(deadline)),
      .poll_cycles     (32'd0),
      .late_template   (64'hFF000008_1C000000),
      .late_destination(1'b0),
      .now             (now_q),
      .overdue_frame   (24'(overdue_up_to)),
      .bell_n          (32'd0),
      .*
  );

  logic [3:0] given_q;  // pending numbers below this are passed to the sender
  logic sent_q, sent_late_q, waits_q, offered_q;
  logic [3:0] last_given_q;

  // The present number: it is overdue in this cycle; it has been, or has a bad descriptor; it has been in the
  // last three cycles.
  localparam logic [3:0] Idle = 4'd0, Locate = 4'd1, Look = 4'd3, WaitDescriptor = 4'd4, Next = 4'd14;
  logic at_hand, waits, waited_q, overdue, due_q;
  logic [2:0] overdue_q;
  logic [3:0] deadline_q;
  assign at_hand = i_sender.dut.state_q != Idle && i_sender.dut.state_q != Next;
  assign waits   = i_sender.dut.state_q == Look || i_sender.dut.state_q == WaitDescriptor;
  assign overdue = at_hand && overdue_valid && i_sender.dut.tx_pending_q.frame[23:0] <= 24'(overdue_up_to);

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    now_q     <= now_q + 64'd1;
    if (tx_pending_valid && tx_pending_ready)
      given_q <= tx_pending_n + (tx_pending_overrun ? 4'(tx_pending_count) : 4'd1);
    waits_q <= tx_pending_valid && !tx_pending_ready;
    last_given_q <= tx_pending_n;
    deadline_q   <= deadline;
    waited_q     <= waits;
    overdue_q    <= {overdue_q[1:0], overdue};
    due_q        <= at_hand && (due_q || overdue || count_bad_descriptor ||
                                now_q >= i_sender.dut.tx_pending_q.stamp + 64'(deadline));
    if (count_out) begin
      sent_q     <= 1'b0;
      expected_q <= i_sender.dut.tx_pending_q.n + 64'd1;
    end
    if (cmd_valid && cmd_ready && cmd_send) begin
      sent_q      <= 1'b1;
      sent_late_q <= i_sender.dut.late_q;
    end
    if (rst) begin
      now_q      <= '0;
      given_q    <= '0;
      waits_q    <= 1'b0;
      sent_q     <= 1'b0;
      expected_q <= '0;
      waited_q   <= 1'b0;
      overdue_q  <= '0;
      due_q      <= 1'b0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    if (started_q) begin
      assume (log2_descriptors == 3'd1 && deadline != 0 && deadline == deadline_q);
      assume (tx_pending_n >= given_q && tx_pending_n < 4'd10 && tx_pending_count != 0);
      if (waits_q) assume (tx_pending_valid && tx_pending_n == last_given_q);
      // No response without a request.
      if (i_sender.dut.reads_q == 0) assume (!rd_data_valid);

      if (count_out) begin
        assert (i_sender.dut.tx_pending_q.n >= expected_q);
        assert (sent_q && sent_late_q == count_late);
        assert (count_late != count_answered);
      end else begin
        assert (!count_late && !count_answered);
      end
      assert (sender_next == expected_q);
      if (at_hand && i_sender.dut.state_q != Locate && i_sender.dut.late_q)
        assert (due_q || i_sender.dut.tx_pending_q.overrun);
      if (overdue_q == '1) assert (!(waits && waited_q));
      // One packet per number: nothing further is sent before the number is passed.
      if (sent_q) assert (!(cmd_valid && cmd_send) && !data_valid);
      if (cmd_valid && cmd_send && !i_sender.dut.late_q) assert (i_sender.dut.posted_q && !i_sender.dut.tx_pending_q.overrun);
      if (cmd_valid && cmd_send && i_sender.dut.late_q) assert (cmd_bytes == 16'd8);
      if (data_valid && i_sender.dut.late_q) begin
        assert (data[63:0] == {32'hFF000008, 8'h1C, i_sender.dut.tx_pending_q.frame[23:0]} && data_bytes == 6'd8);
      end
      if (data_valid && !i_sender.dut.late_q) begin
        assert (rd_data_tag[5:2] == i_sender.dut.generation_q && rd_data_tag[1:0] == 2'd1);
      end
    end
  end

endmodule
