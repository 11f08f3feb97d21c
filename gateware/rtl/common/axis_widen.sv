// SPDX-License-Identifier: SHL-2.1
// AXI4-Stream width converter, 8 bits of a 1 GbE MAC to 64. It has no backpressure in either direction.
module axis_widen #(
    // Width of the output in bits.
    parameter int unsigned DATA_W = 64
) (
    input logic clk,
    input logic rst,

    /*
     * from the MAC
     */
    input logic       s_axis_rx_tvalid,
    input logic [7:0] s_axis_rx_tdata,
    input logic       s_axis_rx_tlast,
    input logic       s_axis_rx_tuser,

    /*
     * to the card
     */
    output logic                m_axis_rx_tvalid,
    output logic [DATA_W-1:0]   m_axis_rx_tdata,
    output logic [DATA_W/8-1:0] m_axis_rx_tkeep,
    output logic                m_axis_rx_tlast,
    output logic                m_axis_rx_tuser
);

  localparam int unsigned Bytes = DATA_W / 8;
  localparam int unsigned CountW = $clog2(Bytes);

  if (DATA_W < 16 || 8 * 2 ** CountW != DATA_W) begin : gen_check_width
    $fatal(1, "DATA_W must be 8 times a power of two, at least 16 (%m)");
  end

  logic [CountW-1:0] count_q;
  logic [DATA_W-1:0] data_q, data;
  logic [Bytes-1:0] keep_q, keep;

  always_comb begin
    data = count_q == 0 ? '0 : data_q;
    keep = count_q == 0 ? '0 : keep_q;
    data[8*count_q+:8] = s_axis_rx_tdata;
    keep[count_q] = 1'b1;
  end

  always_ff @(posedge clk) begin
    m_axis_rx_tvalid <= 1'b0;
    if (s_axis_rx_tvalid) begin
      data_q           <= data;
      keep_q           <= keep;
      count_q          <= s_axis_rx_tlast ? '0 : count_q + 1'b1;
      m_axis_rx_tvalid <= s_axis_rx_tlast || count_q == '1;
      m_axis_rx_tdata  <= data;
      m_axis_rx_tkeep  <= keep;
      m_axis_rx_tlast  <= s_axis_rx_tlast;
      m_axis_rx_tuser  <= s_axis_rx_tuser && s_axis_rx_tlast;
    end
    if (rst) begin
      m_axis_rx_tvalid <= 1'b0;
      count_q          <= '0;
    end
  end

endmodule
