// SPDX-License-Identifier: SHL-2.1
// Card top between MACs, microcontroller and host memory: independent streams that share these interfaces
// (doc/architecture.md).
module nanet_card
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // MACs; like filters, devices and destinations, at most as many as the register map has.
    parameter int unsigned CHANNELS = 2,
    // Streams, at most 15: each has separate filters, receive buffers, events, answers and registers.
    parameter int unsigned STREAMS = 1,
    // Filters of each stream.
    parameter int unsigned FILTERS = 2,
    // Consumer devices of each stream: a power of two. Registers set the number in use.
    parameter int unsigned DEVICES = 1,
    // UDP endpoints of each stream, selectable by descriptors.
    parameter int unsigned DESTINATIONS = 4,
    // Per stream: total number of CLOP buffers, and of send-ring descriptors, of all devices; a power of two,
    // at most 8192.
    parameter int unsigned MAX_BUFFERS = 8192,
    // Width of the MAC streams in bits: 64 (10 GbE) or 8 (1 GbE).
    parameter int unsigned MAC_W = 64,
    // Width of the DMA data in bits; 256.
    parameter int unsigned DATA_W = 256,
    // Channel buffer of each stream in words of 128 bits; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024,
    // Sets of four pages in the TLB of each stream; a power of two.
    parameter int unsigned TLB_SETS = 64,
    // 1: with merging of the boards; at least two MACs.
    parameter bit MERGE = 1'b0,
    // 1: stream 0 has the final trigger.
    parameter bit FINAL = 1'b0,
    // 1: received frames have separate clocks; the streams receive them there. 0: they use `clk`.
    parameter bit MAC_CLOCKS = 1'b0,
    // Width of a register byte address on the bus: 64 kB per stream, and at least 17.
    parameter int unsigned ADDR_W = STREAMS < 3 ? 17 : 16 + $clog2(STREAMS)
) (
    input logic clk,
    input logic rst,

    /*
     * clocks and resets of the received frames, used with MAC_CLOCKS
     */
    input logic [CHANNELS-1:0] mac_rx_clk,
    input logic [CHANNELS-1:0] mac_rx_rst,

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
     * register bus: a request stays until it is acknowledged; stream s begins at s * 64 kB
     */
    input  reg_req_t          reg_req,
    input  logic [ADDR_W-1:0] reg_addr,
    output reg_rsp_t          reg_rsp,

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
     * microcontroller bus: a request stays until it is acknowledged; stream s begins at s * 256; interrupt:
     * request of the stream pending
     */
    input  fw_req_t                    fw_req,
    input  logic [7+$clog2(STREAMS):0] fw_addr,
    output fw_rsp_t                    fw_rsp,
    output logic [STREAMS-1:0]         fw_interrupt,

    /*
     * from the PCIe side: bus mastering enabled; pulse: unsupported request
     */
    input logic bus_master,
    input logic unsupported,

    /*
     * final trigger of stream 0: see stream_trigger
     */
    input  logic [3:0]  ttc_samples,
    output logic        trigger_valid,
    output logic [5:0]  trigger_kind,
    output logic [31:0] trigger_timestamp
);

  if (STREAMS < 1 || STREAMS > 15) begin : gen_check_streams
    $fatal(1, "STREAMS must be 1 to 15 (%m)");
  end
  if (ADDR_W < 17 || ADDR_W < 16 + $clog2(STREAMS)) begin : gen_check_address
    $fatal(1, "ADDR_W must hold 64 kB for each stream, and be at least 17 (%m)");
  end

  // ------------------------------------------------------------------ MACs

  // Per channel.
  logic [CHANNELS-1:0] rx_tvalid, rx_tlast, rx_tuser;
  logic [CHANNELS-1:0][63:0] rx_tdata;
  logic [CHANNELS-1:0][7:0] rx_tkeep;
  // Per stream and channel.
  logic [STREAMS-1:0][CHANNELS-1:0] arp_tvalid, arp_tready, arp_tlast, tx_busy, arp_answers;
  logic [STREAMS-1:0][CHANNELS-1:0][63:0] arp_tdata;
  logic [STREAMS-1:0][CHANNELS-1:0][7:0] arp_tkeep;
  host_t [STREAMS-1:0][CHANNELS-1:0] host;
  // Per stream.
  logic [STREAMS-1:0] send_tvalid, send_tready, send_tlast, core_rst, tx_stop, taking;
  logic [STREAMS-1:0][MAC_W-1:0] send_tdata;
  logic [STREAMS-1:0][MAC_W/8-1:0] send_tkeep;

  for (genvar c = 0; c < int'(CHANNELS); c++) begin : gen_mac
    logic [STREAMS-1:0] busy, answer_tvalid, answer_tready, answer_tlast, own_tready;
    logic [STREAMS-1:0][63:0] answer_tdata;
    logic [STREAMS-1:0][7:0] answer_tkeep;

    for (genvar s = 0; s < int'(STREAMS); s++) begin : gen_stream
      assign tx_busy[s][c]    = busy[s];
      assign answer_tvalid[s] = arp_tvalid[s][c];
      assign arp_tready[s][c] = answer_tready[s];
      assign answer_tdata[s]  = arp_tdata[s][c];
      assign answer_tkeep[s]  = arp_tkeep[s][c];
      assign answer_tlast[s]  = arp_tlast[s][c];
    end

    mac_port #(
        .STREAMS(STREAMS),
        .MAC_W  (MAC_W)
    ) port (
        .clk,
        .rst,
        .rx_clk          (MAC_CLOCKS ? mac_rx_clk[c] : clk),
        .rx_rst          (MAC_CLOCKS ? mac_rx_rst[c] : rst),
        .s_axis_rx_tvalid(s_axis_rx_tvalid[c]),
        .s_axis_rx_tdata (s_axis_rx_tdata[c]),
        .s_axis_rx_tkeep (s_axis_rx_tkeep[c]),
        .s_axis_rx_tlast (s_axis_rx_tlast[c]),
        .s_axis_rx_tuser (s_axis_rx_tuser[c]),
        .m_axis_rx_tvalid(rx_tvalid[c]),
        .m_axis_rx_tdata (rx_tdata[c]),
        .m_axis_rx_tkeep (rx_tkeep[c]),
        .m_axis_rx_tlast (rx_tlast[c]),
        .m_axis_rx_tuser (rx_tuser[c]),
        .stream_rst      (core_rst),
        .stop            (tx_stop),
        .busy,
        .s_axis_arp_tvalid (answer_tvalid),
        .s_axis_arp_tready (answer_tready),
        .s_axis_arp_tdata  (answer_tdata),
        .s_axis_arp_tkeep  (answer_tkeep),
        .s_axis_arp_tlast  (answer_tlast),
        .s_axis_send_tvalid(c == 0 ? send_tvalid : '0),
        .s_axis_send_tready(own_tready),
        .s_axis_send_tdata (send_tdata),
        .s_axis_send_tkeep (send_tkeep),
        .s_axis_send_tlast (send_tlast),
        .m_axis_tx_tvalid  (m_axis_tx_tvalid[c]),
        .m_axis_tx_tready  (m_axis_tx_tready[c]),
        .m_axis_tx_tdata   (m_axis_tx_tdata[c]),
        .m_axis_tx_tkeep   (m_axis_tx_tkeep[c]),
        .m_axis_tx_tlast   (m_axis_tx_tlast[c])
    );

    // Channel 0 also carries the frames of the send paths.
    if (c == 0) begin : gen_sends
      assign send_tready = own_tready;
    end else begin : gen_answers
      logic unused;
      assign unused = &{1'b0, own_tready};
    end
  end

  // An ARP request gets one reply, from the first stream that has the address and accepts frames.
  always_comb begin
    arp_answers = '1;
    for (int unsigned s = 1; s < STREAMS; s++) begin
      for (int unsigned r = 0; r < s; r++) begin
        for (int unsigned c = 0; c < CHANNELS; c++) begin
          if (taking[r] && host[r][c].ip == host[s][c].ip) arp_answers[s][c] = 1'b0;
        end
      end
    end
  end

  // ------------------------------------------------------------------ registers and microcontroller

  // Addresses beyond the last stream go to stream 0, which returns 0.
  logic [STREAMS-1:0] reg_request_in, reg_acks, fw_accesses, fw_acks;
  logic [STREAMS-1:0][31:0] reg_values, fw_values;
  logic reg_beyond;

  assign reg_beyond      = 32'(reg_addr[ADDR_W-1:16]) >= STREAMS;
  assign reg_rsp.acknowledge = reg_acks != '0;
  if (STREAMS == 1) begin : gen_one
    assign reg_request_in = reg_req.request;
    assign fw_accesses    = fw_req.request;
    assign reg_rsp.rdata      = reg_values[0];
    assign fw_rsp.rdata       = fw_values[0];
    assign fw_rsp.acknowledge = fw_acks[0];
  end else begin : gen_windows
    logic [$clog2(STREAMS)-1:0] fw_stream;
    assign fw_stream      = fw_addr[7+$clog2(STREAMS):8];
    assign fw_rsp.acknowledge = fw_acks != '0 || fw_req.request && 32'(fw_stream) >= STREAMS;
    always_comb begin
      reg_request_in = '0;
      fw_accesses    = '0;
      reg_rsp.rdata      = '0;
      fw_rsp.rdata       = '0;
      for (int unsigned s = 0; s < STREAMS; s++) begin
        reg_request_in[s] = reg_req.request && (reg_beyond ? s == 0 : 32'(reg_addr[ADDR_W-1:16]) == s);
        fw_accesses[s]    = fw_req.request && 32'(fw_stream) == s;
        if (reg_acks[s]) reg_rsp.rdata = reg_rsp.rdata | reg_values[s];
        if (fw_acks[s]) fw_rsp.rdata = fw_rsp.rdata | fw_values[s];
      end
    end
  end

  // ------------------------------------------------------------------ streams

  dma_wr_req_t [STREAMS-1:0] s_wr_req;
  dma_wr_rsp_t [STREAMS-1:0] s_wr_rsp;
  dma_rd_req_t [STREAMS-1:0] s_rd_req;
  logic [STREAMS-1:0] s_rd_data_ready;
  dma_rd_rsp_t [STREAMS-1:0] s_rd_rsp;
  logic [STREAMS-1:0][DATA_W-1:0] s_wr_data;
  logic [DATA_W-1:0] s_rd_data;
  logic [STREAMS-1:0] stream_valid;
  logic [STREAMS-1:0][5:0] stream_kind;
  logic [STREAMS-1:0][31:0] stream_timestamp;

  for (genvar s = 0; s < int'(STREAMS); s++) begin : gen_stream
    fw_rsp_t stream_fw_rsp;
    assign fw_acks[s] = stream_fw_rsp.acknowledge;
    assign fw_values[s] = stream_fw_rsp.rdata;
    reg_rsp_t stream_reg_rsp;
    assign reg_acks[s] = stream_reg_rsp.acknowledge;
    assign reg_values[s] = stream_reg_rsp.rdata;
    nanet_stream #(
        .STREAM      (s),
        .STREAMS     (STREAMS),
        .CHANNELS    (CHANNELS),
        .FILTERS     (FILTERS),
        .DEVICES     (DEVICES),
        .DESTINATIONS(DESTINATIONS),
        .MAX_BUFFERS (MAX_BUFFERS),
        .MAC_W       (MAC_W),
        .DATA_W      (DATA_W),
        .BUFFER_WORDS(BUFFER_WORDS),
        .TLB_SETS    (TLB_SETS),
        .MERGE       (MERGE),
        .FINAL       (FINAL && s == 0),
        .MAC_CLOCKS  (MAC_CLOCKS)
    ) stream (
        .s_axis_rx_tvalid  (rx_tvalid),
        .s_axis_rx_tdata   (rx_tdata),
        .s_axis_rx_tkeep   (rx_tkeep),
        .s_axis_rx_tlast   (rx_tlast),
        .s_axis_rx_tuser   (rx_tuser),
        .host              (host[s]),
        .taking            (taking[s]),
        .arp_answers       (arp_answers[s]),
        .m_axis_arp_tvalid (arp_tvalid[s]),
        .m_axis_arp_tready (arp_tready[s]),
        .m_axis_arp_tdata  (arp_tdata[s]),
        .m_axis_arp_tkeep  (arp_tkeep[s]),
        .m_axis_arp_tlast  (arp_tlast[s]),
        .m_axis_send_tvalid(send_tvalid[s]),
        .m_axis_send_tready(send_tready[s]),
        .m_axis_send_tdata (send_tdata[s]),
        .m_axis_send_tkeep (send_tkeep[s]),
        .m_axis_send_tlast (send_tlast[s]),
        .tx_stop           (tx_stop[s]),
        .tx_busy           (tx_busy[s]),
        .core_rst          (core_rst[s]),
        .reg_req           ('{
            request: reg_request_in[s],
            write: reg_req.write,
            bar: reg_req.bar,
            wdata: reg_req.wdata,
            enable: reg_req.enable
        }),
        .reg_addr     ({reg_beyond, reg_addr[15:0]}),
        .reg_rsp      (stream_reg_rsp),
        .wr_req       (s_wr_req[s]),
        .wr_rsp       (s_wr_rsp[s]),
        .wr_data      (s_wr_data[s]),
        .rd_req       (s_rd_req[s]),
        .rd_data_ready(s_rd_data_ready[s]),
        .rd_rsp       (s_rd_rsp[s]),
        .rd_data      (s_rd_data),
        .fw_req       ('{request: fw_accesses[s], write: fw_req.write, wdata: fw_req.wdata}),
        .fw_addr      (fw_addr[7:0]),
        .fw_rsp       (stream_fw_rsp),
        .fw_interrupt (fw_interrupt[s]),
        .unsupported  (s == 0 && unsupported),
        .trigger_valid    (stream_valid[s]),
        .trigger_kind     (stream_kind[s]),
        .trigger_timestamp(stream_timestamp[s]),
        .*
    );
  end

  assign trigger_valid     = stream_valid[0];
  assign trigger_kind      = stream_kind[0];
  assign trigger_timestamp = stream_timestamp[0];
  if (STREAMS > 1) begin : gen_one_trigger
    logic unused_triggers;
    assign unused_triggers = &{1'b0, stream_valid, stream_kind, stream_timestamp};
  end

  dma_streams #(
      .STREAMS(STREAMS),
      .DATA_W (DATA_W)
  ) merge (
      .*
  );

endmodule
