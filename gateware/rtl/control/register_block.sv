// SPDX-License-Identifier: SHL-2.1
// Register file (regs/nanet_regs.rdl) with latency histogram behind a register bus.
module register_block
  import nanet_dma_pkg::*;
  import nanet_regs_pkg::*;
#(
    // Width of a byte address on the bus, at least 17; addresses beyond the registers read as 0.
    parameter int unsigned ADDR_W = 17
) (
    input logic clk,
    // Clock of everything except the histogram; may be gated without a request or a counter increment.
    input logic clk_fields,
    input logic rst,

    /*
     * Register bus: a request stays until it is acknowledged
     */
    input  reg_req_t          reg_req,
    input  logic [ADDR_W-1:0] reg_addr,
    output reg_rsp_t          reg_rsp,

    /*
     * Fields; `histogram` and `returned` are implemented here, so hwif_in ignores them
     */
    input  nanet_regs__in_t  hwif_in,
    output nanet_regs__out_t hwif_out,

    /*
     * Doorbell: pulse with the posted number
     */
    output logic        bell_valid,
    output logic [31:0] bell_n,

    /*
     * Return slots: one pulse per write
     */
    output logic        return_valid,
    output logic [12:0] return_index,
    output logic [31:0] return_value,

    /*
     * Cycles from the last byte of a frame to its event
     */
    input logic        sample_valid,
    input logic [31:0] sample
);

  logic busy_q, request, here, stall_wr, stall_rd, rd_ack, wr_ack, rd_err, wr_err;
  logic [31:0] rd_data, biten;
  logic nowhere_q;

  assign here = reg_req.bar == 3'd0 && reg_addr[ADDR_W-1:16] == '0;
  // Registered, because the address is routed far.
  logic pending_q, write_q;
  logic [15:0] addr_q;
  logic [31:0] wdata_q;
  logic [3:0] enable_q;
  assign request = pending_q && !(write_q ? stall_wr : stall_rd);
  assign biten = {{8{enable_q[3]}}, {8{enable_q[2]}}, {8{enable_q[1]}}, {8{enable_q[0]}}};
  assign reg_rsp.acknowledge = rd_ack || wr_ack || nowhere_q;
  assign reg_rsp.rdata = nowhere_q ? '0 : rd_data;

  always_ff @(posedge clk_fields) begin
    if (!busy_q) begin
      write_q  <= reg_req.write;
      addr_q   <= reg_addr[15:0];
      wdata_q  <= reg_req.wdata;
      enable_q <= reg_req.enable;
    end
    if (request) pending_q <= 1'b0;
    if (reg_req.request && !busy_q && !nowhere_q && here) begin
      pending_q <= 1'b1;
      busy_q    <= 1'b1;
    end
    if (rd_ack || wr_ack) busy_q <= 1'b0;
    nowhere_q <= reg_req.request && !here && !nowhere_q;
    if (rst) begin
      pending_q <= 1'b0;
      busy_q    <= 1'b0;
      nowhere_q <= 1'b0;
    end
  end

  nanet_regs__in_t fields_in;
  logic histogram_valid;
  logic [31:0] histogram_count;
  always_comb begin
    fields_in = hwif_in;
    fields_in.histogram.rd_ack = histogram_valid;
    fields_in.histogram.rd_data = histogram_count;
    fields_in.histogram.wr_ack = 1'b0;
    fields_in.returned.rd_ack = 1'b0;
    fields_in.returned.rd_data = '0;
    fields_in.returned.wr_ack = return_valid;
  end

  nanet_regs i_regs (
      .clk                 (clk_fields),
      .rst,
      .s_cpuif_req         (request),
      .s_cpuif_req_is_wr   (write_q),
      .s_cpuif_addr        (addr_q),
      .s_cpuif_wr_data     (wdata_q),
      .s_cpuif_wr_biten    (biten),
      .s_cpuif_req_stall_wr(stall_wr),
      .s_cpuif_req_stall_rd(stall_rd),
      .s_cpuif_rd_ack      (rd_ack),
      .s_cpuif_rd_err      (rd_err),
      .s_cpuif_rd_data     (rd_data),
      .s_cpuif_wr_ack      (wr_ack),
      .s_cpuif_wr_err      (wr_err),
      .hwif_in             (fields_in),
      .hwif_out
  );

  localparam int unsigned Bins = 128;
  logic clk_histogram;

  // Clearing takes one cycle per bin.
  clock_gate #(
      .HOLD(Bins + 8)
  ) histogram_clock (
      .clk,
      .active(rst || sample_valid || hwif_out.control.clear_histogram.value || hwif_out.histogram.req),
      .gated (clk_histogram)
  );

  histogram #(
      .BINS(Bins)
  ) i_histogram (
      .clk       (clk_histogram),
      .rst,
      .sample_valid,
      .sample,
      .clear     (hwif_out.control.clear_histogram.value),
      .read      (hwif_out.histogram.req && !hwif_out.histogram.req_is_wr),
      .read_bin  (hwif_out.histogram.addr[8:2]),
      .read_valid(histogram_valid),
      .read_count(histogram_count)
  );

  // The value is stored one cycle after the write.
  always_ff @(posedge clk_fields) bell_valid <= hwif_out.doorbell.n.swmod && !rst;
  assign bell_n = hwif_out.doorbell.n.value;

  always_ff @(posedge clk_fields) begin
    return_valid <= hwif_out.returned.req && hwif_out.returned.req_is_wr && !rst;
    return_index <= hwif_out.returned.addr[14:2];
    return_value <= hwif_out.returned.wr_data;
  end

  logic unused_bits;
  assign unused_bits = ^{rd_err, wr_err, hwif_out.histogram.addr[1:0], hwif_out.histogram.wr_data,
                         hwif_out.histogram.wr_biten, hwif_in.histogram.rd_ack, hwif_in.histogram.rd_data,
                         hwif_in.histogram.wr_ack, hwif_in.returned.rd_ack, hwif_in.returned.rd_data,
                         hwif_in.returned.wr_ack, hwif_out.returned.addr[1:0], hwif_out.returned.wr_biten};

endmodule
