// SPDX-License-Identifier: SHL-2.1
// The card between its MACs, its microcontroller and the host's memory: receive path, send path, events,
// registers (doc/architecture.md).
module nanet_card
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_regs_pkg::nanet_regs__in_t;
  import nanet_regs_pkg::nanet_regs__out_t;
#(
    // MACs; at most as many as the registers have, as with the next three.
    parameter int unsigned CHANNELS = 2,
    // Filters that choose datagrams; all of them feed the one stream.
    parameter int unsigned STREAMS = 2,
    // Consumer devices: a power of two. The registers say how many of them are used.
    parameter int unsigned DEVICES = 1,
    // UDP endpoints that descriptors name.
    parameter int unsigned DESTINATIONS = 4,
    // Largest number of buffers of all devices' CLOPs together, and of descriptors of their send rings; a
    // power of two, at most 8192.
    parameter int unsigned MAX_BUFFERS = 8192,
    // Width of the MACs' streams in bits: 64 (10 GbE) or 8 (1 GbE).
    parameter int unsigned MAC_W = 64,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Words of 128 bits that wait in a channel; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // Sets of four pages in the TLB; a power of two.
    parameter int unsigned TLB_SETS = 64,
    // Bits of a register's byte address on the bus, at least 17.
    parameter int unsigned ADDR_W = 17
) (
    input logic clk,
    input logic rst,

    /*
     * frames from the MACs
     */
    input logic [CHANNELS-1:0]              s_axis_rx_tvalid,
    input logic [CHANNELS-1:0][MAC_W-1:0]   s_axis_rx_tdata,
    input logic [CHANNELS-1:0][MAC_W/8-1:0] s_axis_rx_tkeep,
    input logic [CHANNELS-1:0]              s_axis_rx_tlast,
    input logic [CHANNELS-1:0]              s_axis_rx_tuser,

    /*
     * frames to the MACs
     */
    output logic [CHANNELS-1:0]              m_axis_tx_tvalid,
    input  logic [CHANNELS-1:0]              m_axis_tx_tready,
    output logic [CHANNELS-1:0][MAC_W-1:0]   m_axis_tx_tdata,
    output logic [CHANNELS-1:0][MAC_W/8-1:0] m_axis_tx_tkeep,
    output logic [CHANNELS-1:0]              m_axis_tx_tlast,

    /*
     * register bus: a request stays until it is acknowledged
     */
    input  logic              reg_request,
    input  logic              reg_write,
    input  logic [2:0]        reg_bar,
    input  logic [ADDR_W-1:0] reg_addr,
    input  logic [31:0]       reg_wdata,
    input  logic [3:0]        reg_enable,
    output logic              reg_acknowledge,
    output logic [31:0]       reg_rdata,

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
    input  logic              rd_data_error,

    /*
     * the microcontroller's bus: a request stays until it is acknowledged; interrupt: something waits
     */
    input  logic        fw_request,
    input  logic        fw_write,
    input  logic [7:0]  fw_addr,
    input  logic [31:0] fw_wdata,
    output logic        fw_acknowledge,
    output logic [31:0] fw_rdata,
    output logic        fw_interrupt,

    /*
     * from the PCIe side: the host lets the card use the bus; pulse: a request was not supported
     */
    input logic bus_master,
    input logic unsupported
);

  localparam int unsigned BufferW = $clog2(MAX_BUFFERS);
  localparam int unsigned DestW = $clog2(DESTINATIONS);
  // Masters of the memory: receive and send path, event queues (merged before: the sender's tags have no bit
  // to spare for more of them), firmware.
  localparam int unsigned Ports = 3;
  localparam int unsigned PortW = $clog2(Ports);
  localparam int unsigned PortEvents = 1;
  localparam int unsigned PortFirmware = 2;

  if (STREAMS > nanet_regs_pkg::STREAMS || DEVICES > nanet_regs_pkg::DEVICES) begin : gen_check_registers
    $fatal(1, "the registers have fewer streams or devices (%m)");
  end
  if (DESTINATIONS > nanet_regs_pkg::DESTINATIONS || MAX_BUFFERS > 8192) begin : gen_check_tables
    $fatal(1, "the registers have fewer destinations or return slots (%m)");
  end
  if (2 ** $clog2(DEVICES) != DEVICES) begin : gen_check_devices
    $fatal(1, "DEVICES must be a power of two (%m)");
  end
  if (MAC_W != 8 && MAC_W != 64) begin : gen_check_mac
    $fatal(1, "MAC_W must be 8 or 64 (%m)");
  end

  // ------------------------------------------------------------------ registers

  nanet_regs__in_t hwif_in;
  nanet_regs__out_t regs;
  logic bell_valid, return_valid, sample_valid;
  logic [31:0] bell_n, return_value, sample;
  logic [12:0] return_index;
  logic [63:0] now_q;
  logic counters_active, clk_registers;

  clock_gate #(
      .HOLD(4)
  ) registers_clock (
      .clk,
      .active(rst || reg_request || counters_active),
      .gated (clk_registers)
  );

  register_block #(
      .ADDR_W(ADDR_W)
  ) registers (
      .clk,
      .clk_fields(clk_registers),
      .rst,
      .reg_request,
      .reg_write,
      .reg_bar,
      .reg_addr,
      .reg_wdata,
      .reg_enable,
      .reg_acknowledge,
      .reg_rdata,
      .hwif_in,
      .hwif_out(regs),
      .bell_valid,
      .bell_n,
      .return_valid,
      .return_index,
      .return_value,
      .sample_valid,
      .sample
  );

  always_ff @(posedge clk) begin
    now_q <= now_q + 64'd1;
    if (rst) now_q <= '0;
  end

  host_t [CHANNELS-1:0] host;
  filter_t [STREAMS-1:0] filter;
  mgp_rules_t rules;
  endpoint_t [DESTINATIONS-1:0] destinations;
  logic [DEVICES-1:0][63:0] clop_base, queue_base, finished_addr, ring_base, send_base, send_bus;

  always_comb begin
    for (int unsigned c = 0; c < CHANNELS; c++) begin
      host[c] = '{mac: {regs.network[c].mac_high.value.value[15:0], regs.network[c].mac_low.value.value},
                  ip: regs.network[c].ip.value.value};
    end
    for (int unsigned s = 0; s < STREAMS; s++) begin
      filter[s] = '{
          enable: regs.filter[s].mode.enable.value,
          vlan: regs.filter[s].mode.vlan.value,
          vlan_id: regs.filter[s].mode.vlan_id.value,
          dst_ip: regs.filter[s].dst_ip.value.value,
          dst_port: regs.filter[s].ports.dst.value,
          src_ip: regs.filter[s].src_ip.value.value,
          src_mask: regs.filter[s].src_mask.value.value,
          src_port: regs.filter[s].ports.src.value
      };
    end
    rules = '{source: regs.rules.source.value, boards: regs.rules.boards.value,
              max_payload: regs.rules.max_payload.value, max_frames: regs.max_frames.value.value[23:0]};
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

  // ------------------------------------------------------------------ start and stop

  logic ready, path_ready, running, stopped, core_rst, tx_stop, wr_pass, rd_pass;
  logic [CHANNELS-1:0] rx_take, tx_busy;
  logic core_wr_valid, core_wr_ready, core_rd_valid, core_rd_ready, core_rd_data_ready;

  card_run #(
      .CHANNELS    (CHANNELS),
      .CLEAR_CYCLES(MAX_BUFFERS + 64)
  ) run (
      .clk,
      .rst,
      .on           (regs.control.receive.value || regs.control.send.value || regs.control.events.value),
      .receive      (regs.control.receive.value),
      .cleared      (path_ready),
      .ready,
      .running,
      .stopped,
      .core_rst,
      .rx_tvalid    (s_axis_rx_tvalid),
      .rx_tlast     (s_axis_rx_tlast),
      .rx_take,
      .tx_busy,
      .tx_stop,
      .wr_asks      (core_wr_valid),
      .wr_pass,
      .wr_ready,
      .wr_last,
      .wr_done_valid,
      .rd_asks      (core_rd_valid),
      .rd_pass,
      .rd_ready,
      .rd_data_valid,
      .rd_data_ready,
      .rd_data_last
  );

  assign wr_valid      = core_wr_valid && wr_pass;
  assign core_wr_ready = wr_ready && wr_pass;
  assign rd_valid      = core_rd_valid && rd_pass;
  assign core_rd_ready = rd_ready && rd_pass;
  // Answers to a card that is being stopped go nowhere: no frame is sent any more.
  assign rd_data_ready = core_rd_data_ready || !running;

  // The masters of the memory.
  logic [Ports-1:0] m_wr_valid, m_wr_ready, m_wr_last, m_wr_done_valid, m_wr_done_error;
  dma_cmd_t [Ports-1:0] m_wr_cmd, m_rd_cmd;
  logic [Ports-1:0][DATA_W-1:0] m_wr_data;
  logic [Ports-1:0] m_rd_valid, m_rd_ready, m_rd_data_valid, m_rd_data_ready;
  logic [Ports-1:0][DATA_W-1:0] m_rd_data;
  logic [Ports-1:0][7:0] m_rd_data_tag, m_wr_done_tag;
  logic [Ports-1:0] m_rd_data_last, m_rd_data_error;

  // ------------------------------------------------------------------ MACs

  logic [CHANNELS-1:0] rx_valid, rx_last, rx_user, arp_valid, arp_ready, arp_last;
  logic [CHANNELS-1:0][63:0] rx_data, arp_data;
  logic [CHANNELS-1:0][7:0] rx_keep, arp_keep;
  logic mac_valid, mac_ready, mac_last;
  logic [MAC_W-1:0] mac_data;
  logic [MAC_W/8-1:0] mac_keep;

  for (genvar c = 0; c < int'(CHANNELS); c++) begin : gen_mac
    logic answer_valid, answer_ready, answer_last;
    logic [MAC_W-1:0] answer_data;
    logic [MAC_W/8-1:0] answer_keep;

    if (MAC_W == 64) begin : gen_wide
      assign rx_valid[c]  = s_axis_rx_tvalid[c] && rx_take[c];
      assign rx_data[c]   = s_axis_rx_tdata[c];
      assign rx_keep[c]   = s_axis_rx_tkeep[c];
      assign rx_last[c]   = s_axis_rx_tlast[c];
      assign rx_user[c]   = s_axis_rx_tuser[c];
      assign answer_valid = arp_valid[c];
      assign arp_ready[c] = answer_ready;
      assign answer_data  = arp_data[c];
      assign answer_keep  = arp_keep[c];
      assign answer_last  = arp_last[c];
    end else begin : gen_narrow
      axis_widen widen (
          .clk,
          .rst             (core_rst),
          .s_axis_rx_tvalid(s_axis_rx_tvalid[c] && rx_take[c]),
          .s_axis_rx_tdata (s_axis_rx_tdata[c]),
          .s_axis_rx_tlast (s_axis_rx_tlast[c]),
          .s_axis_rx_tuser (s_axis_rx_tuser[c]),
          .m_axis_rx_tvalid(rx_valid[c]),
          .m_axis_rx_tdata (rx_data[c]),
          .m_axis_rx_tkeep (rx_keep[c]),
          .m_axis_rx_tlast (rx_last[c]),
          .m_axis_rx_tuser (rx_user[c])
      );
      axis_narrow narrow (
          .clk,
          .rst          (core_rst),
          .s_axis_tvalid(arp_valid[c]),
          .s_axis_tready(arp_ready[c]),
          .s_axis_tdata (arp_data[c]),
          .s_axis_tkeep (arp_keep[c]),
          .s_axis_tlast (arp_last[c]),
          .m_axis_tvalid(answer_valid),
          .m_axis_tready(answer_ready),
          .m_axis_tdata (answer_data),
          .m_axis_tlast (answer_last)
      );
      assign answer_keep = '1;
      logic unused;
      assign unused = &{1'b0, s_axis_rx_tkeep[c]};
    end

    // Channel 0 carries the answers of the send path too.
    logic unused_ready;
    logic [1:0] tx_ready;
    assign answer_ready = tx_ready[0];
    if (c == 0) begin : gen_both
      assign mac_ready    = tx_ready[1];
      assign unused_ready = 1'b0;
    end else begin : gen_answers
      assign unused_ready = tx_ready[1];
    end
    axis_mux #(
        .PORTS (2),
        .DATA_W(MAC_W)
    ) tx (
        .clk,
        .rst          (core_rst),
        .stop         (tx_stop),
        .busy         (tx_busy[c]),
        .s_axis_tvalid({c == 0 && mac_valid, answer_valid}),
        .s_axis_tready(tx_ready),
        .s_axis_tdata ({mac_data, answer_data}),
        .s_axis_tkeep ({mac_keep, answer_keep}),
        .s_axis_tlast ({mac_last, answer_last}),
        .m_axis_tvalid(m_axis_tx_tvalid[c]),
        .m_axis_tready(m_axis_tx_tready[c]),
        .m_axis_tdata (m_axis_tx_tdata[c]),
        .m_axis_tkeep (m_axis_tx_tkeep[c]),
        .m_axis_tlast (m_axis_tx_tlast[c])
    );
  end

  // ------------------------------------------------------------------ receive path

  logic owed_valid, owed_ready;
  owed_t owed;
  logic [63:0] sender_next;
  logic rare_valid, rare_ready, command_valid, command_ready, miss_valid, miss_ready;
  logic fill_valid, fill_ready, fill_ok;
  rare_t rare;
  command_t command;
  logic [63:0] miss_vaddr, fill_vaddr, fill_paddr;

  logic path_wr_valid, path_wr_ready, path_wr_last, path_wr_done_valid, path_wr_done_error;
  dma_cmd_t path_wr_cmd;
  logic [DATA_W-1:0] path_wr_data;
  logic [7:0] path_wr_done_tag;

  logic [DEVICES-1:0] path_ev_valid, path_ev_ready, promise;
  logic path_ev_promised;
  logic [31:0] path_ev_start;
  logic [2:0] path_ev_channel;
  event_t path_ev;
  logic [DEVICES-1:0][15:0] room;
  logic [DEVICES-1:0] half_free;

  logic [CHANNELS-1:0] verdict_valid, overflow, refused, profile_valid;
  frame_verdict_e [CHANNELS-1:0] verdict;
  refusal_e [CHANNELS-1:0] refusal;
  profile_t [CHANNELS-1:0] profile, profile_last;
  logic counted, frame_owed, frame_overrun, frame_incomplete, skipped_valid, tlb_hit, tlb_miss, idle;
  logic [CHANNELS:0] untranslated;
  logic [24:0] skipped;
  logic [63:0] last_packet;
  placed_e counted_as;
  logic [15:0] counted_hits;
  logic [7:0] counted_events;
  logic [3:0][31:0] missing;

  receive_path #(
      .CHANNELS    (CHANNELS),
      .FILTERS     (STREAMS),
      .MAX_BUFFERS (MAX_BUFFERS),
      .BUFFER_WORDS(BUFFER_WORDS),
      .TLB_SETS    (TLB_SETS),
      .DATA_W      (DATA_W),
      .DEVICES     (DEVICES)
  ) receive (
      .clk,
      .rst              (core_rst),
      .enable           (running),
      .host,
      .filter,
      .rules,
      .log2_buffers     (regs.log2.buffers.value),
      .log2_devices     (regs.log2.devices.value),
      .base_vaddr       (clop_base),
      .buffer_units     (regs.buffer_bytes.value.value[23:6]),
      .segment_bytes    (regs.segment_bytes.value.value[16:0]),
      .timeout_cycles   (regs.timeout_cycles.value.value),
      .grace_cycles     (regs.grace_cycles.value.value[15:0]),
      .window_frames    (regs.window_frames.value.value[15:0]),
      .packets_mode     (regs.gather.packets_mode.value),
      .packets          (regs.gather.packets.value[12:0]),
      .slot_bytes       (regs.slot_bytes.value.value[16:0]),
      .tlb_enable       (regs.tlb.enable.value),
      .log2_page        (regs.tlb.log2_page.value),
      .tlb_flush        (regs.tlb.flush.value),
      .now              (now_q),
      .s_axis_rx_tvalid (rx_valid),
      .s_axis_rx_tdata  (rx_data),
      .s_axis_rx_tkeep  (rx_keep),
      .s_axis_rx_tlast  (rx_last),
      .s_axis_rx_tuser  (rx_user),
      .m_axis_arp_tvalid(arp_valid),
      .m_axis_arp_tready(arp_ready),
      .m_axis_arp_tdata (arp_data),
      .m_axis_arp_tkeep (arp_keep),
      .m_axis_arp_tlast (arp_last),
      .return_valid,
      .return_index     (return_index[BufferW-1:0]),
      .return_value,
      .owed_valid,
      .owed_ready,
      .owed,
      .sender_next,
      .rare_valid,
      .rare_ready,
      .rare,
      .command_valid,
      .command_ready,
      .command,
      .miss_valid,
      .miss_ready,
      .miss_vaddr,
      .fill_valid,
      .fill_ready,
      .fill_vaddr,
      .fill_paddr,
      .fill_ok,
      .wr_valid         (path_wr_valid),
      .wr_ready         (path_wr_ready),
      .wr_cmd           (path_wr_cmd),
      .wr_data          (path_wr_data),
      .wr_last          (path_wr_last),
      .wr_done_valid    (path_wr_done_valid),
      .wr_done_tag      (path_wr_done_tag),
      .wr_done_error    (path_wr_done_error),
      .ev_valid         (path_ev_valid),
      .ev_ready         (path_ev_ready),
      .ev               (path_ev),
      .ev_promised      (path_ev_promised),
      .ev_start         (path_ev_start),
      .ev_channel       (path_ev_channel),
      .promise,
      .room,
      .half_free,
      .idle,
      .ready            (path_ready),
      .last_packet,
      .verdict_valid,
      .verdict,
      .overflow,
      .refused,
      .refusal,
      .counted,
      .counted_as,
      .counted_hits,
      .counted_events,
      .skipped_valid,
      .skipped,
      .profile_valid,
      .profile,
      .frame_owed,
      .frame_overrun,
      .frame_incomplete,
      .tlb_hit,
      .tlb_miss,
      .untranslated,
      .missing
  );

  // ------------------------------------------------------------------ firmware

  logic [1:0][31:0] burst_report;
  logic [63:0] silence_cycles;
  assign silence_cycles = {
    regs.burst_silence_cycles.high.value.value, regs.burst_silence_cycles.low.value.value
  };

  firmware_port #(
      .DATA_W(DATA_W)
  ) firmware (
      .clk,
      .rst           (core_rst),
      .enable        (running),
      .replay        (regs.window_frames.value.value[15:0] != 0),
      .packets       (regs.gather.packets_mode.value),
      .boards        (regs.rules.boards.value),
      .timeout_cycles(regs.timeout_cycles.value.value),
      .grace_cycles  (regs.grace_cycles.value.value[15:0]),
      .silence_cycles(silence_cycles),
      .pages_base    ({regs.pages_base.high.value.value, regs.pages_base.low.value.value}),
      .pages_count   (regs.pages_count.value.value),
      .clop_base     (clop_base[0]),
      .log2_page     (regs.tlb.log2_page.value),
      .drain         (regs.control.drain.value),
      .now           (now_q),
      .rare_valid,
      .rare_ready,
      .rare,
      .command_valid,
      .command_ready,
      .command,
      .miss_valid,
      .miss_ready,
      .miss_vaddr,
      .fill_valid,
      .fill_ready,
      .fill_vaddr,
      .fill_paddr,
      .fill_ok,
      .last_packet,
      .rd_valid      (m_rd_valid[PortFirmware]),
      .rd_ready      (m_rd_ready[PortFirmware]),
      .rd_cmd        (m_rd_cmd[PortFirmware]),
      .rd_data_valid (m_rd_data_valid[PortFirmware]),
      .rd_data_ready (m_rd_data_ready[PortFirmware]),
      .rd_data       (m_rd_data[PortFirmware]),
      .rd_data_last  (m_rd_data_last[PortFirmware]),
      .rd_data_error (m_rd_data_error[PortFirmware]),
      .fw_request,
      .fw_write,
      .fw_addr,
      .fw_wdata,
      .fw_acknowledge,
      .fw_rdata,
      .fw_interrupt,
      .burst_report
  );

  // ------------------------------------------------------------------ send path

  logic path_rd_valid, path_rd_ready, path_rd_data_valid, path_rd_data_ready;
  dma_cmd_t path_rd_cmd;
  logic [DEVICES-1:0] send_ev_valid, send_ev_ready;
  event_t send_ev;
  logic count_out, count_answered, count_late, count_bad_descriptor, count_after_deadline;
  logic unused_count_read_error;

  send_path #(
      .DATA_W      (DATA_W),
      .MAC_W       (MAC_W),
      .DEVICES     (DEVICES),
      .DESTINATIONS(DESTINATIONS),
      .OWED        (MAX_BUFFERS),
      .REMEMBERED  (MAX_BUFFERS)
  ) send (
      .clk,
      .rst             (core_rst),
      .enable          (running && regs.control.send.value),
      .stream          (regs.stream.value.value),
      .log2_devices    (regs.log2.devices.value),
      .log2_descriptors(regs.log2.descriptors.value),
      .ring_base,
      .send_base,
      .send_bus,
      .send_bytes      (regs.send_bytes.value.value),
      .deadline        ({regs.deadline_cycles.high.value.value[15:0], regs.deadline_cycles.low.value.value}),
      .poll_cycles     (regs.sender_poll_cycles.value.value),
      .late_template   ({regs.late_template.high.value.value, regs.late_template.low.value.value}),
      .late_destination(regs.late_destination.value.value[DestW-1:0]),
      .destinations,
      .source_mac      (host[0].mac),
      .source_ip       (host[0].ip),
      .source_port     (regs.network[0].port.value.value[15:0]),
      .now             (now_q),
      .owed_valid,
      .owed_ready,
      .owed,
      .sender_next,
      .bell_valid,
      .bell_n,
      .rd_valid        (path_rd_valid),
      .rd_ready        (path_rd_ready),
      .rd_cmd          (path_rd_cmd),
      .rd_data_valid   (path_rd_data_valid),
      .rd_data_ready   (path_rd_data_ready),
      .rd_data         (m_rd_data[0]),
      .rd_data_tag     (m_rd_data_tag[0]),
      .rd_data_last    (m_rd_data_last[0]),
      .rd_data_error   (m_rd_data_error[0]),
      .mac_tvalid      (mac_valid),
      .mac_tready      (mac_ready),
      .mac_tdata       (mac_data),
      .mac_tkeep       (mac_keep),
      .mac_tlast       (mac_last),
      .ev_valid        (send_ev_valid),
      .ev_ready        (send_ev_ready),
      .ev              (send_ev),
      .count_out,
      .count_answered,
      .count_late,
      .count_bad_descriptor,
      .count_after_deadline,
      .count_read_error(unused_count_read_error)
  );

  // ------------------------------------------------------------------ events

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
        .active(core_rst || !running || !regs.control.events.value || ev_valid || promise[d] || queue_waits ||
                q_wr_valid[d] || q_rd_data_valid[d]),
        .gated (clk_queue)
    );

    event_join join_events (
        .clk             (clk_queue),
        .rst             (core_rst),
        .stream          (regs.stream.value.value),
        .receive_valid   (path_ev_valid[d]),
        .receive_ready   (path_ev_ready[d]),
        .receive         (path_ev),
        .receive_promised(path_ev_promised),
        .send_valid      (send_ev_valid[d]),
        .send_ready      (send_ev_ready[d]),
        .send            (send_ev),
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
        .rst          (core_rst),
        .enable       (running && regs.control.events.value),
        .queue_base   (queue_base[d]),
        .log2_entries (regs.log2.events.value),
        .finished_addr(finished_addr[d]),
        .poll_cycles  (regs.event_poll_cycles.value.value),
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
    assign m_wr_valid[PortEvents]      = q_wr_valid[0];
    assign q_wr_ready[0]               = m_wr_ready[PortEvents];
    assign m_wr_cmd[PortEvents]        = q_wr_cmd[0];
    assign m_wr_data[PortEvents]       = q_wr_data[0];
    assign m_wr_last[PortEvents]       = q_wr_last[0];
    assign m_rd_valid[PortEvents]      = q_rd_valid[0];
    assign q_rd_ready[0]               = m_rd_ready[PortEvents];
    assign m_rd_cmd[PortEvents]        = q_rd_cmd[0];
    assign q_rd_data_valid[0]          = m_rd_data_valid[PortEvents];
    assign m_rd_data_ready[PortEvents] = q_rd_data_take[0];
    assign q_rd_data[0]                = m_rd_data[PortEvents];
    assign q_rd_data_last[0]           = m_rd_data_last[PortEvents];
    assign q_rd_data_error[0]          = m_rd_data_error[PortEvents];
  end else begin : gen_queues
    dma_cmd_t queues_wr_cmd, queues_rd_cmd;
    logic [DEVICES-1:0] unused_done_valid, unused_done_error;
    logic [DEVICES-1:0][7:0] unused_done_tag, unused_rd_tag;

    dma_arbiter #(
        .PORTS (DEVICES),
        .DATA_W(DATA_W)
    ) merge_queues (
        .clk,
        .rst            (core_rst),
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
        .wr_valid       (m_wr_valid[PortEvents]),
        .wr_ready       (m_wr_ready[PortEvents]),
        .wr_cmd         (queues_wr_cmd),
        .wr_data        (m_wr_data[PortEvents]),
        .wr_last        (m_wr_last[PortEvents]),
        .wr_done_valid  (m_wr_done_valid[PortEvents]),
        .wr_done_tag    (m_wr_done_tag[PortEvents] << PortW),
        .wr_done_error  (m_wr_done_error[PortEvents]),
        .rd_valid       (m_rd_valid[PortEvents]),
        .rd_ready       (m_rd_ready[PortEvents]),
        .rd_cmd         (queues_rd_cmd),
        .rd_data_valid  (m_rd_data_valid[PortEvents]),
        .rd_data_ready  (m_rd_data_ready[PortEvents]),
        .rd_data        (m_rd_data[PortEvents]),
        .rd_data_tag    (m_rd_data_tag[PortEvents] << PortW),
        .rd_data_last   (m_rd_data_last[PortEvents]),
        .rd_data_error  (m_rd_data_error[PortEvents])
    );
    // As with the receive path's arbiter.
    assign m_wr_cmd[PortEvents] = '{addr: queues_wr_cmd.addr, len: queues_wr_cmd.len,
                                    tag: queues_wr_cmd.tag >> PortW};
    assign m_rd_cmd[PortEvents] = '{addr: queues_rd_cmd.addr, len: queues_rd_cmd.len,
                                    tag: queues_rd_cmd.tag >> PortW};
    logic unused;
    assign unused = &{1'b0, unused_done_valid, unused_done_tag, unused_done_error, unused_rd_tag};
  end

  // ------------------------------------------------------------------ memory

  // The receive path's own arbiter has its ports where this one's go: they move down by as many bits.
  assign m_wr_valid[0]      = path_wr_valid;
  assign path_wr_ready      = m_wr_ready[0];
  assign m_wr_cmd[0]        = '{addr: path_wr_cmd.addr, len: path_wr_cmd.len, tag: path_wr_cmd.tag >> PortW};
  assign m_wr_data[0]       = path_wr_data;
  assign m_wr_last[0]       = path_wr_last;
  assign path_wr_done_valid = m_wr_done_valid[0];
  assign path_wr_done_tag   = m_wr_done_tag[0] << PortW;
  assign path_wr_done_error = m_wr_done_error[0];
  assign m_rd_valid[0]      = path_rd_valid;
  assign path_rd_ready      = m_rd_ready[0];
  assign m_rd_cmd[0]        = path_rd_cmd;
  assign path_rd_data_valid = m_rd_data_valid[0];
  assign m_rd_data_ready[0] = path_rd_data_ready;

  assign m_wr_valid[PortFirmware]      = 1'b0;
  assign m_wr_cmd[PortFirmware]        = '0;
  assign m_wr_data[PortFirmware]       = '0;
  assign m_wr_last[PortFirmware]       = 1'b0;

  dma_arbiter #(
      .PORTS (Ports),
      .DATA_W(DATA_W)
  ) merge (
      .clk,
      .rst          (core_rst),
      .m_wr_valid,
      .m_wr_ready,
      .m_wr_cmd,
      .m_wr_data,
      .m_wr_last,
      .m_wr_done_valid,
      .m_wr_done_tag,
      .m_wr_done_error,
      .m_rd_valid,
      .m_rd_ready,
      .m_rd_cmd,
      .m_rd_data_valid,
      .m_rd_data_ready,
      .m_rd_data,
      .m_rd_data_tag,
      .m_rd_data_last,
      .m_rd_data_error,
      .wr_valid     (core_wr_valid),
      .wr_ready     (core_wr_ready),
      .wr_cmd,
      .wr_data,
      .wr_last,
      .wr_done_valid,
      .wr_done_tag,
      .wr_done_error,
      .rd_valid     (core_rd_valid),
      .rd_ready     (core_rd_ready),
      .rd_cmd,
      .rd_data_valid,
      .rd_data_ready(core_rd_data_ready),
      .rd_data,
      .rd_data_tag,
      .rd_data_last,
      .rd_data_error
  );

  // ------------------------------------------------------------------ counters

  card_counters #(
      .CHANNELS    (CHANNELS),
      .STREAMS     (STREAMS),
      .DEVICES     (DEVICES),
      .DESTINATIONS(DESTINATIONS)
  ) counters (
      .clk          (clk_registers),
      .rst,
      .verdict_valid,
      .verdict,
      .overflow,
      .refused,
      .refusal,
      .burst_begun  (command_valid && command_ready && command.op == CommandBurst),
      .counted,
      .counted_as,
      .counted_hits,
      .counted_events,
      .frame_owed,
      .frame_overrun,
      .frame_incomplete,
      .skipped_valid,
      .skipped,
      .tlb_hit,
      .tlb_miss,
      .untranslated,
      .missing,
      .count_out,
      .count_answered,
      .count_late,
      .count_after_deadline,
      .count_bad_descriptor,
      .read_error   (rd_data_valid && rd_data_ready && rd_data_last && rd_data_error),
      .write_error  (wr_done_valid && wr_done_error),
      .unsupported,
      .bus_master,
      .ready,
      .stopped,
      .idle,
      .now          (now_q),
      .sender_next,
      .profile      (profile_last),
      .burst_report,
      .active       (counters_active),
      .hwif_in
  );

  // Timed out: no packet has closed it.
  logic closed_valid;
  assign closed_valid = (path_ev_valid & path_ev_ready) != '0 && path_ev.kind == KindReceiveDone &&
                        (path_ev.flags & FlagTimedOut) == 0;

  latency_samples #(
      .CHANNELS(CHANNELS)
  ) latency (
      .clk,
      .rst,
      .stage        (regs.latency.stage.value),
      .hold         (regs.latency.hold.value),
      .profile_valid,
      .profile,
      .now           (now_q[31:0]),
      .rx_valid,
      .rx_last,
      .closed_valid  (closed_valid),
      .closed_start  (path_ev_start),
      .closed_channel(path_ev_channel),
      .last         (profile_last),
      .sample_valid,
      .sample
  );

  logic unused;
  assign unused = &{1'b0, unused_count_read_error, return_index, m_wr_done_valid, m_wr_done_tag,
                    m_wr_done_error, m_wr_ready, m_rd_data_tag};

endmodule
