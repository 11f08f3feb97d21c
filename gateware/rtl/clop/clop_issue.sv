// SPDX-License-Identifier: SHL-2.1
// Scheduler of clop and its five pipeline steps. Issues a channel's request, a due timer, or a command on
// a board's sequence numbers. The next item is chosen while the previous one is in the pipeline.
module clop_issue
  import nanet_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2
) (
    input logic clk,
    input logic rst,

    /*
     * requests, steady until the response
     */
    input  logic [CHANNELS-1:0]           place_valid,
    output logic [CHANNELS-1:0]           place_ready,    // one cycle after the channel was chosen
    input  place_request_t [CHANNELS-1:0] place,
    input  clop_response_t                response,
    input  logic                          slowpath_busy,  // a firmware request is pending

    /*
     * timers, and commands (pulse)
     */
    input  logic        due_valid,
    output logic        due_ready,
    input  logic [31:0] due_n,
    input  logic [31:0] due_first,
    input  logic        due_old,
    input  logic        due_forced,
    input  logic        tracked,
    input  command_t    tracked_as,

    input clop_burst_t current,
    input clop_burst_t old,
    input logic        half,     // of the current burst; steady while an item is issued

    /*
     * issue conditions
     */
    input logic may_expire,
    input logic may_place,
    input logic may_read,    // the item may leave step `read`

    /*
     * pipeline steps
     */
    output logic       in_compare,
    output logic       in_classify,
    output clop_work_t work,         // valid from `read` to `classify`
    output logic       steps_idle,   // the pipeline is empty
    output logic       chosen,       // an item is issued in this cycle
    output logic       waits         // a request waits for its repeat
);

  localparam int unsigned ChannelW = CHANNELS > 1 ? $clog2(CHANNELS) : 1;

  typedef enum logic [5:0] {
    StepIdle   = 6'b000001,
    StepRead   = 6'b000010,
    StepWait   = 6'b000100,
    StepCapture  = 6'b001000,
    StepCompare  = 6'b010000,
    StepClassify = 6'b100000
  } step_e;

  // ------------------------------------------------------------------ selection of the next item

  logic [CHANNELS-1:0] holds_q;  // looked, not yet committed
  logic [CHANNELS-1:0][1:0] holds_board_q;
  logic [CHANNELS-1:0] again_q, admit_q;  // repeat; trusted
  logic first_q;  // the channel answered last has priority
  logic [ChannelW-1:0] first_channel_q, turn_q;
  logic [CHANNELS-1:0] eligible, of_current, of_old;
  logic [ChannelW-1:0] pick;
  logic free, take_place, take_expired;

  always_comb begin
    for (int c = 0; c < int'(CHANNELS); c++) begin
      of_current[c] = current.known && place[c].header.burst == current.number;
      of_old[c]     = old.known && place[c].header.burst == old.number;
      eligible[c]   = again_q[c] ? !slowpath_busy : place_valid[c] && !place_ready[c];
      // A place granted to another channel stays reserved until that packet has ended.
      for (int o = 0; o < int'(CHANNELS); o++)
        if (o != c && holds_q[o] && !holds_q[c] && holds_board_q[o] == place[c].header.board[1:0])
          eligible[c] = 1'b0;
    end
    pick = '0;
    for (int c = int'(CHANNELS) - 1; c >= 0; c--) if (eligible[c]) pick = ChannelW'(c);
    for (int c = int'(CHANNELS) - 1; c >= 0; c--)
      if (eligible[c] && ChannelW'(c) > turn_q) pick = ChannelW'(c);
    if (first_q && eligible[first_channel_q]) pick = first_channel_q;
  end

  assign take_expired = due_valid && free && may_expire;
  assign take_place   = eligible != 0 && free && may_place && !due_valid;
  assign due_ready    = take_expired;
  assign chosen       = take_place || take_expired;
  assign waits        = again_q != 0;

  // Chosen, not yet in the pipeline.
  logic valid_q, load;
  step_e step_q;
  logic [ChannelW-1:0] channel_q;
  logic place_q, expire_q, current_q, old_q, trusted_q, forced_q;
  logic [31:0] n_q, n_first_q;
  command_t command_q;
  logic tracked_q;

  assign free        = !valid_q;
  assign load        = step_q == StepIdle || step_q == StepClassify;
  assign steps_idle  = !valid_q && step_q == StepIdle;
  assign in_compare  = step_q == StepCompare;
  assign in_classify = step_q == StepClassify;

  always_ff @(posedge clk) begin
    place_ready <= '0;
    if (load) valid_q <= 1'b0;
    if (chosen || tracked) valid_q <= 1'b1;
    if (free) begin
      place_q   <= take_place;
      expire_q  <= take_expired;
      tracked_q <= tracked;
      channel_q <= pick;
      current_q <= tracked ? !tracked_as.old : due_valid ? !due_old : of_current[pick];
      old_q     <= tracked ? tracked_as.old : due_valid ? due_old : of_old[pick] && !of_current[pick];
      trusted_q <= again_q[pick] && admit_q[pick];
      n_q       <= due_n;
      n_first_q <= due_first;
      forced_q  <= due_forced;
      command_q <= tracked_as;
    end
    if (take_place) begin
      place_ready[pick] <= !again_q[pick];
      again_q[pick]     <= 1'b0;
      turn_q            <= pick;
      first_q           <= 1'b0;
      if (place[pick].kind == PlaceLook) begin
        holds_q[pick]       <= 1'b1;
        holds_board_q[pick] <= place[pick].header.board[1:0];
      end
    end
    if (response.valid && !response.keeps) holds_q[ChannelW'(response.channel)] <= 1'b0;
    if (response.again) begin
      again_q[ChannelW'(response.channel)] <= 1'b1;
      admit_q[ChannelW'(response.channel)] <= response.admit;
      if (response.first) begin
        first_q         <= 1'b1;
        first_channel_q <= ChannelW'(response.channel);
      end
    end
    if (rst) begin
      valid_q     <= 1'b0;
      place_ready <= '0;
      holds_q     <= '0;
      again_q     <= '0;
      admit_q     <= '0;
      first_q     <= 1'b0;
      turn_q      <= '0;
    end
  end

  // ------------------------------------------------------------------ pipeline steps

  place_request_t request;
  logic sob;
  assign request = place[channel_q];
  assign sob     = (request.header.flags & MgpSob) != 0;

  always_ff @(posedge clk) begin
    unique case (step_q)
      StepIdle:  if (valid_q) step_q <= StepRead;
      StepRead:  if (may_read) step_q <= StepWait;
      StepWait:  step_q <= StepCapture;
      StepCapture: step_q <= StepCompare;
      StepCompare: step_q <= StepClassify;
      default:   step_q <= valid_q ? StepRead : StepIdle;
    endcase
    if (load) begin
      work.place    <= place_q;
      work.expire   <= expire_q;
      work.seen     <= tracked_q && command_q.op == CommandSeen;
      work.restart  <= tracked_q && command_q.op == CommandRestart;
      work.at_frame <= tracked_q && command_q.op == CommandBoard;
      work.watch    <= tracked_q && command_q.op == CommandWatch;
      work.request  <= request;
      work.channel  <= 3'(channel_q);
      work.board    <= tracked_q ? command_q.board : request.header.board == 8'hFF ? 2'd0 :
                       request.header.board[1:0];
      work.number   <= tracked_q ? command_q.sequence_number : sob ? '0 : request.header.sequence_number;
      work.old      <= old_q;
      work.half     <= half ^ old_q;
      work.other    <= !current_q && !old_q;
      work.trusted  <= trusted_q;
      work.flag     <= command_q.flag;
      work.n        <= expire_q ? n_q : (old_q ? old.base[31:0] : current.base[31:0]) +
                       32'(request.header.frame);
      work.first    <= n_first_q;
      work.forced   <= forced_q;
    end
    if (rst) step_q <= StepIdle;
  end

  logic unused;
  assign unused = &{1'b0, current, old, response, command_q};

endmodule
