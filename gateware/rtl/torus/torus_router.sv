// SPDX-License-Identifier: SHL-2.1
// Torus router: seven ports (six links, the node), two VCs, virtual cut-through, dimension order.
// A header leaves only if its whole packet fits into the next buffer; an output VC belongs to its packet
// until the tail; inputs take turns by packet. With `empty_space`, a packet from the node leaves only if
// beyond it another of its size would fit, or half of the rest of the buffer is free: injection then cannot
// fill the buffers that packets under way need (raises the saturation of uniform traffic, lowers that of
// fixed flows).
// Header to header: five cycles.
module torus_router
  import nanet_torus_pkg::*;
#(
    // Words of an input buffer; a power of two. Not below the longest packet in use.
    parameter int unsigned DEPTH = 512,
    // Order of the dimensions.
    parameter torus_order_t ORDER = TorusZyx
) (
    input logic clk,
    input logic rst,

    /*
     * configuration: lattice, coordinates; links in use; links whose packets do not interleave; VC rule of
     * route(); payload space of the empty buffer at the far end of each link, 0: packets from the node leave
     * as all others
     */
    input torus_size_t                  size,
    input torus_node_t                  me,
    input logic        [TorusLinks-1:0] connected,
    input logic        [TorusLinks-1:0] atomic,
    input logic                         balanced,
    input logic        [TorusLinks-1:0][9:0] empty_space,

    /*
     * inputs; the sender holds credit for each word
     */
    input logic        [TorusPorts-1:0] in_valid,
    input logic        [TorusPorts-1:0] in_vc,
    input torus_word_t [TorusPorts-1:0] in_word,

    /*
     * words in the input buffers, by 2 port + VC; pulse for a word that left one
     */
    output torus_words_t [TorusInputs-1:0] used,
    output logic         [TorusInputs-1:0] freed,

    /*
     * outputs
     */
    output logic        [TorusPorts-1:0] out_valid,
    input  logic        [TorusPorts-1:0] out_ready,
    output logic        [TorusPorts-1:0] out_vc,
    output torus_word_t [TorusPorts-1:0] out_word,

    /*
     * space beyond each output, by 2 port + VC; falls in the cycle after a word is accepted
     */
    input torus_words_t [TorusInputs-1:0] space,

    /*
     * pulses per port: a packet is delivered here with bit 42; a word found its buffer full
     */
    output logic [TorusPorts-1:0] astray,
    output logic [TorusPorts-1:0] overflow
);

  localparam int unsigned Inputs = TorusInputs;

  // ---------------------------------------------------------------- input: route, buffer, front word

  torus_routed_t [Inputs-1:0] buffer, front_q;
  logic [Inputs-1:0][10:0] need, front_need_q, moved_need_q;  // payload words of a packet
  logic [Inputs-1:0] buffer_valid, front_valid_q, front_tail, fits_q, pop, take, lost;
  torus_words_t [Inputs-1:0] avail_q;  // space of an output VC that no packet has reserved
  logic [Inputs-1:0][10:0] half_q;     // longest packet beyond which half of the rest was free a cycle ago

  // Whether a packet fits into a space.
  function automatic logic fits(input logic [10:0] words, input torus_words_t there);
    return words <= {1'b0, there.data} && there.header >= 8'd2;
  endfunction

  for (genvar p = 0; p < TorusPorts; p++) begin : gen_input
    logic [TorusVcs-1:0] valid;
    torus_routed_t routed;

    torus_route #(
        .PORT (torus_port_t'(p)),
        .ORDER(ORDER)
    ) i_route (
        .clk,
        .rst,
        .size,
        .me,
        .connected,
        .balanced,
        .in_valid (in_valid[p]),
        .in_vc    (in_vc[p]),
        .in_word  (in_word[p]),
        .out_valid(valid),
        .out_data (routed),
        .astray   (astray[p])
    );

    for (genvar v = 0; v < TorusVcs; v++) begin : gen_vc
      torus_vc_fifo #(
          .DEPTH(DEPTH)
      ) i_fifo (
          .clk,
          .rst,
          .in_valid (valid[v]),
          .in_data  (routed),
          .out_valid(buffer_valid[2*p+v]),
          .out_ready(take[2*p+v]),
          .out_data (buffer[2*p+v]),
          .used     (used[2*p+v]),
          .overflow (lost[2*p+v])
      );
    end

    assign overflow[p] = lost[2*p] || lost[2*p+1];
  end

  for (genvar i = 0; i < Inputs; i++) begin : gen_front
    localparam bit Local = i / 2 == int'(TorusLocal);
    logic loaded_fits, front_fits, loaded_more, front_more;
    assign take[i]     = !front_valid_q[i] || pop[i];
    assign need[i]     = buffer[i].word.data[47] ? '0 : payload_words(buffer[i].word.data[61:48]);
    assign loaded_fits = fits(need[i], avail_q[{buffer[i].port, buffer[i].vc}]);
    assign front_fits  = fits(front_need_q[i], avail_q[{front_q[i].port, front_q[i].vc}]);
    assign loaded_more = !Local || need[i] <= half_q[{buffer[i].port, buffer[i].vc}] ||
                         fits({need[i][9:0], 1'b0}, avail_q[{buffer[i].port, buffer[i].vc}]);
    assign front_more  = !Local || front_need_q[i] <= half_q[{front_q[i].port, front_q[i].vc}] ||
                         fits({front_need_q[i][9:0], 1'b0}, avail_q[{front_q[i].port, front_q[i].vc}]);
    always_ff @(posedge clk) begin
      if (take[i]) begin
        front_q[i]       <= buffer[i];
        front_need_q[i]  <= need[i];
        front_valid_q[i] <= buffer_valid[i] && !buffer[i].drop;
      end
      fits_q[i] <= take[i] ? loaded_fits && loaded_more : front_fits && front_more;
      freed[i]  <= buffer_valid[i] && take[i];
      if (rst) begin
        front_valid_q[i] <= 1'b0;
        freed[i]         <= 1'b0;
      end
    end
  end

  // ---------------------------------------------------------------- output: arbiter, crossbar

  logic [TorusPorts-1:0][Inputs-1:0] grant, select_q;
  logic [TorusPorts-1:0] room;
  logic [Inputs-1:0] busy_q, fresh_q, older_q;  // by output VC
  torus_word_t [Inputs-1:0] moved_q;
  logic [Inputs-1:0] moved_vc_q;

  always_comb begin
    for (int i = 0; i < Inputs; i++) front_tail[i] = front_q[i].word.tail;
    pop = '0;
    for (int o = 0; o < TorusPorts; o++) pop |= grant[o];
  end

  always_ff @(posedge clk) begin
    for (int i = 0; i < Inputs; i++) begin
      if (pop[i] || !nanet_dma_pkg::Lazy) begin
        moved_q[i]    <= front_q[i].word;
        moved_vc_q[i] <= front_q[i].vc;
        moved_need_q[i] <= front_need_q[i];
      end
    end
    select_q <= grant;
    if (rst) select_q <= '0;
  end

  for (genvar o = 0; o < TorusPorts; o++) begin : gen_output
    logic [Inputs-1:0] request;
    logic [TorusVcs-1:0] open;  // the VC accepts a header

    // The space after a grant is known two cycles later; a VC accepts no header before that.
    logic [TorusVcs-1:0] closed;
    logic exclusive;
    assign closed    = busy_q[2*o+:2] | fresh_q[2*o+:2] | older_q[2*o+:2];
    assign exclusive = o < TorusLinks && atomic[o%TorusLinks];
    assign open      = ~(closed | (exclusive ? {busy_q[2*o], busy_q[2*o+1]} : 2'b00));

    for (genvar i = 0; i < Inputs; i++) begin : gen_request
      if (crosspoint(torus_port_t'(i / 2), torus_port_t'(o), ORDER)) begin : gen_some
        assign request[i] = front_valid_q[i] && front_q[i].port == torus_port_t'(o) && room[o] &&
                            (!front_q[i].word.head || (fits_q[i] && open[front_q[i].vc]));
      end else begin : gen_none
        assign request[i] = 1'b0;
      end
    end

    torus_arbiter #(
        .REQUESTS(Inputs)
    ) i_arbiter (
        .clk,
        .rst,
        .request,
        .last (front_tail),
        .grant(grant[o])
    );

    torus_switch #(
        .INPUTS(Inputs)
    ) i_switch (
        .clk,
        .rst,
        .in_word  (moved_q),
        .in_select(select_q[o]),
        .in_vc    (moved_vc_q),
        .room     (room[o]),
        .granted  (|grant[o]),
        .out_valid(out_valid[o]),
        .out_ready(out_ready[o]),
        .out_vc   (out_vc[o]),
        .out_word (out_word[o])
    );

    // Payload words of the packet granted in the last cycle.
    logic [10:0] words;
    logic only, out_edge;
    always_comb begin
      words = '0;
      only  = 1'b0;
      for (int i = 0; i < Inputs; i++) begin
        words |= {11{select_q[o][i]}} & moved_need_q[i];
        only |= select_q[o][i] && moved_q[i].tail;
      end
    end
    assign out_edge = out_word[o].head || out_word[o].tail;

    for (genvar v = 0; v < TorusVcs; v++) begin : gen_vc
      localparam int unsigned L = 2 * o + v;
      logic head, tail, leaves;
      torus_words_t reserved_q, held;  // words of granted packets that have not left
      logic [11:0] half;
      logic [9:0] full;

      always_comb begin
        head = 1'b0;
        tail = 1'b0;
        for (int i = 0; i < Inputs; i++) begin
          if (grant[o][i] && front_q[i].vc == 1'(v)) begin
            head |= front_q[i].word.head;
            tail |= front_q[i].word.tail;
          end
        end
      end

      assign full        = o < TorusLinks ? empty_space[o%TorusLinks] : '0;
      assign half        = {1'b0, avail_q[L].data, 1'b0} - {2'b0, full};
      assign leaves      = out_valid[o] && out_ready[o] && out_vc[o] == 1'(v);
      assign held.data   = reserved_q.data + (fresh_q[L] ? 10'(words) : '0);
      assign held.header = reserved_q.header + (fresh_q[L] ? (only ? 8'd1 : 8'd2) : '0);

      always_ff @(posedge clk) begin
        fresh_q[L] <= head;
        older_q[L] <= fresh_q[L];
        if (tail) busy_q[L] <= 1'b0;
        else if (head) busy_q[L] <= 1'b1;
        reserved_q.data   <= held.data - 10'(leaves && !out_edge);
        reserved_q.header <= held.header - 8'(leaves && out_edge);
        // A word that leaves lowers the space one cycle later.
        avail_q[L].data   <= space[L].data > held.data ? space[L].data - held.data : '0;
        avail_q[L].header <= space[L].header > held.header ? space[L].header - held.header : '0;
        half_q[L]         <= half[11] ? '0 : half[10:0];
        if (rst) begin
          fresh_q[L] <= 1'b0;
          older_q[L] <= 1'b0;
          busy_q[L]  <= 1'b0;
          reserved_q <= '0;
          avail_q[L] <= '0;
          half_q[L]  <= '0;
        end
      end
    end
  end

endmodule
