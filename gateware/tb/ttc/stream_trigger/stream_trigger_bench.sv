// SPDX-License-Identifier: SHL-2.1
// Bench of stream_trigger: a port per field of the register bus, and a short latency memory.
module stream_trigger_bench
  import nanet_dma_pkg::*;
  import nanet_ttc_pkg::*;
(
    input  logic         clk,
    input  logic         rst,
    input  logic         reg_request,
    input  logic         reg_write,
    input  logic [11:0]  reg_addr,
    input  logic [31:0]  reg_wdata,
    output logic         reg_acknowledge,
    output logic [31:0]  reg_rdata,
    input  logic         word_valid,
    input  logic [255:0] word,
    input  logic [5:0]   word_bytes,
    input  logic         sent,
    input  logic         discarded,
    input  logic [63:0]  sender_next,
    input  logic         burst_begins,
    input  logic [7:0]   burst_number,
    input  logic [63:0]  burst_base,
    input  logic         packet_placed,
    input  logic [7:0]   packet_burst,
    input  logic [23:0]  packet_frame,
    input  logic [3:0]   ttc_samples,
    output logic [31:0]  stamp,
    output logic [2:0]   stamp_state,
    output logic [7:0]   close_burst,
    output logic [23:0]  close_frames,
    output logic         overdue_valid,
    output logic [23:0]  overdue_frame,
    output logic         trigger_valid,
    output logic [5:0]   trigger_kind,
    output logic [31:0]  trigger_timestamp
);

  reg_rsp_t reg_rsp;
  assign reg_acknowledge = reg_rsp.acknowledge;
  assign reg_rdata       = reg_rsp.rdata;

  ttc_stamp_t ttc_stamp;
  assign stamp       = ttc_stamp.timestamp;
  assign stamp_state = {ttc_stamp.lost, ttc_stamp.in_burst, ttc_stamp.locked};
  assign close_burst = ttc_stamp.close_burst;
  assign close_frames = ttc_stamp.close_frames;

  stream_trigger #(
      .LOG2_PLACES(10)
  ) i_trigger (
      .reg_req('{request: reg_request, write: reg_write, bar: '0, wdata: reg_wdata, enable: '1}),
      .*
  );

endmodule
