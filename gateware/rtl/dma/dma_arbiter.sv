// SPDX-License-Identifier: SHL-2.1
// DMA arbiter, several masters onto one interface (doc/dma.md). Round robin by request; a write keeps its
// grant to its last word. The upper tag bits hold the port and route completions and read data.
module dma_arbiter
  import nanet_dma_pkg::*;
#(
    // Masters, 2 or more.
    parameter int unsigned PORTS = 2,
    // Width of a data word in bits.
    parameter int unsigned DATA_W = 128
) (
    input logic clk,
    input logic rst,

    /*
     * masters: write
     */
    input  logic [PORTS-1:0]             m_wr_valid,
    output logic [PORTS-1:0]             m_wr_ready,
    input  dma_cmd_t [PORTS-1:0]         m_wr_cmd,
    input  logic [PORTS-1:0][DATA_W-1:0] m_wr_data,
    input  logic [PORTS-1:0]             m_wr_last,
    output logic [PORTS-1:0]             m_wr_done_valid,
    output logic [PORTS-1:0][7:0]        m_wr_done_tag,
    output logic [PORTS-1:0]             m_wr_done_error,

    /*
     * masters: read
     */
    input  logic [PORTS-1:0]             m_rd_valid,
    output logic [PORTS-1:0]             m_rd_ready,
    input  dma_cmd_t [PORTS-1:0]         m_rd_cmd,
    output logic [PORTS-1:0]             m_rd_data_valid,
    input  logic [PORTS-1:0]             m_rd_data_ready,
    output logic [PORTS-1:0][DATA_W-1:0] m_rd_data,
    output logic [PORTS-1:0][7:0]        m_rd_data_tag,
    output logic [PORTS-1:0]             m_rd_data_last,
    output logic [PORTS-1:0]             m_rd_data_error,

    /*
     * memory: write
     */
    output logic              wr_valid,
    input  logic              wr_ready,
    output dma_cmd_t          wr_cmd,
    output logic [DATA_W-1:0] wr_data,
    output logic              wr_last,
    input  logic              wr_done_valid,
    input  logic [7:0]        wr_done_tag,
    input  logic              wr_done_error,

    /*
     * memory: read
     */
    output logic              rd_valid,
    input  logic              rd_ready,
    output dma_cmd_t          rd_cmd,
    input  logic              rd_data_valid,
    output logic              rd_data_ready,
    input  logic [DATA_W-1:0] rd_data,
    input  logic [7:0]        rd_data_tag,
    input  logic              rd_data_last,
    input  logic              rd_data_error
);

  localparam int unsigned PortW = $clog2(PORTS);
  localparam int unsigned TagW = 8 - PortW;

  if (PORTS < 2 || PORTS > 16) begin : gen_check_ports
    $fatal(1, "PORTS must be 2 to 16 (%m)");
  end

  // First requesting port at or after `from`; `from` if none requests.
  function automatic logic [PortW-1:0] pick(input logic [PORTS-1:0] requests, input logic [PortW-1:0] from);
    logic found_above, found_below;
    logic [PortW-1:0] above, below;
    found_above = 1'b0;
    found_below = 1'b0;
    above = from;
    below = from;
    for (int unsigned i = 0; i < PORTS; i++) begin
      if (requests[i] && PortW'(i) >= from && !found_above) begin
        found_above = 1'b1;
        above = PortW'(i);
      end
      if (requests[i] && !found_below) begin
        found_below = 1'b1;
        below = PortW'(i);
      end
    end
    return found_above ? above : below;
  endfunction

  function automatic logic [PortW-1:0] after(input logic [PortW-1:0] port);
    return port == PortW'(PORTS - 1) ? '0 : port + 1'b1;
  endfunction

  // Write: a grant, once shown, holds until the last word.
  logic w_held_q;
  logic [PortW-1:0] w_grant_q, w_from_q, w_sel;

  assign w_sel = w_held_q ? w_grant_q : Lazy && m_wr_valid == 0 ? w_from_q : pick(m_wr_valid, w_from_q);

  always_comb begin
    wr_valid = m_wr_valid[w_sel];
    wr_cmd = '0;
    wr_data = '0;
    wr_last = 1'b0;
    if (!Lazy || wr_valid) begin
      wr_cmd = m_wr_cmd[w_sel];
      wr_cmd.tag = {w_sel, m_wr_cmd[w_sel].tag[TagW-1:0]};
      wr_data = m_wr_data[w_sel];
      wr_last = m_wr_last[w_sel];
    end
    m_wr_ready = '0;
    m_wr_ready[w_sel] = wr_ready;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      w_held_q  <= 1'b0;
      w_grant_q <= '0;
      w_from_q  <= '0;
    end else if (wr_valid) begin
      w_grant_q <= w_sel;
      w_held_q  <= !(wr_ready && wr_last);
      if (wr_ready && wr_last) w_from_q <= after(w_sel);
    end
  end

  always_comb begin
    m_wr_done_valid = '0;
    for (int unsigned i = 0; i < PORTS; i++) begin
      m_wr_done_valid[i] = wr_done_valid && wr_done_tag[7:TagW] == PortW'(i);
      m_wr_done_tag[i] = {{PortW{1'b0}}, wr_done_tag[TagW-1:0]};
      m_wr_done_error[i] = wr_done_error;
    end
  end

  // Read: one word per request.
  logic r_held_q;
  logic [PortW-1:0] r_grant_q, r_from_q, r_sel;

  assign r_sel = r_held_q ? r_grant_q : Lazy && m_rd_valid == 0 ? r_from_q : pick(m_rd_valid, r_from_q);

  always_comb begin
    rd_valid = m_rd_valid[r_sel];
    rd_cmd = '0;
    if (!Lazy || rd_valid) begin
      rd_cmd = m_rd_cmd[r_sel];
      rd_cmd.tag = {r_sel, m_rd_cmd[r_sel].tag[TagW-1:0]};
    end
    m_rd_ready = '0;
    m_rd_ready[r_sel] = rd_ready;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      r_held_q  <= 1'b0;
      r_grant_q <= '0;
      r_from_q  <= '0;
    end else if (rd_valid) begin
      r_grant_q <= r_sel;
      r_held_q  <= !rd_ready;
      if (rd_ready) r_from_q <= after(r_sel);
    end
  end

  always_comb begin
    for (int unsigned i = 0; i < PORTS; i++) begin
      m_rd_data_valid[i] = rd_data_valid && rd_data_tag[7:TagW] == PortW'(i);
      m_rd_data[i] = rd_data;
      m_rd_data_tag[i] = {{PortW{1'b0}}, rd_data_tag[TagW-1:0]};
      m_rd_data_last[i] = rd_data_last;
      m_rd_data_error[i] = rd_data_error;
    end
  end

  // Separate block: a master's ready may depend on its valid.
  always_comb begin
    rd_data_ready = 1'b0;
    for (int unsigned i = 0; i < PORTS; i++) begin
      if (rd_data_tag[7:TagW] == PortW'(i)) rd_data_ready = m_rd_data_ready[i];
    end
  end

endmodule
