// SPDX-License-Identifier: SHL-2.1
// UDP transmitter: stores a payload while summing it, then frames it (Ethernet, IPv4, UDP with checksums,
// zero padding to the minimum size; the MAC adds the FCS). A payload can be discarded until its command is
// given. Frames leave in command order without gaps.
module udp_transmit
  import nanet_dma_pkg::*;
#(
    // Width of a payload word in bits.
    parameter int unsigned DATA_W = 128,
    // Width of the MAC stream in bits: 8, 16 (1 GbE) or 64 (10 GbE).
    parameter int unsigned MAC_W = 64,
    // Payload memory in bytes, a power of two; the longest payload is half of it.
    parameter int unsigned BUFFER_BYTES = 4096,
    // Depth of the frame queue; a power of two.
    parameter int unsigned QUEUE = 4
) (
    input logic clk,
    input logic rst,

    /*
     * Card addresses, steady
     */
    input source_cfg_t source_cfg,

    /*
     * Payload, packed from bit 0
     */
    input  logic              data_valid,
    output logic              data_ready,
    input  logic [DATA_W-1:0] data,
    // Valid bytes in this word.
    input logic [$clog2(DATA_W/8):0] data_bytes,
    // Room for the longest payload, independent of the MAC.
    output logic data_room,

    /*
     * Command, after the last word of its payload
     */
    input  logic cmd_valid,
    output logic cmd_ready,
    // 0: discard the payload.
    input logic        cmd_send,
    input logic [15:0] cmd_bytes,
    input endpoint_t   cmd_to,

    /*
     * Frames to the MAC (AXI stream)
     */
    output logic               mac_tvalid,
    input  logic               mac_tready,
    output logic [MAC_W-1:0]   mac_tdata,
    output logic [MAC_W/8-1:0] mac_tkeep,
    output logic               mac_tlast
);

  localparam int unsigned DataB = DATA_W / 8;
  localparam int unsigned MacB = MAC_W / 8;
  localparam int unsigned Words = BUFFER_BYTES / DataB;
  localparam int unsigned AddrW = $clog2(Words);
  localparam int unsigned Slices = DATA_W / MAC_W;
  localparam int unsigned HeaderB = 42;
  localparam int unsigned MinimumB = 60;
  localparam int unsigned Lanes = DATA_W / 16;

  if (DATA_W % 128 != 0 || DATA_W % MAC_W != 0) begin : gen_check_width
    $fatal(1, "udp_transmit: DATA_W must be a multiple of 128 and of MAC_W");
  end
  if (MAC_W != 8 && MAC_W != 16 && MAC_W != 64) begin : gen_check_mac
    $fatal(1, "udp_transmit: MAC_W must be 8, 16 or 64");
  end

  // Payload memory: written ahead of `kept_q`. A command either advances `kept_q` or rolls back to it. No
  // word is read in its write cycle.
  (* no_rw_check *)
  logic [DATA_W-1:0] mem[Words];
  logic [AddrW:0] write_q, commit_q, read_q;
  localparam int unsigned LongestWords = (1472 + DataB - 1) / DataB;
  if (LongestWords + 2 > Words) begin : gen_check_buffer
    $fatal(1, "udp_transmit: BUFFER_BYTES must hold a payload of 1472 bytes and two words");
  end
  logic push, room_q;

  assign push = data_valid && data_ready;

  // Sum of the payload's 16-bit words in low-byte-first order; one final byte swap gives network order
  // (RFC 1071). Three stages: pairs, fours, all.
  logic [Lanes/2-1:0][16:0] pairs_d, pairs_q;
  logic pairs_valid_q, fours_valid_q;
  logic [Lanes/8-1:0][19:0] fours_d, fours_q;
  logic [31:0] sum_q, lane_sum;
  logic [DATA_W-1:0] masked;

  always_comb begin
    for (int unsigned i = 0; i < DataB; i++) begin
      masked[8*i+:8] = i < 32'(data_bytes) ? data[8*i+:8] : 8'd0;
    end
    for (int unsigned i = 0; i < Lanes / 2; i++) begin
      pairs_d[i] = {1'b0, masked[32*i+:16]} + {1'b0, masked[32*i+16+:16]};
    end
    for (int unsigned i = 0; i < Lanes / 8; i++) begin
      fours_d[i] = 20'(pairs_q[4*i]) + 20'(pairs_q[4*i+1]) + 20'(pairs_q[4*i+2]) + 20'(pairs_q[4*i+3]);
    end
    lane_sum = '0;
    for (int unsigned i = 0; i < Lanes / 8; i++) begin
      lane_sum = lane_sum + 32'(fours_q[i]);
    end
  end

  // Command: a few cycles of folding, then into the frame queue.
  typedef enum logic [3:0] {
    Collect,
    Drain,
    AddSource,
    AddTarget,
    AddLength,
    Fold,
    FoldAgain,
    Enqueue
  } state_t;

  typedef struct packed {
    logic [15:0] bytes;
    logic [15:0] ip_sum;
    logic [15:0] udp_sum;
    endpoint_t   to;
  } frame_t;

  state_t state_q;
  endpoint_t to_q;
  logic [15:0] bytes_q, udp_length, ip_length, ip_length_q;
  logic [31:0] udp_q, ip_q, source_sum_q, own_sum_q, to_sum_q, length_sum_q;
  logic send_q;

  logic queue_ready, frame_valid, frame_ready;
  frame_t queued, frame;
  logic [$clog2(QUEUE):0] unused_level;

  function automatic logic [31:0] fold(input logic [31:0] value);
    return {16'd0, value[15:0]} + {16'd0, value[31:16]};
  endfunction

  function automatic logic [15:0] swap(input logic [15:0] value);
    return {value[7:0], value[15:8]};
  endfunction

  // One cycle late, so two further words may arrive.
  assign data_ready = state_q == Collect && room_q;
  assign cmd_ready = state_q == Collect && !data_valid;
  assign udp_length = bytes_q + 16'd8;
  assign ip_length = bytes_q + 16'd28;

  always_comb begin
    queued.bytes = bytes_q;
    queued.ip_sum = ~ip_q[15:0];
    queued.udp_sum = udp_q[15:0] == 16'hFFFF ? 16'hFFFF : ~udp_q[15:0];  // 0 would mean no checksum
    queued.to = to_q;
  end

  always_ff @(posedge clk) begin
    if (push) mem[write_q[AddrW-1:0]] <= data;
    pairs_q <= pairs_d;
    fours_q <= fours_d;
    source_sum_q <= 32'(source_cfg.ip[31:16]) + 32'(source_cfg.ip[15:0]);
    // Operands of each step are registered one cycle earlier; `to_q`, `bytes_q`: valid from the command on.
    own_sum_q    <= source_sum_q + 32'(source_cfg.port);
    to_sum_q     <= 32'(to_q.ip[31:16]) + 32'(to_q.ip[15:0]);
    length_sum_q <= {15'd0, udp_length, 1'b0} + 32'(to_q.port) + 32'd17;
    ip_length_q  <= ip_length;
  end

  always_ff @(posedge clk) begin
    pairs_valid_q <= push;
    fours_valid_q <= pairs_valid_q;
    room_q        <= (write_q - read_q) < (AddrW + 1)'(Words - 2);
    data_room     <= state_q == Collect && !cmd_valid &&
                     (write_q - read_q) <= (AddrW + 1)'(Words - 2 - LongestWords);
    if (push) write_q <= write_q + 1'b1;
    if (fours_valid_q) sum_q <= sum_q + lane_sum;

    case (state_q)
      Collect:
      if (cmd_valid && cmd_ready) begin
        send_q  <= cmd_send;
        bytes_q <= cmd_bytes;
        to_q    <= cmd_to;
        state_q <= Drain;
      end
      Drain: begin  // the last word is added in this cycle
        if (!send_q) begin
          write_q <= commit_q;
          sum_q   <= '0;
          state_q <= Collect;
        end else begin
          state_q <= AddSource;
        end
      end
      AddSource: begin
        // Payload in network order, pseudo header, UDP header; both halves of `sum_q` are swapped alike.
        udp_q   <= 32'(swap(sum_q[15:0])) + 32'(swap(sum_q[31:16])) + own_sum_q;
        ip_q    <= 32'h4500 + 32'h4000 + 32'h4011 + source_sum_q;
        sum_q   <= '0;
        state_q <= AddTarget;
      end
      AddTarget: begin
        udp_q   <= udp_q + to_sum_q;
        ip_q    <= ip_q + to_sum_q;
        state_q <= AddLength;
      end
      AddLength: begin
        udp_q   <= udp_q + length_sum_q;
        ip_q    <= ip_q + 32'(ip_length_q);
        state_q <= Fold;
      end
      Fold: begin
        udp_q   <= fold(udp_q);
        ip_q    <= fold(ip_q);
        state_q <= FoldAgain;
      end
      FoldAgain: begin
        udp_q   <= fold(udp_q);
        ip_q    <= fold(ip_q);
        state_q <= Enqueue;
      end
      Enqueue:
      if (queue_ready) begin
        commit_q <= write_q;
        state_q  <= Collect;
      end
      default: state_q <= Collect;
    endcase

    if (rst) begin
      state_q       <= Collect;
      pairs_valid_q <= 1'b0;
      fours_valid_q <= 1'b0;
      write_q       <= '0;
      commit_q      <= '0;
      sum_q         <= '0;
      room_q        <= 1'b0;
      data_room     <= 1'b0;
    end
  end

  fifo #(
      .WIDTH($bits(frame_t)),
      .DEPTH(QUEUE)
  ) i_frames (
      .clk,
      .rst,
      .in_valid (state_q == Enqueue),
      .in_ready (queue_ready),
      .in_data  (queued),
      .out_valid(frame_valid),
      .out_ready(frame_ready),
      .out_data (frame),
      .level    (unused_level)
  );

  // Transmission: whole header words, then payload after the rest of the header, then zero padding.
  localparam int unsigned HeadWords = HeaderB / MacB;
  localparam int unsigned HoldB = HeaderB % MacB;
  localparam int unsigned HeadW = $clog2(HeadWords + 1);
  localparam int unsigned SliceW = Slices > 1 ? $clog2(Slices) : 1;

  logic busy_q;
  logic [8*HeaderB-1:0] header_d, head_q;
  logic [HeadW-1:0] head_left_q;
  logic [15:0] left_q;  // remaining frame bytes
  logic [15:0] payload_left_q;  // remaining bytes to read from the payload memory
  logic last_beat_q, slice_last_q;  // `left_q`, `payload_left_q` fit into one MAC word
  logic beat, take, fetch, move, word_end;
  logic ram_valid_q, word_valid_q;
  logic [DATA_W-1:0] ram_q, word_q;
  logic [SliceW-1:0] slice_q;
  logic [MAC_W-1:0] slice, body;
  logic [15:0] frame_bytes;

  always_comb begin
    // First octet on the wire in the highest bits.
    header_d = {
      frame.to.mac, source_cfg.mac, 16'h0800,
      16'h4500, frame.bytes + 16'd28, 32'h0000_4000, 16'h4011, frame.ip_sum, source_cfg.ip, frame.to.ip,
      source_cfg.port, frame.to.port, frame.bytes + 16'd8, frame.udp_sum
    };
  end

  assign frame_bytes = 16'(HeaderB) + frame.bytes;
  assign frame_ready = !busy_q && (frame.bytes == 0 || word_valid_q);
  assign beat = mac_tvalid && mac_tready;
  assign take = beat && head_left_q == 0 && payload_left_q != 0;
  assign word_end = take && (slice_last_q || slice_q == SliceW'(Slices - 1));
  // Only committed payload may be read.
  assign fetch = read_q != commit_q && (!ram_valid_q || move);
  assign move = ram_valid_q && (!word_valid_q || word_end);

  always_comb begin
    slice = word_q[MAC_W*slice_q+:MAC_W];
    for (int unsigned i = 0; i < MacB; i++) begin
      if (16'(i) >= payload_left_q) slice[8*i+:8] = 8'd0;
    end
  end

  // The header leaves from the top of head_q, octet by octet into rising lanes.
  logic [MAC_W-1:0] head_word;
  always_comb begin
    for (int unsigned i = 0; i < MacB; i++) begin
      head_word[8*i+:8] = head_q[8*(HeaderB-1-i)+:8];
    end
  end

  if (HoldB == 0) begin : gen_no_hold
    assign body = slice;
  end else begin : gen_hold
    logic [8*HoldB-1:0] hold_q, rest;
    always_comb begin
      for (int unsigned i = 0; i < HoldB; i++) begin
        rest[8*i+:8] = head_q[8*(HeaderB-1-MacB-i)+:8];
      end
    end
    always_ff @(posedge clk) begin
      if (beat) hold_q <= head_left_q == HeadW'(1) ? rest : slice[MAC_W-1-:8*HoldB];
    end
    assign body = {slice[MAC_W-8*HoldB-1:0], hold_q};
  end

  assign mac_tvalid = busy_q;
  assign mac_tdata = head_left_q != 0 ? head_word : body;
  assign mac_tlast = last_beat_q;
  always_comb begin
    for (int unsigned i = 0; i < MacB; i++) begin
      mac_tkeep[i] = 16'(i) < left_q;
    end
  end

  always_ff @(posedge clk) begin
    // Two register stages for the block RAM latency.
    if (fetch) ram_q <= mem[read_q[AddrW-1:0]];
    if (move) word_q <= ram_q;
  end

  always_ff @(posedge clk) begin
    if (frame_valid && frame_ready) begin
      busy_q         <= 1'b1;
      head_q         <= header_d;
      head_left_q    <= HeadW'(HeadWords);
      left_q         <= frame_bytes < 16'(MinimumB) ? 16'(MinimumB) : frame_bytes;
      payload_left_q <= frame.bytes;
      last_beat_q    <= 1'b0;
      slice_last_q   <= frame.bytes <= 16'(MacB);
    end
    if (beat) begin
      left_q      <= left_q - 16'(MacB);
      last_beat_q <= left_q <= 16'(2 * MacB);
      if (head_left_q != 0) begin
        head_left_q <= head_left_q - 1'b1;
        head_q      <= head_q << MAC_W;
      end
      if (last_beat_q) busy_q <= 1'b0;
    end
    if (take) begin
      slice_last_q   <= payload_left_q <= 16'(2 * MacB);
      payload_left_q <= slice_last_q ? '0 : payload_left_q - 16'(MacB);
      slice_q        <= word_end ? '0 : slice_q + 1'b1;
    end
    if (fetch) read_q <= read_q + 1'b1;
    if (fetch) ram_valid_q <= 1'b1;
    else if (move) ram_valid_q <= 1'b0;
    if (move) word_valid_q <= 1'b1;
    else if (word_end) word_valid_q <= 1'b0;
    if (rst) begin
      busy_q         <= 1'b0;
      head_left_q    <= '0;
      payload_left_q <= '0;
      left_q         <= '0;
      slice_q        <= '0;
      read_q         <= '0;
      ram_valid_q    <= 1'b0;
      word_valid_q   <= 1'b0;
    end
  end

endmodule
