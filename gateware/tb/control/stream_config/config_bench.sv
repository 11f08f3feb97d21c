// SPDX-License-Identifier: SHL-2.1
// Bench wrapper of stream_config behind the register block: a test writes addresses, as a driver does. Two
// instances, with all registers and with one of each; the register block takes longest to compile.
module config_bench
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_regs_pkg::nanet_regs__in_t;
  import nanet_regs_pkg::nanet_regs__out_t;
(
    input logic clk,
    input logic rst,

    input  logic        reg_request,
    input  logic        reg_write,
    input  logic [16:0] reg_addr,
    input  logic [31:0] reg_wdata,
    output logic        reg_acknowledge,
    output logic [31:0] reg_rdata,

    output host_t [1:0]      host,
    output filter_t [1:0]    filter,
    output mgp_rules_t       rules,
    output endpoint_t [3:0]  destinations,
    output logic [3:0][63:0] clop_base,
    output logic [3:0][63:0] queue_base,
    output logic [3:0][63:0] finished_addr,
    output logic [3:0][63:0] ring_base,
    output logic [3:0][63:0] send_base,
    output logic [3:0][63:0] send_bus,

    output host_t [0:0]      few_host,
    output filter_t [0:0]    few_filter,
    output mgp_rules_t       few_rules,
    output endpoint_t [0:0]  few_destinations,
    output logic [0:0][63:0] few_clop_base,
    output logic [0:0][63:0] few_queue_base,
    output logic [0:0][63:0] few_finished_addr,
    output logic [0:0][63:0] few_ring_base,
    output logic [0:0][63:0] few_send_base,
    output logic [0:0][63:0] few_send_bus
);

  nanet_regs__in_t hwif_in;
  nanet_regs__out_t regs;
  logic unused_bell, unused_return;
  logic [31:0] unused_n, unused_value;
  logic [12:0] unused_index;

  assign hwif_in = '{default: '0};

  register_block_flat registers (
      .clk_fields  (clk),
      .reg_bar     (3'd0),
      .reg_enable  ('1),
      .hwif_out    (regs),
      .bell_valid  (unused_bell),
      .bell_n      (unused_n),
      .return_valid(unused_return),
      .return_index(unused_index),
      .return_value(unused_value),
      .sample_valid(1'b0),
      .sample      ('0),
      .*
  );

  stream_config #(
      .CHANNELS    (2),
      .FILTERS     (2),
      .DEVICES     (4),
      .DESTINATIONS(4)
  ) settings (
      .*
  );

  stream_config #(
      .CHANNELS    (1),
      .FILTERS     (1),
      .DEVICES     (1),
      .DESTINATIONS(1)
  ) few_settings (
      .regs,
      .host         (few_host),
      .filter       (few_filter),
      .rules        (few_rules),
      .destinations (few_destinations),
      .clop_base    (few_clop_base),
      .queue_base   (few_queue_base),
      .finished_addr(few_finished_addr),
      .ring_base    (few_ring_base),
      .send_base    (few_send_base),
      .send_bus     (few_send_bus)
  );

  logic unused;
  assign unused = &{1'b0, unused_bell, unused_n, unused_return, unused_index, unused_value};

endmodule
