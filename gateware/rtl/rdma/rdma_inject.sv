// SPDX-License-Identifier: SHL-2.1
// Packets into the router: one source at a time, round robin, with credit for the whole packet; adds the CRC.
module rdma_inject
  import nanet_torus_pkg::*;
  import apelink_pkg::*;
  import rdma_pkg::*;
#(
    // Sources.
    parameter int unsigned SOURCES = 3,
    // Words of an input buffer of the router.
    parameter int unsigned DEPTH = 512
) (
    input logic clk,
    input logic rst,

    /*
     * packets, held until the pulse `sent`, and their payload; `bad` with a last word: the CRC will not match
     */
    input  inject_req_t [SOURCES-1:0]        inject_req,
    output logic        [SOURCES-1:0]        sent,
    input  logic        [SOURCES-1:0]        data_valid,
    output logic        [SOURCES-1:0]        data_ready,
    input  logic        [SOURCES-1:0][127:0] data,
    input  logic        [SOURCES-1:0]        data_bad,

    /*
     * router
     */
    output logic                       out_valid,
    output logic                       out_vc,
    output torus_word_t                out_word,
    input  logic        [TorusVcs-1:0] out_freed
);

  localparam int unsigned SourceW = SOURCES > 1 ? $clog2(SOURCES) : 1;

  typedef enum logic [1:0] {
    StateIdle,
    StateHeader,
    StateWords,
    StateFooter
  } state_e;
  state_e state_q;
  logic [SourceW-1:0] source_q, pick, last_q;
  logic picked, bad_q;
  logic [8:0] left_q;
  inject_req_t chosen;
  logic [TorusVcs-1:0][10:0] credit_q;
  logic [SOURCES-1:0] fits_q, open, ready_q;  // ready_q: its payload is under way

  // Credit only falls by the packet under way, which ends before the next choice.
  always_comb begin
    open   = '0;
    pick   = '0;
    picked = 1'b0;
    for (int s = 0; s < int'(SOURCES); s++) open[s] = inject_req[s].valid && fits_q[s];
    for (int s = int'(SOURCES) - 1; s >= 0; s--) begin
      if (open[s]) begin
        pick   = SourceW'(s);
        picked = 1'b1;
      end
    end
    for (int s = int'(SOURCES) - 1; s >= 0; s--) if (open[s] && SourceW'(s) > last_q) pick = SourceW'(s);
  end

  assign chosen = inject_req[source_q];
  always_comb begin
    data_ready     = ready_q;
    sent           = '0;
    sent[source_q] = state_q == StateFooter;
  end

  logic s0_valid;
  torus_word_t s0_word;
  torus_footer_t footer;
  always_comb begin
    footer             = chosen.footer;
    footer.crc_present = 1'b1;
    footer.crc         = '0;
    s0_valid           = 1'b1;
    unique case (state_q)
      StateHeader: s0_word = '{head: 1'b1, tail: 1'b0, data: chosen.header};
      StateFooter: s0_word = '{head: 1'b0, tail: 1'b1, data: footer};
      default: begin
        s0_word  = '{head: 1'b0, tail: 1'b0, data: data[source_q]};
        s0_valid = state_q == StateWords && data_valid[source_q];
      end
    endcase
  end

  always_ff @(posedge clk) begin
    for (int s = 0; s < int'(SOURCES); s++)
      fits_q[s] <= state_q == StateIdle && !picked && inject_req[s].valid &&
                   credit_q[inject_req[s].vc] >= 11'(inject_req[s].words) + 11'd2;
    unique case (state_q)
      StateIdle: begin
        source_q <= pick;
        bad_q    <= 1'b0;
        if (picked) begin
          last_q  <= pick;
          state_q <= StateHeader;
        end
      end
      StateHeader: begin
        left_q            <= chosen.words;
        ready_q[source_q] <= chosen.words != 0;
        state_q <= chosen.words != 0 ? StateWords : StateFooter;
      end
      StateWords: begin
        if (data_valid[source_q]) begin
          left_q <= left_q - 9'd1;
          bad_q  <= bad_q || data_bad[source_q];
          if (left_q == 9'd1) begin
            ready_q <= '0;
            state_q <= StateFooter;
          end
        end
      end
      default: state_q <= StateIdle;
    endcase
    for (int v = 0; v < int'(TorusVcs); v++)
      credit_q[v] <= credit_q[v] + 11'(out_freed[v]) - 11'(s0_valid && chosen.vc == 1'(v));
    if (rst) begin
      state_q  <= StateIdle;
      source_q <= '0;
      last_q   <= '0;
      fits_q   <= '0;
      ready_q  <= '0;
      credit_q <= {TorusVcs{11'(DEPTH)}};
    end
  end

  // ---------------------------------------------------------------- CRC

  // Of a footer, the CRC covers the first 96 bits: they occupy the upper ones.
  logic s1_valid_q, s1_vc_q, s1_bad_q, s2_valid_q, s2_vc_q, s2_bad_q;
  torus_word_t s1_word_q, s2_word_q;
  logic [127:0] s1_covered_q;
  logic [31:0] s2_part_q, crc_q, crc;

  assign crc = crc_value(s2_word_q.head ? '1 : crc_q, s2_word_q.tail) ^ s2_part_q;

  always_ff @(posedge clk) begin
    s1_valid_q <= s0_valid;
    s1_vc_q    <= chosen.vc;
    s1_word_q  <= s0_word;
    s1_bad_q   <= bad_q;
    unique case (state_q)
      StateHeader: s1_covered_q <= chosen.header & HeaderCovered;
      StateFooter: s1_covered_q <= {footer[95:0], 32'd0};
      default: s1_covered_q <= data[source_q];
    endcase
    s2_valid_q <= s1_valid_q;
    s2_vc_q    <= s1_vc_q;
    s2_word_q  <= s1_word_q;
    s2_bad_q   <= s1_bad_q;
    s2_part_q  <= crc_aligned(s1_covered_q);
    if (s2_valid_q) crc_q <= crc;
    out_valid <= s2_valid_q;
    out_vc    <= s2_vc_q;
    out_word  <= s2_word_q;
    if (s2_word_q.tail) out_word.data[127:96] <= s2_bad_q ? crc : ~crc;
    if (rst) begin
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      out_valid  <= 1'b0;
    end
  end

  logic unused;
  assign unused = &{1'b0, chosen.valid, 1'b0};

endmodule
