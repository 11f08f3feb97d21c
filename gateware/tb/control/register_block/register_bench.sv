// SPDX-License-Identifier: SHL-2.1
// Bench wrapper of register_block with separate ports for some of its fields.
module register_bench
  import nanet_regs_pkg::*;
(
    input  logic        clk,
    input  logic        rst,
    input  logic        reg_request,
    input  logic        reg_write,
    input  logic [2:0]  reg_bar,
    input  logic [16:0] reg_addr,
    input  logic [31:0] reg_wdata,
    input  logic [3:0]  reg_enable,
    output logic        reg_acknowledge,
    output logic [31:0] reg_rdata,
    output logic        bell_valid,
    output logic [31:0] bell_n,
    output logic        return_valid,
    output logic [12:0] return_index,
    output logic [31:0] return_value,
    input  logic        sample_valid,
    input  logic [31:0] sample,
    input  logic [3:0]  count,
    input  logic [63:0] now,
    output logic [31:0] ring_high,
    output logic [15:0] last_port,
    output logic        last_valid
);

  nanet_regs__in_t hwif_in;
  nanet_regs__out_t hwif_out;

  register_block_flat i_block (
      .clk_fields(clk),
      .*
  );

  always_comb begin
    hwif_in = '{default: '0};
    hwif_in.built.channels.next = 4'(CHANNELS);
    hwif_in.built.filters.next = 4'(FILTERS);
    hwif_in.built.streams.next = 4'd1;
    hwif_in.built.devices.next = 4'(DEVICES);
    hwif_in.built.destinations.next = 4'(DESTINATIONS);
    hwif_in.now.low.value.next = now[31:0];
    hwif_in.now.high.value.next = now[63:32];
    hwif_in.verdicts[1].arp.value.incr = count[0];
    hwif_in.bad_packets.wrong_burst.value.incr = count[1];
    hwif_in.bad_packets.wrong_burst.value.incrvalue = 4'd1;
    hwif_in.lost.late.value.incr = count[2];
    hwif_in.frames.frames_out.value.incr = count[3];
  end

  assign ring_high = hwif_out.device[0].ring.high.value.value;
  assign last_port = hwif_out.destination[3].port.port.value;
  assign last_valid = hwif_out.destination[3].port.valid.value;

endmodule
