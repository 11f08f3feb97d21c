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

  // Requests at or above the current priority; the lowest of them, else the lowest of all.
  logic [REQUESTS-1:0] above_q, high, after_high, after_all, after;
  logic [REQUESTS-1:0] holder_q;  // of the turn; has the highest priority
  logic over;

  // Complete packets of the turn. The last grant is counted one cycle later, to keep its path short.
  logic [3:0] packets, packets_q;
  logic granted_q, same_q, over_q;
  logic [REQUESTS-1:0] tail_q;

  // Bits above the lowest one that is set.
  function automatic logic [REQUESTS-1:0] beyond(input logic [REQUESTS-1:0] bits);
    for (int i = 0; i < REQUESTS; i++) beyond[i] = |(bits & ((REQUESTS'(1) << i) - 1'b1));
  endfunction

  assign high       = request & above_q;
  assign after_high = beyond(high);
  assign after_all  = beyond(request);
  assign after      = |high ? after_high : after_all;
  assign grant      = |high ? high & ~after_high : request & ~after_all;
  assign holder     = holder_q;
  assign over       = packets == 4'(TURN - 1) && |(request & holder_q & last);

  always_comb begin
    packets = packets_q;
    if (granted_q) packets = over_q ? 4'd0 : (same_q ? packets_q : 4'd0) + 4'(|tail_q);
  end

  always_ff @(posedge clk) begin
    granted_q <= enable && |request;
    same_q    <= |(request & holder_q);
    over_q    <= over;
    tail_q    <= grant & last;
    packets_q <= packets;
    if (enable && |request) begin
      holder_q <= over ? '0 : grant;
      above_q  <= after | (over ? '0 : grant);
    end
    if (rst) begin
      above_q   <= '0;
      holder_q  <= '0;
      packets_q <= '0;
      granted_q <= 1'b0;
    end
  end

endmodule
