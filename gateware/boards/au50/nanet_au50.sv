// SPDX-License-Identifier: SHL-2.1
// Example top for the Alveo U50: nanet_card_us with one MAC of 10 GbE (lane 1 of the QSFP) and PCIe Gen3 x8.
// Not run on hardware, not compiled with Vivado; linted with stubs. AMD's cores: ip.tcl.
module nanet_au50 (
    // 100 MHz of the board, for resets and transceivers
    input logic clk_100mhz_p,
    input logic clk_100mhz_n,

    /*
     * PCI Express
     */
    input  logic       pcie_refclk_p,
    input  logic       pcie_refclk_n,
    input  logic       pcie_reset_n,
    input  logic [7:0] pcie_rx_p,
    input  logic [7:0] pcie_rx_n,
    output logic [7:0] pcie_tx_p,
    output logic [7:0] pcie_tx_n,

    /*
     * QSFP, lane 1; reference of 161.1328125 MHz
     */
    input  logic qsfp_refclk_p,
    input  logic qsfp_refclk_n,
    input  logic qsfp_rx_p,
    input  logic qsfp_rx_n,
    output logic qsfp_tx_p,
    output logic qsfp_tx_n,

    // memory overtemperature: low permits power
    output logic hbm_cattrip
);

  import nanet_dma_pkg::*;

  localparam int unsigned DataW = 256;

  // The card has the MAC's transmit clock, 156.25 MHz; the PCIe block 250 MHz.
  logic dclk, sys_clk, sys_clk_gt, pcie_clk, pcie_rst;
  logic clk, rst, mac_rx_clk, mac_rx_rst;

  assign hbm_cattrip = 1'b0;

  IBUFDS clock_buffer (
      .I (clk_100mhz_p),
      .IB(clk_100mhz_n),
      .O (dclk)
  );

  IBUFDS_GTE4 reference_buffer (
      .I    (pcie_refclk_p),
      .IB   (pcie_refclk_n),
      .CEB  (1'b0),
      .O    (sys_clk_gt),
      .ODIV2(sys_clk)
  );

  logic rq_tvalid, rq_tlast, rc_tvalid, rc_tready, rc_tlast;
  logic cq_tvalid, cq_tready, cq_tlast, cc_tvalid, cc_tlast;
  logic [3:0] rq_tready, cc_tready, pcie_tfc_nph_av;
  logic [DataW-1:0] rq_tdata, rc_tdata, cq_tdata, cc_tdata;
  logic [DataW/32-1:0] rq_tkeep, rc_tkeep, cq_tkeep, cc_tkeep;
  logic [61:0] rq_tuser;
  logic [74:0] rc_tuser;
  logic [87:0] cq_tuser;
  logic [32:0] cc_tuser;
  logic [15:0] cfg_function_status;
  logic [1:0] cfg_max_payload;
  logic [2:0] cfg_max_read_req;

  pcie4c_uscale_plus_0 pcie (
      .sys_clk                   (sys_clk),
      .sys_clk_gt                (sys_clk_gt),
      .sys_reset                 (pcie_reset_n),
      .pci_exp_rxp               (pcie_rx_p),
      .pci_exp_rxn               (pcie_rx_n),
      .pci_exp_txp               (pcie_tx_p),
      .pci_exp_txn               (pcie_tx_n),
      .user_clk                  (pcie_clk),
      .user_reset                (pcie_rst),
      .s_axis_rq_tvalid          (rq_tvalid),
      .s_axis_rq_tready          (rq_tready),
      .s_axis_rq_tdata           (rq_tdata),
      .s_axis_rq_tkeep           (rq_tkeep),
      .s_axis_rq_tuser           (rq_tuser),
      .s_axis_rq_tlast           (rq_tlast),
      .m_axis_rc_tvalid          (rc_tvalid),
      .m_axis_rc_tready          (rc_tready),
      .m_axis_rc_tdata           (rc_tdata),
      .m_axis_rc_tkeep           (rc_tkeep),
      .m_axis_rc_tuser           (rc_tuser),
      .m_axis_rc_tlast           (rc_tlast),
      .m_axis_cq_tvalid          (cq_tvalid),
      .m_axis_cq_tready          (cq_tready),
      .m_axis_cq_tdata           (cq_tdata),
      .m_axis_cq_tkeep           (cq_tkeep),
      .m_axis_cq_tuser           (cq_tuser),
      .m_axis_cq_tlast           (cq_tlast),
      .s_axis_cc_tvalid          (cc_tvalid),
      .s_axis_cc_tready          (cc_tready),
      .s_axis_cc_tdata           (cc_tdata),
      .s_axis_cc_tkeep           (cc_tkeep),
      .s_axis_cc_tuser           (cc_tuser),
      .s_axis_cc_tlast           (cc_tlast),
      .pcie_cq_np_req            (2'b11),
      .pcie_tfc_nph_av           (pcie_tfc_nph_av),
      .cfg_function_status       (cfg_function_status),
      .cfg_max_payload           (cfg_max_payload),
      .cfg_max_read_req          (cfg_max_read_req),
      .cfg_config_space_enable   (1'b1),
      .cfg_link_training_enable  (1'b1),
      .cfg_power_state_change_ack(1'b1)
  );

  logic rx_tvalid, rx_tlast, rx_tuser, tx_tvalid, tx_tready, tx_tlast;
  logic [63:0] rx_tdata, tx_tdata;
  logic [7:0] rx_tkeep, tx_tkeep;

  xxv_ethernet_0 mac (
      .dclk                     (dclk),
      .sys_reset                (!pcie_reset_n),
      .gt_refclk_p              (qsfp_refclk_p),
      .gt_refclk_n              (qsfp_refclk_n),
      .gt_rxp_in                (qsfp_rx_p),
      .gt_rxn_in                (qsfp_rx_n),
      .gt_txp_out               (qsfp_tx_p),
      .gt_txn_out               (qsfp_tx_n),
      .tx_clk_out_0             (clk),
      .rx_clk_out_0             (mac_rx_clk),
      .rx_core_clk_0            (mac_rx_clk),
      .user_tx_reset_0          (rst),
      .user_rx_reset_0          (mac_rx_rst),
      .rx_reset_0               (1'b0),
      .tx_reset_0               (1'b0),
      .rx_axis_tvalid_0         (rx_tvalid),
      .rx_axis_tdata_0          (rx_tdata),
      .rx_axis_tkeep_0          (rx_tkeep),
      .rx_axis_tlast_0          (rx_tlast),
      .rx_axis_tuser_0          (rx_tuser),
      .tx_axis_tvalid_0         (tx_tvalid),
      .tx_axis_tready_0         (tx_tready),
      .tx_axis_tdata_0          (tx_tdata),
      .tx_axis_tkeep_0          (tx_tkeep),
      .tx_axis_tlast_0          (tx_tlast),
      .tx_axis_tuser_0          (1'b0),
      .ctl_rx_enable_0          (1'b1),
      .ctl_rx_delete_fcs_0      (1'b1),
      .ctl_rx_check_preamble_0  (1'b1),
      .ctl_rx_check_sfd_0       (1'b1),
      .ctl_rx_max_packet_len_0  (15'd9600),
      .ctl_rx_min_packet_len_0  (8'd64),
      .ctl_tx_enable_0          (1'b1),
      .ctl_tx_fcs_ins_enable_0  (1'b1),
      .ctl_tx_ipg_value_0       (4'd12),
      .gtwiz_reset_tx_datapath_0(1'b0),
      .gtwiz_reset_rx_datapath_0(1'b0)
  );

  // No microcontroller: the pages of all buffers must be in the TLB, whose misses would wait.
  fw_rsp_t fw_rsp;
  logic fw_interrupt, unused;

  nanet_card_us #(
      .CHANNELS  (1),
      .MAC_W     (64),
      .MAC_CLOCKS(1'b1),
      .PCIE_CLOCK(1'b1),
      .DATA_W    (DataW)
  ) card (
      .mac_tx_clk      (clk),
      .mac_tx_rst      (rst),
      .s_axis_rx_tvalid(rx_tvalid),
      .s_axis_rx_tdata (rx_tdata),
      .s_axis_rx_tkeep (rx_tkeep),
      .s_axis_rx_tlast (rx_tlast),
      .s_axis_rx_tuser (rx_tuser),
      .m_axis_tx_tvalid(tx_tvalid),
      .m_axis_tx_tready(tx_tready),
      .m_axis_tx_tdata (tx_tdata),
      .m_axis_tx_tkeep (tx_tkeep),
      .m_axis_tx_tlast (tx_tlast),
      .fw_req          ('0),
      .fw_addr         ('0),
      .rq_tready       (rq_tready[0]),
      .cc_tready       (cc_tready[0]),
      .*
  );

  assign unused = &{1'b0, fw_rsp, fw_interrupt, rq_tready[3:1], cc_tready[3:1]};

endmodule
