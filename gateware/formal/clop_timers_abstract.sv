// SPDX-License-Identifier: SHL-2.1
// Abstraction of clop_timers for proofs: any timer may be due at any time.
module clop_timers #(
    parameter int unsigned MAX_BUFFERS = 2048
) (
    input  logic                           clk,
    input  logic                           rst,
    input  logic [31:0]                    timeout_cycles,
    input  logic [15:0]                    grace_cycles,
    input  logic [15:0]                    window_frames,
    input  logic [31:0]                    now,
    input  logic [$clog2(MAX_BUFFERS)-1:0] index_mask,
    input  logic                           push,
    input  logic [31:0]                    push_n,
    input  logic [31:0]                    push_first,
    output logic                           room,
    input  logic                           slot_we,
    input  logic [$clog2(MAX_BUFFERS)-1:0] slot_addr,
    input  logic                           slot_open,
    input  logic [31:0]                    slot_first,
    input  logic [31:0]                    base_n,
    input  logic [31:0]                    end_n,
    input  logic [23:0]                    due_frames,
    input  logic                           close,
    input  logic                           close_old,
    output logic                           closing,
    output logic                           due_valid,
    input  logic                           due_ready,
    output logic [31:0]                    due_n,
    output logic [31:0]                    due_first,
    output logic                           due_old,
    output logic                           due_forced,
    output logic                           moved
);
endmodule
