// SPDX-License-Identifier: SHL-2.1
// Send path: sender and UDP framing, from pending numbers to the MAC.
module send_path
  import nanet_dma_pkg::*;
#(
    // Width of a DMA word in bits: 128 or 256.
    parameter int unsigned DATA_W = 256,
    // Width of the MAC stream in bits: 8 or 64.
    parameter int unsigned MAC_W = 64,
    // Consumer devices that share the numbering: 1, 2, 4 or 8.
    parameter int unsigned DEVICES = 1,
    // UDP endpoints.
    parameter int unsigned DESTINATIONS = 4,
    // Depth of the queue of pending numbers, a power of two.
    parameter int unsigned TX_PENDING = 2048,
    // Numbers tracked for late answers, a power of two; at least devices times descriptors.
    parameter int unsigned REMEMBERED = 4096
) (
    input logic clk,
    input logic rst,

    /*
     * Configuration, steady while enabled; as in sender and udp_transmit
     */
    input logic                            enable,
    input send_cfg_t                       cfg,
    input logic [DEVICES-1:0][63:0]        ring_base,
    input logic [DEVICES-1:0][63:0]        send_base,
    input logic [DEVICES-1:0][63:0]        send_bus,
    input logic [$clog2(DESTINATIONS)-1:0] late_destination,
    input endpoint_t [DESTINATIONS-1:0]    destinations,
    input source_cfg_t                     source_cfg,

    input logic [63:0] now,

    /*
     * From the final trigger: answers up to this frame are late
     */
    input logic        overdue_valid,
    input logic [23:0] overdue_frame,

    /*
     * From the receive path
     */
    input  tx_pending_req_t tx_pending_req,
    output logic            tx_pending_ready,
    output logic [63:0]     sender_next,

    /*
     * Doorbell register
     */
    input logic        bell_valid,
    input logic [31:0] bell_n,

    /*
     * DMA read
     */
    output dma_rd_req_t       rd_req,
    output logic              rd_data_ready,
    input  dma_rd_rsp_t       rd_rsp,
    input  logic [DATA_W-1:0] rd_data,

    /*
     * Frames to the MAC (AXI stream)
     */
    output logic               mac_tvalid,
    input  logic               mac_tready,
    output logic [MAC_W-1:0]   mac_tdata,
    output logic [MAC_W/8-1:0] mac_tkeep,
    output logic               mac_tlast,

    /*
     * Send-done events, to each device's event queue (promised)
     */
    output logic [DEVICES-1:0] ev_valid,
    input  logic [DEVICES-1:0] ev_ready,
    output event_t             ev,

    /*
     * Accepted words of the payloads, then one of `sent` and `discarded`, for the final trigger
     */
    output logic                      word_valid,
    output logic [DATA_W-1:0]         word,
    output logic [$clog2(DATA_W/8):0] word_bytes,
    output logic                      sent,
    output logic                      discarded,

    /*
     * Counters: pulses
     */
    output send_cnt_t count_cnt
);

  logic data_valid, data_ready, data_room, cmd_valid, cmd_ready, cmd_send;
  logic [DATA_W-1:0] data;
  logic [$clog2(DATA_W/8):0] data_bytes;
  logic [15:0] cmd_bytes;
  endpoint_t cmd_to;

  sender #(
      .DATA_W      (DATA_W),
      .DEVICES     (DEVICES),
      .DESTINATIONS(DESTINATIONS),
      .TX_PENDING  (TX_PENDING),
      .REMEMBERED  (REMEMBERED)
  ) i_sender (
      .*
  );

  assign word_valid = data_valid && data_ready;
  assign word       = data;
  assign word_bytes = data_bytes;
  assign sent       = cmd_valid && cmd_ready && cmd_send;
  assign discarded  = cmd_valid && cmd_ready && !cmd_send;

  logic clk_transmit;
  clock_gate #(
      .HOLD(64)
  ) transmit_clock (
      .clk,
      .active(rst || data_valid || cmd_valid || mac_tvalid),
      .gated (clk_transmit)
  );

  udp_transmit #(
      .DATA_W(DATA_W),
      .MAC_W (MAC_W)
  ) i_transmit (
      .clk(clk_transmit),
      .*
  );

endmodule
