// SPDX-License-Identifier: SHL-2.1
// Abstraction of clop_sequence for proofs: unconstrained outputs.
module clop_sequence (
    input  logic             clk,
    input  logic             rst,
    input  logic             clear,
    input  logic [9:0]       clear_addr,
    input  logic             flush,
    input  logic             flush_half,
    input  logic             half,
    input  logic [1:0]       board,
    input  logic [31:0]      number,
    input  logic [23:0]      frame,
    input  logic             started,
    input  logic [23:0]      last_known,
    output logic             replayed,
    output logic             jump,
    output logic             far_ahead,
    output logic             watched,
    output logic             ordinary,
    input  logic             take,
    input  logic             admit,
    input  logic             escalated,
    input  logic             restart,
    input  logic             at_frame,
    input  logic             watch,
    input  logic             watch_flag,
    output logic [3:0][63:0] missing
);
endmodule
