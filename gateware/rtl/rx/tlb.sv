// SPDX-License-Identifier: SHL-2.1
// Translation lookaside buffer for several clients: four-way block RAM and a six-stage pipeline. A miss
// goes to the firmware and blocks only its client. When the TLB is disabled, the firmware translates every
// address.
module tlb
  import nanet_pkg::*;
#(
    // Clients; each has at most one open request.
    parameter int unsigned CLIENTS = 3,
    // Sets of four entries; a power of two.
    parameter int unsigned SETS = 64
) (
    input logic clk,
    input logic rst,

    /*
     * configuration: log2 of the page size, 12 to 21
     */
    input logic       enable,
    input logic [4:0] log2_page,
    input logic       flush,      // pulse: invalidate all entries

    /*
     * requests, one response each; ok is low if the page has no translation
     */
    input  logic [CLIENTS-1:0]       req_valid,
    output logic [CLIENTS-1:0]       req_ready,
    input  logic [CLIENTS-1:0][63:0] req_vaddr,
    output logic [CLIENTS-1:0]       resp_valid,
    output logic                     resp_ok,
    output logic [63:0]              resp_paddr,

    /*
     * FIFO REQ: translation requests
     */
    output miss_req_t miss_req,
    input  logic      miss_ready,

    /*
     * FIFO RESP: translation of a page, requested or in advance; ok low revokes it
     */
    input  fill_req_t fill_req,
    output logic      fill_ready,

    /*
     * one pulse each
     */
    output logic hit,
    output logic miss
);

  localparam int unsigned Ways = 4;
  localparam int unsigned SetW = $clog2(SETS);
  localparam int unsigned ClientW = CLIENTS > 1 ? $clog2(CLIENTS) : 1;
  localparam int unsigned PageW = 52;  // width of a 4 KB page number
  localparam int unsigned TagW = PageW - SetW;

  if (SETS < 2 || 2 ** SetW != SETS) begin : gen_check_sets
    $fatal(1, "SETS must be a power of two, at least 2 (%m)");
  end

  typedef struct packed {
    logic             valid;
    logic [TagW-1:0]  tag;
    logic [PageW-1:0] page;  // physical page number, in units of 4 KB
  } entry_t;

  // Page-offset bits of an address.
  logic [63:0] offset_mask_q;
  always_ff @(posedge clk) offset_mask_q <= (64'd1 << log2_page) - 64'd1;

  // ------------------------------------------------------------------ 0: arbitration

  logic [CLIENTS-1:0] busy_q;  // request open
  logic [ClientW-1:0] turn_q, pick;
  logic picked;
  logic s1_valid_q, s1_fill_q, s1_fill_ok_q;
  logic [ClientW-1:0] s1_client_q;
  logic [63:0] s1_vaddr_q, s1_paddr_q;
  logic clearing_q;
  logic [SetW-1:0] clear_q;
  logic fill_busy_q;

  always_comb begin
    pick   = '0;
    picked = 1'b0;
    for (int i = int'(CLIENTS) - 1; i >= 0; i--)
      if (req_valid[i] && !busy_q[i]) begin
        pick   = ClientW'(i);
        picked = 1'b1;
      end
    // Round robin after the last client served.
    for (int i = int'(CLIENTS) - 1; i >= 0; i--)
      if (req_valid[i] && !busy_q[i] && ClientW'(i) > turn_q) pick = ClientW'(i);
  end

  assign fill_ready = !fill_busy_q && !clearing_q;
  always_comb begin
    req_ready = '0;
    if (picked && !clearing_q && !(fill_req.valid && fill_ready)) req_ready[pick] = 1'b1;
  end

  always_ff @(posedge clk) begin
    s1_valid_q   <= 1'b0;
    s1_fill_q    <= fill_req.valid && fill_ready;
    s1_fill_ok_q <= fill_req.ok;
    s1_paddr_q   <= fill_req.paddr;
    s1_client_q  <= pick;
    if (fill_req.valid && fill_ready) begin
      s1_vaddr_q <= fill_req.vaddr;
    end else if (|req_ready) begin
      s1_valid_q <= 1'b1;
      s1_vaddr_q <= req_vaddr[pick];
      turn_q     <= pick;
    end
    if (rst) begin
      s1_valid_q <= 1'b0;
      s1_fill_q  <= 1'b0;
      turn_q     <= '0;
    end
  end

  // ------------------------------------------------------------------ 1: page number

  logic s2_valid_q, s2_fill_q, s2_fill_ok_q;
  logic [ClientW-1:0] s2_client_q;
  logic [63:0] s2_vaddr_q, s2_paddr_q;
  logic [PageW-1:0] s2_number_q;

  always_ff @(posedge clk) begin
    s2_valid_q   <= s1_valid_q;
    s2_fill_q    <= s1_fill_q;
    s2_fill_ok_q <= s1_fill_ok_q;
    s2_client_q  <= s1_client_q;
    s2_vaddr_q   <= s1_vaddr_q;
    s2_paddr_q   <= s1_paddr_q;
    s2_number_q  <= PageW'(s1_vaddr_q >> log2_page);
    if (rst) begin
      s2_valid_q <= 1'b0;
      s2_fill_q  <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ 2: read, 3: compare

  logic [Ways-1:0] write_way;
  logic [SetW-1:0] write_set;
  entry_t write_entry;
  entry_t [Ways-1:0] r_entry, s3_entry_q, s4_entry_q;
  // Registered before the comparison, since block RAM data arrive late in the cycle.
  logic r_valid_q, r_fill_q, r_fill_ok_q;
  logic [ClientW-1:0] r_client_q;
  logic [63:0] r_vaddr_q, r_paddr_q;
  logic [PageW-1:0] r_number_q;
  logic s3_valid_q, s3_fill_q, s3_fill_ok_q, s4_valid_q, s4_fill_q, s4_fill_ok_q;
  logic [ClientW-1:0] s3_client_q, s4_client_q;
  logic [63:0] s3_vaddr_q, s3_paddr_q, s4_vaddr_q, s4_paddr_q;
  logic [PageW-1:0] s3_number_q, s4_number_q;
  logic [Ways-1:0] s4_match_q;
  logic [1:0] victim_mem[SETS];  // next way to replace
  logic [1:0] s4_victim_q;

  for (genvar w = 0; w < int'(Ways); w++) begin : gen_way
    ram_1r1w #(
        .WIDTH($bits(entry_t)),
        .DEPTH(SETS)
    ) ram (
        .clk,
        .wr_en  (write_way[w]),
        .wr_addr(write_set),
        .wr_data(write_entry),
        .rd_addr(s2_number_q[SetW-1:0]),
        .rd_data(r_entry[w])
    );
  end

  always_ff @(posedge clk) begin
    r_valid_q    <= s2_valid_q;
    r_fill_q     <= s2_fill_q;
    r_fill_ok_q  <= s2_fill_ok_q;
    r_client_q   <= s2_client_q;
    r_vaddr_q    <= s2_vaddr_q;
    r_paddr_q    <= s2_paddr_q;
    r_number_q   <= s2_number_q;
    s3_valid_q   <= r_valid_q;
    s3_fill_q    <= r_fill_q;
    s3_fill_ok_q <= r_fill_ok_q;
    s3_client_q  <= r_client_q;
    s3_vaddr_q   <= r_vaddr_q;
    s3_paddr_q   <= r_paddr_q;
    s3_number_q  <= r_number_q;
    s3_entry_q   <= r_entry;
    s4_valid_q   <= s3_valid_q;
    s4_fill_q    <= s3_fill_q;
    s4_fill_ok_q <= s3_fill_ok_q;
    s4_client_q  <= s3_client_q;
    s4_vaddr_q   <= s3_vaddr_q;
    s4_paddr_q   <= s3_paddr_q;
    s4_number_q  <= s3_number_q;
    s4_entry_q   <= s3_entry_q;
    s4_victim_q  <= victim_mem[s3_number_q[SetW-1:0]];
    for (int w = 0; w < int'(Ways); w++)
      s4_match_q[w] <= s3_entry_q[w].valid && s3_entry_q[w].tag == s3_number_q[PageW-1:SetW];
    if (rst) begin
      r_valid_q  <= 1'b0;
      r_fill_q   <= 1'b0;
      s3_valid_q <= 1'b0;
      s3_fill_q  <= 1'b0;
      s4_valid_q <= 1'b0;
      s4_fill_q  <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ 4: response, or firmware request

  logic found;
  logic [PageW-1:0] found_page;
  logic [CLIENTS-1:0] waiting_q;
  logic [CLIENTS-1:0][63:0] waiting_vaddr_q;
  logic [CLIENTS-1:0] answered;
  logic [63:0] fill_offset;

  assign found = enable && s4_match_q != 0;
  always_comb begin
    found_page = '0;
    for (int w = 0; w < int'(Ways); w++) if (s4_match_q[w]) found_page |= s4_entry_q[w].page;
    write_way = '0;
    write_set = s4_number_q[SetW-1:0];
    write_entry = '{valid: s4_fill_ok_q, tag: s4_number_q[PageW-1:SetW], page: s4_paddr_q[63:12]};
    if (clearing_q) begin
      write_way   = '1;
      write_set   = clear_q;
      write_entry = '0;
    end else if (s4_fill_q && enable) begin
      // Hit entry first, else round robin; revoking an absent page changes nothing.
      if (s4_match_q != 0) write_way = s4_match_q;
      else if (s4_fill_ok_q) write_way[s4_victim_q] = 1'b1;
    end
    for (int c = 0; c < int'(CLIENTS); c++)
      answered[c] = s4_fill_q && waiting_q[c] && ((waiting_vaddr_q[c] ^ s4_vaddr_q) & ~offset_mask_q) == 0;
  end

  // Clients that wait for the same page are served in turn. The first causes the miss; `answered` marks all
  // clients of the page, each with its offset.
  logic [CLIENTS-1:0] due_q;
  logic due_ok_q, filled_q;
  logic [63:0] due_paddr_q;
  logic [ClientW-1:0] due_pick;
  always_comb begin
    due_pick = '0;
    for (int c = int'(CLIENTS) - 1; c >= 0; c--) if (due_q[c]) due_pick = ClientW'(c);
  end
  assign fill_offset = waiting_vaddr_q[due_pick] & offset_mask_q;

  always_ff @(posedge clk) begin
    if (clearing_q || s4_fill_q) victim_mem[write_set] <= clearing_q ? 2'd0 : s4_victim_q + 1'b1;

    hit        <= 1'b0;
    miss       <= 1'b0;
    resp_valid <= '0;
    if (|req_ready) busy_q[pick] <= 1'b1;
    if (s4_valid_q) begin
      hit  <= found;
      miss <= !found;
      if (found) begin
        resp_valid[s4_client_q] <= 1'b1;
        busy_q[s4_client_q]     <= 1'b0;
        resp_ok                 <= 1'b1;
        resp_paddr              <= {found_page, 12'd0} & ~offset_mask_q | s4_vaddr_q & offset_mask_q;
      end else begin
        waiting_q[s4_client_q]       <= 1'b1;
        waiting_vaddr_q[s4_client_q] <= s4_vaddr_q;
      end
    end else if (due_q != 0) begin
      resp_valid[due_pick] <= 1'b1;
      busy_q[due_pick]     <= 1'b0;
      due_q[due_pick]      <= 1'b0;
      resp_ok              <= due_ok_q;
      resp_paddr           <= due_paddr_q | fill_offset;
    end
    filled_q <= s4_fill_q;
    if (s4_fill_q) begin
      due_q       <= answered;
      due_ok_q    <= s4_fill_ok_q;
      due_paddr_q <= s4_paddr_q & ~offset_mask_q;
      waiting_q   <= waiting_q & ~answered;
    end

    // One fill at a time, until all waiting clients have their response.
    if (fill_req.valid && fill_ready) fill_busy_q <= 1'b1;
    else if (filled_q && due_q == 0) fill_busy_q <= 1'b0;
    else if (!s4_fill_q && due_q != 0 && (due_q & (due_q - 1'b1)) == 0 && !s4_valid_q) fill_busy_q <= 1'b0;

    if (clearing_q) begin
      clear_q    <= clear_q + 1'b1;
      clearing_q <= clear_q != '1;
    end
    if (flush || rst) begin
      clearing_q <= 1'b1;
      clear_q    <= '0;
    end
    if (rst) begin
      busy_q      <= '0;
      waiting_q   <= '0;
      due_q       <= '0;
      resp_valid  <= '0;
      fill_busy_q <= 1'b0;
      filled_q    <= 1'b0;
      hit         <= 1'b0;
      miss        <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ firmware requests

  // One per client, in turn; a client served by another's fill issues no miss. A queue would fill with
  // stale misses.
  logic [CLIENTS-1:0] miss_pending_q, miss_pending;
  logic [ClientW-1:0] last_miss_q, miss_client;

  always_comb begin
    miss_client = '0;
    for (int c = int'(CLIENTS) - 1; c >= 0; c--) if (miss_pending_q[c]) miss_client = ClientW'(c);
    for (int c = int'(CLIENTS) - 1; c >= 0; c--)
      if (miss_pending_q[c] && ClientW'(c) > last_miss_q) miss_client = ClientW'(c);
    miss_pending = miss_pending_q & ~answered;
    if (miss_pending_q != 0 && !miss_req.valid) miss_pending[miss_client] = 1'b0;
    if (s4_valid_q && !found) miss_pending[s4_client_q] = 1'b1;
  end

  always_ff @(posedge clk) begin
    miss_pending_q <= miss_pending;
    if (miss_ready) miss_req.valid <= 1'b0;
    if (!miss_req.valid) begin
      miss_req.valid  <= miss_pending_q != 0;
      miss_req.vaddr  <= waiting_vaddr_q[miss_client];
      last_miss_q <= miss_client;
    end
    if (rst) begin
      miss_pending_q <= '0;
      miss_req.valid     <= 1'b0;
    end
  end

endmodule
