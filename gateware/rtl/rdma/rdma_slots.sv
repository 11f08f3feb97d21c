// SPDX-License-Identifier: SHL-2.1
// Receive slots of the node's ports: a SEND takes the next slot that the consumer has posted.
module rdma_slots
  import rdma_pkg::*;
#(
    // Clients.
    parameter int unsigned CLIENTS = 2
) (
    input logic clk,
    input logic rst,

    input rdma_slots_t [RdmaPorts-1:0] slots,

    /*
     * requests
     */
    input  slot_req_t [CLIENTS-1:0] slot_req,
    output slot_rsp_t [CLIENTS-1:0] slot_rsp
);

  localparam int unsigned ClientW = CLIENTS > 1 ? $clog2(CLIENTS) : 1;
  localparam int unsigned PortW = $clog2(RdmaPorts);

  typedef enum logic [2:0] {
    StateIdle,
    StatePort,
    StateCheck,
    StateSlot,
    StateDone
  } state_e;
  state_e state_q;
  logic [ClientW-1:0] client_q, pick;
  logic picked;
  slot_req_t request_q;
  rdma_slots_t port_q;
  logic [RdmaPorts-1:0][31:0] next_q;
  logic [31:0] number_q, slot_q;
  logic free_q, fits_q;
  logic [47:0] offset_q;
  reason_e reason_q, reason;

  always_comb begin
    pick   = '0;
    picked = 1'b0;
    for (int c = 0; c < int'(CLIENTS); c++) begin
      if (slot_req[c].valid && (!picked || client_q == pick)) pick = ClientW'(c);
      picked |= slot_req[c].valid;
    end
    if (32'(request_q.intra) >= RdmaPorts || !port_q.enable) reason = ReasonBadPort;
    else if (port_q.domain != request_q.domain) reason = ReasonBadDomain;
    else if (!fits_q) reason = ReasonBadLength;
    else if (!free_q) reason = ReasonNoSlot;
    else reason = ReasonNone;
    for (int c = 0; c < int'(CLIENTS); c++)
      slot_rsp[c] = '{
          done: state_q == StateDone && client_q == ClientW'(c),
          reason: reason_q,
          slot: slot_q,
          address: port_q.address + offset_q
      };
  end

  always_ff @(posedge clk) begin
    unique case (state_q)
      StateIdle: begin
        request_q <= slot_req[pick];
        if (picked) begin
          client_q <= pick;
          state_q  <= StatePort;
        end
      end
      StatePort: begin
        port_q   <= slots[request_q.intra[PortW-1:0]];
        number_q <= next_q[request_q.intra[PortW-1:0]];
        state_q  <= StateCheck;
      end
      StateCheck: begin
        free_q  <= port_q.posted != number_q;
        fits_q  <= request_q.length <= 14'(32'd1 << port_q.log2_stride);
        slot_q  <= number_q & ((32'd1 << port_q.log2_slots) - 32'd1);
        state_q <= StateSlot;
      end
      StateSlot: begin
        reason_q <= reason;
        offset_q <= 48'(slot_q) << port_q.log2_stride;
        if (reason == ReasonNone) next_q[request_q.intra[PortW-1:0]] <= number_q + 32'd1;
        state_q <= StateDone;
      end
      default: state_q <= StateIdle;
    endcase
    // A disabled port begins with slot 0.
    for (int p = 0; p < int'(RdmaPorts); p++) if (!slots[p].enable) next_q[p] <= '0;
    if (rst) begin
      state_q  <= StateIdle;
      client_q <= '0;
      next_q   <= '0;
    end
  end

  logic unused;
  assign unused = &{1'b0, request_q.valid, port_q.posted, 1'b0};

endmodule
