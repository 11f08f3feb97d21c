// SPDX-License-Identifier: SHL-2.1
// Proof of torus_arbiter: one request is granted whenever there is one; the holder of a turn comes first; a
// constant request waits for at most TURN packets of each other request.
module torus_arbiter_proof (
    input logic       clk,
    input logic       rst,
    input logic       enable,
    input logic [2:0] request,
    input logic [2:0] last,
    input logic [1:0] watched  // any request
);

  localparam int unsigned Requests = 3;
  localparam int unsigned Turn = 2;

  logic [2:0] grant, holder;
  torus_arbiter #(
      .REQUESTS(Requests),
      .TURN(Turn)
  ) i_arbiter (
      .*
  );

  logic started_q = 1'b0;
  logic [1:0] watched_q, first;
  logic [3:0] waited_q, ahead;  // packets granted while the watched request waits; at most still to come
  logic waits;

  // First request of the order, and packets before the watched one.
  always_comb begin
    first = 2'd0;
    for (int i = int'(Requests) - 1; i >= 0; i--) if (i_arbiter.first[i]) first = 2'(i);
    ahead = 4'(Turn) * 4'(watched >= first ? watched - first : watched + 2'd3 - first);
    if (holder != 0 && !holder[watched]) ahead = ahead - 4'(i_arbiter.packets);
  end
  assign waits = request[watched] && !(enable && grant[watched]);

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    watched_q <= watched;
    if (!waits) waited_q <= '0;
    else if (enable && |(grant & last)) waited_q <= waited_q + 1'b1;
    if (rst) waited_q <= '0;
  end

  always_comb begin
    assume (rst == !started_q);
    assume (watched < 2'(Requests));
    if (started_q) begin
      assume (watched == watched_q);
      assert ((grant & ~request) == 0);
      assert ((grant & (grant - 1'b1)) == 0);
      assert ((grant != 0) == (request != 0));
      if (|(holder & request)) assert (grant == (holder & request));
      assert (waited_q <= 4'(Turn * (Requests - 1)));
      // Induction invariants: order and turn.
      assert (waited_q == 0 || waited_q + ahead <= 4'(Turn * (Requests - 1)));
      assert ((holder & (holder - 1'b1)) == 0);
      assert (holder == 0 || holder == 3'b001 << first);
      assert ($onehot(i_arbiter.winner_q));
      assert (i_arbiter.packets < 4'(Turn));
      assert (holder != 0 || i_arbiter.packets == 0);
    end
  end

endmodule
