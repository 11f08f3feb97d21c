// SPDX-License-Identifier: SHL-2.1
// One stream of the card: filters, receive path, firmware port, send path, event queues and registers.
// MACs, microcontroller and memory are shared with the other streams.
module nanet_stream
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_ttc_pkg::*;
  import nanet_regs_pkg::nanet_regs__in_t;
  import nanet_regs_pkg::nanet_regs__out_t;
#(
    // Number of this stream, and number of streams of the card.
    parameter int unsigned STREAM = 0,
    parameter int unsigned STREAMS = 1,
    // MACs; like the next three, at most as many as the register map has.
    parameter int unsigned CHANNELS = 2,
    // Filters of the stream.
    parameter int unsigned FILTERS = 2,
    // Consumer devices: a power of two. Registers set the number in use.
    parameter int unsigned DEVICES = 1,
    // UDP endpoints selectable by descriptors.
    parameter int unsigned DESTINATIONS = 4,
    // Total number of CLOP buffers, and of send-ring descriptors, of all devices; a power of two,
    // at most 8192.
    parameter int unsigned MAX_BUFFERS = 8192,
    // Width of the MAC streams in bits: 64 (10 GbE) or 8 (1 GbE).
    parameter int unsigned MAC_W = 64,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Channel buffer in words of 128 bits; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // Sets of four pages in the TLB; a power of two.
    parameter int unsigned TLB_SETS = 64,
    // 1: with merging of the boards; at least two channels.
    parameter bit MERGE = 1'b0,
    // 1: with the final trigger; DATA_W 256.
    parameter bit FINAL = 1'b0,
    // 1: frames arrive in the MACs' clocks. 0: in `clk`.
    parameter bit MAC_CLOCKS = 1'b0
) (
    input logic clk,
    input logic rst,

    /*
     * receive clocks of the MACs, used with MAC_CLOCKS
     */
    input logic [CHANNELS-1:0] mac_rx_clk,
    input logic [CHANNELS-1:0] mac_rx_rst,

    /*
     * frames from the MACs, the same for all streams
     */
    input logic [CHANNELS-1:0]       s_axis_rx_tvalid,
    input logic [CHANNELS-1:0][63:0] s_axis_rx_tdata,
    input logic [CHANNELS-1:0][7:0]  s_axis_rx_tkeep,
    input logic [CHANNELS-1:0]       s_axis_rx_tlast,
    input logic [CHANNELS-1:0]       s_axis_rx_tuser,

    /*
     * ARP replies assigned to this stream
     */
    output host_t [CHANNELS-1:0]      host,
    output logic                      taking,             // frames are accepted
    input  logic [CHANNELS-1:0]       arp_answers,
    output logic [CHANNELS-1:0]       m_axis_arp_tvalid,
    input  logic [CHANNELS-1:0]       m_axis_arp_tready,
    output logic [CHANNELS-1:0][63:0] m_axis_arp_tdata,
    output logic [CHANNELS-1:0][7:0]  m_axis_arp_tkeep,
    output logic [CHANNELS-1:0]       m_axis_arp_tlast,

    /*
     * frames of the send path, to channel 0
     */
    output logic               m_axis_send_tvalid,
    input  logic               m_axis_send_tready,
    output logic [MAC_W-1:0]   m_axis_send_tdata,
    output logic [MAC_W/8-1:0] m_axis_send_tkeep,
    output logic               m_axis_send_tlast,

    /*
     * MACs: block new frames of this stream; frame in progress; discard queued frames
     */
    output logic                tx_stop,
    input  logic [CHANNELS-1:0] tx_busy,
    output logic                core_rst,

    /*
     * register bus: a request stays until it is acknowledged
     */
    input  reg_req_t    reg_req,
    input  logic [16:0] reg_addr,
    output reg_rsp_t    reg_rsp,

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
    input  logic [DATA_W-1:0] rd_data,

    /*
     * microcontroller bus: a request stays until it is acknowledged; interrupt: request pending
     */
    input  fw_req_t    fw_req,
    input  logic [7:0] fw_addr,
    output fw_rsp_t    fw_rsp,
    output logic       fw_interrupt,

    /*
     * from the PCIe side: bus mastering enabled; pulse: unsupported request
     */
    input logic bus_master,
    input logic unsupported,

    /*
     * final trigger: see stream_trigger
     */
    input  logic [3:0]  ttc_samples,
    output logic        trigger_valid,
    output logic [5:0]  trigger_kind,
    output logic [31:0] trigger_timestamp
);

  localparam int unsigned BufferW = $clog2(MAX_BUFFERS);
  localparam int unsigned DestW = $clog2(DESTINATIONS);
  // Memory masters: receive path, send path, event queues and firmware. The event queues are merged first,
  // because the sender's tags have no spare bit for more ports.
  localparam int unsigned Ports = 3;
  localparam int unsigned PortW = $clog2(Ports);
  localparam int unsigned PortEvents = 1;
  localparam int unsigned PortFirmware = 2;

  if (FILTERS > nanet_regs_pkg::FILTERS || DEVICES > nanet_regs_pkg::DEVICES) begin : gen_check_registers
    $fatal(1, "the registers have fewer filters or devices (%m)");
  end
  if (DESTINATIONS > nanet_regs_pkg::DESTINATIONS || MAX_BUFFERS > 8192) begin : gen_check_tables
    $fatal(1, "the registers have fewer destinations or return slots (%m)");
  end
  if (2 ** $clog2(DEVICES) != DEVICES) begin : gen_check_devices
    $fatal(1, "DEVICES must be a power of two (%m)");
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
      .active(rst || reg_req.request || counters_active),
      .gated (clk_registers)
  );

  reg_req_t block_req;
  reg_rsp_t block_rsp;

  register_block #(
      .ADDR_W(17)
  ) registers (
      .clk_fields(clk_registers),
      .reg_req   (block_req),
      .reg_rsp   (block_rsp),
      .hwif_out  (regs),
      .*
  );

  always_ff @(posedge clk) begin
    now_q <= now_q + 64'd1;
    if (rst) now_q <= '0;
  end

  filter_t [FILTERS-1:0] filter;
  mgp_rules_t rules;
  endpoint_t [DESTINATIONS-1:0] destinations;
  logic [DEVICES-1:0][63:0] clop_base, queue_base, finished_addr, ring_base, send_base, send_bus;

  stream_config #(
      .CHANNELS    (CHANNELS),
      .FILTERS     (FILTERS),
      .DEVICES     (DEVICES),
      .DESTINATIONS(DESTINATIONS)
  ) settings (
      .*
  );

  // ------------------------------------------------------------------ start and stop

  logic ready, path_ready, running, stopped, wr_pass, rd_pass;
  logic [CHANNELS-1:0] rx_take, rx_valid;
  dma_wr_req_t core_wr_req;
  dma_wr_rsp_t core_wr_rsp;
  dma_rd_req_t core_rd_req;
  logic core_rd_data_ready;
  dma_rd_rsp_t core_rd_rsp;

  card_run #(
      .CHANNELS    (CHANNELS),
      .CLEAR_CYCLES(MAX_BUFFERS + 64)
  ) run (
      .on           (regs.control.receive.value || regs.control.send.value || regs.control.events.value),
      .receive      (regs.control.receive.value),
      .cleared      (path_ready),
      // With MAC_CLOCKS, receive_mac selects whole frames.
      .rx_tvalid    (MAC_CLOCKS ? '0 : s_axis_rx_tvalid),
      .rx_tlast     (MAC_CLOCKS ? '0 : s_axis_rx_tlast),
      .wr_valid_in  (core_wr_req.valid),
      .wr_ready     (wr_rsp.ready),
      .wr_last      (wr_req.last),
      .wr_done_valid(wr_rsp.done_valid),
      .rd_valid_in  (core_rd_req.valid),
      .rd_ready     (rd_rsp.ready),
      .rd_data_valid(rd_rsp.data_valid),
      .rd_data_ready(rd_data_ready),
      .rd_data_last (rd_rsp.data_last),
      .*
  );

  assign taking        = ready && regs.control.receive.value;
  assign rx_valid      = MAC_CLOCKS ? s_axis_rx_tvalid : s_axis_rx_tvalid & rx_take;
  always_comb begin
    wr_req = core_wr_req;
    wr_req.valid = core_wr_req.valid && wr_pass;
    core_wr_rsp = wr_rsp;
    core_wr_rsp.ready = wr_rsp.ready && wr_pass;
  end
  // Read responses to a stopping stream are discarded: it sends no further frames.
  assign rd_data_ready = core_rd_data_ready || !running;
  always_comb begin
    rd_req = core_rd_req;
    rd_req.valid = core_rd_req.valid && rd_pass;
    core_rd_rsp = rd_rsp;
    core_rd_rsp.ready = rd_rsp.ready && rd_pass;
  end

  // Memory masters.
  dma_wr_req_t [Ports-1:0] m_wr_req;
  dma_wr_rsp_t [Ports-1:0] m_wr_rsp;
  dma_rd_req_t [Ports-1:0] m_rd_req;
  logic [Ports-1:0] m_rd_data_ready;
  logic [Ports-1:0][DATA_W-1:0] m_wr_data;
  dma_rd_rsp_t [Ports-1:0] m_rd_rsp;
  logic [Ports-1:0][DATA_W-1:0] m_rd_data;

  // ------------------------------------------------------------------ receive path

  tx_pending_req_t tx_pending_req;
  logic tx_pending_ready;
  logic [63:0] sender_next;
  slowpath_req_t slowpath_req;
  command_req_t command_req;
  miss_req_t miss_req;
  logic slowpath_ready, command_ready, miss_ready;
  fill_req_t fill_req;
  logic fill_ready;

  dma_wr_req_t path_wr_req;
  dma_wr_rsp_t path_wr_rsp;
  logic [DATA_W-1:0] path_wr_data;

  logic [DEVICES-1:0] path_ev_valid, path_ev_ready, promise;
  event_req_t path_ev_req;
  logic [DEVICES-1:0][15:0] room;
  logic [DEVICES-1:0] half_free;

  logic [CHANNELS-1:0] verdict_valid, overflow, refused, profile_valid;
  frame_verdict_e [CHANNELS-1:0] verdict;
  refusal_e [CHANNELS-1:0] refusal;
  profile_t [CHANNELS-1:0] profile, profile_last;
  frame_cnt_t cnt;
  logic tlb_hit, tlb_miss, idle;
  logic [CHANNELS:0] untranslated;
  logic [63:0] last_packet;
  logic [CHANNELS-1:0][$clog2(BUFFER_WORDS):0] unused_torus_level;
  ttc_stamp_t ttc_stamp;
  logic [CHANNELS-1:0] frame_valid;
  logic [CHANNELS-1:0][31:0] frame_start, frame_end;

  receive_path #(
      .CHANNELS    (CHANNELS),
      .FILTERS     (FILTERS),
      .MAX_BUFFERS (MAX_BUFFERS),
      .BUFFER_WORDS(BUFFER_WORDS),
      .TLB_SETS    (TLB_SETS),
      .DATA_W      (DATA_W),
      .DEVICES     (DEVICES),
      .MERGE       (MERGE),
      .MAC_CLOCKS  (MAC_CLOCKS)
  ) receive (
      .mac_clk         (mac_rx_clk),
      .mac_rst         (mac_rx_rst),
      .take            (taking),
      .rst             (core_rst),
      .enable          (running),
      .cfg             ('{
          log2_buffers: regs.log2.buffers.value,
          log2_devices: regs.log2.devices.value,
          buffer_units: regs.buffer_bytes.value.value[23:6],
          segment_bytes: regs.segment_bytes.value.value[16:0],
          timeout_cycles: regs.timeout_cycles.value.value,
          grace_cycles: regs.grace_cycles.value.value[15:0],
          window_frames: regs.window_frames.value.value[15:0],
          packets_mode: regs.gather.packets_mode.value,
          packets: regs.gather.packets.value[12:0],
          slot_bytes: regs.slot_bytes.value.value[16:0],
          merge: regs.merge.enable.value,
          merge_window: regs.merge.window.value
      }),
      .base_vaddr      (clop_base),
      .tlb_enable      (regs.tlb.enable.value),
      .log2_page       (regs.tlb.log2_page.value),
      .tlb_flush       (regs.tlb.flush.value),
      .now             (now_q),
      .s_axis_rx_tvalid(rx_valid),
      .torus_req       ('0),
      .torus_level     (unused_torus_level),
      .return_index    (return_index[BufferW-1:0]),
      .wr_req          (path_wr_req),
      .wr_rsp          (path_wr_rsp),
      .wr_data         (path_wr_data),
      .ev_valid        (path_ev_valid),
      .ev_ready        (path_ev_ready),
      .ev_req          (path_ev_req),
      .ready           (path_ready),
      .*
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
      .rd_req        (m_rd_req[PortFirmware]),
      .rd_data_ready (m_rd_data_ready[PortFirmware]),
      .rd_rsp        (m_rd_rsp[PortFirmware]),
      .rd_data       (m_rd_data[PortFirmware]),
      .*
  );

  // ------------------------------------------------------------------ send path

  logic [DEVICES-1:0] send_ev_valid, send_ev_ready;
  event_t send_ev;
  send_cnt_t count_cnt;
  logic word_valid, sent, discarded, overdue_valid;
  logic [23:0] overdue_frame;
  logic [DATA_W-1:0] word;
  logic [$clog2(DATA_W/8):0] word_bytes;

  send_path #(
      .DATA_W      (DATA_W),
      .MAC_W       (MAC_W),
      .DEVICES     (DEVICES),
      .DESTINATIONS(DESTINATIONS),
      .TX_PENDING  (MAX_BUFFERS),
      .REMEMBERED  (MAX_BUFFERS)
  ) send (
      .rst             (core_rst),
      .enable          (running && regs.control.send.value),
      .cfg             ('{
          stream: regs.stream.value.value,
          log2_devices: regs.log2.devices.value,
          log2_descriptors: regs.log2.descriptors.value,
          send_bytes: regs.send_bytes.value.value,
          deadline: {regs.deadline_cycles.high.value.value[15:0], regs.deadline_cycles.low.value.value},
          poll_cycles: regs.sender_poll_cycles.value.value,
          late_template: {regs.late_template.high.value.value, regs.late_template.low.value.value}
      }),
      .late_destination(regs.late_destination.value.value[DestW-1:0]),
      .source_cfg      ('{
          mac: host[0].mac,
          ip: host[0].ip,
          port: regs.network[0].port.value.value[15:0]
      }),
      .now          (now_q),
      .rd_req       (m_rd_req[0]),
      .rd_data_ready(m_rd_data_ready[0]),
      .rd_rsp       (m_rd_rsp[0]),
      .rd_data      (m_rd_data[0]),
      .mac_tvalid   (m_axis_send_tvalid),
      .mac_tready   (m_axis_send_tready),
      .mac_tdata    (m_axis_send_tdata),
      .mac_tkeep    (m_axis_send_tkeep),
      .mac_tlast    (m_axis_send_tlast),
      .ev_valid     (send_ev_valid),
      .ev_ready     (send_ev_ready),
      .ev           (send_ev),
      .*
  );

  // ------------------------------------------------------------------ events

  dma_wr_req_t events_wr_req;

  event_queues #(
      .DEVICES(DEVICES),
      .DATA_W (DATA_W),
      .FREE   (PortW)
  ) events (
      .rst             (core_rst),
      .enable          (running && regs.control.events.value),
      .stream          (regs.stream.value.value),
      .log2_entries    (regs.log2.events.value),
      .poll_cycles     (regs.event_poll_cycles.value.value),
      .receive_valid   (path_ev_valid),
      .receive_ready   (path_ev_ready),
      .receive         (path_ev_req.item),
      .receive_promised(path_ev_req.promised),
      .send_valid      (send_ev_valid),
      .send_ready      (send_ev_ready),
      .send            (send_ev),
      .wr_req          (events_wr_req),
      .wr_rsp          (m_wr_rsp[PortEvents]),
      .wr_data         (m_wr_data[PortEvents]),
      .rd_req          (m_rd_req[PortEvents]),
      .rd_data_ready   (m_rd_data_ready[PortEvents]),
      .rd_rsp          (m_rd_rsp[PortEvents]),
      .rd_data         (m_rd_data[PortEvents]),
      .*
  );

  // ------------------------------------------------------------------ final trigger

  if (FINAL) begin : gen_final
    // Registers at 0x1000 to 0x1FFF.
    logic here, clk_trigger, enabled_q;
    reg_req_t trigger_req;
    reg_rsp_t trigger_rsp;

    if (DATA_W != 256) begin : gen_check_words
      $fatal(1, "FINAL needs DATA_W 256 (%m)");
    end

    assign here = reg_req.bar == 3'd0 && reg_addr[16:12] == 5'd1;
    always_comb begin
      block_req           = reg_req;
      block_req.request   = reg_req.request && !here;
      trigger_req         = reg_req;
      trigger_req.request = reg_req.request && here;
    end
    assign reg_rsp = here ? trigger_rsp : block_rsp;

    // Bit 0 of the first register: the unit runs.
    always_ff @(posedge clk) begin
      if (trigger_req.request && reg_req.write && reg_addr[11:2] == '0) enabled_q <= reg_req.wdata[0];
      if (rst) enabled_q <= 1'b0;
    end
    clock_gate #(
        .HOLD(8)
    ) trigger_clock (
        .clk,
        .active(rst || enabled_q || trigger_req.request),
        .gated (clk_trigger)
    );

    stream_trigger i_trigger (
        .clk         (clk_trigger),
        .reg_req     (trigger_req),
        .reg_addr    (reg_addr[11:0]),
        .reg_rsp     (trigger_rsp),
        .burst_begins(path_ev_valid[0] && path_ev_ready[0] && path_ev_req.item.kind == KindBurstBegins),
        .burst_number(path_ev_req.item.frame[7:0]),
        .burst_base  ({path_ev_req.item.bytes, path_ev_req.item.buffer}),
        .packet_placed(cnt.counted && cnt.counted_as == PlacedUsed && !regs.gather.packets_mode.value),
        .packet_burst(cnt.counted_burst),
        .packet_frame(cnt.counted_frame),
        .*
    );
  end else begin : gen_no_final
    assign block_req         = reg_req;
    assign reg_rsp           = block_rsp;
    assign ttc_stamp         = '0;
    assign overdue_valid     = 1'b0;
    assign overdue_frame     = '0;
    assign trigger_valid     = 1'b0;
    assign trigger_kind      = '0;
    assign trigger_timestamp = '0;
    logic unused_tap;
    assign unused_tap = &{1'b0, word_valid, word, word_bytes, sent, discarded, ttc_samples};
  end

  // ------------------------------------------------------------------ memory

  // The downstream arbiter uses the tag bits of the receive path's arbiter; shift its port number down.
  always_comb begin
    m_wr_req = '0;
    m_wr_req[0] = path_wr_req;
    m_wr_req[0].cmd.tag = path_wr_req.cmd.tag >> PortW;
    m_wr_req[PortEvents] = events_wr_req;
    path_wr_rsp = m_wr_rsp[0];
    path_wr_rsp.done_tag = m_wr_rsp[0].done_tag << PortW;
  end
  assign m_wr_data[0]            = path_wr_data;
  assign m_wr_data[PortFirmware] = '0;

  dma_arbiter #(
      .PORTS (Ports),
      .DATA_W(DATA_W)
  ) stream_requests (
      .rst          (core_rst),
      .wr_req       (core_wr_req),
      .wr_rsp       (core_wr_rsp),
      .rd_req       (core_rd_req),
      .rd_data_ready(core_rd_data_ready),
      .rd_rsp       (core_rd_rsp),
      .*
  );

  // ------------------------------------------------------------------ counters

  card_counters #(
      .CHANNELS    (CHANNELS),
      .FILTERS     (FILTERS),
      .DEVICES     (DEVICES),
      .DESTINATIONS(DESTINATIONS),
      .MERGE       (MERGE),
      .STREAMS     (STREAMS),
      .STREAM      (STREAM)
  ) counters (
      .clk        (clk_registers),
      .burst_begun(command_req.valid && command_ready && command_req.item.op == CommandBurst),
      .read_error (rd_rsp.data_valid && rd_data_ready && rd_rsp.data_last && rd_rsp.data_error),
      .write_error(wr_rsp.done_valid && wr_rsp.done_error),
      .now        (now_q),
      .profile    (profile_last),
      .active     (counters_active),
      .*
  );

  // Timed out: not closed by a packet.
  logic closed_valid;
  assign closed_valid = (path_ev_valid & path_ev_ready) != '0 && path_ev_req.item.kind == KindReceiveDone &&
                        (path_ev_req.item.flags & FlagTimedOut) == 0;

  latency_samples #(
      .CHANNELS(CHANNELS),
      .TIMES   (MAC_CLOCKS)
  ) latency (
      .stage         (regs.latency.stage.value),
      .hold          (regs.latency.hold.value),
      .now           (now_q[31:0]),
      .rx_last       (s_axis_rx_tlast),
      .closed_valid  (closed_valid),
      .closed_start  (path_ev_req.start),
      .closed_channel(path_ev_req.channel),
      .last          (profile_last),
      .*
  );

  logic unused;
  assign unused = &{1'b0, return_index, m_wr_rsp, m_rd_rsp, unused_torus_level};

endmodule
