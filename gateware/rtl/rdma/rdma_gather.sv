// SPDX-License-Identifier: SHL-2.1
// Payload of packets: translates and reads up to two pages per packet, or takes inline payload, and packs the
// bytes into words from bit 0. Reads are issued only with room for their data.
module rdma_gather
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import rdma_pkg::*;
#(
    // Words of the read buffer; a power of two, at least 512.
    parameter int unsigned DEPTH = 512
) (
    input logic clk,
    input logic rst,

    /*
     * packets; `done` once all pages are translated, or one is not; the inline word `in_ring_index`
     */
    input  gather_req_t  gather_req,
    output gather_rsp_t  gather_rsp,
    output logic [  3:0] in_ring_index,
    input  logic [127:0] in_ring_word,
    output logic         busy,

    /*
     * translation
     */
    output tlb_req_t tlb_req,
    input  tlb_rsp_t tlb_rsp,

    /*
     * DMA read
     */
    output dma_rd_req_t  rd_req,
    output logic         rd_data_ready,
    input  dma_rd_rsp_t  rd_rsp,
    input  logic [127:0] rd_data,

    /*
     * payload words; `bad` with the last word of a packet that could not be read
     */
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_data,
    output logic         out_last,
    output logic         out_bad
);

  localparam int unsigned LevelW = $clog2(DEPTH) + 1;
  localparam int unsigned Longest = 257;  // words of a page, from any byte

  if (DEPTH < 512) begin : gen_check_depth
    $fatal(1, "rdma_gather: DEPTH must be at least 512");
  end

  typedef struct packed {
    logic [3:0]  start;  // first byte in the first word
    logic [12:0] bytes;
    logic [9:0]  words;
    logic        last;   // of the packet
  } piece_t;

  // ---------------------------------------------------------------- requests

  typedef enum logic [3:0] {
    StateIdle,
    StateTranslate,
    StateTranslated,
    StateDone,
    StateFail,
    StateRoom,
    StateRead,
    StateInline,
    StateWords
  } state_e;
  state_e state_q;
  gather_req_t request_q;
  logic second_q, two_q;           // which page; two pages
  logic [12:0] first_bytes;
  logic [12:0] piece_bytes_q;
  logic [1:0][63:0] paddr_q;
  logic [1:0] skip;
  logic [9:0] piece_words, words_left_q;
  logic [3:0] index_q;
  logic [LevelW:0] reserved_q;
  logic [5:0] reads_q;             // without their last word
  logic inline_q;                  // in StateWords; a register, as it selects whole words
  logic room_q, pop, push, piece_ready, piece_valid, piece_taken, piece_ends;
  logic [3:0] unused_piece_level;
  piece_t piece_in, piece;
  logic [12:0] start_bytes;

  assign first_bytes = 13'd4096 - {1'b0, request_q.address[11:0]};
  assign skip        = request_q.in_ring || second_q ? 2'd0 : request_q.address[1:0];
  assign start_bytes = request_q.in_ring ? {9'd0, request_q.address[3:0]} : {11'd0, skip};
  assign piece_words = 10'((piece_bytes_q + start_bytes + 13'd15) >> 4);

  assign gather_rsp = '{done: state_q == StateDone || state_q == StateFail, ok: state_q == StateDone};
  assign tlb_req    = '{
          valid: state_q == StateTranslate,
          vaddr: {
            request_q.domain,
            second_q ? request_q.address[47:12] + 36'd1 : request_q.address[47:12],
            second_q ? 12'd0 : request_q.address[11:0]
          }
      };
  assign rd_req     = '{
          valid: state_q == StateRead,
          cmd: '{
              addr: {paddr_q[second_q][63:2], 2'b00},
              len: 16'(piece_bytes_q) + 16'(skip),
              tag: '0
          }
      };
  assign rd_data_ready = 1'b1;
  assign busy          = state_q != StateIdle;
  assign in_ring_index = index_q;
  assign push          = rd_rsp.data_valid || inline_q;
  assign piece_in      = '{
          start: start_bytes[3:0],
          bytes: piece_bytes_q,
          words: words_left_q,
          last: request_q.in_ring || second_q || !two_q
      };

  always_ff @(posedge clk) begin
    room_q <= 32'(reserved_q) <= DEPTH - Longest && piece_ready;
    unique case (state_q)
      StateIdle: begin
        request_q <= gather_req;
        second_q  <= 1'b0;
        index_q   <= gather_req.address[7:4];
        if (gather_req.valid) state_q <= gather_req.in_ring ? StateDone : StateTranslate;
      end
      StateTranslate: begin
        two_q <= request_q.bytes > first_bytes;
        if (tlb_rsp.ready) state_q <= StateTranslated;
      end
      StateTranslated: begin
        paddr_q[second_q] <= tlb_rsp.resp_paddr;
        if (tlb_rsp.resp_valid) begin
          second_q <= 1'b1;
          if (!tlb_rsp.resp_ok) state_q <= StateFail;
          else state_q <= two_q && !second_q ? StateTranslate : StateDone;
        end
      end
      StateDone: begin
        second_q      <= 1'b0;
        piece_bytes_q <= !request_q.in_ring && two_q ? first_bytes : request_q.bytes;
        state_q       <= StateRoom;
      end
      StateFail: state_q <= StateIdle;
      // Room follows the read before by two cycles; its words are known one cycle later.
      StateRoom: begin
        words_left_q <= piece_words;
        if (room_q) state_q <= request_q.in_ring ? StateInline : StateRead;
      end
      StateRead: begin
        if (rd_rsp.ready) begin
          second_q      <= 1'b1;
          piece_bytes_q <= request_q.bytes - piece_bytes_q;
          room_q        <= 1'b0;
          state_q       <= two_q && !second_q ? StateRoom : StateIdle;
        end
      end
      // Inline words follow the data of all reads.
      StateInline:
      if (reads_q == 0) begin
        inline_q <= 1'b1;
        state_q  <= StateWords;
      end
      StateWords: begin
        index_q      <= index_q + 4'd1;
        words_left_q <= words_left_q - 10'd1;
        if (words_left_q == 10'd1) begin
          inline_q <= 1'b0;
          state_q  <= StateIdle;
        end
      end
      default: state_q <= StateIdle;
    endcase
    if (rst) begin
      state_q  <= StateIdle;
      inline_q <= 1'b0;
      room_q   <= 1'b0;
    end
  end

  logic asked;
  assign asked       = state_q == StateRead && rd_rsp.ready;
  assign piece_taken = asked || (state_q == StateInline && reads_q == 0);

  always_ff @(posedge clk) begin
    reads_q    <= reads_q + 6'(asked) - 6'(rd_rsp.data_valid && rd_rsp.data_last);
    reserved_q <= reserved_q + (piece_taken ? (LevelW + 1)'(words_left_q) : '0) - (LevelW + 1)'(pop);
    if (rst) begin
      reads_q    <= '0;
      reserved_q <= '0;
    end
  end

  fifo #(
      .WIDTH($bits(piece_t)),
      .DEPTH(8),
      .CHOOSE(1'b1)
  ) pieces (
      .clk,
      .rst,
      .in_valid (piece_taken),
      .in_ready (piece_ready),
      .in_data  (piece_in),
      .out_valid(piece_valid),
      .out_ready(pop && piece_ends),
      .out_data (piece),
      .level    (unused_piece_level)
  );

  logic word_valid, word_bad, unused_word_room;
  logic [127:0] word;
  logic [$clog2(DEPTH):0] unused_word_level;
  fifo #(
      .WIDTH(129),
      .DEPTH(DEPTH),
      .CHOOSE(1'b1)
  ) words (
      .clk,
      .rst,
      .in_valid (push),
      .in_ready (unused_word_room),
      .in_data  (inline_q ? {1'b0, in_ring_word} :
                 {rd_rsp.data_last && rd_rsp.data_error, rd_data}),
      .out_valid(word_valid),
      .out_ready(pop),
      .out_data ({word_bad, word}),
      .level    (unused_word_level)
  );

  // ---------------------------------------------------------------- packing

  logic go, step, begun_q, flush_q;
  logic [3:0] start, fill_q;
  logic [4:0] room, count;
  logic [12:0] left, left_q, left_next;
  logic [9:0] ahead, ahead_q;   // words of the piece, with this one
  logic single_q;               // the piece ends in the next word
  logic s1_valid_q, s1_last_q, s1_bad_q, s2_valid_q, s2_last_q, s2_bad_q, bad_q;
  logic [127:0] s1_data_q, s2_data_q, rotated, low, high, held_q;
  logic [3:0] s1_fill_q, s1_turn_q, s2_fill_q, from;
  logic [4:0] s1_count_q;
  logic [5:0] total_q;          // bytes up to those of stage 2
  logic whole_q, beyond_q;      // they fill a word; they exceed it

  assign go         = !out_valid || out_ready;
  assign step       = go && !flush_q;
  assign start      = begun_q ? 4'd0 : piece.start;
  assign left       = begun_q ? left_q : piece.bytes;
  assign room       = 5'd16 - {1'b0, start};
  assign left_next  = left - 13'(room);  // unless the piece ends
  assign ahead      = begun_q ? ahead_q : piece.words;
  assign piece_ends = begun_q ? single_q : piece.words == 10'd1;
  assign count      = piece_ends ? left[4:0] : room;
  assign pop        = step && word_valid && piece_valid;

  always_comb begin
    for (int i = 0; i < 16; i++) begin
      from = 4'(i) - s1_turn_q;
      rotated[8*i+:8] = s1_data_q[{from, 3'd0}+:8];
      low[8*i+:8]  = s2_data_q[8*i+:8] & {8{6'(i) >= 6'(s2_fill_q) && 6'(i) < total_q}};
      high[8*i+:8] = s2_data_q[8*i+:8] & {8{6'(i) + 6'd16 < total_q}};
    end
  end

  always_ff @(posedge clk) begin
    if (step) begin
      s1_valid_q <= pop;
      s1_data_q  <= word;
      s1_last_q  <= piece_ends && piece.last;
      s1_bad_q   <= word_bad;
      s1_turn_q  <= fill_q - start;  // bytes to rotate up
      s1_fill_q  <= fill_q;
      s1_count_q <= count;
      s2_valid_q <= s1_valid_q;
      s2_data_q  <= rotated;
      s2_last_q  <= s1_last_q;
      s2_bad_q   <= s1_bad_q;
      s2_fill_q  <= s1_fill_q;
      total_q    <= 6'(s1_fill_q) + 6'(s1_count_q);
      whole_q    <= 6'(s1_fill_q) + 6'(s1_count_q) >= 6'd16;
      beyond_q   <= 6'(s1_fill_q) + 6'(s1_count_q) > 6'd16;
    end
    if (pop) begin
      begun_q <= !piece_ends;
      left_q  <= left_next;
      ahead_q  <= ahead - 10'd1;
      single_q <= ahead == 10'd2;
      fill_q  <= piece_ends && piece.last ? '0 : fill_q + 4'(count);
    end
    if (go) begin
      out_valid <= 1'b0;
      flush_q   <= 1'b0;
      if (flush_q) begin
        out_valid <= 1'b1;
        out_data  <= held_q;
        out_last  <= 1'b1;
        out_bad   <= bad_q;
        held_q    <= '0;
        bad_q     <= 1'b0;
      end else if (s2_valid_q) begin
        out_valid <= whole_q || s2_last_q;
        out_data  <= held_q | low;
        out_last  <= s2_last_q && !beyond_q;
        out_bad   <= s2_last_q && !beyond_q && (bad_q || s2_bad_q);
        flush_q   <= s2_last_q && beyond_q;
        held_q    <= s2_last_q && !beyond_q ? '0 : whole_q ? high : held_q | low;
        bad_q     <= s2_last_q && !beyond_q ? 1'b0 : bad_q || s2_bad_q;
      end
    end
    if (rst) begin
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      begun_q    <= 1'b0;
      fill_q     <= '0;
      out_valid  <= 1'b0;
      flush_q    <= 1'b0;
      held_q     <= '0;
      bad_q      <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, request_q.valid, gather_req.address[47:8], rd_rsp.data_tag, 1'b0};

endmodule
