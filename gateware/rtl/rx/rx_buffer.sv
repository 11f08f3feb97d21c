// SPDX-License-Identifier: SHL-2.1
// Packet buffer of rx_writer: APEnet+ packets, and one descriptor per datagram at its MGP header and at its
// end. With CLOCKS the packets arrive in another clock.
module rx_buffer
  import nanet_pkg::*;
#(
    // Depth in words of 128 bits; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // 1: packets arrive in `in_clk`. 0: in `clk`.
    parameter bit CLOCKS = 1'b0
) (
    input logic clk,
    input logic rst,

    /*
     * packets from nanet_controller, which monitors the level; with CLOCKS in the clock in_clk, and both
     * resets overlap for four cycles of the slower clock
     */
    input  logic                          in_clk,
    input  logic                          in_rst,
    input  apenet_req_t                   in_req,
    output logic [$clog2(BUFFER_WORDS):0] level,

    /*
     * words
     */
    output logic         data_valid,
    input  logic         data_ready,
    output apenet_kind_e data_kind,
    output logic [127:0] data,

    /*
     * descriptors of the oldest datagram
     */
    output logic      begun_valid,
    output rx_begun_t begun,
    output logic      ended_valid,
    output rx_ended_t ended,
    input  logic      release_datagram,

    // No word is buffered. With CLOCKS: none has arrived in `clk`.
    output logic empty
);

  localparam int unsigned LevelW = $clog2(BUFFER_WORDS) + 1;

  logic data_room, begun_room, ended_room, begins, ends;
  apenet_header_t in_header;
  apenet_footer_t in_footer;
  logic first_payload_q;
  logic [15:0] in_total_q;
  logic [31:0] in_stamp_q;
  rx_begun_t begun_in;
  rx_ended_t ended_in;

  assign in_header = in_req.data;
  assign in_footer = in_req.data;
  assign begins    = in_req.valid && in_req.kind == ApenetPayload && first_payload_q;
  assign ends      = in_req.valid && in_req.kind == ApenetFooter && in_footer.last;

  assign begun_in = '{stamp: in_stamp_q, total: in_total_q, header: in_req.data};
  assign ended_in = '{sound: in_footer.verdict == FrameUdp && in_footer.refusal == MgpNone,
                      refusal: in_footer.verdict == FrameUdp ? refusal_e'(in_footer.refusal) : MgpNone,
                      hits: in_footer.hits, stamp: in_footer.stamp};

  // A datagram takes at least three words, so half of the depth suffices for the descriptors.
  if (CLOCKS) begin : gen_clocks
    always_ff @(posedge in_clk) begin
      if (in_req.valid && in_req.kind == ApenetHeader) begin
        first_payload_q <= in_header.offset == 0;
        in_total_q      <= in_header.total;
        in_stamp_q      <= in_header.stamp;
      end
      if (in_req.valid && in_req.kind == ApenetPayload) first_payload_q <= 1'b0;
    end

    async_fifo #(
        .WIDTH(130),
        .DEPTH(BUFFER_WORDS)
    ) buffer (
        .wr_clk   (in_clk),
        .wr_rst   (in_rst),
        .in_valid (in_req.valid),
        .in_ready (data_room),
        .in_data  ({in_req.kind, in_req.data}),
        .rd_clk   (clk),
        .rd_rst   (rst),
        .out_valid(data_valid),
        .out_ready(data_ready),
        .out_data ({data_kind, data})
    );
    async_fifo #(
        .WIDTH($bits(rx_begun_t)),
        .DEPTH(BUFFER_WORDS / 2)
    ) begun_fifo (
        .wr_clk   (in_clk),
        .wr_rst   (in_rst),
        .in_valid (begins),
        .in_ready (begun_room),
        .in_data  (begun_in),
        .rd_clk   (clk),
        .rd_rst   (rst),
        .out_valid(begun_valid),
        .out_ready(release_datagram),
        .out_data (begun)
    );
    async_fifo #(
        .WIDTH($bits(rx_ended_t)),
        .DEPTH(BUFFER_WORDS / 2)
    ) ended_fifo (
        .wr_clk   (in_clk),
        .wr_rst   (in_rst),
        .in_valid (ends),
        .in_ready (ended_room),
        .in_data  (ended_in),
        .rd_clk   (clk),
        .rd_rst   (rst),
        .out_valid(ended_valid),
        .out_ready(release_datagram),
        .out_data (ended)
    );

    // Words taken from the buffer, as known in in_clk: the level is never too low.
    logic [LevelW-1:0] taken_q, taken, stored_q;
    always_ff @(posedge clk) begin
      taken_q <= taken_q + LevelW'(data_valid && data_ready);
      if (rst) taken_q <= '0;
    end
    always_ff @(posedge in_clk) begin
      stored_q <= stored_q + LevelW'(in_req.valid);
      if (in_rst) stored_q <= '0;
    end
    gray_crossing #(
        .WIDTH(LevelW)
    ) taken_crossing (
        .a_clk  (clk),
        .a_count(taken_q),
        .b_clk  (in_clk),
        .b_count(taken)
    );
    assign level = stored_q - taken;
    assign empty = 1'b1;

    logic unused;
    assign unused = &{1'b0, data_room, begun_room, ended_room, in_header, in_footer};
  end else begin : gen_clock
    logic [$clog2(BUFFER_WORDS/2):0] begun_level, ended_level;
    assign empty = level == 0;

    // Beside its twin of the other clock: a clock behind a wire would change one pass later in the C++ model.
    always_ff @(posedge clk) begin
      if (in_req.valid && in_req.kind == ApenetHeader) begin
        first_payload_q <= in_header.offset == 0;
        in_total_q      <= in_header.total;
        in_stamp_q      <= in_header.stamp;
      end
      if (in_req.valid && in_req.kind == ApenetPayload) first_payload_q <= 1'b0;
    end

    fifo #(
        .WIDTH(130),
        .DEPTH(BUFFER_WORDS)
    ) buffer (
        .clk,
        .rst,
        .in_valid (in_req.valid),
        .in_ready (data_room),
        .in_data  ({in_req.kind, in_req.data}),
        .out_valid(data_valid),
        .out_ready(data_ready),
        .out_data ({data_kind, data}),
        .level
    );
    fifo #(
        .WIDTH($bits(rx_begun_t)),
        .DEPTH(BUFFER_WORDS / 2)
    ) begun_fifo (
        .clk,
        .rst,
        .in_valid (begins),
        .in_ready (begun_room),
        .in_data  (begun_in),
        .out_valid(begun_valid),
        .out_ready(release_datagram),
        .out_data (begun),
        .level    (begun_level)
    );
    fifo #(
        .WIDTH($bits(rx_ended_t)),
        .DEPTH(BUFFER_WORDS / 2)
    ) ended_fifo (
        .clk,
        .rst,
        .in_valid (ends),
        .in_ready (ended_room),
        .in_data  (ended_in),
        .out_valid(ended_valid),
        .out_ready(release_datagram),
        .out_data (ended),
        .level    (ended_level)
    );

    logic unused;
    assign unused = &{1'b0, in_clk, in_rst, data_room, begun_room, ended_room, begun_level, ended_level,
                      in_header, in_footer};
  end

endmodule
