// SPDX-License-Identifier: SHL-2.1
// DMA writes to memory-write TLPs in the requester format of the UltraScale+ integrated block (AMD PG213,
// dword-aligned, no straddling). Splits at multiples of the maximum payload size, so never across 4 KB. With
// bus mastering off a write is swallowed and says so.
module pcie_us_write
  import nanet_dma_pkg::*;
#(
    // Width of DMA words and of the block's streams in bits: 128 or 256.
    parameter int unsigned DATA_W = 256
) (
    input logic clk,
    input logic rst,

    /*
     * Configuration by the host
     */
    input logic       bus_master,
    input logic [2:0] max_payload,  // 128 B << this, at most 1024 B

    /*
     * DMA write
     */
    input  logic              wr_valid,
    output logic              wr_ready,
    input  dma_cmd_t          wr_cmd,
    input  logic [DATA_W-1:0] wr_data,
    input  logic              wr_last,
    output logic              wr_done_valid,
    output logic [7:0]        wr_done_tag,
    output logic              wr_done_error,

    /*
     * TLPs, beat by beat
     */
    output logic                 tlp_valid,
    input  logic                 tlp_ready,
    output logic [DATA_W-1:0]    tlp_data,
    output logic [DATA_W/32-1:0] tlp_keep,
    output logic [3:0]           tlp_first_be,
    output logic [3:0]           tlp_last_be,
    output logic                 tlp_last
);

  localparam int unsigned N = DATA_W / 32;  // dwords of a beat
  localparam int unsigned CountW = $clog2(N + 1);

  if (DATA_W != 128 && DATA_W != 256) begin : gen_check_width
    $fatal(1, "pcie_us_write: DATA_W must be 128 or 256");
  end

  typedef enum logic [2:0] {
    Idle,
    Chunk,
    Head,
    Body,
    Swallow
  } state_t;

  state_t state_q;
  logic [63:0] addr_q;
  logic [15:0] left_q;  // bytes of the request to go
  logic [7:0] tag_q;
  logic [10:0] chunk_q;  // bytes of this TLP
  logic [8:0] dwords_q;  // of it to go
  logic [8:0] length_q;  // dwords of it
  logic [3:0] first_be_q, last_be_q;
  logic more_q;  // further TLPs follow

  // Splitting
  logic [10:0] payload, room, chunk;
  logic [1:0] size;
  assign size = max_payload > 3'd3 ? 2'd3 : max_payload[1:0];
  assign payload = 11'd128 << size;
  assign room = payload - ({1'b0, addr_q[9:0]} & (payload - 11'd1));
  assign chunk = left_q > 16'(room) ? room : left_q[10:0];

  function automatic logic [3:0] bytes_enabled(input logic [1:0] rest);
    case (rest)
      2'd1: return 4'b0001;
      2'd2: return 4'b0011;
      2'd3: return 4'b0111;
      default: return 4'b1111;
    endcase
  endfunction

  // Words in, dwords out: what is left of the last word waits in hold_q.
  logic [DATA_W-1:0] hold_q;
  logic [CountW-1:0] held_q, want, capacity;
  logic [2*DATA_W-1:0] joined;
  logic beat, starved, take;

  assign capacity = state_q == Head ? CountW'(N - 4) : CountW'(N);
  assign want = dwords_q > 9'(capacity) ? capacity : CountW'(dwords_q);
  assign starved = held_q < want;
  assign joined = {{DATA_W{1'b0}}, hold_q} | ({{DATA_W{1'b0}}, starved ? wr_data : '0} << {held_q, 5'd0});
  assign tlp_valid = (state_q == Head || state_q == Body) && (!starved || wr_valid);
  assign beat = tlp_valid && tlp_ready;
  assign take = beat && starved;
  assign wr_ready = take || state_q == Swallow;

  logic [127:0] descriptor;
  assign descriptor = {
    8'd0,  // no ECRC, attributes 0 (strict order), traffic class 0, requester ID from the block
    16'd0,  // completer ID: routed by address
    8'd0,  // tag: posted
    16'd0,
    1'b0,
    4'b0001,  // memory write
    2'd0,
    length_q,
    addr_q[63:2],
    2'd0
  };

  if (N == 4) begin : gen_head_alone
    assign tlp_data = state_q == Head ? descriptor : joined[DATA_W-1:0];
  end else begin : gen_head_and_data
    assign tlp_data = state_q == Head ? {joined[DATA_W-129:0], descriptor} : joined[DATA_W-1:0];
  end

  logic [CountW-1:0] lanes;
  assign lanes = state_q == Head ? want + CountW'(4) : want;
  always_comb begin
    for (int unsigned i = 0; i < N; i++) tlp_keep[i] = CountW'(i) < lanes;
  end
  assign tlp_first_be = first_be_q;
  assign tlp_last_be = last_be_q;
  assign tlp_last = dwords_q == 9'(want);

  always_ff @(posedge clk) begin
    wr_done_valid <= 1'b0;
    case (state_q)
      Idle:
      if (wr_valid) begin
        addr_q  <= wr_cmd.addr;
        left_q  <= wr_cmd.len;
        tag_q   <= wr_cmd.tag;
        held_q  <= '0;
        hold_q  <= '0;
        state_q <= bus_master ? Chunk : Swallow;
      end
      Chunk: begin
        chunk_q    <= chunk;
        dwords_q   <= 9'((chunk + 11'd3) >> 2);
        length_q   <= 9'((chunk + 11'd3) >> 2);
        more_q     <= left_q != 16'(chunk);
        first_be_q <= chunk < 11'd4 ? bytes_enabled(chunk[1:0]) : 4'b1111;
        last_be_q  <= chunk <= 11'd4 ? 4'b0000 : bytes_enabled(chunk[1:0]);
        state_q    <= Head;
      end
      Head, Body:
      if (beat) begin
        dwords_q <= dwords_q - 9'(want);
        hold_q   <= DATA_W'(joined >> {want, 5'd0});
        held_q   <= held_q + (starved ? CountW'(N) : '0) - want;
        state_q  <= Body;
        if (tlp_last) begin
          addr_q  <= addr_q + 64'(chunk_q);
          left_q  <= left_q - 16'(chunk_q);
          state_q <= more_q ? Chunk : Idle;
          if (!more_q) begin
            wr_done_valid <= 1'b1;
            wr_done_tag   <= tag_q;
            wr_done_error <= 1'b0;
          end
        end
      end
      Swallow:
      if (wr_valid && wr_last) begin
        wr_done_valid <= 1'b1;
        wr_done_tag   <= tag_q;
        wr_done_error <= 1'b1;
        state_q       <= Idle;
      end
      default: state_q <= Idle;
    endcase
    if (rst) begin
      state_q       <= Idle;
      wr_done_valid <= 1'b0;
    end
  end

endmodule
