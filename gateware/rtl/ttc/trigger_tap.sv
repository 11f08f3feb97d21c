// SPDX-License-Identifier: SHL-2.1
// Trigger decisions from the sender's MTP packets in passing: 16 masks with downscaling. A packet counts once
// it is sent; the words of a discarded one are dropped. One primitive a cycle; the sender is never delayed.
module trigger_tap
  import nanet_ttc_pkg::*;
#(
    // Words of 256 bit held; a power of two. A packet has at most 33.
    parameter int unsigned WORDS = 512
) (
    input logic clk,
    input logic rst,

    // Masks, steady while packets pass.
    input trigger_mask_t [15:0] masks,

    /*
     * Sender's words as accepted by udp_transmit, then one of `sent` and `discarded`
     */
    input logic         word_valid,
    input logic [255:0] word,
    input logic [5:0]   word_bytes,
    input logic         sent,
    input logic         discarded,
    input logic         timed,       // the packet's burst has TTC time
    input logic         burst,       // low bit of the packet's burst

    output logic      decision_valid,
    input  logic      decision_ready,
    output decision_t decision,

    /*
     * Counter pulses
     */
    output logic count_primitive,
    output logic count_overflow    // a packet without room: its primitives are not decided
);

  localparam int unsigned AddrW = $clog2(WORDS);
  localparam int unsigned Masks = 16;

  if (WORDS < 64 || 1 << AddrW != WORDS) begin : gen_check_words
    $fatal(1, "trigger_tap: WORDS must be a power of two, at least 64");
  end

  typedef struct packed {
    logic         first;
    logic         timed;
    logic         burst;
    logic [3:0]   dwords;
    logic [255:0] data;
  } held_t;

  // ---------------------------------------------------------------- ring of words; sent packets are readable

  logic [AddrW:0] write_q, sent_q, read_q;
  logic first_q, bad_q, full_q;
  held_t in, out;

  assign in   = '{first: first_q, timed: timed, burst: burst, dwords: word_bytes[5:2], data: word};

  always_ff @(posedge clk) begin
    count_overflow <= sent && bad_q;
    // Of the cycle before, with one word on its way.
    full_q <= write_q - read_q >= (AddrW + 1)'(WORDS - 1);
    if (word_valid) begin
      first_q <= 1'b0;
      if (full_q) bad_q <= 1'b1;
      else write_q <= write_q + 1'b1;
    end
    if (sent || discarded) begin
      first_q <= 1'b1;
      bad_q   <= 1'b0;
      if (sent && !bad_q) sent_q <= write_q;
      else write_q <= sent_q;
    end
    if (rst) begin
      write_q        <= '0;
      sent_q         <= '0;
      first_q        <= 1'b1;
      bad_q          <= 1'b0;
      full_q         <= 1'b0;
      count_overflow <= 1'b0;
    end
  end

  // A word is readable from the cycle after its write.
  ram_1r1w #(
      .WIDTH  ($bits(held_t)),
      .DEPTH  (WORDS),
      .CHECKED(1'b0)
  ) i_words (
      .clk,
      .wr_en  (word_valid && !full_q),
      .wr_addr(write_q[AddrW-1:0]),
      .wr_data(in),
      .rd_addr(read_q[AddrW-1:0]),
      .rd_data(out)
  );

  // ---------------------------------------------------------------- dwords: header, times, primitives

  logic fetched_q, fetched2_q, timed_q, burst_q, room;
  held_t out_q;
  logic [3:0] left_q;
  logic [255:0] shift_q;
  logic [23:0] frame_q;
  logic [31:0] dword;
  logic load, eats, is_time;
  logic [1:0] skip_q;  // header dwords still to come

  assign dword   = shift_q[31:0];
  assign is_time = dword[31:24] == '0;
  assign load    = fetched2_q && left_q == '0;
  assign eats    = left_q != '0 && room;

  logic primitive_q;
  logic [15:0] id_q;
  logic [31:0] timestamp_q;

  always_ff @(posedge clk) begin
    // Two cycles after a change of read_q, `out_q` is its word.
    fetched_q   <= read_q != sent_q && !load;
    fetched2_q  <= fetched_q && !load;
    out_q       <= out;
    primitive_q <= 1'b0;
    if (load) begin
      shift_q <= out_q.data;
      left_q  <= out_q.dwords;
      timed_q <= out_q.timed;
      burst_q <= out_q.burst;
      read_q  <= read_q + 1'b1;
      if (out_q.first) skip_q <= 2'd2;
    end
    if (eats) begin
      shift_q <= {32'd0, shift_q[255:32]};
      left_q  <= left_q - 1'b1;
      if (skip_q != '0) skip_q <= skip_q - 1'b1;
      else if (is_time) frame_q <= dword[23:0];
      else begin
        primitive_q <= 1'b1;
        id_q        <= dword[31:16];
        timestamp_q <= {frame_q, dword[15:8]};
      end
    end
    if (rst) begin
      read_q      <= '0;
      fetched_q   <= 1'b0;
      fetched2_q  <= 1'b0;
      left_q      <= '0;
      skip_q      <= '0;
      primitive_q <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, word_bytes[1:0]};
  assign count_primitive = primitive_q;

  // ---------------------------------------------------------------- masks: match, downscale, type

  logic [Masks-1:0] match_q, pass_q;
  logic match_valid_q, pass_valid_q, timed1_q, timed2_q, burst1_q, burst2_q;
  logic [31:0] timestamp1_q, timestamp2_q;
  // Matches since the one that passed, with the next one and one more: compared a match ahead, so that no
  // counter depends on its own comparison.
  logic [Masks-1:0][31:0] count_q;
  logic [Masks-1:0] last_q;  // the next match passes
  logic [Masks-1:0] each_q;  // every match passes; compared once, in the cycle behind reset
  logic rst_q;

  always_ff @(posedge clk) begin
    match_valid_q <= primitive_q;
    timestamp1_q  <= timestamp_q;
    timed1_q      <= timed_q;
    burst1_q      <= burst_q;
    pass_valid_q  <= match_valid_q;
    timestamp2_q  <= timestamp1_q;
    timed2_q      <= timed1_q;
    burst2_q      <= burst1_q;
    for (int unsigned i = 0; i < Masks; i++) begin
      match_q[i] <= masks[i].on && (id_q & masks[i].care) == masks[i].value;
      pass_q[i]  <= match_valid_q && match_q[i] && last_q[i];
      if (rst_q || (match_valid_q && match_q[i])) begin
        count_q[i] <= count_q[i] + 1'b1;
        last_q[i]  <= count_q[i] == masks[i].downscale;
      end
      if (rst_q) each_q[i] <= count_q[i] == masks[i].downscale;
      if (match_valid_q && match_q[i] && last_q[i]) begin
        count_q[i] <= 32'd2;
        last_q[i]  <= each_q[i];
      end
      if (rst) count_q[i] <= 32'd1;
    end
    rst_q <= rst;
    if (rst) begin
      match_valid_q <= 1'b0;
      pass_valid_q  <= 1'b0;
    end
  end

  logic [5:0] kind;
  always_comb begin
    kind = '0;
    for (int unsigned i = 0; i < Masks; i++) if (pass_q[i]) kind |= masks[i].kind;
  end

  logic decided_q, unused_ready;
  decision_t decided;
  logic [4:0] level;
  always_ff @(posedge clk) begin
    decided_q <= pass_valid_q && |pass_q;
    decided   <= '{timed: timed2_q, burst: burst2_q, timestamp: timestamp2_q, kind: kind};
    room      <= level < 5'd8;  // at most six are on their way
    if (rst) begin
      decided_q <= 1'b0;
      room      <= 1'b0;
    end
  end

  fifo #(
      .WIDTH ($bits(decision_t)),
      .DEPTH (16),
      .CHOOSE(1'b1)
  ) i_decisions (
      .clk,
      .rst,
      .in_valid (decided_q),
      .in_ready (unused_ready),
      .in_data  (decided),
      .out_valid(decision_valid),
      .out_ready(decision_ready),
      .out_data (decision),
      .level    (level)
  );

endmodule
