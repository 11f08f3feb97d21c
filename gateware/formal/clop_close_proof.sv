// SPDX-License-Identifier: SHL-2.1
// Proof of clop_close: the event of a closed frame is offered only when its header and every earlier
// packet are written. One arbitrary event is tracked through the queue.
module clop_close_proof
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
(
    input logic          clk,
    input logic          rst,
    input logic          notice_valid,
    input clop_notice_t  notice,
    input serial_t [1:0] notice_fence,
    input clop_part_t    board_read,
    input logic [1:0]    packet_done,     // per channel: one more packet is written or dropped
    input logic [63:0]   now,
    input logic          tlb_ready,
    input logic          tlb_resp_valid,
    input logic          tlb_resp_ok,
    input logic [63:0]   tlb_resp_paddr,
    input logic          wr_ready,
    input logic          wr_done_valid,
    input logic          ev_ready,
    input logic [3:0]    expected
);

  logic notice_ready, tlb_valid, wr_valid, wr_last, ev_valid, ev_promised, idle, untranslated, incomplete;
  logic [4:0] board_read_index;
  serial_t [1:0] done_serial;
  logic [63:0] tlb_vaddr;
  dma_cmd_t wr_cmd;
  logic [255:0] wr_data;
  event_t ev;
  logic [31:0] ev_start;
  logic [2:0] ev_channel;

  clop_close_flat #(
      .CHANNELS   (2),
      .MAX_BUFFERS(8)
  ) i_close (
      .log2_devices(5'd0),
      .base_vaddr  (64'd0),
      .buffer_units(18'd64),
      .wr_done_tag ('0),
      .wr_done_error(1'b0),
      .merged      ('0),
      .*
  );

  // Unwrapped counts: written packets, issued headers, written headers.
  logic started_q = 1'b0;
  logic [1:0][31:0] done_q, wanted_q, wanted;
  logic [31:0] headers_q, headers_done_q, headers_wanted_q;
  logic written_q, unknown_q;  // of the tracked frame: header issued, page unknown
  logic offered_q;
  clop_notice_t notice_q;
  serial_t [1:0] write_fence_q;
  logic header_out, taken, begins, at_output;

  localparam logic [31:0] Half = 32'd1 << ($bits(serial_t) - 1);

  for (genvar c = 0; c < 2; c++) begin : gen_channel
    assign done_serial[c] = serial_t'(done_q[c]);
    // Packet count of the write fence: less than half the range ahead of the written packets.
    assign wanted[c]      = done_q[c] + Half - 32'd1 -
                            32'(serial_t'(done_q[c] + Half - 32'd1 - 32'(notice_fence[c])));
  end
  assign header_out = wr_valid && wr_ready && wr_last;
  assign taken      = notice_valid && notice_ready;
  assign begins     = taken && i_close.dut.events.pick && !i_close.dut.events.tracked_q;
  assign at_output  = i_close.dut.events.at_head;

  always_ff @(posedge clk) begin
    started_q     <= 1'b1;
    offered_q     <= notice_valid && !notice_ready && !rst;
    notice_q      <= notice;
    write_fence_q <= notice_fence;
    for (int c = 0; c < 2; c++) if (packet_done[c]) done_q[c] <= done_q[c] + 1'b1;
    if (header_out) headers_q <= headers_q + 1'b1;
    if (wr_done_valid) headers_done_q <= headers_done_q + 1'b1;
    if (header_out) written_q <= 1'b1;
    if (i_close.dut.untranslated) unknown_q <= 1'b1;
    if (begins) begin
      wanted_q         <= wanted;
      headers_wanted_q <= headers_q;
    end
    if (taken) begin
      written_q <= 1'b0;
      unknown_q <= 1'b0;
    end
    if (rst) begin
      done_q         <= '0;
      headers_q      <= '0;
      headers_done_q <= '0;
      written_q      <= 1'b0;
      unknown_q      <= 1'b0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    if (started_q) begin
      assume (done_q[0] < 32'h4000_0000 && done_q[1] < 32'h4000_0000 && headers_q < 32'h4000_0000);
      assume (!wr_done_valid || headers_done_q != headers_q);  // responses to requests
      assume (headers_q - headers_done_q < 32'd127);

      if (offered_q) assume (notice_valid && notice == notice_q && notice_fence == write_fence_q);

      // Main property
      if (ev_valid && at_output) begin
        for (int c = 0; c < 2; c++) assert (signed'(done_q[c] - wanted_q[c]) >= 0);
        assert (headers_done_q >= headers_wanted_q);
      end
      // Each frame's fence includes its header, unless its page is unknown.
      if (taken && notice.kind == KindReceiveDone) assert (written_q || unknown_q || untranslated);

      // Induction invariants
      assert (i_close.dut.headers_q == headers_q[7:0] && i_close.dut.headers_done_q == headers_done_q[7:0]);
      assert (headers_done_q <= headers_q);
      if (i_close.dut.state_q != 3'd0) assert (notice_valid);
      if (i_close.dut.events.tracked_q) begin
        assert (headers_wanted_q <= headers_q);
        assert (i_close.dut.events.ahead_q < i_close.dut.events.count_q);
      end
      if (i_close.dut.events.tracked_q) begin
        assert (i_close.dut.events.word_q[2*$bits(serial_t)+7:0] ==
                {headers_wanted_q[7:0], serial_t'(wanted_q[1]), serial_t'(wanted_q[0])});
        for (int c = 0; c < 2; c++) begin
          assert (wanted_q[c] + Half < 32'h4000_0000 + 2 * Half);
          assert (signed'(wanted_q[c] - done_q[c]) < signed'(Half));
        end
      end
      if (i_close.dut.written_q && at_output) begin
        for (int c = 0; c < 2; c++) assert (signed'(done_q[c] - wanted_q[c]) >= 0);
        assert (headers_done_q >= headers_wanted_q);
      end
      if (i_close.dut.written_q) assert (i_close.dut.events.offered_q);
      if (notice_valid && notice.kind == KindReceiveDone && i_close.dut.state_q == 3'd4)
        assert (written_q || unknown_q || untranslated);
    end
  end

endmodule
