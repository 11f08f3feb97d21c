// SPDX-License-Identifier: SHL-2.1
// AXI4-Stream multiplexer onto one MAC, by whole frames, round robin. A waiting stream is served after at
// most one frame of each other stream.
module axis_mux #(
    // Streams, 2 or more.
    parameter int unsigned PORTS = 2,
    // Width of a word in bits.
    parameter int unsigned DATA_W = 64
) (
    input logic clk,
    input logic rst,

    // Per stream: no new frame begins while set.
    input logic [PORTS-1:0] stop,
    // A frame is in progress or offered.
    output logic [PORTS-1:0] busy,

    /*
     * streams
     */
    input  logic [PORTS-1:0]               s_axis_tvalid,
    output logic [PORTS-1:0]               s_axis_tready,
    input  logic [PORTS-1:0][DATA_W-1:0]   s_axis_tdata,
    input  logic [PORTS-1:0][DATA_W/8-1:0] s_axis_tkeep,
    input  logic [PORTS-1:0]               s_axis_tlast,

    /*
     * to the MAC
     */
    output logic                m_axis_tvalid,
    input  logic                m_axis_tready,
    output logic [DATA_W-1:0]   m_axis_tdata,
    output logic [DATA_W/8-1:0] m_axis_tkeep,
    output logic                m_axis_tlast
);

  localparam int unsigned PortW = $clog2(PORTS);

  if (PORTS < 2) begin : gen_check_ports
    $fatal(1, "PORTS must be at least 2 (%m)");
  end

  logic held_q;
  logic [PortW-1:0] grant_q;

  // The grant is registered: a frame begins one cycle after its first word arrives.
  assign m_axis_tvalid = held_q && s_axis_tvalid[grant_q];
  assign m_axis_tdata  = s_axis_tdata[grant_q];
  assign m_axis_tkeep  = s_axis_tkeep[grant_q];
  assign m_axis_tlast  = s_axis_tlast[grant_q];
  always_comb begin
    s_axis_tready = '0;
    s_axis_tready[grant_q] = held_q && m_axis_tready;
    busy = '0;
    busy[grant_q] = held_q;
  end

  // Round robin: nearest stream after the one served last.
  logic [PORTS-1:0] escalates;
  logic [PortW-1:0] next;
  assign escalates = s_axis_tvalid & ~stop;
  always_comb begin
    next = grant_q;
    for (int unsigned i = PORTS; i > 0; i--) begin
      if (escalates[(32'(grant_q)+i)%PORTS]) next = PortW'((32'(grant_q) + i) % PORTS);
    end
  end

  always_ff @(posedge clk) begin
    if (held_q) begin
      if (m_axis_tvalid && m_axis_tready && m_axis_tlast) held_q <= 1'b0;
    end else begin
      held_q  <= escalates != '0;
      grant_q <= next;
    end
    if (rst) begin
      held_q  <= 1'b0;
      grant_q <= '0;
    end
  end

endmodule
