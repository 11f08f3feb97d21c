// SPDX-License-Identifier: SHL-2.1
// Buffer under construction in gather mode `packets`. The first payload opens it, each payload takes a
// slot, and a full buffer or a command closes it. Its number then goes to the sender, and the next buffer
// is looked up.
module clop_packets_fill
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
#(
    // As in clop_packets.
    parameter int unsigned MAX_BUFFERS = 2048,
    parameter int unsigned DEVICES = 1,
    parameter logic [63:0] FIRST_N = 0
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, as in clop_packets
     */
    input logic [4:0]               log2_buffers,
    input logic [4:0]               log2_devices,
    input logic [DEVICES-1:0][63:0] base_vaddr,
    input logic [17:0]              buffer_units,
    input logic [12:0]              packets,
    input logic [16:0]              slot_bytes,
    input logic [63:0]              now,

    /*
     * return slots, room in the event queues
     */
    input  logic                           return_valid,
    input  logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input  logic [31:0]                    return_value,
    input  logic [DEVICES-1:0][15:0]       room,
    output logic [DEVICES-1:0]             promise,

    /*
     * a payload, steady from the cycle before the pulse `place` on
     */
    input  logic           place,
    input  place_request_t request,
    output logic           has,      // a payload in the next cycle has a buffer
    output placed_e        as,       // outcome, valid with `place`
    output logic           opens,    // the payload takes a new buffer
    output logic           fills,    // the payload takes the last slot of a buffer
    output logic [63:0]    vaddr,

    /*
     * close: pulse; the buffer is closed one cycle after it or after `fills`
     */
    input  logic            close,
    input  logic [31:0]     start,    // stamp and channel of the closing packet, valid with `closed`
    input  logic [2:0]      channel,
    output logic            closed,
    output packets_notice_t closing,

    /*
     * number and device of the buffer
     */
    output logic [31:0]                              n,
    output logic [(DEVICES>1?$clog2(DEVICES):1)-1:0] device,

    /*
     * sender
     */
    output tx_pending_req_t tx_pending_req,
    input  logic            tx_pending_ready,
    input  logic [31:0]     sender_next
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);

  logic [63:0] n_q, buffer_vaddr, slot_vaddr_q;
  logic open_q, available, uses;
  logic [12:0] filled_q;
  logic [31:0] bytes_q;
  logic [23:0] frame_q;
  logic [IndexW-1:0] buffer;
  logic [DEVICES-1:0] room_q;

  assign n = n_q[31:0];

  // Computed well before use: n changes when a buffer is closed.
  clop_packets_buffer #(
      .MAX_BUFFERS(MAX_BUFFERS),
      .DEVICES    (DEVICES)
  ) buffers (
      .clk,
      .rst,
      .log2_buffers,
      .log2_devices,
      .base_vaddr,
      .buffer_units,
      .sender_next,
      .return_valid,
      .return_index,
      .return_value,
      .n,
      .taken(opens),
      .buffer,
      .device,
      .vaddr(buffer_vaddr),
      .available
  );

  // Buffer needs of a payload, precomputed.
  logic opens_q, has_q, fills_q, fits_q;
  logic [12:0] filled_next_q;
  logic [31:0] bytes_next_q;

  assign has   = open_q || (available && room_q[device]);
  assign as    = !has_q ? PlacedOverrun : !fits_q ? PlacedOverflow : PlacedUsed;
  assign uses  = place && has_q && fits_q;
  assign opens = place && opens_q;
  assign fills = uses && fills_q;

  always_ff @(posedge clk) begin
    for (int d = 0; d < int'(DEVICES); d++) room_q[d] <= room[d] >= 16'd4;
    has_q         <= has;
    opens_q       <= !open_q && available && room_q[device];
    fits_q        <= 17'(request.header.length) <= slot_bytes;
    vaddr         <= open_q ? slot_vaddr_q : buffer_vaddr;
    filled_next_q <= (open_q ? filled_q : '0) + 13'd1;
    bytes_next_q  <= (open_q ? bytes_q : '0) + 32'(request.header.length);
    fills_q       <= (open_q ? filled_q : '0) + 13'd1 == packets;
    closed        <= fills || (close && open_q);
    promise       <= '0;
    if (opens) begin
      open_q          <= 1'b1;
      filled_q        <= '0;
      bytes_q         <= '0;
      frame_q         <= request.header.frame;
      slot_vaddr_q    <= buffer_vaddr;
      promise[device] <= 1'b1;
    end
    if (uses) begin
      filled_q     <= filled_next_q;
      bytes_q      <= bytes_next_q;
      slot_vaddr_q <= vaddr + 64'(slot_bytes);
    end
    if (tx_pending_ready) tx_pending_req.valid <= 1'b0;
    if (closed) begin
      open_q           <= 1'b0;
      n_q              <= n_q + 64'd1;
      tx_pending_req.valid <= 1'b1;
      tx_pending_req.item       <= '{overrun: 1'b0, count: 32'd1, frame: 32'(frame_q), n: n_q, stamp: now};
    end
    if (rst) begin
      n_q              <= FIRST_N;
      open_q           <= 1'b0;
      closed           <= 1'b0;
      tx_pending_req.valid <= 1'b0;
      promise          <= '0;
    end
  end

  assign closing = '{overrun: 1'b0, n: n, buffer: 16'(buffer), device: 8'(device), frame: frame_q,
                     bytes: bytes_q, empty: packets - filled_q, vaddr: slot_vaddr_q, start: start,
                     channel: channel};

  logic unused;
  assign unused = &{1'b0, request};

endmodule
