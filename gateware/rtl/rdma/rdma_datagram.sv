// SPDX-License-Identifier: SHL-2.1
// Datagrams of a UDP channel as torus packets; stores APEnet+ packets whole and sends each to one node. A
// datagram that does not fit into a packet is dropped and counted.
module rdma_datagram
  import nanet_pkg::*;
  import nanet_torus_pkg::*;
  import rdma_pkg::*;
#(
    // Buffer depth in words; a power of two, at least 1024.
    parameter int unsigned DEPTH = 1024
) (
    input logic clk,
    input logic rst,

    /*
     * configuration: this node; destination: node, port, domain
     */
    input torus_node_t        me,
    input torus_node_t        node,
    input logic        [ 3:0] intra,
    input logic        [15:0] channel,

    /*
     * APEnet+ packets of nanet_controller, which monitors the level
     */
    input  apenet_req_t            in_req,
    output logic [$clog2(DEPTH):0] level,

    /*
     * to rdma_tx
     */
    output inject_req_t  datagram_req,
    input  logic         datagram_sent,
    output logic         datagram_valid,
    input  logic         datagram_ready,
    output logic [127:0] datagram_data,

    // Pulse: a datagram was dropped.
    output logic too_long
);

  localparam int unsigned Packets = 256;
  localparam logic [9:0] Longest = 10'(TorusMaxPayload / 16);

  if (DEPTH < 1024) begin : gen_check_depth
    $fatal(1, "rdma_datagram: DEPTH must be at least 1024");
  end

  typedef struct packed {
    logic       drop;
    logic [9:0] words;
  } packet_t;

  apenet_header_t header;
  apenet_footer_t footer;
  packet_t ended, packet;
  logic part_q, packet_valid, packet_ready, word_valid, word_ready, unused_word_room, unused_packet_room;
  logic [9:0] count_q, left_q;
  logic [31:0] message_q;
  logic [$clog2(Packets):0] unused_packet_level;
  logic sending_q, dropping;

  // All packets of a datagram of several are dropped, the first at its footer.
  assign header = in_req.data;
  assign footer = in_req.data;
  assign ended  = '{drop: part_q || !footer.last || count_q >= Longest, words: count_q + 10'd1};

  always_ff @(posedge clk) begin
    if (in_req.valid) begin
      count_q <= in_req.kind == ApenetHeader ? 10'd1 : count_q + 10'd1;
      if (in_req.kind == ApenetHeader) part_q <= header.offset != 0;
    end
    too_long <= in_req.valid && in_req.kind == ApenetFooter && ended.drop && footer.last;
    if (rst) begin
      part_q   <= 1'b0;
      too_long <= 1'b0;
    end
  end

  fifo #(
      .WIDTH(128),
      .DEPTH(DEPTH)
  ) words (
      .clk,
      .rst,
      .in_valid (in_req.valid),
      .in_ready (unused_word_room),
      .in_data  (in_req.data),
      .out_valid(word_valid),
      .out_ready(word_ready),
      .out_data (datagram_data),
      .level
  );
  fifo #(
      .WIDTH($bits(packet_t)),
      .DEPTH(Packets)
  ) packets (
      .clk,
      .rst,
      .in_valid (in_req.valid && in_req.kind == ApenetFooter),
      .in_ready (unused_packet_room),
      .in_data  (ended),
      .out_valid(packet_valid),
      .out_ready(packet_ready),
      .out_data (packet),
      .level    (unused_packet_level)
  );

  assign dropping       = packet_valid && packet.drop;
  assign word_ready     = dropping ? sending_q : datagram_ready;
  assign datagram_valid = word_valid && !dropping;
  assign packet_ready   = dropping ? sending_q && word_valid && left_q == 10'd1 : datagram_sent;

  always_comb begin
    datagram_req                   = '0;
    datagram_req.valid             = packet_valid && !packet.drop;
    datagram_req.words             = packet.words[8:0];
    datagram_req.header.length     = {packet.words, 4'd0};
    datagram_req.header.kind       = PacketDatagram[3:0];
    datagram_req.header.intra      = intra;
    datagram_req.header.x          = node.x;
    datagram_req.header.y          = node.y;
    datagram_req.header.z          = node.z;
    datagram_req.header.channel    = channel;
    datagram_req.header.last_hop   = TorusInject[4];
    datagram_req.footer.last       = 1'b1;
    datagram_req.footer.source     = me;
    datagram_req.footer.message    = message_q;
  end

  always_ff @(posedge clk) begin
    // One cycle loads the number of words to be dropped.
    sending_q <= dropping && !packet_ready;
    if (!sending_q) left_q <= packet.words;
    else if (dropping && word_valid) left_q <= left_q - 10'd1;
    if (datagram_sent) message_q <= message_q + 32'd1;
    if (rst) begin
      sending_q <= 1'b0;
      message_q <= '0;
    end
  end

  logic unused;
  assign unused = &{1'b0, header, footer, 1'b0};

endmodule
