// SPDX-License-Identifier: SHL-2.1
// Final trigger of a stream: TTC receiver, masks on the sender's packets, latency memory, registers. While
// `enable` is 0 everything but the configuration is in reset. Registers: doc/send.md.
module stream_trigger
  import nanet_dma_pkg::*;
  import nanet_ttc_pkg::*;
#(
    // Places of the latency memory, as exponent of two.
    parameter int unsigned LOG2_PLACES = 15,
    // Bins of the slack histogram: 128 at most.
    parameter int unsigned BINS = 128
) (
    input logic clk,
    input logic rst,

    /*
     * Register bus: a request stays until it is acknowledged
     */
    input  reg_req_t    reg_req,
    input  logic [11:0] reg_addr,
    output reg_rsp_t    reg_rsp,

    /*
     * Words accepted by udp_transmit, then one of `sent` and `discarded`; sender_next as in sender
     */
    input logic         word_valid,
    input logic [255:0] word,
    input logic [5:0]   word_bytes,
    input logic         sent,
    input logic         discarded,
    input logic [63:0]  sender_next,

    /*
     * Pulse: a burst of the boards begins, with this number and first n
     */
    input logic        burst_begins,
    input logic [7:0]  burst_number,
    input logic [63:0] burst_base,

    /*
     * Pulse: a packet has been placed
     */
    input logic        packet_placed,
    input logic [7:0]  packet_burst,
    input logic [23:0] packet_frame,

    // TTC line: four samples, the oldest in bit 0.
    input logic [3:0] ttc_samples,

    // Time of the receiver; zero while `enable` is 0.
    output ttc_stamp_t ttc_stamp,
    // Answers of the sender's burst up to this frame are late.
    output logic        overdue_valid,
    output logic [23:0] overdue_frame,

    /*
     * Final trigger: pulse in the first cycle of period t + L, which has this timestamp
     */
    output logic        trigger_valid,
    output logic [5:0]  trigger_kind,
    output logic [31:0] trigger_timestamp
);

  localparam int unsigned Masks = 16;
  localparam int unsigned BinW = $clog2(BINS);

  // Counters, one register each, in this order from address 0x040.
  localparam int unsigned Counters = 24;

  if (LOG2_PLACES > 24 || BINS > 128) begin : gen_check_registers
    $fatal(1, "stream_trigger: LOG2_PLACES must be at most 24, BINS at most 128");
  end

  // ---------------------------------------------------------------- configuration

  logic enable_q, choke_q, clear_q, unit_rst_q;
  logic [LOG2_PLACES-1:0] latency_q;
  logic [3:0] min_ticks_q;
  logic [31:0] offset_q;
  logic [15:0] close_ticks_q, answer_ticks_q;
  logic [12:0] orbit_q;

  logic request, write, seen_q, acknowledge_q, waits_q, read_bin, read_valid;
  logic [31:0] rdata_q, value, mask_read_q, count_read_q, read_count;
  logic [9:0] at;  // index of a register
  // In its second cycle, behind the registers of masks and counters.
  assign request = reg_req.request && seen_q && !acknowledge_q && !waits_q;
  assign write   = request && reg_req.write;
  assign at      = reg_addr[11:2];
  assign reg_rsp = '{acknowledge: acknowledge_q, rdata: rdata_q};

  // ---------------------------------------------------------------- receiver, packets, trigger

  logic now_tick, sob, eob, tick, frame_valid, ready, pulse, missed;
  ttc_tick_t now_number, number;
  ttc_pair_t pair;
  ttc_frame_t frame;
  ttc_now_t now;
  ttc_frame_counts_t frame_counts;
  ttc_time_counts_t time_counts;
  trigger_counts_t trigger_counts;
  logic [2:0] mask_write;
  logic [31:0] mask_word;
  logic count_primitive, count_overflow, histogram_clear, timed, burst, burst_mismatch, out_of_time;
  logic [7:0] close_burst;
  logic [23:0] close_frames;

  ttc_receiver i_receiver (
      .clk,
      .rst    (unit_rst_q),
      .samples(ttc_samples),
      .offset (offset_q),
      .orbit  (orbit_q),
      .tick,
      .number,
      .pair,
      .frame_valid,
      .frame,
      .now_tick,
      .now_number,
      .now,
      .sob,
      .eob,
      .frame_counts,
      .time_counts
  );

  burst_time #(
      .LATENCY_W(LOG2_PLACES)
  ) i_bursts (
      .clk,
      .rst        (unit_rst_q),
      .latency    (latency_q),
      .close_ticks(close_ticks_q),
      .answer_ticks(answer_ticks_q),
      .now,
      .burst_begins,
      .burst_number,
      .burst_base,
      .sender_next,
      .timed,
      .burst,
      .packet_placed,
      .packet_burst,
      .packet_frame,
      .close_burst,
      .close_frames,
      .overdue_valid,
      .overdue_frame,
      .burst_mismatch,
      .out_of_time
  );

  // clk_ttc is `clk`: the pulse leaves in the first cycle of its period.
  final_trigger #(
      .LOG2_PLACES(LOG2_PLACES),
      .BINS       (BINS)
  ) i_final (
      .clk,
      .rst       (unit_rst_q),
      .latency   (latency_q),
      .min_ticks (min_ticks_q),
      .choke     (choke_q),
      .mask_write,
      .mask_index(at[5:2]),
      .mask_word,
      .ready,
      .now_tick,
      .now_number,
      .now,
      .sob,
      .eob,
      .word_valid,
      .word,
      .word_bytes,
      .sent,
      .discarded,
      .timed,
      .burst,
      .counts    (trigger_counts),
      .count_primitive,
      .count_overflow,
      .clear     (histogram_clear),
      .read      (read_bin),
      .read_bin  (at[BinW-1:0]),
      .read_valid,
      .read_count,
      .clk_ttc   (clk),
      .rst_ttc   (unit_rst_q),
      .tick_ttc  (tick),
      .number_ttc(now_number),
      .pulse,
      .kind      (trigger_kind),
      .missed
  );

  always_ff @(posedge clk) begin
    ttc_stamp <= '{close_burst: close_burst, close_frames: close_frames, lost: now.lost,
                   in_burst: now.in_burst, locked: now.locked, timestamp: now.timestamp};
    if (unit_rst_q) ttc_stamp <= '0;
  end

  assign trigger_valid     = pulse && now_tick;
  assign trigger_timestamp = now.timestamp;
  assign histogram_clear   = clear_q;

  // ---------------------------------------------------------------- counters

  logic [Counters-1:0] pulses;
  assign pulses = {
    burst_mismatch,
    out_of_time,
    frame_counts.bad_stop,
    frame_counts.refused,
    frame_counts.corrected,
    time_counts.lock_losses,
    time_counts.slips,
    time_counts.bunch_errors,
    time_counts.start_in_burst,
    time_counts.ends,
    time_counts.starts,
    missed,
    count_overflow,
    count_primitive,
    trigger_counts.specials,
    trigger_counts.flushed,
    trigger_counts.untimed,
    trigger_counts.choked,
    trigger_counts.dead,
    trigger_counts.early,
    trigger_counts.late,
    trigger_counts.joined,
    trigger_counts.sent,
    trigger_counts.decisions
  };

  logic [4:0] counter;
  assign counter = 5'(at - 10'h010);

  counter_bank #(
      .COUNTERS(Counters),
      .WIDTH   (32)
  ) i_counters (
      .clk,
      .rst       (unit_rst_q),
      .pulses,
      .read_index(counter),
      .read_value(count_read_q)
  );

  // ---------------------------------------------------------------- registers

  assign read_bin = request && !reg_req.write && at[9] && !unit_rst_q;

  // The masks' registers, as they are read: a memory, as a selection among them takes more logic.
  (* no_rw_check, ram_style = "distributed" *) logic [31:0] mask_words[4 * Masks];
  always_comb begin
    mask_word = reg_req.wdata;
    if (at[1:0] == 2'd1) mask_word = {26'd0, reg_req.wdata[5:0]};
    if (at[1:0] == 2'd3) mask_word = '0;
    mask_write = '0;
    if (write && at[9:6] == 4'd1 && at[1:0] != 2'd3) mask_write[at[1:0]] = 1'b1;
  end

  always_comb begin
    value = '0;
    if (at[9:6] == 4'd1) begin
      value = mask_read_q;
    end else if (at >= 10'h010 && at < 10'h010 + 10'(Counters)) begin
      value = count_read_q;
    end else begin
      case (at)
        10'h000: value = {30'd0, choke_q, enable_q};
        10'h001: value = {16'd0, now.burst, 4'd0, ready, now.lost, now.in_burst, now.locked};
        10'h002: value = 32'(latency_q);
        10'h003: value = 32'(min_ticks_q);
        10'h004: value = offset_q;
        10'h005: value = 32'(orbit_q);
        10'h006: value = now.timestamp;
        10'h007: value = 32'(LOG2_PLACES);
        10'h008: value = 32'(close_ticks_q);
        10'h009: value = 32'(answer_ticks_q);
        default: value = '0;
      endcase
    end
  end

  always_ff @(posedge clk) begin
    unit_rst_q    <= !enable_q;
    clear_q       <= 1'b0;
    seen_q        <= reg_req.request && !acknowledge_q && !waits_q;
    acknowledge_q <= request && !read_bin;
    mask_read_q   <= mask_words[at[5:0]];
    rdata_q       <= reg_req.write ? '0 : value;
    if (read_bin) waits_q <= 1'b1;
    if (waits_q && read_valid) begin
      waits_q       <= 1'b0;
      acknowledge_q <= 1'b1;
      rdata_q       <= read_count;
    end
    if (write) begin
      case (at)
        10'h000: begin
          enable_q <= reg_req.wdata[0];
          choke_q  <= reg_req.wdata[1];
          clear_q  <= reg_req.wdata[8];
        end
        10'h002: latency_q <= reg_req.wdata[LOG2_PLACES-1:0];
        10'h003: min_ticks_q <= reg_req.wdata[3:0];
        10'h004: offset_q <= reg_req.wdata;
        10'h005: orbit_q <= reg_req.wdata[12:0];
        10'h008: close_ticks_q <= reg_req.wdata[15:0];
        10'h009: answer_ticks_q <= reg_req.wdata[15:0];
        default: ;
      endcase
      if (at[9:6] == 4'd1) mask_words[at[5:0]] <= mask_word;
    end
    if (rst) begin
      enable_q      <= 1'b0;
      choke_q       <= 1'b0;
      unit_rst_q    <= 1'b1;
      seen_q        <= 1'b0;
      acknowledge_q <= 1'b0;
      waits_q       <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, reg_req.bar, reg_req.enable, reg_addr[1:0], now.bunch, number, pair, frame,
                    frame_valid};

endmodule
