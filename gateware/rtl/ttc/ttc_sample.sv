// SPDX-License-Identifier: SHL-2.1
// Biphase-mark receiver of the TTC line from four samples a cycle (625 MS/s at 156.25 MHz). A bit cell lasts
// 7.8 samples: one long interval between edges is a 0, two short ones are a 1. At most one bit a cycle.
module ttc_sample #(
    // Good bits in a row until `locked`.
    parameter int unsigned LOCK_BITS = 64,
    // Cycles without an edge until `locked` falls: ten periods.
    parameter int unsigned QUIET_CYCLES = 39
) (
    input logic clk,
    input logic rst,

    // Samples of the line, the oldest in bit 0.
    input logic [3:0] samples,

    output logic bit_valid,
    output logic bit_value,
    output logic locked,
    // Pulse: an interval that fits no bit; a bit may be lost.
    output logic violation
);

  // Intervals in samples: a half cell is 3.9, a cell 7.8.
  localparam logic [3:0] ShortMin = 4'd2;
  localparam logic [3:0] ShortMax = 4'd5;
  localparam logic [3:0] LongMax = 4'd10;
  localparam int unsigned GoodW = $clog2(LOCK_BITS + 1);
  localparam int unsigned QuietW = $clog2(QUIET_CYCLES + 1);

  // Two registers against metastability of the first samples; the last sample of the word before in bit 0.
  (* async_reg = "true" *) logic [3:0] meta_q, word_q;
  logic last_q;
  logic [3:0] edges;
  assign edges = word_q ^ {word_q[2:0], last_q};

  // Edges of a word: the first at `at`, a second at least two samples later.
  logic first, second;
  logic [1:0] first_at, second_at;
  always_comb begin
    first     = |edges;
    first_at  = edges[0] ? 2'd0 : edges[1] ? 2'd1 : edges[2] ? 2'd2 : 2'd3;
    second    = edges[3] && |edges[2:0] || edges[2] && |edges[1:0] || edges[1] && edges[0];
    second_at = edges[3] ? 2'd3 : edges[2] ? 2'd2 : 2'd1;
  end

  logic edge1_q, edge2_q;
  logic [1:0] at1_q, at2_q;
  always_ff @(posedge clk) begin
    meta_q  <= samples;
    word_q  <= meta_q;
    last_q  <= word_q[3];
    edge1_q <= first;
    edge2_q <= second;
    at1_q   <= first_at;
    at2_q   <= second_at;
  end

  // Samples from the last edge to the begin of this word; saturates.
  logic [3:0] since_q;
  logic [4:0] interval;
  logic half_q;  // an odd number of short intervals since the cell began
  logic short1, long1, bad1, short2, value_valid, value, wrong, half_next;
  assign interval = {1'b0, since_q} + {3'd0, at1_q};
  assign short1   = interval >= {1'b0, ShortMin} && interval <= {1'b0, ShortMax};
  assign long1    = interval > {1'b0, ShortMax} && interval <= {1'b0, LongMax};
  assign bad1     = !short1 && !long1;
  assign short2   = at2_q - at1_q >= 2'd2;

  always_comb begin
    half_next   = half_q;
    value_valid = 1'b0;
    value       = 1'b0;
    wrong       = 1'b0;
    if (edge1_q) begin
      if (short1) begin
        value_valid = half_q;
        value       = 1'b1;
        half_next   = !half_q;
      end else begin
        // A long interval begins and ends at cell boundaries; a single short one before it is an error.
        value_valid = long1 && !half_q;
        wrong       = bad1 || half_q;
        half_next   = 1'b0;
      end
    end
    if (edge2_q) begin
      if (!short2) wrong = 1'b1;
      else if (half_next) begin
        value_valid = 1'b1;
        value       = 1'b1;
        half_next   = 1'b0;
      end else half_next = 1'b1;
    end
  end

  logic [GoodW-1:0] good_q;
  logic [QuietW-1:0] quiet_q;
  always_ff @(posedge clk) begin
    if (edge2_q) since_q <= 4'd4 - {2'd0, at2_q};
    else if (edge1_q) since_q <= 4'd4 - {2'd0, at1_q};
    else if (since_q < 4'd12) since_q <= since_q + 4'd4;
    half_q    <= half_next;
    bit_valid <= value_valid && !wrong;
    bit_value <= value;
    violation <= wrong && locked;

    if (edge1_q) quiet_q <= '0;
    else if (quiet_q != QuietW'(QUIET_CYCLES)) quiet_q <= quiet_q + 1'b1;
    if (wrong || quiet_q == QuietW'(QUIET_CYCLES)) begin
      good_q <= '0;
      locked <= 1'b0;
    end else if (value_valid) begin
      if (good_q == GoodW'(LOCK_BITS)) locked <= 1'b1;
      else good_q <= good_q + 1'b1;
    end
    if (rst) begin
      since_q   <= '0;
      half_q    <= 1'b0;
      bit_valid <= 1'b0;
      violation <= 1'b0;
      good_q    <= '0;
      quiet_q   <= '0;
      locked    <= 1'b0;
    end
  end

endmodule
