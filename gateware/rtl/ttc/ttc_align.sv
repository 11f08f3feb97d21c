// SPDX-License-Identifier: SHL-2.1
// Alignment of the TTC bits into periods: A in the first half, B in the second. An idle line has A = 0 and
// B = 1; A = 1 with B = 0 in eleven periods running is illegal, and the halves are then swapped.
module ttc_align
  import nanet_ttc_pkg::*;
#(
    // Illegal periods running until the halves are swapped.
    parameter int unsigned SWAP_AFTER = 11,
    // Idle periods running until `locked`.
    parameter int unsigned LOCK_AFTER = 16
) (
    input logic clk,
    input logic rst,

    /*
     * From ttc_sample, or a recovered clock
     */
    input logic bit_valid,
    input logic bit_value,
    input logic line_locked,

    /*
     * Pulse `tick` once a period; `number` counts ticks
     */
    output logic      tick,
    output ttc_tick_t number,
    output ttc_pair_t pair,
    output logic      locked
);

  localparam int unsigned SwapW = $clog2(SWAP_AFTER + 1);
  localparam int unsigned LockW = $clog2(LOCK_AFTER + 1);

  logic have_a_q, a_q;
  logic [SwapW-1:0] illegal_q;
  logic [LockW-1:0] idle_q;
  logic whole, illegal, idle, swap;

  assign whole   = bit_valid && have_a_q;
  assign illegal = a_q && !bit_value;
  assign idle    = !a_q && bit_value;
  assign swap    = whole && illegal && illegal_q == SwapW'(SWAP_AFTER - 1);

  always_ff @(posedge clk) begin
    tick <= whole;
    if (whole) begin
      pair   <= '{a: a_q, b: bit_value};
      number <= number + 1'b1;
    end
    if (bit_valid) begin
      a_q      <= bit_value;
      have_a_q <= !have_a_q || swap;  // swapped: this bit is the A of the next period
    end
    if (whole) begin
      illegal_q <= illegal && !swap ? illegal_q + 1'b1 : '0;
      if (swap) begin
        idle_q <= '0;
        locked <= 1'b0;
      end else if (!locked) begin
        idle_q <= idle ? idle_q + 1'b1 : '0;
        if (idle && idle_q == LockW'(LOCK_AFTER - 1)) locked <= 1'b1;
      end
    end
    if (rst || !line_locked) begin
      have_a_q  <= 1'b0;
      illegal_q <= '0;
      idle_q    <= '0;
      locked    <= 1'b0;
      tick      <= 1'b0;
    end
    if (rst) number <= '0;
  end

endmodule
