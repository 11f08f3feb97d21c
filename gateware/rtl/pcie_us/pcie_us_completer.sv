// SPDX-License-Identifier: SHL-2.1
// Register access through the completer streams of the UltraScale+ integrated block (AMD PG213,
// dword-aligned, no straddling), one dword at a time. Writes of any length execute once complete. Reads
// have up to 16 dwords; longer ones are aborted. Other non-posted requests return unsupported; messages
// and requests that the block breaks off are dropped.
module pcie_us_completer
  import nanet_dma_pkg::*;
#(
    // Width of the block streams in bits: 128 or 256.
    parameter int unsigned DATA_W = 256,
    // Longest write in bytes, a power of two from 64; the block accepts at most 1024.
    parameter int unsigned MAX_WRITE = 1024,
    // Width of a register byte address.
    parameter int unsigned ADDR_W = 16
) (
    input logic clk,
    input logic rst,

    /*
     * Completer request
     */
    input  logic                 cq_tvalid,
    output logic                 cq_tready,
    input  logic [DATA_W-1:0]    cq_tdata,
    input  logic [DATA_W/32-1:0] cq_tkeep,
    input  logic [87:0]          cq_tuser,
    input  logic                 cq_tlast,

    /*
     * Completer completion
     */
    output logic                 cc_tvalid,
    input  logic                 cc_tready,
    output logic [DATA_W-1:0]    cc_tdata,
    output logic [DATA_W/32-1:0] cc_tkeep,
    output logic [32:0]          cc_tuser,
    output logic                 cc_tlast,

    /*
     * Registers: a request stays until it is acknowledged
     */
    output reg_req_t          reg_req,
    output logic [ADDR_W-1:0] reg_addr,
    input  reg_rsp_t          reg_rsp,

    /*
     * Pulse: unsupported request
     */
    output logic count_unsupported
);

  localparam int unsigned N = DATA_W / 32;
  localparam int unsigned LaneW = $clog2(N);
  localparam int unsigned MaxRead = 16;
  localparam int unsigned MaxWrite = MAX_WRITE / 4;
  localparam int unsigned Beats = MaxWrite / N;  // maximum beats of a write after the first
  localparam int unsigned BeatW = $clog2(Beats);
  localparam int unsigned Cells = 3 + MaxRead;

  if (DATA_W != 128 && DATA_W != 256) begin : gen_check_width
    $fatal(1, "pcie_us_completer: DATA_W must be 128 or 256");
  end
  if (MAX_WRITE < 64 || 2 ** $clog2(MAX_WRITE) != MAX_WRITE) begin : gen_check_write
    $fatal(1, "pcie_us_completer: MAX_WRITE must be a power of two, at least 64");
  end

  localparam logic [3:0] MemoryRead = 4'd0;
  localparam logic [3:0] MemoryWrite = 4'd1;
  localparam logic [3:0] FirstMessage = 4'd12;

  localparam logic [2:0] Successful = 3'b000;
  localparam logic [2:0] Unsupported = 3'b001;
  localparam logic [2:0] Abort = 3'b100;

  typedef enum logic [2:0] {
    Idle,
    Judge,
    Hold,
    Write,
    Read,
    Drain,
    Complete,
    Send
  } state_t;

  state_t state_q;
  logic [127:0] head_q;
  logic [3:0] first_be_q, last_be_q;
  logic broken, broken_q;  // the block discards the request: with the current beat, with an earlier beat
  logic [DATA_W-1:0] beat_q;
  logic have_q;  // beat_q holds data starting at lane_q
  logic beat_last_q;  // the first beat is the last beat of the request
  logic [LaneW-1:0] lane_q;
  logic [3:0] index_q;  // word index of the current dword, in a read
  logic [ADDR_W-1:2] addr_q;  // address of the current dword
  logic [3:0] enable_q;  // byte enables of the current dword
  logic last_q;  // last dword of the request
  logic [10:0] left_q;  // remaining dwords after the current one
  logic [2:0] status_q;
  logic answers_q;  // a completion follows

  logic [10:0] length;
  logic [3:0] kind;
  logic at_dword, step;
  logic acknowledged_q;  // acknowledged in the previous cycle, with read data
  logic [31:0] rdata_q;

  assign length = head_q[74:64];
  assign kind = head_q[78:75];

  // A dword without byte enables is not written, and reads as 0.
  assign at_dword = (state_q == Write && have_q) || state_q == Read;
  assign step = at_dword && (enable_q == 0 || acknowledged_q);
  assign reg_req.request = at_dword && enable_q != 0 && !acknowledged_q;
  assign reg_req.write = state_q == Write;
  assign reg_req.bar = head_q[114:112];
  assign reg_addr = {addr_q, 2'd0};
  assign reg_req.wdata = beat_q[{lane_q, 5'd0}+:32];
  assign reg_req.enable = enable_q;

  assign cq_tready = state_q == Idle || state_q == Hold || state_q == Drain;

  always_ff @(posedge clk) begin
    acknowledged_q <= reg_req.request && reg_rsp.acknowledge;
    rdata_q        <= reg_rsp.rdata;
    if (rst) acknowledged_q <= 1'b0;
  end

  // Discontinue is flagged in the last beat. Hence all beats of a write are stored before its first register
  // write.
  assign broken = cq_tuser[41];

  logic hold, settled_q, none_q;
  logic [BeatW:0] in_q, out_q;  // beats stored, beats consumed
  logic [DATA_W-1:0] held;

  assign hold = state_q == Hold && cq_tvalid;

  ram_1r1w #(
      .WIDTH(DATA_W),
      .DEPTH(Beats)
  ) beats (
      .clk,
      .wr_en  (hold),
      .wr_addr(in_q[BeatW-1:0]),
      .wr_data(cq_tdata),
      .rd_addr(out_q[BeatW-1:0]),
      .rd_data(held)
  );

  always_ff @(posedge clk) begin
    settled_q <= state_q == Write && !have_q;  // the memory read is complete
    none_q    <= out_q == in_q;                // processing a beat takes several cycles
    if (hold) in_q <= in_q + 1'b1;
    if (state_q == Write && !have_q && settled_q) out_q <= out_q + 1'b1;
    if (state_q == Idle) begin
      in_q  <= '0;
      out_q <= '0;
    end
  end

  // Bytes from the first to the last enabled byte (PCIe base specification, byte count table).
  function automatic logic [2:0] lowest(input logic [3:0] be);
    return be[0] ? 3'd0 : be[1] ? 3'd1 : be[2] ? 3'd2 : be[3] ? 3'd3 : 3'd0;
  endfunction
  function automatic logic [2:0] above(input logic [3:0] be);  // bytes above the highest enabled one
    return be[3] ? 3'd0 : be[2] ? 3'd1 : be[1] ? 3'd2 : be[0] ? 3'd3 : 3'd3;
  endfunction

  logic [12:0] byte_count, byte_count_q;
  logic [6:0] lower_addr, lower_addr_q;
  assign byte_count = {length, 2'b00} - 13'(lowest(first_be_q))
                      - 13'(length == 11'd1 ? above(first_be_q) : above(last_be_q));
  assign lower_addr = {head_q[6:2], 2'b00} + 7'(lowest(first_be_q));

  // Completion, dword by dword; sent from the low end.
  logic [Cells*32-1:0] cells_q;
  logic [4:0] cells_left_q;
  logic [MaxRead*32-1:0] read_q;
  logic [95:0] head_out;
  assign head_out = {
    1'b0, head_q[126:124], head_q[123:121],  // attributes and traffic class of the request
    1'b0, 16'd0,  // completer ID from the block
    head_q[103:96], head_q[95:80],
    1'b0, 1'b0, status_q, status_q == Successful ? length : 11'd0,
    3'd0, byte_count_q, 6'd0, 2'd0, 1'b0, lower_addr_q
  };

  assign cc_tvalid = state_q == Send;
  assign cc_tdata = cells_q[DATA_W-1:0];
  assign cc_tlast = cells_left_q <= 5'(N);
  assign cc_tuser = '0;
  always_comb begin
    for (int unsigned i = 0; i < N; i++) cc_tkeep[i] = 5'(i) < cells_left_q;
  end

  logic serves;
  assign serves = length != 0 && (kind == MemoryWrite ? length <= 11'(MaxWrite) :
                                  kind == MemoryRead && length <= 11'(MaxRead));

  always_ff @(posedge clk) begin
    count_unsupported <= (state_q == Judge && (!serves || broken_q)) ||
                         (hold && cq_tlast && (broken || broken_q));
    if (rst) count_unsupported <= 1'b0;
  end

  always_ff @(posedge clk) begin
    case (state_q)
      Idle:
      if (cq_tvalid) begin
        head_q      <= cq_tdata[127:0];
        first_be_q  <= cq_tuser[3:0];
        last_be_q   <= cq_tuser[7:4];
        broken_q    <= broken;
        beat_q      <= cq_tdata;
        beat_last_q <= cq_tlast;
        // Data follow the descriptor: in the next beat for 128-bit streams.
        lane_q      <= LaneW'(4);
        have_q      <= N > 4;
        status_q    <= Successful;
        answers_q   <= 1'b0;
        state_q     <= Judge;
      end
      Judge: begin
        index_q      <= '0;
        addr_q       <= head_q[ADDR_W-1:2];
        enable_q     <= first_be_q;
        last_q       <= length == 11'd1;
        left_q       <= length - 11'd1;
        byte_count_q <= byte_count;
        lower_addr_q <= lower_addr;
        read_q       <= '0;
        if (broken_q) begin
          state_q <= beat_last_q ? Idle : Drain;
        end else if (kind == MemoryWrite && serves) begin
          state_q <= !beat_last_q ? Hold : have_q ? Write : Idle;
        end else if (kind == MemoryRead && serves) begin
          answers_q <= 1'b1;
          state_q   <= Read;
        end else begin
          status_q  <= kind == MemoryRead ? Abort : Unsupported;
          answers_q <= kind != MemoryWrite && kind < FirstMessage;
          state_q   <= !beat_last_q ? Drain : kind != MemoryWrite && kind < FirstMessage ? Complete : Idle;
        end
      end
      Hold:
      if (cq_tvalid) begin
        broken_q <= broken_q || broken;
        if (cq_tlast) state_q <= broken_q || broken ? Idle : Write;
      end
      Write:
      if (!have_q) begin
        beat_q <= held;
        lane_q <= '0;
        have_q <= settled_q;
      end else if (step) begin
        lane_q <= lane_q + 1'b1;
        if (lane_q == LaneW'(N - 1)) have_q <= 1'b0;
        // Or the request is shorter than its length field.
        if (last_q || (lane_q == LaneW'(N - 1) && none_q)) state_q <= Idle;
      end
      Read:
      if (step) begin
        index_q                     <= index_q + 4'd1;
        read_q[{index_q, 5'd0}+:32] <= enable_q == 0 ? '0 : rdata_q;
        if (last_q) state_q <= Complete;
      end
      Drain: if (cq_tvalid && cq_tlast) state_q <= answers_q && !broken ? Complete : Idle;
      Complete: begin
        cells_q      <= {read_q, head_out};
        cells_left_q <= 5'd3 + (status_q == Successful ? 5'(length) : 5'd0);
        state_q      <= Send;
      end
      Send:
      if (cc_tready) begin
        cells_q      <= cells_q >> DATA_W;
        cells_left_q <= cells_left_q - 5'(N);
        if (cc_tlast) state_q <= Idle;
      end
      default: state_q <= Idle;
    endcase
    if (step) begin
      addr_q   <= addr_q + 1'b1;
      enable_q <= left_q == 11'd1 ? last_be_q : 4'b1111;
      last_q   <= left_q == 11'd1;
      left_q   <= left_q - 11'd1;
    end
    if (rst) state_q <= Idle;
  end

  logic unused_bits;
  assign unused_bits = ^{cq_tkeep, cq_tuser[87:42], cq_tuser[40:8], head_q[127], head_q[120:115],
                         head_q[111:104], head_q[79], head_q[63:ADDR_W], head_q[1:0]};

endmodule
