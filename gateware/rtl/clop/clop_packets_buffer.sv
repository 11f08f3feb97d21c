// SPDX-License-Identifier: SHL-2.1
// Next buffer in gather mode `packets`: address and availability. Buffers are used in turn, so the
// previous number of this buffer is n minus the number of buffers. The buffer is available when its return
// slot holds that number plus one.
module clop_packets_buffer #(
    // As in clop_packets.
    parameter int unsigned MAX_BUFFERS = 2048,
    parameter int unsigned DEVICES = 1
) (
    input logic clk,
    input logic rst,

    /*
     * configuration, as in clop_packets
     */
    input logic [4:0]               log2_buffers,
    input logic [4:0]               log2_devices,
    input logic [DEVICES-1:0][63:0] base_vaddr,
    input logic [17:0]              buffer_units,
    input logic [31:0]              sender_next,

    /*
     * return slots
     */
    input logic                           return_valid,
    input logic [$clog2(MAX_BUFFERS)-1:0] return_index,
    input logic [31:0]                    return_value,

    /*
     * the number; pulse: its buffer is used
     */
    input logic [31:0] n,
    input logic        taken,

    /*
     * valid from three cycles after the number
     */
    output logic [$clog2(MAX_BUFFERS)-1:0]           buffer,    // index within its device
    output logic [(DEVICES>1?$clog2(DEVICES):1)-1:0] device,
    output logic [63:0]                              vaddr,
    output logic                                     available
);

  localparam int unsigned IndexW = $clog2(MAX_BUFFERS);
  localparam int unsigned DeviceW = DEVICES > 1 ? $clog2(DEVICES) : 1;

  logic [IndexW-1:0] index_mask_q;
  logic [DeviceW-1:0] device_2_q;
  logic [IndexW:0] count_q;  // buffers used so far, saturating at all
  logic [31:0] returned_n, back_q, behind;
  logic [33:0] product_q;
  logic lapped_q, passed_q;

  ram_bypass #(
      .WIDTH(32),
      .DEPTH(MAX_BUFFERS)
  ) returned (
      .clk,
      .wr_en  (return_valid),
      .wr_addr(return_index),
      .wr_data(return_value),
      .rd_addr(IndexW'(n) & index_mask_q),
      .rd_data(returned_n)
  );

  assign behind = sender_next - back_q;

  always_ff @(posedge clk) begin
    index_mask_q <= IndexW'((33'd1 << log2_buffers << log2_devices) - 33'd1);
    device       <= DEVICES > 1 ? DeviceW'(n) & DeviceW'((32'd1 << log2_devices) - 32'd1) : '0;
    device_2_q   <= device;
    buffer       <= DEVICES > 1 ? (IndexW'(n) & index_mask_q) >> log2_devices : IndexW'(n) & index_mask_q;
    product_q    <= 34'(buffer) * 34'(buffer_units);
    vaddr        <= base_vaddr[device_2_q] + {24'd0, product_q, 6'd0};
    back_q       <= n - 32'(index_mask_q);  // previous number of the same buffer, plus one
    passed_q     <= !behind[31];
    lapped_q     <= count_q > (IndexW + 1)'(index_mask_q);
    available    <= !lapped_q || (returned_n == back_q && passed_q);
    if (taken && !count_q[IndexW]) count_q <= count_q + 1'b1;
    if (rst) count_q <= '0;
  end

  logic unused;
  assign unused = &{1'b0, behind};

endmodule
