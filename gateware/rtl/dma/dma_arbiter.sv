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
    input  dma_wr_req_t [PORTS-1:0]      m_wr_req,
    output dma_wr_rsp_t [PORTS-1:0]      m_wr_rsp,
    input  logic [PORTS-1:0][DATA_W-1:0] m_wr_data,

    /*
     * masters: read
     */
    input  dma_rd_req_t [PORTS-1:0]      m_rd_req,
    input  logic [PORTS-1:0]             m_rd_data_ready,
    output dma_rd_rsp_t [PORTS-1:0]      m_rd_rsp,
    output logic [PORTS-1:0][DATA_W-1:0] m_rd_data,

    /*
     * memory: write
     */
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,

    /*
     * memory: read
     */
    output dma_rd_req_t       rd_req,
    output logic              rd_data_ready,
    input  dma_rd_rsp_t       rd_rsp,
    input  logic [DATA_W-1:0] rd_data
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

  logic [PORTS-1:0] wr_valids, rd_valids;
  always_comb begin
    for (int unsigned i = 0; i < PORTS; i++) begin
      wr_valids[i] = m_wr_req[i].valid;
      rd_valids[i] = m_rd_req[i].valid;
    end
  end

  // Write: a grant, once shown, holds until the last word.
  logic w_held_q;
  logic [PortW-1:0] w_grant_q, w_from_q, w_sel;

  assign w_sel = w_held_q ? w_grant_q : Lazy && wr_valids == 0 ? w_from_q : pick(wr_valids, w_from_q);

  always_comb begin
    wr_req = '0;
    wr_req.valid = wr_valids[w_sel];
    wr_data = '0;
    if (!Lazy || wr_valids[w_sel]) begin
      wr_req.cmd = m_wr_req[w_sel].cmd;
      wr_req.cmd.tag = {w_sel, m_wr_req[w_sel].cmd.tag[TagW-1:0]};
      wr_req.last = m_wr_req[w_sel].last;
      wr_data = m_wr_data[w_sel];
    end
  end

  always_comb begin
    for (int unsigned i = 0; i < PORTS; i++) begin
      m_wr_rsp[i].ready = wr_rsp.ready && w_sel == PortW'(i);
      m_wr_rsp[i].done_valid = wr_rsp.done_valid && wr_rsp.done_tag[7:TagW] == PortW'(i);
      m_wr_rsp[i].done_tag = {{PortW{1'b0}}, wr_rsp.done_tag[TagW-1:0]};
      m_wr_rsp[i].done_error = wr_rsp.done_error;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      w_held_q  <= 1'b0;
      w_grant_q <= '0;
      w_from_q  <= '0;
    end else if (wr_req.valid) begin
      w_grant_q <= w_sel;
      w_held_q  <= !(wr_rsp.ready && wr_req.last);
      if (wr_rsp.ready && wr_req.last) w_from_q <= after(w_sel);
    end
  end

  // Read: one word per request.
  logic r_held_q;
  logic [PortW-1:0] r_grant_q, r_from_q, r_sel;

  assign r_sel = r_held_q ? r_grant_q : Lazy && rd_valids == 0 ? r_from_q : pick(rd_valids, r_from_q);

  always_comb begin
    rd_req.valid = rd_valids[r_sel];
    rd_req.cmd = '0;
    if (!Lazy || rd_valids[r_sel]) begin
      rd_req.cmd = m_rd_req[r_sel].cmd;
      rd_req.cmd.tag = {r_sel, m_rd_req[r_sel].cmd.tag[TagW-1:0]};
    end
  end

  always_comb begin
    for (int unsigned i = 0; i < PORTS; i++) begin
      m_rd_rsp[i].ready = rd_rsp.ready && r_sel == PortW'(i);
      m_rd_rsp[i].data_valid = rd_rsp.data_valid && rd_rsp.data_tag[7:TagW] == PortW'(i);
      m_rd_rsp[i].data_tag = {{PortW{1'b0}}, rd_rsp.data_tag[TagW-1:0]};
      m_rd_rsp[i].data_last = rd_rsp.data_last;
      m_rd_rsp[i].data_error = rd_rsp.data_error;
      m_rd_data[i] = rd_data;
    end
  end

  // Separate block: a master's ready may depend on its valid.
  always_comb begin
    rd_data_ready = 1'b0;
    for (int unsigned i = 0; i < PORTS; i++) begin
      if (rd_rsp.data_tag[7:TagW] == PortW'(i)) rd_data_ready = m_rd_data_ready[i];
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      r_held_q  <= 1'b0;
      r_grant_q <= '0;
      r_from_q  <= '0;
    end else if (rd_req.valid) begin
      r_grant_q <= r_sel;
      r_held_q  <= !rd_rsp.ready;
      if (rd_rsp.ready) r_from_q <= after(r_sel);
    end
  end

endmodule
