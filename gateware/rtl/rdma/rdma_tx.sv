// SPDX-License-Identifier: SHL-2.1
// RDMA transmitter of a node; cuts messages of put ring and GET ring into packets, and injects these,
// replies and datagrams with credit. A descriptor with a fault ends with a `failed` event, and so does a
// message without DONE whose payload cannot be read; unreadable GET data end with a NACK behind them.
module rdma_tx
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_torus_pkg::*;
  import rdma_pkg::*;
#(
    // Words of an input buffer of the router.
    parameter int unsigned DEPTH = 512,
    // DONE and NACK that can wait; a power of two.
    parameter int unsigned REPLIES = 256
) (
    input logic clk,
    input logic rst,

    /*
     * configuration
     */
    input torus_size_t       size,
    input torus_node_t       me,
    input logic        [3:0] port,
    output logic             idle,  // nothing waits but posted descriptors

    /*
     * descriptors of rdma_put_ring, entries of rdma_get
     */
    input  logic                    put_valid,
    output logic                    put_ready,
    input  put_descriptor_t         put,
    input  logic                    put_unreadable,
    output logic            [  3:0] in_ring_index,
    input  logic            [127:0] in_ring_word,
    input  logic                    get_valid,
    output logic                    get_ready,
    input  get_entry_t              get,
    input  logic                    get_unreadable,

    /*
     * tables
     */
    output key_req_t     key_req,
    input  key_rsp_t     key_rsp,
    output open_req_t    open_req,
    input  logic         open_done,
    input  logic         open_room,
    output message_req_t message_req,
    input  message_rsp_t message_rsp,
    output tlb_req_t     tlb_req,
    input  tlb_rsp_t     tlb_rsp,

    /*
     * DMA read
     */
    output dma_rd_req_t  rd_req,
    output logic         rd_data_ready,
    input  dma_rd_rsp_t  rd_rsp,
    input  logic [127:0] rd_data,

    /*
     * DONE and NACK of the receiver, always accepted; datagrams
     */
    input  reply_req_t   reply_req,
    input  inject_req_t  datagram_req,
    output logic         datagram_sent,
    input  logic         datagram_valid,
    output logic         datagram_ready,
    input  logic [127:0] datagram_data,

    /*
     * router
     */
    output logic                       out_valid,
    output logic                       out_vc,
    output torus_word_t                out_word,
    input  logic        [TorusVcs-1:0] out_freed,

    /*
     * events; pulses: a reply was lost, a descriptor refused, a packet or an entry of a ring not read
     */
    output rdma_event_req_t ev_req,
    input  logic            ev_ready,
    output logic            reply_lost,
    output logic            bad_descriptor,
    output logic            read_error
);

  // ---------------------------------------------------------------- messages

  typedef enum logic [3:0] {
    StateIdle,
    StateCheck,
    StateKey,
    StateOpen,
    StateCut,
    StateGather,
    StatePush,
    StateFail,
    StateCancel,
    StateNack,
    StateEvent,
    StateNext
  } state_e;
  state_e state_q;
  outgoing_t message_q, from_put, from_get;
  logic turn_q, opened_q;
  reason_e reason_q, fault;
  logic [31:0] left_q;          // bytes of the message
  logic [47:0] to_q, from_q;    // addresses of the next packet
  logic [12:0] room_q, bytes_q; // of the packet
  logic first_q, last_q;
  logic is_get, in_place, answered, put_taken, gather_busy;

  // Faults of a descriptor, in registers: they are wide.
  logic outside_q, wraps_q, long_q, kind_q, port_q, local_q, unreadable_q;

  assign from_put = '{
          from_get: 1'b0,
          in_ring: put.in_ring,
          completed: put.completed,
          notify: put.notify && put.kind != 8'(PacketGet),
          ack: put.ack && put.kind != 8'(PacketGet),
          kind: put.kind,
          node: put.node,
          intra: put.port[3:0],
          channel: put.remote_domain,
          address: put.kind == 8'(PacketSend) ? '0 : put.remote_address[47:0],
          local_domain: put.local_domain,
          local_address: put.local_address[47:0],
          bytes: put.bytes,
          message: put.message,
          immediate: put.immediate
      };
  assign from_get = '{
          from_get: 1'b1,
          in_ring: 1'b0,
          completed: 1'b0,
          notify: 1'b0,
          ack: 1'b0,
          kind: 8'(PacketGetData),
          node: get.node,
          intra: get.port,
          channel: get.reply_domain,
          address: get.reply_address,
          local_domain: get.domain,
          local_address: get.address,
          bytes: get.bytes,
          message: get.message,
          immediate: '0
      };
  assign is_get    = message_q.kind == 8'(PacketGet);
  assign answered  = put.ack || put.kind == 8'(PacketGet);
  // A message that finds the table full does not hold up the GETs of other nodes.
  assign put_taken = state_q == StateIdle && put_valid && (open_room || !answered) && (!turn_q || !get_valid);
  // Inline payload and the word of a GET remain until they are gathered; other descriptors are copied.
  assign in_place  = message_q.in_ring || is_get;
  assign put_ready = put_taken && !put.in_ring ||
                     state_q == StateNext && !message_q.from_get && message_q.in_ring && !gather_busy;
  assign get_ready = state_q == StateNext && message_q.from_get;

  always_comb begin
    fault = ReasonNone;
    if (unreadable_q) fault = ReasonUnreadable;
    else if (kind_q) fault = ReasonBadType;
    else if (long_q) fault = ReasonBadLength;
    else if (outside_q) fault = ReasonOutOfLattice;
    else if (port_q) fault = ReasonBadPort;
    else if (wraps_q || local_q) fault = ReasonOutOfRange;
  end

  assign key_req  = '{
          valid: state_q == StateKey,
          domain: message_q.local_domain,
          address: message_q.local_address,
          bytes: message_q.bytes
      };
  assign open_req = '{
          valid: state_q == StateOpen,
          kind: message_q.kind[4:0],
          completed: message_q.completed,
          message: message_q.message,
          node: message_q.node,
          domain: message_q.channel,
          local_domain: message_q.local_domain,
          local_address: message_q.local_address,
          bytes: message_q.bytes
      };
  assign message_req = '{
          valid: state_q == StateCancel,
          op: MessageFail,
          get: 1'b0,
          any: 1'b1,
          message: message_q.message,
          node: message_q.node,
          domain: '0,
          address: '0,
          bytes: '0,
          reason: reason_q
      };

  // ---------------------------------------------------------------- payload

  gather_req_t gather_req;
  gather_rsp_t gather_rsp;
  logic payload_valid, payload_ready, unused_payload_last, payload_bad;
  logic [127:0] payload, gather_word;
  torus_extension_t extension;
  logic [3:0] gather_index;

  assign extension     = '{
          zero: '0,
          bytes: message_q.bytes,
          channel: message_q.local_domain,
          address: message_q.local_address
      };
  assign in_ring_index = gather_index;
  assign gather_word   = is_get ? extension : in_ring_word;
  assign gather_req    = '{
          valid: state_q == StateGather,
          in_ring: is_get || message_q.in_ring,
          domain: message_q.local_domain,
          address: is_get ? '0 : from_q,
          bytes: is_get ? 13'd16 : bytes_q
      };

  rdma_gather i_gather (
      .clk,
      .rst,
      .gather_req,
      .gather_rsp,
      .in_ring_index(gather_index),
      .in_ring_word (gather_word),
      .busy         (gather_busy),
      .tlb_req,
      .tlb_rsp,
      .rd_req,
      .rd_data_ready,
      .rd_rsp,
      .rd_data,
      .out_valid    (payload_valid),
      .out_ready    (payload_ready),
      .out_data     (payload),
      .out_last     (unused_payload_last),
      .out_bad      (payload_bad)
  );

  // ---------------------------------------------------------------- packets

  typedef struct packed {
    inject_req_t packet;
    logic        first;   // of the message
    logic        single;  // last of a put ring message without DONE: it ends once it is sent
    logic        ends;    // then with a `completed` event
    logic [31:0] bytes;   // of the message
    logic [15:0] domain;  // of GET data
  } queued_t;
  queued_t queued_in, queued;
  logic queue_ready, queue_valid, queue_empty;
  logic [2:0] queue_level, sent;

  assign queued_in = '{
          packet: '{
              valid: 1'b1,
              vc: message_q.from_get,
              words: is_get ? 9'd1 : 9'((bytes_q + 13'd15) >> 4),
              header: '{
                  ecc: '0,
                  hops: '0,
                  address: to_q,
                  length: is_get ? 14'd16 : 14'(bytes_q),
                  header_only: 1'b0,
                  kind: message_q.kind[3:0],
                  outside: 1'b0,
                  reserved: 1'b0,
                  intra: message_q.intra,
                  z: message_q.node.z,
                  y: message_q.node.y,
                  x: message_q.node.x,
                  channel: message_q.channel,
                  last_hop: TorusInject[4],
                  vc: TorusInject[3:0]
              },
              footer: '{
                  crc: '0,
                  immediate: message_q.immediate,
                  zero_flags: '0,
                  ack: message_q.ack,
                  notify: message_q.notify,
                  last: last_q,
                  crc_present: 1'b1,
                  zero: '0,
                  source_intra: port,
                  source: me,
                  message: message_q.message
              }
          },
          first: first_q,
          single: last_q && !message_q.from_get && !opened_q,
          ends: last_q && message_q.completed && !opened_q,
          bytes: message_q.bytes,
          domain: message_q.local_domain
      };
  assign queue_empty = !queue_valid && queue_level == 0;

  fifo #(
      .WIDTH($bits(queued_t)),
      .DEPTH(4)
  ) queue (
      .clk,
      .rst,
      .in_valid (state_q == StatePush),
      .in_ready (queue_ready),
      .in_data  (queued_in),
      .out_valid(queue_valid),
      .out_ready(sent[0]),
      .out_data (queued),
      .level    (queue_level)
  );

  // ---------------------------------------------------------------- state

  logic sent_event_q, nack_q, data_fail, entry_error_q, data_error_q, put_spoiled;
  event_t failed_event, sent_event, sent_event_d;

  always_ff @(posedge clk) begin
    bad_descriptor <= 1'b0;
    entry_error_q  <= 1'b0;
    unique case (state_q)
      StateIdle: begin
        opened_q <= 1'b0;
        if (put_taken) begin
          turn_q    <= 1'b1;
          message_q <= from_put;
          state_q   <= StateCheck;
        end else if (get_valid) begin
          turn_q    <= 1'b0;
          message_q <= from_get;
          state_q   <= StateCheck;
        end
        unreadable_q <= put_taken ? put_unreadable : get_unreadable;
        kind_q <= put.kind != 8'(PacketPut) && put.kind != 8'(PacketSend) && put.kind != 8'(PacketGet);
        port_q <= put.port[7:4] != 0;
        local_q <= put.local_address[63:48] != 0 && !put.in_ring;
        wraps_q <= put.kind != 8'(PacketSend) &&
                   (put.remote_address[63:48] != 0 ||
                    {1'b0, put.remote_address[47:0]} + 49'(put.bytes) > 49'h1_0000_0000_0000);
        long_q <= put.in_ring && (put.bytes > 32'(MaxInline) || put.kind == 8'(PacketGet)) ||
                  put.kind == 8'(PacketSend) && put.bytes > 32'(TorusMaxPayload);
        outside_q <= {1'b0, put.node.x} >= size.x || {1'b0, put.node.y} >= size.y ||
                     {1'b0, put.node.z} >= size.z;
      end
      StateCheck: begin
        first_q  <= 1'b1;
        left_q   <= message_q.bytes;
        room_q   <= 13'(TorusMaxPayload) - {1'b0, message_q.address[11:0]};
        to_q     <= message_q.address;
        from_q   <= message_q.in_ring ? '0 : message_q.local_address;
        reason_q <= fault;
        if (message_q.from_get) state_q <= unreadable_q ? StateFail : StateCut;
        else if (fault != ReasonNone) state_q <= StateFail;
        else if (message_q.in_ring || message_q.bytes == 0) state_q <= StateOpen;
        else state_q <= StateKey;
        if (!message_q.from_get && fault == ReasonNone && (message_q.in_ring || message_q.bytes == 0) &&
            !message_q.ack && !is_get)
          state_q <= StateCut;
      end
      StateKey:
      if (key_rsp.done) begin
        reason_q <= key_rsp.reason;
        if (key_rsp.reason != ReasonNone) state_q <= StateFail;
        else state_q <= message_q.ack || is_get ? StateOpen : StateCut;
      end
      StateOpen:
      if (open_done) begin
        opened_q <= 1'b1;
        state_q  <= StateCut;
      end
      StateCut: begin
        bytes_q <= is_get ? '0 : left_q > 32'(room_q) ? room_q : left_q[12:0];
        last_q  <= is_get || left_q <= 32'(room_q);
        state_q <= is_get || left_q != 0 ? StateGather : StatePush;
      end
      StateGather: begin
        if (gather_rsp.done) begin
          reason_q <= ReasonOutOfRange;
          state_q  <= gather_rsp.ok ? StatePush : message_q.from_get ? StateNack :
                      opened_q ? StateCancel : StateFail;
        end
      end
      StatePush: begin
        if (queue_ready) begin
          first_q <= 1'b0;
          left_q  <= left_q - 32'(bytes_q);
          room_q  <= 13'(TorusMaxPayload);  // behind the first packet
          to_q    <= to_q + 48'(bytes_q);
          from_q  <= from_q + 48'(bytes_q);
          state_q <= last_q ? StateNext : StateCut;
        end
      end
      StateFail: begin
        bad_descriptor <= !unreadable_q;
        entry_error_q  <= unreadable_q;
        state_q        <= StateEvent;
      end
      StateCancel:
      if (message_rsp.done) begin
        bad_descriptor <= 1'b1;
        state_q        <= StateNext;
      end
      StateNack: if (data_fail) state_q <= StateNext;
      StateEvent: if (ev_ready && !sent_event_q) state_q <= StateNext;
      StateNext: if (!in_place || !gather_busy) state_q <= StateIdle;
      default: state_q <= StateIdle;
    endcase
    if (rst) begin
      state_q        <= StateIdle;
      turn_q         <= 1'b0;
      bad_descriptor <= 1'b0;
      entry_error_q  <= 1'b0;
    end
  end

  assign failed_event = '{
          lap: '0,
          n: message_q.message,
          stamp: '0,
          frame: {message_q.channel, message_q.node},
          bytes: message_q.bytes,
          buffer: 32'(message_q.kind),
          flags: 16'(reason_q),
          stream: 8'(port),
          kind: KindFailed
      };
  assign sent_event_d = '{
          lap: '0,
          n: queued.packet.footer.message,
          stamp: '0,
          frame: {queued.packet.header.channel, queued.packet.header.z, queued.packet.header.y,
                  queued.packet.header.x},
          bytes: queued.bytes,
          buffer: 32'(queued.packet.header.kind),
          flags: put_spoiled ? 16'(ReasonOutOfRange) : '0,
          stream: 8'(port),
          kind: put_spoiled ? KindFailed : KindCompleted
      };
  assign ev_req = '{
          valid: sent_event_q || state_q == StateEvent,
          item: sent_event_q ? sent_event : failed_event
      };

  always_ff @(posedge clk) begin
    if (ev_ready) sent_event_q <= 1'b0;
    if (sent[0] && (queued.ends || queued.single && put_spoiled)) begin
      sent_event_q <= 1'b1;
      sent_event   <= sent_event_d;
    end
    if (rst) sent_event_q <= 1'b0;
  end

  // ---------------------------------------------------------------- replies

  reply_t reply_in, reply;
  logic reply_put, reply_room, reply_valid;
  logic [$clog2(REPLIES):0] unused_reply_level;

  // NACK for GET data, once all of their packets are sent: a page without translation, or a failed read. It
  // waits for room.
  logic spoiled_q, put_spoiled_q, data_ends;
  reply_t nack_reply_q;
  // A packet of the message of the put ring under way was not read.
  assign put_spoiled = data_error_q || (put_spoiled_q && !queued.first);
  assign read_error  = data_error_q || entry_error_q;
  assign data_ends = sent[0] && queued.packet.vc && queued.packet.footer.last;
  assign data_fail = state_q == StateNack && queue_empty && !nack_q;

  always_ff @(posedge clk) begin
    reply_lost <= reply_req.valid && !reply_room;
    data_error_q <= payload_valid && payload_ready && payload_bad;
    if (!reply_req.valid && reply_room) nack_q <= 1'b0;
    if (data_error_q && queued.packet.vc) spoiled_q <= 1'b1;
    if (sent[0] && !queued.packet.vc) put_spoiled_q <= put_spoiled;
    if (data_ends || data_fail) begin
      nack_q    <= spoiled_q || data_error_q || data_fail;
      spoiled_q <= 1'b0;
    end
    if (!nack_q) begin
      nack_reply_q <= '{
          nack: 1'b1,
          node: queue_empty ? message_q.node :
                {queued.packet.header.z, queued.packet.header.y, queued.packet.header.x},
          port: queue_empty ? message_q.intra : queued.packet.header.intra,
          channel: queue_empty ? message_q.local_domain : queued.domain,
          value: 32'(ReasonOutOfRange),
          message: queue_empty ? message_q.message : queued.packet.footer.message,
          source_intra: port
      };
    end
    if (rst) begin
      nack_q     <= 1'b0;
      spoiled_q  <= 1'b0;
      reply_lost <= 1'b0;
      data_error_q <= 1'b0;
    end
  end

  assign reply_put = reply_req.valid || nack_q;
  assign reply_in  = reply_req.valid ? reply_req.item : nack_reply_q;

  fifo #(
      .WIDTH($bits(reply_t)),
      .DEPTH(REPLIES)
  ) replies (
      .clk,
      .rst,
      .in_valid (reply_put),
      .in_ready (reply_room),
      .in_data  (reply_in),
      .out_valid(reply_valid),
      .out_ready(sent[1]),
      .out_data (reply),
      .level    (unused_reply_level)
  );

  // ---------------------------------------------------------------- injection

  inject_req_t [2:0] inject_req;
  logic [2:0] data_ready;
  always_comb begin
    inject_req[0]       = queued.packet;
    inject_req[0].valid = queue_valid && !sent_event_q && !nack_q;
    inject_req[1]       = '{
        valid: reply_valid,
        vc: 1'b1,
        words: '0,
        header: '{
            ecc: '0,
            hops: '0,
            address: 48'(reply.value),
            length: '0,
            header_only: 1'b0,
            kind: reply.nack ? PacketNack[3:0] : PacketDone[3:0],
            outside: 1'b0,
            reserved: 1'b0,
            intra: reply.port,
            z: reply.node.z,
            y: reply.node.y,
            x: reply.node.x,
            channel: reply.channel,
            last_hop: TorusInject[4],
            vc: TorusInject[3:0]
        },
        footer: '{
            crc: '0,
            immediate: '0,
            zero_flags: '0,
            ack: 1'b0,
            notify: 1'b0,
            last: 1'b1,
            crc_present: 1'b1,
            zero: '0,
            source_intra: reply.source_intra,
            source: me,
            message: reply.message
        }
    };
    inject_req[2]       = datagram_req;
  end
  assign idle           = state_q == StateIdle && !queue_valid && !sent_event_q && !reply_valid && !reply_put;
  assign payload_ready  = data_ready[0];
  assign datagram_ready = data_ready[2];
  assign datagram_sent  = sent[2];

  rdma_inject #(
      .SOURCES(3),
      .DEPTH  (DEPTH)
  ) i_inject (
      .clk,
      .rst,
      .inject_req,
      .sent,
      .data_valid({datagram_valid, 1'b0, payload_valid}),
      .data_ready,
      .data      ({datagram_data, 128'd0, payload}),
      .data_bad  ({2'b00, payload_bad}),
      .out_valid,
      .out_vc,
      .out_word,
      .out_freed
  );

  logic unused;
  assign unused = &{
          1'b0, data_ready[1], key_rsp.rights, message_rsp.found, put.lap, put.zero, put.zero_2,
          put.zero_flags, get.lap, get.zero, queued.packet.valid, unused_payload_last, 1'b0
      };

endmodule
