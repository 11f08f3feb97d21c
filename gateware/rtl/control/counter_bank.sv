// SPDX-License-Identifier: SHL-2.1
// Counters in distributed RAM. Pulses are held in narrow counts, which a sweep adds to the memory: a counter
// is up to COUNTERS + 2 cycles behind its pulses.
module counter_bank #(
    // Counters, 2 to 32.
    parameter int unsigned COUNTERS = 24,
    // Width of a counter in bits.
    parameter int unsigned WIDTH = 32
) (
    input logic clk,
    // Clears all counters.
    input logic rst,

    input logic [COUNTERS-1:0] pulses,

    /*
     * Read: value a cycle after the index
     */
    input  logic [$clog2(COUNTERS)-1:0] read_index,
    output logic [WIDTH-1:0]            read_value
);

  localparam int unsigned IndexW = $clog2(COUNTERS);
  localparam int unsigned HeldW = $clog2(COUNTERS + 1);  // one pulse a cycle, for a turn of the sweep
  typedef logic [IndexW-1:0] index_t;
  localparam index_t Last = index_t'(COUNTERS - 1);

  if (COUNTERS < 2 || COUNTERS > 32) begin : gen_check_counters
    $fatal(1, "counter_bank: COUNTERS must be 2 to 32");
  end

  logic [COUNTERS-1:0][HeldW-1:0] held_q;
  (* no_rw_check, ram_style = "distributed" *) logic [WIDTH-1:0] counts[2 ** IndexW];
  index_t at_q, add_at_q;
  logic first_q;  // of the turns since reset: the memory's words are not used
  logic add_q, add_first_q;
  logic [HeldW-1:0] more_q;
  logic [WIDTH-1:0] count_q;
  // A further turn follows the one in which a pulse came.
  logic [1:0] turns_q;
  logic sweeps;
  assign sweeps = first_q || turns_q != '0;

  always_ff @(posedge clk) begin
    add_q <= sweeps;
    if (sweeps) begin
      at_q        <= at_q == Last ? '0 : at_q + 1'b1;
      add_at_q    <= at_q;
      add_first_q <= first_q;
      more_q      <= held_q[at_q];
      count_q     <= counts[at_q];
      if (at_q == Last) first_q <= 1'b0;
      if (at_q == Last && turns_q != '0) turns_q <= turns_q - 1'b1;
    end
    if (pulses != '0) turns_q <= 2'd2;
    if (pulses != '0)
      for (int unsigned i = 0; i < COUNTERS; i++) held_q[i] <= held_q[i] + HeldW'(pulses[i]);
    if (sweeps) held_q[at_q] <= HeldW'(pulses[at_q]);
    if (add_q) counts[add_at_q] <= (add_first_q ? '0 : count_q) + WIDTH'(more_q);
    read_value <= first_q || (add_q && add_first_q) ? '0 : counts[read_index];
    if (rst) begin
      held_q  <= '0;
      at_q    <= '0;
      first_q <= 1'b1;
      turns_q <= '0;
      add_q   <= 1'b0;
    end
  end

endmodule
