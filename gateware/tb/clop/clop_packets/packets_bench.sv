// SPDX-License-Identifier: SHL-2.1
// Bench wrapper of gather mode `packets`: placement, closing and the firmware port.
module packets_bench
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Number of channels that place packets.
    parameter int unsigned CHANNELS = 2,
    // Number of buffers of all devices together.
    parameter int unsigned MAX_BUFFERS = 8,
    // Number of consumer devices.
    parameter int unsigned DEVICES = 1,
    // Number of the first buffer.
    parameter logic [63:0] FIRST_N = 0
) (
    input logic clk,
    input logic rst,

    input  logic                     enable,
    input  logic [3:0]               boards,
    input  logic [31:0]              timeout_cycles,
    input  logic                     drain,
    input  logic [4:0]               log2_buffers,
    input  logic [4:0]               log2_devices,
    input  logic [DEVICES-1:0][63:0] base_vaddr,
    input  logic [17:0]              buffer_units,
    input  logic [12:0]              packets,
    input  logic [16:0]              slot_bytes,
    input  logic                     waits,
    input  logic [63:0]              now,
    output logic                     ready,

    input  logic [CHANNELS-1:0]           place_valid,
    output logic [CHANNELS-1:0]           place_ready,
    input  place_request_t [CHANNELS-1:0] place,
    output logic [CHANNELS-1:0]           placed_valid,
    output logic                          placed_accept,
    output logic                          placed_defer,
    output logic [63:0]                   placed_vaddr,
    input  serial_t [CHANNELS-1:0]        done_serial,

    input logic                           return_valid,
    input logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input logic [31:0]                    return_value,

    output logic        tx_pending_valid,
    input  logic        tx_pending_ready,
    output tx_pending_t tx_pending,
    input  logic [31:0] sender_next,

    output logic        tlb_valid,
    input  logic        tlb_ready,
    output logic [63:0] tlb_vaddr,
    input  logic        tlb_resp_valid,
    input  logic        tlb_resp_ok,
    input  logic [63:0] tlb_resp_paddr,

    output logic         wr_valid,
    input  logic         wr_ready,
    output dma_cmd_t     wr_cmd,
    output logic [255:0] wr_data,
    output logic         wr_last,
    input  logic         wr_done_valid,
    input  logic [7:0]   wr_done_tag,
    input  logic         wr_done_error,

    output logic [DEVICES-1:0]       ev_valid,
    input  logic [DEVICES-1:0]       ev_ready,
    output event_t                   ev,
    output logic                     ev_promised,
    output logic [31:0]              ev_start,
    output logic [2:0]               ev_channel,
    output logic [DEVICES-1:0]       promise,
    input  logic [DEVICES-1:0][15:0] room,
    input  logic [DEVICES-1:0]       half_free,

    output logic             counted,
    output placed_e          counted_as,
    output logic [15:0]      counted_hits,
    output logic [7:0]       counted_events,
    output logic             buffer_pending,
    output logic             incomplete,
    output logic             untranslated,
    output logic [3:0][63:0] missing,
    output logic             idle,

    input  logic        fw_request,
    input  logic        fw_write,
    input  logic [7:0]  fw_addr,
    input  logic [31:0] fw_wdata,
    output logic        fw_acknowledge,
    output logic [31:0] fw_rdata,
    output logic        fw_interrupt
);

  logic slowpath_valid, slowpath_ready, command_valid, command_ready, place_idle, close_idle;
  slowpath_t slowpath;
  command_t command;
  logic [63:0] last_packet;
  logic notice_valid, notice_ready, notice_done;
  packets_notice_t notice;
  serial_t [CHANNELS-1:0] notice_fence, done;

  assign idle = place_idle && close_idle;

  clop_packets_flat #(
      .CHANNELS   (CHANNELS),
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES),
      .FIRST_N    (FIRST_N)
  ) placement (
      .idle(place_idle),
      .*
  );

  clop_packets_close_flat #(
      .CHANNELS(CHANNELS),
      .DEVICES (DEVICES)
  ) close (
      .rst (rst || !enable),
      .idle(close_idle),
      .*
  );

  logic unused_miss, unused_fill, unused_ok, unused_rd, unused_data;
  logic [63:0] unused_vaddr, unused_paddr;
  dma_cmd_t unused_cmd;
  logic [1:0][31:0] unused_report;

  firmware_port_flat firmware (
      .clk,
      .rst(rst),
      .enable,
      .replay (1'b0),
      .packets(1'b1),
      .boards,
      .timeout_cycles,
      .grace_cycles  ('0),
      .silence_cycles(64'd1000),  // irrelevant here
      .pages_base    ('0),
      .pages_count   ('0),
      .clop_base     ('0),
      .log2_page     (5'd12),
      .drain,
      .now,
      .slowpath_valid,
      .slowpath_ready,
      .slowpath,
      .command_valid,
      .command_ready,
      .command,
      .miss_valid(1'b0),
      .miss_ready(unused_miss),
      .miss_vaddr('0),
      .fill_valid(unused_fill),
      .fill_ready(1'b0),
      .fill_vaddr(unused_vaddr),
      .fill_paddr(unused_paddr),
      .fill_ok   (unused_ok),
      .last_packet,
      .rd_valid     (unused_rd),
      .rd_ready     (1'b0),
      .rd_cmd       (unused_cmd),
      .rd_data_valid(1'b0),
      .rd_data_ready(unused_data),
      .rd_data      ('0),
      .rd_data_tag('0),
      .rd_data_last (1'b0),
      .rd_data_error(1'b0),
      .fw_request,
      .fw_write,
      .fw_addr,
      .fw_wdata,
      .fw_acknowledge,
      .fw_rdata,
      .fw_interrupt,
      .burst_report(unused_report)
  );

  logic unused;
  assign unused = &{1'b0, unused_miss, unused_fill, unused_ok, unused_rd, unused_data, unused_vaddr,
                    unused_paddr, unused_cmd, unused_report, wr_done_tag, wr_done_error};

endmodule
