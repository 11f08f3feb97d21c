// SPDX-License-Identifier: SHL-2.1
// Front of a receive channel in its MAC's clock: receive_front with its clock crossings. Only configuration,
// replies, counts and the packets' buffer connect it to the card clock. A reset of the MAC in operation ends
// the datagram in progress as a bad one.
module receive_mac
  import nanet_pkg::*;
#(
    // Filters of the stream.
    parameter int unsigned FILTERS = 2,
    // Depth of the buffer behind, in words of 128 bits; a power of two, at least 1024.
    parameter int unsigned BUFFER_WORDS = 1024
) (
    input logic clk,
    input logic rst,

    /*
     * clock and reset of the MAC; the reset may come at any time
     */
    input logic mac_clk,
    input logic mac_rst,

    /*
     * configuration, steady while `take`
     */
    input host_t                 host,
    input filter_t [FILTERS-1:0] filter,
    input mgp_rules_t            rules,
    input logic                  take,    // frames are accepted, from the first whole one
    input logic [31:0]           now,     // card clock, low word

    /*
     * frames from the MAC, in its clock
     */
    input axis_rx_req_t s_axis_rx_req,

    /*
     * packets in the MAC's clock; level of the buffer; resets of the buffer's two sides
     */
    output apenet_req_t                   apenet_req,
    input  logic [$clog2(BUFFER_WORDS):0] level,
    output logic                          apenet_rst,
    output logic                          clear,

    /*
     * ARP replies, where enabled for this stream
     */
    input  logic        arp_answers,
    output logic        m_axis_arp_tvalid,
    input  logic        m_axis_arp_tready,
    output logic [63:0] m_axis_arp_tdata,
    output logic [7:0]  m_axis_arp_tkeep,
    output logic        m_axis_arp_tlast,

    /*
     * reset of the channel: until both sides have been reset; words on their way to the buffer
     */
    output logic channel_rst,
    output logic arriving,

    /*
     * counters: pulses; at most 16 frames may end within twelve cycles of the slower clock
     */
    output logic           verdict_valid,
    output frame_verdict_e verdict,
    output logic           overflow,

    /*
     * pulse per accepted frame: card clock at its first and last word
     */
    output logic        frame_valid,
    output logic [31:0] frame_start,
    output logic [31:0] frame_end
);

  // Cycles from a word to the last packet word that depends on it, with margin.
  localparam int unsigned Latency = 63;

  // ------------------------------------------------------------------ resets, configuration, card clock

  logic mac_out, front_rst;
  reset_crossing resets (
      .a_clk  (clk),
      .a_rst  (rst),
      .a_out  (channel_rst),
      .a_clear(clear),
      .b_clk  (mac_clk),
      .b_rst  (1'b0),
      .b_out  (mac_out),
      .b_clear(apenet_rst)
  );
  assign front_rst = mac_out || mac_rst;

  // Sampled until frames are accepted, and steady from then on.
  (* async_reg = "true" *) logic [1:0] take_q, answers_q;
  host_t host_q;
  filter_t [FILTERS-1:0] filter_q;
  mgp_rules_t rules_q;
  logic [31:0] mac_now;

  always_ff @(posedge mac_clk) begin
    take_q    <= {take_q[0], take};
    answers_q <= {answers_q[0], arp_answers};
    if (!take_q[1]) begin
      host_q   <= host;
      filter_q <= filter;
      rules_q  <= rules;
    end
    if (mac_out) take_q <= '0;
  end

  gray_crossing #(
      .WIDTH(32)
  ) clock (
      .a_clk  (clk),
      .a_count(now),
      .b_clk  (mac_clk),
      .b_count(mac_now)
  );

  // ------------------------------------------------------------------ whole frames

  logic within_q, taken_q, accept;
  axis_rx_req_t rx_req;
  logic [31:0] start_q;

  assign accept = within_q ? taken_q : take_q[1];
  always_comb begin
    rx_req        = s_axis_rx_req;
    rx_req.tvalid = s_axis_rx_req.tvalid && accept;
  end

  always_ff @(posedge mac_clk) begin
    if (s_axis_rx_req.tvalid) begin
      within_q <= !s_axis_rx_req.tlast;
      taken_q  <= accept;
      if (!within_q) start_q <= mac_now;
    end
    if (mac_out) taken_q <= 1'b0;
    if (mac_rst) within_q <= 1'b0;
  end

  // ------------------------------------------------------------------ front

  logic front_verdict_valid, front_overflow, arp_tvalid, arp_tready, arp_tlast;
  frame_verdict_e front_verdict;
  logic [63:0] arp_tdata;
  logic [7:0] arp_tkeep;
  apenet_req_t front_req;

  receive_front #(
      .FILTERS     (FILTERS),
      .BUFFER_WORDS(BUFFER_WORDS)
  ) front (
      .clk              (mac_clk),
      .rst              (front_rst),
      .host             (host_q),
      .filter           (filter_q),
      .rules            (rules_q),
      .now              (mac_now),
      .s_axis_rx_req    (rx_req),
      .arp_answers      (answers_q[1]),
      .m_axis_arp_tvalid(arp_tvalid),
      .m_axis_arp_tready(arp_tready),
      .m_axis_arp_tdata (arp_tdata),
      .m_axis_arp_tkeep (arp_tkeep),
      .m_axis_arp_tlast (arp_tlast),
      .apenet_valid     (front_req.valid),
      .apenet_kind      (front_req.kind),
      .apenet_data      (front_req.data),
      .level,
      .verdict_valid    (front_verdict_valid),
      .verdict          (front_verdict),
      .overflow         (front_overflow)
  );

  // ------------------------------------------------------------------ reset of the MAC in operation

  // The reset cuts packets, an ARP reply, and datagrams that are counted but not yet complete. Room for the
  // words that complete a packet was there when it began.
  typedef enum logic [1:0] {
    Between,  // no datagram in progress
    Header,   // its header has passed, no payload
    Payload
  } progress_e;

  progress_e progress_q;
  logic abort_q, front_ends;
  logic [3:0] counted_q;  // datagrams with a good verdict whose end has not passed
  logic uncounted;
  apenet_footer_t front_footer, bad_end;

  assign front_footer = front_req.data;
  assign front_ends   = front_req.valid && front_req.kind == ApenetFooter && front_footer.last;
  assign uncounted    = abort_q && !front_req.valid && progress_q == Between && counted_q != 0;
  always_comb begin
    bad_end         = '0;
    bad_end.stamp   = mac_now;
    bad_end.last    = 1'b1;
    bad_end.refusal = MgpNone;
    bad_end.verdict = FrameBadFcs;
  end

  always_ff @(posedge mac_clk) begin
    apenet_req <= front_req;
    if (front_req.valid) begin
      if (front_ends) progress_q <= Between;
      else progress_q <= front_req.kind == ApenetHeader && progress_q == Between ? Header : Payload;
    end else if (abort_q && progress_q != Between) begin
      // A descriptor precedes the end of each datagram, so an empty payload is added to a bare header.
      apenet_req.valid <= 1'b1;
      apenet_req.kind  <= progress_q == Header ? ApenetPayload : ApenetFooter;
      apenet_req.data  <= progress_q == Header ? '0 : bad_end;
      progress_q       <= progress_q == Header ? Payload : Between;
    end
    counted_q <= counted_q + 4'(front_verdict_valid && front_verdict == FrameUdp) -
                 4'((front_ends && front_footer.verdict == FrameUdp) || front_overflow || uncounted);
    abort_q   <= mac_rst || (abort_q && (front_req.valid || progress_q != Between || counted_q != 0));
    if (mac_out) begin
      apenet_req.valid <= 1'b0;
      progress_q       <= Between;
      counted_q        <= '0;
      abort_q          <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ ARP replies

  logic arp_open_q, arp_room, arp_abort_q;
  logic arp_in_valid, arp_in_last;

  assign arp_in_valid = arp_tvalid || arp_abort_q;
  assign arp_in_last  = arp_tlast || arp_abort_q;
  assign arp_tready   = arp_room && !arp_abort_q;

  always_ff @(posedge mac_clk) begin
    if (arp_in_valid && arp_room) arp_open_q <= !arp_in_last;
    arp_abort_q <= (mac_rst && arp_open_q && !(arp_in_valid && arp_room && arp_in_last)) ||
                   (arp_abort_q && !arp_room);
    if (mac_out) begin
      arp_open_q  <= 1'b0;
      arp_abort_q <= 1'b0;
    end
  end

  async_fifo #(
      .WIDTH(73),
      .DEPTH(16)
  ) replies (
      .wr_clk   (mac_clk),
      .wr_rst   (apenet_rst),
      .in_valid (arp_in_valid),
      .in_ready (arp_room),
      .in_data  ({arp_in_last, arp_tkeep, arp_tdata}),
      .rd_clk   (clk),
      .rd_rst   (clear),
      .out_valid(m_axis_arp_tvalid),
      .out_ready(m_axis_arp_tready),
      .out_data ({m_axis_arp_tlast, m_axis_arp_tkeep, m_axis_arp_tdata})
  );

  // ------------------------------------------------------------------ counts and times

  typedef struct packed {
    logic           overflow;
    logic           verdict_valid;
    frame_verdict_e verdict;
  } count_t;

  count_t count_in, count;
  logic count_valid, count_room, time_room;

  assign count_in = '{overflow: front_overflow || uncounted, verdict_valid: front_verdict_valid,
                      verdict: front_verdict};
  async_fifo #(
      .WIDTH($bits(count_t)),
      .DEPTH(16)
  ) counts (
      .wr_clk   (mac_clk),
      .wr_rst   (apenet_rst),
      .in_valid (count_in.overflow || count_in.verdict_valid),
      .in_ready (count_room),
      .in_data  (count_in),
      .rd_clk   (clk),
      .rd_rst   (clear),
      .out_valid(count_valid),
      .out_ready(1'b1),
      .out_data (count)
  );
  assign verdict_valid = count_valid && count.verdict_valid;
  assign verdict       = count.verdict;
  assign overflow      = count_valid && count.overflow;

  async_fifo #(
      .WIDTH(64),
      .DEPTH(16)
  ) times (
      .wr_clk   (mac_clk),
      .wr_rst   (apenet_rst),
      .in_valid (rx_req.tvalid && rx_req.tlast),
      .in_ready (time_room),
      .in_data  ({within_q ? start_q : mac_now, mac_now}),
      .rd_clk   (clk),
      .rd_rst   (clear),
      .out_valid(frame_valid),
      .out_ready(1'b1),
      .out_data ({frame_start, frame_end})
  );

  // ------------------------------------------------------------------ activity

  logic [5:0] quiet_q;
  logic busy_q;
  (* async_reg = "true" *) logic [1:0] arriving_q;

  always_ff @(posedge mac_clk) begin
    if (s_axis_rx_req.tvalid || abort_q) quiet_q <= '0;
    else if (quiet_q != 6'(Latency)) quiet_q <= quiet_q + 1'b1;
    busy_q <= quiet_q != 6'(Latency);
    if (mac_out) begin
      quiet_q <= 6'(Latency);
      busy_q  <= 1'b0;
    end
  end
  always_ff @(posedge clk) arriving_q <= {arriving_q[0], busy_q};
  assign arriving = arriving_q[1];

  logic unused;
  assign unused = &{1'b0, count_room, time_room, front_footer};

endmodule
