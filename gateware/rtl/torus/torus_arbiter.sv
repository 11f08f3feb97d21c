// SPDX-License-Identifier: SHL-2.1
// Arbiter of packets; combinational grant, one-hot. A granted request keeps priority for TURN packets, then
// has the lowest (round robin). Without a word of it, others are granted meanwhile. Turns of several packets
// keep a saturated network at its peak throughput; the wait stays bounded.
module torus_arbiter #(
    // Requests, at least 2.
    parameter int unsigned REQUESTS = 14,
    // Packets of a turn; 2 to 16.
    parameter int unsigned TURN = 8
) (
    input logic clk,
    input logic rst,

    input  logic                enable,   // the grant takes place
    input  logic [REQUESTS-1:0] request,
    input  logic [REQUESTS-1:0] last,     // the word is the last of its packet
    output logic [REQUESTS-1:0] grant,
    output logic [REQUESTS-1:0] holder    // of the turn, if any: granted whenever it requests
);

  if (REQUESTS < 2) begin : gen_check_requests
    $fatal(1, "torus_arbiter: REQUESTS must be at least 2");
  end
  if (TURN < 2 || TURN > 16) begin : gen_check_turn
    $fatal(1, "torus_arbiter: TURN must be 2 to 16");
  end

  // The last request granted, and whether its turn is over. The first of the order, subtracted from two
  // copies of the requests in a row, clears the next request at or above it. Requests are late in a
  // cycle, and a carry chain is short.
  logic [REQUESTS-1:0] winner_q, first;
  logic [2*REQUESTS-1:0] less;
  logic turned_q, over, granted;

  // Complete packets of the turn. The last grant is counted one cycle later, to keep its path short; `over`
  // selects between two comparisons with the count before it.
  logic [3:0] packets, earlier, packets_q;
  logic granted_q, same_q, counts;
  logic [REQUESTS-1:0] last_q;

  assign first   = turned_q ? {winner_q[REQUESTS-2:0], winner_q[REQUESTS-1]} : winner_q;
  assign less    = {request, request} - (2 * REQUESTS)'(first);
  assign grant   = request & ~(less[REQUESTS-1:0] & less[2*REQUESTS-1:REQUESTS]);
  assign holder  = turned_q ? '0 : winner_q;
  assign over    = |(request & holder & last) && earlier == (counts ? 4'(TURN - 2) : 4'(TURN - 1));
  assign granted = enable && |request;

  assign earlier = granted_q && (turned_q || !same_q) ? 4'd0 : packets_q;
  assign counts  = granted_q && !turned_q && |(winner_q & last_q);
  assign packets = earlier + 4'(counts);

  always_ff @(posedge clk) begin
    granted_q <= granted;
    same_q    <= |(request & holder);
    last_q    <= last;
    packets_q <= packets;
    if (granted) begin
      winner_q <= grant;
      turned_q <= over;
    end
    if (rst) begin
      winner_q  <= REQUESTS'(1) << (REQUESTS - 1);
      turned_q  <= 1'b1;
      packets_q <= '0;
      granted_q <= 1'b0;
    end
  end

endmodule
