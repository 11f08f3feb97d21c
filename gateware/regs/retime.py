# SPDX-License-Identifier: SHL-2.1
"""Two more cuts in the generated register block: behind the address decoder, and in the read multiplexer.

PeakRDL decodes an address and acts on it in one cycle, and splits the multiplexer of what is read in the
middle of all address bits, though registers fill only the lowest part. Both paths are too long for the
card's clock.
"""

from __future__ import annotations

import re

GROUP_BITS = 6  # a group of the read multiplexer: 64 bytes, 16 registers


def _replace(text: str, pattern: str, new: str, count: int | None = 1) -> str:
    """Replace what has to be there: `count` times, or at least once."""
    text, done = re.subn(pattern, new, text, flags=re.M | re.S)
    if done == 0 or (count is not None and done != count):
        raise ValueError(f"the generator's text has changed: {pattern!r} found {done} times")
    return text


def _decoder(text: str) -> str:
    """What the decoder says goes through registers: an access takes one cycle more."""
    start = text.index("    decoded_reg_strb_t decoded_reg_strb;")
    end = text.index("    logic external_wr_ack;")
    part = _replace(text[start:end], r"decoded_reg_strb\.", "strobe.", None)
    part = _replace(part, r"_t decoded_reg_strb;", "_t strobe, decoded_reg_strb;")
    part = _replace(
        part, r"logic decoded_req_is_external;", "logic strobe_external, decoded_req_is_external;"
    )
    part = _replace(part, r"decoded_req_is_external = is_external;", "strobe_external = is_external;")
    text = text[:start] + part + text[end:]
    names = ("addr", "req", "req_is_wr", "wr_data", "wr_biten")
    pattern = "".join(rf"    assign decoded_{name} = (\w+);\n" for name in names)
    stage = "    always_ff @(posedge clk) begin\n        decoded_reg_strb <= strobe;\n"
    stage += "        decoded_req_is_external <= strobe_external;\n"
    stage += "".join(f"        decoded_{name} <= \\{index};\n" for index, name in enumerate(names, 1))
    return _replace(text, pattern, stage + "    end\n")


def _reader(text: str) -> str:
    """Groups of 16 registers, as many as there are; the address stands still until the answer."""
    text = _replace(
        text,
        r"    logic \[15:0\] pending_rd_addr;\n.*?    assign rd_mux_addr = [^\n]*\n",
        "    assign rd_mux_addr = decoded_addr;\n",
    )
    highest = max(int(at, 16) for at in re.findall(r"readback_data_var\[ad_hi\(16'h([0-9a-f]+)", text))
    bits = highest.bit_length()
    groups = 2 ** (bits - GROUP_BITS)
    text = _replace(
        text,
        r"bit \[\d+:0\] ad_low\((.*?)\);\n        return addr\[\d+:0\];",
        rf"bit [{GROUP_BITS - 1}:0] ad_low(\1);\n        return addr[{GROUP_BITS - 1}:0];",
    )
    text = _replace(
        text,
        r"bit \[\d+:0\] ad_hi\((.*?)\);\n        return addr\[\d+:\d+\];",
        rf"bit [{bits - GROUP_BITS - 1}:0] ad_hi(\1);\n        return addr[{bits - 1}:{GROUP_BITS}];",
    )
    text = _replace(text, r"(readback_data_(?:rt_c|rt|var))\[\d+\];", rf"\1[{groups}];", 3)
    text = _replace(text, r"i<\d+; i\+\+\) readback_data_", f"i<{groups}; i++) readback_data_", 2)
    return _replace(
        text,
        r"readback_data = readback_data_rt\[readback_addr_rt\[\d+:\d+\]\];",
        f"readback_data = readback_addr_rt[15:{bits}] == '0 ? "
        f"readback_data_rt[readback_addr_rt[{bits - 1}:{GROUP_BITS}]] : '0;",
    )


def retime(text: str) -> str:
    """Return the generated module with both; raises ValueError where the generator writes other text."""
    return _reader(_decoder(text))
