// SPDX-License-Identifier: SHL-2.1
// Transmitter of a compatible link: MAGIC, START, header, payload, footer; CREDIT in all other words.
// A packet is stored whole before it leaves, so that one with a payload word equal to MAGIC can be dropped.
module apelink_tx
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
#(
    // Words of the packet buffer; a power of two above the longest packet.
    parameter int unsigned DEPTH = 512
) (
    input logic clk,
    input logic rst,

    input apelink_config_t settings,

    /*
     * packets from the router, one at a time; space for it, per VC
     */
    input  logic                        in_valid,
    output logic                        in_ready,
    input  torus_word_t                 in_word,
    output torus_words_t [TorusVcs-1:0] space,

    /*
     * words in use: in this port's receive buffers, and as reported by the far end
     */
    input torus_words_t  [TorusVcs-1:0] used,
    input logic                         remote_valid,  // a report has arrived since the link is up
    input apelink_used_t [TorusVcs-1:0] remote,

    /*
     * link: no word is withdrawn; channel up
     */
    input  logic         link_up,
    output logic         link_valid,
    input  logic         link_ready,
    output logic [127:0] link_data,

    /*
     * pulses: a packet was dropped, for MAGIC in its payload or since the link is down; a packet was sent
     */
    output logic dropped,
    output logic sent
);

  localparam int unsigned AddrW = $clog2(DEPTH);
  localparam int unsigned Grant = 6;  // cycles from a link that is up to a header granted with its space

  if (DEPTH < 512 || 2 ** AddrW != DEPTH) begin : gen_check_depth
    $fatal(1, "apelink_tx: DEPTH must be a power of two, at least 512");
  end

  // ---------------------------------------------------------------- packet buffer

  (* no_rw_check *) logic [128:0] mem[DEPTH];
  logic [AddrW:0] wr_q, commit_q, rd_q;
  logic [128:0] read_q, word_q;  // block RAM's output register is late in the cycle: a register follows
  // Stage before the buffer: header with its check byte, comparison with MAGIC.
  logic [128:0] stage_q;
  logic stage_valid_q, stage_magic_q;
  logic read_valid_q, word_valid_q, write, fetch, move, advance, take, bad_q, found, commit, abandon;
  logic [8:0] packets_q;  // stored whole
  logic storing_q;        // part of a packet
  logic left_q;           // a packet left in the last cycle
  logic [Grant-1:0] settle_q;  // up in the last cycles
  torus_words_t own;    // words in the buffer; an upper bound
  torus_words_t [TorusVcs-1:0] base_q;
  logic unused_checks;

  assign in_ready = wr_q - rd_q < (AddrW + 1)'(DEPTH - 2);
  assign write    = stage_valid_q;
  // A packet granted while the link was down arrives a few cycles later: its space was not checked.
  assign found    = bad_q || stage_magic_q || !link_up || !settle_q[Grant-1];
  assign commit   = write && stage_q[128] && !found;
  assign abandon  = write && stage_q[128] && found;
  assign move     = read_valid_q && (!word_valid_q || take);
  assign fetch    = rd_q != commit_q && (!read_valid_q || move);

  assign own.data    = 10'(wr_q - rd_q) + 10'(read_valid_q) + 10'(word_valid_q) + 10'(stage_valid_q);
  assign own.header  = packets_q[8:7] != 0 ? '1 :
                       {packets_q[6:0], 1'b0} + {6'd0, storing_q || stage_valid_q, 1'b0};
  assign unused_checks = &{1'b0, settings.ecc_header_check, settings.ecc_credit_check, 1'b0};

  // ---------------------------------------------------------------- credits

  apelink_credit_t credit;
  logic [127:0] credit_q;

  function automatic apelink_used_t report(input torus_words_t words, input logic [7:0] margin);
    logic [10:0] data;
    logic [8:0] header;
    data          = {1'b0, words.data} + {3'b0, margin};
    header        = {1'b0, words.header} + {1'b0, margin};
    report.data   = data[10] ? '1 : data[9:0];
    report.header = header[8] ? '1 : header[7:0];
  endfunction

  always_comb begin
    credit = '0;
    for (int v = 0; v < TorusVcs; v++) credit.used[v] = report(used[v], settings.waiting);
    if (settings.ecc_credit_make) credit.ecc = secded_byte(credit[119:0]);
    for (int v = 0; v < TorusVcs; v++) begin
      space[v].data   = base_q[v].data > own.data ? base_q[v].data - own.data : '0;
      space[v].header = base_q[v].header > own.header ? base_q[v].header - own.header : '0;
    end
  end

  always_ff @(posedge clk) begin
    credit_q <= credit;
    for (int v = 0; v < TorusVcs; v++) begin
      base_q[v].data   <= settings.threshold.data > remote[v].data ?
                          settings.threshold.data - remote[v].data : '0;
      base_q[v].header <= settings.threshold.header > remote[v].header ?
                          settings.threshold.header - remote[v].header : '0;
      if (!remote_valid) base_q[v] <= '0;
      if (!link_up) base_q[v] <= '1;  // packets for a link that is down are dropped
    end
    if (rst) base_q <= '0;
  end

  // ---------------------------------------------------------------- words of the link

  typedef enum logic [2:0] {
    SendIdle,
    SendStart,
    SendPacket,
    SendGap,
    SendCredit
  } send_e;
  send_e state_q;
  logic due;
  logic [7:0] since_q;  // payload words since a credit

  assign advance = !link_valid || link_ready;
  assign due  = settings.credit_cycle != 0 && since_q >= settings.credit_cycle;
  assign take = advance && state_q == SendPacket && !due;

  always_ff @(posedge clk) begin
    dropped  <= abandon;
    sent     <= 1'b0;
    settle_q <= link_up ? {settle_q[Grant-2:0], 1'b1} : '0;
    stage_valid_q <= in_valid && in_ready;
    stage_magic_q <= !in_word.head && in_word.data == ApelinkMagic;
    stage_q       <= {in_word.tail, in_word.data};
    if (in_word.head)
      stage_q[127:120] <= settings.ecc_header_make ? secded_byte(in_word.data[119:0]) : 8'd0;
    if (write) mem[wr_q[AddrW-1:0]] <= stage_q;
    if (fetch) read_q <= mem[rd_q[AddrW-1:0]];
    if (abandon) wr_q <= commit_q;
    else if (write) wr_q <= wr_q + 1'b1;
    if (commit) commit_q <= wr_q + 1'b1;
    if (write) bad_q <= found && !stage_q[128];
    if (fetch) rd_q <= rd_q + 1'b1;
    if (fetch) read_valid_q <= 1'b1;
    else if (move) read_valid_q <= 1'b0;
    if (move) word_q <= read_q;
    if (move) word_valid_q <= 1'b1;
    else if (take) word_valid_q <= 1'b0;
    left_q    <= take && word_valid_q && word_q[128];
    packets_q <= packets_q + 9'(commit) - 9'(left_q);
    if (write) storing_q <= !stage_q[128];

    if (advance) begin
      link_valid <= link_up;
      link_data  <= credit_q;
      case (state_q)
        SendIdle:
        if (read_valid_q || word_valid_q) begin
          link_data <= ApelinkMagic;
          state_q   <= SendStart;
        end
        SendStart: begin
          link_data <= ApelinkStart;
          since_q   <= '0;
          state_q   <= SendPacket;
        end
        SendPacket:
        if (due || !word_valid_q) begin
          link_data <= ApelinkMagic;
          state_q   <= SendCredit;
        end else begin
          link_data <= word_q[127:0];
          since_q   <= since_q + 8'd1;
          if (word_q[128]) begin
            sent    <= 1'b1;
            state_q <= SendGap;
          end
        end
        SendCredit: begin
          since_q <= '0;
          state_q <= SendPacket;
        end
        default: state_q <= SendIdle;  // one credit at least between packets
      endcase
    end

    if (rst || !link_up) begin
      link_valid   <= 1'b0;
      state_q      <= SendIdle;
      read_valid_q <= 1'b0;
      word_valid_q <= 1'b0;
      packets_q    <= '0;
      left_q       <= 1'b0;
      rd_q         <= commit_q;
      wr_q         <= commit_q;
      bad_q        <= write ? !stage_q[128] : storing_q;
    end
    if (rst) begin
      wr_q     <= '0;
      rd_q     <= '0;
      commit_q <= '0;
      bad_q    <= 1'b0;
      storing_q <= 1'b0;
      stage_valid_q <= 1'b0;
      dropped  <= 1'b0;
    end
  end

endmodule
