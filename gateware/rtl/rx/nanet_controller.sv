// SPDX-License-Identifier: SHL-2.1
// NaNet controller: splits datagram payloads into APEnet+ packets of 128-bit words: header, up to 4 KB of
// payload, footer with CRC. It takes one 64-bit word a cycle and two extra cycles per packet, three for
// the first. A datagram without room in the buffer behind is dropped whole.
module nanet_controller
  import nanet_pkg::*;
#(
    // Depth of the downstream buffer in words.
    parameter int unsigned BUFFER_WORDS = 1024
) (
    input logic clk,
    input logic rst,

    /*
     * configuration
     */
    input logic [31:0] now,  // card clock, low word

    /*
     * payloads, from mgp_check
     */
    input payload_req_t in_req,
    input refusal_e     in_refusal,
    input logic [15:0]  in_hits,

    /*
     * occupied words of the buffer
     */
    input logic [$clog2(BUFFER_WORDS):0] buffer_level,

    /*
     * APEnet+ packets; the sender guarantees room in the buffer
     */
    output logic         out_valid,
    output apenet_kind_e out_kind,
    output logic [127:0] out_data,

    /*
     * one pulse per dropped valid datagram
     */
    output logic overflow
);

  localparam int unsigned LevelW = $clog2(BUFFER_WORDS) + 1;
  localparam int unsigned InFlight = 6;  // words between the decision and buffer_level, with margin
  localparam logic [12:0] PacketWords = 13'(ApenetMaxPayload / 8);

  if (BUFFER_WORDS < 1024) begin : gen_check_buffer
    $fatal(1, "BUFFER_WORDS must hold the largest datagram, 1024 at least (%m)");
  end

  // ------------------------------------------------------------------ input queue

  typedef struct packed {
    frame_verdict_e verdict;
    refusal_e       refusal;
    logic [15:0]    hits;
    logic           first;
    logic           last;
    logic [3:0]     bytes;
    logic [63:0]    data;
  } input_t;

  input_t in_word, word;
  logic word_valid, word_ready, info_valid, info_ready, unused_ready, unused_info_ready;
  datagram_t info;
  logic [4:0] unused_level, unused_info_level;

  assign in_word = '{verdict: in_req.verdict, refusal: in_refusal, hits: in_hits, first: in_req.first,
                     last: in_req.last, bytes: in_req.bytes, data: in_req.data};

  fifo #(
      .WIDTH($bits(input_t)),
      .DEPTH(16)
  ) words (
      .clk,
      .rst,
      .in_valid (in_req.valid),
      .in_ready (unused_ready),
      .in_data  (in_word),
      .out_valid(word_valid),
      .out_ready(word_ready),
      .out_data (word),
      .level    (unused_level)
  );

  fifo #(
      .WIDTH($bits(datagram_t)),
      .DEPTH(16)
  ) infos (
      .clk,
      .rst,
      .in_valid (in_req.valid && in_req.first),
      .in_ready (unused_info_ready),
      .in_data  (in_req.info),
      .out_valid(info_valid),
      .out_ready(info_ready),
      .out_data (info),
      .level    (unused_info_level)
  );

  logic unused;
  assign unused = &{1'b0, unused_ready, unused_info_ready, unused_level, unused_info_level, word.first};

  // ------------------------------------------------------------------ header, payload, footer

  typedef enum logic [2:0] {
    StateBegin,
    StateHeader,
    StatePayload,
    StateFooter,
    StateDrop
  } state_e;

  state_e state_q;
  logic [15:0] offset_q;  // offset of the packet in the datagram
  logic [12:0] count_q;  // 64-bit words of the packet so far
  logic [15:0] number_q;
  logic [15:0] bytes_q;
  logic odd_q;
  logic [63:0] low_q;
  logic [LevelW-1:0] room_q;
  logic [16:0] need, need_q;
  logic fits;
  logic last_q;
  frame_verdict_e verdict_q;
  refusal_e refusal_q;
  logic [15:0] hits_q;
  apenet_header_t header;
  apenet_footer_t footer;
  logic packet_full;
  logic [63:0] masked;

  // Payload words, plus a header and a footer per started 4 KB.
  assign need = 17'(info.length[15:4]) + 17'd1 + {12'd0, info.length[15:12], 1'b0} + 17'd2;
  assign fits = need_q <= 17'(room_q);
  assign masked      = word.data & mask(word.bytes);
  assign packet_full = count_q == PacketWords - 1'b1;
  assign word_ready = state_q == StatePayload || state_q == StateDrop;
  assign info_ready = word_ready && word_valid && word.last;

  assign header = '{stamp: info.stamp, src_port: info.src_port, src_ip: info.src_ip, offset: offset_q,
                    total: info.length, filter: info.filter, version: ApenetVersion};
  assign footer = '{stamp: now, crc: '0, number: number_q, bytes: bytes_q, last: last_q, reserved: '0,
                    refusal: refusal_q, verdict: verdict_q, hits: hits_q};

  logic s0_valid_q, s0_first_q;
  apenet_kind_e s0_kind_q;
  logic [127:0] s0_data_q;

  always_ff @(posedge clk) begin
    s0_valid_q <= 1'b0;
    s0_first_q <= 1'b0;
    overflow   <= 1'b0;
    room_q     <= buffer_level > LevelW'(BUFFER_WORDS - InFlight) ? '0 :
                  LevelW'(BUFFER_WORDS - InFlight) - buffer_level;
    unique case (state_q)
      StateBegin: begin  // start of a datagram
        need_q <= need;
        if (info_valid) state_q <= StateHeader;
      end
      StateHeader: begin
        if (word_valid) begin
          state_q    <= offset_q == 0 && !fits ? StateDrop : StatePayload;
          s0_valid_q <= offset_q != 0 || fits;
        end
        s0_kind_q <= ApenetHeader;
        s0_data_q <= header;
        count_q   <= '0;
        bytes_q   <= '0;
        odd_q     <= 1'b0;
      end
      StatePayload: begin
        if (word_valid) begin
          odd_q      <= !odd_q;
          low_q      <= word.data;
          count_q    <= count_q + 1'b1;
          bytes_q    <= bytes_q + 16'(word.bytes);
          s0_valid_q <= odd_q || word.last;
          s0_first_q <= count_q[12:1] == 0;
          s0_kind_q  <= ApenetPayload;
          s0_data_q  <= odd_q ? {masked, low_q} : {64'd0, masked};
          last_q     <= word.last;
          verdict_q  <= word.verdict;
          refusal_q  <= word.refusal;
          hits_q     <= word.hits;
          if (word.last || packet_full) state_q <= StateFooter;
        end
      end
      StateFooter: begin
        s0_valid_q <= 1'b1;
        s0_kind_q  <= ApenetFooter;
        s0_data_q  <= footer;
        number_q   <= number_q + 1'b1;
        offset_q   <= last_q ? '0 : offset_q + 16'(ApenetMaxPayload);
        state_q    <= last_q ? StateBegin : StateHeader;
      end
      StateDrop: begin
        if (word_valid && word.last) begin
          overflow <= word.verdict == FrameUdp;
          state_q  <= StateBegin;
        end
      end
      default: state_q <= StateBegin;
    endcase
    if (rst) begin
      state_q    <= StateBegin;
      s0_valid_q <= 1'b0;
      overflow   <= 1'b0;
      offset_q   <= '0;
      number_q   <= '0;
    end
  end

  function automatic logic [63:0] mask(input logic [3:0] bytes);
    logic [63:0] m;
    for (int i = 0; i < 8; i++) m[8*i+:8] = {8{bytes > 4'(i)}};
    return m;
  endfunction

  // ------------------------------------------------------------------ CRC, two cycles later

  logic s1_valid_q;
  apenet_kind_e s1_kind_q;
  logic [127:0] s1_data_q;
  logic [31:0] crc;
  apenet_footer_t s1_footer;

  crc32_128 crc32 (
      .clk,
      .in_valid(s0_valid_q && s0_kind_q == ApenetPayload),
      .in_first(s0_first_q),
      .in_data (s0_data_q),
      .crc
  );

  always_comb begin
    s1_footer     = s1_data_q;
    s1_footer.crc = crc;
  end

  always_ff @(posedge clk) begin
    s1_valid_q <= s0_valid_q;
    s1_kind_q  <= s0_kind_q;
    s1_data_q  <= s0_data_q;
    out_valid  <= s1_valid_q;
    out_kind   <= s1_kind_q;
    out_data   <= s1_kind_q == ApenetFooter ? s1_footer : s1_data_q;
    if (rst) begin
      s1_valid_q <= 1'b0;
      out_valid  <= 1'b0;
    end
  end

endmodule
