# SPDX-License-Identifier: SHL-2.1
"""Generated benches of several torus nodes with their links; ports of node i have the prefix n<i>_."""

from __future__ import annotations

import re
from pathlib import Path

import flatten
from rdma_model import pack_node
from simulate import BUILD

Node = tuple[int, int, int]
PORT = re.compile(r"^ {4}(input|output) (.*?) (\w+),?$", re.MULTILINE)
FIXED = (
    "size",
    "me",
    "connected",
    "compatible",
    "balanced",
    "settings",
    "capacity",
    "channel_up",
    "tx_ready",
)
UDP = ("host", "filter", "rules", "s_axis_rx_", "verdict", "datagram_", "torus_")
RDMA = ("enable", "intra", "put_", "get_", "event_", "finished_", "poll_", "timeout", "log2_", "slots", "now")
FIRMWARE = ("miss_", "fill_", "key_", "tlb_flush", "wr_", "rd_")


def ports(module: str) -> list[tuple[str, str, str]]:
    """(direction, type, name) of the ports of a module's flat wrapper."""
    text = flatten.wrappers()[module].read_text()
    return [(way, kind.strip(), name) for way, kind, name in PORT.findall(text[: text.index("\n);")])]


def nodes(size: Node) -> list[Node]:
    """Nodes of a lattice, x fastest."""
    return [(x, y, z) for z in range(size[2]) for y in range(size[1]) for x in range(size[0])]


def wires(size: Node, compatible: bool) -> list[str]:
    """Wires of all links; a port of a dimension of one node is not connected."""
    lines = []
    places = nodes(size)
    for i in range(len(places)):
        for name, width in (("tx_valid", 6), ("tx_control", 6), ("tx_data", 768)):
            lines += [f"  logic [{width - 1}:0] n{i}_{name}, n{i}_{name.replace('tx', 'rx')};"]
    for i, at in enumerate(places):
        for port in range(6):
            d, step = port % 3, 1 if port < 3 else -1
            there = tuple((a + step) % size[d] if axis == d else a for axis, a in enumerate(at))
            j, far = places.index(there), (port + 3) % 6
            lines += [f"  assign n{i}_rx_valid[{port}] = n{j}_tx_valid[{far}];"]
            lines += [f"  assign n{i}_rx_control[{port}] = n{j}_tx_control[{far}];"]
            lines += [f"  assign n{i}_rx_data[{128 * port}+:128] = n{j}_tx_data[{128 * far}+:128];"]
    return lines


def fixed(size: Node, at: Node, compatible: bool) -> dict[str, str]:
    """Constant inputs of a node; the credit registers are those of INFN's simulation."""
    used = sum((size[port % 3] > 1) << port for port in range(6))
    settings = (
        "'{ecc_header_make: 1'b1, ecc_header_check: 1'b1, ecc_credit_make: 1'b1, ecc_credit_check: 1'b1, \
threshold: '{data: 10'd384, header: 8'd96}, waiting: 8'h40, credit_cycle: 8'd64}"
    )
    return {
        "size": f"19'd{size[0] | size[1] << 7 | size[2] << 13}",
        "me": f"16'd{pack_node(at)}",
        "connected": f"6'd{used}",
        "compatible": f"6'd{63 * compatible}",
        "balanced": "1'b0",
        "settings": settings,
        "capacity": "10'd512",
        "channel_up": "'1",
        "tx_ready": "'1",
    }


def write(name: str, lines: list[str]) -> Path:
    """Source file of a generated bench."""
    path = BUILD / "generated" / f"{name}.sv"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(
        ["// verilator lint_off PINCONNECTEMPTY", "// verilator lint_off UNUSEDSIGNAL", *lines, ""]
    )
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


IMPORTS = [
    f"  import {name}::*;" for name in ("nanet_pkg", "nanet_dma_pkg", "nanet_torus_pkg", "apelink_pkg")
]


def network(size: Node, compatible: bool = False) -> tuple[str, Path]:
    """(module, source) of a lattice of nodes without UDP."""
    name = f"torus_network_{'x'.join(map(str, size))}{'_apelink' if compatible else ''}"
    head, body = ["  input logic clk", "  input logic rst"], wires(size, compatible)
    for i, at in enumerate(nodes(size)):
        constants, pins = fixed(size, at, compatible), []
        for way, kind, port in ports("nanet_torus_node"):
            if port in ("clk", "rst"):
                value = port
            elif port in constants:
                value = constants[port]
            elif port.startswith(("rx_", "tx_")):
                value = f"n{i}_{port}"
            elif port.startswith(UDP):
                value = "'0" if way == "input" else ""
            else:
                value = f"n{i}_{port}"
                head.append(f"  {way} {kind} {value}")
            pins.append(f"    .{port}({value})")
        body.append("  nanet_torus_node_flat #(.UDP(1'b0), .MESSAGES(16), .SETS(16))")
        body.append(f"  n{i} (\n" + ",\n".join(pins) + "\n  );")
    imports = [*IMPORTS, "  import rdma_pkg::*;"]
    return name, write(name, [f"module {name}", *imports, "(", ",\n".join(head), ");", *body, "endmodule"])


def clop() -> tuple[str, Path]:
    """(module, source): receive path of node 1 with MAC 0, and MAC 1 at node 0, whose datagrams go there."""
    size, name = (2, 1, 1), "torus_clop"
    head, body, pins = [], wires(size, False), []
    for way, kind, port in ports("receive_path"):
        kind = re.sub(r"\bCHANNELS\b", "2", kind).replace("FILTERS", "2").replace("DEVICES", "1")
        kind = kind.replace("MAX_BUFFERS", "256").replace("BUFFER_WORDS", "2048").replace("DATA_W", "256")
        value = port
        if port.startswith("torus_"):
            value = f"path_{port}"
            body.append(f"  {kind} {value};")
        elif port in ("s_axis_rx_tvalid", "verdict_valid", "verdict", "overflow"):
            value = f"path_{port}"
            body.append(f"  {kind} {value};")
            head.append(f"  {way} {kind} {port}")
        else:
            head.append(f"  {way} {kind} {port}")
        pins.append(f"    .{port}({value})")
    body.append("  receive_path_flat #(.MAX_BUFFERS(256), .BUFFER_WORDS(2048), .TORUS(2'b10),")
    body.append("    .FIRST_N(64'h2_0000_0007)) path (\n" + ",\n".join(pins) + "\n  );")
    body += [
        "  assign path_s_axis_rx_tvalid = s_axis_rx_tvalid & 2'b01;",
        "  assign path_torus_valid[0] = 1'b0;",
        "  assign path_torus_kind[0] = ApenetHeader;",
        "  assign path_torus_data[0] = '0;",
        "  assign verdict_valid[0] = path_verdict_valid[0];",
        "  assign verdict[0] = path_verdict[0];",
        "  assign overflow[0] = path_overflow[0];",
    ]
    for i, at in enumerate(nodes(size)):
        taken = {
            "s_axis_rx_tvalid": f"s_axis_rx_tvalid[1] && {int(i == 0)} != 0",
            "s_axis_rx_tdata": "s_axis_rx_tdata[1]",
            "s_axis_rx_tkeep": "s_axis_rx_tkeep[1]",
            "s_axis_rx_tlast": "s_axis_rx_tlast[1]",
            "s_axis_rx_tuser": "s_axis_rx_tuser[1]",
            "host": "host[1]",
            "filter": "filter[0]",
            "rules": "rules",
            "now": "now",
            "datagram_node": "16'd1",
            "torus_level": "path_torus_level[1]",
        }
        taken |= {
            "verdict_valid": "verdict_valid[1]" if i == 0 else "",
            "verdict": "verdict[1]" if i == 0 else "",
            "datagram_overflow": "overflow[1]" if i == 0 else "",
            "torus_valid": "path_torus_valid[1]" if i == 1 else "",
            "torus_kind": "path_torus_kind[1]" if i == 1 else "",
            "torus_data": "path_torus_data[1]" if i == 1 else "",
        }
        constants, pins = fixed(size, at, False), []
        for way, kind, port in ports("nanet_torus_node"):
            if port in ("clk", "rst"):
                value = port
            elif port in constants or port in taken:
                value = (constants | taken)[port]
            elif port.startswith(("rx_", "tx_")):
                value = f"n{i}_{port}"
            elif port == "up":
                value = f"n{i}_{port}"
                head.append(f"  {way} {kind} {value}")
            elif port == "key_fill_reason":
                value = "rdma_pkg::ReasonNone"
            else:
                value = "'0" if way == "input" else ""
            pins.append(f"    .{port}({value})")
        body.append("  nanet_torus_node_flat #(.MESSAGES(16), .SETS(16))")
        body.append(f"  n{i} (\n" + ",\n".join(pins) + "\n  );")
    imports = [*IMPORTS, "  import nanet_ttc_pkg::*;"]
    return name, write(name, [f"module {name}", *imports, "(", ",\n".join(head), ");", *body, "endmodule"])
