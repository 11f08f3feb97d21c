// SPDX-License-Identifier: SHL-2.1
// Types of the receive path (doc/architecture.md). Packed structures on the wire have byte 0 in bits 7:0;
// addresses and ports are numbers with the first octet in the upper bits.
package nanet_pkg;

  // ---------------------------------------------------------------- Ethernet, IPv4, UDP

  localparam logic [15:0] EtherTypeIpv4 = 16'h0800;
  localparam logic [15:0] EtherTypeArp = 16'h0806;
  localparam logic [15:0] EtherTypeVlan = 16'h8100;

  // Values in network order: first octet in the most significant byte.
  function automatic logic [15:0] be16(input logic [15:0] x);
    return {x[7:0], x[15:8]};
  endfunction
  function automatic logic [31:0] be32(input logic [31:0] x);
    return {x[7:0], x[15:8], x[23:16], x[31:24]};
  endfunction
  function automatic logic [47:0] be48(input logic [47:0] x);
    return {x[7:0], x[15:8], x[23:16], x[31:24], x[39:32], x[47:40]};
  endfunction

  // Card addresses.
  typedef struct packed {
    logic [47:0] mac;  // first octet on the wire in bits 47:40
    logic [31:0] ip;
  } host_t;

  // Datagram filter. Each datagram carries the number of its first matching filter.
  typedef struct packed {
    logic        enable;
    logic        vlan;        // accepts only frames tagged with vlan_id
    logic [11:0] vlan_id;
    logic [31:0] dst_ip;      // 0: the card's address; otherwise a multicast group or 255.255.255.255
    logic [15:0] dst_port;
    logic [31:0] src_ip;      // compared under src_mask
    logic [31:0] src_mask;
    logic [15:0] src_port;    // 0: any
  } filter_t;

  // Verdict on a frame, in the check order of the software capture reader (docs/formats.md, Refusals).
  // The first match is counted. Card-only verdicts follow at the end.
  typedef enum logic [3:0] {
    FrameUdp         = 4'd0,   // datagram accepted by a filter
    FrameNotUdp      = 4'd1,
    FrameOtherPort   = 4'd2,   // port or source without a filter
    FrameIpFragment  = 4'd3,
    FrameBadChecksum = 4'd4,
    FrameNotIpv4     = 4'd5,   // also VLAN tags without a matching filter
    FrameCutShort    = 4'd6,
    FrameUdpLength   = 4'd7,
    FrameBadFcs      = 4'd8,   // reported by the MAC
    FrameOtherMac    = 4'd9,   // unicast to another host
    FrameOtherIp     = 4'd10,
    FrameArp         = 4'd11,  // ARP, answered or not
    FrameOverflow    = 4'd12   // buffer full: lost.socket_overflow
  } frame_verdict_e;
  localparam int unsigned FrameVerdicts = 13;

  // Ethernet header of a frame.
  typedef struct packed {
    logic        other_mac;  // unicast to another host
    logic        ipv4;
    logic        arp;
    logic        vlan;
    logic [11:0] vlan_id;
    logic [31:0] stamp;      // card clock, low word, at the frame's first word
  } ethernet_t;

  // Datagram fields, valid with its first word.
  typedef struct packed {
    logic [7:0]  filter;  // number of the first matching filter
    logic [31:0] src_ip;
    logic [15:0] src_port;
    logic [15:0] length;  // UDP payload bytes
    logic [31:0] stamp;   // card clock, low word, at the frame's first word
  } datagram_t;

  // ARP request for the card's address.
  typedef struct packed {
    logic [47:0] mac;
    logic [31:0] ip;
  } arp_request_t;

  // ---------------------------------------------------------------- MGP

  // In the order of docs/formats.md, Refusals.
  typedef enum logic [4:0] {
    MgpShortHeader           = 5'd0,
    MgpBadVersion            = 5'd1,
    MgpBadSource             = 5'd2,
    MgpBadBoard              = 5'd3,
    MgpBadEncoding           = 5'd4,
    MgpLengthMismatch        = 5'd5,
    MgpOversized             = 5'd6,
    MgpSobEobWithEvents      = 5'd7,
    MgpEventPastEnd          = 5'd8,
    MgpTrailingBytes         = 5'd9,
    MgpTimestampOutsideFrame = 5'd10,
    MgpHitsAbove32           = 5'd11,
    MgpSeenBelowStored       = 5'd12,
    MgpPmOutOfRange          = 5'd13,
    MgpPmOfOtherBoard        = 5'd14,
    MgpFrameBeyondSpill      = 5'd15,
    MgpWrongBurst            = 5'd16,
    MgpNone                  = 5'd17   // valid packet
  } refusal_e;
  localparam int unsigned Refusals = 17;

  typedef struct packed {
    logic [7:0]  burst;
    logic [23:0] frame;
    logic [31:0] sequence_number;
    logic [3:0]  encoding;
    logic [3:0]  index;
    logic [7:0]  events;
    logic [15:0] length;
    logic [7:0]  flags;
    logic [7:0]  version;
    logic [7:0]  board;
    logic [7:0]  source;
  } mgp_header_t;

  localparam logic [7:0] MgpSob = 8'h01;
  localparam logic [7:0] MgpEob = 8'h02;
  localparam logic [7:0] MgpTruncated = 8'h04;
  localparam logic [7:0] MgpFixed = 8'h10;
  localparam logic [7:0] MgpLast = 8'h20;
  localparam logic [7:0] MgpPadded = 8'h40;

  localparam logic [10:0] PmCount = 11'd1952;

  // Validation parameters.
  typedef struct packed {
    logic [7:0]  source;
    logic [3:0]  boards;       // bit b: board b is configured; 0: one merged stream, board 0xFF only
    logic [15:0] max_payload;
    logic [24:0] max_frames;   // up to 2^24, the range of the header field
  } mgp_rules_t;

  // ---------------------------------------------------------------- APEnet+ packets, words of 128 bits
  // The original bit fields are not public; this layout is specific to nanet.

  localparam int unsigned ApenetMaxPayload = 4096;
  localparam logic [7:0] ApenetVersion = 8'd1;

  typedef struct packed {
    logic [31:0] stamp;     // card clock, low word, at the start of the datagram's frame
    logic [15:0] src_port;
    logic [31:0] src_ip;
    logic [15:0] offset;    // payload offset in the datagram, a multiple of 4096
    logic [15:0] total;     // datagram bytes
    logic [7:0]  filter;    // as in datagram_t
    logic [7:0]  version;
  } apenet_header_t;

  typedef struct packed {
    logic [31:0] stamp;       // card clock, low word, at footer generation
    logic [31:0] crc;         // CRC-32 (IEEE 802.3) over the payload words, the last one zero-padded
    logic [15:0] number;      // running packet count of the channel
    logic [15:0] bytes;       // received payload bytes
    logic        last;        // last packet of the datagram: the following fields are valid
    logic [5:0]  reserved;
    logic [4:0]  refusal;     // refusal_e
    logic [3:0]  verdict;     // frame_verdict_e
    logic [15:0] hits;        // stored hits of a valid MGP packet
  } apenet_footer_t;

  // Word of the stream between NaNet controller and network interface.
  typedef enum logic [1:0] {
    ApenetHeader  = 2'd0,
    ApenetPayload = 2'd1,
    ApenetFooter  = 2'd2
  } apenet_kind_e;

  typedef struct packed {
    logic         valid;
    apenet_kind_e kind;
    logic [127:0] data;
  } apenet_req_t;

  // Descriptors of a buffered datagram: at its MGP header, and at its end.
  typedef struct packed {
    logic [31:0] stamp;  // card clock, first word of the frame
    logic [15:0] total;  // datagram bytes
    mgp_header_t header;
  } rx_begun_t;
  typedef struct packed {
    logic        sound;
    refusal_e    refusal;
    logic [15:0] hits;
    logic [31:0] stamp;  // card clock, last footer
  } rx_ended_t;

  // ---------------------------------------------------------------- placement requests and responses

  // Packet number within its channel; also the write fence of notifications. Half of the range exceeds
  // the number of packets that arrive while a notification waits.
  typedef logic [23:0] serial_t;

  function automatic logic reached(input serial_t done, input serial_t wanted);
    return serial_t'(done - wanted) < 24'h80_0000;
  endfunction

  typedef enum logic [1:0] {
    PlaceLook   = 2'd0,  // query the address; changes nothing and holds the board until the commit
    PlaceCommit = 2'd1,  // the packet has ended
    PlaceBoth   = 2'd2   // the packet is complete
  } place_kind_e;

  typedef struct packed {
    place_kind_e kind;
    logic        sound;   // commit: the packet is valid
    logic        placed;  // commit: the look returned a place
    serial_t     serial;
    logic [15:0] hits;
    logic [31:0] stamp;
    mgp_header_t header;
  } place_request_t;

  // Outcome of a valid packet, also the firmware's answer; names of docs/formats.md.
  typedef enum logic [3:0] {
    PlacedUsed       = 4'd0,   // response: classify again
    PlacedLate       = 4'd1,
    PlacedDuplicate  = 4'd2,
    PlacedReplayed   = 4'd3,   // lost.replayed_sequence
    PlacedOverrun    = 4'd5,
    PlacedOverflow   = 4'd6,   // lost.segment_overflow
    PlacedMarker     = 4'd7,   // burst_markers
    PlacedJump       = 4'd8,   // lost.unconfirmed_jump: first packet of a jump or of a burst
    PlacedWrongBurst = 4'd9,   // bad_packets.wrong_burst
    PlacedAdmit      = 4'd10   // responses only: classify again as trusted
  } placed_e;

  // Reasons for a firmware decision: bits of slowpath_t.reason. The last three may also be set for
  // markers.
  localparam int unsigned SlowpathMarker = 0;    // SOB or EOB
  localparam int unsigned SlowpathOther = 1;     // of neither tracked burst, or no burst exists
  localparam int unsigned SlowpathJump = 2;      // sequence number beyond the window
  localparam int unsigned SlowpathFar = 3;       // frame number beyond the window
  localparam int unsigned SlowpathWatched = 4;   // number 1 of a board watched by the firmware
  localparam int unsigned SlowpathReplayed = 5;  // number (for an SOB: 0) seen before or too old

  // Slow-path request to the firmware (FIFO REQ): a packet waiting for a decision. One at a time.
  typedef struct packed {
    mgp_header_t header;
    logic [31:0] stamp;
    logic [2:0]  channel;
    logic [7:0]  reason;
    logic        old;         // of the older burst
    logic        ordinary;    // an ordinary packet of this board was admitted since its last request
    logic        active;      // the packet's burst is active
    logic        old_active;  // the older burst is active
  } slowpath_t;

  // Firmware commands, FIFO RESP.
  typedef enum logic [3:0] {
    CommandBurst   = 4'd0,  // begin burst `frame` (unwrapped count); flag: SOB received
    CommandLast    = 4'd1,  // no further frames in the current burst; flag: open all frames up to `frame`
    CommandSeen    = 4'd2,  // mark a board's number as received
    CommandRestart = 4'd3,  // restart a board's numbers
    CommandBoard   = 4'd4,  // SOB of a board received: set frame 0 unless the board has a frame
    CommandWatch   = 4'd5,  // flag: send number 1 of this board to the firmware
    CommandClose   = 4'd6,  // close the open frames of that burst
    CommandAnswer  = 4'd7   // answer the pending packet of `channel`
  } command_e;

  typedef struct packed {
    command_e    op;
    logic        old;   // of the older burst
    logic        flag;
    logic [1:0]  board;
    logic [2:0]  channel;
    placed_e     as;
    logic [23:0] frame;
    logic [31:0] sequence_number;
  } command_t;

  // State of a board's part of a frame.
  typedef struct packed {
    logic        has_last;
    logic [3:0]  last;     // index of the b5 packet
    logic [15:0] indices;  // received indices; with `has_last`: missing indices
    logic [11:0] units;    // used space in units of 16 B
    logic [4:0]  packets;
    logic [7:0]  flags;    // flags of all packets
  } clop_board_t;

  // Fields of a board's part in the frame header.
  typedef struct packed {
    logic [11:0] units;
    logic [4:0]  packets;
    logic [7:0]  flags;
  } clop_part_t;

  // State of a buffer: its latest frame.
  typedef struct packed {
    logic        used;     // used at least once
    logic        open;
    logic        seen;     // a packet was received
    logic [3:0]  present;    // boards with data
    logic [3:0]  complete;
    logic [31:0] n;
    logic [23:0] frame;
    logic [31:0] first;    // stamp of the first packet, or of the packet that opened the frame
  } clop_slot_t;

  // State of a number after its buffer is reused.
  typedef struct packed {
    logic        overrun;
    logic [14:0] tag;      // upper bits of n; 16 bits in all: block RAM without banks
  } clop_status_t;

  // Equality of 4-bit groups. Comparisons of spread-out memories take two cycles.
  function automatic logic [7:0] nibbles_equal(input logic [31:0] one, input logic [31:0] other);
    for (int i = 0; i < 8; i++) nibbles_equal[i] = one[4*i+:4] == other[4*i+:4];
  endfunction

  // Result of clop_lookup, in step `classify`.
  typedef struct packed {
    logic        known;         // its frame is opened or skipped
    logic        at_next;       // its frame is the next to open
    logic        gap;           // too far beyond the newest frame
    logic        is_new;         // neither known nor too far; its burst accepts frames
    logic        open_frame;    // its frame is open
    logic        late;
    logic        duplicate;
    logic        available;     // its buffer is returned
    logic        fits;          // fits into its board's segment
    logic        fits_alone;    // fits as the segment's first packet
    logic        closes;        // completes the frame
    logic        closes_alone;
    logic        done_alone;    // completes its board
    logic        retimed;       // first packet of an open frame: the frame's timer starts
    logic        due;           // the timer's frame is open and the timer is current
    logic [63:0] vaddr;         // destination address
    clop_slot_t  slot;          // current contents
    logic [3:0]  present;         // boards, including the packet's
    logic [3:0]  complete;
    logic        here;          // its board has a part in the frame
    clop_board_t board;         // updated part of its board
    clop_board_t first;         // new part if its board has none
  } clop_found_t;

  // State of a burst.
  typedef struct packed {
    logic        known;       // the burst exists
    logic [7:0]  number;
    logic [63:0] base;        // n of frame 0
    logic [24:0] next;        // frames below are known
    logic        started;     // a frame or the SOB was seen
    logic        ending;      // no further frames
    logic        ended;       // end reported to the consumers
    logic        over;        // no further frames and none open; one cycle later
    logic [23:0] last_known;  // newest frame, 0 if none; one cycle later
    logic [31:0] last_n;      // n of the newest frame; two cycles later
  } clop_burst_t;

  // Work item of the clop pipeline; one of the first six flags is set.
  typedef struct packed {
    logic           place;     // a request
    logic           expire;    // a timer
    logic           seen;      // commands, as in command_e
    logic           restart;
    logic           at_frame;
    logic           watch;
    place_request_t request;
    logic [2:0]     channel;
    logic [1:0]     board;     // 0xFF, a merged stream, uses segment 0
    logic [31:0]    number;    // sequence number under lookup
    logic           old;       // of the older burst
    logic           half;      // half of clop_sequence that holds the burst's boards
    logic           other;     // of neither burst
    logic           trusted;
    logic           flag;      // flag of the command
    logic [31:0]    n;
    logic [31:0]    first;     // stamp of the timer
    logic           forced;    // independent of the first packet's time
  } clop_work_t;

  // Decision: pulses in the cycle after `classify`.
  typedef struct packed {
    logic looked;   // a place is returned
    logic ends;     // final: invalid, lost, or its frame exists
    logic waits;    // repeated after the firmware's current decision
    logic escalates;     // goes to the firmware
    logic lost;     // late, duplicate or replayed
    logic shifts;   // skips the frames before its own, then repeats
    logic known;    // its frame exists
    logic uses;     // it is placed in the existing frame
    logic expires;  // a frame is closed by its timer
    logic [1:0] closes;  // a frame of the {older, current} burst is closed
  } clop_verdict_t;

  // Operands of the decision, steady from the cycle after `classify` to the next decision.
  typedef struct packed {
    logic           accept;        // the place is valid
    logic           defer;         // repeat the request at the packet's end
    logic           trusted;
    placed_e        as;            // outcome if the frame exists or the packet is lost
    logic [2:0]     channel;
    logic [1:0]     board;
    serial_t        serial;
    logic [15:0]    hits;
    logic [7:0]     events;
    logic [63:0]    stamp;
    logic [23:0]    frame;
    logic [7:0]     burst;
    logic [31:0]    n;
    logic           started;       // its burst has started
    logic           timed_out;
    logic           placed;        // its look, if any, returned a place
    logic           fits_alone;    // as in clop_found_t
    logic           closes_alone;
    logic           done_alone;
    logic           retimed;
    clop_slot_t     slot;          // updated slot of its frame
    clop_board_t    part;          // updated part of its board
  } clop_act_t;

  // Opened frame.
  typedef struct packed {
    logic        valid;
    logic        ok;        // with a buffer
    logic        last;      // last frame of a series
    logic        packet;    // opened for a packet
    logic        uses;      // the packet is placed in the frame
    logic        closes;    // the packet completes the frame
    logic [63:0] n;
    logic [24:0] frame;
    logic [24:0] after;     // frame + 1
    logic [63:0] stamp;
  } clop_opened_t;

  // Closed frame; its slot is written in this cycle.
  typedef struct packed {
    logic        valid;
    logic        timed_out;
    logic [31:0] start;      // stamp of the closing packet
    logic [2:0]  channel;    // channel of the closing packet
  } clop_closed_t;

  // Response to a request, or its deferral.
  typedef struct packed {
    logic       valid;    // response valid
    logic       keeps;    // a look: the channel keeps its board
    logic       again;    // repeat instead of a response
    logic       admit;    // repeat as trusted
    logic       first;    // repeat with priority
    logic [2:0] channel;
    logic       counted;
    placed_e    as;
    logic       ended;    // the packet is completed
    serial_t    serial;
  } clop_response_t;

  // Frames below `next` are skipped.
  typedef struct packed {
    logic        valid;
    logic        counted;
    logic [24:0] next;
  } clop_skip_t;

  // Consumer notification: closed frame, overrun, burst begin or burst end; in order.
  typedef struct packed {
    logic [7:0]  kind;       // event kind
    logic [15:0] index;      // buffer index
    logic [63:0] n;
    logic [23:0] frame;
    logic [31:0] count;      // number of overruns
    logic        timed_out;
    logic [3:0]  complete;   // complete boards
    logic [3:0]  present;      // boards with data
    logic [31:0] start;      // stamp of the closing packet
    logic [2:0]  channel;    // channel of the closing packet
  } clop_notice_t;

  // Gather mode `packets`: a closed buffer, or payloads without a buffer.
  typedef struct packed {
    logic        overrun;
    logic [31:0] n;
    logic [15:0] buffer;   // index within its device
    logic [7:0]  device;
    logic [23:0] frame;    // frame of the first payload
    logic [31:0] bytes;    // payload bytes; overrun: payload count
    logic [12:0] empty;    // empty slots
    logic [63:0] vaddr;    // address of the first empty slot
    logic [31:0] start;    // stamp of the closing packet
    logic [2:0]  channel;  // channel of the closing packet
  } packets_notice_t;

  // ---------------------------------------------------------------- profile of a used packet
  // Card clock, low words.

  typedef struct packed {
    logic [31:0] written;     // all writes completed
    logic [31:0] placed;      // address assigned
    logic [31:0] controller;  // last footer of the NaNet controller
    logic [31:0] start;       // first word of its frame
  } profile_t;

  // ---------------------------------------------------------------- bundles of ports

  // Frames from a MAC: AXI stream without back-pressure; tuser marks a bad frame on the last word.
  typedef struct packed {
    logic        tvalid;
    logic [63:0] tdata;
    logic [7:0]  tkeep;
    logic        tlast;
    logic        tuser;
  } axis_rx_req_t;

  // Payload of datagrams, byte 0 first, without back-pressure; the verdict is valid on the last word.
  typedef struct packed {
    logic           valid;
    logic [63:0]    data;
    logic [3:0]     bytes;
    logic           first;
    logic           last;
    datagram_t      info;
    frame_verdict_e verdict;
  } payload_req_t;

  // Address translation.
  typedef struct packed {
    logic        valid;
    logic [63:0] vaddr;
  } tlb_req_t;

  typedef struct packed {
    logic        ready;
    logic        resp_valid;
    logic        resp_ok;     // the page is known
    logic [63:0] resp_paddr;
  } tlb_rsp_t;

  // TLB miss to the firmware, and its response.
  typedef struct packed {
    logic        valid;
    logic [63:0] vaddr;
  } miss_req_t;

  typedef struct packed {
    logic        valid;
    logic [63:0] vaddr;
    logic [63:0] paddr;
    logic        ok;
  } fill_req_t;

  typedef struct packed {
    logic      valid;
    slowpath_t item;
  } slowpath_req_t;

  typedef struct packed {
    logic     valid;
    command_t item;
  } command_req_t;

  // Response to a placement request; one valid bit per channel is a separate port.
  typedef struct packed {
    logic        accept;
    logic        defer;
    logic [63:0] vaddr;
  } placed_rsp_t;

  // Configuration of the receive path, steady while enabled.
  typedef struct packed {
    logic [4:0]  log2_buffers;
    logic [4:0]  log2_devices;
    logic [17:0] buffer_units;
    logic [16:0] segment_bytes;
    logic [31:0] timeout_cycles;  // 0: no timeout
    logic [15:0] grace_cycles;
    logic [15:0] window_frames;   // frames this far behind the newest are closed; 0: none
    logic        packets_mode;    // gather mode: 1 `packets`, 0 `frame`
    logic [12:0] packets;         // payloads per buffer (packets)
    logic [16:0] slot_bytes;      // payload slot, a multiple of 16 (packets)
    logic        merge;           // write merged buffers (frame)
    logic [7:0]  merge_window;    // LSB
  } receive_cfg_t;

  // Counters of the placement: pulses with their values; `missing` is a balance.
  typedef struct packed {
    logic             counted;
    placed_e          counted_as;
    logic [15:0]      counted_hits;
    logic [7:0]       counted_events;
    logic [23:0]      counted_frame;     // gather mode frame
    logic [7:0]       counted_burst;
    logic             skipped_valid;     // frames skipped by a jump
    logic [24:0]      skipped;
    logic             frame_in;
    logic             frame_overrun;
    logic             frame_incomplete;
    logic             frame_unmerged;    // left as segments by a merging card
    logic [3:0][63:0] missing;
  } frame_cnt_t;

endpackage
