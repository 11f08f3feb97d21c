// SPDX-License-Identifier: SHL-2.1
// Types of the receive path (doc/architecture.md). Packed structures on the wire have byte 0 in bits 7:0;
// addresses and ports are numbers with the first octet in the upper bits.
package nanet_pkg;

  // ---------------------------------------------------------------- Ethernet, IPv4, UDP

  localparam logic [15:0] EtherTypeIpv4 = 16'h0800;
  localparam logic [15:0] EtherTypeArp = 16'h0806;
  localparam logic [15:0] EtherTypeVlan = 16'h8100;

  // What comes first octet first, as a number.
  function automatic logic [15:0] be16(input logic [15:0] x);
    return {x[7:0], x[15:8]};
  endfunction
  function automatic logic [31:0] be32(input logic [31:0] x);
    return {x[7:0], x[15:8], x[23:16], x[31:24]};
  endfunction
  function automatic logic [47:0] be48(input logic [47:0] x);
    return {x[7:0], x[15:8], x[23:16], x[31:24], x[39:32], x[47:40]};
  endfunction

  // The card on the network.
  typedef struct packed {
    logic [47:0] mac;  // first octet on the wire in bits 47:40
    logic [31:0] ip;
  } host_t;

  // Filter of datagrams. A datagram carries the number of the first match.
  typedef struct packed {
    logic        enable;
    logic        vlan;        // takes tagged frames of vlan_id, and only these
    logic [11:0] vlan_id;
    logic [31:0] dst_ip;      // 0: the card's own; else a group's, or 255.255.255.255 to take broadcast
    logic [15:0] dst_port;
    logic [31:0] src_ip;      // compared where src_mask is 1
    logic [31:0] src_mask;
    logic [15:0] src_port;    // 0: any
  } filter_t;

  // Verdict on a frame. The order is that of the software's reader of captures (docs/formats.md,
  // Refusals); the first that applies is counted. Names that only a card needs stand at the end.
  typedef enum logic [3:0] {
    FrameUdp         = 4'd0,   // a datagram that a filter lets in
    FrameNotUdp      = 4'd1,
    FrameOtherPort   = 4'd2,   // no filter takes this port, or none this source
    FrameIpFragment  = 4'd3,
    FrameBadChecksum = 4'd4,
    FrameNotIpv4     = 4'd5,   // VLAN tags that no filter is set to included
    FrameCutShort    = 4'd6,
    FrameUdpLength   = 4'd7,
    FrameBadFcs      = 4'd8,   // reported by the MAC
    FrameOtherMac    = 4'd9,   // unicast to another host
    FrameOtherIp     = 4'd10,
    FrameArp         = 4'd11,  // ARP, answered or not
    FrameOverflow    = 4'd12   // no room in the card: lost.socket_overflow
  } frame_verdict_e;
  localparam int unsigned FrameVerdicts = 13;

  // Ethernet header of a frame.
  typedef struct packed {
    logic        other_mac;  // unicast to another host
    logic        ipv4;
    logic        arp;
    logic        vlan;
    logic [11:0] vlan_id;
    logic [31:0] stamp;      // card clock, low word, when the frame's first word came in
  } ethernet_t;

  // Of a datagram, valid with its first word.
  typedef struct packed {
    logic [7:0]  filter;  // number of the first that let it in
    logic [31:0] src_ip;
    logic [15:0] src_port;
    logic [15:0] length;  // of the UDP payload, bytes
    logic [31:0] stamp;   // card clock, low word, when the frame's first word came in
  } datagram_t;

  // An ARP request for the card's address.
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
    MgpNone                  = 5'd17   // sound
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

  // Parameters of validation.
  typedef struct packed {
    logic [7:0]  source;
    logic [3:0]  boards;       // bit b: board b is configured; 0: one merged stream, board 0xFF alone
    logic [15:0] max_payload;
    logic [24:0] max_frames;   // up to 2^24: all that the header can name
  } mgp_rules_t;

  // ---------------------------------------------------------------- APEnet+ packets, words of 128 bits
  // Bit fields of the original are not public; these are nanet's own.

  localparam int unsigned ApenetMaxPayload = 4096;
  localparam logic [7:0] ApenetVersion = 8'd1;

  typedef struct packed {
    logic [31:0] stamp;     // card clock, low word, at the start of the datagram's frame
    logic [15:0] src_port;
    logic [31:0] src_ip;
    logic [15:0] offset;    // of this packet's payload in the datagram, a multiple of 4096
    logic [15:0] total;     // bytes of the datagram
    logic [7:0]  filter;    // as in datagram_t
    logic [7:0]  version;
  } apenet_header_t;

  typedef struct packed {
    logic [31:0] stamp;       // card clock, low word, when this footer was made
    logic [31:0] crc;         // CRC-32 (IEEE 802.3) over the payload words, the last one filled up with zeros
    logic [15:0] number;      // packets of this channel, running
    logic [15:0] bytes;       // payload bytes that really came
    logic        last;        // last packet of the datagram: the following are valid
    logic [5:0]  reserved;
    logic [4:0]  refusal;     // refusal_e
    logic [3:0]  verdict;     // frame_verdict_e
    logic [15:0] hits;        // stored hits of a sound MGP packet
  } apenet_footer_t;

  // A word of the stream between NaNet controller and network interface.
  typedef enum logic [1:0] {
    ApenetHeader  = 2'd0,
    ApenetPayload = 2'd1,
    ApenetFooter  = 2'd2
  } apenet_kind_e;

  // ---------------------------------------------------------------- placement requests and responses

  // Number of a packet in its channel, also used as write fence of notifications. Packets
  // arrive while notifications wait; half of the range exceeds their number.
  typedef logic [23:0] serial_t;

  function automatic logic reached(input serial_t done, input serial_t wanted);
    return serial_t'(done - wanted) < 24'h80_0000;
  endfunction

  typedef enum logic [1:0] {
    PlaceLook   = 2'd0,  // where would it go? Changes nothing; holds the board until the commit
    PlaceCommit = 2'd1,  // the packet has ended
    PlaceBoth   = 2'd2   // the packet is here whole
  } place_kind_e;

  typedef struct packed {
    place_kind_e kind;
    logic        sound;   // commit: nothing is wrong with the packet
    logic        placed;  // commit: its look was answered with a place
    serial_t     serial;
    logic [15:0] hits;
    logic [31:0] stamp;
    mgp_header_t header;
  } place_request_t;

  // Outcome of a sound packet; names of docs/formats.md. The firmware answers with these, too.
  typedef enum logic [3:0] {
    PlacedUsed       = 4'd0,   // response: classify it again
    PlacedLate       = 4'd1,
    PlacedDuplicate  = 4'd2,
    PlacedReplayed   = 4'd3,   // lost.replayed_sequence
    PlacedOverrun    = 4'd5,
    PlacedOverflow   = 4'd6,   // lost.segment_overflow
    PlacedMarker     = 4'd7,   // burst_markers
    PlacedJump       = 4'd8,   // lost.unconfirmed_jump: the first packet of a jump, or of a burst
    PlacedWrongBurst = 4'd9,   // bad_packets.wrong_burst
    PlacedAdmit      = 4'd10   // responses only: classify it again, trusting its sequence number and frame
  } placed_e;

  // Reasons for the firmware's decision on a packet: bits of slowpath_t.reason. The last three may be set for
  // markers as well.
  localparam int unsigned SlowpathMarker = 0;    // SOB or EOB
  localparam int unsigned SlowpathOther = 1;     // of neither burst that is known, or there is none
  localparam int unsigned SlowpathJump = 2;      // its sequence number lies beyond the window
  localparam int unsigned SlowpathFar = 3;       // its frame does
  localparam int unsigned SlowpathWatched = 4;   // number 1 of a board that the firmware watches
  localparam int unsigned SlowpathReplayed = 5;  // its number (an SOB's: 0) was seen before or is too old

  // Slow-path request to the firmware (FIFO REQ): a packet that waits for a decision. One at a time.
  typedef struct packed {
    mgp_header_t header;
    logic [31:0] stamp;
    logic [2:0]  channel;
    logic [7:0]  reason;
    logic        old;         // of the older of the two bursts
    logic        ordinary;    // since this board's last request an ordinary packet of it was admitted
    logic        active;      // its burst is not over
    logic        old_active;  // the older burst is not over
  } slowpath_t;

  // From the firmware, FIFO RESP.
  typedef enum logic [3:0] {
    CommandBurst   = 4'd0,  // burst `frame` (wraps counted) begins; flag: its SOB was seen
    CommandLast    = 4'd1,  // the current burst takes no further frames; flag: it owes all up to `frame`
    CommandSeen    = 4'd2,  // a board's number came in, unless it had before
    CommandRestart = 4'd3,  // a board's numbers restart
    CommandBoard   = 4'd4,  // a board's SOB was there: it is at frame 0, if it has no frame yet
    CommandWatch   = 4'd5,  // flag: ask about this board's number 1
    CommandClose   = 4'd6,  // close the open frames of that burst
    CommandAnswer  = 4'd7   // the packet of `channel` that waits
  } command_e;

  typedef struct packed {
    command_e    op;
    logic        old;   // of the older of the two bursts
    logic        flag;
    logic [1:0]  board;
    logic [2:0]  channel;
    placed_e     as;
    logic [23:0] frame;
    logic [31:0] sequence_number;
  } command_t;

  // Stored state of a board's part of a frame.
  typedef struct packed {
    logic        has_last;
    logic [3:0]  last;     // index of the b5 packet
    logic [15:0] indices;  // that are in; with `has_last`: that are still missing
    logic [11:0] units;    // of 16 B that are taken
    logic [4:0]  packets;
    logic [7:0]  flags;    // of all packets
  } clop_board_t;

  // Fields of a board's part in the frame header.
  typedef struct packed {
    logic [11:0] units;
    logic [4:0]  packets;
    logic [7:0]  flags;
  } clop_part_t;

  // Stored state of a buffer: its latest frame.
  typedef struct packed {
    logic        used;     // was handed out at least once
    logic        open;
    logic        seen;     // a packet has come
    logic [3:0]  present;    // boards of which something is in
    logic [3:0]  complete;
    logic [31:0] n;
    logic [23:0] frame;
    logic [31:0] first;    // stamp of the first packet, or of the packet that made the frame owed
  } clop_slot_t;

  // Stored state of a number after its buffer is reused.
  typedef struct packed {
    logic        overrun;
    logic [14:0] tag;      // of n, above the index; 16 bits in all: block RAM without banks
  } clop_status_t;

  // Of four bits each, whether they are the same: what memories say, which lie far apart, is compared in two
  // cycles.
  function automatic logic [7:0] nibbles_equal(input logic [31:0] one, input logic [31:0] other);
    for (int i = 0; i < 8; i++) nibbles_equal[i] = one[4*i+:4] == other[4*i+:4];
  endfunction

  // Result of clop_lookup, in step `classify`.
  typedef struct packed {
    logic        known;         // its frame is, or will never be
    logic        at_next;       // it is the first that is not
    logic        gap;           // it lies too far beyond the newest
    logic        is_new;         // neither known nor too far, and its burst goes on
    logic        open_frame;    // it is open
    logic        late;
    logic        duplicate;
    logic        available;     // its buffer is back
    logic        fits;          // into its board's segment
    logic        fits_alone;    // if it were the first there
    logic        closes;        // the frame is complete with it
    logic        closes_alone;
    logic        done_alone;    // its board is
    logic        retimed;       // the frame was owed before it was seen: its time begins now
    logic        due;           // a timer's frame is open, and the timer its own
    logic [63:0] vaddr;         // where it goes
    clop_slot_t  slot;          // current contents
    logic [3:0]  present;         // boards, with it
    logic [3:0]  complete;
    logic        here;          // its board has a part there
    clop_board_t board;         // then that, with it
    clop_board_t first;         // else this
  } clop_found_t;

  // Stored state of a burst.
  typedef struct packed {
    logic        known;       // there is such a burst
    logic [7:0]  number;
    logic [63:0] base;        // n of its frame 0
    logic [24:0] next;        // frames below are known
    logic        started;     // a frame is, or its SOB
    logic        ending;      // no further frames
    logic        ended;       // and the end is reported to the consumers
    logic        over;        // no further frames, and none open; a cycle later
    logic [23:0] last_known;  // its newest frame, 0 if none; a cycle later
    logic [31:0] last_n;      // and that one's number; two cycles later
  } clop_burst_t;

  // Work item of clop's pipeline; one of the first six is set.
  typedef struct packed {
    logic           place;     // a request
    logic           expire;    // a timer
    logic           seen;      // commands, as in command_e
    logic           restart;
    logic           at_frame;
    logic           watch;
    place_request_t request;
    logic [2:0]     channel;
    logic [1:0]     board;     // 0xFF, one merged stream, lies in segment 0
    logic [31:0]    number;    // sequence number that is looked at
    logic           old;       // of the older burst
    logic           half;      // where clop_sequence keeps that burst's boards
    logic           other;     // of neither
    logic           trusted;
    logic           flag;      // the command's
    logic [31:0]    n;
    logic [31:0]    first;     // the timer's
    logic           forced;    // whatever the frame's first packet says
  } clop_work_t;

  // Decision: pulses in the cycle after `classify`.
  typedef struct packed {
    logic looked;   // a place is returned
    logic ends;     // nothing more comes of it: it was none, is lost, or its frame was there before
    logic waits;    // is repeated once the firmware has decided on another packet
    logic escalates;     // goes to the firmware
    logic lost;     // late, duplicate or replayed
    logic shifts;   // the frames before its own are skipped, then it is repeated
    logic known;    // its frame was there before
    logic uses;     // and it has its place there
    logic expires;  // a frame is closed by its timer
    logic [1:0] closes;  // a frame of the {older, current} burst is closed
  } clop_verdict_t;

  // Subject of the decision, steady from the cycle after `classify` to the next decision.
  typedef struct packed {
    logic           accept;        // the place is to be used
    logic           defer;         // repeat the request at its end
    logic           trusted;
    placed_e        as;            // counted as, where its frame was there before, or it is lost
    logic [2:0]     channel;
    logic [1:0]     board;
    serial_t        serial;
    logic [15:0]    hits;
    logic [7:0]     events;
    logic [63:0]    stamp;
    logic [23:0]    frame;
    logic [31:0]    n;
    logic           started;       // its burst
    logic           timed_out;
    logic           placed;        // its look, if any, returned a place
    logic           fits_alone;    // as in clop_found_t
    logic           closes_alone;
    logic           done_alone;
    logic           retimed;
    clop_slot_t     slot;          // its frame, with it
    clop_board_t    part;          // its board's part, with it
  } clop_act_t;

  // A frame is opened.
  typedef struct packed {
    logic        valid;
    logic        ok;        // with a buffer
    logic        last;      // the last one in a row
    logic        packet;    // that for a packet
    logic        uses;      // which has its place there
    logic        closes;    // and is all of the frame
    logic [63:0] n;
    logic [24:0] frame;
    logic [24:0] after;     // frame + 1
    logic [63:0] stamp;
  } clop_opened_t;

  // A frame in its buffer's slot, written this cycle, is closed.
  typedef struct packed {
    logic        valid;
    logic        timed_out;
    logic [31:0] start;      // stamp of the packet that closed it
    logic [2:0]  channel;    // that one's
  } clop_closed_t;

  // A request is answered, or put off.
  typedef struct packed {
    logic       valid;    // answered
    logic       keeps;    // a look: its board stays its channel's
    logic       again;    // to be repeated instead of a response
    logic       admit;    // and trusted then
    logic       first;    // before the others
    logic [2:0] channel;
    logic       counted;
    placed_e    as;
    logic       ended;    // nothing more of this packet comes
    serial_t    serial;
  } clop_response_t;

  // Frames below `next` are skipped.
  typedef struct packed {
    logic        valid;
    logic        counted;
    logic [24:0] next;
  } clop_skip_t;

  // Notification of the consumer: a closed frame, an overrun, or a burst's begin or end; in order.
  typedef struct packed {
    logic [7:0]  kind;       // of the event
    logic [15:0] index;      // buffer
    logic [63:0] n;
    logic [23:0] frame;
    logic [31:0] count;      // overruns
    logic        timed_out;
    logic [3:0]  complete;   // boards
    logic [3:0]  present;      // boards of which something is in
    logic [31:0] start;      // stamp of the packet that closed it
    logic [2:0]  channel;    // that one's
  } clop_notice_t;

  // Gather mode `packets`: a closed buffer, or payloads that found none.
  typedef struct packed {
    logic        overrun;
    logic [31:0] n;
    logic [15:0] buffer;   // of its device
    logic [7:0]  device;
    logic [23:0] frame;    // of the first payload
    logic [31:0] bytes;    // of the payloads; overrun: how many payloads
    logic [12:0] empty;    // slots
    logic [63:0] vaddr;    // of the first of them
    logic [31:0] start;    // stamp of the packet that closed it
    logic [2:0]  channel;  // that one's
  } packets_notice_t;

  // ---------------------------------------------------------------- profile of a packet that was used
  // Card clock, low words.

  typedef struct packed {
    logic [31:0] written;     // all its writes are done
    logic [31:0] placed;      // its address is known
    logic [31:0] controller;  // NaNet controller made its last footer
    logic [31:0] start;       // first word of its frame in
  } profile_t;

endpackage
