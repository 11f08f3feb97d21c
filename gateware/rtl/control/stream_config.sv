// SPDX-License-Identifier: SHL-2.1
// Register fields of a stream as typed configuration: network addresses, filters, rules, endpoints, memory
// of each device. Wires only.
module stream_config
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_regs_pkg::nanet_regs__out_t;
#(
    // MACs.
    parameter int unsigned CHANNELS = 2,
    // Filters of the stream.
    parameter int unsigned FILTERS = 2,
    // Consumer devices.
    parameter int unsigned DEVICES = 1,
    // UDP endpoints selectable by descriptors.
    parameter int unsigned DESTINATIONS = 4
) (
    input nanet_regs__out_t regs,

    output host_t [CHANNELS-1:0]         host,
    output filter_t [FILTERS-1:0]        filter,
    output mgp_rules_t                   rules,
    output endpoint_t [DESTINATIONS-1:0] destinations,

    /*
     * per device
     */
    output logic [DEVICES-1:0][63:0] clop_base,
    output logic [DEVICES-1:0][63:0] queue_base,
    output logic [DEVICES-1:0][63:0] finished_addr,
    output logic [DEVICES-1:0][63:0] ring_base,
    output logic [DEVICES-1:0][63:0] send_base,
    output logic [DEVICES-1:0][63:0] send_bus
);

  always_comb begin
    for (int unsigned c = 0; c < CHANNELS; c++) begin
      host[c] = '{mac: {regs.network[c].mac_high.value.value[15:0], regs.network[c].mac_low.value.value},
                  ip: regs.network[c].ip.value.value};
    end
    for (int unsigned f = 0; f < FILTERS; f++) begin
      filter[f] = '{
          enable: regs.filter[f].mode.enable.value,
          vlan: regs.filter[f].mode.vlan.value,
          vlan_id: regs.filter[f].mode.vlan_id.value,
          dst_ip: regs.filter[f].dst_ip.value.value,
          dst_port: regs.filter[f].ports.dst.value,
          src_ip: regs.filter[f].src_ip.value.value,
          src_mask: regs.filter[f].src_mask.value.value,
          src_port: regs.filter[f].ports.src.value
      };
    end
    rules = '{source: regs.rules.source.value, boards: regs.rules.boards.value,
              max_payload: regs.rules.max_payload.value, max_frames: regs.max_frames.value.value[24:0]};
    for (int unsigned d = 0; d < DEVICES; d++) begin
      clop_base[d]     = {regs.device[d].clop.high.value.value, regs.device[d].clop.low.value.value};
      queue_base[d]    = {regs.device[d].queue.high.value.value, regs.device[d].queue.low.value.value};
      finished_addr[d] = {
        regs.device[d].finished.high.value.value, regs.device[d].finished.low.value.value
      };
      ring_base[d]     = {regs.device[d].ring.high.value.value, regs.device[d].ring.low.value.value};
      send_base[d]     = {
        regs.device[d].send_base.high.value.value, regs.device[d].send_base.low.value.value
      };
      send_bus[d]      = {
        regs.device[d].send_bus.high.value.value, regs.device[d].send_bus.low.value.value
      };
    end
    for (int unsigned i = 0; i < DESTINATIONS; i++) begin
      destinations[i] = '{
          mac: {regs.destination[i].mac_high.value.value[15:0], regs.destination[i].mac_low.value.value},
          ip: regs.destination[i].ip.value.value,
          port: regs.destination[i].port.port.value,
          valid: regs.destination[i].port.valid.value
      };
    end
  end

endmodule
