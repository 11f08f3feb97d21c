// SPDX-License-Identifier: SHL-2.1
// Start and stop sequencer of a stream. After all memories are cleared, it accepts frames from the first
// whole one until `receive` falls. When everything is off, no request and no frame begins; once pending
// ones end, the stream without its registers is reset.
module card_run #(
    // MACs.
    parameter int unsigned CHANNELS = 2,
    // Longest clearing time, in cycles, of the other memories.
    parameter int unsigned CLEAR_CYCLES = 4096
) (
    input logic clk,
    input logic rst,

    /*
     * control and state
     */
    input  logic on,        // at least one function is enabled
    input  logic receive,   // frames are accepted
    input  logic cleared,   // the receive path is cleared
    output logic ready,     // all memories cleared
    output logic running,
    output logic stopped,
    output logic core_rst,  // reset of the core

    /*
     * frames from the MACs: word accepted
     */
    input  logic [CHANNELS-1:0] rx_tvalid,
    input  logic [CHANNELS-1:0] rx_tlast,
    output logic [CHANNELS-1:0] rx_take,

    /*
     * frames to the MACs
     */
    input  logic [CHANNELS-1:0] tx_busy,
    output logic                tx_stop,

    /*
     * DMA: card requests, and their enables
     */
    input  logic wr_valid_in,
    output logic wr_pass,
    input  logic wr_ready,
    input  logic wr_last,
    input  logic wr_done_valid,
    input  logic rd_valid_in,
    output logic rd_pass,
    input  logic rd_ready,
    input  logic rd_data_valid,
    input  logic rd_data_ready,
    input  logic rd_data_last
);

  localparam int unsigned CountW = $clog2(CLEAR_CYCLES + 1);

  typedef enum logic [1:0] {
    Stopped,
    Running,
    Closing,
    Resetting
  } state_e;

  state_e state_q;
  logic [CountW-1:0] clear_q;
  logic [9:0] writes_q, reads_q;  // outstanding requests
  logic wr_begun_q, rd_shown_q;
  logic [3:0] reset_q;

  assign running  = state_q == Running;
  assign stopped  = state_q == Stopped && !on;
  assign tx_stop  = !running;

  // A request, once shown, stays valid.
  assign wr_pass = running || wr_begun_q;
  assign rd_pass = running || rd_shown_q;

  logic wr_ends, rd_begins, rd_ends;
  assign wr_ends   = wr_valid_in && wr_pass && wr_ready && wr_last;
  assign rd_begins = rd_valid_in && rd_pass && rd_ready;
  assign rd_ends   = rd_data_valid && rd_data_ready && rd_data_last;

  always_ff @(posedge clk) begin
    ready    <= running && cleared && clear_q == CountW'(CLEAR_CYCLES);
    core_rst <= state_q == Stopped || state_q == Resetting;

    if (wr_valid_in && wr_pass) wr_begun_q <= !(wr_ready && wr_last);
    rd_shown_q <= rd_valid_in && rd_pass && !rd_ready;
    writes_q   <= writes_q + 10'(wr_ends) - 10'(wr_done_valid);
    reads_q    <= reads_q + 10'(rd_begins) - 10'(rd_ends);

    case (state_q)
      Stopped: begin
        clear_q <= '0;
        if (on) state_q <= Running;
      end
      Running: begin
        if (clear_q != CountW'(CLEAR_CYCLES)) clear_q <= clear_q + 1'b1;
        if (!on) state_q <= Closing;
      end
      Closing: begin
        reset_q <= '1;
        if (!wr_begun_q && !rd_shown_q && writes_q == 0 && reads_q == 0 && tx_busy == '0) begin
          state_q <= Resetting;
        end
      end
      Resetting: begin
        reset_q <= reset_q - 1'b1;
        if (reset_q == 0) state_q <= Stopped;
      end
      default: state_q <= Stopped;
    endcase

    if (rst) begin
      state_q    <= Stopped;
      core_rst   <= 1'b1;
      ready      <= 1'b0;
      wr_begun_q <= 1'b0;
      rd_shown_q <= 1'b0;
      writes_q   <= '0;
      reads_q    <= '0;
    end
  end

  // ------------------------------------------------------------------ complete frames

  logic [CHANNELS-1:0] within_q, taken_q;
  assign rx_take = (within_q & taken_q) | (~within_q & {CHANNELS{ready && receive}});

  always_ff @(posedge clk) begin
    for (int unsigned c = 0; c < CHANNELS; c++) begin
      if (rx_tvalid[c]) begin
        within_q[c] <= !rx_tlast[c];
        taken_q[c]  <= rx_take[c];
      end
    end
    if (core_rst) taken_q <= '0;
    if (rst) within_q <= '0;
  end

endmodule
