// SPDX-License-Identifier: SHL-2.1
// RDMA network interface of a torus node: put ring, GET ring, transmitter, receiver, table of registered
// buffers, translation, messages under way, event queue. All memory accesses use one DMA interface.
module rdma
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_torus_pkg::*;
  import rdma_pkg::*;
#(
    // Words of an input buffer of the router.
    parameter int unsigned DEPTH = 512,
    // Payload words of a receive buffer; 512 or 1024.
    parameter int unsigned RX_DEPTH = 512,
    // Messages under way; a power of two.
    parameter int unsigned MESSAGES = 64,
    // Sets of four pages in the TLB, and of four buffers in the table; a power of two.
    parameter int unsigned SETS = 64
) (
    input logic clk,
    input logic rst,

    /*
     * configuration; card clock; pulses: forget all keys, all pages
     */
    input rdma_cfg_t          cfg,
    input torus_size_t        size,
    input torus_node_t        me,
    input logic        [63:0] now,
    input logic               key_flush,
    input logic               tlb_flush,

    output rdma_counters_t counters,
    output logic           idle,      // no descriptor, GET, reply, event or message is under way

    /*
     * router: packets from the node, packets to the node
     */
    output logic                        out_valid,
    output logic                        out_vc,
    output torus_word_t                 out_word,
    input  logic         [TorusVcs-1:0] out_freed,
    input  logic                        in_valid,
    input  logic                        in_vc,
    input  torus_word_t                 in_word,
    output torus_words_t [TorusVcs-1:0] space,

    /*
     * datagrams to the torus, as in rdma_tx; from it, as in rdma_rx
     */
    input  inject_req_t  datagram_req,
    output logic         datagram_sent,
    input  logic         datagram_in_valid,
    output logic         datagram_in_ready,
    input  logic [127:0] datagram_in_data,
    input  logic         datagram_room,
    output logic         datagram_out_valid,
    input  logic         datagram_out_ready,
    output logic         datagram_out_first,
    output logic         datagram_out_last,
    output logic [127:0] datagram_out_data,

    /*
     * firmware: pages and registered buffers
     */
    output miss_req_t     miss_req,
    input  logic          miss_ready,
    input  fill_req_t     fill_req,
    output logic          fill_ready,
    output key_miss_req_t key_miss_req,
    input  logic          key_miss_ready,
    input  key_fill_req_t key_fill_req,
    output logic          key_fill_ready,

    /*
     * DMA write
     */
    output dma_wr_req_t  wr_req,
    input  dma_wr_rsp_t  wr_rsp,
    output logic [127:0] wr_data,

    /*
     * DMA read
     */
    output dma_rd_req_t  rd_req,
    output logic         rd_data_ready,
    input  dma_rd_rsp_t  rd_rsp,
    input  logic [127:0] rd_data
);

  // Clients of the tables: receiver per VC, then transmitter. DMA masters: receiver per VC, and the others.
  localparam int unsigned Clients = TorusVcs + 1;
  localparam int unsigned Answers = 2 * TorusVcs + 1;
  localparam int unsigned Tx = TorusVcs;
  localparam int unsigned MasterGet = TorusVcs;
  localparam int unsigned MasterPut = TorusVcs + 1;
  localparam int unsigned MasterTx = TorusVcs + 2;
  localparam int unsigned MasterEvents = TorusVcs + 3;
  localparam int unsigned Masters = TorusVcs + 4;

  key_req_t [Clients-1:0] key_req;
  key_rsp_t [Clients-1:0] key_rsp;
  message_req_t [Answers-1:0] message_req;
  message_rsp_t [Answers-1:0] message_rsp;
  get_req_t [TorusVcs-1:0] get_req;
  get_rsp_t [TorusVcs-1:0] get_rsp;
  tlb_req_t [Clients-1:0] tlb_req;
  tlb_rsp_t [Clients-1:0] tlb_rsp;
  open_req_t open_req;
  logic open_done, open_room;
  reply_req_t reply_req;

  dma_wr_req_t [Masters-1:0] m_wr_req;
  dma_wr_rsp_t [Masters-1:0] m_wr_rsp;
  logic [Masters-1:0][127:0] m_wr_data;
  dma_rd_req_t [Masters-1:0] m_rd_req;
  dma_rd_rsp_t [Masters-1:0] m_rd_rsp;
  logic [Masters-1:0] m_rd_data_ready;
  logic [Masters-1:0][127:0] m_rd_data;

  // ---------------------------------------------------------------- receiver

  rdma_event_req_t rx_ev, message_ev, tx_ev;
  logic tx_ev_ready;
  rdma_counters_t rx_counters;

  rdma_rx #(
      .DEPTH(RX_DEPTH)
  ) i_rx (
      .clk,
      .rst,
      .me,
      .slots         (cfg.slots),
      .in_valid,
      .in_vc,
      .in_word,
      .space,
      .key_req       (key_req[TorusVcs-1:0]),
      .key_rsp       (key_rsp[TorusVcs-1:0]),
      .message_req   (message_req[2*TorusVcs-1:0]),
      .message_rsp   (message_rsp[2*TorusVcs-1:0]),
      .get_req,
      .get_rsp,
      .tlb_req       (tlb_req[TorusVcs-1:0]),
      .tlb_rsp       (tlb_rsp[TorusVcs-1:0]),
      .wr_req        (m_wr_req[TorusVcs-1:0]),
      .wr_rsp        (m_wr_rsp[TorusVcs-1:0]),
      .wr_data       (m_wr_data[TorusVcs-1:0]),
      .datagram_room,
      .datagram_valid(datagram_out_valid),
      .datagram_ready(datagram_out_ready),
      .datagram_first(datagram_out_first),
      .datagram_last (datagram_out_last),
      .datagram_data (datagram_out_data),
      .ev_req        (rx_ev),
      .ev_ready      (1'b1),
      .reply_req,
      .reply_ready   (1'b1),
      .counters      (rx_counters)
  );

  // ---------------------------------------------------------------- transmitter, rings

  logic put_valid, put_ready, get_valid, get_ready;
  put_descriptor_t put;
  get_entry_t get;
  logic [3:0] in_ring_index;
  logic [127:0] in_ring_word;
  logic reply_lost, bad_descriptor, read_error;
  logic put_unreadable, get_unreadable, put_empty, get_empty, tx_idle, no_message;

  rdma_put_ring i_put (
      .clk,
      .rst,
      .enable       (cfg.enable),
      .base         (cfg.put_base),
      .log2_entries (cfg.log2_puts),
      .posted       (cfg.put_posted),
      .poll_cycles  (cfg.poll_cycles),
      .empty        (put_empty),
      .out_valid    (put_valid),
      .out_ready    (put_ready),
      .out          (put),
      .out_unreadable(put_unreadable),
      .in_ring_index,
      .in_ring_word,
      .rd_req       (m_rd_req[MasterPut]),
      .rd_data_ready(m_rd_data_ready[MasterPut]),
      .rd_rsp       (m_rd_rsp[MasterPut]),
      .rd_data      (m_rd_data[MasterPut])
  );

  rdma_get #(
      .CLIENTS(TorusVcs)
  ) i_get (
      .clk,
      .rst,
      .enable       (cfg.enable),
      .base         (cfg.get_base),
      .log2_entries (cfg.log2_gets),
      .empty        (get_empty),
      .get_req,
      .get_rsp,
      .out_valid    (get_valid),
      .out_ready    (get_ready),
      .out_entry    (get),
      .out_unreadable(get_unreadable),
      .wr_req       (m_wr_req[MasterGet]),
      .wr_rsp       (m_wr_rsp[MasterGet]),
      .wr_data      (m_wr_data[MasterGet]),
      .rd_req       (m_rd_req[MasterGet]),
      .rd_data_ready(m_rd_data_ready[MasterGet]),
      .rd_rsp       (m_rd_rsp[MasterGet]),
      .rd_data      (m_rd_data[MasterGet])
  );

  rdma_tx #(
      .DEPTH(DEPTH)
  ) i_tx (
      .clk,
      .rst,
      .size,
      .me,
      .port          (cfg.intra),
      .idle          (tx_idle),
      .put_valid,
      .put_ready,
      .put,
      .put_unreadable,
      .in_ring_index,
      .in_ring_word,
      .get_valid,
      .get_ready,
      .get,
      .get_unreadable,
      .key_req       (key_req[Tx]),
      .key_rsp       (key_rsp[Tx]),
      .open_req,
      .open_done,
      .open_room,
      .message_req   (message_req[Answers-1]),
      .message_rsp   (message_rsp[Answers-1]),
      .tlb_req       (tlb_req[Tx]),
      .tlb_rsp       (tlb_rsp[Tx]),
      .rd_req        (m_rd_req[MasterTx]),
      .rd_data_ready (m_rd_data_ready[MasterTx]),
      .rd_rsp        (m_rd_rsp[MasterTx]),
      .rd_data       (m_rd_data[MasterTx]),
      .reply_req,
      .datagram_req,
      .datagram_sent,
      .datagram_valid(datagram_in_valid),
      .datagram_ready(datagram_in_ready),
      .datagram_data (datagram_in_data),
      .out_valid,
      .out_vc,
      .out_word,
      .out_freed,
      .ev_req        (tx_ev),
      .ev_ready      (tx_ev_ready),
      .reply_lost,
      .bad_descriptor,
      .read_error
  );

  // ---------------------------------------------------------------- tables

  rdma_keys #(
      .CLIENTS(Clients),
      .SETS   (SETS)
  ) i_keys (
      .clk,
      .rst,
      .log2_granule(cfg.log2_granule),
      .flush       (key_flush),
      .key_req,
      .key_rsp,
      .key_miss_req,
      .key_miss_ready,
      .key_fill_req,
      .key_fill_ready
  );

  rdma_messages #(
      .ENTRIES(MESSAGES),
      .CLIENTS(Answers)
  ) i_messages (
      .clk,
      .rst     (rst || !cfg.enable),
      .now     (now[31:0]),
      .timeout (cfg.timeout),
      .port    (cfg.intra),
      .open_req,
      .open_done,
      .message_req,
      .message_rsp,
      .open_room,
      .idle    (no_message),
      .ev_req  (message_ev),
      .ev_ready(!rx_ev.valid)
  );

  logic [Clients-1:0] tlb_valid, tlb_ready, tlb_resp;
  logic [Clients-1:0][63:0] tlb_vaddr;
  logic tlb_ok, unused_hit, unused_miss;
  logic [63:0] tlb_paddr;
  for (genvar c = 0; c < int'(Clients); c++) begin : gen_client
    assign tlb_valid[c] = tlb_req[c].valid;
    assign tlb_vaddr[c] = tlb_req[c].vaddr;
    assign tlb_rsp[c]   = '{
            ready: tlb_ready[c],
            resp_valid: tlb_resp[c],
            resp_ok: tlb_ok,
            resp_paddr: tlb_paddr
        };
  end

  tlb #(
      .CLIENTS(Clients),
      .SETS   (SETS)
  ) i_tlb (
      .clk,
      .rst,
      .enable    (1'b1),
      .log2_page (cfg.log2_page),
      .flush     (tlb_flush),
      .req_valid (tlb_valid),
      .req_ready (tlb_ready),
      .req_vaddr (tlb_vaddr),
      .resp_valid(tlb_resp),
      .resp_ok   (tlb_ok),
      .resp_paddr(tlb_paddr),
      .miss_req,
      .miss_ready,
      .fill_req,
      .fill_ready,
      .hit       (unused_hit),
      .miss      (unused_miss)
  );

  // ---------------------------------------------------------------- events

  // Receiver and messages never wait for the queue; the transmitter does. A disabled queue discards.
  event_t ev_in, ev;
  logic ev_put, ev_room, ev_valid, ev_ready, unused_half, unused_waits;
  logic [6:0] unused_ev_level;
  logic [15:0] unused_room;

  always_comb begin
    ev_in       = rx_ev.valid ? rx_ev.item : message_ev.valid ? message_ev.item : tx_ev.item;
    ev_in.stamp = now;
  end
  assign idle        = put_empty && get_empty && tx_idle && no_message && !ev_valid && !ev_put;
  assign ev_put      = rx_ev.valid || message_ev.valid || tx_ev.valid;
  assign tx_ev_ready = !rx_ev.valid && !message_ev.valid && ev_room;

  fifo #(
      .WIDTH($bits(event_t)),
      .DEPTH(64)
  ) events (
      .clk,
      .rst,
      .in_valid (ev_put),
      .in_ready (ev_room),
      .in_data  (ev_in),
      .out_valid(ev_valid),
      .out_ready(ev_ready || !cfg.enable),
      .out_data (ev),
      .level    (unused_ev_level)
  );

  event_queue #(
      .DATA_W(128)
  ) i_events (
      .clk,
      .rst,
      .enable       (cfg.enable),
      .queue_base   (cfg.event_base),
      .log2_entries (cfg.log2_events),
      .finished_addr(cfg.finished_addr),
      .poll_cycles  (cfg.poll_cycles),
      .ev_valid,
      .ev_ready,
      .ev,
      .ev_promised  (1'b0),
      .promise      (1'b0),
      .room         (unused_room),
      .half_free    (unused_half),
      .waits        (unused_waits),
      .wr_req       (m_wr_req[MasterEvents]),
      .wr_rsp       (m_wr_rsp[MasterEvents]),
      .wr_data      (m_wr_data[MasterEvents]),
      .rd_req       (m_rd_req[MasterEvents]),
      .rd_data_ready(m_rd_data_ready[MasterEvents]),
      .rd_rsp       (m_rd_rsp[MasterEvents]),
      .rd_data      (m_rd_data[MasterEvents])
  );

  // ---------------------------------------------------------------- memory

  assign m_wr_req[MasterPut]  = '0;
  assign m_wr_req[MasterTx]   = '0;
  assign m_wr_data[MasterPut] = '0;
  assign m_wr_data[MasterTx]  = '0;
  for (genvar v = 0; v < int'(TorusVcs); v++) begin : gen_no_read
    assign m_rd_req[v]        = '0;
    assign m_rd_data_ready[v] = 1'b1;
  end

  dma_arbiter #(
      .PORTS (Masters),
      .DATA_W(128)
  ) i_arbiter (
      .clk,
      .rst,
      .m_wr_req,
      .m_wr_rsp,
      .m_wr_data,
      .m_rd_req,
      .m_rd_data_ready,
      .m_rd_rsp,
      .m_rd_data,
      .wr_req,
      .wr_rsp,
      .wr_data,
      .rd_req,
      .rd_data_ready,
      .rd_rsp,
      .rd_data
  );

  // ---------------------------------------------------------------- counters

  logic [31:0] replies_lost_q, events_lost_q, bad_descriptors_q, read_errors_q;
  always_comb begin
    counters                 = rx_counters;
    counters.replies_lost    = replies_lost_q;
    counters.events_lost     = events_lost_q;
    counters.bad_descriptors = bad_descriptors_q;
    counters.read_errors     = read_errors_q;
  end
  always_ff @(posedge clk) begin
    replies_lost_q    <= replies_lost_q + 32'(reply_lost);
    events_lost_q     <= events_lost_q + 32'((rx_ev.valid || message_ev.valid) && !ev_room);
    bad_descriptors_q <= bad_descriptors_q + 32'(bad_descriptor);
    read_errors_q     <= read_errors_q + 32'(read_error);
    if (rst) begin
      replies_lost_q    <= '0;
      events_lost_q     <= '0;
      bad_descriptors_q <= '0;
      read_errors_q     <= '0;
    end
  end

  logic unused;
  assign unused = &{1'b0, m_wr_rsp[MasterPut], m_wr_rsp[MasterTx], m_rd_rsp[0], m_rd_rsp[1], m_rd_data[0],
                    m_rd_data[1], rx_counters.replies_lost, rx_counters.events_lost,
                    rx_counters.bad_descriptors, rx_counters.read_errors, 1'b0};

endmodule
