// SPDX-License-Identifier: SHL-2.1
// Timer queue of the open frames, in the order of setting. Examines the oldest timer continuously. Drops
// it when its frame is closed or has a later timer; offers it to clop when it is due: by the clock, by the
// number of newer frames, by its own number, or because its burst is being closed.
module clop_timers
  import nanet_pkg::*;
#(
    // As in clop.
    parameter int unsigned MAX_BUFFERS = 2048
) (
    input logic clk,
    input logic rst,

    /*
     * configuration
     */
    input logic [31:0]                    timeout_cycles,  // 0: no timeout
    input logic [15:0]                    grace_cycles,
    input logic [15:0]                    window_frames,   // 0: no window
    input logic [31:0]                    now,
    input logic [$clog2(MAX_BUFFERS)-1:0] index_mask,

    /*
     * a timer is set
     */
    input  logic        push,
    input  logic [31:0] push_n,
    input  logic [31:0] push_first,
    output logic        room,

    /*
     * copy of slot writes
     */
    input logic                           slot_we,
    input logic [$clog2(MAX_BUFFERS)-1:0] slot_addr,
    input logic                           slot_open,
    input logic [31:0]                    slot_first,

    /*
     * current burst: first number and next number
     */
    input logic [31:0] base_n,
    input logic [31:0] end_n,
    input logic [23:0] due_frames,  // frames below are due, each when the timers before it have left

    // Pulse: a burst begins; the current timer is evaluated again.
    input logic begins,

    /*
     * pulse: all frames of a burst expire; busy until every timer is checked
     */
    input  logic close,
    input  logic close_old,
    output logic closing,

    /*
     * expired timer
     */
    output logic        due_valid,
    input  logic        due_ready,
    output logic [31:0] due_n,
    output logic [31:0] due_first,
    output logic        due_old,     // of the older burst
    output logic        due_forced,  // independent of the first packet's time

    // A timer was removed.
    output logic moved
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);

  typedef struct packed {
    logic [31:0] n;
    logic [31:0] first;
  } timer_t;

  typedef enum logic [2:0] {
    TimerRead,
    TimerWait,
    TimerCapture,
    TimerCompare,
    TimerAct,
    TimerOffer,
    TimerNext
  } state_e;

  state_e state_q;
  timer_t head, in_data, in_data_q;
  logic head_valid, head_ready, in_valid, in_valid_q, rotate;
  logic [IndexW+1:0] level_q, count_q, left_q;  // timers in the queue; including the head; left to check
  logic [31:0] behind_base_q;
  logic open, open_q, live_q, old_q, due_q;
  logic [7:0] same_q;
  logic [31:0] first, age_q, behind_q, limit_q;
  logic aged_q, overtaken_q, passed_q, close_old_q, full_q;

  ram_bypass #(
      .WIDTH(33),
      .DEPTH(MAX_BUFFERS),
      .LATE (1'b1)
  ) slots (
      .clk,
      .wr_en  (slot_we),
      .wr_addr(slot_addr),
      .wr_data({slot_open, slot_first}),
      .rd_addr(IndexW'(head.n) & index_mask),
      .rd_data({open, first})
  );

  // A timer moved to the back keeps its order within its burst.
  assign rotate   = state_q == TimerAct && live_q && !due_q && (closing || full_q) && !push;
  assign in_valid = push || rotate;
  assign in_data  = push ? '{n: push_n, first: push_first} : head;

  assign due_valid  = state_q == TimerOffer;
  assign due_n      = head.n;
  assign due_first  = head.first;
  assign due_old    = old_q;
  assign due_forced = closing;
  assign head_ready = (state_q == TimerAct && !live_q) || rotate || (due_valid && due_ready);
  assign moved      = head_ready;

  // The queue uses widely spread block RAM with input and output registers and reads every cycle.
  // `stored_q` is valid three cycles after a write or after the previous word was taken.
  (* no_rw_check *) logic [$bits(timer_t)-1:0] mem[2*MAX_BUFFERS];
  logic [IndexW:0] wr_q, rd_q;
  logic [$bits(timer_t)-1:0] stored, stored_q;
  logic [1:0] present_q;
  logic fetch;

  assign fetch = !head_valid && present_q[1];

  always_ff @(posedge clk) begin
    if (in_valid_q) mem[wr_q] <= in_data_q;
    stored <= mem[rd_q];
  end

  always_ff @(posedge clk) begin
    in_valid_q <= in_valid;
    in_data_q  <= in_data;
    stored_q   <= stored;
    if (!head_valid) head <= stored_q;
    head_valid <= head_valid ? !head_ready : fetch;
    present_q  <= fetch ? '0 : {present_q[0], level_q != 0};
    wr_q       <= wr_q + (IndexW + 1)'(in_valid_q);
    rd_q       <= rd_q + (IndexW + 1)'(fetch);
    level_q    <= level_q + (IndexW + 2)'(in_valid_q) - (IndexW + 2)'(fetch);
    if (rst) begin
      in_valid_q <= 1'b0;
      head_valid <= 1'b0;
      present_q  <= '0;
      wr_q       <= '0;
      rd_q       <= '0;
      level_q    <= '0;
    end
  end

  always_ff @(posedge clk) begin
    room          <= level_q < (IndexW + 2)'(2 * MAX_BUFFERS - 4);
    full_q        <= level_q >= (IndexW + 2)'(2 * MAX_BUFFERS - 8);
    limit_q       <= timeout_cycles + 32'(grace_cycles);
    age_q         <= now - head.first;
    behind_q      <= end_n - head.n;
    behind_base_q <= head.n - base_n;
    count_q       <= count_q + (IndexW + 2)'(in_valid) - (IndexW + 2)'(head_ready);
    unique case (state_q)
      TimerRead: if (head_valid && !(closing && left_q == 0)) state_q <= TimerWait;
      TimerWait: state_q <= TimerCapture;
      TimerCapture: begin
        open_q      <= open;
        same_q      <= nibbles_equal(first, head.first);
        old_q       <= behind_base_q[31];
        aged_q      <= timeout_cycles != 0 && !age_q[31] && age_q >= limit_q;
        overtaken_q <= window_frames != 0 && !behind_q[31] && behind_q > 32'(window_frames);
        passed_q    <= behind_base_q < 32'(due_frames);
        state_q     <= TimerCompare;
      end
      TimerCompare: begin
        live_q  <= open_q && (closing || same_q == '1);
        due_q   <= closing ? old_q == close_old_q : aged_q || overtaken_q || passed_q;
        state_q <= TimerAct;
      end
      TimerAct: begin
        state_q <= TimerNext;
        if (live_q && due_q) state_q <= TimerOffer;
        else if (live_q && !rotate) state_q <= closing || full_q ? TimerAct : TimerRead;
      end
      TimerOffer: if (due_ready) state_q <= TimerNext;
      TimerNext: state_q <= TimerRead;
      default: state_q <= TimerRead;
    endcase
    if (closing && head_ready) left_q <= left_q - 1'b1;
    if (closing && left_q == 0) closing <= 1'b0;
    if (begins) state_q <= TimerRead;
    if (close) begin
      closing     <= 1'b1;
      close_old_q <= close_old;
      left_q      <= count_q + (IndexW + 2)'(in_valid) - (IndexW + 2)'(head_ready);
      state_q     <= TimerRead;
    end
    if (rst) begin
      state_q <= TimerRead;
      closing <= 1'b0;
      room    <= 1'b0;
      count_q <= '0;
    end
  end

endmodule
