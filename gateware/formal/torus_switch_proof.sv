// SPDX-License-Identifier: SHL-2.1
// Proof of torus_switch: with grants only while there is room, no word is lost, duplicated, changed or
// reordered; an offered word is stable.
module torus_switch_proof
  import nanet_torus_pkg::*;
(
    input logic            clk,
    input logic            rst,
    input logic            request,
    input logic            which,
    input logic [1:0][1:0] bits,
    input logic            out_ready,
    input logic [3:0]      watched  // any word, by its number
);

  logic [1:0] in_select, in_vc, select_q;
  torus_word_t [1:0] in_word;
  torus_word_t out_word, word_q, offered_word_q;
  logic room, granted, out_valid, out_vc;

  assign in_word   = '{'{head: bits[1][0], tail: 1'b1, data: 128'(bits[1])},
                       '{head: bits[0][0], tail: 1'b0, data: 128'(bits[0])}};
  assign in_vc     = 2'b10;
  assign in_select = select_q;
  assign granted   = request && room;

  torus_switch #(
      .INPUTS(2)
  ) i_switch (
      .*
  );

  logic started_q = 1'b0;
  logic offered_q, vc_q, offered_vc_q;
  logic [3:0] watched_q, written_q, read_q, held, behind;
  assign held   = written_q - read_q;
  assign behind = watched - read_q;

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    watched_q <= watched;
    select_q  <= granted ? 2'b01 << which : 2'b00;
    if (select_q != 0) written_q <= written_q + 1'b1;
    if (out_valid && out_ready) read_q <= read_q + 1'b1;
    if (select_q != 0 && written_q == watched) begin
      word_q <= in_word[select_q[1]];
      vc_q   <= in_vc[select_q[1]];
    end
    offered_q      <= out_valid && !out_ready;
    offered_word_q <= out_word;
    offered_vc_q   <= out_vc;
    if (rst) begin
      select_q  <= '0;
      written_q <= '0;
      read_q    <= '0;
      offered_q <= 1'b0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    if (started_q) begin
      assume (watched == watched_q);
      assert (held <= 4'd3);
      if (out_valid && read_q == watched && written_q != watched) assert ({out_vc, out_word} == {vc_q, word_q});
      if (offered_q) assert (out_valid && {out_vc, out_word} == {offered_vc_q, offered_word_q});
      // Induction invariants: places of the words.
      assert (select_q != 2'b11);
      assert (held == 4'(i_switch.held_q));
      assert (i_switch.pending_q == i_switch.held_q + 2'(select_q != 0));
      assert (3'(i_switch.held_q) + 3'(select_q != 0) <= 3'd3);
      if (behind < held) assert (i_switch.place_q[behind[1:0]] == {vc_q, word_q});
    end
  end

endmodule
