// SPDX-License-Identifier: SHL-2.1
// Receiver of a compatible link: separates CREDIT words from packets, checks and corrects headers and
// credits. Three cycles. Framing uses the corrected header. A packet cut by the loss of the link is filled up
// to its length; its footer claims a CRC that does not match.
module apelink_rx
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
(
    input logic clk,
    input logic rst,

    input apelink_config_t settings,

    /*
     * link; channel up
     */
    input logic         link_up,
    input logic         link_valid,
    input logic [127:0] link_data,

    /*
     * words to the router
     */
    output logic        out_valid,
    output logic        out_vc,
    output torus_word_t out_word,

    /*
     * latest report of the far end; valid since the link is up
     */
    output logic                         remote_valid,
    output apelink_used_t [TorusVcs-1:0] remote,

    /*
     * pulses: header or credit with a corrected error; header lost; credit ignored; packet received or cut
     */
    output logic corrected,
    output logic fatal,
    output logic credit_bad,
    output logic received,
    output logic cut
);

  // Claims a CRC (flag b0), which is wrong but for one packet in 2^32.
  localparam logic [127:0] CutFooter = {32'hDEAD_C0DE, 32'd0, 8'h01, 56'd0};

  localparam logic [10:0] LongestPacket = 11'd1026;  // words of the longest length field, and footer

  // ---------------------------------------------------------------- checks

  // Syndrome, then correction, then framing: a register after each.
  logic valid_q, valid_2_q, valid_3_q, magic_2_q, magic_q, start_2_q, start_q;
  logic [127:0] word_q, word_2_q, word_3_q;
  logic [7:0] syndrome_q;
  logic single_q, double_q, clean_credit_q;
  torus_header_t header;
  apelink_credit_t credit, credit_2;

  assign credit   = word_3_q;
  assign credit_2 = word_2_q;

  always_ff @(posedge clk) begin
    valid_q        <= link_valid && link_up;
    word_q         <= link_data;
    valid_2_q      <= valid_q;
    word_2_q       <= word_q;
    syndrome_q     <= secded_syndrome(word_q);
    magic_2_q      <= word_q == ApelinkMagic;
    start_2_q      <= word_q == ApelinkStart;
    valid_3_q      <= valid_2_q;
    word_3_q       <= word_2_q;
    magic_q        <= magic_2_q;
    start_q        <= start_2_q;
    single_q       <= syndrome_q[0];
    double_q       <= !syndrome_q[0] && syndrome_q != 0;
    header         <= {8'd0, settings.ecc_header_check ? secded_correct(word_2_q[119:0], syndrome_q) :
                             word_2_q[119:0]};
    // Only an undamaged report is used, as in INFN's receiver; other bits are 0.
    clean_credit_q <= credit_2.zero == 0 && (!settings.ecc_credit_check || syndrome_q == 0);
    if (rst) begin
      valid_q   <= 1'b0;
      valid_2_q <= 1'b0;
      valid_3_q <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- words

  typedef enum logic [2:0] {
    TakeIdle,
    TakeStart,
    TakeHeader,
    TakeData,
    TakeFooter,
    TakeLost
  } take_e;
  take_e state_q;
  logic inside_q;    // MAGIC within a packet: a CREDIT follows
  logic [10:0] left_q;
  logic [10:0] words;
  logic lost_q;      // after a lost header, until START or the longest packet has passed
  logic take_credit, up_q, unused_fields;

  assign words       = header.header_only ? '0 : payload_words(header.length);
  // Outside packets, and after MAGIC, a word other than MAGIC and START is a report.
  assign take_credit = valid_3_q && !magic_q &&
                       (inside_q || state_q == TakeIdle || (state_q == TakeStart && !start_q));
  assign unused_fields = &{
          1'b0,
          header.ecc,
          header.hops,
          header.address,
          header.kind,
          header.outside,
          header.reserved,
          header.intra,
          header.x,
          header.y,
          header.z,
          header.channel,
          header.last_hop,
          credit.ecc,
          credit.zero,
          credit_2.ecc,
          credit_2.used,
          settings.ecc_header_make,
          settings.ecc_credit_make,
          settings.threshold,
          settings.waiting,
          settings.credit_cycle,
          1'b0
      };

  always_ff @(posedge clk) begin
    up_q       <= link_up;

    out_valid  <= 1'b0;
    corrected  <= 1'b0;
    fatal      <= 1'b0;
    credit_bad <= 1'b0;
    received   <= 1'b0;
    cut        <= 1'b0;

    if (take_credit) begin
      inside_q <= 1'b0;
      if (clean_credit_q) begin
        remote       <= credit.used;
        remote_valid <= 1'b1;
      end else credit_bad <= !(state_q == TakeStart);
      if (state_q == TakeStart) state_q <= lost_q ? TakeLost : TakeIdle;
    end else if (valid_3_q) begin
      case (state_q)
        TakeIdle: if (magic_q) state_q <= TakeStart;
        TakeStart:
        if (start_q) begin
          lost_q  <= 1'b0;
          state_q <= TakeHeader;
        end
        TakeLost:
        if (magic_q) state_q <= TakeStart;
        else begin
          left_q <= left_q - 11'd1;
          if (left_q == 0) begin
            lost_q  <= 1'b0;
            state_q <= TakeIdle;
          end
        end
        default:
        if (magic_q) inside_q <= 1'b1;
        else if (state_q == TakeHeader) begin
          if ((settings.ecc_header_check && double_q) || header.vc[3:1] != 0) begin
            fatal   <= 1'b1;
            lost_q  <= 1'b1;
            left_q  <= LongestPacket;
            state_q <= TakeLost;
          end else begin
            corrected <= settings.ecc_header_check && single_q;
            out_valid <= 1'b1;
            out_vc    <= header.vc[0];
            out_word  <= '{head: 1'b1, tail: header.header_only, data: header};
            left_q    <= words;
            received  <= header.header_only;
            state_q   <= header.header_only ? TakeIdle : header.length == 0 ? TakeFooter : TakeData;
          end
        end else begin
          out_valid <= 1'b1;
          out_word  <= '{head: 1'b0, tail: state_q == TakeFooter, data: word_3_q};
          left_q    <= left_q - 11'd1;
          if (state_q == TakeFooter) begin
            received <= 1'b1;
            state_q  <= TakeIdle;
          end else if (left_q == 11'd1) state_q <= TakeFooter;
        end
      endcase
    end

    // Loss of the link.
    if (!up_q && !valid_q && !valid_2_q && !valid_3_q) begin
      remote_valid <= 1'b0;
      inside_q     <= 1'b0;
      lost_q       <= 1'b0;
      if (state_q == TakeData || state_q == TakeFooter) begin
        out_valid <= 1'b1;
        out_word  <= '{head: 1'b0, tail: state_q == TakeFooter, data: state_q == TakeFooter ? CutFooter : '0};
        left_q    <= left_q - 11'd1;
        cut       <= state_q == TakeFooter;
        if (state_q == TakeFooter) state_q <= TakeIdle;
        else if (left_q == 11'd1) state_q <= TakeFooter;
      end else state_q <= TakeIdle;
    end

    if (rst) begin
      state_q      <= TakeIdle;
      inside_q     <= 1'b0;
      lost_q       <= 1'b0;
      remote_valid <= 1'b0;
      remote       <= '0;
      out_valid    <= 1'b0;
      received     <= 1'b0;
    end
  end

endmodule
