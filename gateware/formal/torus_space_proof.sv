// SPDX-License-Identifier: SHL-2.1
// Proof of torus_space: for packets granted within the space shown, in any order of grants and words, the
// reserved words are exactly those granted that have not left, and the space at the far end holds all of
// them: a packet that started never waits for space (whole-packet rule).
module torus_space_proof
  import nanet_torus_pkg::*;
(
    input logic         clk,
    input logic         rst,
    input logic         start,
    input logic   [8:0] need,
    input logic         single,
    input logic         leaves,
    input logic         edge_word,
    input torus_words_t freed
);

  // Buffer at the far end.
  localparam int unsigned Data = 600;
  localparam int unsigned Header = 100;

  torus_words_t space_q;
  logic [9:0] avail;
  logic edges;
  logic [10:0] half;
  logic reserve_q, only_q, grant, fits_q, closed_q;
  logic [8:0] words_q;
  logic [9:0] need_q;

  torus_space i_space (
      .clk,
      .rst,
      .empty_space(10'd0),
      .reserve    (reserve_q),
      .words      (words_q),
      .only       (only_q),
      .leaves,
      .edge_word,
      .space      (space_q),
      .avail,
      .edges,
      .half
  );

  // A packet is granted if it fitted in the last cycle, and none was granted in the three cycles before. The
  // reserve follows the grant by two cycles; a word leaves one cycle after that at the earliest.
  logic started_q = 1'b0;
  logic [2:0] since_q;
  logic [1:0][10:0] queued_q;  // words and kind of the grant of the last cycle
  torus_words_t owed_q;
  torus_words_t coming;  // of grants not yet reserved

  assign grant = start && fits_q && since_q == 0 && need == need_q[8:0];
  assign coming.data   = (queued_q[0][10] ? 10'(queued_q[0][8:0]) : 10'd0) + (reserve_q ? 10'(words_q) : 10'd0);
  assign coming.header = (queued_q[0][10] ? (queued_q[0][9] ? 8'd1 : 8'd2) : 8'd0) +
                         (reserve_q ? (only_q ? 8'd1 : 8'd2) : 8'd0);

  always_ff @(posedge clk) begin
    started_q   <= 1'b1;
    need_q      <= 10'(need);
    fits_q      <= 10'(need) <= avail && edges;
    since_q     <= {since_q[1:0], grant};
    queued_q[0] <= {grant, single, need};
    reserve_q   <= queued_q[0][10];
    only_q      <= queued_q[0][9];
    words_q     <= queued_q[0][8:0];
    owed_q.data   <= owed_q.data + (reserve_q ? 10'(words_q) : 10'd0) - 10'(leaves && !edge_word);
    owed_q.header <= owed_q.header + (reserve_q ? (only_q ? 8'd1 : 8'd2) : 8'd0) - 8'(leaves && edge_word);
    space_q.data   <= space_q.data - 10'(leaves && !edge_word) + freed.data;
    space_q.header <= space_q.header - 8'(leaves && edge_word) + freed.header;
    if (rst) begin
      since_q   <= '0;
      queued_q  <= '0;
      reserve_q <= 1'b0;
      fits_q    <= 1'b0;
      owed_q    <= '0;
      space_q   <= '{data: 10'(Data), header: 8'(Header)};
    end
  end

  always_comb begin
    assume (rst == !started_q);
    assume (need <= 9'd256 && (!single || need == 0));
    if (started_q) begin
      // Granted words leave; the far end frees no more than it holds.
      assume (!leaves || (edge_word ? owed_q.header + (reserve_q ? 8'd1 : 8'd0) != 0 :
                                      owed_q.data + (reserve_q ? 10'(words_q) : 10'd0) != 0));
      assume (11'(freed.data) + 11'(space_q.data) <= 11'(Data));
      assume (9'(freed.header) + 9'(space_q.header) <= 9'(Header));
      assert (i_space.reserved_q == owed_q);
      // Whole packets: space for every word granted.
      assert (11'(space_q.data) >= 11'(owed_q.data) + 11'(coming.data));
      assert (9'(space_q.header) >= 9'(owed_q.header) + 9'(coming.header));
      // Induction invariants: the space shown excludes every grant, except those on their way.
      assert (space_q.data <= 10'(Data) && space_q.header <= 8'(Header));
      assert (11'(avail) + 11'(owed_q.data) <= 11'(space_q.data));
      assert (!edges || 9'(owed_q.header) + 9'd2 <= 9'(space_q.header));
      assert (since_q[0] == queued_q[0][10] && since_q[1] == reserve_q);
      assert (!(since_q[0] && since_q[1]) && !(since_q[0] && since_q[2]) && !(since_q[1] && since_q[2]));
      if (queued_q[0][10]) begin
        assert (queued_q[0][8:0] <= 9'd256);
        assert (11'(owed_q.data) + 11'(queued_q[0][8:0]) <= 11'(space_q.data));
        assert (9'(owed_q.header) + 9'd2 <= 9'(space_q.header));
      end
      if (reserve_q) begin
        assert (words_q <= 9'd256);
        assert (11'(owed_q.data) + 11'(words_q) <= 11'(space_q.data));
        assert (9'(owed_q.header) + 9'd2 <= 9'(space_q.header));
      end
      if (since_q == 0 && fits_q) begin
        assert (11'(owed_q.data) + 11'(need_q) <= 11'(space_q.data));
        assert (9'(owed_q.header) + 9'd2 <= 9'(space_q.header));
      end
    end
  end

endmodule
