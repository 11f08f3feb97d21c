// SPDX-License-Identifier: SHL-2.1
// Receiver of TTC frames on the B channel: short broadcasts and addressed words with SEC-DED check bits. A
// frame appears with the third tick after its stop bit. After a bad stop bit it waits for an idle line.
module ttc_frames
  import nanet_ttc_pkg::*;
(
    input logic clk,
    input logic rst,

    input logic      tick,
    input ttc_pair_t pair,
    input logic      locked,

    /*
     * Pulse in the cycle of a tick
     */
    output logic       frame_valid,
    output ttc_frame_t frame,

    output ttc_frame_counts_t counts
);

  localparam logic [5:0] IdleBits = 6'd42;  // more ones than any frame contains
  localparam logic [5:0] ShortBits = 6'd13;
  localparam logic [5:0] LongBits = 6'd39;

  typedef enum logic [1:0] {
    Hunt,
    Idle,
    Format,
    Word
  } state_t;

  state_t state_q;
  logic addressed_q, word_valid_q, unused_a;
  logic [5:0] count_q;
  logic [38:0] word_q;

  assign unused_a = pair.a;

  // Tick by tick: word with its stop bit, syndrome, correction.
  logic syndrome_valid_q, syndrome_addressed_q;
  logic [6:0] syndrome_q;
  logic [31:0] data_q, flips;
  logic stop_q, stop2_q, odd, single, found;

  always_comb begin
    for (int unsigned i = 0; i < 32; i++) begin
      flips[i] = syndrome_addressed_q ? syndrome_q == ttc_check_long(32'd1 << i) :
          i < 8 && syndrome_q == {2'd0, ttc_check_short(8'(1 << i))};
    end
    odd    = ^syndrome_q;
    single = (syndrome_q & (syndrome_q - 1'b1)) == '0;  // none, or a check bit
    found  = odd && (single || |flips);
  end

  logic out_valid_q;
  ttc_frame_t out_q;
  ttc_frame_counts_t outcome_q;
  assign frame_valid = tick && out_valid_q;
  assign frame       = out_q;
  assign counts      = tick ? outcome_q : '0;

  always_ff @(posedge clk) begin
    if (tick) begin
      word_valid_q <= 1'b0;
      stop_q       <= 1'b0;
      case (state_q)
        Hunt: begin
          count_q <= pair.b ? count_q + 1'b1 : '0;
          if (pair.b && count_q == IdleBits - 1'b1) state_q <= Idle;
        end
        Idle: if (!pair.b) state_q <= Format;
        Format: begin
          addressed_q <= pair.b;
          count_q     <= pair.b ? LongBits : ShortBits;
          state_q     <= Word;
        end
        default:
        if (count_q != 0) begin
          word_q  <= {word_q[37:0], pair.b};
          count_q <= count_q - 1'b1;
        end else begin
          word_valid_q <= pair.b;
          stop_q       <= !pair.b;
          state_q      <= pair.b ? Idle : Hunt;
        end
      endcase

      syndrome_valid_q     <= word_valid_q;
      syndrome_addressed_q <= addressed_q;
      stop2_q              <= stop_q;
      if (addressed_q) begin
        syndrome_q <= word_q[6:0] ^ ttc_check_long(word_q[38:7]);
        data_q     <= word_q[38:7];
      end else begin
        syndrome_q <= {2'd0, word_q[4:0] ^ ttc_check_short(word_q[12:5])};
        data_q     <= {24'd0, word_q[12:5]};
      end

      out_valid_q <= syndrome_valid_q && (syndrome_q == '0 || found);
      out_q <= '{
          addressed: syndrome_addressed_q,
          corrected: syndrome_q != '0,
          data: data_q ^ (odd ? flips : '0)
      };
      outcome_q <= '{
          corrected: syndrome_valid_q && syndrome_q != '0 && found,
          refused: syndrome_valid_q && syndrome_q != '0 && !found,
          bad_stop: stop2_q
      };
    end
    if (rst || !locked) begin
      state_q          <= Hunt;
      count_q          <= '0;
      word_valid_q     <= 1'b0;
      stop_q           <= 1'b0;
      syndrome_valid_q <= 1'b0;
      stop2_q          <= 1'b0;
      out_valid_q      <= 1'b0;
      outcome_q        <= '0;
    end
  end

endmodule
