// SPDX-License-Identifier: SHL-2.1
// Event queues of a stream's consumer devices. Events of receive path and sender join before each queue;
// all queues share one DMA port.
module event_queues
  import nanet_dma_pkg::*;
#(
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Upper tag bits kept 0 for a downstream arbiter.
    parameter int unsigned FREE = 2
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while enabled
     */
    input logic                     enable,
    input logic [7:0]               stream,
    input logic [DEVICES-1:0][63:0] queue_base,
    input logic [4:0]               log2_entries,
    input logic [DEVICES-1:0][63:0] finished_addr,
    input logic [31:0]              poll_cycles,

    /*
     * events of the receive path, and of the sender
     */
    input  logic [DEVICES-1:0]       receive_valid,
    output logic [DEVICES-1:0]       receive_ready,
    input  event_t                   receive,
    input  logic                     receive_promised,
    input  logic [DEVICES-1:0]       send_valid,
    output logic [DEVICES-1:0]       send_ready,
    input  event_t                   send,
    input  logic [DEVICES-1:0]       promise,
    output logic [DEVICES-1:0][15:0] room,
    output logic [DEVICES-1:0]       half_free,

    /*
     * DMA write
     */
    output dma_wr_req_t       wr_req,
    input  dma_wr_rsp_t       wr_rsp,
    output logic [DATA_W-1:0] wr_data,

    /*
     * DMA read
     */
    output dma_rd_req_t       rd_req,
    output logic              rd_data_ready,
    input  dma_rd_rsp_t       rd_rsp,
    input  logic [DATA_W-1:0] rd_data
);

  dma_wr_req_t [DEVICES-1:0] q_wr_req;
  dma_wr_rsp_t [DEVICES-1:0] q_wr_rsp;
  dma_rd_req_t [DEVICES-1:0] q_rd_req;
  logic [DEVICES-1:0] q_rd_data_ready;
  dma_rd_rsp_t [DEVICES-1:0] q_rd_rsp;
  logic [DEVICES-1:0][DATA_W-1:0] q_wr_data, q_rd_data;

  for (genvar d = 0; d < int'(DEVICES); d++) begin : gen_device
    logic ev_valid, ev_ready, ev_promised, queue_waits, clk_queue;
    event_t ev;

    clock_gate #(
        .HOLD(8)
    ) queue_clock (
        .clk,
        .active(rst || !enable || ev_valid || promise[d] || queue_waits || q_wr_req[d].valid ||
                q_rd_rsp[d].data_valid),
        .gated (clk_queue)
    );

    event_join join_events (
        .clk             (clk_queue),
        .rst,
        .stream,
        .receive_valid   (receive_valid[d]),
        .receive_ready   (receive_ready[d]),
        .receive,
        .receive_promised,
        .send_valid      (send_valid[d]),
        .send_ready      (send_ready[d]),
        .send,
        .ev_valid,
        .ev_ready,
        .ev,
        .ev_promised,
        .room            (room[d])
    );

    event_queue #(
        .DATA_W(DATA_W)
    ) queue (
        .clk          (clk_queue),
        .rst,
        .enable,
        .queue_base   (queue_base[d]),
        .log2_entries,
        .finished_addr(finished_addr[d]),
        .poll_cycles,
        .ev_valid,
        .ev_ready,
        .ev,
        .ev_promised,
        .promise      (promise[d]),
        .room         (room[d]),
        .half_free    (half_free[d]),
        .waits        (queue_waits),
        .wr_req       (q_wr_req[d]),
        .wr_rsp       (q_wr_rsp[d]),
        .wr_data      (q_wr_data[d]),
        .rd_req       (q_rd_req[d]),
        .rd_data_ready(q_rd_data_ready[d]),
        .rd_rsp       (q_rd_rsp[d]),
        .rd_data      (q_rd_data[d])
    );
  end

  if (DEVICES == 1) begin : gen_one_queue
    assign wr_req       = q_wr_req[0];
    assign q_wr_rsp[0]  = wr_rsp;
    assign wr_data      = q_wr_data[0];
    assign rd_req       = q_rd_req[0];
    assign rd_data_ready = q_rd_data_ready[0];
    assign q_rd_rsp[0]  = rd_rsp;
    assign q_rd_data[0] = rd_data;
  end else begin : gen_queues
    dma_wr_req_t queues_wr_req;
    dma_wr_rsp_t queues_wr_rsp;
    dma_rd_req_t queues_rd_req;
    dma_rd_rsp_t queues_rd_rsp;

    dma_arbiter #(
        .PORTS (DEVICES),
        .DATA_W(DATA_W)
    ) merge_queues (
        .clk,
        .rst,
        .m_wr_req       (q_wr_req),
        .m_wr_rsp       (q_wr_rsp),
        .m_wr_data      (q_wr_data),
        .m_rd_req       (q_rd_req),
        .m_rd_data_ready(q_rd_data_ready),
        .m_rd_rsp       (q_rd_rsp),
        .m_rd_data      (q_rd_data),
        .wr_req         (queues_wr_req),
        .wr_rsp         (queues_wr_rsp),
        .wr_data,
        .rd_req         (queues_rd_req),
        .rd_data_ready,
        .rd_rsp         (queues_rd_rsp),
        .rd_data
    );

    // The downstream arbiter uses the tag bits of this arbiter's port number; shift them down.
    always_comb begin
      wr_req = queues_wr_req;
      wr_req.cmd.tag = queues_wr_req.cmd.tag >> FREE;
      queues_wr_rsp = wr_rsp;
      queues_wr_rsp.done_tag = wr_rsp.done_tag << FREE;
    end
    always_comb begin
      rd_req = queues_rd_req;
      rd_req.cmd.tag = queues_rd_req.cmd.tag >> FREE;
      queues_rd_rsp = rd_rsp;
      queues_rd_rsp.data_tag = rd_rsp.data_tag << FREE;
    end
  end

endmodule
