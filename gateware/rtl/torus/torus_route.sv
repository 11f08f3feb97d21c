// SPDX-License-Identifier: SHL-2.1
// Route stage of one router input: chooses output port and VC of a packet, rewrites VC code and bit 42 of its
// header, and marks all its words; one cycle. Packets of both VCs may interleave. A packet that this router
// cannot forward goes to the node with bit 42: destination outside the lattice, a turn against the order of
// the dimensions, a port that is not connected, or longer than 4096 B: then with bit 41 and without payload.
module torus_route
  import nanet_torus_pkg::*;
#(
    // Input port.
    parameter torus_port_t PORT = TorusLocal,
    // Order of the dimensions.
    parameter torus_order_t ORDER = TorusZyx
) (
    input logic clk,
    input logic rst,

    /*
     * configuration
     */
    input torus_size_t                  size,
    input torus_node_t                  me,
    input logic        [TorusLinks-1:0] connected,
    input logic                         balanced,

    /*
     * words from the link, each with its VC
     */
    input logic        in_valid,
    input logic        in_vc,
    input torus_word_t in_word,

    /*
     * words with their route; valid per VC
     */
    output logic          [TorusVcs-1:0] out_valid,
    output torus_routed_t                out_data,

    /*
     * pulse: a packet is delivered here with bit 42
     */
    output logic astray
);

  if (PORT > TorusLocal) begin : gen_check_port
    $fatal(1, "torus_route: PORT must be 0 to 6");
  end

  torus_header_t header;
  logic unused_header;
  torus_route_t way;
  torus_node_t to;
  logic lost, there, long;
  torus_port_t port;
  logic [TorusPorts-1:0] allowed;

  logic [TorusVcs-1:0] valid_q;
  torus_port_t [TorusVcs-1:0] port_q;
  logic [TorusVcs-1:0] vc_q, long_q;
  torus_routed_t data_q;
  logic astray_q;

  always_comb begin
    allowed = {1'b1, connected};
    for (int i = 0; i < int'(TorusLinks); i++) allowed[i] &= crosspoint(PORT, torus_port_t'(i), ORDER);
  end

  assign to    = '{x: header.x, y: header.y, z: header.z};
  assign way   = route(size, me, PORT, to, {header.last_hop, header.vc}, ORDER, balanced);
  assign there = allowed[way.port];
  assign long  = header.length > 14'(TorusMaxPayload);
  assign lost  = way.outside || !there || way.code[3:1] != 0 || long;
  assign port  = lost ? TorusLocal : way.port;

  assign header        = in_word.data;
  assign unused_header = &{
          1'b0,
          header.ecc,
          header.hops,
          header.address,
          header.kind,
          header.outside,
          header.reserved,
          header.intra,
          header.channel,
          1'b0
      };
  assign out_valid = valid_q;
  assign out_data  = data_q;
  assign astray    = astray_q;

  always_ff @(posedge clk) begin
    valid_q       <= '0;
    astray_q      <= 1'b0;
    data_q.word   <= in_word;
    data_q.port   <= port_q[in_vc];
    data_q.vc     <= vc_q[in_vc];
    data_q.need   <= long || header.header_only ? '0 : 9'(payload_words(header.length));
    data_q.drop   <= long_q[in_vc] && !in_word.head && !in_word.tail;
    if (in_valid) valid_q[in_vc] <= 1'b1;
    if (in_valid && in_word.head) begin
      astray_q            <= lost;
      data_q.port         <= port;
      data_q.vc           <= port == TorusLocal ? in_vc : way.code[0];
      data_q.word.data[4:0] <= port == TorusLocal ? '0 : way.code;
      data_q.word.data[42]  <= lost;
      if (lost) data_q.word.data[40:37] <= '0;
      if (long) begin
        data_q.word.data[41]    <= 1'b1;
        data_q.word.data[61:48] <= '0;
      end
      long_q[in_vc]       <= long;
      port_q[in_vc]       <= port;
      vc_q[in_vc]         <= port == TorusLocal ? in_vc : way.code[0];
    end
    if (rst) begin
      valid_q  <= '0;
      astray_q <= 1'b0;
    end
  end

endmodule
