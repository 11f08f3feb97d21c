// SPDX-License-Identifier: SHL-2.1
// Card top of the C++ model: all inputs and outputs are registered, so that the model evaluates once a
// cycle. Not for synthesis.
module nanet_card_sim
  import nanet_dma_pkg::*;
#(
    // MACs.
    parameter int unsigned CHANNELS = 2,
    // Maximum number of consumer devices.
    parameter int unsigned DEVICES = 4,
    // Width of the DMA data in bits.
    parameter int unsigned DATA_W = 256
) (
    input logic clk,
    input logic rst,

    /*
     * frames from the MACs, one cycle before the card
     */
    input logic [CHANNELS-1:0]       rx_valid,
    input logic [CHANNELS-1:0][63:0] rx_data,
    input logic [CHANNELS-1:0][ 7:0] rx_keep,
    input logic [CHANNELS-1:0]       rx_last,
    input logic [CHANNELS-1:0]       rx_user,

    /*
     * frames to the MACs, one cycle after the card; cycles in which a MAC accepts a word
     */
    input  logic [7:0]                tx_word_cycles,
    output logic [CHANNELS-1:0]       tx_valid,
    output logic [CHANNELS-1:0][63:0] tx_data,
    output logic [CHANNELS-1:0][ 7:0] tx_keep,
    output logic [CHANNELS-1:0]       tx_last,

    /*
     * register bus: request and acknowledge are pulses
     */
    input  logic        reg_start,
    input  logic        reg_write,
    input  logic [16:0] reg_addr,
    input  logic [31:0] reg_wdata,
    output logic        reg_done,
    output logic [31:0] reg_rdata,

    /*
     * microcontroller bus, same protocol
     */
    input  logic        fw_start,
    input  logic        fw_write,
    input  logic [ 7:0] fw_addr,
    input  logic [31:0] fw_wdata,
    output logic        fw_done,
    output logic [31:0] fw_rdata,
    output logic        fw_interrupt,

    /*
     * DMA: writes and read requests are always accepted; read data while there is room
     */
    output logic              wr_valid,
    output dma_cmd_t          wr_cmd,
    output logic [DATA_W-1:0] wr_data,
    output logic              wr_last,
    input  logic              wr_done_valid,
    input  logic [7:0]        wr_done_tag,
    input  logic              wr_done_error,
    output logic              rd_valid,
    output dma_cmd_t          rd_cmd,
    output logic              rd_room,
    input  logic              rd_data_valid,
    input  logic [DATA_W-1:0] rd_data,
    input  logic [7:0]        rd_data_tag,
    input  logic              rd_data_last,
    input  logic              rd_data_error,

    input logic bus_master,

    /*
     * TTC line, one cycle before the card; final triggers, one cycle after it
     */
    input  logic [3:0]  ttc_samples,
    output logic        trigger_valid,
    output logic [5:0]  trigger_kind,
    output logic [31:0] trigger_timestamp
);

  localparam int unsigned WireBytes = 24;  // preamble, FCS and interframe gap

  // ------------------------------------------------------------------ MACs

  logic [CHANNELS-1:0] rx_valid_q, rx_last_q, rx_user_q;
  logic [CHANNELS-1:0][63:0] rx_data_q;
  logic [CHANNELS-1:0][7:0] rx_keep_q;
  logic [CHANNELS-1:0] mac_valid, mac_ready, mac_last;
  logic [CHANNELS-1:0][63:0] mac_data;
  logic [CHANNELS-1:0][7:0] mac_keep;
  logic [CHANNELS-1:0][11:0] wait_q;  // cycles until the next word is accepted

  always_ff @(posedge clk) begin
    rx_valid_q <= rx_valid;
    rx_data_q  <= rx_data;
    rx_keep_q  <= rx_keep;
    rx_last_q  <= rx_last;
    rx_user_q  <= rx_user;
    tx_data    <= mac_data;
    tx_keep    <= mac_keep;
    tx_last    <= mac_last;
    for (int c = 0; c < int'(CHANNELS); c++) begin
      tx_valid[c] <= mac_valid[c] && mac_ready[c];
      if (wait_q[c] != 0) wait_q[c] <= wait_q[c] - 1'b1;
      if (mac_valid[c] && mac_ready[c])
        wait_q[c] <= 12'(((mac_last[c] ? $countones(mac_keep[c]) + WireBytes : 8) * 32'(tx_word_cycles) + 7) / 8 - 1);
    end
    if (rst) begin
      rx_valid_q <= '0;
      tx_valid   <= '0;
      wait_q     <= '0;
    end
  end
  always_comb for (int c = 0; c < int'(CHANNELS); c++) mac_ready[c] = wait_q[c] == 0;

  // ------------------------------------------------------------------ register and firmware bus

  logic reg_request_q, reg_write_q, fw_request_q, fw_write_q, interrupt;
  reg_rsp_t reg_rsp;
  fw_rsp_t fw_rsp;
  logic [16:0] reg_addr_q;
  logic [31:0] reg_wdata_q, fw_wdata_q;
  logic [7:0] fw_addr_q;

  always_ff @(posedge clk) begin
    reg_done <= reg_request_q && reg_rsp.acknowledge;
    fw_done  <= fw_request_q && fw_rsp.acknowledge;
    if (reg_rsp.acknowledge) reg_rdata <= reg_rsp.rdata;
    if (fw_rsp.acknowledge) fw_rdata <= fw_rsp.rdata;
    if (reg_rsp.acknowledge) reg_request_q <= 1'b0;
    if (fw_rsp.acknowledge) fw_request_q <= 1'b0;
    if (reg_start) begin
      reg_request_q <= 1'b1;
      reg_write_q   <= reg_write;
      reg_addr_q    <= reg_addr;
      reg_wdata_q   <= reg_wdata;
    end
    if (fw_start) begin
      fw_request_q <= 1'b1;
      fw_write_q   <= fw_write;
      fw_addr_q    <= fw_addr;
      fw_wdata_q   <= fw_wdata;
    end
    fw_interrupt <= interrupt;
    if (rst) begin
      reg_request_q <= 1'b0;
      fw_request_q  <= 1'b0;
      reg_done      <= 1'b0;
      fw_done       <= 1'b0;
      fw_interrupt  <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ DMA

  logic done_valid_q, done_error_q, bus_master_q;
  dma_wr_req_t card_wr_req;
  dma_rd_req_t card_rd_req;
  logic [DATA_W-1:0] card_wr_data;
  logic [7:0] done_tag_q;

  always_ff @(posedge clk) begin
    wr_valid     <= card_wr_req.valid && !rst;
    wr_cmd       <= card_wr_req.cmd;
    wr_data      <= card_wr_data;
    wr_last      <= card_wr_req.last;
    rd_valid     <= card_rd_req.valid && !rst;
    rd_cmd       <= card_rd_req.cmd;
    done_valid_q <= wr_done_valid && !rst;
    done_tag_q   <= wr_done_tag;
    done_error_q <= wr_done_error;
    bus_master_q <= bus_master;
  end

  typedef struct packed {
    logic              error;
    logic              last;
    logic [7:0]        tag;
    logic [DATA_W-1:0] data;
  } answer_t;

  // Up to three words are in flight between `room` and this queue.
  localparam int unsigned Answers = 8;
  answer_t answers[Answers];
  logic [2:0] answer_head_q, answer_tail_q;
  logic [3:0] answer_count_q;
  logic answer_taken, answer_ready;

  assign answer_taken = answer_count_q != 0 && answer_ready;

  dma_rd_rsp_t card_rd_rsp;
  assign card_rd_rsp = '{
      ready: 1'b1,
      data_valid: answer_count_q != 0,
      data_tag: answers[answer_head_q].tag,
      data_last: answers[answer_head_q].last,
      data_error: answers[answer_head_q].error
  };

  always_ff @(posedge clk) begin
    if (rd_data_valid) begin
      answers[answer_tail_q] <= '{error: rd_data_error, last: rd_data_last, tag: rd_data_tag, data: rd_data};
      answer_tail_q <= answer_tail_q + 1'b1;
    end
    if (answer_taken) answer_head_q <= answer_head_q + 1'b1;
    answer_count_q <= answer_count_q + 4'(rd_data_valid) - 4'(answer_taken);
    rd_room        <= answer_count_q < 4'd4;
    if (rst) begin
      answer_head_q  <= '0;
      answer_tail_q  <= '0;
      answer_count_q <= '0;
      rd_room        <= 1'b0;
    end
  end

  // ------------------------------------------------------------------ final trigger

  logic [3:0] samples_q;
  logic card_trigger_valid;
  logic [5:0] card_trigger_kind;
  logic [31:0] card_trigger_timestamp;

  always_ff @(posedge clk) begin
    samples_q     <= ttc_samples;
    trigger_valid <= card_trigger_valid && !rst;
    if (card_trigger_valid) begin
      trigger_kind      <= card_trigger_kind;
      trigger_timestamp <= card_trigger_timestamp;
    end
  end

  nanet_card #(
      .CHANNELS(CHANNELS),
      .DEVICES (DEVICES),
      .DATA_W  (DATA_W),
      .MERGE   (CHANNELS > 1),
      .FINAL   (1'b1)
  ) card (
      .clk,
      .rst,
      .mac_rx_clk      ('0),
      .mac_rx_rst      ('0),
      .s_axis_rx_tvalid(rx_valid_q),
      .s_axis_rx_tdata (rx_data_q),
      .s_axis_rx_tkeep (rx_keep_q),
      .s_axis_rx_tlast (rx_last_q),
      .s_axis_rx_tuser (rx_user_q),
      .m_axis_tx_tvalid(mac_valid),
      .m_axis_tx_tready(mac_ready),
      .m_axis_tx_tdata (mac_data),
      .m_axis_tx_tkeep (mac_keep),
      .m_axis_tx_tlast (mac_last),
      .reg_req         ('{
          request: reg_request_q,
          write: reg_write_q,
          bar: 3'd0,
          wdata: reg_wdata_q,
          enable: 4'hF
      }),
      .reg_addr        (reg_addr_q),
      .reg_rsp         (reg_rsp),
      .wr_req          (card_wr_req),
      .wr_rsp          ('{ready: 1'b1, done_valid: done_valid_q, done_tag: done_tag_q, done_error: done_error_q}),
      .wr_data         (card_wr_data),
      .rd_req          (card_rd_req),
      .rd_data_ready   (answer_ready),
      .rd_rsp          (card_rd_rsp),
      .rd_data         (answers[answer_head_q].data),
      .fw_req          ('{request: fw_request_q, write: fw_write_q, wdata: fw_wdata_q}),
      .fw_addr         (fw_addr_q),
      .fw_rsp          (fw_rsp),
      .fw_interrupt    (interrupt),
      .bus_master      (bus_master_q),
      .unsupported     (1'b0),
      .ttc_samples     (samples_q),
      .trigger_valid    (card_trigger_valid),
      .trigger_kind     (card_trigger_kind),
      .trigger_timestamp(card_trigger_timestamp)
  );

endmodule
