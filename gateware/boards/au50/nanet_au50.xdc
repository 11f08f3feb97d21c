# SPDX-License-Identifier: SHL-2.1
# Alveo U50 (xcu50-fsvh2104-2-e), pins of nanet_au50 from AMD's board files. Not run.
set_property CONFIG_VOLTAGE 1.8 [current_design]
set_property CONFIG_MODE SPIx4 [current_design]
set_property BITSTREAM.CONFIG.SPI_BUSWIDTH 4 [current_design]
set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]

set_property -dict {PACKAGE_PIN G17 IOSTANDARD LVDS} [get_ports clk_100mhz_p]
set_property -dict {PACKAGE_PIN G16 IOSTANDARD LVDS} [get_ports clk_100mhz_n]
create_clock -name board -period 10.000 [get_ports clk_100mhz_p]
set_property -dict {PACKAGE_PIN J18 IOSTANDARD LVCMOS18} [get_ports hbm_cattrip]

# Reference of lanes 0 to 7, quad 227.
set_property PACKAGE_PIN AB9 [get_ports pcie_refclk_p]
set_property PACKAGE_PIN AB8 [get_ports pcie_refclk_n]
create_clock -name pcie_reference -period 10.000 [get_ports pcie_refclk_p]
set_property -dict {PACKAGE_PIN AW27 IOSTANDARD LVCMOS18 PULLUP true} [get_ports pcie_reset_n]
foreach {lane receive} {0 AL2 1 AM4 2 AK4 3 AN2 4 AP4 5 AR2 6 AT4 7 AU2} {
    set_property PACKAGE_PIN $receive [get_ports pcie_rx_p[$lane]]
}

# QSFP: reference of 161.1328125 MHz, lane 1 (quad 131).
set_property PACKAGE_PIN N36 [get_ports qsfp_refclk_p]
set_property PACKAGE_PIN N37 [get_ports qsfp_refclk_n]
create_clock -name qsfp_reference -period 6.206 [get_ports qsfp_refclk_p]
set_property PACKAGE_PIN J45 [get_ports qsfp_rx_p]

# Resets and pins without timing.
set_false_path -from [get_ports pcie_reset_n]
set_false_path -to [get_ports hbm_cattrip]

# Crossings of the card: doc/pcie.md, Two clocks. The card has the MAC's transmit clock.
set card [get_clocks -of_objects [get_pins mac/tx_clk_out_0]]
foreach other [list [get_clocks -of_objects [get_pins pcie/user_clk]] [get_clocks -of_objects [get_pins mac/rx_clk_out_0]]] {
    set_max_delay -datapath_only -from $card -to $other 4.0
    set_max_delay -datapath_only -from $other -to $card 4.0
}
