// SPDX-License-Identifier: SHL-2.1
// Proof of torus_output with two inputs (torus_front) and any packets, pauses and credits: an output VC
// carries one packet at a time, whole and in order; a header leaves only with space for its packet; alone, a
// header whose VC is free and has space is granted within a bound.
module torus_output_proof
  import nanet_torus_pkg::*;
(
    input logic                   clk,
    input logic                   rst,
    input logic                   atomic,
    input logic             [1:0] in_valid,
    input logic             [1:0] in_vc,
    input logic             [1:0] in_single,
    input logic             [1:0][1:0] in_need,
    input logic                   out_ready,
    input torus_words_t     [1:0] freed
);

  localparam int unsigned Data = 3;
  localparam int unsigned Header = 4;
  localparam int unsigned Bound = 3;

  // ---------------------------------------------------------------- two inputs with packets of 0 to 3 words

  logic [TorusInputs-1:0] body, fits, next_body, next_head, next_fits, next_tail, vc, grant;
  logic [TorusInputs-1:0][TorusVcs-1:0] head;
  logic [TorusInputs-1:0][8:0] need;
  torus_word_t [TorusInputs-1:0] word;
  logic [TorusInputs-1:0][9:0] avail;
  logic [TorusVcs-1:0][9:0] avail_o;
  logic [TorusInputs-1:0] edges;
  logic [TorusVcs-1:0] edges_o;
  torus_words_t [TorusVcs-1:0] space_q;
  logic [TorusInputs-1:0][10:0] half;
  logic [TorusVcs-1:0][10:0] half_o;
  logic out_valid, out_vc;
  torus_word_t out_word;

  always_comb begin
    avail      = '0;
    avail[1:0] = avail_o;
    edges      = '0;
    edges[1:0] = edges_o;
    half       = '0;
    half[1:0]  = half_o;
  end

  for (genvar i = 0; i < int'(TorusInputs); i++) begin : gen_input
    if (i < 2) begin : gen_used
      logic inside_q, vc_q, ready;
      logic [1:0] left_q, number_q;  // payload words to come; word of the packet
      torus_routed_t data;
      logic [TorusPorts-1:0] bodies, next_bodies, next_heads;
      logic [TorusPorts-1:0][TorusVcs-1:0] heads;

      // Data: input, number of the word, payload words of the packet.
      always_comb begin
        data           = '0;
        data.vc        = inside_q ? vc_q : in_vc[i];
        data.need      = 9'(in_need[i]);
        data.word.head = !inside_q;
        data.word.tail = inside_q ? left_q == 0 : in_single[i];
        data.word.data = 128'({in_need[i], number_q, 1'(i)});
      end

      torus_front #(
          .OUTPUTS(7'b0000001)
      ) i_front (
          .clk,
          .rst,
          .in_valid (in_valid[i]),
          .in_ready (ready),
          .in_data  (data),
          .avail,
          .edges,
          .half,
          .word     (word[i]),
          .vc       (vc[i]),
          .need     (need[i]),
          .pop      (grant[i]),
          .body     (bodies),
          .head     (heads),
          .fits     (fits[i]),
          .next_body(next_bodies),
          .next_head(next_heads),
          .next_fits(next_fits[i]),
          .next_tail(next_tail[i])
      );
      assign body[i]      = bodies[0];
      assign head[i]      = heads[0];
      assign next_body[i] = next_bodies[0];
      assign next_head[i] = next_heads[0];

      always_ff @(posedge clk) begin
        if (in_valid[i] && ready) begin
          inside_q <= inside_q ? left_q != 0 : !in_single[i];
          left_q   <= inside_q ? left_q - 1'b1 : in_need[i];
          number_q <= inside_q && left_q == 0 ? '0 : number_q + 1'b1;
          if (!inside_q) begin
            vc_q <= in_vc[i];
            if (in_single[i]) number_q <= '0;
          end
        end
        if (rst) begin
          inside_q <= 1'b0;
          number_q <= '0;
        end
      end
      always_comb assume (inside_q || !in_single[i] || in_need[i] == 0);
      always_comb assume (in_need[i] <= 2'd2);
    end else begin : gen_unused
      assign {body[i], head[i], fits[i], next_body[i], next_head[i], next_fits[i], next_tail[i], vc[i]} = '0;
      assign need[i] = '0;
      assign word[i] = '0;
    end
  end

  torus_output #(
      .INPUTS(14'b11)
  ) i_output (
      .clk,
      .rst,
      .atomic,
      .empty_space(10'd0),
      .body,
      .head,
      .fits,
      .next_body,
      .next_head,
      .next_fits,
      .next_tail,
      .word,
      .vc,
      .need,
      .grant,
      .out_valid,
      .out_ready,
      .out_vc,
      .out_word,
      .space      (space_q),
      .avail      (avail_o),
      .edges      (edges_o),
      .half       (half_o)
  );

  // ---------------------------------------------------------------- checks

  logic started_q = 1'b0;
  logic atomic_q, leaves, out_edge;
  logic [1:0] open_q, owner_q;
  logic [1:0][1:0] left_q, number_q;
  logic [2:0] waits_q;
  logic [1:0] older_q;
  logic from;
  logic [1:0] number, packet_need;

  assign leaves = out_valid && out_ready;
  assign out_edge = out_word.head || out_word.tail;
  assign {packet_need, number, from} = out_word.data[4:0];

  // Only the first input has a word, a header whose VC is free and has had space for two cycles.
  logic alone;
  logic [1:0] ample_q;
  assign alone = |head[0] && !body[1] && head[1] == 0 && i_output.busy_q == 0 && i_output.fresh_q == 0 &&
                 older_q == 0 && ample_q == '1 && i_output.room && !grant[0];

  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    atomic_q  <= atomic;
    older_q   <= i_output.fresh_q;
    ample_q   <= {ample_q[0], avail_o[0] == 10'(Data) && avail_o[1] == 10'(Data) && edges_o == '1};
    waits_q   <= alone ? waits_q + 1'b1 : '0;
    if (leaves) begin
      if (out_word.head) begin
        open_q[out_vc]   <= !out_word.tail;
        owner_q[out_vc]  <= from;
        left_q[out_vc]   <= packet_need;
        number_q[out_vc] <= 2'd1;
      end else begin
        open_q[out_vc]   <= !out_word.tail;
        left_q[out_vc]   <= left_q[out_vc] - 1'b1;
        number_q[out_vc] <= number_q[out_vc] + 1'b1;
      end
    end
    for (int v = 0; v < 2; v++) begin
      space_q[v].data   <= space_q[v].data + freed[v].data - 10'(leaves && out_vc == 1'(v) && !out_edge);
      space_q[v].header <= space_q[v].header + freed[v].header - 8'(leaves && out_vc == 1'(v) && out_edge);
      if (rst) space_q[v] <= '{data: 10'(Data), header: 8'(Header)};
    end
    if (rst) begin
      open_q  <= '0;
      ample_q <= '0;
      older_q <= '0;
      waits_q <= '0;
    end
  end

  always_comb begin
    assume (rst == !started_q);
    if (started_q) begin
      assume (atomic == atomic_q);
      for (int v = 0; v < 2; v++) begin
        assume (11'(space_q[v].data) + 11'(freed[v].data) <= 11'(Data));
        assume (9'(space_q[v].header) + 9'(freed[v].header) <= 9'(Header));
      end
      assert ((grant & (grant - 1'b1)) == 0);
      if (leaves) begin
        if (out_word.head) begin
          assert (!open_q[out_vc]);
          assert (number == 0);
          if (atomic) assert (open_q == 0);
          // The whole packet.
          assert (space_q[out_vc].data >= 10'(packet_need));
          assert (space_q[out_vc].header >= (out_word.tail ? 8'd1 : 8'd2));
        end else begin
          assert (open_q[out_vc] && owner_q[out_vc] == from);
          assert (number == number_q[out_vc]);
          assert (out_word.tail == (left_q[out_vc] == 0));
          assert (out_word.tail ? space_q[out_vc].header != 0 : space_q[out_vc].data != 0);
        end
      end
      assert (waits_q < 3'(Bound));
    end
  end

endmodule
