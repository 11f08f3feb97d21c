// SPDX-License-Identifier: SHL-2.1
// Tracker of late answers. Stores the numbers that the sender answered at their deadline, and counts each
// later answer of the consumer once, found by its doorbell or by its descriptor.
module late_answer_tracker #(
    // Tracked numbers, a power of two; at least devices times descriptors.
    parameter int unsigned ENTRIES = 4096
) (
    input logic clk,
    input logic rst,

    /*
     * The sender passes a number
     */
    input  logic        set_valid,
    output logic        set_ready,
    input  logic [31:0] set_n,
    input  logic        set_late,

    /*
     * Query: whether the number waits for its answer; with `found`: its answer has arrived. Numbers not yet
     * passed or no longer tracked are not waiting
     */
    input  logic        query_valid,
    output logic        query_ready,
    input  logic        query_found,
    input  logic [31:0] query_n,
    output logic        reply_valid,
    output logic        reply_waiting,

    /*
     * Doorbells; beyond 16 in succession, faster than one in four cycles, they are ignored
     */
    input logic        bell_valid,
    input logic [31:0] bell_n,

    /*
     * All numbers below are passed (low word)
     */
    input logic [31:0] next_n,

    /*
     * Pulse: late answer
     */
    output logic counted
);

  localparam int unsigned AddrW = $clog2(ENTRIES);

  if (1 << AddrW != ENTRIES) begin : gen_check_entries
    $fatal(1, "late_answer_tracker: ENTRIES must be a power of two");
  end

  typedef enum logic [2:0] {
    Clear,
    Idle,
    Read,
    Keep,
    Check
  } state_t;

  logic mem[ENTRIES];
  state_t state_q;
  logic [AddrW-1:0] sweep_q, index, write_index;
  logic read_q, bit_q, known_q, query_q, found_q, waiting, write, write_bit;

  logic bell_q, bell_out_valid, bell_out_ready, unused_ready;
  logic [31:0] bell_n_q, bell_out_n, n_q, behind_q;
  logic [4:0] unused_level;

  // Registered, since the doorbell arrives late in the cycle.
  always_ff @(posedge clk) begin
    bell_q   <= bell_valid;
    bell_n_q <= bell_n;
    if (rst) bell_q <= 1'b0;
  end

  fifo #(
      .WIDTH(32),
      .DEPTH(16)
  ) i_bells (
      .clk,
      .rst,
      .in_valid (bell_q),
      .in_ready (unused_ready),
      .in_data  (bell_n_q),
      .out_valid(bell_out_valid),
      .out_ready(bell_out_ready),
      .out_data (bell_out_n),
      .level    (unused_level)
  );

  assign set_ready = state_q == Idle;
  assign query_ready = state_q == Idle && !set_valid;
  assign bell_out_ready = state_q == Read && !query_q;
  assign waiting = known_q && bit_q;
  assign counted = state_q == Check && found_q && waiting;
  assign reply_valid = state_q == Check && query_q;
  assign reply_waiting = waiting;
  assign index = n_q[AddrW-1:0];

  always_comb begin
    write = 1'b0;
    write_bit = 1'b0;
    write_index = sweep_q;
    case (state_q)
      Clear: write = 1'b1;
      Idle: begin
        write = set_valid;
        write_bit = set_late;
        write_index = set_n[AddrW-1:0];
      end
      Check: begin
        write = counted;
        write_index = index;
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk) begin
    if (write) mem[write_index] <= write_bit;
    // Two register stages for the block RAM latency.
    read_q <= mem[index];
    bit_q  <= read_q;
  end

  always_ff @(posedge clk) begin
    case (state_q)
      Clear: begin
        sweep_q <= sweep_q + 1'b1;
        if (sweep_q == AddrW'(ENTRIES - 1)) state_q <= Idle;
      end
      Idle:
      if (!set_valid && query_valid) begin
        n_q     <= query_n;
        found_q <= query_found;
        query_q <= 1'b1;
        state_q <= Read;
      end else if (!set_valid && bell_out_valid) begin
        n_q     <= bell_out_n;
        found_q <= 1'b1;
        query_q <= 1'b0;
        state_q <= Read;
      end
      Read: begin
        // No number is passed during this lookup.
        behind_q <= next_n - n_q;
        state_q  <= Keep;
      end
      Keep: begin
        // Passed, and recent enough that its entry is not reused.
        known_q <= behind_q != 0 && behind_q <= 32'(ENTRIES);
        state_q <= Check;
      end
      Check: state_q <= Idle;
      default: state_q <= Clear;
    endcase
    if (rst) begin
      state_q <= Clear;
      sweep_q <= '0;
    end
  end

  logic unused_bits;
  assign unused_bits = ^set_n[31:AddrW];

endmodule
