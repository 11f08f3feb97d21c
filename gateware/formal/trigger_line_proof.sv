// SPDX-License-Identifier: SHL-2.1
// Proof of trigger_line for an arbitrary period `chosen`: a release belongs to a decision of that period in
// this burst, in no other tick than its t + L; what was placed leaves then, or is counted as dead or choked.
// 32 places, of which the chosen one is stored; the latency is any allowed one; times of eight bits.
module trigger_line_proof
  import nanet_ttc_pkg::*;
(
    input logic        clk,
    input logic        rst,
    input logic [4:0]  latency,
    input logic [3:0]  min_ticks,
    input logic        choke,
    input logic        tick,
    input logic        begins,
    input logic        ends,
    input logic        loses,
    input logic        decision_valid,
    input logic        decision_timed,
    input logic        decision_burst,
    input logic [7:0]  decision_time,
    input logic [5:0]  decision_kind,
    input logic [7:0]  chosen_time
);

  localparam int unsigned Log2 = 5;
  localparam int unsigned Ahead = 2;

  logic started_q = 1'b0;
  logic tick_q;
  logic now_tick, sob, eob, decision_ready, release_valid, slack_valid, ready;
  ttc_tick_t now_number;
  ttc_now_t now, now_q;
  release_t released;
  trigger_counts_t counts;
  logic [31:0] slack, chosen;
  logic [7:0] time_q, chosen_q;
  decision_t decision;
  assign chosen   = 32'(chosen_time);
  assign decision = '{timed: decision_timed, burst: decision_burst, timestamp: 32'(decision_time),
                      kind: decision_kind};
  logic [4:0] latency_q;
  logic [3:0] min_ticks_q;

  trigger_line #(
      .LOG2_PLACES(Log2),
      .AHEAD      (Ahead)
  ) i_line (
      .*
  );

  // Time as ttc_time gives it: `lost` falls with an SOB only.
  always_ff @(posedge clk) begin
    started_q   <= 1'b1;
    latency_q   <= latency;
    min_ticks_q <= min_ticks;
    chosen_q    <= chosen_time;
    now_tick    <= tick;
    tick_q      <= now_tick;
    sob         <= tick && begins;
    eob         <= tick && ends && !begins;
    if (tick) begin
      now_number    <= now_number + 1'b1;
      time_q     <= begins ? '0 : time_q + 1'b1;
      if (begins) begin
        now_q.burst <= now_q.burst + 1'b1;
        now_q.lost  <= 1'b0;
      end
    end
    if (loses) now_q.lost <= 1'b1;
    if (rst) begin
      now_q      <= '0;
      now_q.lost <= 1'b1;
      time_q     <= '0;
      now_tick   <= 1'b0;
      tick_q     <= 1'b0;
      now_number <= '0;
      sob        <= 1'b0;
      eob        <= 1'b0;
    end
  end

  always_comb begin
    now           = now_q;
    now.timestamp = 32'(time_q);
  end

  // The chosen period has a decision that was placed in this burst and not yet swept.
  logic placed_q, swept;
  logic [31:0] sweep_time;
  assign sweep_time = now.timestamp + Ahead - 32'(latency);
  assign swept      = now_tick && sweep_time == chosen;

  // With the four steps from sweep to release.
  typedef struct packed {
    logic       tick;
    logic       chosen;
    logic       here;    // the chosen place is swept
    logic       negative;  // the period lies before the SOB
    logic       placed;
    logic       timed;
    ttc_tick_t  number;
  } step_t;
  step_t step0_q, step1_q, step2_q, step3_q;

  always_ff @(posedge clk) begin
    if (i_line.places && i_line.input_q.timestamp == chosen) placed_q <= 1'b1;
    if (swept || now_tick && sob || now.lost) placed_q <= 1'b0;
    step0_q <= '{
        tick: now_tick,
        chosen: swept,
        here: now_tick && sweep_time[Log2-1:0] == chosen_time[Log2-1:0],
        negative: sweep_time[31],
        placed: placed_q && !sob,
        timed: !now.lost && !i_line.clearing_q && !sob,
        number: now_number + ttc_tick_t'(Ahead)
    };
    step1_q <= step0_q;
    step2_q <= step1_q;
    step3_q <= step2_q;
    if (rst) begin
      placed_q <= 1'b0;
      step0_q  <= '0;
      step1_q  <= '0;
      step2_q  <= '0;
      step3_q  <= '0;
    end
  end

  // Content of the chosen place with the operations on their way to it.
  typedef struct packed {
    logic       held;
    logic       burst;
    logic [5:0] kind;
  } content_t;
  logic [Log2-1:0] place, age, order;
  logic reads, opens, writes, current, stale, normal, begins_now;
  content_t word, content;
  assign place  = chosen_time[Log2-1:0];
  assign reads  = i_line.read_q.valid && !i_line.read_q.idle && i_line.read_q.place == place;
  assign opens  = i_line.op_q.valid && !i_line.op_q.idle && i_line.op_q.place == place;
  assign writes = i_line.write_valid_q && i_line.write_place_q == place;
  assign word   = i_line.i_places.word_q;
  always_comb begin
    content = writes ? i_line.write_q : word;
    if (opens && (i_line.op_q.sweep || i_line.op_q.clear)) content = '0;
    else if (opens) content = '{held: 1'b1, burst: i_line.op_q.burst, kind: '0};
    if (reads && (i_line.read_q.sweep || i_line.read_q.clear)) content = '0;
    else if (reads) content = '{held: 1'b1, burst: i_line.read_q.burst, kind: '0};
  end
  assign begins_now = now_tick && sob;
  assign normal  = !i_line.clearing_q && !begins_now;
  assign current = content.held && content.burst == now.burst[0];
  assign stale   = content.held && content.burst != now.burst[0];
  assign age     = time_q[Log2-1:0] - place;                     // of the place's period
  assign order   = place - 5'(Ahead) + latency - 1'b1;           // ticks after the first until it is swept

  always_comb begin
    assume (rst == !started_q);
    assume (latency >= 5'(Ahead + 2) && latency <= 5'd30);
    assume (i_line.i_places.watched == chosen_time[Log2-1:0]);
    if (started_q) begin
      assume (latency == latency_q && min_ticks == min_ticks_q && chosen_time == chosen_q);
      if (now_tick || tick_q) assume (!tick);  // three cycles apart
      assume (time_q != '1);

      // A release only in the step of its tick, and named so.
      if (release_valid) assert (step3_q.tick && released.tick == step3_q.number);
      // No release of the chosen period at its tick without a decision of this burst ...
      if (counts.sent && step3_q.chosen) assert (step3_q.placed && step3_q.timed);
      if (counts.sent && step3_q.here) assert (!step3_q.negative);
      // ... and what was placed leaves at that tick, or is counted.
      if (step3_q.chosen && step3_q.placed && step3_q.timed)
        assert (counts.sent || counts.dead || counts.choked);
      // Each decision has one outcome.
      if (counts.decisions)
        assert (3'(counts.late) + 3'(counts.early) + 3'(counts.untimed) + 3'(slack_valid) == 3'd1);
      if (i_line.places) assert (i_line.input_q.timed && i_line.input_q.burst == now.burst[0]);
      assert (!(counts.sent && counts.specials) && release_valid == (counts.sent || counts.specials));

      // Invariants of the induction: registers that follow others,
      assert (i_line.age_limit_q == latency - 5'(Ahead + 2) && i_line.sweep_base_q == 5'(Ahead + 1) - latency);
      if (i_line.aged_q && !now_tick) assert (i_line.age_q == now.timestamp - i_line.input_q.timestamp);
      if (i_line.aged_q) assert (i_line.input_valid_q);
      if (i_line.aged_q && (i_line.op_q.valid && i_line.op_q.place == i_line.input_q.timestamp[Log2-1:0] ||
                            i_line.write_valid_q && i_line.write_place_q == i_line.input_q.timestamp[Log2-1:0]))
        assert (i_line.met_q);
      if (i_line.aged_q && i_line.read_q.valid && i_line.read_q.place == i_line.input_q.timestamp[Log2-1:0])
        assert (i_line.swept_q || i_line.read_q.clear && i_line.clearing_q);
      if (i_line.input_valid_q) assert (i_line.input_q.timestamp[31:8] == '0);
      if (i_line.op_q.valid) assert (!(i_line.op_q.sweep && i_line.op_q.clear));
      if (i_line.read_q.valid) assert (!(i_line.read_q.sweep && i_line.read_q.clear));
      assert ((i_line.read_q.valid && i_line.read_q.sweep) == step0_q.tick);
      if (step0_q.tick) assert (i_line.read_q.number == step0_q.number);
      assert ((i_line.op_q.valid && i_line.op_q.sweep) == step1_q.tick && i_line.sweep_q == step2_q.tick);
      if (step1_q.tick) assert (i_line.op_q.number == step1_q.number);
      if (step2_q.tick) assert (i_line.number_q == step2_q.number);
      assert (i_line.turn_q <= 6'd32 && i_line.clear_at_q <= 6'd32);
      if (!i_line.turn_q[Log2] && !begins_now) assert (time_q == 8'(i_line.turn_q) + 8'(now_tick));
      // an operation on the chosen place never meets another one,
      if (reads) assert (!opens && !writes && i_line.i_places.rd_data == word);
      if (opens) assert (!writes && i_line.stored == word);
      if (now_tick && !begins_now && !i_line.clearing_q && i_line.begin_op.place == place)
        assert (!reads && !opens && !writes);
      if (i_line.clearing_q && !i_line.known_q) assert (now.lost || !placed_q);
      // what the chosen place holds,
      if (i_line.clearing_q) assert (!placed_q || begins_now);
      if (i_line.clearing_q && content.held) assert (i_line.clear_at_q <= 6'(place));
      if (normal && current) assert (age < latency - 5'(Ahead) || now_tick && age == latency - 5'(Ahead));
      if (normal && current) assert (8'(age) <= time_q);
      if (normal && stale) assert (!i_line.turn_q[Log2] && 6'(order) >= i_line.turn_q);
      if (begins_now && i_line.turn_q[Log2] && !i_line.clearing_q) assert (!current);
      // and what it has to do with the chosen period.
      if (normal && current && !now.lost && chosen_time <= time_q && time_q - chosen_time < 8'd32)
        assert (placed_q);
      if (normal && placed_q && !now.lost) assert (current && chosen_time <= time_q && time_q - chosen_time < 8'd32);
    end
  end

endmodule
