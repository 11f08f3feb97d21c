// SPDX-License-Identifier: SHL-2.1
// Proof of torus_vc_fifo: with credit no word is lost, duplicated, changed or reordered; an offered word is
// stable; the used words are exact, so credits are neither lost nor invented.
module torus_vc_fifo_proof
  import nanet_torus_pkg::*;
(
    input logic       clk,
    input logic       rst,
    input logic       in_valid,
    input logic       in_head,
    input logic       in_tail,
    input logic [1:0] in_bits,
    input logic       out_ready,
    input logic [4:0] watched  // any word, by its number
);

  localparam int unsigned Depth = 4;

  torus_routed_t in_data, out_data;
  torus_words_t used;
  logic out_valid, overflow;

  torus_word_t word;
  assign word    = '{head: in_head, tail: in_tail, data: {126'd0, in_bits}};
  assign in_data = '{drop: 1'b0, need: '0, port: '0, vc: 1'b0, word: word};

  torus_vc_fifo #(
      .DEPTH(Depth)
  ) i_fifo (
      .*
  );

  logic started_q = 1'b0;
  logic [4:0] watched_q, written_q, read_q, held, behind;
  torus_routed_t word_q, data_q;
  logic offered_q;
  logic [7:0] edges;

  // Header and footer words in the registers and the memory.
  function automatic logic edge_word(input torus_routed_t word);
    return word.word.head || word.word.tail;
  endfunction
  always_comb begin
    edges = 8'(out_valid && edge_word(out_data)) + 8'(i_fifo.mid_valid_q && edge_word(i_fifo.mid_q));
    for (int i = 0; i < Depth; i++)
      edges += 8'(3'(i) < i_fifo.level_q && edge_word(i_fifo.mem[2'(i_fifo.rd_q + 3'(i))]));
  end

  assign held   = written_q - read_q;
  assign behind = watched - read_q;  // words before the watched one

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    watched_q <= watched;
    if (in_valid) written_q <= written_q + 1'b1;
    if (out_valid && out_ready) read_q <= read_q + 1'b1;
    if (in_valid && written_q == watched) word_q <= in_data;
    offered_q <= out_valid && !out_ready;
    data_q    <= out_data;
    if (rst) begin
      written_q <= '0;
      read_q    <= '0;
      offered_q <= 1'b0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    if (started_q) begin
      assume (watched == watched_q);
      assume (!in_valid || used.data + 10'(used.header) < 10'(Depth));  // credit
      assert (held <= 5'(Depth));
      assert (!overflow);
      assert (used.data + 10'(used.header) == 10'(held));
      assert (used.header == edges);
      if (out_valid && read_q == watched && written_q != watched) assert (out_data == word_q);
      if (offered_q) assert (out_valid && out_data == data_q);
      // Induction invariants: places of the words.
      assert (held == 5'(i_fifo.level_q) + 5'(i_fifo.mid_valid_q) + 5'(out_valid));
      assert (i_fifo.wr_q - i_fifo.rd_q == i_fifo.level_q);
      if (behind < held) begin
        if (behind == 5'(out_valid) && i_fifo.mid_valid_q) assert (i_fifo.mid_q == word_q);
        else if (behind >= 5'(out_valid) + 5'(i_fifo.mid_valid_q))
          assert (i_fifo.mem[2'(i_fifo.rd_q + 3'(behind) - 3'(out_valid) - 3'(i_fifo.mid_valid_q))] == word_q);
      end
    end
  end

endmodule
