// SPDX-License-Identifier: SHL-2.1
// Proof of the credits of a reliable link: reliable_tx with any packets, and a far end with any delays, lost
// reports and losses of the link. The buffer at the far end never holds more than its capacity; the words
// that the transmitter counts are exactly those under way, held, and freed but not yet reported.
module link_credits_proof
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
(
    input logic             clk,
    input logic             rst,
    // transmitter; words of both VCs, of which VC 0 is observed; payload words of a packet
    input logic             up,
    input logic             ready_phase,
    input logic             link_ready,
    input reliable_status_t received,
    input logic             in_valid,
    input logic             in_vc,
    input logic             other_head,
    input logic             other_tail,
    input logic       [8:0] need,
    // far end: it has trained; a word enters its buffer, leaves it; words reported freed
    input logic             trained,
    input logic             enter,
    input logic             leave,
    input logic       [9:0] reported
);

  localparam logic [9:0] Capacity = 10'd28;  // words of the buffer at the far end; small for the solver
  // Cycles from the space that a header was granted with to the header.
  localparam int unsigned Grant = 4;

  // ---------------------------------------------------------------- transmitter

  logic in_ready, open_q, head, tail, taken, accepted;
  logic [9:0] left_q;  // words of the packet under way, with its footer
  torus_word_t word;
  torus_words_t [TorusVcs-1:0] space;
  reliable_status_t status;
  logic [15:0] freed_q;  // as last reported

  assign head     = in_vc ? other_head : !open_q;
  assign tail     = in_vc ? other_tail : open_q && left_q == 10'd1;
  assign word     = '{head: head, tail: tail, data: '0};
  assign taken    = in_valid && in_ready && !in_vc;
  assign accepted = i_tx.accept[0] && i_tx.stage_room[0];
  always_comb begin
    status          = received;
    status.freed[0] = freed_q;
  end

  reliable_tx i_tx (
      .clk,
      .rst,
      .capacity    (Capacity),
      .node        ('0),
      .port        ('0),
      .in_valid,
      .in_ready,
      .in_vc,
      .in_word     (word),
      .space,
      .up,
      .ready_phase,
      .status,
      .freed       ('0),
      .link_valid  (),
      .link_ready,
      .link_control(),
      .link_data   (),
      .dropped     (),
      .sent        (),
      .resent      (),
      .unconfirmed ()
  );

  // ---------------------------------------------------------------- far end

  logic started_q = 1'b0;
  logic up_q, trained_q;
  logic [2:0] since_q;    // cycles up, at most Grant
  logic [9:0] coming_q;   // words of accepted packets that have not entered the buffer
  logic [9:0] rest_q;     // of these, words not yet accepted
  logic [9:0] held_q;     // words in the buffer
  logic [9:0] unsaid_q;   // words freed and not reported

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    up_q      <= up;
    since_q   <= !up ? '0 : since_q + 3'(since_q != 3'(Grant));
    if (taken) begin
      open_q <= !tail;
      left_q <= head ? 10'(need) + 10'd1 : left_q - 10'd1;
    end
    if (!up) rest_q <= '0;
    else if (accepted) rest_q <= head ? 10'(need) + 10'd1 : rest_q - 10'd1;
    coming_q <= coming_q - 10'(enter) + (accepted && head ? 10'(need) + 10'd2 : '0);
    held_q   <= held_q + 10'(enter) - 10'(leave);
    unsaid_q <= unsaid_q + 10'(leave) - reported;
    freed_q  <= freed_q + 16'(reported);
    // The buffer may hold words from before: they count as not yet freed.
    if (trained) begin
      unsaid_q <= 10'(leave);
      freed_q  <= -16'(held_q);
    end
    trained_q <= (trained || trained_q) && !(up_q && !up);
    if (rst) begin
      up_q      <= 1'b0;
      since_q   <= '0;
      open_q    <= 1'b0;
      rest_q    <= '0;
      coming_q  <= '0;
      held_q    <= '0;
      unsaid_q  <= '0;
      freed_q   <= '0;
      trained_q <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- assumptions, checks

  always_comb begin
    assume (rst == !started_q);
    assume (!rst || !up);
    if (started_q) begin
      // Both ends train while the transmitter is down, once the words from before have passed.
      assume (!trained || (!up && !up_q && coming_q == 0));
      assume (!up || trained_q);
      // A header was granted with the space of Grant cycles ago. That of a link that is down is unlimited.
      assume (need <= 9'd15);
      if (in_valid && !in_vc && head && up && since_q == 3'(Grant))
        assume (10'(need) <= space[0].data && space[0].header >= 8'd2);
      // A packet cut by the loss of the link is filled up.
      assume (!enter || coming_q > rest_q);
      assume (!leave || held_q != 0);
      // A report may be late or lost: the next one includes it.
      assume (reported <= unsaid_q);

      assert (held_q <= Capacity);
      if (up) begin
        assert (10'(i_tx.granted_q[0] - freed_q) == coming_q - rest_q + held_q + unsaid_q);
        if (coming_q == 0 && held_q == 0 && unsaid_q == 0) assert (space[0].data == Capacity - 10'd2);
      end
      // Induction invariants.
      assert (16'(i_tx.granted_q[0] - freed_q) <= 16'(Capacity) || !trained_q);
      assert (12'(held_q) + 12'(coming_q) <= 12'(Capacity));
      assert (coming_q >= rest_q);
      assert (!up_q || trained_q);
      if (trained_q) begin
        assert (12'(held_q) + 12'(coming_q) + 12'(unsaid_q) <= 12'(Capacity));
        assert (16'(i_tx.granted_q[0] - freed_q) == 16'(coming_q - rest_q + held_q + unsaid_q));
        if (!up_q) assert (coming_q == 0 && i_tx.granted_q[0] == 0);
      end
      if (!up_q) assert (rest_q == 0);
      if (up_q) assert (rest_q == (open_q && !i_tx.skip_q[0] ? left_q : 10'd0));
      if (up_q && since_q != 3'(Grant)) assert (!open_q || i_tx.skip_q[0]);
      assert (!open_q || (left_q != 0 && left_q <= 10'd16));
      assert (since_q <= 3'(Grant) && (up_q == (since_q != 0)));
      assert (open_q == i_tx.open_q[0] && i_tx.settle_q == 4'((32'd1 << since_q) - 32'd1));
    end
  end

endmodule
