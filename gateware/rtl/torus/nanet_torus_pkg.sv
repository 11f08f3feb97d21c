// SPDX-License-Identifier: SHL-2.1
// Types and routing function of the 3D torus: packet words of 128 bits, nodes, ports, virtual channels
// (docs/formats.md; packet and routing as in INFN's APEnet+ firmware).
package nanet_torus_pkg;

  // ---------------------------------------------------------------- ports

  // Port 0 to 5: links X+, Y+, Z+, X-, Y-, Z-. A packet that leaves at X+ arrives at the neighbour's X-.
  localparam int unsigned TorusLinks = 6;
  localparam int unsigned TorusPorts = 7;
  localparam int unsigned TorusVcs = 2;
  localparam int unsigned TorusInputs = TorusPorts * TorusVcs;  // input number: 2 port + VC
  typedef logic [2:0] torus_port_t;
  localparam torus_port_t TorusLocal = 3'd6;

  // ---------------------------------------------------------------- packets

  localparam int unsigned TorusMaxPayload = 4096;
  localparam logic [4:0] TorusInject = 5'h10;  // VC code of a packet from the node

  typedef struct packed {
    logic [7:0]  ecc;          // SECDED check byte on compatible links, else 0
    logic [9:0]  hops;
    logic [47:0] address;
    logic [13:0] length;       // payload bytes
    logic        header_only;  // neither payload nor footer
    logic [3:0]  kind;
    logic        outside;      // delivered to a node other than its destination
    logic        reserved;
    logic [3:0]  intra;        // port or task within the node
    logic [4:0]  z;
    logic [4:0]  y;
    logic [5:0]  x;
    logic [15:0] channel;
    logic        last_hop;     // of its dimension
    logic [3:0]  vc;
  } torus_header_t;

  // Word of a packet between modules.
  typedef struct packed {
    logic         head;
    logic         tail;
    logic [127:0] data;
  } torus_word_t;

  // Word with its route, in the input buffers of a router.
  typedef struct packed {
    logic        drop;  // payload of a packet above the longest
    logic [8:0]  need;  // of a header: payload words of its packet
    torus_port_t port;
    logic        vc;
    torus_word_t word;
  } torus_routed_t;

  // Words of a buffer: payload, and header or footer.
  typedef struct packed {
    logic [9:0] data;
    logic [7:0] header;
  } torus_words_t;

  // Payload words of a packet.
  function automatic logic [10:0] payload_words(input logic [13:0] length);
    return {1'b0, length[13:4]} + 11'(|length[3:0]);
  endfunction

  // ---------------------------------------------------------------- nodes and routing

  typedef struct packed {
    logic [4:0] z;
    logic [4:0] y;
    logic [5:0] x;
  } torus_node_t;

  // Nodes in each dimension: 1 to 64, 1 to 32, 1 to 32.
  typedef struct packed {
    logic [5:0] z;
    logic [5:0] y;
    logic [6:0] x;
  } torus_size_t;

  // Order of the dimensions: [0] is routed first; 0 X, 1 Y, 2 Z.
  typedef logic [2:0][1:0] torus_order_t;
  localparam torus_order_t TorusZyx = {2'd0, 2'd1, 2'd2};

  typedef struct packed {
    torus_port_t port;
    logic [4:0]  code;     // VC code there: bit 4 marks the last hop of a dimension
    logic        outside;  // the destination lies outside the lattice
  } torus_route_t;

  // Step within one dimension.
  typedef struct packed {
    logic differs;
    logic minus;
    logic wraps;   // the remaining way crosses the wrap-around link
    logic last;    // one hop remains
  } torus_step_t;

  // Shorter way; plus where both are equal.
  function automatic torus_step_t step(input logic [6:0] size, input logic [5:0] me, input logic [5:0] to);
    logic [7:0] raw;
    logic [6:0] forward;
    raw          = {2'b0, to} - {2'b0, me};
    forward      = raw[7] ? raw[6:0] + size : raw[6:0];
    step.differs = to != me;
    step.minus   = forward > {1'b0, size[6:1]};
    step.wraps   = step.minus ^ raw[7];
    step.last    = step.minus ? forward + 7'd1 == size : forward == 7'd1;
  endfunction

  // Next hop of a packet from input `from`. VC 1 up to and including the wrap-around link, then VC 0, chosen
  // at every hop. A packet from the node chooses with code 10000 or 10001 and keeps any other code.
  // `balanced`, not INFN's rule: a packet that does not wrap takes the VC of the parity of the coordinates
  // where it enters the dimension and of its destination.
  function automatic torus_route_t route(input torus_size_t size, input torus_node_t me,
                                         input torus_port_t from, input torus_node_t to,
                                         input logic [4:0] code, input torus_order_t order,
                                         input logic balanced);
    torus_step_t [2:0] steps;
    torus_step_t chosen;
    torus_port_t opposite;
    logic [2:0] at_edge;  // the wrap-around link lies behind a packet that stays in its direction
    logic parity;
    logic [3:0] vc;
    steps[0] = step(size.x, me.x, to.x);
    steps[1] = step({1'b0, size.y}, {1'b0, me.y}, {1'b0, to.y});
    steps[2] = step({1'b0, size.z}, {1'b0, me.z}, {1'b0, to.z});
    at_edge[0] = me.x == (steps[0].minus ? 6'(size.x - 7'd1) : 6'd0);
    at_edge[1] = me.y == (steps[1].minus ? 5'(size.y - 6'd1) : 5'd0);
    at_edge[2] = me.z == (steps[2].minus ? 5'(size.z - 6'd1) : 5'd0);
    parity   = me.x[0] ^ me.y[0] ^ me.z[0] ^ to.x[0] ^ to.y[0] ^ to.z[0];
    route    = '{
            port: TorusLocal,
            code: '0,
            outside: {1'b0, to.x} >= size.x || {1'b0, to.y} >= size.y || {1'b0, to.z} >= size.z};
    if (!route.outside) begin
      for (int i = 2; i >= 0; i--) begin
        chosen = steps[order[i]];
        if (chosen.differs) begin
          route.port = {1'b0, order[i]} + (chosen.minus ? 3'd3 : 3'd0);
          opposite   = {1'b0, order[i]} + (chosen.minus ? 3'd0 : 3'd3);
          vc         = {3'b0, chosen.wraps};
          if (from == TorusLocal && code[4:1] != 4'b1000) vc = code[3:0];
          else if (balanced && !chosen.wraps) begin
            if (from != opposite) vc = {3'b0, parity};
            else if (!at_edge[order[i]]) vc = code[3:0];
          end
          route.code = {chosen.last, vc};
        end
      end
    end
  endfunction

  // Whether a packet of input `from` may leave at `to`: packets keep their direction within a dimension and
  // pass the dimensions in order.
  function automatic logic crosspoint(input torus_port_t from, input torus_port_t to,
                                      input torus_order_t order);
    logic [1:0] rank_from, rank_to;
    rank_from = '0;
    rank_to   = '0;
    for (int i = 0; i < 3; i++) begin
      if (order[i] == 2'(from % 3'd3)) rank_from = 2'(i);
      if (order[i] == 2'(to % 3'd3)) rank_to = 2'(i);
    end
    if (from == TorusLocal || to == TorusLocal) return 1'b1;
    if (rank_from == rank_to) return from != to;  // input X- feeds output X+
    return rank_from < rank_to;
  endfunction

endpackage
