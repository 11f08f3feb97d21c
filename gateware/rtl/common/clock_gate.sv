// SPDX-License-Identifier: SHL-2.1
// Simulation-only clock gate for idle blocks; a wire in synthesis. NANET_CLOCK_GATES enables it in the C++
// model.
module clock_gate #(
    // Cycles that the clock runs on after `active` falls.
    parameter int unsigned HOLD = 8
) (
    input logic clk,

    // The block has input or pending work, or is in reset.
    input logic active,

    output logic gated
);

`ifdef NANET_CLOCK_GATES
  logic [$clog2(HOLD):0] left_q;
  logic gate_open  /* verilator public_flat_rd */;
  logic gate_open_q;
  bit always_on;  // disables the gate, for comparison with hardware

  initial always_on = $test$plusargs("nanet_no_gates") != 0;

  always_ff @(posedge clk) begin
    if (active) left_q <= ($clog2(HOLD) + 1)'(HOLD);
    else if (left_q != 0) left_q <= left_q - 1'b1;
  end
  assign gate_open = active || left_q != 0 || always_on;
  // Changes while the clock is low; sim/generate.py implements this in C++.
  always_ff @(negedge clk) gate_open_q <= gate_open;
  assign gated = clk && gate_open_q;
`else
  assign gated = clk;

  logic unused;
  assign unused = &{1'b0, active, 1'(HOLD)};
`endif

endmodule
