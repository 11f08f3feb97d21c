# SPDX-License-Identifier: SHL-2.1
"""Wrappers with one port per struct field, for benches and proofs: `<module>_flat` instantiates `<module>`.

Bundles are packed structs of the packages whose type name ends in an entry of SUFFIXES. Port `m_wr_req` of
type `dma_wr_req_t` becomes ports `m_wr_valid`, `m_wr_cmd` and `m_wr_last`. Field `item` takes the prefix as
its name (`ev_req.item`: `ev`). A port without a prefix (`cfg`) becomes its fields. The instance is `dut`.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from functools import cache
from pathlib import Path

from sources import GATEWARE, RTL, modules

SUFFIXES = ("req", "rsp", "cfg", "cnt")
GENERATED = GATEWARE.parent / "build" / "gateware" / "flat"
PORT = re.compile(r"^\s*(input|output)\s+(\w+)\s*((?:\[[^\]]*\]\s*)*)(\w+)\s*,?\s*(?://.*)?$")
FIELD = re.compile(r"^\s*(\w+)\s*((?:\[[^\]]*\]\s*)*)(\w+)\s*;", re.MULTILINE)
STRUCT = re.compile(rf"typedef struct packed \{{([^}}]*)\}} (\w+_(?:{'|'.join(SUFFIXES)})_t);")


@cache
def bundles() -> dict[str, list[tuple[str, str, str]]]:
    """Return the fields (type, packed dimensions, name) of every bundle by its type name."""
    out = {}
    for path in RTL.glob("*/*_pkg.sv"):
        for body, name in STRUCT.findall(path.read_text()):
            fields = FIELD.findall(re.sub(r"//[^\n]*", "", body))
            out[name] = [(kind, dims.strip(), field) for kind, dims, field in fields]
    return out


def flat_name(port: str, field: str) -> str:
    """Return the name of a bundle's field as a separate port; ValueError for a port without a suffix."""
    prefix, _, suffix = f"_{port}".rpartition("_")
    if suffix not in SUFFIXES:
        raise ValueError(f"{port}: the name of a bundle ends in one of {', '.join(SUFFIXES)}")
    prefix = prefix.removeprefix("_")
    if field == "item":
        return prefix
    return f"{prefix}_{field}" if prefix else field


def wrapper(name: str, text: str) -> str | None:
    """Return the text of a module's wrapper; None if the module has no bundles."""
    head = re.search(rf"^module {name}\b(.*?)^\);", text, re.MULTILINE | re.DOTALL)
    if not head or not any(re.search(rf"\b{bundle}\b", head[1]) for bundle in bundles()):
        return None
    imports = re.findall(r"^\s*import \w+::[\w*]+;", head[1], re.MULTILINE)
    given = re.search(r"#\((.*?)^\) \(", head[1], re.MULTILINE | re.DOTALL)
    parameters = re.findall(r"parameter [^=]*?(\w+)\s*=", given[1]) if given else []
    ports, signals, joints = [], [], []
    for line in head[1].splitlines():
        port = PORT.match(line)
        if not port:
            continue
        way, kind, dims, signal = port[1], port[2], port[3].strip(), port[4]
        if kind not in bundles():
            ports.append(f"    {way} {kind} {dims} {signal}")
            continue
        signals.append(f"  {kind} {dims} {signal};")
        bound = re.match(r"\[(.*):0\]", dims)
        if bound:
            joints.append(f"  for (genvar g = 0; g <= int'({bound[1]}); g++) begin : gen_{signal}")
        index = "[g]" if bound else ""
        for of, inner, field in bundles()[kind]:
            flat = flat_name(signal, field)
            ports.append(f"    {way} {of} {dims}{inner} {flat}")
            ends = f"{signal}{index}.{field}", f"{flat}{index}"
            left, right = ends if way == "input" else ends[::-1]
            joints.append(f"  assign {left} = {right};")
        if bound:
            joints.append("  end")
    passed = ", ".join(f".{parameter}({parameter})" for parameter in parameters)
    lines = [f"module {name}_flat", *imports, *([f"#({given[1]})"] if given else [])]
    lines += ["(", ",\n".join(ports), ");", *signals, *joints]
    lines += [f"  {name} {f'#({passed}) ' if passed else ''}dut (.*);", "endmodule", ""]
    return "\n".join(lines)


@cache
def wrappers() -> dict[str, Path]:
    """Return the wrapper file of each module with bundles by the module's name; generates missing files."""
    texts = {name: wrapper(name, path.read_text()) for name, path in modules().items()}
    texts = {name: text for name, text in texts.items() if text}
    folder = GENERATED / hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:16]
    if not folder.exists():
        GENERATED.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=GENERATED) as fresh:
            new = Path(fresh) / "new"
            new.mkdir()
            for name, text in texts.items():
                (new / f"{name}_flat.sv").write_text(text)
            try:
                new.rename(folder)
            except OSError:  # another process was faster
                if not folder.exists():
                    raise
    return {name: folder / f"{name}_flat.sv" for name in texts}


def search_path() -> list[str]:
    """Return Verilator's options to find a wrapper by its name."""
    folders = {str(path.parent) for path in wrappers().values()}
    return [option for folder in sorted(folders) for option in ("-y", folder)]


if __name__ == "__main__":
    print(wrappers()[sys.argv[1]].read_text(), end="")
