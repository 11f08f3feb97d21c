// SPDX-License-Identifier: SHL-2.1
// Payload extractor of udp_receive: strips headers and forwards words in cut-through. The last word waits
// for the verdict on its frame.
module udp_receive_payload
  import nanet_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * IP words; one extra cycle (tail) after the last
     */
    input logic        in_valid,
    input logic        in_tail,
    input logic        in_first,
    input logic [63:0] in_data,
    input logic        in_odd,    // the payload begins in the middle of a word

    /*
     * payload word completed by this word: first, with the accept decision; last; bytes
     */
    input logic       in_begin,
    input logic       in_take,
    input logic       in_end,
    input logic [3:0] in_bytes,
    input datagram_t  in_info,

    /*
     * verdict on the frame, before the next payload begins
     */
    input logic           verdict_valid,
    input frame_verdict_e verdict,

    /*
     * payloads, as in udp_receive
     */
    output payload_req_t out_req
);

  logic [31:0] upper_q;
  logic flowing_q, held_q, held_first_q;
  logic [63:0] held_data_q;
  logic [3:0] held_bytes_q;
  logic emit;
  logic [63:0] payload;
  datagram_t info_q, info;

  // After its first word a payload streams to its last word; before, header checks may still reject it.
  assign emit    = (in_valid || in_tail) && (in_begin ? in_take : flowing_q);
  assign payload = in_odd ? {in_data[31:0], upper_q} : in_data;
  assign info    = in_begin ? in_info : info_q;

  always_ff @(posedge clk) begin
    out_req.valid <= 1'b0;
    out_req.last  <= 1'b0;
    out_req.first <= 1'b0;
    if (in_valid) upper_q <= in_data[63:32];
    if (emit) begin
      info_q    <= info;
      flowing_q <= !in_end;
      if (in_end) begin
        held_q       <= 1'b1;
        held_first_q <= in_begin;
        held_data_q  <= payload;
        held_bytes_q <= in_bytes;
      end else begin
        out_req.valid <= 1'b1;
        out_req.first <= in_begin;
        out_req.data  <= payload;
        out_req.bytes <= 4'd8;
        out_req.info  <= info;
      end
    end else if (in_valid && in_first) begin
      flowing_q <= 1'b0;
    end
    if (verdict_valid && held_q) begin
      out_req.valid   <= 1'b1;
      out_req.last    <= 1'b1;
      out_req.first   <= held_first_q;
      out_req.data    <= held_data_q;
      out_req.bytes   <= held_bytes_q;
      out_req.info    <= info_q;
      out_req.verdict <= verdict;
      held_q      <= 1'b0;
    end
    if (rst) begin
      out_req.valid <= 1'b0;
      flowing_q <= 1'b0;
      held_q    <= 1'b0;
    end
  end

endmodule
