// SPDX-License-Identifier: SHL-2.1
// Histogram of cycle counts in block RAM. Bins below 16 are one cycle wide; above, there are eight per
// octave; the last bin takes all larger values. Counts saturate. It accepts a sample every fourth cycle,
// and two in a row; a third in a row is lost.
module histogram #(
    // Bins, a power of two, at least 32.
    parameter int unsigned BINS = 128
) (
    input logic clk,
    input logic rst,

    /*
     * Samples
     */
    input logic        sample_valid,
    input logic [31:0] sample,

    /*
     * Pulse: clear all bins; samples during clearing are lost
     */
    input  logic clear,

    /*
     * Read port: the count is valid with `read_valid`
     */
    input  logic                    read,
    input  logic [$clog2(BINS)-1:0] read_bin,
    output logic                    read_valid,
    output logic [31:0]             read_count
);

  localparam int unsigned BinW = $clog2(BINS);
  localparam int unsigned LastBin = BINS - 1;

  if (BINS < 32 || 1 << BinW != BINS) begin : gen_check_bins
    $fatal(1, "histogram: BINS must be a power of two, at least 32");
  end

  // Bin index in two steps: leading bit, then the three bits below it.
  logic [4:0] shift;  // 0: the bin equals the sample
  logic first_valid_q, second_valid_q;
  logic [4:0] first_shift_q;
  logic [31:0] first_q;
  logic [7:0] bin;
  logic [2:0] fraction;
  logic [BinW-1:0] second_q;

  always_comb begin
    shift = '0;
    for (int unsigned e = 4; e < 32; e++) if (sample[e]) shift = 5'(e - 3);
  end

  assign fraction = 3'(first_q >> first_shift_q);
  assign bin = first_shift_q == 0 ? {4'd0, first_q[3:0]} : {first_shift_q + 5'd1, fraction};

  always_ff @(posedge clk) begin
    first_valid_q    <= sample_valid;
    first_q          <= sample;
    first_shift_q    <= shift;
    second_valid_q   <= first_valid_q;
    second_q         <= 32'(bin) > 32'(LastBin) ? BinW'(LastBin) : BinW'(bin);
    if (rst) begin
      first_valid_q  <= 1'b0;
      second_valid_q <= 1'b0;
    end
  end

  typedef enum logic [2:0] {
    Clear,
    Idle,
    Fetch,
    Add,
    Store
  } state_t;

  state_t state_q;
  logic [31:0] mem[BINS];
  logic [BinW-1:0] index_q, waiting_q;
  logic waiting_valid_q, reading_q;
  logic [31:0] ram_q, count_q;
  logic [BinW-1:0] at;

  // Shared read port: samples have priority over the register bus.
  logic start_sample, start_read, read_wait_q, read_fetch_q;
  logic [BinW-1:0] read_bin_q;
  assign start_sample = state_q == Idle && waiting_valid_q;
  assign start_read = state_q == Idle && !waiting_valid_q && read_wait_q;
  assign at = start_sample ? waiting_q : read_bin_q;

  // Pipeline: one cycle for block RAM, one for the sum, one for the write.
  logic [31:0] sum_q;
  always_ff @(posedge clk) begin
    if (state_q == Clear) mem[index_q] <= '0;
    else if (state_q == Store) mem[index_q] <= sum_q;
  end

  always_ff @(posedge clk) begin
    if (start_sample || start_read) ram_q <= mem[at];
    count_q <= ram_q;
    sum_q   <= count_q == '1 ? count_q : count_q + 32'd1;
  end

  assign read_valid = reading_q;
  assign read_count = count_q;

  always_ff @(posedge clk) begin
    read_fetch_q <= start_read;
    reading_q    <= read_fetch_q;
    if (start_sample) waiting_valid_q <= 1'b0;
    if (second_valid_q && (!waiting_valid_q || start_sample)) begin
      waiting_valid_q <= state_q != Clear;
      waiting_q       <= second_q;
    end
    if (start_read) read_wait_q <= 1'b0;
    if (read) begin
      read_wait_q <= 1'b1;
      read_bin_q  <= read_bin;
    end
    case (state_q)
      Clear: begin
        index_q <= index_q + 1'b1;
        if (index_q == BinW'(LastBin)) state_q <= Idle;
      end
      Idle:
      if (start_sample) begin
        index_q <= waiting_q;
        state_q <= Fetch;
      end
      Fetch: state_q <= Add;
      Add: state_q <= Store;
      Store: state_q <= Idle;
      default: state_q <= Clear;
    endcase
    if (rst || clear) begin
      state_q         <= Clear;
      index_q         <= '0;
      waiting_valid_q <= 1'b0;
    end
    if (rst) begin
      read_fetch_q <= 1'b0;
      reading_q    <= 1'b0;
      read_wait_q  <= 1'b0;
    end
  end

endmodule
