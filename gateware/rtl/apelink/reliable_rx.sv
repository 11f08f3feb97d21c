// SPDX-License-Identifier: SHL-2.1
// Receiver of a reliable link: a cell enters the router once its control word is right and next in
// sequence; otherwise it is discarded and requested. A packet cut by the loss of the link is filled up to its
// length; its footer claims a CRC that does not match.
module reliable_rx
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
#(
    // Cycles until a request is repeated; above the round trip.
    parameter int unsigned RETRY_CYCLES = 128
) (
    input logic clk,
    input logic rst,

    /*
     * the port is up; no word is held or under way to the router, and no packet is open
     */
    input  logic up,
    output logic quiet,

    /*
     * PHY
     */
    input logic         link_valid,
    input logic         link_control,
    input logic [127:0] link_data,

    /*
     * words to the router
     */
    output logic        out_valid,
    output logic        out_vc,
    output torus_word_t out_word,

    /*
     * state for the transmitter
     */
    output reliable_status_t status,

    /*
     * pulses: a cell was accepted; a word or cell was damaged; a packet was received, or cut
     */
    output logic accepted,
    output logic damaged,
    output logic received,
    output logic cut
);

  if (RETRY_CYCLES < 16 || RETRY_CYCLES > 1023) begin : gen_check_retry
    $fatal(1, "reliable_rx: RETRY_CYCLES must be 16 to 1023");
  end

  // Claims a CRC (flag b0), which is wrong but for one packet in 2^32.
  localparam logic [127:0] CutFooter = {32'hDEAD_C0DE, 32'd0, 8'h01, 56'd0};

  // ---------------------------------------------------------------- check

  logic valid_q, control_q, valid_2_q, control_2_q, decide_q, plain_q;
  logic [127:0] word_q, word_2_q, checked_q;  // word; as in crc_aligned
  logic [31:0] part_q, crc_q, crc, sum;
  logic [7:0] equal_q;    // CRC, by four bits
  logic [4:0] count_q;  // words since a control word; 17: too many
  logic right, wrong, is_cell_q, is_next, is_later, take, unused_fields;
  control_t found, control;

  // The comparison of received and computed CRC is registered in parts; the decision follows one cycle later.
  assign crc      = crc_value(crc_q, control_2_q) ^ part_q;
  assign found    = word_2_q;
  assign sum      = crc ^ found.crc;
  assign right    = decide_q && plain_q && equal_q == '1;
  assign wrong    = decide_q && !right;
  assign is_next  = control.sequence_number == status.expected;
  assign is_later = !is_next && !(8'(control.sequence_number - status.expected) >= 8'h80);
  assign take     = up && right && is_cell_q && is_next;
  assign unused_fields = &{
          1'b0,
          control.zero_1,
          control.zero_2,
          control.zero_3,
          control.node,
          control.port,
          control.crc,
          control.comma,
          1'b0
      };

  // ---------------------------------------------------------------- cells

  localparam int unsigned Places = 64;

  typedef struct packed {
    logic       single;  // one word
    logic       vc;
    logic [4:0] count;
  } cell_t;
  cell_t cells_in, cells_out;
  logic cell_valid, cell_next, cell_done, unused_ready;
  logic [3:0] cells_level;
  (* no_rw_check *) logic [127:0] mem[Places];
  logic [127:0] read_q;
  logic [5:0] wr_q, start_q, place;
  logic [2:0][5:0] rd_q;  // place of the word that leaves, and of the two behind it
  logic [4:0] done_q;     // words of the cell that left
  logic begin_q, ends_q;  // the first word of a cell is to leave, or its last
  logic outstanding_q, replayed;
  logic [9:0] retry_q;
  logic [7:0] last_q;  // sequence number of the last undamaged cell
  logic request;

  assign cells_in = '{single: control.count == 5'd1, vc: control.vc, count: control.count};

  fifo #(
      .WIDTH(7),
      .DEPTH(8)
  ) i_cells (
      .clk,
      .rst,
      .in_valid (take),
      .in_ready (unused_ready),
      .in_data  (cells_in),
      .out_valid(cell_valid),
      .out_ready(cell_done),
      .out_data (cells_out),
      .level    (cells_level)
  );

  // Words of a rejected cell are overwritten: a word is stored in the cycle after that of the decision about
  // the cell before it.
  logic store_q, decided_q, taken_q;
  logic [127:0] word_3_q;
  assign place = decided_q && !taken_q ? start_q : wr_q;

  // A request is due after damage or a missing cell, once; again after a replay that fails, or after a time.
  assign replayed = right && is_cell_q && 8'(last_q - control.sequence_number) < 8'h80;
  assign request = up && ((!outstanding_q && (wrong || (right && is_later))) ||
                          (outstanding_q && replayed && is_later) || retry_q == 10'(RETRY_CYCLES));

  always_ff @(posedge clk) begin
    valid_q     <= link_valid;
    control_q   <= link_control;
    word_q      <= link_data;
    valid_2_q   <= valid_q;
    control_2_q <= control_q;
    word_2_q    <= word_q;
    checked_q   <= link_control ? {link_data[95:0], 32'd0} : link_data;
    part_q      <= crc_aligned(checked_q);
    if (valid_2_q) crc_q <= control_2_q ? '1 : crc;

    decide_q <= valid_2_q && control_2_q;
    control  <= found;
    is_cell_q <= found.kind == ControlCell;
    for (int i = 0; i < 8; i++) equal_q[i] <= sum[4*i+:4] == '1;
    plain_q  <= found.comma == ControlComma && found.count == count_q && count_q <= 5'(CellWords);

    store_q   <= valid_2_q && !control_2_q && count_q < 5'(CellWords);
    word_3_q  <= word_2_q;
    decided_q <= decide_q;
    taken_q   <= take;
    wr_q      <= place;
    if (store_q) begin
      mem[place] <= word_3_q;
      wr_q       <= place + 6'd1;
    end
    if (valid_2_q && !control_2_q && count_q <= 5'(CellWords)) count_q <= count_q + 5'd1;
    if (valid_2_q && control_2_q) count_q <= '0;
    if (taken_q) start_q <= wr_q;

    status.valid <= right;
    status.gap   <= request;
    if (right) begin
      status.kind        <= control.kind;
      status.resend      <= control.resend;
      status.acknowledge <= control.acknowledge;
      status.freed       <= control.freed;
    end
    if (take) status.expected <= status.expected + 8'd1;
    if (right && is_cell_q) last_q <= control.sequence_number;
    if (request) begin
      outstanding_q <= 1'b1;
      retry_q       <= '0;
    end else if (take || (right && is_next)) begin
      outstanding_q <= 1'b0;
      retry_q       <= '0;
    end else if (outstanding_q) retry_q <= retry_q + 10'd1;
    accepted <= take;
    damaged  <= wrong;

    if (rst || !up) begin
      status.expected <= '0;
      status.gap      <= 1'b0;
      outstanding_q   <= 1'b0;
      retry_q         <= '0;
      last_q          <= '1;
    end
    if (!up) status.acknowledge <= '0;
    if (rst) begin
      valid_q      <= 1'b0;
      valid_2_q    <= 1'b0;
      decide_q     <= 1'b0;
      store_q      <= 1'b0;
      decided_q    <= 1'b0;
      taken_q      <= 1'b0;
      status.valid <= 1'b0;
      count_q      <= '0;
      crc_q        <= '1;
      wr_q         <= '0;
      start_q      <= '0;
      accepted     <= 1'b0;
      damaged      <= 1'b0;
    end
  end

  // ---------------------------------------------------------------- packets

  logic [TorusVcs-1:0] open_q;
  logic [TorusVcs-1:0][10:0] left_q;  // words of the open packet, with its footer
  logic [127:0] leaving_q;
  logic vc, head, fill, fill_vc, tail;
  logic [2:0] calm_q;

  assign fill      = !up && !cell_valid && |open_q;
  assign fill_vc   = !open_q[0];
  assign vc        = fill ? fill_vc : cells_out.vc;
  assign head      = !open_q[vc];
  assign tail      = head ? leaving_q[47] : left_q[vc] == 11'd1;
  assign cell_done = cell_valid && (begin_q ? cells_out.single : ends_q);
  assign quiet     = calm_q == '1;

  // Two registers after the memory: the word of the cycle after next is read, which was written before its
  // cell was accepted.
  assign cell_next = cells_level != 0 || (cell_valid && !cell_done);

  always_ff @(posedge clk) begin
    read_q    <= mem[rd_q[cell_valid&&cell_next?2:cell_valid||cell_next?1:0]];
    leaving_q <= read_q;
    out_valid <= cell_valid || fill;
    out_vc    <= vc;
    out_word  <= '{head: head, tail: tail, data: leaving_q};
    if (fill) out_word.data <= tail ? CutFooter : '0;
    received <= cell_valid && tail;
    cut      <= fill && tail;
    if (cell_valid || fill) begin
      open_q[vc] <= !tail;
      left_q[vc] <= head ? payload_words(leaving_q[61:48]) + 11'd1 : left_q[vc] - 11'd1;
    end
    if (cell_valid) begin
      for (int i = 0; i < 3; i++) rd_q[i] <= rd_q[i] + 6'd1;
      done_q  <= cell_done ? '0 : done_q + 5'd1;
      begin_q <= cell_done;
      ends_q  <= done_q + 5'd2 == cells_out.count;
    end
    calm_q <= cell_valid || fill ? '0 : calm_q == '1 ? calm_q : calm_q + 3'd1;
    if (rst) begin
      out_valid <= 1'b0;
      open_q    <= '0;
      rd_q      <= {6'd2, 6'd1, 6'd0};
      begin_q   <= 1'b1;
      done_q    <= '0;
      calm_q    <= '0;
      received  <= 1'b0;
      cut       <= 1'b0;
    end
  end

endmodule
