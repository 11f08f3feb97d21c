// SPDX-License-Identifier: SHL-2.1
// CRC-32 (IEEE 802.3, as zlib) over words of 128 bits, byte 0 in bits 7:0. The XOR matrices are computed
// at elaboration from the bit-serial definition. A register separates the matrix of the data from the
// matrix of the running value.
module crc32_128 (
    input logic clk,

    /*
     * words; first restarts the CRC
     */
    input logic         in_valid,
    input logic         in_first,
    input logic [127:0] in_data,

    /*
     * over all words up to the input of two cycles ago
     */
    output logic [31:0] crc
);

  function automatic logic [31:0] serial(input logic [31:0] start, input logic [127:0] data);
    logic [31:0] value;
    value = start;
    for (int i = 0; i < 128; i++)
      value = (value >> 1) ^ (value[0] ^ data[i] ? 32'hEDB8_8320 : 32'd0);
    return value;
  endfunction

  // rows[i]: mask of the inputs whose parity is bit i of the result.
  function automatic logic [31:0][31:0] rows_of_value();
    logic [31:0][31:0] rows;
    logic [31:0] column;
    for (int j = 0; j < 32; j++) begin
      column = serial(32'd1 << j, 128'd0);
      for (int i = 0; i < 32; i++) rows[i][j] = column[i];
    end
    return rows;
  endfunction
  function automatic logic [31:0][127:0] rows_of_data();
    logic [31:0][127:0] rows;
    logic [31:0] column;
    for (int j = 0; j < 128; j++) begin
      column = serial(32'd0, 128'd1 << j);
      for (int i = 0; i < 32; i++) rows[i][j] = column[i];
    end
    return rows;
  endfunction

  localparam logic [31:0][31:0] ValueRows = rows_of_value();
  localparam logic [31:0][127:0] DataRows = rows_of_data();

  logic valid_q, first_q;
  logic [31:0] low_q, high_q, value_q, start;

  assign start = first_q ? '1 : value_q;
  assign crc   = ~value_q;

  always_ff @(posedge clk) begin
    valid_q <= in_valid;
    first_q <= in_first;
    for (int i = 0; i < 32; i++) begin
      if (in_valid || !nanet_dma_pkg::Lazy) begin
        low_q[i]  <= ^(in_data[63:0] & DataRows[i][63:0]);
        high_q[i] <= ^(in_data[127:64] & DataRows[i][127:64]);
      end
      if (valid_q) value_q[i] <= ^(start & ValueRows[i]) ^ low_q[i] ^ high_q[i];
    end
  end

endmodule
