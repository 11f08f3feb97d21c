// SPDX-License-Identifier: SHL-2.1
// Types of the RDMA engines: nanet's packet types, footer, rings, registered buffers, requests between the
// engines (docs/formats.md, Torus).
package rdma_pkg;
  import nanet_torus_pkg::*;
  import nanet_dma_pkg::*;

  // ---------------------------------------------------------------- packets

  localparam logic [4:0] PacketRaw = 5'd0;
  localparam logic [4:0] PacketPut = 5'd1;
  localparam logic [4:0] PacketEthernet = 5'd2;
  localparam logic [4:0] PacketGet = 5'd3;
  localparam logic [4:0] PacketGetData = 5'd4;
  localparam logic [4:0] PacketSend = 5'd5;
  localparam logic [4:0] PacketDone = 5'd6;
  localparam logic [4:0] PacketNack = 5'd7;
  localparam logic [4:0] PacketDatagram = 5'd8;

  // Reason of a NACK and of a failed event.
  typedef enum logic [3:0] {
    ReasonNone         = 4'd0,
    ReasonBadCrc       = 4'd1,
    ReasonBadLength    = 4'd2,
    ReasonBadType      = 4'd3,
    ReasonBadDomain    = 4'd4,
    ReasonOutOfRange   = 4'd5,
    ReasonNoRight      = 4'd6,
    ReasonNoSlot       = 4'd7,
    ReasonGetRingFull  = 4'd8,
    ReasonOutOfLattice = 4'd9,
    ReasonBadPort      = 4'd10,
    ReasonLinkDown     = 4'd11,
    ReasonTimedOut     = 4'd12,
    ReasonUnreadable   = 4'd13   // local: not counted by reason
  } reason_e;
  localparam int unsigned Reasons = 13;

  typedef struct packed {
    logic [31:0] crc;
    logic [31:0] immediate;
    logic [3:0]  zero_flags;
    logic        ack;           // DONE requested
    logic        notify;        // event at the destination
    logic        last;          // last packet of the message
    logic        crc_present;
    logic [3:0]  zero;
    logic [3:0]  source_intra;
    torus_node_t source;
    logic [31:0] message;
  } torus_footer_t;

  // Payload word of a GET.
  typedef struct packed {
    logic [31:0] zero;
    logic [31:0] bytes;
    logic [15:0] channel;
    logic [47:0] address;
  } torus_extension_t;

  // Header bits that the CRC covers: those that routers and links do not rewrite.
  localparam logic [127:0] HeaderCovered = {18'd0, {67{1'b1}}, 1'b0, {37{1'b1}}, 5'd0};

  // Checked packet without its payload.
  typedef struct packed {
    reason_e        reason;        // None: sound
    logic           footer;        // the packet has a footer
    logic [4:0]     kind;
    logic [15:0]    channel;
    logic [3:0]     intra;
    logic [13:0]    length;
    logic [47:0]    address;
    logic [31:0]    message;
    torus_node_t    source;
    logic [3:0]     source_intra;
    logic           ack;
    logic           notify;
    logic           last;
    logic [31:0]    immediate;
    logic [127:0]   first;         // first payload word
    logic [8:0]     words;         // payload words stored
  } rdma_packet_t;

  // ---------------------------------------------------------------- memory structures

  typedef struct packed {
    logic [31:0]  lap;
    logic [159:0] zero_2;
    logic [31:0]  immediate;
    logic [31:0]  message;
    logic [23:0]  zero;
    logic [3:0]   zero_flags;
    logic         ack;
    logic         notify;
    logic         completed;
    logic         in_ring;        // payload in the following entries
    logic [7:0]   kind;
    logic [7:0]   port;
    torus_node_t  node;
    logic [15:0]  local_domain;
    logic [15:0]  remote_domain;
    logic [31:0]  bytes;
    logic [63:0]  remote_address;
    logic [63:0]  local_address;
  } put_descriptor_t;
  localparam int unsigned MaxInline = 192;

  typedef struct packed {
    logic [31:0] lap;
    logic [31:0] message;
    torus_node_t node;           // requester
    logic [15:0] domain;         // read
    logic [31:0] bytes;
    logic [15:0] reply_domain;
    logic [47:0] reply_address;
    logic [11:0] zero;
    logic [3:0]  port;           // requester's
    logic [47:0] address;        // to read
  } get_entry_t;

  localparam logic [7:0] KindPutArrived = 8'd6;
  localparam logic [7:0] KindSendArrived = 8'd7;
  localparam logic [7:0] KindCompleted = 8'd8;
  localparam logic [7:0] KindFailed = 8'd9;

  // ---------------------------------------------------------------- configuration

  // Receive slots of a port: `posted` counts slots made available, without end.
  localparam int unsigned RdmaPorts = 4;
  typedef struct packed {
    logic        enable;
    logic [15:0] domain;
    logic [47:0] address;       // of slot 0, virtual in the domain
    logic [4:0]  log2_stride;   // bytes of a slot, 4 to 12
    logic [3:0]  log2_slots;
    logic [31:0] posted;
  } rdma_slots_t;

  // Rings in host memory, at bus addresses; all but `posted` steady while enabled.
  typedef struct packed {
    logic                        enable;
    logic [3:0]                  intra;           // port of the put ring
    logic [63:0]                 put_base;
    logic [4:0]                  log2_puts;
    logic [31:0]                 put_posted;      // entries posted, without end: doorbell
    logic [63:0]                 get_base;
    logic [4:0]                  log2_gets;
    logic [63:0]                 event_base;
    logic [4:0]                  log2_events;
    logic [63:0]                 finished_addr;   // events finished by the consumer
    logic [31:0]                 poll_cycles;
    logic [31:0]                 timeout;         // cycles without progress of a message; 0: none
    logic [4:0]                  log2_page;
    logic [5:0]                  log2_granule;    // address bits below a key's set
    rdma_slots_t [RdmaPorts-1:0] slots;
  } rdma_cfg_t;

  // Counters.
  typedef struct packed {
    logic [Reasons-1:0][31:0] refused;         // packets by reason; [0]: packets used
    logic [31:0]              foreign;         // raw and ethernet packets, dropped
    logic [31:0]              unexpected;      // DONE, NACK or GET data without a message
    logic [31:0]              untranslated;    // pages without a translation
    logic [31:0]              write_errors;
    logic [31:0]              datagrams_lost;  // no room in the receive path
    logic [31:0]              replies_lost;    // DONE or NACK not sent
    logic [31:0]              events_lost;     // the consumer did not release entries
    logic [31:0]              bad_descriptors;
    logic [31:0]              read_errors;
  } rdma_counters_t;

  // ---------------------------------------------------------------- requests between the engines
  // A request is held until the pulse `done` of its response.

  // Registered buffer that holds [address, address + bytes).
  typedef struct packed {
    logic        valid;
    logic [15:0] domain;
    logic [47:0] address;
    logic [31:0] bytes;
  } key_req_t;

  typedef struct packed {
    logic       done;
    reason_e    reason;  // None, BadDomain, OutOfRange
    logic [1:0] rights;  // b0 remote write, b1 remote read
  } key_rsp_t;

  // Key miss to the firmware, and a key from it: the response to the miss, or in advance.
  typedef struct packed {
    logic        valid;
    logic [15:0] domain;
    logic [47:0] address;
    logic [31:0] bytes;
  } key_miss_req_t;

  typedef struct packed {
    logic        valid;
    logic        answer;   // ends the miss
    logic        found;
    reason_e     reason;   // where not found
    logic [15:0] domain;
    logic [47:0] address;  // any in the buffer; selects the set
    logic [47:0] first;
    logic [48:0] limit;    // first + bytes
    logic [1:0]  rights;
  } key_fill_req_t;

  // Next receive slot of a port.
  typedef struct packed {
    logic        valid;
    logic [3:0]  intra;
    logic [15:0] domain;
    logic [13:0] length;
  } slot_req_t;

  typedef struct packed {
    logic        done;
    reason_e     reason;
    logic [31:0] slot;
    logic [47:0] address;
  } slot_rsp_t;

  // Messages under way: whether GET data belong to one; bytes placed; failure.
  typedef enum logic [1:0] {
    MessageCheck,
    MessageAccount,
    MessageFail
  } message_op_e;

  typedef struct packed {
    logic        valid;
    message_op_e op;
    logic        get;      // the message is a GET
    logic        any;      // either
    logic [31:0] message;
    torus_node_t node;
    logic [15:0] domain;   // check: of the data
    logic [47:0] address;
    logic [31:0] bytes;
    reason_e     reason;   // failure
  } message_req_t;

  typedef struct packed {
    logic done;
    logic found;
  } message_rsp_t;

  // New message.
  typedef struct packed {
    logic        valid;
    logic [4:0]  kind;
    logic        completed;      // event at its end
    logic [31:0] message;
    torus_node_t node;
    logic [15:0] domain;         // remote
    logic [15:0] local_domain;
    logic [47:0] local_address;
    logic [31:0] bytes;
  } open_req_t;

  // Entry for the GET ring; `full` with `done`: refused.
  typedef struct packed {
    logic       valid;
    get_entry_t entry;
  } get_req_t;

  typedef struct packed {
    logic done;
    logic full;
  } get_rsp_t;

  // DONE or NACK.
  typedef struct packed {
    logic        nack;
    torus_node_t node;
    logic [3:0]  port;
    logic [15:0] channel;
    logic [31:0] value;        // bytes or reason
    logic [31:0] message;
    logic [3:0]  source_intra;
  } reply_t;

  typedef struct packed {
    logic   valid;
    reply_t item;
  } reply_req_t;

  typedef struct packed {
    logic   valid;
    event_t item;
  } rdma_event_req_t;

  // Message of the put ring or the GET ring, under way in the transmitter.
  typedef struct packed {
    logic        from_get;
    logic        in_ring;
    logic        completed;
    logic        notify;
    logic        ack;
    logic [7:0]  kind;           // as posted: a refusal reports it whole
    torus_node_t node;
    logic [3:0]  intra;
    logic [15:0] channel;
    logic [47:0] address;        // at the destination
    logic [15:0] local_domain;
    logic [47:0] local_address;
    logic [31:0] bytes;
    logic [31:0] message;
    logic [31:0] immediate;
  } outgoing_t;

  // Payload of a packet: from memory, or from the put ring.
  typedef struct packed {
    logic        valid;
    logic        in_ring;
    logic [15:0] domain;
    logic [47:0] address;  // in_ring: byte in the inline payload
    logic [12:0] bytes;    // 1 to 4096
  } gather_req_t;

  typedef struct packed {
    logic done;
    logic ok;
  } gather_rsp_t;

  // Packet for the router, its payload beside it.
  typedef struct packed {
    logic          valid;
    logic          vc;
    logic [8:0]    words;   // of payload
    torus_header_t header;
    torus_footer_t footer;  // without CRC
  } inject_req_t;

endpackage
