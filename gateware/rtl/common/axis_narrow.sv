// SPDX-License-Identifier: SHL-2.1
// AXI4-Stream width converter, 64 bits to 8, byte 0 first; the counterpart of axis_widen.
module axis_narrow #(
    // Width of the input in bits, a multiple of 8.
    parameter int unsigned DATA_W = 64
) (
    input logic clk,
    input logic rst,

    /*
     * from the card
     */
    input  logic                s_axis_tvalid,
    output logic                s_axis_tready,
    input  logic [DATA_W-1:0]   s_axis_tdata,
    input  logic [DATA_W/8-1:0] s_axis_tkeep,
    input  logic                s_axis_tlast,

    /*
     * to the MAC
     */
    output logic       m_axis_tvalid,
    input  logic       m_axis_tready,
    output logic [7:0] m_axis_tdata,
    output logic       m_axis_tlast
);

  localparam int unsigned Bytes = DATA_W / 8;
  localparam int unsigned LaneW = $clog2(Bytes);

  if (DATA_W < 16 || 8 * 2 ** LaneW != DATA_W) begin : gen_check_width
    $fatal(1, "DATA_W must be 8 times a power of two, at least 16 (%m)");
  end

  logic [LaneW-1:0] lane_q;
  logic word_end;  // last byte of the word

  assign word_end      = lane_q == '1 || !s_axis_tkeep[lane_q+1'b1];
  assign m_axis_tvalid = s_axis_tvalid;
  assign m_axis_tdata  = s_axis_tdata[8*lane_q+:8];
  assign m_axis_tlast  = s_axis_tlast && word_end;
  assign s_axis_tready = m_axis_tready && word_end;

  always_ff @(posedge clk) begin
    if (m_axis_tvalid && m_axis_tready) lane_q <= word_end ? '0 : lane_q + 1'b1;
    if (rst) lane_q <= '0;
  end

  logic unused;
  assign unused = s_axis_tkeep[0];

endmodule
