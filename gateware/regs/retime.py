# SPDX-License-Identifier: SHL-2.1
"""Pipeline registers for generated register blocks: after the address decoder and in the read multiplexer.

PeakRDL decodes an address and executes the access in one cycle. Its read multiplexer compares the address
with every register address and is split once, in the middle of the address bits, although registers occupy
only the lowest part. Both paths are too long for the card clock.
"""

from __future__ import annotations

import re

READ = """    // One of eight words, all others 0; then one of eight of these. Which one: each eight has
    // separate registers, as the readable registers are spread over the chip. The C++ model: in reads only.
    logic [3:0] readback_pick[WORDS/8];
    logic [31:0] readback_eight[WORDS/8];
    logic [31:0] readback_data_rt[WORDS/64];
    logic readback_pick_done, readback_eight_done, readback_done_rt;
    always_ff @(posedge clk) begin
        // What each word of the address space reads as
        automatic logic [31:0] readback_word[WORDS];
        if(decoded_req || !nanet_dma_pkg::Lazy) begin
            for(int i=0; i<WORDS/8; i++)
                readback_pick[i] <= int'(rd_mux_addr[TOP:5]) == i ? {1'b1, rd_mux_addr[4:2]} : 4'd0;
        end
        if(readback_pick_done || !nanet_dma_pkg::Lazy) begin
            for(int i=0; i<WORDS; i++) readback_word[i] = '0;
FIELDS            for(int i=0; i<WORDS/8; i++)
                readback_eight[i] <= !readback_pick[i][3] ? '0 :
                                     readback_word[i * 8 + int'(readback_pick[i][2:0])];
        end
        if(readback_eight_done || !nanet_dma_pkg::Lazy) begin
            for(int i=0; i<WORDS/64; i++) begin
                readback_data_rt[i] <= readback_eight[i * 8] | readback_eight[i * 8 + 1] |
                                       readback_eight[i * 8 + 2] | readback_eight[i * 8 + 3] |
                                       readback_eight[i * 8 + 4] | readback_eight[i * 8 + 5] |
                                       readback_eight[i * 8 + 6] | readback_eight[i * 8 + 7];
            end
        end
        readback_pick_done <= decoded_req & ~decoded_req_is_wrEXTERNAL & ~rst;
        readback_eight_done <= readback_pick_done & ~rst;
        readback_done_rt <= readback_eight_done & ~rst;
    end

"""


def _replace(text: str, pattern: str, new: str, count: int | None = 1) -> str:
    """Replace a required pattern exactly `count` times, or at least once."""
    text, done = re.subn(pattern, new, text, flags=re.M | re.S)
    if done == 0 or (count is not None and done != count):
        raise ValueError(f"the generator's text has changed: {pattern!r} found {done} times")
    return text


def _external(text: str) -> bool:
    """Whether the register map has memories outside the block."""
    return "decoded_req_is_external" in text


def _decoder(text: str) -> str:
    """Register the decoder outputs: an access takes one more cycle."""
    start = text.index("    decoded_reg_strb_t decoded_reg_strb;")
    end = text.index("    // Pass down signals to next stage\n")
    part = _replace(text[start:end], r"decoded_reg_strb\.", "strobe.", None)
    part = _replace(part, r"_t decoded_reg_strb;", "_t strobe, decoded_reg_strb;")
    if _external(text):
        part = _replace(
            part, r"logic decoded_req_is_external;", "logic strobe_external, decoded_req_is_external;"
        )
        part = _replace(part, r"decoded_req_is_external = is_external;", "strobe_external = is_external;")
    text = text[:start] + part + text[end:]
    names = ("addr", "req", "req_is_wr", "wr_data", "wr_biten")
    pattern = "".join(rf"    assign decoded_{name} = (\w+);\n" for name in names)
    stage = "    always_ff @(posedge clk) begin\n        decoded_reg_strb <= strobe;\n"
    if _external(text):
        stage += "        decoded_req_is_external <= strobe_external;\n"
    stage += "".join(f"        decoded_{name} <= \\{index};\n" for index, name in enumerate(names, 1))
    return _replace(text, pattern, stage + "    end\n")


def _reader(text: str) -> str:
    """Index read data by word, in a four-stage multiplexer; the address is steady until the acknowledge."""
    external = _external(text)
    if external:
        text = _replace(
            text,
            r"    logic \[15:0\] pending_rd_addr;\n.*?    assign rd_mux_addr = [^\n]*\n",
            "    assign rd_mux_addr = decoded_addr;\n",
        )
    top = re.findall(r"logic \[(\d+):0\] rd_mux_addr;", text)[0]
    text = _replace(text, r"    function automatic bit \[\d+:0\] ad_(?:low|hi)\(.*?endfunction\n", "", 2)
    text = _replace(
        text,
        r"^ *if\(ad_low\(rd_mux_addr\) == ad_low\([^\n]*\)\) begin\n(.*?)^ *end\n",
        r"\1",
        None,
    )
    text = _replace(text, r"readback_data_var\[ad_hi\((.*?)\)\]\[", r"readback_word[(\1) / 4][", None)
    highest = max(int(at, 16) for at in re.findall(r"readback_word\[\(\d+'h([0-9a-f]+)", text))
    bits = highest.bit_length()
    made = READ.replace("WORDS/8", str(2 ** (bits - 5)))
    made = made.replace("WORDS/64", str(2 ** (bits - 8))).replace("WORDS", str(2 ** (bits - 2)))
    made = made.replace("TOP", top).replace("EXTERNAL", " & ~decoded_req_is_external" if external else "")
    behind = r"    logic \[31:0\] readback_ext_block_data_rt_c;" if external else "    // readback stage 2\n"
    before, fields = made.split("FIELDS")[0], made.split("FIELDS")[1]
    text = _replace(
        text,
        r"    // readback stage 1\n.*?\] = '0;\n(.*?)        readback_data_rt_c = readback_data_var;\n"
        rf".*?(?={behind})",
        before + r"\1" + fields,
    )
    return _replace(
        text,
        r"readback_data = readback_data_rt\[readback_addr_rt\[\d+:\d+\]\];",
        "readback_data = '0;\n"
        f"            for(int i=0; i<{2 ** (bits - 8)}; i++) readback_data |= readback_data_rt[i];",
    )


def retime(text: str) -> str:
    """Return the retimed module; raises ValueError for unexpected generator output."""
    return _reader(_decoder(text))
