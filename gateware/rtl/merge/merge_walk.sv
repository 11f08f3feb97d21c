// SPDX-License-Identifier: SHL-2.1
// Walker of one board: follows the packets and event headers of its segment in the store and gives the
// fragments in order. Ends early at fragments out of order.
module merge_walk
  import nanet_merge_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * a frame
     */
    input  logic        start,
    input  logic [5:0]  slot,
    input  logic [11:0] units,       // extent of the segment in units of 16 B
    output logic        done,        // no further fragments
    output logic        disordered,  // not in order of sequence number and time
    output logic [12:0] fragments,
    output logic [15:0] hits,

    /*
     * read of 16 B; data seven cycles after the grant, three of a direct one
     */
    output merge_read_t  rd,
    input  logic         rd_ready,
    input  logic [127:0] rd_data,

    /*
     * fragments
     */
    output logic            out_valid,
    input  logic            out_ready,
    output merge_fragment_t out
);

  typedef enum logic [2:0] {
    WalkDone,
    WalkPacket,
    WalkPacketWait,
    WalkPacketJudge,
    WalkFragment,
    WalkFragmentWait
  } state_e;

  // Words of interest of an MGP header and of an event in it.
  logic [7:0] flags, events, fine, stored, seen, event_flags;
  logic [15:0] length;
  logic [31:0] sequence_number;
  assign flags           = rd_data[31:24];
  assign length          = rd_data[47:32];
  assign events          = rd_data[55:48];
  assign sequence_number = rd_data[95:64];
  assign fine            = rd_data[39:32];
  assign stored          = rd_data[47:40];
  assign seen            = rd_data[55:48];
  assign event_flags     = rd_data[63:56];

  state_e state_q;
  logic [6:0] wait_q;
  logic [4:0] page_q;  // its numbers are kept by the store
  logic page_valid_q, direct_q, arrived;
  logic [5:0] slot_q;
  logic [13:0] end_q, packet_q, packet_end_q, next_q;  // offsets in the segment
  logic [12:0] at_q, hits_at_q;  // of a fragment, of its hits
  logic [15:0] newest_q;
  logic [31:0] newest_sequence_q;
  logic [7:0] left_q;
  logic fixed_q, wrong_q, back_q, late_q;
  logic [15:0] since;
  merge_fragment_t found;
  logic found_valid, found_ready, room_q, ahead;
  logic [12:0] next_at;
  logic [4:0] level;

  assign since      = {rd_data[7:0], fine};
  assign done       = state_q == WalkDone;
  // The next fragment is read in the cycle in which the one before it arrives, if it is in the same page.
  assign next_at    = fixed_q ? at_q + 13'd72 : hits_at_q + 13'({stored[5:0], 1'b0});
  assign ahead      = state_q == WalkFragmentWait && arrived && left_q != 8'd1 && room_q && rd.direct;
  assign rd.valid   = state_q == WalkPacket || (state_q == WalkFragment && found_ready) || ahead;
  assign rd.slot    = slot_q;
  assign rd.direct  = page_valid_q && rd.offset[12:8] == page_q;
  assign rd.keep    = !rd.direct;
  assign arrived    = direct_q ? wait_q[2] : wait_q[6];
  assign rd.offset  = state_q == WalkPacket ? packet_q[12:0] : state_q == WalkFragment ? at_q : next_at;
  assign found      = '{at: hits_at_q, since: since, stored: stored[5:0],
                        truncated: event_flags[0] || seen > stored};
  // Events of a disordered frame are not used.
  assign found_valid = state_q == WalkFragmentWait && arrived;

  always_ff @(posedge clk) begin
    wait_q <= {arrived ? 6'd0 : wait_q[5:0], rd.valid && rd_ready};
    room_q <= level < 5'd14;  // this fragment and the next one
    late_q <= found_valid && since < newest_q;
    if (rd.valid && rd_ready) begin
      direct_q     <= rd.direct;
      page_q       <= rd.offset[12:8];
      page_valid_q <= 1'b1;
    end
    unique case (state_q)
      WalkDone: ;
      WalkPacket: begin
        if (packet_q >= end_q) state_q <= WalkDone;
        else if (rd_ready) state_q <= WalkPacketWait;
      end
      WalkPacketWait: begin
        at_q              <= 13'(packet_q + 14'd16);
        hits_at_q         <= 13'(packet_q + 14'd24);
        left_q            <= events;
        fixed_q           <= flags[4];
        packet_end_q      <= packet_q + length[13:0];
        next_q            <= (packet_q + length[13:0] + 14'd15) & ~14'd15;
        wrong_q           <= length < 16'd16 || length > 16'(SegmentBytes);
        back_q            <= sequence_number < newest_sequence_q;
        if (arrived) begin
          newest_sequence_q <= sequence_number;
          state_q           <= WalkPacketJudge;
        end
      end
      WalkPacketJudge: begin
        packet_q <= next_q;
        state_q  <= left_q == 0 ? WalkPacket : WalkFragment;
        if (wrong_q || back_q || packet_end_q > end_q) begin
          disordered <= 1'b1;
          state_q    <= WalkDone;
        end
      end
      WalkFragment: if (found_ready && rd_ready) state_q <= WalkFragmentWait;
      WalkFragmentWait: begin
        if (arrived) begin
          at_q      <= next_at;
          hits_at_q <= next_at + 13'd8;
          newest_q  <= since;
          left_q    <= left_q - 1'b1;
          hits      <= hits + 16'(stored);
          fragments <= fragments + 1'b1;
          state_q   <= left_q == 8'd1 ? WalkPacket : ahead && rd_ready ? WalkFragmentWait : WalkFragment;
        end
      end
      default: state_q <= WalkDone;
    endcase
    if (late_q) begin
      disordered <= 1'b1;
      state_q    <= WalkDone;
    end
    if (start) begin
      state_q           <= WalkPacket;
      slot_q            <= slot;
      end_q             <= {units[9:0], 4'd0};
      packet_q          <= '0;
      page_valid_q      <= 1'b0;
      newest_q          <= '0;
      newest_sequence_q <= '0;
      disordered        <= 1'b0;
      fragments         <= '0;
      hits              <= '0;
    end
    if (rst) begin
      state_q <= WalkDone;
      wait_q  <= '0;
      late_q  <= 1'b0;
    end
  end

  fifo #(
      .WIDTH($bits(merge_fragment_t)),
      .DEPTH(16)
  ) queue (
      .clk,
      .rst,
      .in_valid (found_valid),
      .in_ready (found_ready),
      .in_data  (found),
      .out_valid,
      .out_ready,
      .out_data (out),
      .level
  );

  logic unused;
  assign unused = &{1'b0, rd_data, units, flags, event_flags};

endmodule
