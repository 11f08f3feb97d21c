// SPDX-License-Identifier: SHL-2.1
// Registers of the torus card; fills and misses of keys and pages pass through them. The map is
// regs/nanet_torus_regs.rdl.
module torus_registers
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
  import rdma_pkg::*;
  import nanet_torus_regs_pkg::*;
#(
    // Width of a byte address on the bus, at least 10; addresses beyond the registers read as 0.
    parameter int unsigned ADDR_W = 17,
    // Of the node, for `built`; powers of two.
    parameter int unsigned MESSAGES = 64,
    parameter int unsigned SETS = 64
) (
    input logic clk,
    input logic rst,

    /*
     * register bus: a request stays until it is acknowledged
     */
    input  reg_req_t              reg_req,
    input  logic     [ADDR_W-1:0] reg_addr,
    output reg_rsp_t              reg_rsp,

    /*
     * reset of the node, configuration
     */
    output logic                             node_rst,
    output torus_size_t                      size,
    output torus_node_t                      me,
    output logic            [TorusLinks-1:0] connected,
    output logic            [TorusLinks-1:0] compatible,
    output logic                             balanced,
    output apelink_config_t                  settings,
    output logic            [           9:0] capacity,
    output rdma_cfg_t                        cfg,
    output logic            [          63:0] now,
    output logic                             key_flush,
    output logic                             tlb_flush,

    /*
     * state
     */
    input logic                                  bus_master,
    input logic                                  idle,
    input logic               [TorusLinks-1:0] up,
    input apelink_counters_t  [TorusLinks-1:0] compatible_counters,
    input reliable_counters_t [TorusLinks-1:0] reliable_counters,
    input logic               [TorusPorts-1:0] astray,
    input logic               [TorusPorts-1:0] overflow,
    input rdma_counters_t                      counters,

    /*
     * pages and registered buffers: misses to the driver, fills from it; `miss_pending`: one waits
     */
    input  miss_req_t     miss_req,
    output logic          miss_ready,
    output fill_req_t     fill_req,
    input  logic          fill_ready,
    input  key_miss_req_t key_miss_req,
    output logic          key_miss_ready,
    output key_fill_req_t key_fill_req,
    input  logic          key_fill_ready,
    output logic          miss_pending
);

  localparam int unsigned RegsW = NANET_TORUS_REGS_MIN_ADDR_WIDTH;
  localparam int unsigned ResetCycles = 16;

  if (ADDR_W < RegsW || LINKS != TorusLinks || PORTS != RdmaPorts || REASONS != Reasons) begin : gen_check
    $fatal(1, "torus_registers: ADDR_W is too small, or regs/nanet_torus_regs.rdl has other sizes");
  end

  nanet_torus_regs__in_t hwif_in;
  nanet_torus_regs__out_t hwif_out;

  // ---------------------------------------------------------------- bus

  logic busy_q, request, here, stall_wr, stall_rd, rd_ack, wr_ack, rd_err, wr_err, nowhere_q;
  logic pending_q, write_q;
  logic [RegsW-1:0] addr_q;
  logic [31:0] rd_data, biten, wdata_q;
  logic [3:0] enable_q;

  assign here                = reg_req.bar == 3'd0 && 32'(reg_addr) < NANET_TORUS_REGS_SIZE;
  assign request             = pending_q && !(write_q ? stall_wr : stall_rd);
  assign biten               = {{8{enable_q[3]}}, {8{enable_q[2]}}, {8{enable_q[1]}}, {8{enable_q[0]}}};
  assign reg_rsp.acknowledge = rd_ack || wr_ack || nowhere_q;
  assign reg_rsp.rdata       = nowhere_q ? '0 : rd_data;

  always_ff @(posedge clk) begin
    if (!busy_q) begin
      write_q  <= reg_req.write;
      addr_q   <= reg_addr[RegsW-1:0];
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

  nanet_torus_regs i_regs (
      .clk,
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
      .hwif_in,
      .hwif_out
  );

  // ---------------------------------------------------------------- configuration

  logic [63:0] now_q;
  logic [4:0] reset_q;
  assign now = now_q;

  always_ff @(posedge clk) begin
    now_q <= now_q + 64'd1;
    if (hwif_out.control.reset.value) reset_q <= 5'(ResetCycles);
    else if (reset_q != 0) reset_q <= reset_q - 5'd1;
    node_rst <= reset_q != 0;
    if (rst) begin
      now_q    <= '0;
      reset_q  <= '0;
      node_rst <= 1'b1;
    end
  end

  assign size       = '{x: hwif_out.size.x.value, y: hwif_out.size.y.value, z: hwif_out.size.z.value};
  assign me         = '{x: hwif_out.node.x.value, y: hwif_out.node.y.value, z: hwif_out.node.z.value};
  assign connected  = hwif_out.links.connected.value;
  assign compatible = hwif_out.links.apelink.value;
  assign balanced   = hwif_out.control.balanced.value;
  assign capacity   = hwif_out.links.capacity.value;
  assign settings   = '{
          ecc_header_make: hwif_out.apelink_credit.make_header.value,
          ecc_header_check: hwif_out.apelink_credit.check_header.value,
          ecc_credit_make: hwif_out.apelink_credit.make_credit.value,
          ecc_credit_check: hwif_out.apelink_credit.check_credit.value,
          threshold: '{
              data: hwif_out.apelink_threshold.data.value,
              header: hwif_out.apelink_threshold.header.value
          },
          waiting: hwif_out.apelink_credit.waiting.value,
          credit_cycle: hwif_out.apelink_credit.cycle.value
      };
  assign key_flush  = hwif_out.control.flush_keys.value;
  assign tlb_flush  = hwif_out.control.flush_pages.value;

  rdma_slots_t [RdmaPorts-1:0] slots;
  for (genvar p = 0; p < int'(RdmaPorts); p++) begin : gen_port
    assign slots[p] = '{
            enable: hwif_out.slots[p].shape.enable.value,
            domain: hwif_out.slots[p].domain.value.value,
            address: {hwif_out.slots[p].shape.high.value, hwif_out.slots[p].low.value.value},
            log2_stride: hwif_out.slots[p].shape.log2_stride.value,
            log2_slots: hwif_out.slots[p].shape.log2_slots.value,
            posted: hwif_out.slots[p].posted.value.value
        };
  end

  assign cfg = '{
          enable: hwif_out.control.enable.value,
          intra: hwif_out.node.port.value,
          put_base: {hwif_out.put.base.high.value.value, hwif_out.put.base.low.value.value},
          log2_puts: hwif_out.put.log2.value.value,
          put_posted: hwif_out.put.posted.value.value,
          get_base: {hwif_out.get.base.high.value.value, hwif_out.get.base.low.value.value},
          log2_gets: hwif_out.get.log2.value.value,
          event_base: {
            hwif_out.event_queue.base.high.value.value, hwif_out.event_queue.base.low.value.value
          },
          log2_events: hwif_out.event_queue.log2.value.value,
          finished_addr: {
            hwif_out.event_queue.finished.high.value.value, hwif_out.event_queue.finished.low.value.value
          },
          poll_cycles: hwif_out.event_queue.poll_cycles.value.value,
          timeout: hwif_out.timeout.value.value,
          log2_page: hwif_out.tables.log2_page.value,
          log2_granule: hwif_out.tables.log2_granule.value,
          slots: slots
      };

  // ---------------------------------------------------------------- keys and pages

  logic key_valid_q, page_valid_q, key_miss_q, page_miss_q;
  key_miss_req_t key_asked_q;
  logic [63:0] page_asked_q;

  assign key_fill_req   = '{
          valid: key_valid_q,
          answer: hwif_out.key.fill.answer.value,
          found: hwif_out.key.fill.found.value,
          reason: reason_e'(hwif_out.key.fill.reason.value),
          domain: hwif_out.key.high.domain.value,
          address: {hwif_out.key.high.high.value, hwif_out.key.low.value.value},
          first: {hwif_out.key.first.high.value.value[15:0], hwif_out.key.first.low.value.value},
          limit: {hwif_out.key.limit.high.value.value[16:0], hwif_out.key.limit.low.value.value},
          rights: hwif_out.key.fill.rights.value
      };
  assign fill_req       = '{
          valid: page_valid_q,
          vaddr: {hwif_out.page.address.high.value.value, hwif_out.page.address.low.value.value},
          paddr: {hwif_out.page.bus.high.value.value, hwif_out.page.bus.low.value.value},
          ok: hwif_out.page.fill.ok.value
      };
  assign key_miss_ready = !key_miss_q;
  assign miss_ready     = !page_miss_q;
  assign miss_pending   = key_miss_q || page_miss_q;

  always_ff @(posedge clk) begin
    // The registers follow their write by a cycle.
    if (hwif_out.key.fill.answer.swmod) key_valid_q <= 1'b1;
    else if (key_fill_ready) key_valid_q <= 1'b0;
    if (hwif_out.page.fill.answer.swmod) page_valid_q <= 1'b1;
    else if (fill_ready) page_valid_q <= 1'b0;

    if (!key_miss_q) begin
      key_asked_q <= key_miss_req;
      key_miss_q  <= key_miss_req.valid;
    end else if (key_valid_q && key_fill_ready && hwif_out.key.fill.answer.value) begin
      key_miss_q <= 1'b0;
    end
    if (!page_miss_q) begin
      page_asked_q <= miss_req.vaddr;
      page_miss_q  <= miss_req.valid;
    end else if (page_valid_q && fill_ready && hwif_out.page.fill.answer.value) begin
      page_miss_q <= 1'b0;
    end
    if (rst || node_rst) begin
      key_valid_q  <= 1'b0;
      page_valid_q <= 1'b0;
      key_miss_q   <= 1'b0;
      page_miss_q  <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- state

  logic [31:0] astray_q, overflow_q;
  always_ff @(posedge clk) begin
    astray_q   <= astray_q + 32'($countones(astray));
    overflow_q <= overflow_q + 32'($countones(overflow));
    if (rst || node_rst) begin
      astray_q   <= '0;
      overflow_q <= '0;
    end
  end

  always_comb begin
    hwif_in = '{default: '0};
    hwif_in.built.ports.next         = 4'(RdmaPorts);
    hwif_in.built.log2_messages.next = 4'($clog2(MESSAGES));
    hwif_in.built.log2_sets.next     = 4'($clog2(SETS));
    hwif_in.status.up.next           = up;
    hwif_in.status.bus_master.next   = bus_master;
    hwif_in.status.idle.next         = idle;
    hwif_in.status.resetting.next    = node_rst || reset_q != 0;
    hwif_in.status.key_miss.next     = key_miss_q;
    hwif_in.status.page_miss.next    = page_miss_q;
    hwif_in.status.key_filled.next   = !key_valid_q;
    hwif_in.status.page_filled.next  = !page_valid_q;
    hwif_in.now.low.value.next       = now_q[31:0];
    hwif_in.now.high.value.next      = now_q[63:32];

    hwif_in.key_miss.low.value.next   = key_asked_q.address[31:0];
    hwif_in.key_miss.high.high.next   = key_asked_q.address[47:32];
    hwif_in.key_miss.high.domain.next = key_asked_q.domain;
    hwif_in.key_miss.bytes.value.next = key_asked_q.bytes;
    hwif_in.page_miss.low.value.next  = page_asked_q[31:0];
    hwif_in.page_miss.high.value.next = page_asked_q[63:32];

    for (int i = 0; i < int'(Reasons); i++) hwif_in.refused[i].value.next = counters.refused[i];
    hwif_in.foreign.value.next         = counters.foreign;
    hwif_in.unexpected.value.next      = counters.unexpected;
    hwif_in.untranslated.value.next    = counters.untranslated;
    hwif_in.write_errors.value.next    = counters.write_errors;
    hwif_in.replies_lost.value.next    = counters.replies_lost;
    hwif_in.events_lost.value.next     = counters.events_lost;
    hwif_in.bad_descriptors.value.next = counters.bad_descriptors;
    hwif_in.read_errors.value.next     = counters.read_errors;
    hwif_in.astray.value.next          = astray_q;
    hwif_in.overflow.value.next        = overflow_q;

    for (int i = 0; i < int'(TorusLinks); i++) begin
      hwif_in.link[i].unconfirmed.value.next         = reliable_counters[i].unconfirmed;
      hwif_in.link[i].received.value.next            = reliable_counters[i].received;
      hwif_in.link[i].sent.value.next                = reliable_counters[i].sent;
      hwif_in.link[i].resent.value.next              = reliable_counters[i].resent;
      hwif_in.link[i].accepted.value.next            = reliable_counters[i].accepted;
      hwif_in.link[i].damaged.value.next             = reliable_counters[i].damaged;
      hwif_in.link[i].dropped.value.next             = reliable_counters[i].dropped;
      hwif_in.link[i].lost.cut.next                  = reliable_counters[i].cut;
      hwif_in.link[i].lost.down.next                 = reliable_counters[i].down;
      hwif_in.link[i].apelink_sent.value.next        = compatible_counters[i].sent;
      hwif_in.link[i].apelink_received.value.next    = compatible_counters[i].received;
      hwif_in.link[i].apelink_dropped.value.next     = compatible_counters[i].dropped;
      hwif_in.link[i].apelink_headers.cut.next       = compatible_counters[i].cut;
      hwif_in.link[i].apelink_headers.corrected.next = compatible_counters[i].corrected;
      hwif_in.link[i].apelink_errors.fatal.next      = compatible_counters[i].fatal;
      hwif_in.link[i].apelink_errors.credit_bad.next = compatible_counters[i].credit_bad;
    end
  end

  logic unused;
  assign unused = &{
          1'b0, rd_err, wr_err, key_asked_q.valid, counters.datagrams_lost,
          hwif_out.key.first.high.value.value[31:16], hwif_out.key.limit.high.value.value[31:17], 1'b0
      };

endmodule
