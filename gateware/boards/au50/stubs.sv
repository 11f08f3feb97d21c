// SPDX-License-Identifier: SHL-2.1
// Empty AMD primitives and cores with the ports that nanet_au50 uses; for lint only.
/* verilator lint_off DECLFILENAME */
/* verilator lint_off UNDRIVEN */
/* verilator lint_off UNUSEDSIGNAL */
module IBUFDS (
    input  logic I,
    input  logic IB,
    output logic O
);
endmodule

module IBUFDS_GTE4 (
    input  logic I,
    input  logic IB,
    input  logic CEB,
    output logic O,
    output logic ODIV2
);
endmodule

module pcie4c_uscale_plus_0 (
    input  logic         sys_clk,
    input  logic         sys_clk_gt,
    input  logic         sys_reset,
    input  logic [7:0]   pci_exp_rxp,
    input  logic [7:0]   pci_exp_rxn,
    output logic [7:0]   pci_exp_txp,
    output logic [7:0]   pci_exp_txn,
    output logic         user_clk,
    output logic         user_reset,
    input  logic         s_axis_rq_tvalid,
    output logic [3:0]   s_axis_rq_tready,
    input  logic [255:0] s_axis_rq_tdata,
    input  logic [7:0]   s_axis_rq_tkeep,
    input  logic [61:0]  s_axis_rq_tuser,
    input  logic         s_axis_rq_tlast,
    output logic         m_axis_rc_tvalid,
    input  logic         m_axis_rc_tready,
    output logic [255:0] m_axis_rc_tdata,
    output logic [7:0]   m_axis_rc_tkeep,
    output logic [74:0]  m_axis_rc_tuser,
    output logic         m_axis_rc_tlast,
    output logic         m_axis_cq_tvalid,
    input  logic         m_axis_cq_tready,
    output logic [255:0] m_axis_cq_tdata,
    output logic [7:0]   m_axis_cq_tkeep,
    output logic [87:0]  m_axis_cq_tuser,
    output logic         m_axis_cq_tlast,
    input  logic         s_axis_cc_tvalid,
    output logic [3:0]   s_axis_cc_tready,
    input  logic [255:0] s_axis_cc_tdata,
    input  logic [7:0]   s_axis_cc_tkeep,
    input  logic [32:0]  s_axis_cc_tuser,
    input  logic         s_axis_cc_tlast,
    input  logic [1:0]   pcie_cq_np_req,
    output logic [3:0]   pcie_tfc_nph_av,
    output logic [15:0]  cfg_function_status,
    output logic [1:0]   cfg_max_payload,
    output logic [2:0]   cfg_max_read_req,
    input  logic         cfg_config_space_enable,
    input  logic         cfg_link_training_enable,
    input  logic         cfg_power_state_change_ack
);
endmodule

module xxv_ethernet_0 (
    input  logic        dclk,
    input  logic        sys_reset,
    input  logic        gt_refclk_p,
    input  logic        gt_refclk_n,
    input  logic        gt_rxp_in,
    input  logic        gt_rxn_in,
    output logic        gt_txp_out,
    output logic        gt_txn_out,
    output logic        tx_clk_out_0,
    output logic        rx_clk_out_0,
    input  logic        rx_core_clk_0,
    output logic        user_tx_reset_0,
    output logic        user_rx_reset_0,
    input  logic        rx_reset_0,
    input  logic        tx_reset_0,
    output logic        rx_axis_tvalid_0,
    output logic [63:0] rx_axis_tdata_0,
    output logic [7:0]  rx_axis_tkeep_0,
    output logic        rx_axis_tlast_0,
    output logic        rx_axis_tuser_0,
    input  logic        tx_axis_tvalid_0,
    output logic        tx_axis_tready_0,
    input  logic [63:0] tx_axis_tdata_0,
    input  logic [7:0]  tx_axis_tkeep_0,
    input  logic        tx_axis_tlast_0,
    input  logic        tx_axis_tuser_0,
    input  logic        ctl_rx_enable_0,
    input  logic        ctl_rx_delete_fcs_0,
    input  logic        ctl_rx_check_preamble_0,
    input  logic        ctl_rx_check_sfd_0,
    input  logic [14:0] ctl_rx_max_packet_len_0,
    input  logic [7:0]  ctl_rx_min_packet_len_0,
    input  logic        ctl_tx_enable_0,
    input  logic        ctl_tx_fcs_ins_enable_0,
    input  logic [3:0]  ctl_tx_ipg_value_0,
    input  logic        gtwiz_reset_tx_datapath_0,
    input  logic        gtwiz_reset_rx_datapath_0
);
endmodule
