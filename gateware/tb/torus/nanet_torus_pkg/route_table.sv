// SPDX-License-Identifier: SHL-2.1
// Combinational route() with its arguments as ports, for the comparison with the reference model.
module route_table
  import nanet_torus_pkg::*;
(
    input  logic [18:0] size,
    input  logic [15:0] me,
    input  logic [ 2:0] from,
    input  logic [15:0] to,
    input  logic [ 4:0] code,
    input  logic        balanced,
    input  logic        xyz,       // order X, Y, Z instead of Z, Y, X
    output logic [ 8:0] way        // torus_route_t
);

  localparam torus_order_t TorusXyz = {2'd2, 2'd1, 2'd0};

  assign way = route(size, me, from, to, code, xyz ? TorusXyz : TorusZyx, balanced);

endmodule
