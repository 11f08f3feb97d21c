// SPDX-License-Identifier: SHL-2.1
// Front of one input buffer of the router: the next word, the word behind it, and whether their packets fit
// beyond their outputs. Outputs decide a cycle before a word leaves; the second word keeps a word per cycle.
module torus_front
  import nanet_torus_pkg::*;
#(
    // Outputs that packets of this input may take.
    parameter logic [TorusPorts-1:0] OUTPUTS = '1,
    // Input from the node: its packets keep the reserve of torus_router.
    parameter bit LOCAL = 1'b0
) (
    input logic clk,
    input logic rst,

    /*
     * words of the input buffer
     */
    input  logic          in_valid,
    output logic          in_ready,
    input  torus_routed_t in_data,

    /*
     * unreserved space of all output VCs, by 2 port + VC: payload, header and footer; longest packet within
     * the reserve
     */
    input logic [TorusInputs-1:0][ 9:0] avail,
    input logic [TorusInputs-1:0]       edges,
    input logic [TorusInputs-1:0][10:0] half,

    /*
     * the front word; leaves with `pop`
     */
    output torus_word_t      word,
    output logic             vc,
    output logic       [8:0] need,
    input  logic             pop,

    /*
     * requests by output, front word: payload or footer; header, by VC, and whether its packet fits. Word
     * behind it, to the same output: payload or footer of the same packet; header that takes over the VC
     */
    output logic [TorusPorts-1:0]               body,
    output logic [TorusPorts-1:0][TorusVcs-1:0] head,
    output logic                                fits,
    output logic [TorusPorts-1:0]               next_body,
    output logic [TorusPorts-1:0]               next_head,
    output logic                                next_fits,
    output logic                                next_tail
);

  typedef struct packed {
    logic                  valid;
    logic [TorusPorts-1:0] port;  // one-hot
    logic                  vc;
    logic [8:0]            need;
    torus_word_t           word;
  } slot_t;

  slot_t in, front_q, next_q;
  logic load, follows, in_fits, waiting_fits, fits_q, next_fits_q, next_same_q;
  logic [TorusPorts-1:0] before_port_q;  // of the last word taken: port and VC, if it is a footer
  logic before_vc_q, before_tail_q;

  // Whether the packet of a header fits.
  function automatic logic fit(input logic [TorusPorts-1:0] port, input logic to, input logic [8:0] words);
    fit = 1'b0;
    // Compares with each output VC, then selects.
    for (int l = 0; l < int'(TorusInputs); l++) begin
      if (OUTPUTS[l/2] && port[l/2] && to == 1'(l)) begin
        fit |= {1'b0, words} <= avail[l] && edges[l] &&
               (!LOCAL || {2'b0, words} <= half[l] || {words, 1'b0} <= avail[l]);
      end
    end
  endfunction

  always_comb begin
    in = '{
        valid: in_valid && !in_data.drop,
        port: '0,
        vc: in_data.vc,
        need: in_data.need,
        word: in_data.word
    };
    for (int o = 0; o < int'(TorusPorts); o++) in.port[o] = OUTPUTS[o] && in_data.port == torus_port_t'(o);
  end

  assign load         = !front_q.valid || pop;
  assign in_ready     = load || !next_q.valid;
  assign in_fits      = fit(in.port, in.vc, in.need);
  assign waiting_fits = front_q.word.head ? fit(front_q.port, front_q.vc, front_q.need) :
                                            fit(next_q.port, next_q.vc, next_q.need);
  // A header behind the footer of a packet of the same VC.
  assign follows      = in.word.head && before_tail_q && in.port == before_port_q && in.vc == before_vc_q;

  assign word      = front_q.word;
  assign vc        = front_q.vc;
  assign need      = front_q.need;
  assign fits      = fits_q;
  assign next_fits = next_fits_q;
  assign next_tail = next_q.word.tail;

  always_comb begin
    for (int o = 0; o < int'(TorusPorts); o++) begin
      body[o]      = front_q.valid && front_q.port[o] && !front_q.word.head;
      head[o]      = '0;
      head[o][front_q.vc] = front_q.valid && front_q.port[o] && front_q.word.head;
      next_body[o] = next_q.valid && next_q.port[o] && !next_q.word.head;
      next_head[o] = next_q.valid && next_q.port[o] && next_q.word.head && next_same_q;
    end
  end

  always_ff @(posedge clk) begin
    if (load) front_q <= next_q.valid ? next_q : in;
    fits_q <= !load ? waiting_fits : next_q.valid ? waiting_fits && !front_q.word.head : in_fits;
    if (load == next_q.valid) begin
      next_q      <= in;
      next_same_q <= follows;
      next_fits_q <= in_fits;
    end else begin
      if (load) next_q.valid <= 1'b0;
      next_fits_q <= waiting_fits && !front_q.word.head;
    end
    if (in.valid && in_ready) begin
      before_port_q <= in.port;
      before_vc_q   <= in.vc;
      before_tail_q <= in.word.tail && !in.word.head;
    end
    if (rst) begin
      front_q.valid <= 1'b0;
      next_q.valid  <= 1'b0;
    end
  end

endmodule
