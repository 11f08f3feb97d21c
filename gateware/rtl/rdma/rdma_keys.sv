// SPDX-License-Identifier: SHL-2.1
// Table of registered buffers: bounds and rights by domain and address, four-way block RAM. A miss goes to
// the firmware, one at a time, and holds only its client.
module rdma_keys
  import rdma_pkg::*;
#(
    // Clients.
    parameter int unsigned CLIENTS = 3,
    // Sets of four buffers; a power of two.
    parameter int unsigned SETS = 64
) (
    input logic clk,
    input logic rst,

    /*
     * configuration: address bits below the set number; pulse: forget all keys
     */
    input logic [5:0] log2_granule,
    input logic       flush,

    /*
     * look-ups
     */
    input  key_req_t [CLIENTS-1:0] key_req,
    output key_rsp_t [CLIENTS-1:0] key_rsp,

    /*
     * firmware
     */
    output key_miss_req_t key_miss_req,
    input  logic          key_miss_ready,
    input  key_fill_req_t key_fill_req,
    output logic          key_fill_ready
);

  localparam int unsigned Ways = 4;
  localparam int unsigned SetW = $clog2(SETS);
  localparam int unsigned ClientW = $clog2(CLIENTS);

  if (CLIENTS < 2 || SETS < 2 || 2 ** SetW != SETS) begin : gen_check
    $fatal(1, "rdma_keys: CLIENTS must be at least 2, SETS a power of two");
  end

  typedef struct packed {
    logic        valid;
    logic [15:0] domain;
    logic [47:0] first;
    logic [48:0] limit;
    logic [1:0]  rights;
  } entry_t;

  function automatic logic [SetW-1:0] set_of(input logic [15:0] domain, input logic [47:0] address,
                                             input logic [5:0] granule);
    return SetW'((address >> granule) ^ 48'(domain));
  endfunction

  // ---------------------------------------------------------------- table

  entry_t [Ways-1:0] read, entry_q;
  entry_t write_entry_q;
  logic [Ways-1:0] write_q;
  logic [SetW-1:0] write_set_q, set_q;
  logic [1:0] victim_q;
  logic clearing_q;

  for (genvar w = 0; w < int'(Ways); w++) begin : gen_way
    ram_1r1w #(
        .WIDTH($bits(entry_t)),
        .DEPTH(SETS)
    ) ram (
        .clk,
        .wr_en  (write_q[w]),
        .wr_addr(write_set_q),
        .wr_data(write_entry_q),
        .rd_addr(set_q),
        .rd_data(read[w])
    );
  end

  // ---------------------------------------------------------------- look-up

  typedef enum logic [3:0] {
    StateIdle,
    StateSet,
    StateRead,
    StateEntry,
    StateCompare,
    StateDecide,
    StateDone
  } state_e;
  state_e state_q;
  logic [ClientW-1:0] client_q, pick, last_q, missing_q;
  logic picked, again_q;
  key_req_t request_q, asked_q;
  logic [48:0] limit_q;
  logic [Ways-1:0] domain_q, first_q, end_q;
  logic [Ways-1:0] found;
  reason_e reason_q;
  logic [1:0] rights, rights_q;

  // Miss: waits for the firmware while other clients are served.
  logic miss_valid_q, miss_open_q, retry_q, refused_q;
  reason_e refusal_q;

  logic [CLIENTS-1:0] open;
  always_comb begin
    pick   = '0;
    picked = 1'b0;
    for (int c = 0; c < int'(CLIENTS); c++)
      // A client with an open miss waits; another miss waits for the end of the open one.
      open[c] = key_req[c].valid && !(miss_open_q && !retry_q && missing_q == ClientW'(c));
    for (int c = int'(CLIENTS) - 1; c >= 0; c--) begin
      if (open[c]) begin
        pick   = ClientW'(c);
        picked = 1'b1;
      end
    end
    for (int c = int'(CLIENTS) - 1; c >= 0; c--) if (open[c] && ClientW'(c) > last_q) pick = ClientW'(c);
    found  = domain_q & first_q & end_q;
    rights = '0;
    for (int w = 0; w < int'(Ways); w++) rights |= found[w] ? entry_q[w].rights : 2'd0;
    for (int c = 0; c < int'(CLIENTS); c++)
      key_rsp[c] = '{
          done: state_q == StateDone && client_q == ClientW'(c),
          reason: reason_q,
          rights: rights_q
      };
  end

  assign key_fill_ready = !clearing_q && !(miss_open_q && (retry_q || refused_q)) && write_q == 0;
  assign key_miss_req   = '{
      valid: miss_valid_q,
      domain: asked_q.domain,
      address: asked_q.address,
      bytes: asked_q.bytes
  };

  logic fill;
  assign fill = key_fill_req.valid && key_fill_ready;

  always_ff @(posedge clk) begin
    write_q <= '0;
    if (fill) begin
      write_q[victim_q] <= key_fill_req.found;
      victim_q          <= victim_q + 2'(key_fill_req.found);
      write_set_q       <= set_of(key_fill_req.domain, key_fill_req.address, log2_granule);
      write_entry_q     <= '{
          valid: 1'b1,
          domain: key_fill_req.domain,
          first: key_fill_req.first,
          limit: key_fill_req.limit,
          rights: key_fill_req.rights
      };
      if (key_fill_req.answer && miss_open_q) begin
        retry_q   <= key_fill_req.found;
        refused_q <= !key_fill_req.found;
        refusal_q <= key_fill_req.reason;
      end
    end
    if (key_miss_ready) miss_valid_q <= 1'b0;

    unique case (state_q)
      StateIdle: begin
        client_q  <= pick;
        request_q <= key_req[pick];
        again_q   <= retry_q && missing_q == pick;
        if (refused_q) begin
          client_q    <= missing_q;
          reason_q    <= refusal_q;
          refused_q   <= 1'b0;
          miss_open_q <= 1'b0;
          state_q     <= StateDone;
        end else if (picked && !clearing_q && write_q == 0) begin
          last_q  <= pick;
          state_q <= StateSet;
        end
      end
      StateSet: begin
        set_q   <= set_of(request_q.domain, request_q.address, log2_granule);
        limit_q <= {1'b0, request_q.address} + 49'(request_q.bytes);
        state_q <= StateRead;
      end
      StateRead: state_q <= StateEntry;
      StateEntry: begin
        entry_q <= read;
        state_q <= StateCompare;
      end
      StateCompare: begin
        for (int w = 0; w < int'(Ways); w++) begin
          domain_q[w] <= entry_q[w].valid && entry_q[w].domain == request_q.domain;
          first_q[w]  <= request_q.address >= entry_q[w].first;
          end_q[w]    <= limit_q <= entry_q[w].limit;
        end
        state_q <= StateDecide;
      end
      StateDecide: begin
        rights_q <= rights;
        reason_q <= found != 0 ? ReasonNone : ReasonOutOfRange;
        state_q  <= StateDone;
        if (again_q) begin
          retry_q     <= 1'b0;
          miss_open_q <= 1'b0;
        end else if (found == 0) begin
          state_q <= StateIdle;
          if (!miss_open_q) begin
            miss_open_q  <= 1'b1;
            miss_valid_q <= 1'b1;
            missing_q    <= client_q;
            asked_q      <= request_q;
          end
        end
      end
      StateDone: state_q <= StateIdle;
      default: state_q <= StateIdle;
    endcase

    if (clearing_q) begin
      write_q       <= '1;
      write_entry_q <= '0;
      write_set_q   <= write_set_q + 1'b1;
      if (write_q != 0 && write_set_q == SetW'(SETS - 2)) clearing_q <= 1'b0;
    end
    if (flush || rst) begin
      clearing_q  <= 1'b1;
      write_q     <= '0;
      write_set_q <= '1;
    end
    if (rst) begin
      state_q      <= StateIdle;
      miss_valid_q <= 1'b0;
      miss_open_q  <= 1'b0;
      retry_q      <= 1'b0;
      refused_q    <= 1'b0;
      victim_q     <= '0;
      last_q       <= '0;
    end
  end

  logic unused;
  assign unused = &{1'b0, request_q.valid, asked_q.valid, 1'b0};

endmodule
