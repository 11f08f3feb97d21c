// SPDX-License-Identifier: SHL-2.1
// Packet buffer of one virtual channel in front of the RDMA receiver: stores a packet whole, checks length,
// destination, type and CRC, and reports its space to the router.
module rdma_input
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
  import rdma_pkg::*;
#(
    // Payload words; a power of two, 512 or 1024.
    parameter int unsigned DEPTH = 512
) (
    input logic clk,
    input logic rst,

    input torus_node_t me,

    /*
     * words of this VC from the router; space for it
     */
    input  logic         in_valid,
    input  torus_word_t  in_word,
    output torus_words_t space,

    /*
     * packets, and their payload words in the same order
     */
    output logic         packet_valid,
    input  logic         packet_ready,
    output rdma_packet_t packet,
    output logic         data_valid,
    input  logic         data_ready,
    output logic [127:0] data
);

  localparam int unsigned Packets = 32;
  localparam logic [8:0] Longest = 9'(TorusMaxPayload / 16);

  if (DEPTH < 512 || DEPTH > 1024) begin : gen_check_depth
    $fatal(1, "rdma_input: DEPTH must be 512 or 1024");
  end

  // ---------------------------------------------------------------- words

  torus_header_t in_header, header, header_q;
  torus_footer_t footer;
  logic [8:0] count_q;   // payload words so far, up to Longest + 1
  logic [10:0] words_q;  // as the header says
  logic [127:0] first_q;
  logic payload, store, unused_room;
  logic [$clog2(DEPTH):0] unused_level;

  assign in_header = in_word.data;
  assign header    = in_word.head ? in_header : header_q;
  assign footer    = in_word.data;
  assign payload   = in_valid && !in_word.head && !in_word.tail;
  assign store     = payload && count_q < Longest;

  always_ff @(posedge clk) begin
    if (in_valid && in_word.head) begin
      header_q <= in_header;
      words_q  <= payload_words(in_header.length);
      count_q  <= '0;
    end
    if (payload && count_q <= Longest) count_q <= count_q + 9'd1;
    if (payload && count_q == 0) first_q <= in_word.data;
  end

  fifo #(
      .WIDTH(128),
      .DEPTH(DEPTH),
      .CHOOSE(1'b1)
  ) words (
      .clk,
      .rst,
      .in_valid (store),
      .in_ready (unused_room),
      .in_data  (in_word.data),
      .out_valid(data_valid),
      .out_ready(data_ready),
      .out_data (data),
      .level    (unused_level)
  );

  // ---------------------------------------------------------------- CRC

  logic s1_valid_q, s1_head_q, s1_tail_q, s2_valid_q, s2_head_q, s2_tail_q, s3_valid_q;
  // Covered bits; of a footer, the first 96 in the upper ones.
  logic [127:0] s1_data_q;
  logic [31:0] s1_found_q, s2_part_q, s2_found_q, crc, crc_q, sum_q;

  assign crc = crc_value(s2_head_q ? '1 : crc_q, s2_tail_q) ^ s2_part_q;

  always_ff @(posedge clk) begin
    s1_valid_q <= in_valid;
    s1_head_q  <= in_word.head;
    s1_tail_q  <= in_word.tail;
    s1_data_q  <= in_word.tail ? {in_word.data[95:0], 32'd0} :
                  in_word.data & (in_word.head ? HeaderCovered : '1);
    s1_found_q <= in_word.data[127:96];
    s2_valid_q <= s1_valid_q;
    s2_head_q  <= s1_head_q;
    s2_tail_q  <= s1_tail_q;
    s2_part_q  <= crc_aligned(s1_data_q);
    s2_found_q <= s1_found_q;
    if (s2_valid_q) crc_q <= crc;
    s3_valid_q <= s2_valid_q && s2_tail_q;
    sum_q      <= crc ^ s2_found_q;
    if (rst) begin
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      s3_valid_q <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- checks

  // Reasons that precede the CRC, and those that follow it. What the header alone decides is registered with
  // it; a header that is its whole packet has an early reason.
  reason_e early, late, late_q;
  logic long_q, elsewhere_q, foreign;
  logic [12:0] room;  // up to the next multiple of 4096

  assign foreign = {header_q.header_only, header_q.kind} == PacketRaw ||
                   {header_q.header_only, header_q.kind} == PacketEthernet;
  assign room    = 13'(TorusMaxPayload) - {1'b0, in_header.address[11:0]};

  always_comb begin
    early = ReasonNone;
    if (header.header_only) early = ReasonBadType;
    else if (in_word.head || 11'(count_q) != words_q || long_q) early = ReasonBadLength;
    else if (elsewhere_q) early = ReasonOutOfLattice;
    late = ReasonNone;
    unique case ({1'b0, in_header.kind})
      PacketPut, PacketGetData: if (in_header.length > 14'(room)) late = ReasonBadLength;
      PacketGet: if (in_header.length != 14'd16) late = ReasonBadLength;
      PacketDone, PacketNack: if (in_header.length != 0) late = ReasonBadLength;
      PacketDatagram: if (in_header.length < 14'd32) late = ReasonBadLength;
      PacketRaw, PacketEthernet, PacketSend: ;
      default: late = ReasonBadType;
    endcase
  end

  always_ff @(posedge clk) begin
    if (in_valid && in_word.head) begin
      late_q      <= late;
      long_q      <= in_header.length > 14'(TorusMaxPayload) || in_header.reserved;
      elsewhere_q <= in_header.outside || {in_header.z, in_header.y, in_header.x} != me;
    end
  end

  typedef struct packed {
    reason_e      early;
    logic         checked;  // the CRC counts
    rdma_packet_t packet;
  } record_t;
  record_t record_q, record;
  logic record_valid_q, record_valid, sound_valid, sound, spoiled, unused_record_room, unused_sound_room;
  logic [$clog2(Packets):0] unused_record_level, unused_sound_level;

  always_ff @(posedge clk) begin
    record_valid_q <= in_valid && in_word.tail;
    record_q       <= '{
        early: early,
        checked: footer.crc_present && !foreign,
        packet: '{
            reason: foreign ? ReasonNone : late_q,
            footer: !in_word.head,
            kind: {header.header_only, header.kind},
            channel: header.channel,
            intra: header.intra,
            length: header.length,
            address: header.address,
            message: footer.message,
            source: footer.source,
            source_intra: footer.source_intra,
            ack: footer.ack,
            notify: footer.notify,
            last: footer.last,
            immediate: footer.immediate,
            first: first_q,
            words: in_word.head ? '0 : count_q > Longest ? Longest : count_q
        }
    };
    if (rst) record_valid_q <= 1'b0;
  end

  fifo #(
      .WIDTH($bits(record_t)),
      .DEPTH(Packets),
      .CHOOSE(1'b1)
  ) records (
      .clk,
      .rst,
      .in_valid (record_valid_q),
      .in_ready (unused_record_room),
      .in_data  (record_q),
      .out_valid(record_valid),
      .out_ready(packet_valid && packet_ready),
      .out_data (record),
      .level    (unused_record_level)
  );
  // A packet whose payload could not be read at its source carries the complement of the CRC.
  fifo #(
      .WIDTH(2),
      .DEPTH(Packets),
      .CHOOSE(1'b1)
  ) sums (
      .clk,
      .rst,
      .in_valid (s3_valid_q),
      .in_ready (unused_sound_room),
      .in_data  ({sum_q == 0, sum_q == '1}),
      .out_valid(sound_valid),
      .out_ready(packet_valid && packet_ready),
      .out_data ({spoiled, sound}),
      .level    (unused_sound_level)
  );

  assign packet_valid = record_valid && sound_valid;
  always_comb begin
    packet = record.packet;
    if (record.early != ReasonNone) packet.reason = record.early;
    else if (record.checked && !sound) packet.reason = ReasonBadCrc;
    // Its source has reported it, unless it waits for DONE: no NACK.
    if (packet.reason == ReasonBadCrc && spoiled && !record.packet.ack) packet.footer = 1'b0;
  end

  // ---------------------------------------------------------------- space

  logic [10:0] data_left_q, data_more, data_less;
  logic [7:0] header_left_q;
  logic in_edge;
  assign in_edge = in_valid && (in_word.head || in_word.tail);
  // `data_ready` is late: it selects.
  assign data_more = data_left_q + 11'd1;
  assign data_less = data_left_q - 11'd1;
  assign space = '{data: data_left_q > 11'd1023 ? '1 : data_left_q[9:0], header: header_left_q};

  always_ff @(posedge clk) begin
    if (data_valid && data_ready && !store) data_left_q <= data_more;
    else if (store && !(data_valid && data_ready)) data_left_q <= data_less;
    header_left_q <= header_left_q - (in_edge ? (in_word.head && in_word.tail ? 8'd2 : 8'd1) : 8'd0)
                     + (packet_valid && packet_ready ? 8'd2 : 8'd0);
    if (rst) begin
      data_left_q   <= 11'(DEPTH);
      header_left_q <= 8'(2 * Packets);
    end
  end

  logic unused;
  assign unused = &{
          1'b0, footer.zero_flags, footer.zero, footer.crc, header.ecc, header.hops, header.last_hop,
          header.vc, header.outside, header.reserved, header.z, header.y, header.x, 1'b0
      };

endmodule
