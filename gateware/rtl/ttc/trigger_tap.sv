// SPDX-License-Identifier: SHL-2.1
// Trigger decisions from the sender's MTP packets in passing: 16 masks with downscaling. A packet counts once
// it is sent; the words of a discarded one are dropped. One primitive in four cycles, the line time of a
// word; the sender is never delayed.
module trigger_tap
  import nanet_ttc_pkg::*;
#(
    // Words of 256 bit held; a power of two. A packet has at most 33.
    parameter int unsigned WORDS = 512
) (
    input logic clk,
    input logic rst,

    /*
     * Write of a mask, while no packets pass: {1/N, type, value and care}, one at a time
     */
    input logic [2:0]  mask_write,
    input logic [3:0]  mask_index,
    input logic [31:0] mask_word,

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
  // Masks are compared four at a time: mask 4 i + l by lane l in step i.
  localparam int unsigned Lanes = 4;

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
  logic load, eats, is_time, scans;
  logic [1:0] skip_q;  // header dwords still to come
  logic [1:0] step_q;

  assign dword   = shift_q[31:0];
  assign is_time = dword[31:24] == '0;
  assign load    = fetched2_q && left_q == '0;
  assign eats    = left_q != '0 && room && (!scans || step_q == '1);

  logic primitive_q, timed0_q, burst0_q;
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
        timed0_q    <= timed_q;
        burst0_q    <= burst_q;
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

  // The steps of a primitive begin in its first cycle. A count is written two cycles after it is read, and is
  // read again four cycles later at the earliest.
  logic scan1_q, scan2_q, timed1_q, timed2_q, burst1_q, burst2_q;
  logic [1:0] step1_q, step2_q, clear_q;
  logic [31:0] timestamp1_q, timestamp2_q;
  logic clears_q;  // for four cycles behind reset; a primitive takes longer
  logic [Lanes-1:0] pass;
  logic [Lanes-1:0][5:0] kind2_q;
  assign scans = primitive_q || step_q != '0;

  always_ff @(posedge clk) begin
    step_q       <= scans ? step_q + 1'b1 : '0;
    scan1_q      <= scans;
    scan2_q      <= scan1_q;
    step1_q      <= step_q;
    step2_q      <= step1_q;
    timestamp1_q <= timestamp_q;
    timed1_q     <= timed0_q;
    burst1_q     <= burst0_q;
    timestamp2_q <= timestamp1_q;
    timed2_q     <= timed1_q;
    burst2_q     <= burst1_q;
    clear_q      <= clear_q + 1'b1;
    if (clear_q == '1) clears_q <= 1'b0;
    if (rst) begin
      step_q   <= '0;
      scan1_q  <= 1'b0;
      scan2_q  <= 1'b0;
      clear_q  <= '0;
      clears_q <= 1'b1;
    end
  end

  for (genvar l = 0; l < int'(Lanes); l++) begin : gen_lane
    (* no_rw_check, ram_style = "distributed" *) logic [31:0] compared[4];  // value, care
    (* no_rw_check, ram_style = "distributed" *) logic [5:0] kinds[4];
    (* no_rw_check, ram_style = "distributed" *) logic [32:0] downscales[4];  // not 0, 1/N
    (* no_rw_check, ram_style = "distributed" *) logic [31:0] counts[4];  // the next match is the n-th
    logic here, match1_q, match2_q, equal_q;
    logic [5:0] kind1_q;
    logic [31:0] downscale_q, count_q, more_q;
    logic [15:0] care, value;
    assign here          = mask_index[1:0] == 2'(l);
    assign {value, care} = compared[step_q];
    assign pass[l]       = match2_q && equal_q;

    always_ff @(posedge clk) begin
      if (mask_write[0] && here) compared[mask_index[3:2]] <= mask_word;
      if (mask_write[1] && here) kinds[mask_index[3:2]] <= mask_word[5:0];
      if (mask_write[2] && here) downscales[mask_index[3:2]] <= {mask_word != '0, mask_word};
      match1_q    <= scans && downscales[step_q][32] && (id_q & care) == value;
      downscale_q <= downscales[step_q][31:0];
      kind1_q     <= kinds[step_q];
      count_q     <= counts[step_q];
      match2_q    <= match1_q;
      equal_q     <= count_q == downscale_q;
      more_q      <= count_q + 1'b1;
      kind2_q[l]  <= kind1_q;
      if (clears_q || match2_q)
        counts[clears_q ? clear_q : step2_q] <= clears_q || equal_q ? 32'd1 : more_q;
    end
  end

  logic [5:0] kind, kind_q;
  logic any_q, decided_q, unused_ready;
  decision_t decided;
  logic [4:0] level;
  always_comb begin
    kind = step2_q == '0 ? '0 : kind_q;
    for (int unsigned l = 0; l < Lanes; l++) if (pass[l]) kind |= kind2_q[l];
  end
  always_ff @(posedge clk) begin
    kind_q    <= kind;
    any_q     <= pass != '0 || (step2_q != '0 && any_q);
    decided_q <= scan2_q && step2_q == '1 && (pass != '0 || any_q);
    decided   <= '{timed: timed2_q, burst: burst2_q, timestamp: timestamp2_q, kind: kind};
    room      <= level < 5'd8;  // at most three are on their way
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
