// SPDX-License-Identifier: SHL-2.1
// Proof of event order: an event never precedes its payload. A master writes a payload and, after
// `wr_done`, requests its event behind the shared arbiter. Memory sees the event's first word after the
// payload's last.
module event_order_proof
  import nanet_dma_pkg::*;
(
    input logic         clk,
    input logic         rst,
    input logic         starts,
    input logic         last,
    input logic         wr_ready,
    input logic         done_now,
    input logic [255:0] data
);

  typedef enum logic [1:0] {
    Idle,
    Payload,
    Wait,
    Offer
  } state_t;

  state_t state_q;
  logic [7:0] number_q;  // payload number
  logic ev_ready, event_valid, event_last, wr_valid, wr_last;
  logic [1:0] m_wr_ready, m_done;
  logic [1:0][255:0] m_data;
  dma_cmd_t event_cmd, wr_cmd;
  logic [255:0] event_data, wr_data;
  event_t expected;

  always_comb begin
    expected = '0;
    expected.kind = KindReceiveDone;
    expected.buffer = 32'(number_q);
  end

  // The memory responds at any time after the last word, in order; at most one request per master.
  logic [1:0] under_way_q;
  logic [7:0] first_tag_q, second_tag_q;
  logic done_valid;
  assign done_valid = done_now && under_way_q != 0;

  logic [15:0] unused_room;
  logic unused_half, unused_rd;
  dma_cmd_t unused_cmd;

  event_queue_flat #(
      .DATA_W(256)
  ) i_queue (
      .clk,
      .rst,
      .enable       (1'b1),
      .queue_base   (64'h1000),
      .log2_entries (5'd13),
      .finished_addr('0),
      .poll_cycles  ('0),
      .ev_valid     (state_q == Offer),
      .ev_ready,
      .ev           (expected),
      .ev_promised  (1'b0),
      .promise      (1'b0),
      .room         (unused_room),
      .half_free    (unused_half),
      .wr_valid     (event_valid),
      .wr_ready     (m_wr_ready[1]),
      .wr_cmd       (event_cmd),
      .wr_data      (event_data),
      .wr_last      (event_last),
      .wr_done_valid(1'b0),
      .wr_done_tag  ('0),
      .wr_done_error(1'b0),
      .rd_valid     (unused_rd),
      .rd_ready     (1'b0),
      .rd_cmd       (unused_cmd),
      .rd_data_valid(1'b0),
      .rd_data_ready(),
      .rd_data      ('0),
      .rd_data_tag  ('0),
      .rd_data_last (1'b0),
      .rd_data_error(1'b0)
  );

  dma_cmd_t payload_cmd;
  assign payload_cmd = '{addr: 64'h8000, len: 16'd64, tag: 8'd1};

  dma_arbiter_flat #(
      .PORTS (2),
      .DATA_W(256)
  ) i_arbiter (
      .clk,
      .rst,
      .m_wr_valid({event_valid, state_q == Payload}),
      .m_wr_ready,
      .m_wr_cmd       ({event_cmd, payload_cmd}),
      .m_wr_data      ({event_data, data}),
      .m_wr_last      ({event_last, last}),
      .m_wr_done_valid(m_done),
      .m_wr_done_tag  (),
      .m_wr_done_error(),
      .m_rd_valid     ('0),
      .m_rd_ready     (),
      .m_rd_cmd       ('0),
      .m_rd_data_valid(),
      .m_rd_data_ready('0),
      .m_rd_data      (),
      .m_rd_data_tag  (),
      .m_rd_data_last (),
      .m_rd_data_error(),
      .wr_valid,
      .wr_ready,
      .wr_cmd,
      .wr_data,
      .wr_last,
      .wr_done_valid(done_valid),
      .wr_done_tag  (first_tag_q),
      .wr_done_error(1'b0),
      .rd_valid     (),
      .rd_ready     (1'b0),
      .rd_cmd       (),
      .rd_data_valid(1'b0),
      .rd_data_ready(),
      .rd_data      ('0),
      .rd_data_tag  ('0),
      .rd_data_last (1'b0),
      .rd_data_error(1'b0)
  );

  logic started_q = 1'b0;
  logic [7:0] arrived_q;  // completely written payloads
  logic shown_q, shown_last_q;
  logic ends;
  assign ends = wr_valid && wr_ready && wr_last;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    case (state_q)
      Idle: if (starts) state_q <= Payload;
      Payload: if (m_wr_ready[0] && last) state_q <= Wait;
      Wait: if (m_done[0]) state_q <= Offer;
      default:
      if (ev_ready) begin
        state_q  <= Idle;
        number_q <= number_q + 1'b1;
      end
    endcase
    if (ends && !wr_cmd.tag[7]) arrived_q <= arrived_q + 1'b1;

    under_way_q <= under_way_q + 2'(ends) - 2'(done_valid);
    if (done_valid) first_tag_q <= second_tag_q;
    if (ends) begin
      if (under_way_q == 0 || (under_way_q == 1 && done_valid)) first_tag_q <= wr_cmd.tag;
      else second_tag_q <= wr_cmd.tag;
    end
    shown_q      <= wr_valid && !wr_ready;
    shown_last_q <= wr_last;
    if (rst) begin
      state_q     <= Idle;
      number_q    <= '0;
      arrived_q   <= '0;
      under_way_q <= '0;
      shown_q     <= 1'b0;
    end
  end

  event_t seen;
  assign seen = wr_data;
  always_comb begin
    assume (rst == !started_q);
    if (started_q) begin
      assume (!(ends && under_way_q == 2'd2));
      if (shown_q) assume (wr_last == shown_last_q);
      // Payload number i is completely written when its event is offered.
      if (wr_valid && wr_cmd.tag[7]) assert (8'(arrived_q - seen.buffer[7:0]) != 0
                                             && 8'(arrived_q - seen.buffer[7:0]) <= 8'd2);
    end
  end

endmodule
