# SPDX-License-Identifier: SHL-2.1
# AMD's cores of nanet_au50: PCI Express block (PG213) and 10G Ethernet MAC and PCS/PMA (PG210, needs its licence).
# Not run.
create_ip -name pcie4c_uscale_plus -vendor xilinx.com -library ip -module_name pcie4c_uscale_plus_0
set_property -dict [list \
    CONFIG.PL_LINK_CAP_MAX_LINK_SPEED {8.0_GT/s} \
    CONFIG.PL_LINK_CAP_MAX_LINK_WIDTH {X8} \
    CONFIG.axisten_if_width {256_bit} \
    CONFIG.axisten_freq {250} \
    CONFIG.axisten_if_enable_client_tag {true} \
    CONFIG.AXISTEN_IF_RC_STRADDLE {false} \
    CONFIG.PF0_CLASS_CODE {020000} \
    CONFIG.pf0_bar0_64bit {true} \
    CONFIG.pf0_bar0_scale {Kilobytes} \
    CONFIG.pf0_bar0_size {128} \
] [get_ips pcie4c_uscale_plus_0]

create_ip -name xxv_ethernet -vendor xilinx.com -library ip -module_name xxv_ethernet_0
set_property -dict [list \
    CONFIG.CORE {Ethernet MAC+PCS/PMA 64-bit} \
    CONFIG.NUM_OF_CORES {1} \
    CONFIG.LINE_RATE {10} \
    CONFIG.BASE_R_KR {BASE-R} \
    CONFIG.INCLUDE_AXI4_INTERFACE {0} \
    CONFIG.GT_REF_CLK_FREQ {161.1328125} \
    CONFIG.GT_DRP_CLK {100} \
    CONFIG.GT_GROUP_SELECT {Quad_X0Y7} \
    CONFIG.LANE1_GT_LOC {X0Y28} \
] [get_ips xxv_ethernet_0]
