// SPDX-License-Identifier: SHL-2.1
// Register interface of the microcontroller (doc/firmware.md): slow-path packet, page miss, commands,
// translations, clock, alarm, and reads of 8 B from the page list in host memory.
module firmware_port
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // Width of the DMA data in bits, at least 64.
    parameter int unsigned DATA_W = 256,
    // Depth of the command queue; a power of two. One request causes at most 13 commands, so 32 entries never
    // fill up and the firmware never waits for the card.
    parameter int unsigned COMMANDS = 32
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, steady while enabled; enabling resets the firmware's state
     */
    input logic        enable,
    input logic        replay,          // frames close by number instead of by clock
    input logic        packets,         // gather mode
    input logic [3:0]  boards,          // 0: one merged stream
    input logic [31:0] timeout_cycles,  // 0: no timeout
    input logic [15:0] grace_cycles,
    input logic [63:0] silence_cycles,  // 0: no end of burst by silence
    input logic [63:0] pages_base,      // bus address of the page list, 8 B per page
    input logic [31:0] pages_count,
    input logic [63:0] clop_base,       // virtual address of the first page
    input logic [4:0]  log2_page,
    input logic        drain,           // rising edge: no further packets
    input logic [63:0] now,

    /*
     * receive path: FIFO REQ and FIFO RESP
     */
    input  slowpath_req_t slowpath_req,
    output logic          slowpath_ready,
    output command_req_t  command_req,
    input  logic          command_ready,
    input  miss_req_t     miss_req,
    output logic          miss_ready,
    output fill_req_t     fill_req,
    input  logic          fill_ready,
    input  logic [63:0]   last_packet,     // card clock, newest packet of the current burst

    /*
     * DMA read
     */
    output dma_rd_req_t       rd_req,
    output logic              rd_data_ready,
    input  dma_rd_rsp_t       rd_rsp,
    input  logic [DATA_W-1:0] rd_data,

    /*
     * microcontroller: a request stays until it is acknowledged, for one cycle
     */
    input  fw_req_t    fw_req,
    input  logic [7:0] fw_addr,
    output fw_rsp_t    fw_rsp,
    output logic       fw_interrupt,  // a request is pending

    /*
     * firmware report on the current burst (0) and the older one (1)
     */
    output logic [1:0][31:0] burst_report
);

  if (DATA_W < 64) begin : gen_check_width
    $fatal(1, "DATA_W must be at least 64 (%m)");
  end
  if ($bits(mgp_header_t) != 128) begin : gen_check_header
    $fatal(1, "an MGP header has 16 bytes (%m)");
  end

  localparam logic [31:0] Magic = 32'h3157464E;

  // Same values as in firmware/nanet_fw.h.
  typedef enum logic [7:0] {
    AddrId          = 8'h00,
    AddrStatus      = 8'h04,
    AddrConfig      = 8'h08,
    AddrTimeout     = 8'h0C,
    AddrGrace       = 8'h10,
    AddrSilence     = 8'h14,
    AddrSilenceHigh = 8'h18,
    AddrNow         = 8'h1C,
    AddrNowHigh     = 8'h20,
    AddrLast        = 8'h24,
    AddrLastHigh    = 8'h28,
    AddrAlarm       = 8'h2C,
    AddrAlarmHigh   = 8'h30,
    AddrReport      = 8'h34,
    AddrReportOld   = 8'h38,
    AddrSlowpath        = 8'h40,
    AddrStamp       = 8'h44,
    AddrHeader0     = 8'h48,
    AddrHeader1     = 8'h4C,
    AddrHeader2     = 8'h50,
    AddrHeader3     = 8'h54,
    AddrMiss        = 8'h60,
    AddrMissHigh    = 8'h64,
    AddrFill        = 8'h68,
    AddrFillHigh    = 8'h6C,
    AddrFilled      = 8'h70,
    AddrFetch       = 8'h74,
    AddrFetchHigh   = 8'h78,
    AddrFetched     = 8'h7C,
    AddrFetchedHigh = 8'h80,
    AddrClop        = 8'h84,
    AddrClopHigh    = 8'h88,
    AddrPages       = 8'h8C,
    AddrPagesHigh   = 8'h90,
    AddrCount       = 8'h94,
    AddrFrame       = 8'hA0,
    AddrNumber      = 8'hA4,
    AddrCommand     = 8'hA8
  } addr_e;

  // ------------------------------------------------------------------ pending requests

  logic enable_q, start_q, drain_q, drain_due_q;
  logic slowpath_q_valid_q, miss_q_valid_q;
  slowpath_t slowpath_q;
  logic [63:0] miss_q;
  logic live;  // firmware writes belong to the current run

  assign live           = enable && !start_q;
  assign slowpath_ready = enable && !slowpath_q_valid_q;
  assign miss_ready     = enable && !miss_q_valid_q;

  // ------------------------------------------------------------------ bus

  logic access, stall, write;
  command_t command_in;
  logic command_push, command_room;
  logic [23:0] command_frame_q;
  logic [31:0] command_number_q;
  logic [63:0] alarm_q, fetch_q, fetched_q;
  logic alarm_armed_q, alarm_above_q, alarm_equal_q, alarm_low_q, alarm_due_q;
  logic [1:0] alarm_settle_q;
  logic fetch_ask_q, fetch_busy_q, fetch_failed_q;
  logic [31:0] now_high_q, last_high_q;
  logic [63:0] fill_q;

  always_comb begin
    stall = 1'b0;
    if (fw_req.write && fw_addr == AddrFilled) stall = fill_req.valid;
    if (fw_req.write && fw_addr == AddrCommand) stall = !command_room;
    if (fw_req.write && fw_addr == AddrFetchHigh) stall = fetch_busy_q;
  end
  assign access = fw_req.request && !fw_rsp.acknowledge && !stall;
  assign write  = access && fw_req.write;

  assign command_in = '{op: command_e'(fw_req.wdata[3:0]), old: fw_req.wdata[4], flag: fw_req.wdata[5],
                        board: fw_req.wdata[7:6], channel: fw_req.wdata[10:8],
                        as: placed_e'(fw_req.wdata[15:12]),
                        frame: command_frame_q, sequence_number: command_number_q};
  assign command_push = write && fw_addr == AddrCommand && live;

  logic [$clog2(COMMANDS):0] level;
  fifo #(
      .WIDTH($bits(command_t)),
      .DEPTH(COMMANDS)
  ) commands (
      .clk,
      .rst      (rst || !live),
      .in_valid (command_push),
      .in_ready (command_room),
      .in_data  (command_in),
      .out_valid(command_req.valid),
      .out_ready(command_ready),
      .out_data (command_req.item),
      .level
  );

  // The alarm waits for earlier commands, so that `last_packet` belongs to the burst in the firmware's state.
  // Draining waits for the packets.
  logic [31:0] status;
  logic drain_now, alarm_now;
  assign drain_now = drain_due_q && !slowpath_q_valid_q && !slowpath_req.valid;
  assign alarm_now = alarm_due_q && level == 0 && !command_req.valid;
  assign status = {22'd0, fetch_failed_q, fetch_busy_q, 3'd0, drain_now, alarm_now, miss_q_valid_q,
                   slowpath_q_valid_q, start_q};

  always_ff @(posedge clk) begin
    fw_rsp.acknowledge <= access;
    fw_interrupt   <= start_q || slowpath_q_valid_q || miss_q_valid_q || alarm_now || drain_now;
    if (access) begin
      unique case (fw_addr)
        AddrId:          fw_rsp.rdata <= Magic;
        AddrStatus:      fw_rsp.rdata <= status;
        AddrConfig:      fw_rsp.rdata <= {19'd0, log2_page, 2'd0, packets, replay, boards};
        AddrTimeout:     fw_rsp.rdata <= timeout_cycles;
        AddrGrace:       fw_rsp.rdata <= {16'd0, grace_cycles};
        AddrSilence:     fw_rsp.rdata <= silence_cycles[31:0];
        AddrSilenceHigh: fw_rsp.rdata <= silence_cycles[63:32];
        AddrNow: begin
          fw_rsp.rdata   <= now[31:0];
          now_high_q <= now[63:32];
        end
        AddrNowHigh:     fw_rsp.rdata <= now_high_q;
        AddrLast: begin
          fw_rsp.rdata    <= last_packet[31:0];
          last_high_q <= last_packet[63:32];
        end
        AddrLastHigh:    fw_rsp.rdata <= last_high_q;
        AddrReport:      fw_rsp.rdata <= burst_report[0];
        AddrReportOld:   fw_rsp.rdata <= burst_report[1];
        AddrSlowpath:    fw_rsp.rdata <= {13'd0, slowpath_q.channel, 4'd0, slowpath_q.old_active,
                                      slowpath_q.active, slowpath_q.ordinary, slowpath_q.old,
                                      slowpath_q.reason};
        AddrStamp:       fw_rsp.rdata <= slowpath_q.stamp;
        AddrHeader0:     fw_rsp.rdata <= slowpath_q.header[31:0];
        AddrHeader1:     fw_rsp.rdata <= slowpath_q.header[63:32];
        AddrHeader2:     fw_rsp.rdata <= slowpath_q.header[95:64];
        AddrHeader3:     fw_rsp.rdata <= slowpath_q.header[127:96];
        AddrMiss:        fw_rsp.rdata <= miss_q[31:0];
        AddrMissHigh:    fw_rsp.rdata <= miss_q[63:32];
        AddrFetched:     fw_rsp.rdata <= fetched_q[31:0];
        AddrFetchedHigh: fw_rsp.rdata <= fetched_q[63:32];
        AddrClop:        fw_rsp.rdata <= clop_base[31:0];
        AddrClopHigh:    fw_rsp.rdata <= clop_base[63:32];
        AddrPages:       fw_rsp.rdata <= pages_base[31:0];
        AddrPagesHigh:   fw_rsp.rdata <= pages_base[63:32];
        AddrCount:       fw_rsp.rdata <= pages_count;
        default:         fw_rsp.rdata <= '0;
      endcase
    end
    // Accesses are answered in reset too: the bus may be shared with other, running streams.
    if (rst) fw_interrupt <= 1'b0;
  end

  // ------------------------------------------------------------------ firmware writes

  always_ff @(posedge clk) begin
    enable_q <= enable;
    drain_q  <= drain;
    if (slowpath_req.valid && slowpath_ready) begin
      slowpath_q         <= slowpath_req.item;
      slowpath_q_valid_q <= 1'b1;
    end
    if (miss_req.valid && miss_ready) begin
      miss_q         <= miss_req.vaddr;
      miss_q_valid_q <= 1'b1;
    end
    if (fill_ready) fill_req.valid <= 1'b0;
    if (drain && !drain_q) drain_due_q <= 1'b1;

    if (write) begin
      unique case (fw_addr)
        AddrStatus: begin
          if (fw_req.wdata[0]) start_q <= 1'b0;
          if (fw_req.wdata[3]) alarm_armed_q <= 1'b0;
          if (fw_req.wdata[4]) drain_due_q <= 1'b0;
        end
        AddrAlarm: begin
          alarm_q[31:0] <= fw_req.wdata;
          alarm_armed_q <= 1'b0;
        end
        AddrAlarmHigh: begin
          alarm_q[63:32] <= fw_req.wdata;
          alarm_armed_q  <= 1'b1;
        end
        AddrReport:    if (live) burst_report[0] <= fw_req.wdata;
        AddrReportOld: if (live) burst_report[1] <= fw_req.wdata;
        AddrFill:      fill_q[31:0] <= fw_req.wdata;
        AddrFillHigh:  fill_q[63:32] <= fw_req.wdata;
        AddrFilled:
        if (live && miss_q_valid_q) begin
          fill_req.valid     <= 1'b1;
          fill_req.vaddr     <= miss_q;
          fill_req.paddr     <= fill_q;
          fill_req.ok        <= fw_req.wdata[0];
          miss_q_valid_q <= 1'b0;
        end
        AddrFrame:     command_frame_q <= fw_req.wdata[23:0];
        AddrNumber:    command_number_q <= fw_req.wdata;
        AddrCommand:   if (live && command_in.op == CommandAnswer) slowpath_q_valid_q <= 1'b0;
        default: ;
      endcase
    end

    // The 64-bit comparison takes two cycles; results for the old alarm time are ignored.
    alarm_above_q  <= now[63:32] > alarm_q[63:32];
    alarm_equal_q  <= now[63:32] == alarm_q[63:32];
    alarm_low_q    <= now[31:0] >= alarm_q[31:0];
    alarm_settle_q <= {alarm_settle_q[0], alarm_armed_q};
    alarm_due_q    <= alarm_settle_q[1] && (alarm_above_q || (alarm_equal_q && alarm_low_q));
    if (write && (fw_addr == AddrStatus || fw_addr == AddrAlarm || fw_addr == AddrAlarmHigh)) begin
      alarm_settle_q <= '0;
      alarm_due_q    <= 1'b0;
    end

    if (enable && !enable_q) begin
      start_q       <= 1'b1;
      alarm_armed_q <= 1'b0;
      drain_due_q   <= drain && !drain_q;
      burst_report  <= '0;
    end
    if (!enable) begin
      slowpath_q_valid_q <= 1'b0;
      miss_q_valid_q     <= 1'b0;
      fill_req.valid         <= 1'b0;
      drain_due_q        <= 1'b0;
      alarm_armed_q      <= 1'b0;
      alarm_settle_q     <= '0;
      alarm_due_q        <= 1'b0;
    end
    if (rst) begin
      enable_q           <= 1'b0;
      drain_q            <= 1'b0;
      start_q            <= 1'b0;
      slowpath_q_valid_q <= 1'b0;
      miss_q_valid_q     <= 1'b0;
      fill_req.valid         <= 1'b0;
      drain_due_q        <= 1'b0;
      alarm_armed_q      <= 1'b0;
      alarm_settle_q     <= '0;
      alarm_due_q        <= 1'b0;
      burst_report       <= '0;
    end
  end

  // ------------------------------------------------------------------ reads from host memory

  assign rd_req.valid      = fetch_ask_q;
  assign rd_req.cmd        = '{addr: fetch_q, len: 16'd8, tag: 8'd0};
  assign rd_data_ready = !rst;

  always_ff @(posedge clk) begin
    if (write && fw_addr == AddrFetch) fetch_q[31:0] <= fw_req.wdata;
    if (write && fw_addr == AddrFetchHigh) begin
      fetch_q[63:32] <= fw_req.wdata;
      fetch_ask_q    <= 1'b1;
      fetch_busy_q   <= 1'b1;
    end
    if (rd_req.valid && rd_rsp.ready) fetch_ask_q <= 1'b0;
    if (rd_rsp.data_valid && rd_rsp.data_last) begin
      fetched_q      <= rd_data[63:0];
      fetch_failed_q <= rd_rsp.data_error;
      fetch_busy_q   <= 1'b0;
    end
    if (rst) begin
      fetch_ask_q    <= 1'b0;
      fetch_busy_q   <= 1'b0;
      fetch_failed_q <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, rd_data};

  logic unused_rd_rsp;
  assign unused_rd_rsp = &{1'b0, rd_rsp.data_tag};

endmodule
