// SPDX-License-Identifier: SHL-2.1
// Network interface of one channel: buffers APEnet+ packets, requests a place from `clop`, and writes the
// payload by DMA in pieces within 256 B boundaries. A piece leaves once it is complete. A bad datagram is
// not committed, and its place is reused.
module rx_writer
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Buffer depth in words of 128 bits; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // Width of the DMA data in bits.
    parameter int unsigned DATA_W = 256,
    // 1: packets arrive in `in_clk`. 0: in `clk`.
    parameter bit CLOCKS = 1'b0
) (
    input logic clk,
    input logic rst,

    input logic [31:0] now,  // card clock, low word

    /*
     * APEnet+ packets from nanet_controller, which monitors the level; with CLOCKS in the clock in_clk, and
     * in_rst and in_clear are the resets of the buffer's two sides
     */
    input  logic                          in_clk,
    input  logic                          in_rst,
    input  logic                          in_clear,
    input  logic                          in_valid,
    input  apenet_kind_e                  in_kind,
    input  logic [127:0]                  in_data,
    output logic [$clog2(BUFFER_WORDS):0] level,

    /*
     * placement
     */
    output logic           place_valid,
    input  logic           place_ready,
    output place_request_t place,
    input  logic           placed_valid,
    input  placed_rsp_t    placed_rsp,

    /*
     * one pulse per refused packet
     */
    output logic     refused,
    output refusal_e refusal,

    /*
     * number of completely written or dropped packets of this channel, modulo 256
     */
    output serial_t done_serial,
    output logic    idle,         // no packet data pending

    /*
     * translation
     */
    output tlb_req_t tlb_req,
    input  tlb_rsp_t tlb_rsp,

    /*
     * DMA write
     */
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,

    /*
     * one pulse per piece not written for lack of a translation
     */
    output logic untranslated,

    /*
     * timestamps of each used packet
     */
    output logic     profile_valid,
    output profile_t profile
);

  // Packets up to this size use a single request. Longer packets would have too much left to write at their
  // end; shorter packets arrive too fast for two requests.
  localparam int unsigned ShortBytes = 80;

  if (DATA_W != 256) begin : gen_check_width
    $fatal(1, "DATA_W must be 256: two words of 128 bits make one (%m)");
  end

  // ------------------------------------------------------------------ packet buffer and its descriptors

  logic data_valid, data_ready, begun_valid, ended_valid, ended_ready, buffer_empty;
  apenet_kind_e data_kind;
  logic [127:0] data;
  apenet_footer_t data_footer;
  rx_begun_t begun;
  rx_ended_t ended;

  assign data_footer = data;

  rx_buffer #(
      .BUFFER_WORDS(BUFFER_WORDS),
      .CLOCKS      (CLOCKS)
  ) packets (
      .clk,
      .rst             (CLOCKS ? in_clear : rst),
      .in_clk,
      .in_rst,
      .in_req          ('{valid: in_valid, kind: in_kind, data: in_data}),
      .level,
      .data_valid,
      .data_ready,
      .data_kind,
      .data,
      .begun_valid,
      .begun,
      .ended_valid,
      .ended,
      .release_datagram(ended_ready),
      .empty           (buffer_empty)
  );

  // ------------------------------------------------------------------ placement requests

  typedef enum logic [2:0] {
    RequestIdle,
    RequestLook,
    RequestLooking,
    RequestEnd,
    RequestDrop,  // the verdict comes late in the cycle, from block RAM
    RequestCommit,
    RequestCommitting
  } request_e;

  typedef struct packed {
    logic        accept;
    logic [15:0] length;
    logic [63:0] vaddr;
  } order_t;

  request_e request_q;
  logic looked_q, accepted_q;
  serial_t serial_q;
  logic order_valid_q, order_ready;
  order_t order_q;
  logic short_packet;

  assign short_packet = begun.total <= 16'(ShortBytes);
  assign place_valid  = request_q == RequestLook || request_q == RequestCommit;
  assign place        = '{kind: request_q == RequestLook || request_q == RequestLooking ? PlaceLook :
                                looked_q ? PlaceCommit : PlaceBoth,
                          sound: ended.sound, placed: accepted_q, serial: serial_q, hits: ended.hits,
                          stamp: begun.stamp, header: begun.header};
  // The datagram is released in the same cycle, since the next one may already be waiting.
  assign ended_ready  = (request_q == RequestCommitting && placed_valid) || request_q == RequestDrop;

  always_ff @(posedge clk) begin
    refused     <= 1'b0;
    if (order_ready) order_valid_q <= 1'b0;
    unique case (request_q)
      RequestIdle: begin
        looked_q <= 1'b0;
        if (begun_valid && !order_valid_q) begin
          // No separate look for a complete packet.
          if (!short_packet && !ended_valid) request_q <= RequestLook;
          else request_q <= ended_valid && ended.sound ? RequestCommit : RequestEnd;
        end
      end
      RequestLook: if (place_ready) request_q <= RequestLooking;
      RequestLooking: begin
        if (placed_valid) begin
          looked_q      <= !placed_rsp.defer;
          accepted_q    <= placed_rsp.accept && begun.header.length >= 16'd16;
          order_valid_q <= !placed_rsp.defer;
          order_q       <= '{accept: placed_rsp.accept && begun.header.length >= 16'd16,
                             length: begun.header.length, vaddr: placed_rsp.vaddr};
          request_q     <= RequestEnd;
        end
      end
      RequestEnd: begin
        if (ended_valid) begin
          refused   <= !ended.sound && ended.refusal != MgpNone;
          refusal   <= ended.refusal;
          request_q <= ended.sound || looked_q ? RequestCommit : RequestDrop;
        end
      end
      RequestDrop: begin
        order_valid_q  <= 1'b1;
        order_q.accept <= 1'b0;
        serial_q       <= serial_q + 1'b1;
        request_q      <= RequestIdle;
      end
      RequestCommit: if (place_ready) request_q <= RequestCommitting;
      RequestCommitting: begin
        if (placed_valid) begin
          if (!looked_q) begin
            order_valid_q <= 1'b1;
            order_q       <= '{
                accept: placed_rsp.accept, length: begun.header.length, vaddr: placed_rsp.vaddr
            };
          end
          serial_q  <= serial_q + 1'b1;
          request_q <= RequestIdle;
        end
      end
      default: request_q <= RequestIdle;
    endcase
    if (rst) begin
      request_q     <= RequestIdle;
      order_valid_q <= 1'b0;
      refused       <= 1'b0;
      serial_q      <= '0;
    end
  end

  // ------------------------------------------------------------------ division into pieces

  typedef struct packed {
    logic        empty;  // no data to write
    logic        last;   // last piece of its datagram
    logic [8:0]  length;
    logic [63:0] vaddr;
  } piece_t;

  typedef enum logic [1:0] {
    CutIdle,
    CutWords,
    CutRest
  } cut_e;

  cut_e cut_q;
  logic [63:0] vaddr_q;
  logic [15:0] left_q;  // remaining bytes of the datagram
  logic [8:0] piece_q;  // bytes of the current piece
  logic high_q;  // the upper half of a word is next
  logic [127:0] low_q;
  logic store_valid, store_room_q;
  logic [3:0] unused_piece_level;
  logic piece_in_valid, piece_in_ready, piece_valid, piece_ready;
  piece_t piece_in, piece;
  logic [255:0] store_data, words_data;
  logic words_valid, words_ready;
  logic [5:0] words_level;
  logic ends_datagram;  // the next payload word is the last; registered because of its fan-out
  logic ends_piece, last_footer, payload_word;
  logic [4:0] word_bytes;

  assign payload_word  = data_valid && data_kind == ApenetPayload;
  assign last_footer   = data_valid && data_kind == ApenetFooter && data_footer.last;
  assign ends_piece    = ends_datagram || vaddr_q[7:4] == '1;  // at a 256 B boundary
  assign word_bytes    = ends_datagram ? left_q[4:0] : 5'd16;

  logic can_store;
  assign can_store = store_room_q && piece_in_ready;
  // A footer may also end a piece.
  assign data_ready = cut_q == CutRest || (cut_q == CutWords && can_store);

  // Words of a piece: stored when both halves are present or the piece ends.
  assign store_valid = cut_q == CutWords &&
                       (payload_word && can_store && (high_q || ends_piece) ||
                        last_footer && can_store && high_q);
  assign store_data  = high_q ? {data, low_q} : {128'd0, data};

  always_comb begin
    piece_in_valid = 1'b0;
    piece_in = '{empty: 1'b0, last: ends_datagram, length: piece_q + 9'(word_bytes),
                 vaddr: vaddr_q - 64'(piece_q)};
    if (cut_q == CutWords && payload_word && can_store && ends_piece) piece_in_valid = 1'b1;
    // Truncated packet: the stored part of the piece is written to a place that is never committed.
    if (cut_q == CutWords && last_footer && can_store) begin
      piece_in_valid  = 1'b1;
      piece_in.empty  = piece_q == 0;
      piece_in.last   = 1'b1;
      piece_in.length = piece_q;
    end
    if (cut_q == CutIdle && order_valid_q && !order_q.accept && piece_in_ready) begin
      piece_in_valid = 1'b1;
      piece_in.empty = 1'b1;
      piece_in.last  = 1'b1;
    end
  end

  assign order_ready = cut_q == CutIdle && order_valid_q && piece_in_ready;


  always_ff @(posedge clk) begin
    store_room_q <= words_level < 6'd28;
    unique case (cut_q)
      CutIdle: begin
        high_q        <= 1'b0;
        piece_q       <= '0;
        vaddr_q       <= order_q.vaddr;
        left_q        <= order_q.length;
        ends_datagram <= order_q.length <= 16'd16;
        if (order_ready) cut_q <= order_q.accept ? CutWords : CutRest;
      end
      CutWords: begin
        if (payload_word && can_store) begin
          low_q         <= data;
          high_q        <= !high_q && !ends_piece;
          vaddr_q       <= vaddr_q + 64'd16;
          left_q        <= left_q - 16'd16;
          ends_datagram <= left_q <= 16'd32;
          piece_q       <= ends_piece ? '0 : piece_q + 9'd16;
          if (ends_datagram) cut_q <= CutRest;
        end
        if (last_footer && can_store) cut_q <= CutIdle;
      end
      CutRest: if (last_footer) cut_q <= CutIdle;
      default: cut_q <= CutIdle;
    endcase
    if (rst) cut_q <= CutIdle;
  end

  logic unused_words_room;
  fifo #(
      .WIDTH(256),
      .DEPTH(32)
  ) words (
      .clk,
      .rst,
      .in_valid (store_valid),
      .in_ready (unused_words_room),
      .in_data  (store_data),
      .out_valid(words_valid),
      .out_ready(words_ready),
      .out_data (words_data),
      .level    (words_level)
  );
  fifo #(
      .WIDTH($bits(piece_t)),
      .DEPTH(8)
  ) pieces (
      .clk,
      .rst,
      .in_valid (piece_in_valid),
      .in_ready (piece_in_ready),
      .in_data  (piece_in),
      .out_valid(piece_valid),
      .out_ready(piece_ready),
      .out_data (piece),
      .level    (unused_piece_level)
  );

  // ------------------------------------------------------------------ translation and writes

  typedef enum logic [2:0] {
    WriteIdle,
    WriteTranslate,
    WriteTranslated,
    WriteWords,
    WriteDrop
  } write_e;

  write_e write_q;
  logic [63:0] paddr_q;
  logic [3:0] beats_q;
  logic track_in_valid, track_in_ready, track_valid, track_ready, track_empty, track_last;
  logic [5:0] unused_track_level;
  logic [3:0] beats;

  assign beats          = 4'((piece.length + 9'd31) >> 5);
  assign tlb_req.valid      = write_q == WriteTranslate;
  assign tlb_req.vaddr      = piece.vaddr;
  assign wr_req.valid       = write_q == WriteWords && words_valid;
  assign wr_req.cmd         = '{addr: paddr_q, len: 16'(piece.length), tag: '0};
  assign wr_data        = words_data;
  assign wr_req.last        = beats_q == 4'd1;
  assign words_ready    = write_q == WriteWords ? wr_rsp.ready : write_q == WriteDrop;
  assign piece_ready    = (write_q == WriteIdle && piece_valid && piece.empty && track_in_ready) ||
                          (write_q == WriteWords && words_valid && wr_rsp.ready && wr_req.last) ||
                          (write_q == WriteDrop && words_valid && beats_q == 4'd1 && track_in_ready);
  assign track_in_valid = (write_q == WriteIdle && piece_valid && piece.empty) ||
                          (write_q == WriteWords && words_valid && wr_rsp.ready && wr_req.last) ||
                          (write_q == WriteDrop && words_valid && beats_q == 4'd1);

  always_ff @(posedge clk) begin
    untranslated <= 1'b0;
    unique case (write_q)
      WriteIdle: if (piece_valid && !piece.empty && track_in_ready) write_q <= WriteTranslate;
      WriteTranslate: if (tlb_rsp.ready) write_q <= WriteTranslated;
      WriteTranslated: begin
        paddr_q <= tlb_rsp.resp_paddr;
        beats_q <= beats;
        if (tlb_rsp.resp_valid) begin
          write_q      <= tlb_rsp.resp_ok ? WriteWords : WriteDrop;
          untranslated <= !tlb_rsp.resp_ok;
        end
      end
      WriteWords: begin
        if (words_valid && wr_rsp.ready) begin
          beats_q <= beats_q - 1'b1;
          if (wr_req.last) write_q <= WriteIdle;
        end
      end
      WriteDrop: begin
        if (words_valid && track_in_ready) begin
          beats_q <= beats_q - 1'b1;
          if (beats_q == 4'd1) write_q <= WriteIdle;
        end
      end
      default: write_q <= WriteIdle;
    endcase
    if (rst) begin
      write_q      <= WriteIdle;
      untranslated <= 1'b0;
    end
  end

  // Pieces in start order; the writes of one master complete in the same order.
  fifo #(
      .WIDTH(2),
      .DEPTH(32)
  ) track (
      .clk,
      .rst,
      .in_valid (track_in_valid),
      .in_ready (track_in_ready),
      .in_data  ({piece.empty || write_q == WriteDrop, piece.last}),
      .out_valid(track_valid),
      .out_ready(track_ready),
      .out_data ({track_empty, track_last}),
      .level    (unused_track_level)
  );

  logic [5:0] arrived_q;  // completed writes not yet removed from `track`
  logic take_arrived;
  assign track_ready  = track_empty || arrived_q != 0;
  assign take_arrived = track_valid && !track_empty && arrived_q != 0;

  always_ff @(posedge clk) begin
    arrived_q <= arrived_q + 6'(wr_rsp.done_valid) - 6'(take_arrived);
    if (track_valid && track_ready && track_last) done_serial <= done_serial + 1'b1;
    if (rst) begin
      arrived_q   <= '0;
      done_serial <= '0;
    end
  end

  // ------------------------------------------------------------------ profile

  typedef struct packed {
    logic        used;
    logic [31:0] placed;
    logic [31:0] controller;
    logic [31:0] start;
  } way_t;

  // One entry per datagram between the decision and the last write: more than `pieces` and `track` hold.
  way_t way_in, way;
  logic way_valid, unused_way_room;
  logic [6:0] unused_way_level;
  logic [31:0] look_stamp_q;

  always_ff @(posedge clk) if (request_q == RequestLooking) look_stamp_q <= now;
  assign way_in = '{used: request_q == RequestCommitting && placed_rsp.accept,
                    placed: looked_q ? look_stamp_q : now, controller: ended.stamp, start: begun.stamp};

  // A packet's decision follows its end; its last write may already be complete, so the entry has no delay.
  logic [7:0] finished_count_q;
  logic finished, finish;
  assign finish = track_valid && track_ready && track_last;
  assign finished = way_valid && finished_count_q != 0;

  fifo #(
      .WIDTH($bits(way_t)),
      .DEPTH(64)
  ) ways (
      .clk,
      .rst,
      .in_valid (ended_ready),
      .in_ready (unused_way_room),
      .in_data  (way_in),
      .out_valid(way_valid),
      .out_ready(finished),
      .out_data (way),
      .level    (unused_way_level)
  );

  always_ff @(posedge clk) begin
    finished_count_q <= finished_count_q + 8'(finish) - 8'(finished);
    profile_valid    <= finished && way.used;
    profile          <= '{written: now, placed: way.placed, controller: way.controller, start: way.start};
    if (rst) begin
      finished_count_q <= '0;
      profile_valid    <= 1'b0;
    end
  end

  always_ff @(posedge clk) idle <= buffer_empty && !data_valid && !begun_valid && serial_q == done_serial;

  logic unused;
  assign unused = &{1'b0, unused_way_room, unused_way_level, unused_piece_level, unused_words_room,
                    unused_track_level, data_footer, in_clear};

  logic unused_wr_rsp;
  assign unused_wr_rsp = &{1'b0, wr_rsp.done_tag, wr_rsp.done_error};

endmodule
