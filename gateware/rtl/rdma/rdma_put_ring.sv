// SPDX-License-Identifier: SHL-2.1
// Reader of the put ring; fetches posted entries ahead, checks the lap of each descriptor, and keeps its
// inline payload beside it. An entry whose lap is not valid yet is read again. A descriptor with too long an
// inline payload is passed on without it; its entries, as far as posted, are skipped. A descriptor whose
// payload cannot be read is passed on as unreadable; one that cannot be read itself as zeros, and the ring
// stops until it is disabled: the entries behind it may be payload.
module rdma_put_ring
  import nanet_dma_pkg::*;
  import rdma_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * configuration; entries posted
     */
    input logic        enable,
    input logic [63:0] base,
    input logic [ 4:0] log2_entries,
    input logic [31:0] posted,
    input logic [31:0] poll_cycles,
    output logic       empty,        // every posted entry was taken, or the ring has stopped

    /*
     * descriptors; inline word `in_ring_index`, valid with the descriptor
     */
    output logic                    out_valid,
    input  logic                    out_ready,
    output put_descriptor_t         out,
    output logic                    out_unreadable,
    input  logic            [  3:0] in_ring_index,
    output logic            [127:0] in_ring_word,

    /*
     * DMA read
     */
    output dma_rd_req_t  rd_req,
    output logic         rd_data_ready,
    input  dma_rd_rsp_t  rd_rsp,
    input  logic [127:0] rd_data
);

  localparam int unsigned Ahead = 8;  // entries read ahead

  typedef enum logic [2:0] {
    StateDescriptor,
    StateCheck,
    StateInline,
    StateExcess,
    StateOut,
    StateFlush,
    StateWait,
    StateStop
  } state_e;
  state_e state_q;
  logic [31:0] issue_q, lap_q, mask_q, wait_q;
  logic [47:0] entry_q, entries_q;  // entry of the descriptor, entries that it takes
  logic [31:0] round_q;             // of the ring; follows the entry by a cycle, its lap by two
  logic [3:0] reads_q, held_q;  // entries: without data; taken up to their last word
  logic [63:0] addr_q;
  logic asking_q, bad_q, unreadable_q, stop_q;
  logic [3:0] count_q;  // words of the descriptor or of the inline payload
  logic [3:0] inline_words;
  logic word_valid, word_ready, word_bad, unused_room, flush, taken, entry_ends;
  logic [127:0] word;
  logic [5:0] unused_level;
  put_descriptor_t out_q;
  logic [127:0] in_ring[16];
  logic [1:0] at_q;             // word in the entry
  logic in_ring_sound, excess, excess_q;
  logic [26:0] declared_q;      // entries of a descriptor with too long a payload
  logic [31:0] behind_q;        // entries posted, from the descriptor on

  assign empty        = entry_q[31:0] == posted || state_q == StateStop;
  assign flush        = state_q == StateFlush;
  assign rd_req       = '{valid: asking_q, cmd: '{addr: addr_q, len: 16'd64, tag: '0}};
  assign rd_data_ready = 1'b1;
  assign word_ready   = state_q == StateDescriptor || state_q == StateInline || flush;
  assign taken        = word_valid && word_ready;
  assign entry_ends   = taken && at_q == 2'd3;
  assign out_valid    = state_q == StateOut;
  assign out          = out_q;
  assign out_unreadable = unreadable_q;
  assign in_ring_word = in_ring[in_ring_index];
  assign excess       = out_q.in_ring && out_q.bytes > 32'(MaxInline);
  // Entries of 64 B: four words each.
  assign in_ring_sound = out_q.in_ring && out_q.bytes <= 32'(MaxInline) && out_q.bytes != 0;
  assign inline_words  = {2'(out_q.bytes[7:6] + 2'(|out_q.bytes[5:0])), 2'b00};

  fifo #(
      .WIDTH(129),
      .DEPTH(32)
  ) words (
      .clk,
      .rst,
      .in_valid (rd_rsp.data_valid),
      .in_ready (unused_room),
      .in_data  ({rd_rsp.data_last && rd_rsp.data_error, rd_data}),
      .out_valid(word_valid),
      .out_ready(word_ready),
      .out_data ({word_bad, word}),
      .level    (unused_level)
  );

  always_ff @(posedge clk) begin
    mask_q  <= (32'd1 << log2_entries) - 32'd1;
    addr_q  <= base + {26'd0, issue_q & mask_q, 6'd0};
    round_q <= 32'(entry_q >> log2_entries);
    lap_q   <= round_q + 32'd1;
    behind_q   <= posted - entry_q[31:0];
    declared_q <= 27'(out_q.bytes[31:6]) + 27'(|out_q.bytes[5:0]) + 27'd1;
    excess_q   <= excess;
    reads_q <= reads_q + 4'(asking_q && rd_rsp.ready) - 4'(rd_rsp.data_valid && rd_rsp.data_last);
    held_q  <= held_q + 4'(asking_q && rd_rsp.ready) - 4'(entry_ends);
    if (taken) at_q <= at_q + 2'd1;

    // The address follows the number by a cycle.
    if (asking_q) begin
      if (rd_rsp.ready) begin
        asking_q <= 1'b0;
        issue_q  <= issue_q + 32'd1;
      end
    end else if (issue_q != posted && held_q < 4'(Ahead) && !flush && state_q != StateWait &&
                 state_q != StateStop) begin
      asking_q <= 1'b1;
    end

    if (wait_q != 0) wait_q <= wait_q - 32'd1;
    unique case (state_q)
      StateDescriptor: begin
        count_q      <= '0;
        unreadable_q <= 1'b0;
        stop_q       <= 1'b0;
        if (taken) begin
          out_q <= {word, out_q[511:128]};
          bad_q <= (at_q != 0 && bad_q) || word_bad;
          if (at_q == 2'd3) state_q <= StateCheck;
        end
      end
      StateCheck: begin
        entries_q <= 48'd1 + (in_ring_sound ? 48'(inline_words[3:2]) : '0);
        if (bad_q) begin
          out_q        <= '0;
          unreadable_q <= 1'b1;
          stop_q       <= 1'b1;
          state_q      <= StateOut;
        end else if (out_q.lap != lap_q) state_q <= StateFlush;
        else state_q <= in_ring_sound ? StateInline : excess ? StateExcess : StateOut;
      end
      StateExcess: begin
        entries_q <= 48'(32'(declared_q) < behind_q ? 32'(declared_q) : behind_q);
        state_q   <= StateOut;
      end
      StateInline: begin
        if (taken) begin
          in_ring[count_q] <= word;
          count_q          <= count_q + 4'd1;
          bad_q            <= bad_q || word_bad;
          unreadable_q     <= bad_q || word_bad;
          if (count_q + 4'd1 == inline_words) state_q <= StateOut;
        end
      end
      StateOut: begin
        if (out_ready) begin
          entry_q <= entry_q + entries_q;
          state_q <= stop_q ? StateStop : excess_q ? StateFlush : StateDescriptor;
        end
      end
      // Everything read ahead is discarded.
      StateFlush: begin
        wait_q <= poll_cycles;
        if (reads_q == 0 && held_q == 0 && !asking_q) begin
          issue_q <= entry_q[31:0];
          state_q <= StateWait;
        end
      end
      StateWait: if (wait_q == 0) state_q <= StateDescriptor;
      default: ;
    endcase

    if (!enable) begin
      state_q <= StateFlush;
      entry_q <= '0;
    end
    if (rst) begin
      state_q  <= StateFlush;
      asking_q <= 1'b0;
      entry_q  <= '0;
      reads_q  <= '0;
      held_q   <= '0;
      at_q     <= '0;
      wait_q   <= '0;
    end
  end

  logic unused;
  assign unused = &{1'b0, rd_rsp.data_tag, 1'b0};

endmodule
