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
    output logic              wr_valid,
    input  logic              wr_ready,
    output dma_cmd_t          wr_cmd,
    output logic [DATA_W-1:0] wr_data,
    output logic              wr_last,
    input  logic              wr_done_valid,
    input  logic [7:0]        wr_done_tag,
    input  logic              wr_done_error,

    /*
     * DMA read
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

  logic [DEVICES-1:0] q_wr_valid, q_wr_ready, q_wr_last, q_rd_valid, q_rd_ready;
  logic [DEVICES-1:0] q_rd_data_valid, q_rd_data_take, q_rd_data_last, q_rd_data_error;
  dma_cmd_t [DEVICES-1:0] q_wr_cmd, q_rd_cmd;
  logic [DEVICES-1:0][DATA_W-1:0] q_wr_data, q_rd_data;

  for (genvar d = 0; d < int'(DEVICES); d++) begin : gen_device
    logic ev_valid, ev_ready, ev_promised, queue_waits, clk_queue;
    event_t ev;

    clock_gate #(
        .HOLD(8)
    ) queue_clock (
        .clk,
        .active(rst || !enable || ev_valid || promise[d] || queue_waits || q_wr_valid[d] ||
                q_rd_data_valid[d]),
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
        .wr_valid     (q_wr_valid[d]),
        .wr_ready     (q_wr_ready[d]),
        .wr_cmd       (q_wr_cmd[d]),
        .wr_data      (q_wr_data[d]),
        .wr_last      (q_wr_last[d]),
        .rd_valid     (q_rd_valid[d]),
        .rd_ready     (q_rd_ready[d]),
        .rd_cmd       (q_rd_cmd[d]),
        .rd_data_valid(q_rd_data_valid[d]),
        .rd_data_ready(q_rd_data_take[d]),
        .rd_data      (q_rd_data[d]),
        .rd_data_last (q_rd_data_last[d]),
        .rd_data_error(q_rd_data_error[d])
    );
  end

  if (DEVICES == 1) begin : gen_one_queue
    assign wr_valid           = q_wr_valid[0];
    assign q_wr_ready[0]      = wr_ready;
    assign wr_cmd             = q_wr_cmd[0];
    assign wr_data            = q_wr_data[0];
    assign wr_last            = q_wr_last[0];
    assign rd_valid           = q_rd_valid[0];
    assign q_rd_ready[0]      = rd_ready;
    assign rd_cmd             = q_rd_cmd[0];
    assign q_rd_data_valid[0] = rd_data_valid;
    assign rd_data_ready      = q_rd_data_take[0];
    assign q_rd_data[0]       = rd_data;
    assign q_rd_data_last[0]  = rd_data_last;
    assign q_rd_data_error[0] = rd_data_error;
    logic unused;
    assign unused = &{1'b0, wr_done_valid, wr_done_tag, wr_done_error, rd_data_tag};
  end else begin : gen_queues
    dma_cmd_t queues_wr_cmd, queues_rd_cmd;
    logic [DEVICES-1:0] unused_done_valid, unused_done_error;
    logic [DEVICES-1:0][7:0] unused_done_tag, unused_rd_tag;

    dma_arbiter #(
        .PORTS (DEVICES),
        .DATA_W(DATA_W)
    ) merge_queues (
        .clk,
        .rst,
        .m_wr_valid     (q_wr_valid),
        .m_wr_ready     (q_wr_ready),
        .m_wr_cmd       (q_wr_cmd),
        .m_wr_data      (q_wr_data),
        .m_wr_last      (q_wr_last),
        .m_wr_done_valid(unused_done_valid),
        .m_wr_done_tag  (unused_done_tag),
        .m_wr_done_error(unused_done_error),
        .m_rd_valid     (q_rd_valid),
        .m_rd_ready     (q_rd_ready),
        .m_rd_cmd       (q_rd_cmd),
        .m_rd_data_valid(q_rd_data_valid),
        .m_rd_data_ready(q_rd_data_take),
        .m_rd_data      (q_rd_data),
        .m_rd_data_tag  (unused_rd_tag),
        .m_rd_data_last (q_rd_data_last),
        .m_rd_data_error(q_rd_data_error),
        .wr_valid,
        .wr_ready,
        .wr_cmd         (queues_wr_cmd),
        .wr_data,
        .wr_last,
        .wr_done_valid,
        .wr_done_tag    (wr_done_tag << FREE),
        .wr_done_error,
        .rd_valid,
        .rd_ready,
        .rd_cmd         (queues_rd_cmd),
        .rd_data_valid,
        .rd_data_ready,
        .rd_data,
        .rd_data_tag    (rd_data_tag << FREE),
        .rd_data_last,
        .rd_data_error
    );
    // The downstream arbiter uses the tag bits of this arbiter's port number; shift them down.
    assign wr_cmd = '{addr: queues_wr_cmd.addr, len: queues_wr_cmd.len, tag: queues_wr_cmd.tag >> FREE};
    assign rd_cmd = '{addr: queues_rd_cmd.addr, len: queues_rd_cmd.len, tag: queues_rd_cmd.tag >> FREE};
    logic unused;
    assign unused = &{1'b0, unused_done_valid, unused_done_tag, unused_done_error, unused_rd_tag};
  end

endmodule
