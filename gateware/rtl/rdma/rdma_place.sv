// SPDX-License-Identifier: SHL-2.1
// Placement of the packets of one virtual channel: key, slot or message, then translation, DMA write, and
// after it event and reply. A refused packet is dropped whole and answered with a NACK.
module rdma_place
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_torus_pkg::*;
  import rdma_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * packets of rdma_input
     */
    input  logic         packet_valid,
    output logic         packet_ready,
    input  rdma_packet_t packet,
    input  logic         data_valid,
    output logic         data_ready,
    input  logic [127:0] data,

    /*
     * tables; `check` before the write, `account` after it
     */
    output key_req_t     key_req,
    input  key_rsp_t     key_rsp,
    output slot_req_t    slot_req,
    input  slot_rsp_t    slot_rsp,
    output message_req_t check_req,
    input  message_rsp_t check_rsp,
    output message_req_t account_req,
    input  message_rsp_t account_rsp,
    output get_req_t     get_req,
    input  get_rsp_t     get_rsp,
    output tlb_req_t     tlb_req,
    input  tlb_rsp_t     tlb_rsp,

    /*
     * DMA write
     */
    output dma_wr_req_t  wr_req,
    input  dma_wr_rsp_t  wr_rsp,
    output logic [127:0] wr_data,

    /*
     * payload of datagrams; the receiver has room for a packet of each virtual channel
     */
    input  logic         datagram_room,
    output logic         datagram_valid,
    input  logic         datagram_ready,
    output logic         datagram_first,
    output logic         datagram_last,
    output logic [127:0] datagram_data,

    /*
     * event, DONE or NACK
     */
    output rdma_event_req_t ev_req,
    input  logic            ev_ready,
    output reply_req_t      reply_req,
    input  logic            reply_ready,

    /*
     * pulses: a packet was used (None) or refused; dropped as foreign; a stray answer; no translation; a
     * failed write; a datagram without room
     */
    output logic    counted,
    output reason_e reason,
    output logic    foreign,
    output logic    unexpected,
    output logic    untranslated,
    output logic    write_error,
    output logic    datagram_lost
);

  // What happens to a packet after its checks.
  typedef enum logic [1:0] {
    MoveDrop,
    MoveWrite,
    MoveForward
  } move_e;

  typedef struct packed {
    reason_e     reason;
    logic        wrote;
    logic        quiet;         // neither counted nor answered
    logic        account;
    logic        stray;         // GET data without a message
    logic        event_;
    logic        footer;
    logic [31:0] slot;
    logic [4:0]  kind;
    logic [15:0] channel;
    logic [3:0]  intra;
    logic [13:0] length;
    logic [31:0] value;
    logic [31:0] message;
    torus_node_t source;
    logic [3:0]  source_intra;
    logic        ack;
    logic [31:0] immediate;
  } result_t;

  typedef struct packed {
    move_e       move;
    logic        empty;         // no payload
    logic        single;        // one word of it
    logic [8:0]  words;
    logic [63:0] paddr;
    logic [13:0] length;
  } job_t;

  // ---------------------------------------------------------------- checks

  typedef enum logic [3:0] {
    LookIdle,
    LookStart,
    LookKey,
    LookSlot,
    LookMessage,
    LookRoom,
    LookTranslate,
    LookTranslated,
    LookGet,
    LookPush
  } look_e;
  look_e look_q;
  rdma_packet_t packet_q;
  torus_extension_t extension;
  apenet_header_t apenet;
  job_t job_q, job;
  result_t look_result_q;
  logic job_in_ready, job_valid, job_ready;
  logic [2:0] unused_job_level;
  logic [15:0] domain_q;
  logic [47:0] address_q;
  logic [31:0] bytes_q;
  logic is_get;
  reason_e datagram_fault_q;

  assign extension    = packet_q.first;
  assign apenet       = packet_q.first;
  assign is_get       = packet_q.kind == PacketGet;
  assign packet_ready = look_q == LookIdle;

  assign key_req      = '{
          valid: look_q == LookKey,
          domain: packet_q.channel,
          address: packet_q.address,
          bytes: bytes_q
      };
  assign slot_req = '{
          valid: look_q == LookSlot,
          intra: packet_q.intra,
          domain: packet_q.channel,
          length: packet_q.length
      };
  assign check_req = '{
          valid: look_q == LookMessage,
          op: MessageCheck,
          get: 1'b1,
          any: 1'b0,
          message: packet_q.message,
          node: packet_q.source,
          domain: packet_q.channel,
          address: packet_q.address,
          bytes: bytes_q,
          reason: ReasonNone
      };
  assign get_req = '{
          valid: look_q == LookGet,
          entry: '{
              lap: '0,
              message: packet_q.message,
              node: packet_q.source,
              domain: packet_q.channel,
              bytes: extension.bytes,
              reply_domain: extension.channel,
              reply_address: extension.address,
              zero: '0,
              port: packet_q.source_intra,
              address: packet_q.address
          }
      };
  assign tlb_req = '{valid: look_q == LookTranslate, vaddr: {domain_q, address_q}};

  always_ff @(posedge clk) begin
    untranslated  <= 1'b0;
    datagram_lost <= 1'b0;
    unique case (look_q)
      LookIdle: begin
        packet_q <= packet;
        if (packet_valid) look_q <= LookStart;
      end
      LookStart: begin
        domain_q  <= packet_q.channel;
        address_q <= packet_q.address;
        bytes_q   <= is_get ? extension.bytes : 32'(packet_q.length);
        datagram_fault_q <= apenet.version != ApenetVersion ? ReasonBadType :
                            apenet.offset != 0 || packet_q.length < 14'd48 || packet_q.length[3:0] != 0 ?
                            ReasonBadLength : ReasonNone;
        job_q     <= '{
            move: MoveDrop,
            empty: packet_q.words == 0,
            single: packet_q.words == 9'd1,
            words: packet_q.words,
            paddr: '0,
            length: packet_q.length
        };
        look_result_q <= '{
            reason: packet_q.reason,
            wrote: 1'b0,
            quiet: 1'b0,
            account: 1'b0,
            stray: 1'b0,
            event_: 1'b0,
            footer: packet_q.footer,
            slot: '0,
            kind: packet_q.kind,
            channel: packet_q.channel,
            intra: packet_q.intra,
            length: packet_q.length,
            value: packet_q.address[31:0],
            message: packet_q.message,
            source: packet_q.source,
            source_intra: packet_q.source_intra,
            ack: packet_q.ack,
            immediate: packet_q.immediate
        };
        look_q <= LookPush;
        if (packet_q.reason == ReasonNone) begin
          unique case (packet_q.kind)
            PacketPut: begin
              look_result_q.event_ <= packet_q.notify && packet_q.last;
              look_q               <= LookKey;
            end
            PacketGet: look_q <= LookKey;
            PacketSend: begin
              look_result_q.event_ <= 1'b1;
              look_q               <= LookSlot;
            end
            PacketGetData: begin
              look_result_q.account <= 1'b1;
              look_q                <= LookMessage;
            end
            PacketDone, PacketNack: look_result_q.account <= 1'b1;
            PacketDatagram: look_q <= LookRoom;
            default: look_result_q.quiet <= 1'b1;  // raw, ethernet
          endcase
        end
      end
      LookKey: begin
        if (key_rsp.done) begin
          look_q <= LookPush;
          if (key_rsp.reason != ReasonNone) look_result_q.reason <= key_rsp.reason;
          else if (!(is_get ? key_rsp.rights[1] : key_rsp.rights[0])) look_result_q.reason <= ReasonNoRight;
          else if (is_get) look_q <= LookGet;
          else if (bytes_q != 0) look_q <= LookTranslate;
        end
      end
      LookSlot: begin
        if (slot_rsp.done) begin
          look_q               <= slot_rsp.reason == ReasonNone && bytes_q != 0 ? LookTranslate : LookPush;
          look_result_q.reason <= slot_rsp.reason;
          look_result_q.slot   <= slot_rsp.slot;
          address_q            <= slot_rsp.address;
        end
      end
      LookMessage: begin
        if (check_rsp.done) begin
          look_q <= check_rsp.found && bytes_q != 0 ? LookTranslate : LookPush;
          // The account reports the stray packet.
          look_result_q.stray <= !check_rsp.found;
        end
      end
      // The room counts no datagram of this channel that is still to be moved.
      LookRoom: begin
        // Whole datagrams: header, payload, footer.
        if (datagram_fault_q != ReasonNone) begin
          look_result_q.reason <= datagram_fault_q;
          look_q               <= LookPush;
        end else if (!job_valid) begin
          look_q <= LookPush;
          if (datagram_room) job_q.move <= MoveForward;
          else begin
            look_result_q.quiet <= 1'b1;
            datagram_lost       <= 1'b1;
          end
        end
      end
      LookTranslate: if (tlb_rsp.ready) look_q <= LookTranslated;
      LookTranslated: begin
        job_q.paddr <= tlb_rsp.resp_paddr;
        if (tlb_rsp.resp_valid) begin
          look_q <= LookPush;
          if (tlb_rsp.resp_ok) begin
            job_q.move          <= MoveWrite;
            look_result_q.wrote <= 1'b1;
          end else begin
            untranslated         <= 1'b1;
            look_result_q.reason <= ReasonOutOfRange;
          end
        end
      end
      LookGet: begin
        if (get_rsp.done) begin
          look_q <= LookPush;
          if (get_rsp.full) look_result_q.reason <= ReasonGetRingFull;
        end
      end
      default: if (job_in_ready) look_q <= LookIdle;
    endcase
    if (rst) begin
      look_q        <= LookIdle;
      untranslated  <= 1'b0;
      datagram_lost <= 1'b0;
    end
  end

  fifo #(
      .WIDTH($bits(job_t)),
      .DEPTH(4)
  ) jobs (
      .clk,
      .rst,
      .in_valid (look_q == LookPush),
      .in_ready (job_in_ready),
      .in_data  (job_q),
      .out_valid(job_valid),
      .out_ready(job_ready),
      .out_data (job),
      .level    (unused_job_level)
  );

  // ---------------------------------------------------------------- payload

  // Word of the packet, from 1; whether it is the first, or the last of several.
  logic [8:0] word_q;
  logic first_q, last_q;
  logic more, ends, taken, result_in_ready, result_valid, result_ready;
  result_t result;

  assign more           = !job.empty;
  assign ends           = first_q ? job.single : last_q;
  // The result is queued with the last word.
  assign taken          = job_valid && more && data_valid && (!ends || result_in_ready) &&
                          (job.move != MoveWrite || wr_rsp.ready) &&
                          (job.move != MoveForward || datagram_ready);
  assign data_ready     = taken;
  assign job_ready      = result_in_ready && (more ? taken && ends : 1'b1);
  assign wr_req         = '{
          valid: job_valid && more && data_valid && (!ends || result_in_ready) && job.move == MoveWrite,
          cmd: '{addr: job.paddr, len: 16'(job.length), tag: '0},
          last: ends
      };
  assign wr_data        = data;
  assign datagram_valid = job_valid && more && data_valid && (!ends || result_in_ready) &&
                          job.move == MoveForward;
  assign datagram_first = first_q;
  assign datagram_last  = ends;
  assign datagram_data  = data;

  always_ff @(posedge clk) begin
    if (taken) begin
      word_q  <= ends ? 9'd1 : word_q + 9'd1;
      first_q <= ends;
      last_q  <= word_q + 9'd1 == job.words;
    end
    if (rst) begin
      word_q  <= 9'd1;
      first_q <= 1'b1;
    end
  end

  // Results are stored with their jobs, and released as these end: only the level follows the payload.
  localparam int unsigned Results = 8;           // released and not yet read, at most
  localparam int unsigned Places = 2 * Results;  // with those of the jobs
  (* no_rw_check *) result_t store[Places];
  logic [$clog2(Places)-1:0] stored_q, read_q;
  logic [$clog2(Results):0] released_q, released_more, released_less;
  logic result_read, result_valid_q;
  result_t result_q;

  assign released_more   = released_q + 1'b1;
  assign released_less   = released_q - 1'b1;
  assign result_in_ready = !released_q[$clog2(Results)];
  assign result_read     = released_q != 0 && (!result_valid_q || result_ready);
  assign result_valid    = result_valid_q;
  assign result          = result_q;

  always_ff @(posedge clk) begin
    if (look_q == LookPush && job_in_ready) begin
      store[stored_q] <= look_result_q;
      stored_q        <= stored_q + 1'b1;
    end
    if (result_read) begin
      result_q <= store[read_q];
      read_q   <= read_q + 1'b1;
    end
    // Both are late: they select.
    if (job_valid && job_ready && !result_read) released_q <= released_more;
    else if (result_read && !(job_valid && job_ready)) released_q <= released_less;
    result_valid_q <= result_read || (result_valid_q && !result_ready);
    if (rst) begin
      stored_q       <= '0;
      read_q         <= '0;
      released_q     <= '0;
      result_valid_q <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- after the write

  typedef enum logic [2:0] {
    EndIdle,
    EndStart,
    EndAccount,
    EndReply,
    EndEvent
  } end_e;
  end_e end_q;
  result_t done_q;
  logic [4:0] ordered_q, failed_q;  // writes completed and not yet used; of these, failed
  logic failed_event_q;
  logic answered;

  // A failed write is rare: it marks all writes that complete before the marks are used.
  assign result_ready = end_q == EndIdle && (!result.wrote || ordered_q != 0);
  // GETs that succeed are answered by their data.
  always_comb begin
    unique case (done_q.kind)
      PacketPut, PacketSend: answered = done_q.ack || done_q.reason != ReasonNone;
      PacketGet: answered = done_q.reason != ReasonNone;
      PacketDatagram: answered = 1'b0;
      default: answered = done_q.reason == ReasonBadType;
    endcase
    answered &= done_q.footer;
  end

  assign account_req  = '{
          valid: end_q == EndAccount,
          op: done_q.kind == PacketNack || done_q.reason != ReasonNone ? MessageFail : MessageAccount,
          get: done_q.kind == PacketGetData,
          any: done_q.kind == PacketNack,
          message: done_q.message,
          node: done_q.source,
          domain: done_q.channel,
          address: '0,
          bytes: done_q.kind == PacketDone ? done_q.value : done_q.stray ? '1 : 32'(done_q.length),
          reason: done_q.kind == PacketNack ? reason_e'(done_q.value[3:0]) : done_q.reason
      };
  assign reply_req    = '{
          valid: end_q == EndReply,
          item: '{
              nack: done_q.reason != ReasonNone,
              node: done_q.source,
              port: done_q.source_intra,
              channel: done_q.channel,
              value: done_q.reason != ReasonNone ? 32'(done_q.reason) : 32'(done_q.length),
              message: done_q.message,
              source_intra: done_q.intra
          }
      };

  // A slot taken for a SEND that failed is reported, so that it can be posted again.
  assign ev_req = '{
          valid: end_q == EndEvent,
          item: '{
              lap: '0,
              n: done_q.message,
              stamp: '0,
              frame: {done_q.channel, done_q.source},
              bytes: failed_event_q ? '0 : 32'(done_q.length),
              buffer: failed_event_q && done_q.kind == PacketNack ? '0 :
                      done_q.kind == PacketSend ? done_q.slot : done_q.immediate,
              flags: failed_event_q ? 16'(done_q.reason) : '0,
              stream: 8'(done_q.intra),
              kind: failed_event_q ? KindFailed : done_q.kind == PacketSend ? KindSendArrived : KindPutArrived
          }
      };

  always_ff @(posedge clk) begin
    counted     <= 1'b0;
    foreign     <= 1'b0;
    unexpected  <= 1'b0;
    write_error <= 1'b0;
    ordered_q   <= ordered_q + 5'(wr_rsp.done_valid) - 5'(result_valid && result_ready && result.wrote);
    if (wr_rsp.done_valid && wr_rsp.done_error) failed_q <= ordered_q + 5'd1;
    else if (result_valid && result_ready && result.wrote && failed_q != 0) failed_q <= failed_q - 5'd1;
    unique case (end_q)
      EndIdle: begin
        done_q         <= result;
        failed_event_q <= 1'b0;
        if (result_valid && result_ready) begin
          end_q <= EndStart;
          if (result.wrote && failed_q != 0) begin
            done_q.reason <= ReasonOutOfRange;
            write_error   <= 1'b1;
          end
        end
      end
      EndStart: begin
        counted <= !done_q.quiet && (!done_q.account || done_q.reason != ReasonNone);
        reason  <= done_q.reason;
        foreign <= done_q.quiet && done_q.kind != PacketDatagram;
        if (done_q.quiet) end_q <= EndIdle;
        else if (done_q.account) end_q <= EndAccount;
        else if (answered) end_q <= EndReply;
        else if (done_q.event_) end_q <= EndEvent;
        else end_q <= EndIdle;
      end
      EndAccount: begin
        if (account_rsp.done) begin
          end_q   <= EndIdle;
          counted <= account_rsp.found && done_q.reason == ReasonNone;
          if (!account_rsp.found) begin
            unexpected <= 1'b1;
            if (done_q.kind == PacketNack) begin
              // Refused packet of a message without DONE.
              failed_event_q <= 1'b1;
              done_q.reason  <= reason_e'(done_q.value[3:0]);
              end_q          <= EndEvent;
            end
          end
        end
      end
      EndReply: begin
        if (reply_ready) begin
          failed_event_q <= done_q.reason != ReasonNone;
          end_q <= done_q.event_ && (done_q.reason == ReasonNone || done_q.kind == PacketSend &&
                                     done_q.reason == ReasonOutOfRange) ? EndEvent : EndIdle;
        end
      end
      default: if (ev_ready) end_q <= EndIdle;
    endcase
    if (rst) begin
      end_q       <= EndIdle;
      ordered_q   <= '0;
      failed_q    <= '0;
      counted     <= 1'b0;
      foreign     <= 1'b0;
      unexpected  <= 1'b0;
      write_error <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, wr_rsp.done_tag, extension.zero, apenet, done_q.wrote, 1'b0};

endmodule
