// SPDX-License-Identifier: SHL-2.1
// Ordered notifications in gather mode `packets`: closed buffers, each with its write fence, and counts of
// payloads without a buffer.
module clop_packets_notify
  import nanet_pkg::*;
#(
    // Receive channels.
    parameter int unsigned CHANNELS = 2,
    // Consumer devices; a power of two.
    parameter int unsigned DEVICES = 1
) (
    input logic clk,
    input logic rst,

    /*
     * payloads: pulses for a payload with a slot, and for one without a buffer
     */
    input logic                                       used,
    input logic [(CHANNELS>1?$clog2(CHANNELS):1)-1:0] channel,        // steady from two cycles before
    input serial_t                                    serial,
    input logic                                       missed,
    input logic [31:0]                                missed_n,       // number of the missing buffer
    input logic [23:0]                                missed_frame,
    input logic [(DEVICES>1?$clog2(DEVICES):1)-1:0]   missed_device,
    input serial_t [CHANNELS-1:0]                     done_serial,

    /*
     * a buffer is closed
     */
    input logic            closed,
    input packets_notice_t closing,

    /*
     * overruns to report: accepted while no buffer closes
     */
    output logic overrun_due,
    input  logic take,

    /*
     * event queues
     */
    input logic [DEVICES-1:0][15:0] room,
    input logic [DEVICES-1:0]       half_free,

    /*
     * to clop_packets_close
     */
    output logic                   notice_valid,
    input  logic                   notice_ready,
    output packets_notice_t        notice,
    output serial_t [CHANNELS-1:0] notice_fence,  // write fence: packets that must be written first
    output serial_t [CHANNELS-1:0] done,          // completed packets
    input  logic                   notice_done,   // an overrun event has its queue entry

    // No room for notifications of the next three cycles.
    output logic full,
    // A notification is pending or queued.
    output logic waiting
);

  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;
  localparam int unsigned Notice = 16;

  serial_t [CHANNELS-1:0] serial_q, done_q, write_fence_q, push_fence_q;
  serial_t write_fence_now_q;
  logic [CHANNELS-1:0] uses, behind_q;
  always_comb begin
    uses = '0;
    uses[channel] = used;
  end
  assign done = done_q;
  always_ff @(posedge clk) begin
    serial_q          <= done_serial;
    done_q            <= serial_q;
    write_fence_now_q <= serial + 1'b1;
    // Without updates, the fence of a channel without placed packets falls half the range behind and compares
    // as ahead.
    for (int unsigned c = 0; c < CHANNELS; c++) begin
      behind_q[c] <= reached(done_q[c], write_fence_q[c]) && !uses[c];
      if (uses[c]) write_fence_q[c] <= write_fence_now_q;
      else if (behind_q[c]) write_fence_q[c] <= done_q[c];
    end
    if (rst) begin
      done_q        <= '0;
      write_fence_q <= '0;
      behind_q      <= '0;
    end
  end

  // Payloads without a buffer share one entry while fewer than half of the entries are free.
  // One overrun event at a time: the room reserved at opening is sufficient for it.
  logic missed_q, out_q;
  logic [31:0] missed_count_q, missed_n_q;
  logic [23:0] missed_frame_q;
  logic [DeviceW-1:0] missed_device_q;
  logic [DEVICES-1:0] room_q;
  always_ff @(posedge clk) begin
    for (int d = 0; d < int'(DEVICES); d++) room_q[d] <= room[d] != 0 && half_free[d];
    overrun_due <= missed_q && room_q[missed_device_q] && !out_q && !take;
    if (notice_done) out_q <= 1'b0;
    if (take) begin
      missed_q <= 1'b0;
      out_q    <= 1'b1;
    end
    if (missed) begin
      missed_q       <= 1'b1;
      missed_count_q <= missed_q ? missed_count_q + 1'b1 : 32'd1;
      if (!missed_q) begin
        missed_n_q      <= missed_n;
        missed_frame_q  <= missed_frame;
        missed_device_q <= missed_device;
      end
    end
    if (rst) begin
      overrun_due <= 1'b0;
      missed_q    <= 1'b0;
      out_q       <= 1'b0;
    end
  end

  logic push_q, unused_ready;
  packets_notice_t push_notice_q;
  logic [$clog2(Notice):0] level;
  always_ff @(posedge clk) begin
    push_q        <= closed || take;
    push_fence_q <= write_fence_q;
    push_notice_q   <= closed ? closing : '{overrun: 1'b1, n: missed_n_q, device: 8'(missed_device_q),
                                          frame: missed_frame_q, bytes: missed_count_q, default: '0};
    if (rst) push_q <= 1'b0;
  end

  fifo #(
      .WIDTH($bits(packets_notice_t) + $bits(write_fence_q)),
      .DEPTH(Notice)
  ) queue (
      .clk,
      .rst,
      .in_valid (push_q),
      .in_ready (unused_ready),
      .in_data  ({push_fence_q, push_notice_q}),
      .out_valid(notice_valid),
      .out_ready(notice_ready),
      .out_data ({notice_fence, notice}),
      .level
  );

  assign full    = level >= ($clog2(Notice) + 1)'(Notice - 3);
  assign waiting = missed_q || push_q || level != 0 || notice_valid;

  logic unused;
  assign unused = &{1'b0, unused_ready};

endmodule
