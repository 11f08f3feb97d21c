// SPDX-License-Identifier: SHL-2.1
// One output of the router: arbitration of its inputs by word, ownership of its VCs by packet, space beyond
// it, crossbar and output buffer. A grant is registered: its word passes the crossbar in the next cycle.
module torus_output
  import nanet_torus_pkg::*;
#(
    // Inputs with a crosspoint here; the others do not request.
    parameter logic [TorusInputs-1:0] INPUTS = '1
) (
    input logic clk,
    input logic rst,

    /*
     * configuration: packets do not interleave; payload space of the empty buffer at the far end, or 0
     */
    input logic       atomic,
    input logic [9:0] empty_space,

    /*
     * by input: requests of torus_front, its front word
     */
    input  logic        [TorusInputs-1:0]               body,
    input  logic        [TorusInputs-1:0][TorusVcs-1:0] head,
    input  logic        [TorusInputs-1:0]               fits,
    input  logic        [TorusInputs-1:0]               next_body,
    input  logic        [TorusInputs-1:0]               next_head,
    input  logic        [TorusInputs-1:0]               next_fits,
    input  logic        [TorusInputs-1:0]               next_tail,
    input  torus_word_t [TorusInputs-1:0]               word,
    input  logic        [TorusInputs-1:0]               vc,
    input  logic        [TorusInputs-1:0][8:0]          need,

    // the front word of an input leaves it
    output logic [TorusInputs-1:0] grant,

    /*
     * output
     */
    output logic        out_valid,
    input  logic        out_ready,
    output logic        out_vc,
    output torus_word_t out_word,

    /*
     * space beyond the output, by VC; of it not reserved for packets: payload, header and footer; the longest
     * packet beyond which half of the rest is free
     */
    input  torus_words_t [TorusVcs-1:0]       space,
    output logic         [TorusVcs-1:0][ 9:0] avail,
    output logic         [TorusVcs-1:0]       edges,
    output logic         [TorusVcs-1:0][10:0] half
);

  // ---------------------------------------------------------------- requests

  // The front word of an input granted in the last cycle is about to leave: the word behind it requests.
  // A header granted in the last cycle is not in busy_q yet: after a cycle in which one may have been
  // granted, no other header is. The space after a grant is known three cycles later.
  // The VCs open to headers and `settled` are registered: the arbitration fills the cycle.
  logic [TorusInputs-1:0] keep, chase, request, last, picked, holder, grant_q;  // keep: payload or footer
  logic [TorusVcs-1:0][TorusInputs-1:0] first;
  logic [TorusVcs-1:0] busy_q, busy, fresh_q, closed, open_q;
  logic settled_q, room, header;

  always_comb begin
    for (int i = 0; i < int'(TorusInputs); i++) begin
      keep[i]  = INPUTS[i] && (grant_q[i] ? next_body[i] : body[i]);
      chase[i] = INPUTS[i] && grant_q[i] && next_head[i] && next_fits[i];
      for (int v = 0; v < int'(TorusVcs); v++)
        first[v][i] = INPUTS[i] && !grant_q[i] && head[i][v] && fits[i];
      last[i]  = grant_q[i] ? next_tail[i] : word[i].tail;
    end
    request = keep | (chase & {TorusInputs{settled_q}});
    for (int v = 0; v < int'(TorusVcs); v++) request |= first[v] & {TorusInputs{open_q[v]}};
    // A header may be granted: any requests, and no payload or footer of the input that keeps the output.
    header = |chase && settled_q;
    for (int v = 0; v < int'(TorusVcs); v++) header |= |first[v] && open_q[v];
    header &= (keep & holder) == 0;
  end

  torus_arbiter #(
      .REQUESTS(TorusInputs)
  ) i_arbiter (
      .clk,
      .rst,
      .enable(room),
      .request,
      .last,
      .grant (picked),
      .holder
  );
  assign grant = grant_q;

  logic [TorusVcs-1:0] heads, tails, ends;
  always_comb begin
    heads = '0;
    tails = '0;
    ends  = '0;
    for (int i = 0; i < int'(TorusInputs); i++) begin
      heads[vc[i]] |= grant_q[i] && word[i].head;
      tails[vc[i]] |= grant_q[i] && word[i].tail;
      ends[vc[i]]  |= keep[i] && holder[i] && last[i];
    end
    busy = (busy_q | heads) & ~tails;
    // VCs of a packet that goes on.
    closed = busy & ~(room ? ends : '0);
  end

  always_ff @(posedge clk) begin
    grant_q   <= room ? picked : '0;
    busy_q    <= busy;
    fresh_q   <= heads;
    settled_q <= heads == 0 && fresh_q == 0;
    for (int v = 0; v < int'(TorusVcs); v++)
      open_q[v] <= !(room && header) && !heads[v] && !fresh_q[v] && !closed[v] && !(atomic && closed[1-v]);
    if (rst) begin
      grant_q   <= '0;
      busy_q    <= '0;
      fresh_q   <= '0;
      settled_q <= 1'b1;
      open_q    <= '1;
    end
  end

  // ---------------------------------------------------------------- crossbar

  torus_switch #(
      .INPUTS(TorusInputs)
  ) i_switch (
      .clk,
      .rst,
      .in_word  (word),
      .in_select(grant_q),
      .in_vc    (vc),
      .room,
      .granted  (room && |request),
      .out_valid,
      .out_ready,
      .out_vc,
      .out_word
  );

  // ---------------------------------------------------------------- space

  // Payload words of the packet granted two cycles ago.
  logic [8:0] words, words_q;
  logic only, only_q;
  always_comb begin
    words = '0;
    only  = 1'b0;
    for (int i = 0; i < int'(TorusInputs); i++) begin
      words |= {9{INPUTS[i] && grant_q[i]}} & need[i];
      only |= INPUTS[i] && grant_q[i] && word[i].tail;
    end
  end
  always_ff @(posedge clk) begin
    words_q <= words;
    only_q  <= only;
  end

  for (genvar v = 0; v < TorusVcs; v++) begin : gen_vc
    torus_space i_space (
        .clk,
        .rst,
        .empty_space,
        .reserve     (fresh_q[v]),
        .words       (words_q),
        .only        (only_q),
        .leaves      (out_valid && out_ready && out_vc == 1'(v)),
        .edge_word   (out_word.head || out_word.tail),
        .space       (space[v]),
        .avail       (avail[v]),
        .edges       (edges[v]),
        .half        (half[v])
    );
  end

endmodule
