// SPDX-License-Identifier: SHL-2.1
// Proof of torus_front: no word is lost, duplicated or reordered, words of packets above the longest excepted;
// requests are those of the word in front; `fits` is the comparison with the space of the last cycle.
module torus_front_proof
  import nanet_torus_pkg::*;
(
    input logic               clk,
    input logic               rst,
    input logic               in_valid,
    input logic               in_head,
    input logic               in_tail,
    input logic               in_vc,
    input logic               in_port,
    input logic               in_drop,
    input logic         [8:0] in_need,
    input logic         [3:0] in_bits,
    input logic         [3:0][9:0] space,
    input logic         [3:0] space_edges,
    input logic               pop,
    input logic         [3:0] watched  // any word, by its number
);

  torus_routed_t in_data;
  torus_word_t word;
  logic [TorusInputs-1:0][9:0] avail;
  logic [TorusInputs-1:0] edges;
  logic [TorusInputs-1:0][10:0] half;
  logic in_ready, vc, fits, next_fits, next_tail;
  logic [8:0] need;
  logic [TorusPorts-1:0] body, next_body, next_head;
  logic [TorusPorts-1:0][TorusVcs-1:0] head;

  assign in_data = '{
          drop: in_drop, need: in_need, port: {2'b00, in_port}, vc: in_vc,
          word: '{head: in_head, tail: in_tail, data: 128'(in_bits)}};
  assign half    = '0;
  always_comb begin
    avail      = '0;
    avail[3:0] = space;
    edges      = '0;
    edges[3:0] = space_edges;
  end

  torus_front #(
      .OUTPUTS(7'b0000011)
  ) i_front (
      .*
  );

  logic started_q = 1'b0;
  logic front, enters, stays_q;
  logic [3:0] watched_q, written_q, read_q, held;
  torus_routed_t word_q, shown;
  logic [3:0][9:0] space_q;
  logic [3:0] edges_q;

  assign front  = body != 0 || head != 0;
  assign enters = in_valid && in_ready && !in_drop;
  assign held   = written_q - read_q;
  assign shown  = '{drop: 1'b0, need: need, port: {2'b00, body[1] || head[1] != 0}, vc: vc, word: word};

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    watched_q <= watched;
    if (enters) written_q <= written_q + 1'b1;
    if (front && pop) read_q <= read_q + 1'b1;
    if (enters && written_q == watched) word_q <= in_data;
    // Space seen by the header in front, if it was there.
    stays_q <= front && !pop;
    space_q <= space;
    edges_q <= space_edges;
    if (rst) begin
      written_q <= '0;
      read_q    <= '0;
      stays_q   <= 1'b0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    if (started_q) begin
      assume (watched == watched_q);
      assume (!pop || front);
      assert (held <= 4'd2);
      assert (front == (held != 0));
      if (front && read_q == watched && written_q != watched) begin
        assert (shown == word_q);
        assert (body == (word_q.word.head ? 7'd0 : 7'd1 << word_q.port));
        assert (head[0] == (word_q.word.head && word_q.port == 0 ? 2'd1 << word_q.vc : 2'd0));
        assert (head[1] == (word_q.word.head && word_q.port == 1 ? 2'd1 << word_q.vc : 2'd0));
      end
      if (stays_q && word.head) 
        assert (fits == (10'(need) <= space_q[{shown.port[0], vc}] && edges_q[{shown.port[0], vc}]));
      if (head != 0 && fits)
        assert (10'(need) <= space_q[{shown.port[0], vc}] && edges_q[{shown.port[0], vc}]);
      if (next_head != 0 && next_fits)
        assert (10'(i_front.next_q.need) <= space_q[{shown.port[0], vc}] && edges_q[{shown.port[0], vc}]);
      // The word behind: a payload or footer word, or a header that takes over the VC.
      if (held == 4'd2 && read_q + 4'd1 == watched) begin
        assert (next_tail == word_q.word.tail);
        assert (next_body == (word_q.word.head ? 7'd0 : 7'd1 << word_q.port));
        if (next_head != 0)
          assert (word_q.word.head && word.tail && !word.head && word_q.vc == vc &&
                  next_head == 7'd1 << word_q.port && word_q.port == shown.port);
      end else if (held < 4'd2) begin
        assert (next_body == 0 && next_head == 0);
      end
      // Induction invariants: places of the words.
      assert (held == 4'(i_front.front_q.valid) + 4'(i_front.next_q.valid));
      assert (!i_front.next_q.valid || i_front.front_q.valid);
      assert (!i_front.front_q.valid || i_front.front_q.port == 7'd1 || i_front.front_q.port == 7'd2);
      assert (!i_front.next_q.valid || i_front.next_q.port == 7'd1 || i_front.next_q.port == 7'd2);
      if (watched - read_q < held) begin
        if (watched == read_q) assert (i_front.front_q.word == word_q.word && i_front.front_q.vc == word_q.vc &&
            i_front.front_q.port == 7'd1 << word_q.port && i_front.front_q.need == word_q.need);
        else assert (i_front.next_q.word == word_q.word && i_front.next_q.vc == word_q.vc &&
            i_front.next_q.port == 7'd1 << word_q.port && i_front.next_q.need == word_q.need);
        assert (word_q.port <= 3'd1 && !word_q.drop);
      end
      if (held == 4'd1) assert (i_front.before_tail_q == (word.tail && !word.head) &&
          i_front.before_vc_q == vc && i_front.before_port_q == i_front.front_q.port);
      if (held == 4'd2) begin
        assert (i_front.before_tail_q == (i_front.next_q.word.tail && !i_front.next_q.word.head) &&
                i_front.before_vc_q == i_front.next_q.vc && i_front.before_port_q == i_front.next_q.port);
        assert (i_front.next_same_q == (i_front.next_q.word.head && word.tail && !word.head &&
                i_front.next_q.vc == vc && i_front.next_q.port == i_front.front_q.port));
      end
    end
  end

endmodule
