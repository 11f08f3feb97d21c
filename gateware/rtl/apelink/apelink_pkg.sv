// SPDX-License-Identifier: SHL-2.1
// Words of the torus links (docs/formats.md, Torus): apelink, compatible with INFN's firmware, and reliable.
package apelink_pkg;

  localparam logic [127:0] ApelinkMagic = {2{64'hFFFF_AAAA_5555_AAAA}};
  localparam logic [127:0] ApelinkStart = {2{64'hFFFF_BBBB_6666_BBBB}};

  // Words in use in receive FIFOs, per VC.
  typedef struct packed {
    logic [9:0] data;
    logic [7:0] header;
  } apelink_used_t;

  typedef struct packed {
    logic [7:0]          ecc;
    logic [83:0]         zero;
    apelink_used_t [1:0] used;
  } apelink_credit_t;

  // Registers of an apelink port.
  typedef struct packed {
    logic          ecc_header_make;
    logic          ecc_header_check;
    logic          ecc_credit_make;
    logic          ecc_credit_check;
    apelink_used_t threshold;     // space is the threshold less the used words; 0: nothing is sent
    logic [7:0]    waiting;       // margin added to the reported words
    logic [7:0]    credit_cycle;  // payload words between credits within a packet; 0: none
  } apelink_config_t;

  typedef struct packed {
    logic [31:0] sent;        // packets
    logic [31:0] received;
    logic [31:0] dropped;     // MAGIC in the payload, or link down
    logic [15:0] cut;         // ended by the loss of the link
    logic [15:0] corrected;   // headers
    logic [15:0] fatal;       // headers
    logic [15:0] credit_bad;  // reports ignored
  } apelink_counters_t;

  // ---------------------------------------------------------------- SECDED: extended Hamming (128,120)

  // Position of data bit i: the i-th of 1 to 127 that is not a power of two.
  function automatic logic [119:0][6:0] secded_positions();
    int unsigned at;
    at = 0;
    for (int unsigned place = 1; place < 128; place++) begin
      if ((place & (place - 1)) != 0) begin
        secded_positions[at] = 7'(place);
        at++;
      end
    end
  endfunction
  localparam logic [119:0][6:0] SecdedPosition = secded_positions();

  // Masks of the data bits of p[7:1], row k - 1 for p[k].
  function automatic logic [6:0][119:0] secded_masks();
    for (int k = 0; k < 7; k++) for (int i = 0; i < 120; i++) secded_masks[k][i] = SecdedPosition[i][k];
  endfunction
  localparam logic [6:0][119:0] SecdedMask = secded_masks();

  function automatic logic [7:0] secded_byte(input logic [119:0] data);
    for (int k = 0; k < 7; k++) secded_byte[k+1] = ^(data & SecdedMask[k]);
    secded_byte[0] = ^data ^ ^secded_byte[7:1];
  endfunction

  // Syndrome of a word: bits 7:1 position, bit 0 overall parity.
  function automatic logic [7:0] secded_syndrome(input logic [127:0] word);
    for (int k = 0; k < 7; k++) secded_syndrome[k+1] = ^(word[119:0] & SecdedMask[k]) ^ word[121+k];
    secded_syndrome[0] = ^word;
  endfunction

  // Data with a single error corrected.
  function automatic logic [119:0] secded_correct(input logic [119:0] data, input logic [7:0] syndrome);
    for (int i = 0; i < 120; i++)
      secded_correct[i] = data[i] ^ (syndrome[0] && syndrome[7:1] == SecdedPosition[i]);
  endfunction

  // ---------------------------------------------------------------- reliable link

  typedef enum logic [3:0] {
    ControlIdle  = 4'd0,
    ControlCell  = 4'd1,
    ControlTrain = 4'd2,
    ControlReady = 4'd3
  } control_kind_e;

  localparam logic [7:0] ControlComma = 8'hBC;
  localparam int unsigned CellWords = 16;
  localparam int unsigned CellWindow = 16;

  // Control word; ends a cell.
  typedef struct packed {
    logic [31:0]      crc;
    logic [4:0]       zero_3;
    logic [2:0]       port;         // of the sender; train and ready
    logic [15:0]      node;
    logic [1:0][15:0] freed;        // words that left the sender's buffers since training, per VC
    logic [7:0]       acknowledge;  // next sequence number expected
    logic [7:0]       sequence_number;  // of this cell, else of the next
    logic [2:0]       zero_2;
    logic [4:0]       count;        // words of the cell
    logic [1:0]       zero_1;
    logic             resend;       // from `acknowledge` on
    logic             vc;
    logic [3:0]       kind;         // control_kind_e
    logic [7:0]       comma;
  } control_t;

  // Received state that the transmitter of the same port needs.
  typedef struct packed {
    logic             valid;        // pulse: an undamaged control word
    logic [3:0]       kind;         // its kind
    logic             resend;       // its request
    logic [7:0]       acknowledge;  // its acknowledgement
    logic [1:0][15:0] freed;        // its credits
    logic [7:0]       expected;     // next sequence number to be received
    logic             gap;          // pulse: a cell is damaged or missing, request it
  } reliable_status_t;

  typedef struct packed {
    logic [31:0] unconfirmed;  // packets not acknowledged at the loss of the link
    logic [31:0] received;     // packets
    logic [31:0] sent;         // cells
    logic [31:0] resent;       // cells
    logic [31:0] accepted;     // cells
    logic [31:0] damaged;      // control words, alone or with their cells
    logic [31:0] dropped;      // packets, link down
    logic [15:0] cut;          // packets ended by the loss of the link
    logic [15:0] down;         // losses of the link
  } reliable_counters_t;

  // CRC-32 (IEEE 802.3), bit-serial definition for the matrices.
  function automatic logic [31:0] crc_serial(input logic [31:0] start, input logic [127:0] data,
                                             input int unsigned bits);
    logic [31:0] value;
    value = start;
    for (int unsigned i = 0; i < bits; i++)
      value = (value >> 1) ^ (value[0] ^ data[i] ? 32'hEDB8_8320 : 32'd0);
    return value;
  endfunction

  // rows[i]: mask of the inputs whose parity is bit i of the CRC after `bits` bits.
  function automatic logic [31:0][31:0] crc_value_rows(input int unsigned bits);
    logic [31:0] column;
    for (int j = 0; j < 32; j++) begin
      column = crc_serial(32'd1 << j, 128'd0, bits);
      for (int i = 0; i < 32; i++) crc_value_rows[i][j] = column[i];
    end
  endfunction
  function automatic logic [31:0][127:0] crc_data_rows(input int unsigned bits);
    logic [31:0] column;
    for (int unsigned j = 0; j < 128; j++) begin
      column = j < bits ? crc_serial(32'd0, 128'd1 << j, bits) : '0;
      for (int i = 0; i < 32; i++) crc_data_rows[i][j] = column[i];
    end
  endfunction
  localparam logic [31:0][31:0] CrcValueRows = crc_value_rows(128);
  localparam logic [31:0][127:0] CrcDataRows = crc_data_rows(128);
  localparam logic [31:0][31:0] CrcControlValueRows = crc_value_rows(96);

  function automatic logic [31:0] crc_value(input logic [31:0] value, input logic control);
    for (int i = 0; i < 32; i++)
      crc_value[i] = control ? ^(value & CrcControlValueRows[i]) : ^(value & CrcValueRows[i]);
  endfunction
  // Of a control word or footer, the first 96 bits in the upper ones: the bits behind a bit determine its
  // share.
  function automatic logic [31:0] crc_aligned(input logic [127:0] data);
    for (int i = 0; i < 32; i++) crc_aligned[i] = ^(data & CrcDataRows[i]);
  endfunction

endpackage
