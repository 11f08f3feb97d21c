// SPDX-License-Identifier: SHL-2.1
// Address filters of udp_receive, matched by field so that verdicts can differ by field. Latency one
// cycle.
module udp_receive_filters
  import nanet_pkg::*;
#(
    // Filters of the stream.
    parameter int unsigned FILTERS = 2
) (
    input logic clk,

    /*
     * configuration, steady while frames arrive
     */
    input logic [31:0]           host_ip,
    input filter_t [FILTERS-1:0] filter,

    /*
     * frame fields received so far
     */
    input logic        in_valid,
    input logic        vlan,
    input logic [11:0] vlan_id,
    input logic [31:0] src_ip,
    input logic [31:0] dst_ip,
    input logic [15:0] src_port,
    input logic [15:0] dst_port,

    /*
     * match of the VLAN tag; of tag and destination; of all fields, with the number of the first matching
     * filter
     */
    output logic       fits_tag,
    output logic       fits_ip,
    output logic       fits,
    output logic [7:0] number
);

  logic [FILTERS-1:0] tag_q, ip_q, rest_q, all;
  logic [FILTERS-1:0][31:0] wanted_q;  // destination address

  always_ff @(posedge clk) begin
    for (int f = 0; f < int'(FILTERS); f++) wanted_q[f] <= filter[f].dst_ip == 0 ? host_ip : filter[f].dst_ip;
    if (in_valid) begin
      for (int f = 0; f < int'(FILTERS); f++) begin
        tag_q[f] <= filter[f].enable && filter[f].vlan == vlan &&
                    (!filter[f].vlan || filter[f].vlan_id == vlan_id);
        ip_q[f] <= dst_ip == wanted_q[f];
        rest_q[f] <= dst_port == filter[f].dst_port &&
                     ((src_ip ^ filter[f].src_ip) & filter[f].src_mask) == 0 &&
                     (filter[f].src_port == 0 || filter[f].src_port == src_port);
      end
    end
  end

  assign all      = tag_q & ip_q & rest_q;
  assign fits_tag = tag_q != 0;
  assign fits_ip  = (tag_q & ip_q) != 0;
  assign fits     = all != 0;

  always_comb begin
    number = '0;
    for (int f = int'(FILTERS) - 1; f >= 0; f--) if (all[f]) number = 8'(f);
  end

endmodule
