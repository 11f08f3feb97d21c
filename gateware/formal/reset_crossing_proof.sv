// SPDX-License-Identifier: SHL-2.1
// Proof of reset_crossing between two sides with FIFO pointers, for any clock edges and requests. Pointers
// are cleared only while the other side is in reset, no side leaves reset before both have been in it, and
// no request is lost. Registers start at 0.
module reset_crossing_proof (
    input logic a_clk,
    input logic a_rst,
    input logic b_clk,
    input logic b_rst
);

  logic a_out, a_clear, b_out, b_clear;
  reset_crossing i_reset (
      .*
  );

  // Per side: in reset; pointers cleared; both sides cleared while both were in reset.
  logic a_stands_q = 1'b0, a_zero_q = 1'b0, a_served_q = 1'b0;
  logic b_stands_q = 1'b0, b_zero_q = 1'b0, b_served_q = 1'b0;
  logic both;
  assign both = a_stands_q && a_zero_q && b_stands_q && b_zero_q;

  always_ff @(posedge a_clk) begin
    a_stands_q <= a_out;
    a_zero_q   <= a_clear || (a_zero_q && a_out);
    a_served_q <= a_out && (a_served_q || both);
  end

  always_ff @(posedge b_clk) begin
    b_stands_q <= b_out;
    b_zero_q   <= b_clear || (b_zero_q && b_out);
    b_served_q <= b_out && (b_served_q || both);
  end

  always_comb begin
    if (a_rst) assert (a_out);
    if (b_rst) assert (b_out);
    if (a_clear) assert (a_out && b_stands_q);
    if (b_clear) assert (b_out && a_stands_q);
    if (a_stands_q && !a_out) assert (a_zero_q && a_served_q);
    if (b_stands_q && !b_out) assert (b_zero_q && b_served_q);
  end

  // Induction invariants: step numbers of a round, and the path of a step between the sides.
  function automatic logic [1:0] number(input logic [1:0] step);
    return {step[1], step[1] ^ step[0]};
  endfunction

  logic [1:0] a_step, a_sent, a_met, a_seen, b_step, b_sent, b_met, b_seen;
  assign a_step = number(i_reset.gen_side[0].step_q);
  assign a_sent = number(i_reset.gen_side[0].sent_q);
  assign a_met  = number(i_reset.gen_side[1].meta_q);
  assign a_seen = number(i_reset.gen_side[1].other_q);  // seen by b
  assign b_step = number(i_reset.gen_side[1].step_q);
  assign b_sent = number(i_reset.gen_side[1].sent_q);
  assign b_met  = number(i_reset.gen_side[0].meta_q);
  assign b_seen = number(i_reset.gen_side[0].other_q);  // seen by a

  // Lead of each side over the other's view of it, and of the other side over it, -1 to 1.
  logic [3:0] a_under_way, b_under_way;
  logic signed [3:0] a_ahead, b_ahead;
  logic [1:0] a_differs, b_differs;
  assign a_under_way = 4'(2'(a_step - a_sent)) + 4'(2'(a_sent - a_met)) + 4'(2'(a_met - a_seen));
  assign b_under_way = 4'(2'(b_step - b_sent)) + 4'(2'(b_sent - b_met)) + 4'(2'(b_met - b_seen));
  assign a_differs   = a_seen - b_step;
  assign b_differs   = b_seen - a_step;
  assign a_ahead     = 4'(signed'(a_differs)) + signed'(a_under_way);
  assign b_ahead     = 4'(signed'(b_differs)) + signed'(b_under_way);

  always_comb begin
    assert (a_under_way <= 2 && b_under_way <= 2 && a_differs != 2 && b_differs != 2);
    assert (a_ahead >= -1 && a_ahead <= 1 && a_ahead + b_ahead == 0);
    assert (2'(a_step - a_sent) <= 1 && 2'(b_step - b_sent) <= 1);
    if (a_sent != 0) assert (a_stands_q);
    if (b_sent != 0) assert (b_stands_q);
    if (a_step == 3 || a_sent >= 2) assert (a_zero_q);
    if (b_step == 3 || b_sent >= 2) assert (b_zero_q);
    if (a_sent == 3) assert (a_served_q);
    if (b_sent == 3) assert (b_served_q);
    if (a_step == 0 && a_sent == 0 && a_stands_q) assert (i_reset.gen_side[0].pending_q);
    if (b_step == 0 && b_sent == 0 && b_stands_q) assert (i_reset.gen_side[1].pending_q);
  end

endmodule
