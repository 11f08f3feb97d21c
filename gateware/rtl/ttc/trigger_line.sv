// SPDX-License-Identifier: SHL-2.1
// Final trigger at a fixed latency: a decision for period t is held at place t of a memory, and every tick
// the place of now - L is read and cleared. A decision leaves in period t + L exactly, or it is counted.
// Ticks are at least three cycles apart.
module trigger_line
  import nanet_ttc_pkg::*;
#(
    // Places of the memory: 2^15 periods are 817 us.
    parameter int unsigned LOG2_PLACES = 15,
    // Ticks from reading a place to its release: both clock crossings.
    parameter int unsigned AHEAD = 8
) (
    input logic clk,
    input logic rst,

    /*
     * Configuration, steady from reset. `latency` is L in periods, from AHEAD + 2 to 2^LOG2_PLACES - 2
     */
    input logic [LOG2_PLACES-1:0] latency,
    input logic [3:0]             min_ticks,  // shortest distance of two releases
    input logic                   choke,      // level: no physics triggers until L after its end

    // Memory is cleared.
    output logic ready,

    /*
     * Time
     */
    input logic      now_tick,
    input ttc_tick_t now_number,
    input ttc_now_t  now,
    input logic      sob,
    input logic      eob,

    input  logic      decision_valid,
    output logic      decision_ready,
    input  decision_t decision,

    /*
     * Pulse, AHEAD ticks before the release
     */
    output logic     release_valid,
    output release_t released,

    output trigger_counts_t counts,

    /*
     * Each decision that is placed: t + L - now in periods, for a histogram
     */
    output logic        slack_valid,
    output logic [31:0] slack
);

  localparam int unsigned Margin = AHEAD + 2;
  localparam int unsigned Places = 1 << LOG2_PLACES;
  typedef logic [LOG2_PLACES-1:0] place_t;

  if (AHEAD < 1 || AHEAD > 8 || LOG2_PLACES > 30) begin : gen_check_parameters
    $fatal(1, "trigger_line: AHEAD must be 1 to 8, LOG2_PLACES at most 30");
  end

  typedef struct packed {
    logic       held;
    logic       burst;
    logic [5:0] kind;
  } content_t;

  // ---------------------------------------------------------------- clearing, after reset and two quick SOBs

  // A burst shorter than a whole turn of the memory leaves places of several bursts. The operations in flight
  // end before the clearing begins, and its own before it ends; sweeps leave the memory alone meanwhile.
  localparam int unsigned Settle = 5;
  logic clearing_q, known_q;
  logic [LOG2_PLACES:0] clear_at_q;  // beyond the last place: waits for the last write
  logic [2:0] settle_q;
  logic [LOG2_PLACES:0] turn_q;  // ticks since the last SOB, up to a whole turn
  logic clear_step;

  assign clear_step = clearing_q && settle_q == '0 && !now_tick && !clear_at_q[LOG2_PLACES];
  assign ready      = !clearing_q;

  always_ff @(posedge clk) begin
    if (settle_q != '0) settle_q <= settle_q - 1'b1;
    if (clear_step) begin
      clear_at_q <= clear_at_q + 1'b1;
      settle_q   <= clear_at_q == (LOG2_PLACES + 1)'(Places - 1) ? 3'(Settle) : '0;
    end
    if (clearing_q && clear_at_q[LOG2_PLACES] && settle_q == '0) begin
      clearing_q <= 1'b0;
      known_q    <= 1'b1;
    end
    if (now_tick) begin
      if (!turn_q[LOG2_PLACES]) turn_q <= turn_q + 1'b1;
      if (sob) begin
        turn_q <= '0;
        if (!turn_q[LOG2_PLACES] && !clearing_q) begin
          clearing_q <= 1'b1;
          clear_at_q <= '0;
          settle_q   <= 3'(Settle);
        end
      end
    end
    if (rst) begin
      clearing_q <= 1'b1;
      known_q    <= 1'b0;
      clear_at_q <= '0;
      settle_q   <= '0;
      turn_q     <= (LOG2_PLACES + 1)'(Places);  // all places are clear
    end
  end

  // ---------------------------------------------------------------- the decision at the input

  decision_t input_q;
  logic input_valid_q, aged_q, step, same_place, met_q, swept_q;
  // Computed one cycle before; `now` is unchanged since, as no decision goes on in the cycle of a tick.
  logic [31:0] age_q;
  place_t age_limit_q, sweep_base_q, sweep_place_q;
  logic early, late, untimed, places, unused_now;
  assign unused_now = &{1'b0, now.locked, now.in_burst, now.bunch, now.burst[7:1]};

  assign decision_ready = !input_valid_q || step;
  assign step           = input_valid_q && aged_q && !now_tick && !same_place;
  assign untimed        = now.lost || clearing_q || !input_q.timed || input_q.burst != now.burst[0];
  assign early          = !untimed && age_q[31];
  assign late           = !untimed && !early && age_q > 32'(age_limit_q);
  assign places         = step && !untimed && !early && !late;

  always_ff @(posedge clk) begin
    age_limit_q  <= latency - place_t'(Margin);
    sweep_base_q <= place_t'(AHEAD + 1) - latency;
    age_q        <= now.timestamp - input_q.timestamp;
    aged_q       <= input_valid_q && !step;
    if (step) input_valid_q <= 1'b0;
    if (decision_valid && decision_ready) begin
      input_valid_q <= 1'b1;
      input_q       <= decision;
    end
    if (rst) begin
      input_valid_q <= 1'b0;
      aged_q        <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- memory: read, change, write

  typedef struct packed {
    logic       valid;
    logic       sweep;   // read for release; else a decision, or clearing
    logic       clear;
    logic       idle;    // a sweep during clearing or of an SOB: counts the tick only
    logic       timed;
    ttc_tick_t  number;
    place_t     place;
    logic       burst;
    logic [5:0] kind;
  } operation_t;

  operation_t begin_op, read_q, op_q;
  content_t read, stored, write_q;
  logic write_valid_q;
  place_t write_place_q;

  // Compared one cycle before. Met: now in op_q, or being written. Swept: now in read_q, the place of a tick.
  // A decision finds no other one in read_q, and during clearing none is placed.
  place_t input_place;
  assign input_place = place_t'(input_q.timestamp);
  assign same_place  = met_q || swept_q;
  always_ff @(posedge clk) begin
    met_q   <= read_q.valid && read_q.place == input_place || op_q.valid && op_q.place == input_place;
    swept_q <= now_tick && sweep_place_q == input_place;
    // Of the next tick, unless it is that of an SOB, which sweeps none.
    sweep_place_q <= place_t'(now.timestamp) + sweep_base_q;
  end

  always_comb begin
    begin_op = '{
        valid: now_tick || places || clear_step,
        sweep: now_tick,
        clear: clear_step,
        idle: now_tick && (clearing_q || sob),
        timed: !now.lost && !clearing_q && !(now_tick && sob),
        number: now_number + ttc_tick_t'(AHEAD),
        place: place_t'(input_q.timestamp),
        burst: now.burst[0],
        kind: input_q.kind
    };
    if (now_tick) begin_op.place = sweep_place_q;
    else if (clearing_q) begin_op.place = place_t'(clear_at_q);  // no decision is placed meanwhile
  end

  // No operation reads a place in the cycle of its write, but for an idle one, whose word is not used.
  ram_1r1w #(
      .WIDTH  ($bits(content_t)),
      .DEPTH  (Places),
      .CHECKED(1'b0)
  ) i_places (
      .clk,
      .wr_en  (write_valid_q),
      .wr_addr(write_place_q),
      .wr_data(write_q),
      .rd_addr(begin_op.place),
      .rd_data(read)
  );

  logic same_burst, joins, sweep_q, physics_q, flushed_q, joined_q;
  logic [5:0] kind_q;
  ttc_tick_t number_q;
  assign same_burst = stored.burst == op_q.burst;
  assign joins      = stored.held && same_burst;

  always_ff @(posedge clk) begin
    read_q        <= begin_op;
    op_q          <= read_q;
    stored        <= read;  // output register of the block RAM
    write_valid_q <= op_q.valid && !op_q.idle;
    write_place_q <= op_q.place;
    write_q       <= '0;
    if (!op_q.sweep && !op_q.clear)
      write_q <= '{held: 1'b1, burst: op_q.burst, kind: joins ? stored.kind | op_q.kind : op_q.kind};

    sweep_q   <= op_q.valid && op_q.sweep;
    physics_q <= stored.held && same_burst && op_q.timed;
    kind_q    <= stored.kind;
    number_q  <= op_q.number;
    joined_q  <= op_q.valid && !op_q.sweep && !op_q.clear && joins;
    flushed_q <= op_q.valid && stored.held && known_q && !op_q.idle
                 && (op_q.clear || op_q.sweep && !op_q.timed || !same_burst);
    if (rst) begin
      read_q.valid  <= 1'b0;
      op_q.valid    <= 1'b0;
      write_valid_q <= 1'b0;
      sweep_q       <= 1'b0;
      joined_q      <= 1'b0;
      flushed_q     <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- release: special types, dead time, choke

  logic choke_q, sob_waits_q, eob_waits_q, on_waits_q, off_waits_q, special, far, blocked, sends;
  logic [5:0] special_kind;
  logic [3:0] gap_q;  // ticks since the last release; saturates
  place_t off_q;      // ticks until physics triggers are on again

  assign special      = sob_waits_q || eob_waits_q || on_waits_q || off_waits_q;
  assign special_kind = sob_waits_q ? KindSob : eob_waits_q ? KindEob :
      on_waits_q ? KindChokeOn : KindChokeOff;
  assign far          = gap_q >= min_ticks;
  assign blocked      = choke_q || off_q != '0;
  assign sends        = sweep_q && far && (special || physics_q && !blocked);

  always_ff @(posedge clk) begin
    choke_q       <= choke;
    release_valid <= sends;
    released      <= '{tick: number_q, kind: special ? special_kind : kind_q};
    if (sweep_q) begin
      if (off_q != '0) off_q <= off_q - 1'b1;
      if (sends) gap_q <= 4'd1;
      else if (gap_q != '1) gap_q <= gap_q + 1'b1;
      if (far) begin
        if (sob_waits_q) sob_waits_q <= 1'b0;
        else if (eob_waits_q) eob_waits_q <= 1'b0;
        else if (on_waits_q) on_waits_q <= 1'b0;
        else off_waits_q <= 1'b0;
      end
    end
    if (now_tick && sob) sob_waits_q <= 1'b1;
    if (now_tick && eob) eob_waits_q <= 1'b1;
    if (choke && !choke_q) on_waits_q <= 1'b1;
    if (choke_q) off_q <= latency;
    if (!choke && choke_q) off_waits_q <= 1'b1;
    if (rst) begin
      choke_q       <= 1'b0;
      release_valid <= 1'b0;
      sob_waits_q   <= 1'b0;
      eob_waits_q   <= 1'b0;
      on_waits_q    <= 1'b0;
      off_waits_q   <= 1'b0;
      off_q         <= '0;
      gap_q         <= '1;
    end
  end

  // ---------------------------------------------------------------- counters

  always_ff @(posedge clk) begin
    slack_valid <= places;
    slack       <= 32'(latency) - age_q;
    counts      <= '{
        decisions: step,
        sent: sends && !special,
        joined: joined_q,
        late: step && late,
        early: step && early,
        dead: sweep_q && physics_q && (special && far || !blocked && !far),
        choked: sweep_q && physics_q && blocked && !(special && far),
        untimed: step && untimed,
        flushed: flushed_q,
        specials: sends && special
    };
    if (rst) begin
      slack_valid <= 1'b0;
      counts      <= '0;
    end
  end

endmodule
