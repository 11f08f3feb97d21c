// SPDX-License-Identifier: SHL-2.1
// Messages under way that end with an answer: PUT and SEND with DONE requested, GET. Counts the bytes placed;
// a message ends with its last byte, a failure or a time-out.
module rdma_messages
  import nanet_torus_pkg::*;
  import nanet_dma_pkg::*;
  import rdma_pkg::*;
#(
    // Messages; a power of two.
    parameter int unsigned ENTRIES = 64,
    // Clients with answers.
    parameter int unsigned CLIENTS = 5
) (
    input logic clk,
    input logic rst,

    input logic [31:0] now,
    input logic [31:0] timeout,  // cycles without progress; 0: none
    input logic [ 3:0] port,     // of the events

    /*
     * a new message; held until `open_done`
     */
    input  open_req_t open_req,
    output logic      open_done,
    output logic      open_room,
    output logic      idle,       // no message is under way

    /*
     * answers
     */
    input  message_req_t [CLIENTS-1:0] message_req,
    output message_rsp_t [CLIENTS-1:0] message_rsp,

    /*
     * events
     */
    output rdma_event_req_t ev_req,
    input  logic            ev_ready
);

  localparam int unsigned AddrW = $clog2(ENTRIES);
  localparam int unsigned ClientW = $clog2(CLIENTS);

  if (ENTRIES < 4 || 2 ** AddrW != ENTRIES || CLIENTS < 2) begin : gen_check
    $fatal(1, "rdma_messages: ENTRIES must be a power of two, at least 4, CLIENTS at least 2");
  end

  typedef struct packed {
    open_req_t   message;
    logic [31:0] left;
    logic [31:0] stamp;
  } entry_t;

  entry_t read, s2_q, s3_q, write_entry;
  logic write;
  logic [AddrW-1:0] write_at, read_at;
  logic [ENTRIES-1:0] open_q;
  logic [AddrW-1:0] head_q, tail_q;
  logic open_room_q;

  // A cycle late: messages are opened at larger intervals.
  assign open_room = open_room_q;
  assign idle      = head_q == tail_q;

  ram_1r1w #(
      .WIDTH($bits(entry_t)),
      .DEPTH(ENTRIES)
  ) ram (
      .clk,
      .wr_en  (write),
      .wr_addr(write_at),
      .wr_data(write_entry),
      .rd_addr(read_at),
      .rd_data(read)
  );

  // ---------------------------------------------------------------- search and decision

  typedef enum logic [3:0] {
    StateIdle,
    StateSearch,
    StateFound,
    StateApply,
    StateEvent,
    StateDone,
    StateAge,
    StateAged
  } state_e;
  state_e state_q;
  logic [ClientW-1:0] client_q, pick;
  logic picked, found_q, timed_q, answered_q;
  message_req_t request_q;
  logic [AddrW-1:0] at_q, s1_at_q, s2_at_q, s3_at_q, scan_q;
  logic at_valid_q, s1_valid_q, s2_valid_q, s3_valid_q, s3_match_q, pending;
  logic [31:0] left_q, age_q;
  logic enough_q, ends_q, inside_q;
  logic [1:0] wait_q;
  reason_e reason_q;
  logic [48:0] last_data_q, last_local_q;  // ends of the data and of the buffer

  always_comb begin
    pick   = '0;
    picked = 1'b0;
    for (int c = int'(CLIENTS) - 1; c >= 0; c--) begin
      if (message_req[c].valid) begin
        pick   = ClientW'(c);
        picked = 1'b1;
      end
    end
    for (int c = int'(CLIENTS) - 1; c >= 0; c--)
      if (message_req[c].valid && ClientW'(c) > client_q) pick = ClientW'(c);
    for (int c = 0; c < int'(CLIENTS); c++)
      message_rsp[c] = '{done: state_q == StateDone && client_q == ClientW'(c), found: found_q};
  end

  assign read_at    = at_q;
  assign pending    = at_valid_q || s1_valid_q || s2_valid_q || s3_valid_q;

  // New messages and answers take turns.
  assign open_done = state_q == StateIdle && (!picked || answered_q) && open_req.valid && open_room;
  always_comb begin
    write       = open_done;
    write_at    = tail_q;
    write_entry = '{message: open_req, left: open_req.bytes, stamp: now};
    if (state_q == StateApply && request_q.op == MessageAccount && enough_q && !timed_q) begin
      write       = 1'b1;
      write_at    = s3_at_q;
      write_entry = '{message: s3_q.message, left: left_q, stamp: now};
    end
  end

  assign ev_req = '{
      valid: state_q == StateEvent,
      item: '{
          lap: '0,
          n: s3_q.message.message,
          stamp: '0,
          frame: {s3_q.message.domain, s3_q.message.node},
          bytes: s3_q.message.bytes,
          buffer: 32'(s3_q.message.kind),
          flags: 16'(reason_q),
          stream: 8'(port),
          kind: reason_q == ReasonNone ? KindCompleted : KindFailed
      }
  };

  always_ff @(posedge clk) begin
    // Pipeline of the search.
    s1_valid_q <= at_valid_q;
    s1_at_q    <= at_q;
    s2_valid_q <= s1_valid_q;
    s2_at_q    <= s1_at_q;
    s2_q       <= read;
    last_data_q <= {1'b0, request_q.address} + 49'(request_q.bytes);
    s3_valid_q <= 1'b0;
    if (state_q == StateSearch && !(s3_valid_q && s3_match_q)) begin
      s3_valid_q <= s2_valid_q;
      s3_at_q    <= s2_at_q;
      s3_q       <= s2_q;
      last_local_q <= {1'b0, s2_q.message.local_address} + 49'(s2_q.message.bytes);
      s3_match_q <= open_q[s2_at_q] && s2_q.message.message == request_q.message &&
                    s2_q.message.node == request_q.node &&
                    (request_q.any || (s2_q.message.kind == PacketGet) == request_q.get);
    end

    unique case (state_q)
      StateIdle: begin
        timed_q <= 1'b0;
        at_q    <= head_q;
        if (open_done) begin
          open_q[tail_q] <= 1'b1;
          tail_q         <= tail_q + 1'b1;
          answered_q     <= 1'b0;
        end else if (picked) begin
          client_q   <= pick;
          request_q  <= message_req[pick];
          at_valid_q <= !idle;
          found_q    <= 1'b0;
          answered_q <= 1'b1;
          state_q    <= StateSearch;
        end else if (timeout != 0 && !idle) begin
          // One entry between requests.
          scan_q  <= scan_q + 1'b1;
          at_q    <= scan_q;
          wait_q  <= '0;
          state_q <= open_q[scan_q] ? StateAge : StateIdle;
        end
      end
      StateSearch: begin
        if (at_valid_q) begin
          at_q <= at_q + 1'b1;
          if (AddrW'(at_q + 1'b1) == tail_q) at_valid_q <= 1'b0;
        end
        if (s3_valid_q && s3_match_q) begin
          at_valid_q <= 1'b0;
          s1_valid_q <= 1'b0;
          s2_valid_q <= 1'b0;
          state_q    <= StateFound;
        end else if (!pending) begin
          state_q <= StateDone;
        end
      end
      StateFound: begin
        left_q   <= s3_q.left - request_q.bytes;
        enough_q <= request_q.bytes <= s3_q.left;
        ends_q   <= request_q.bytes == s3_q.left;
        inside_q <= request_q.address >= s3_q.message.local_address && last_data_q <= last_local_q &&
                    request_q.domain == s3_q.message.local_domain;
        state_q  <= StateApply;
      end
      StateApply: begin
        found_q  <= 1'b1;
        state_q  <= StateDone;
        reason_q <= ReasonNone;
        if (timed_q || request_q.op == MessageFail) begin
          reason_q        <= timed_q ? ReasonTimedOut : request_q.reason;
          open_q[s3_at_q] <= 1'b0;
          state_q         <= StateEvent;
        end else if (request_q.op == MessageCheck) begin
          found_q <= inside_q;
        end else if (!enough_q) begin
          found_q <= 1'b0;
        end else if (ends_q) begin
          open_q[s3_at_q] <= 1'b0;
          if (s3_q.message.completed) state_q <= StateEvent;
        end
      end
      StateEvent: if (ev_ready) state_q <= timed_q ? StateIdle : StateDone;
      StateDone: state_q <= StateIdle;
      // Address, RAM, register: then the age.
      StateAge: begin
        wait_q <= wait_q + 2'd1;
        s3_q   <= s2_q;
        age_q  <= now - s2_q.stamp;
        if (wait_q == 2'd3) state_q <= StateAged;
      end
      StateAged: begin
        s3_at_q <= at_q;
        timed_q <= 1'b1;
        state_q <= age_q >= timeout ? StateApply : StateIdle;
      end
      default: state_q <= StateIdle;
    endcase

    if (!idle && !open_q[head_q]) head_q <= head_q + 1'b1;
    open_room_q <= AddrW'(tail_q + 1'b1) != head_q;

    if (rst) begin
      state_q    <= StateIdle;
      at_valid_q <= 1'b0;
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      s3_valid_q <= 1'b0;
      open_q     <= '0;
      head_q     <= '0;
      tail_q     <= '0;
      scan_q     <= '0;
      client_q   <= '0;
      timed_q    <= 1'b0;
      answered_q <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, request_q.valid, s3_q.message.valid, s3_q.stamp, 1'b0};

endmodule
