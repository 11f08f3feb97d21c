// SPDX-License-Identifier: SHL-2.1
// Bench wrapper of frame_merge and clop_close with translation, memory port and board table as plain ports.
module frame_merge_bench
  import nanet_pkg::*;
  import nanet_dma_pkg::*;
  import nanet_merge_pkg::*;
#(
    // Open frames.
    parameter int unsigned SLOTS = 64,
    // Pages per board.
    parameter int unsigned PAGES = 128
) (
    input  logic       clk,
    input  logic       rst,
    input  logic       on,
    input  logic [7:0] window,
    input  logic [2:0] ttc,
    input  logic [31:0] period,
    output logic       ready,
    output logic       idle,

    /*
     * writes of the channels
     */
    input  logic         s_valid,
    output logic         s_ready,
    input  logic [31:0]  s_place,
    input  logic [15:0]  s_len,
    input  logic         s_last,
    input  logic [255:0] s_data,
    output logic         s_done,

    /*
     * notifications and board table
     */
    input  logic        notice_valid,
    output logic        notice_ready,
    input  logic [7:0]  kind,
    input  logic [15:0] index,
    input  logic [23:0] frame,
    input  logic [3:0]  complete,
    input  logic [3:0]  present,
    input  logic [3:0][11:0] units,
    input  logic [3:0][4:0]  packets,
    input  logic [3:0][7:0]  flags,
    input  logic [23:0] fence,
    input  logic [23:0] done,

    /*
     * memory: address is the virtual one
     */
    output logic         m_valid,
    input  logic         m_ready,
    output logic [63:0]  m_addr,
    output logic [15:0]  m_len,
    output logic         m_last,
    output logic [255:0] m_data,
    input  logic         m_done,
    input  logic [7:0]   m_done_tag,
    output logic [7:0]   m_tag,

    /*
     * events
     */
    output logic        ev_valid,
    input  logic        ev_ready,
    output logic [31:0] ev_bytes,
    output logic [31:0] ev_frame,
    output logic [31:0] ev_buffer,
    output logic [15:0] ev_flags,
    output logic [7:0]  ev_kind,
    output logic        merged,
    output logic        unmerged
);

  localparam int unsigned MaxBuffers = 2048;

  dma_wr_req_t s_wr_req;
  dma_wr_rsp_t s_wr_rsp;
  assign s_wr_req = '{valid: s_valid, cmd: '{addr: 64'(s_place), len: s_len, tag: 8'd0}, last: s_last};
  assign s_ready  = s_wr_rsp.ready;
  assign s_done   = s_wr_rsp.done_valid;

  clop_notice_t notice;
  assign notice = '{kind: kind, index: index, n: 64'(index), frame: frame, count: '0, timed_out: 1'b0,
                    complete: complete, present: present, start: '0, channel: '0};

  logic [12:0] merge_index, close_index;
  logic merge_reading, closing_valid, closing_ready;
  clop_part_t part, part_q;
  merge_result_t result;
  serial_t closing_fence, frames_done;
  logic [1:0] board_q;
  always_ff @(posedge clk) begin
    board_q <= merge_reading ? merge_index[1:0] : close_index[1:0];
    part_q  <= part;
  end
  assign part = '{units: units[board_q], packets: packets[board_q], flags: flags[board_q]};

  tlb_req_t [2:0] tlb_req;
  tlb_rsp_t [2:0] tlb_rsp;
  dma_wr_req_t [2:0] wr_req;
  dma_wr_rsp_t [2:0] wr_rsp;
  logic [2:0][255:0] wr_data;
  logic [1:0] unused_untranslated;
  logic merge_idle, close_idle;

  // Translation: identity, six cycles.
  for (genvar c = 0; c < 3; c++) begin : gen_tlb
    logic [5:0] valid_q;
    logic [63:0] vaddr_q;
    always_ff @(posedge clk) begin
      valid_q <= {valid_q[4:0], tlb_req[c].valid};
      if (tlb_req[c].valid) vaddr_q <= tlb_req[c].vaddr;
      if (rst) valid_q <= '0;
    end
    assign tlb_rsp[c] = '{ready: 1'b1, resp_valid: valid_q[5], resp_ok: 1'b1, resp_paddr: vaddr_q};
  end

  frame_merge #(
      .CHANNELS   (1),
      .MAX_BUFFERS(MaxBuffers),
      .SLOTS      (SLOTS),
      .PAGES      (PAGES)
  ) dut (
      .log2_devices    (5'd0),
      .base_vaddr      (64'h10_0000_0000),
      .buffer_units    (18'd513),
      .ttc_stamp       ({32'd0, ttc, period}),
      .s_wr_data       (s_data),
      .notice_fence    (fence),
      .board_read_index(merge_index),
      .board_reading   (merge_reading),
      .board_read      (part_q),
      .done_serial     (done),
      .tlb_req         (tlb_req[1:0]),
      .tlb_rsp         (tlb_rsp[1:0]),
      .wr_req          (wr_req[1:0]),
      .wr_rsp          (wr_rsp[1:0]),
      .wr_data         (wr_data[1:0]),
      .untranslated    (unused_untranslated),
      .idle            (merge_idle),
      .*
  );

  event_req_t ev_req;
  logic unused_untranslated_header, unused_incomplete;
  clop_close #(
      .CHANNELS   (2),
      .MAX_BUFFERS(MaxBuffers)
  ) close (
      .log2_devices    (5'd0),
      .base_vaddr      (64'h10_0000_0000),
      .buffer_units    (18'd513),
      .expected        (4'hF),
      .now             (64'd0),
      .notice_valid    (closing_valid),
      .notice_ready    (closing_ready),
      .notice_fence    ({closing_fence, fence}),
      .board_read_index(close_index),
      .board_read      (part_q),
      .done_serial     ({frames_done, done}),
      .merged          (result),
      .tlb_req         (tlb_req[2]),
      .tlb_rsp         (tlb_rsp[2]),
      .wr_req          (wr_req[2]),
      .wr_rsp          (wr_rsp[2]),
      .wr_data         (wr_data[2]),
      .idle            (close_idle),
      .untranslated    (unused_untranslated_header),
      .incomplete      (unused_incomplete),
      .*
  );
  assign ev_bytes  = ev_req.item.bytes;
  assign ev_frame  = ev_req.item.frame;
  assign ev_buffer = ev_req.item.buffer;
  assign ev_flags  = ev_req.item.flags;
  assign ev_kind   = ev_req.item.kind;
  assign idle      = merge_idle && close_idle;

  dma_wr_req_t m_req;
  dma_wr_rsp_t m_rsp;
  dma_rd_req_t unused_rd_req;
  logic unused_rd_data_ready;
  dma_rd_rsp_t [2:0] unused_m_rd_rsp;
  logic [2:0][255:0] unused_rd_data;
  assign m_valid = m_req.valid;
  assign m_addr  = m_req.cmd.addr;
  assign m_len   = m_req.cmd.len;
  assign m_tag   = m_req.cmd.tag;
  assign m_last  = m_req.last;
  assign m_rsp   = '{ready: m_ready, done_valid: m_done, done_tag: m_done_tag, done_error: 1'b0};

  dma_arbiter #(
      .PORTS (3),
      .DATA_W(256)
  ) arbiter (
      .m_wr_req       (wr_req),
      .m_wr_rsp       (wr_rsp),
      .m_wr_data      (wr_data),
      .wr_req         (m_req),
      .wr_rsp         (m_rsp),
      .wr_data        (m_data),
      .m_rd_req       ('0),
      .m_rd_data_ready('0),
      .m_rd_rsp       (unused_m_rd_rsp),
      .m_rd_data      (unused_rd_data),
      .rd_req         (unused_rd_req),
      .rd_data_ready  (unused_rd_data_ready),
      .rd_rsp         ('0),
      .rd_data        ('0),
      .*
  );

  logic unused;
  assign unused = &{1'b0, unused_rd_req, unused_rd_data_ready, unused_m_rd_rsp, unused_rd_data, ev_req,
                    unused_untranslated, unused_untranslated_header, unused_incomplete, s_wr_rsp,
                    merge_index, close_index};

endmodule
