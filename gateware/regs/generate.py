# SPDX-License-Identifier: SHL-2.1
"""Generator of register RTL, C headers and documentation; --check compares the tracked files."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from peakrdl_regblock import RegblockExporter
from peakrdl_regblock.cpuif.passthrough import PassthroughCpuif
from peakrdl_regblock.udps import ALL_UDPS
from retime import retime
from systemrdl import AddrmapNode, FieldNode, RDLCompiler, RDLWalker, RegNode
from systemrdl.node import MemNode, Node, RootNode

HERE = Path(__file__).resolve().parent
GATEWARE = HERE.parent
# Register maps: of the card, and of the torus card, whose description is its documentation.
CARD, TORUS = "nanet_regs", "nanet_torus_regs"
# REUSE-IgnoreStart: the tag is text of the generated files
MADE = "SPDX-License-Identifier: SHL-2.1\nGenerated from regs/{}.rdl by generate.py. Do not edit."
# REUSE-IgnoreEnd


def _comment(name: str) -> str:
    return "".join(f"// {line}\n" for line in MADE.format(name).splitlines())


class _Table(RDLWalker):
    """A row for each register and each of its fields."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def _row(self, node: Node, name: str, access: str, reset: str, at: str = "") -> None:
        text = " ".join((node.get_property("desc") or "").split())
        self.rows.append(f"|{at}|`{name}`|{access}|{reset}|{text}|")

    def run(self, node: Node, prefix: str = "", base: int = 0) -> None:
        """Walk in the order of addresses; an array shows its first element and its step."""
        for child in node.children(unroll=False):
            if isinstance(child, FieldNode):
                continue
            name = f"{prefix}{child.inst_name}"
            here = base + child.raw_address_offset
            at = f"{here:#06x}"
            if child.is_array:
                name += f"[{child.array_dimensions[0]}]"
                at += f" + {child.array_stride:#x} i"
            if isinstance(child, RegNode):
                fields = list(child.fields())
                if len(fields) == 1 and fields[0].width == 32:
                    field = fields[0]
                    access = field.get_property("sw").name
                    reset = field.get_property("reset") or 0
                    self._row(child, name, access, f"{reset:#x}" if reset else "0", at)
                    continue
                self._row(child, name, "", "", at)
                for field in fields:
                    bits = f"{field.high}:{field.low}" if field.width > 1 else f"{field.low}"
                    reset = field.get_property("reset") or 0
                    self._row(
                        field, f"{field.inst_name} [{bits}]", field.get_property("sw").name, f"{reset:#x}"
                    )
            elif isinstance(child, MemNode):
                entries = child.get_property("mementries")
                self._row(child, f"{name}[{entries}]", child.get_property("sw").name, "", at)
            else:
                self._row(child, f"{name}.", "", "", at)
                self.run(child, f"{name}.", here)


def _document(top: AddrmapNode) -> str:
    table = _Table()
    table.run(top)
    made = "\n".join(f"<!-- {line} -->" for line in MADE.format(CARD).splitlines())
    head = f"""{made}
# {top.get_property("name")}

{top.get_property("desc")} Counters wrap at 2^32; 64-bit values occupy two registers, low word first.
All registers except `control`, `doorbell`, `tlb.flush`, `latency` and `returned` are written while the card
is stopped (`status`). An array shows the address of element 0 and its step.

|address|register, field|access|reset|meaning|
|---|---|---|---|---|
"""
    return head + "\n".join(table.rows) + "\n"


def _compile(name: str) -> RootNode:
    compiler = RDLCompiler()
    for udp in ALL_UDPS:
        compiler.register_udp(udp)
    compiler.compile_file(str(HERE / f"{name}.rdl"))
    return compiler.elaborate(top_def_name=name)


def make_rtl(rtl: Path) -> None:
    """Write module and package of each register map into a folder."""
    for top in (CARD, TORUS):
        root = _compile(top)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            RegblockExporter().export(
                root,
                folder,
                cpuif_cls=PassthroughCpuif,
                module_name=top,
                retime_read_fanin=True,
                retime_read_response=True,
            )
            for name in (f"{top}_pkg.sv", f"{top}.sv"):
                lines = (place / name).read_text().splitlines()
                body = "".join(f"{line.rstrip()}\n" for line in lines)
                if name == f"{top}.sv":
                    body = retime(body)
                (rtl / name).write_text(_comment(top) + body)


def make(folder: Path, document: Path) -> None:
    """Write the C headers into a folder, and the documentation."""
    from peakrdl_cheader.exporter import CHeaderExporter  # not required for the simulated card

    for top in (CARD, TORUS):
        root = _compile(top)
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary) / f"{top}.h"
            CHeaderExporter().export(root, str(place), generate_bitfields=False)
            (folder / place.name).write_text(_comment(top) + place.read_text())
    document.write_text(_document(_compile(CARD).top))


def main() -> int:
    """Write headers and documentation; --rtl FOLDER: the RTL; --check: compare headers and documentation."""
    if sys.argv[1:2] == ["--rtl"]:
        make_rtl(Path(sys.argv[2]))
        return 0
    places = HERE / f"{CARD}.h", HERE / f"{TORUS}.h", GATEWARE / "doc" / "registers.md"
    if "--check" not in sys.argv[1:]:
        make(HERE, places[-1])
        return 0
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        make(fresh, fresh / "registers.md")
        stale = [
            path.name
            for path in places
            if not path.exists() or path.read_text() != (fresh / path.name).read_text()
        ]
    for name in stale:
        print(f"{name} is stale: run regs/generate.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
