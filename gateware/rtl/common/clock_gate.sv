// SPDX-License-Identifier: SHL-2.1
// Clock of a part that has nothing to do most of the time, for the C++ model: there (NANET_CLOCK_GATES) it
// stands still until the part is active again, and costs no time. In hardware it is the clock.
module clock_gate #(
    // Cycles that the part may go on by itself after it was last called active.
    parameter int unsigned HOLD = 8
) (
    input logic clk,

    // In this cycle the part gets something, has something or is reset.
    input logic active,

    output logic gated
);

`ifdef NANET_CLOCK_GATES
  logic [$clog2(HOLD):0] left_q;
  logic gate_open  /* verilator public_flat_rd */;
  logic gate_open_q;
  bit always_on;  // as in hardware, for a comparison

  initial always_on = $test$plusargs("nanet_no_gates") != 0;

  always_ff @(posedge clk) begin
    if (active) left_q <= ($clog2(HOLD) + 1)'(HOLD);
    else if (left_q != 0) left_q <= left_q - 1'b1;
  end
  assign gate_open = active || left_q != 0 || always_on;
  // Changes while the clock is low; sim/generate.py does so in C++.
  always_ff @(negedge clk) gate_open_q <= gate_open;
  assign gated = clk && gate_open_q;
`else
  assign gated = clk;

  logic unused;
  assign unused = &{1'b0, active, 1'(HOLD)};
`endif

endmodule
