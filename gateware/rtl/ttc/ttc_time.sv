// SPDX-License-Identifier: SHL-2.1
// TTC time: periods since SOB, bunch number, burst state. SOB is BCR and ECR in one broadcast, EOB is ECR
// alone. A slip, a loss of lock or a wrong bunch number sets `lost` until the next SOB. Ticks are at least
// two cycles apart.
module ttc_time
  import nanet_ttc_pkg::*;
(
    input logic clk,
    input logic rst,

    /*
     * Configuration
     */
    input logic [31:0] offset,  // timestamp of the period in which an SOB is decoded
    input logic [12:0] orbit,   // periods between bunch resets, up to 4096; 0: no bunch check

    /*
     * Ticks and frames; slip: pulse, a period was lost or gained
     */
    input logic       tick,
    input ttc_tick_t  number,
    input logic       frame_valid,
    input ttc_frame_t frame,
    input logic       locked,
    input logic       slip,

    /*
     * `now` holds from the cycle of `now_tick` to the next
     */
    output logic      now_tick,
    output ttc_tick_t now_number,
    output ttc_now_t  now,
    output logic      sob,        // pulse with now_tick
    output logic      eob,

    output ttc_time_counts_t counts
);

  logic bcr, ecr, locked_q, unused_frame;
  logic [11:0] bunch_next_q;
  logic wraps, checks_q, bunch_wrong;

  assign unused_frame = &{1'b0, frame.corrected, frame.data[31:2]};
  assign bcr          = frame_valid && !frame.addressed && frame.data[0];
  assign ecr          = frame_valid && !frame.addressed && frame.data[1];
  assign wraps        = orbit != 0 && {1'b0, now.bunch} + 13'd1 == orbit;
  assign bunch_wrong  = bcr && !ecr && checks_q && !now.lost;

  always_ff @(posedge clk) begin
    now_tick <= tick;
    sob      <= 1'b0;
    eob      <= 1'b0;
    counts   <= '0;
    locked_q <= locked;
    // Of the cycle before: `now.bunch` has stood since the last tick.
    bunch_next_q <= wraps ? '0 : now.bunch + 1'b1;
    checks_q     <= orbit != 0 && !wraps && now.bunch != '1;
    if (tick) begin
      now_number    <= number;
      now.timestamp <= now.timestamp + 1'b1;
      now.bunch     <= bcr ? '0 : bunch_next_q;
      if (bunch_wrong) begin
        now.lost            <= 1'b1;
        counts.bunch_errors <= 1'b1;
      end
      if (bcr && ecr) begin
        now.timestamp         <= offset;
        now.burst             <= now.burst + 1'b1;
        now.in_burst          <= 1'b1;
        now.lost              <= 1'b0;
        sob                   <= 1'b1;
        counts.starts         <= 1'b1;
        counts.start_in_burst <= now.in_burst;
      end else if (ecr) begin
        now.in_burst <= 1'b0;
        eob          <= 1'b1;
        counts.ends  <= 1'b1;
      end
    end
    now.locked <= locked;
    if (slip || !locked) now.lost <= 1'b1;
    counts.slips       <= slip;
    counts.lock_losses <= locked_q && !locked;
    if (rst) begin
      now      <= '0;
      now.lost <= 1'b1;
      now_tick <= 1'b0;
      counts   <= '0;
      locked_q <= 1'b0;
    end
  end

endmodule
