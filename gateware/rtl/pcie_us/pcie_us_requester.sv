// SPDX-License-Identifier: SHL-2.1
// DMA interface on the requester streams of the UltraScale+ integrated block (AMD PG213). Writes and reads
// share one in-order queue of TLPs. A TLP is offered once it is complete, since the block allows no pause
// inside one.
module pcie_us_requester
  import nanet_dma_pkg::*;
#(
    // Width of DMA words and of the block streams in bits: 128 or 256.
    parameter int unsigned DATA_W = 256,
    // Outstanding read TLPs, a power of two, at most 32.
    parameter int unsigned TAGS = 32,
    // Maximum bytes per read TLP, a power of two from 128 to 4096.
    parameter int unsigned MAX_READ = 512,
    // Completion timeout in cycles.
    parameter int unsigned TIMEOUT = 16_000_000
) (
    input logic clk,
    input logic rst,

    /*
     * DMA write
     */
    input  dma_wr_req_t       wr_req,
    output dma_wr_rsp_t       wr_rsp,
    input  logic [DATA_W-1:0] wr_data,

    /*
     * DMA read
     */
    input  dma_rd_req_t       rd_req,
    input  logic              rd_data_ready,
    output dma_rd_rsp_t       rd_rsp,
    output logic [DATA_W-1:0] rd_data,

    /*
     * Requester request
     */
    output logic                 rq_tvalid,
    input  logic                 rq_tready,
    output logic [DATA_W-1:0]    rq_tdata,
    output logic [DATA_W/32-1:0] rq_tkeep,
    output logic [61:0]          rq_tuser,
    output logic                 rq_tlast,

    /*
     * Requester completion
     */
    input  logic                 rc_tvalid,
    output logic                 rc_tready,
    input  logic [DATA_W-1:0]    rc_tdata,
    input  logic [DATA_W/32-1:0] rc_tkeep,
    input  logic [74:0]          rc_tuser,
    input  logic                 rc_tlast,

    /*
     * Of the block
     */
    input logic [3:0] pcie_tfc_nph_av,  // non-posted header credits of the link partner
    input logic       cfg_bus_master,   // cfg_function_status[2]
    input logic [2:0] cfg_max_payload,
    input logic [2:0] cfg_max_read_req
);

  localparam int unsigned Lanes = DATA_W / 32;

  typedef struct packed {
    logic [DATA_W-1:0] data;
    logic [Lanes-1:0]  keep;
    logic [3:0]        last_be;
    logic [3:0]        first_be;
    logic              last;
    logic              read;  // single-beat read request
  } beat_t;

  logic w_valid, w_ready, w_last, r_valid, r_ready, in_valid, in_ready, out_valid, out_ready;
  logic [DATA_W-1:0] w_data;
  logic [Lanes-1:0] w_keep;
  logic [3:0] w_first_be, w_last_be, r_first_be, r_last_be;
  logic [127:0] r_descriptor;
  beat_t in_beat, out_beat;

  pcie_us_write #(
      .DATA_W(DATA_W)
  ) i_write (
      .clk,
      .rst,
      .bus_master  (cfg_bus_master),
      .max_payload (cfg_max_payload),
      .wr_req,
      .wr_rsp,
      .wr_data,
      .tlp_valid   (w_valid),
      .tlp_ready   (w_ready),
      .tlp_data    (w_data),
      .tlp_keep    (w_keep),
      .tlp_first_be(w_first_be),
      .tlp_last_be (w_last_be),
      .tlp_last    (w_last)
  );

  // The block updates credits some cycles after a request. Queued reads and those of the last 16 cycles are
  // subtracted. A read is counted one cycle after its arrival; reads are at least three cycles apart.
  logic [16:0] recent_q;
  logic [4:0] reads_q;
  logic may_send;
  always_ff @(posedge clk) begin
    recent_q <= {recent_q[15:0], rq_tvalid && rq_tready && out_beat.read};
    reads_q  <= reads_q + 5'(r_valid && r_ready) - 5'(recent_q[16]);
    may_send <= 5'(pcie_tfc_nph_av) > reads_q;
    if (rst) begin
      recent_q <= '0;
      reads_q  <= '0;
      may_send <= 1'b0;
    end
  end

  pcie_us_read #(
      .DATA_W  (DATA_W),
      .TAGS    (TAGS),
      .MAX_READ(MAX_READ),
      .TIMEOUT (TIMEOUT)
  ) i_read (
      .clk,
      .rst,
      .bus_master    (cfg_bus_master),
      .max_read      (cfg_max_read_req),
      .may_send,
      .rd_req,
      .rd_data_ready,
      .rd_rsp,
      .rd_data,
      .tlp_valid     (r_valid),
      .tlp_ready     (r_ready),
      .tlp_descriptor(r_descriptor),
      .tlp_first_be  (r_first_be),
      .tlp_last_be   (r_last_be),
      .rc_tvalid,
      .rc_tdata,
      .rc_tlast,
      .rc_discontinue(rc_tuser[42])
  );

  assign rc_tready = 1'b1;

  // A read is inserted between two writes, never inside one. The grant is registered one cycle earlier.
  logic inside_next, inside_q, read_now_q;
  assign inside_next = w_valid && w_ready ? !w_last : inside_q;
  assign in_valid    = read_now_q || w_valid;
  assign r_ready     = in_ready && read_now_q;
  assign w_ready     = in_ready && !read_now_q;
  always_comb begin
    if (read_now_q) begin
      in_beat.data = DATA_W'(r_descriptor);
      in_beat.keep = Lanes'(4'b1111);
      in_beat.first_be = r_first_be;
      in_beat.last_be = r_last_be;
      in_beat.last = 1'b1;
      in_beat.read = 1'b1;
    end else begin
      in_beat.data = w_data;
      in_beat.keep = w_keep;
      in_beat.first_be = w_first_be;
      in_beat.last_be = w_last_be;
      in_beat.last = w_last;
      in_beat.read = 1'b0;
    end
  end

  // Longest TLP: 1024 B and a descriptor.
  logic [7:0] whole_q;
  logic [7:0] unused_level;
  fifo #(
      .WIDTH($bits(beat_t)),
      .DEPTH(128),
      .CHOOSE(1'b1)
  ) i_queue (
      .clk,
      .rst,
      .in_valid,
      .in_ready,
      .in_data  (in_beat),
      .out_valid,
      .out_ready,
      .out_data (out_beat),
      .level    (unused_level)
  );

  assign rq_tvalid = out_valid && whole_q != 0;
  assign out_ready = rq_tready && whole_q != 0;
  assign rq_tdata = out_beat.data;
  assign rq_tkeep = out_beat.keep;
  assign rq_tlast = out_beat.last;
  assign rq_tuser = {54'd0, out_beat.last_be, out_beat.first_be};

  always_ff @(posedge clk) begin
    inside_q   <= inside_next;
    read_now_q <= r_valid && !r_ready && !inside_next;
    whole_q <= whole_q + 8'(in_valid && in_ready && in_beat.last) - 8'(rq_tvalid && rq_tready && rq_tlast);
    if (rst) begin
      inside_q   <= 1'b0;
      read_now_q <= 1'b0;
      whole_q    <= '0;
    end
  end

  logic unused_bits;
  assign unused_bits = ^{rc_tkeep, rc_tuser[74:43], rc_tuser[41:0]};

endmodule
