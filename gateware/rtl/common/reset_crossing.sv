// SPDX-License-Identifier: SHL-2.1
// Reset handshake between two clock domains that share FIFOs. A reset on either side resets both. The
// FIFOs are cleared while both sides are in reset, so that no pointer jumps in operation.
module reset_crossing (
    /*
     * One side: clock; request of any length; reset of the side; reset of its FIFO ends
     */
    input  logic a_clk,
    input  logic a_rst,
    output logic a_out,
    output logic a_clear,

    /*
     * The other side
     */
    input  logic b_clk,
    input  logic b_rst,
    output logic b_out,
    output logic b_clear
);

  // The sides differ by at most one step. One bit changes per step.
  typedef enum logic [1:0] {
    Rest  = 2'b00,
    Hold  = 2'b01,  // the side is in reset
    Clear = 2'b11,  // its ends of the FIFOs are in reset too
    Leave = 2'b10   // its ends of the FIFOs have left reset
  } step_t;

  logic [1:0] clk, rst, out, clear;
  logic [1:0][1:0] sent;

  assign clk                = {b_clk, a_clk};
  assign rst                = {b_rst, a_rst};
  assign {b_out, a_out}     = out;
  assign {b_clear, a_clear} = clear;

  for (genvar i = 0; i < 2; i++) begin : gen_side
    step_t step_q, other;
    logic  pending_q;  // request received while the other side was about to leave
    // State sent to the other side, one cycle later, after it has taken effect.
    logic [1:0] sent_q;
    (* async_reg = "true" *) logic [1:0] meta_q, other_q;

    assign sent[i]  = sent_q;
    assign other    = step_t'(other_q);
    assign out[i]   = rst[i] || pending_q || step_q != Rest;
    assign clear[i] = step_q == Clear;

    always_ff @(posedge clk[i]) begin
      sent_q    <= step_q;
      meta_q    <= sent[1-i];
      other_q   <= meta_q;
      pending_q <= (pending_q || rst[i]) && step_q == Rest;
      // Reaches a valid sequence from any pair of power-up states.
      case (step_q)
        Rest: if (other == Hold || other == Clear || ((rst[i] || pending_q) && other == Rest)) step_q <= Hold;
        Hold: if (other == Hold || other == Clear) step_q <= Clear;
        Clear: if ((other == Clear || other == Leave) && !rst[i]) step_q <= Leave;
        default: if (other != Clear) step_q <= Rest;
      endcase
    end
  end

endmodule
