// SPDX-License-Identifier: SHL-2.1
// Types of the internal DMA interface, of event requests and of the interface from receive path to sender
// (doc/dma.md). Packed structures in memory have byte 0 in bits 7:0.
package nanet_dma_pkg;

  // DMA request. Bytes are packed from bit 0 of the first data word, independent of the address.
  typedef struct packed {
    logic [63:0] addr;  // bus address of the first byte, a multiple of 4
    logic [15:0] len;   // bytes, 1 to MaxLen
    logic [7:0]  tag;   // returned with the completion; an arbiter stores its port in the upper bits
  } dma_cmd_t;

  localparam int unsigned MaxLen = 16384;

  // Bundles of the DMA interface; data words are separate ports (their width is a
  // parameter), as is `rd_data_ready`, which may depend on the response. In bench
  // wrappers, port `wr_req` becomes `wr_valid`, `wr_cmd`, `wr_last` (flatten.py).
  typedef struct packed {
    logic     valid;
    dma_cmd_t cmd;
    logic     last;
  } dma_wr_req_t;

  typedef struct packed {
    logic       ready;
    logic       done_valid;  // completion: one pulse per request, no back-pressure
    logic [7:0] done_tag;
    logic       done_error;
  } dma_wr_rsp_t;

  typedef struct packed {
    logic     valid;
    dma_cmd_t cmd;
  } dma_rd_req_t;

  typedef struct packed {
    logic       ready;
    logic       data_valid;
    logic [7:0] data_tag;
    logic       data_last;
    logic       data_error;
  } dma_rd_rsp_t;

  // The C++ model skips unused results where possible; hardware always computes them.
`ifdef NANET_CLOCK_GATES
  localparam bit Lazy = 1'b1;
`else
  localparam bit Lazy = 1'b0;
`endif

  // Event-queue entry in its memory layout, 32 B. The event queue writes `lap`; masters leave it 0.
  typedef struct packed {
    logic [31:0] lap;
    logic [31:0] n;
    logic [63:0] stamp;  // card clock
    logic [31:0] frame;
    logic [31:0] bytes;
    logic [31:0] buffer;
    logic [15:0] flags;
    logic [7:0]  stream;
    logic [7:0]  kind;
  } event_t;

  localparam logic [7:0] KindReceiveDone = 8'd1;
  localparam logic [7:0] KindSendDone = 8'd2;
  localparam logic [7:0] KindError = 8'd3;
  localparam logic [7:0] KindBurstBegins = 8'd4;
  localparam logic [7:0] KindBurstEnds = 8'd5;

  localparam logic [15:0] FlagComplete = 16'h0001;
  localparam logic [15:0] FlagTimedOut = 16'h0002;
  localparam logic [15:0] FlagTruncated = 16'h0004;
  localparam logic [15:0] FlagOverrun = 16'h0008;
  localparam logic [15:0] FlagLate = 16'h0010;

  // Send-ring descriptor in its memory layout, 32 B.
  typedef struct packed {
    logic [31:0] lap;
    logic [31:0] reserved;
    logic [31:0] flags;
    logic [31:0] token;
    logic [31:0] destination;
    logic [31:0] bytes;
    logic [63:0] addr;
  } descriptor_t;

  // Pending numbers, from receive path to sender, in strictly increasing order of n. With a
  // buffer: one number, count 1. Without a buffer (overrun): `count` consecutive numbers and frames.
  typedef struct packed {
    logic        overrun;
    logic [31:0] count;
    logic [31:0] frame;
    logic [63:0] n;
    logic [63:0] stamp;  // card clock: first packet of the frame (gather mode `packets`: buffer closed)
  } tx_pending_t;

  // UDP endpoint of transmitted packets, from registers.
  typedef struct packed {
    logic [47:0] mac;    // first octet on the wire in bits 47:40
    logic [31:0] ip;     // first octet in bits 31:24
    logic [15:0] port;
    logic        valid;
  } endpoint_t;

  // Pending numbers as a stream.
  typedef struct packed {
    logic        valid;
    tx_pending_t item;
  } tx_pending_req_t;

  // Configuration of the send path, steady while enabled. Counts are powers of two, given by their exponents.
  typedef struct packed {
    logic [7:0]  stream;
    logic [4:0]  log2_devices;
    logic [4:0]  log2_descriptors;
    logic [31:0] send_bytes;     // size of all send buffers of a device
    logic [47:0] deadline;       // cycles after the stamp of the number; 0: none
    logic [31:0] poll_cycles;    // poll interval without a doorbell; 0: never
    logic [63:0] late_template;  // header-only packet; frame in bits 23:0
  } send_cfg_t;

  // Source of transmitted packets, from registers.
  typedef struct packed {
    logic [47:0] mac;
    logic [31:0] ip;
    logic [15:0] port;
  } source_cfg_t;

  // Counters of the send path: pulses.
  typedef struct packed {
    logic out;
    logic answered;
    logic late;
    logic bad_descriptor;
    logic after_deadline;
    logic read_error;
  } send_cnt_t;

  // Event of the receive path; `start` and `channel` of the packet that closed the frame.
  typedef struct packed {
    event_t      item;
    logic        promised;
    logic [31:0] start;
    logic [2:0]  channel;
  } event_req_t;

  // Register bus: a request stays until it is acknowledged. The address is a separate port.
  typedef struct packed {
    logic        request;
    logic        write;
    logic [2:0]  bar;
    logic [31:0] wdata;
    logic [3:0]  enable;
  } reg_req_t;

  typedef struct packed {
    logic        acknowledge;
    logic [31:0] rdata;
  } reg_rsp_t;

  // Microcontroller bus, same protocol.
  typedef struct packed {
    logic        request;
    logic        write;
    logic [31:0] wdata;
  } fw_req_t;

  typedef struct packed {
    logic        acknowledge;
    logic [31:0] rdata;
  } fw_rsp_t;

endpackage
