// SPDX-License-Identifier: SHL-2.1
// Transmitter of a reliable link: cells of up to 16 words of one VC, each ended by a control word with
// CRC-32, acknowledgement and credits. Cells stay in a replay buffer until acknowledged (go-back-N). Words
// of both VCs may arrive interleaved; each VC has a staging FIFO.
module reliable_tx
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
#(
    // Cycles between control words without cells, at most.
    parameter int unsigned IDLE_CYCLES = 16,
    // Cycles without a word before an open cell ends.
    parameter int unsigned GAP_CYCLES = 4
) (
    input logic clk,
    input logic rst,

    /*
     * words of a buffer at the far end; own node and port
     */
    input logic [9:0]  capacity,
    input torus_node_t node,
    input logic [2:0]  port,

    /*
     * words from the router; space for it
     */
    input  logic                        in_valid,
    output logic                        in_ready,
    input  logic                        in_vc,
    input  torus_word_t                 in_word,
    output torus_words_t [TorusVcs-1:0] space,

    /*
     * state of the port: training, or up; status from the receiver; words freed in the own buffers
     */
    input logic                         up,
    input logic                         ready_phase,  // training: the far end is received
    input reliable_status_t             status,
    input logic [TorusVcs-1:0][15:0]    freed,

    /*
     * PHY; `control` marks a control word
     */
    output logic         link_valid,
    input  logic         link_ready,
    output logic         link_control,
    output logic [127:0] link_data,

    /*
     * pulses: a packet was dropped since the link is down; a cell was sent, or sent again; at the loss of the
     * link for one cycle: packets accepted and not acknowledged
     */
    output logic        dropped,
    output logic        sent,
    output logic        resent,
    output logic [15:0] unconfirmed
);

  if (IDLE_CYCLES < 2 || IDLE_CYCLES > 32) begin : gen_check_idle
    $fatal(1, "reliable_tx: IDLE_CYCLES must be 2 to 32");
  end
  if (GAP_CYCLES < 1 || GAP_CYCLES > 15) begin : gen_check_gap
    $fatal(1, "reliable_tx: GAP_CYCLES must be 1 to 15");
  end

  // ---------------------------------------------------------------- words from the router

  localparam int unsigned Grant = 4;  // cycles from the space to a header granted with it

  // A packet under way when the link falls loses its rest; one that begins while it is down is dropped whole,
  // and so is one granted then: it arrives up to four cycles later, and its space was not checked.
  logic [TorusVcs-1:0] skip_q, stage_valid, stage_ready, stage_room, accept;
  logic [TorusVcs-1:0][128:0] stage;  // tail, word
  logic [TorusVcs-1:0][5:0] stage_level;
  logic [TorusVcs-1:0][15:0] granted_q;  // words accepted since training
  logic clear;
  logic drop, unused_kind;
  logic [Grant-1:0] settle_q;  // up in the last cycles

  assign clear    = rst || !up;
  assign drop     = !up || !settle_q[Grant-1] || (skip_q[in_vc] && !in_word.head);
  assign unused_kind = ^status.kind;
  assign in_ready = drop || stage_room[in_vc];

  for (genvar v = 0; v < TorusVcs; v++) begin : gen_stage
    logic [15:0] held, left;
    assign accept[v] = in_valid && in_vc == 1'(v) && !drop;

    fifo #(
        .WIDTH(129),
        .DEPTH(32)
    ) i_fifo (
        .clk,
        .rst      (clear),
        .in_valid (accept[v]),
        .in_ready (stage_room[v]),
        .in_data  ({in_word.tail, in_word.data}),
        .out_valid(stage_valid[v]),
        .out_ready(stage_ready[v]),
        .out_data (stage[v]),
        .level    (stage_level[v])
    );

    // Credits count all words of a buffer: two are left for header and footer.
    assign held = granted_q[v] - status.freed[v];
    assign left = held < {6'd0, capacity} ? {6'd0, capacity} - held : '0;
    assign space[v].data   = !up ? '1 : left < 16'd2 ? '0 : 10'(left - 16'd2);
    assign space[v].header = !up || left > 16'd255 ? '1 : left[7:0];

    always_ff @(posedge clk) begin
      if (accept[v] && stage_room[v]) granted_q[v] <= granted_q[v] + 16'd1;
      if (in_valid && in_ready && in_vc == 1'(v)) skip_q[v] <= drop && !in_word.tail;
      else if (!up) skip_q[v] <= skip_q[v] || open_q[v];
      if (clear) granted_q[v] <= '0;
      if (rst) skip_q[v] <= 1'b0;
    end
  end

  // Packets of which some words were accepted.
  logic [TorusVcs-1:0] open_q;
  always_ff @(posedge clk) begin
    for (int v = 0; v < TorusVcs; v++)
      if (in_valid && in_ready && in_vc == 1'(v)) open_q[v] <= !in_word.tail;
    dropped  <= in_valid && in_ready && drop && in_word.tail;
    settle_q <= up ? {settle_q[Grant-2:0], 1'b1} : '0;
    if (rst) begin
      open_q  <= '0;
      dropped <= 1'b0;
    end
  end

  typedef enum logic [2:0] {
    SendIdle,
    SendCell,
    SendEnd,       // control word of a new cell
    SendFetch,     // first word from the replay buffer, two cycles
    SendFetched,
    SendReplay     // words and control words
  } send_e;
  send_e state_q;

  // ---------------------------------------------------------------- replay buffer

  localparam int unsigned SlotW = $clog2(CellWindow);
  localparam int unsigned WordW = $clog2(CellWords);

  (* no_rw_check *) logic [127:0] replay[CellWindow*CellWords];
  logic [CellWindow-1:0][4:0] count_q;
  logic [CellWindow-1:0] vc_q;
  logic [7:0] next_q;   // sequence number of the cell under construction
  logic [7:0] first_q;  // oldest that is not acknowledged
  logic [7:0] again_q;  // under repetition
  logic replay_wanted_q;

  // Repetition: places of the replay buffer, each cell followed by one for its control word, then the block
  // RAM and a register, because its output is late in the cycle.
  typedef struct packed {
    logic       control;
    logic       vc;
    logic [4:0] count;
  } replay_t;
  logic [SlotW-1:0] fetch_q;     // cell
  logic [WordW:0] fetch_word_q;  // its word; count: the control word
  logic [5:0] fetch_cell_q, fetch_next_q;  // VC and count of this cell, and of the next
  replay_t fetched, replay_1_q, replay_q;
  logic [127:0] replay_word_1_q, replay_word_q;

  // Whether a cell may begin, and another behind it; acknowledgements count one cycle later.
  logic window_q, further_q;
  logic [7:0] unacknowledged;
  assign unacknowledged = next_q - first_q;
  always_ff @(posedge clk) begin
    further_q <= unacknowledged < 8'(CellWindow - 1);
    window_q  <= unacknowledged < (state_q == SendEnd ? 8'(CellWindow - 1) : 8'(CellWindow));
    if (rst) begin
      further_q <= 1'b0;
      window_q  <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- sequencer

  logic advance, cell_vc_q, turn_q, pick, any, have, put, gap_over, other_full, credit_due, carries;
  logic replay_end;
  logic [4:0] cell_count_q;
  logic [3:0] gap_q;
  logic [5:0] idle_q;
  logic resend_q, request_q, acknowledges, acknowledge_valid_q;
  // Number acknowledged; its distance, and that of next_q, to first_q.
  logic [7:0] acknowledge_q, ahead_q, unacknowledged_q;
  control_t control;
  logic s1_valid_q, s1_control_q;
  logic [127:0] s1_word_q, s1_checked_q;  // word; as in crc_aligned
  logic [TorusVcs-1:0][15:0] reported_q;  // credits last sent

  assign advance    = !link_valid || link_ready;
  assign any        = |stage_valid;
  assign pick       = stage_valid[turn_q] ? turn_q : !turn_q;
  assign have       = stage_valid[cell_vc_q];
  assign put        = advance && state_q == SendCell && have;
  assign other_full = stage_level[!cell_vc_q] >= 6'(CellWords);
  assign gap_over   = gap_q == 4'(GAP_CYCLES) || (gap_q != 0 && other_full) || replay_wanted_q;
  assign credit_due = reported_q != freed;
  assign replay_end = state_q == SendReplay && replay_q.control;
  // A control word leaves in this cycle.
  assign carries = state_q == SendEnd || replay_end ||
                      (state_q == SendIdle && !(replay_wanted_q && up) && !(up && any && window_q) &&
                       (!up || credit_due || resend_q || idle_q >= 6'(IDLE_CYCLES - 2)));
  // A number outside the window is ignored.
  assign acknowledges = acknowledge_valid_q && ahead_q <= unacknowledged_q;

  always_ff @(posedge clk) begin
    acknowledge_valid_q <= status.valid;
    acknowledge_q       <= status.acknowledge;
    ahead_q             <= status.acknowledge - first_q;
    unacknowledged_q    <= unacknowledged;
    request_q           <= status.valid && status.resend;
    if (clear) begin
      acknowledge_valid_q <= 1'b0;
      request_q           <= 1'b0;
    end
  end

  // Packets accepted, put into cells, and acknowledged, since training.
  logic [15:0] taken_q, put_q, acknowledged_q;
  logic [15:0] put_at[CellWindow];  // at the end of each cell
  logic was_up_q;
  always_ff @(posedge clk) begin
    was_up_q    <= up;
    unconfirmed <= was_up_q && !up ? taken_q - acknowledged_q : '0;
    if (in_valid && in_ready && !drop && in_word.tail) taken_q <= taken_q + 16'd1;
    if (put && stage[cell_vc_q][128]) put_q <= put_q + 16'd1;
    if (advance && state_q == SendEnd) put_at[next_q[SlotW-1:0]] <= put_q;
    if (acknowledges && ahead_q != 0) acknowledged_q <= put_at[SlotW'(acknowledge_q-8'd1)];
    if (clear) begin
      taken_q        <= '0;
      put_q          <= '0;
      acknowledged_q <= '0;
    end
    if (rst) begin
      was_up_q    <= 1'b0;
      unconfirmed <= '0;
    end
  end

  always_comb begin
    {fetched.vc, fetched.count} = fetch_cell_q;
    fetched.control             = 5'(fetch_word_q) == fetched.count;
  end

  for (genvar v = 0; v < TorusVcs; v++) begin : gen_take
    assign stage_ready[v] = put && cell_vc_q == 1'(v);
  end

  always_comb begin
    control = '{
        comma: ControlComma,
        kind: up ? ControlIdle : ready_phase ? ControlReady : ControlTrain,
        sequence_number: next_q,
        acknowledge: status.expected,
        resend: resend_q && up,
        freed: freed,
        node: up ? '0 : node,
        port: up ? '0 : port,
        default: '0
    };
    if (state_q == SendEnd) begin
      control.kind  = ControlCell;
      control.vc    = cell_vc_q;
      control.count = cell_count_q;
    end
    if (replay_end) begin
      control.kind            = ControlCell;
      control.vc              = replay_q.vc;
      control.count           = replay_q.count;
      control.sequence_number = again_q;
    end
  end

  always_ff @(posedge clk) begin
    sent   <= 1'b0;
    resent <= 1'b0;
    if (put) replay[{next_q[SlotW-1:0], cell_count_q[WordW-1:0]}] <= stage[cell_vc_q][127:0];
    if (advance) begin
      replay_word_1_q <= replay[{fetch_q, fetch_word_q[WordW-1:0]}];
      replay_word_q   <= replay_word_1_q;
      replay_1_q      <= fetched;
      replay_q        <= replay_1_q;
      fetch_word_q    <= fetched.control ? '0 : fetch_word_q + 1'b1;
      if (fetched.control) begin
        fetch_q      <= fetch_q + 1'b1;
        fetch_cell_q <= fetch_next_q;
      end
    end
    // Early enough: a cell and its control word take two cycles at least.
    fetch_next_q <= {vc_q[fetch_q+1'b1], count_q[fetch_q+1'b1]};

    if (acknowledges) first_q <= acknowledge_q;
    if (status.gap) resend_q <= 1'b1;

    if (advance) begin
      s1_valid_q   <= 1'b1;
      s1_control_q <= 1'b1;
      s1_word_q    <= control;
      s1_checked_q <= {control[95:0], 32'd0};
      idle_q       <= idle_q + 6'd1;
      case (state_q)
        SendIdle: begin
          // A control word if one is due, or the first word of a cell in the next cycle.
          if (replay_wanted_q && up) begin
            replay_wanted_q <= 1'b0;
            again_q         <= first_q;
            fetch_q         <= first_q[SlotW-1:0];
            fetch_cell_q    <= {vc_q[first_q[SlotW-1:0]], count_q[first_q[SlotW-1:0]]};
            fetch_word_q    <= '0;
            s1_valid_q      <= 1'b0;
            if (first_q != next_q) state_q <= SendFetch;
          end else if (up && any && window_q) begin
            cell_vc_q    <= pick;
            turn_q       <= !pick;
            cell_count_q <= '0;
            gap_q        <= '0;
            s1_valid_q   <= 1'b0;
            state_q      <= SendCell;
          end else begin
            s1_valid_q <= carries;
          end
        end
        SendCell: begin
          s1_control_q <= 1'b0;
          s1_word_q    <= stage[cell_vc_q][127:0];
          s1_checked_q <= stage[cell_vc_q][127:0];
          s1_valid_q   <= have;
          gap_q        <= have ? '0 : gap_q + 4'd1;
          if (have) cell_count_q <= cell_count_q + 5'd1;
          // The last word of a cell, or a tail with nothing behind it, ends the cell without a gap.
          if (have && cell_count_q == 5'(CellWords - 1)) state_q <= SendEnd;
          else if (have && stage[cell_vc_q][128] && stage_level[cell_vc_q] == 0) state_q <= SendEnd;
          else if (!have && gap_over) state_q <= SendEnd;
        end
        SendEnd: begin
          count_q[next_q[SlotW-1:0]] <= cell_count_q;
          vc_q[next_q[SlotW-1:0]]    <= cell_vc_q;
          next_q                     <= next_q + 8'd1;
          sent                       <= 1'b1;
          // The next cell follows without a pause.
          if (up && any && !replay_wanted_q && further_q) begin
            cell_vc_q    <= pick;
            turn_q       <= !pick;
            cell_count_q <= '0;
            gap_q        <= '0;
            state_q      <= SendCell;
          end else state_q <= SendIdle;
        end
        SendFetch: begin
          s1_valid_q <= 1'b0;
          state_q    <= SendFetched;
        end
        SendFetched: begin
          s1_valid_q <= 1'b0;
          state_q    <= SendReplay;
        end
        default: begin
          if (replay_q.control) begin
            resent  <= 1'b1;
            again_q <= again_q + 8'd1;
            if (replay_wanted_q || again_q + 8'd1 == next_q) state_q <= SendIdle;
          end else begin
            s1_control_q <= 1'b0;
            s1_word_q    <= replay_word_q;
            s1_checked_q <= replay_word_q;
          end
        end
      endcase
      // Every control word carries credits and a pending request.
      if (carries) begin
        idle_q     <= '0;
        reported_q <= freed;
        resend_q   <= status.gap;
      end
    end
    if (request_q) replay_wanted_q <= 1'b1;

    if (clear) begin
      state_q         <= SendIdle;
      next_q          <= '0;
      first_q         <= '0;
      replay_wanted_q <= 1'b0;
      resend_q        <= 1'b0;
      cell_count_q    <= '0;
    end
    if (rst) begin
      s1_valid_q <= 1'b0;
      turn_q     <= 1'b0;
      idle_q     <= '0;
      reported_q     <= '0;
    end
  end

  // ---------------------------------------------------------------- CRC

  logic s2_valid_q, s2_control_q;
  logic [127:0] s2_word_q;
  logic [31:0] s2_part_q, crc_q, crc;

  assign crc = crc_value(crc_q, s2_control_q) ^ s2_part_q;

  always_ff @(posedge clk) begin
    if (advance) begin
      s2_valid_q   <= s1_valid_q;
      s2_control_q <= s1_control_q;
      s2_word_q    <= s1_word_q;
      s2_part_q    <= crc_aligned(s1_checked_q);
      if (s2_valid_q) crc_q <= s2_control_q ? '1 : crc;
      link_valid   <= s2_valid_q;
      link_control <= s2_control_q;
      link_data    <= s2_word_q;
      if (s2_control_q) link_data[127:96] <= ~crc;
    end
    if (rst) begin
      s2_valid_q <= 1'b0;
      link_valid <= 1'b0;
      crc_q      <= '1;
    end
  end

endmodule
