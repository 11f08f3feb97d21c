# SPDX-License-Identifier: Apache-2.0
"""Parsers and checks of option values: addresses, boards, CPU lists, downscaling factors, faults.

A parser raises ValueError with a clause that states the right form. A check returns that clause, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[[str], str | None]
FAULTS = ("drop", "dup", "reorder", "corrupt", "delay")
LINK_FAULTS = ("link_loss", "link_delay", "link_reorder")
MAX_DOWNSCALE = 1_000_000
MAX_NODES = 64
MAX_MASKS = 16
MAX_FRAME_NUMBER = 1 << 62


def check_of(parse: Callable[[str], Any]) -> Check:
    """The check of a value that `parse` must accept."""

    def check(text: str) -> str | None:
        try:
            parse(text)
        except ValueError as error:
            return str(error)
        return None

    return check


def optional(check: Check) -> Check:
    """The same check, with an empty string allowed."""
    return lambda text: check(text) if text else None


def endpoint(text: str) -> tuple[str, int]:
    """HOST:PORT with a port of 1 to 65535, as (host, port)."""
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:58913")
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"port {port!r} must be 1 to 65535")
    return host, int(port)


def endpoints(text: str) -> list[tuple[str, int]]:
    """Comma-separated HOST:PORT, as a list of (host, port)."""
    return [endpoint(part.strip()) for part in text.split(",")]


def nodes(text: str) -> list[list[tuple[str, int]]]:
    """Trigger nodes by semicolons, each with its addresses by commas, as lists of (host, port)."""
    found = [endpoints(part) for part in text.split(";")]
    if len(found) > MAX_NODES:
        raise ValueError(f"{len(found)} nodes are given; give at most {MAX_NODES}")
    return found


def node_share(text: str) -> list[int]:
    """Share k/K of a trigger node, as [k, K]; "" is the only node, [0, 1]."""
    number, slash, count = (text or "0/1").partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise ValueError("must be k/K, such as 0/2 for the first of two nodes")
    if not 1 <= int(count) <= MAX_NODES or int(number) >= int(count):
        raise ValueError(f"must be k/K with K from 1 to {MAX_NODES} and k from 0 to K - 1")
    return [int(number), int(count)]


def page_endpoint(text: str) -> tuple[str, int]:
    """HOST:PORT, :PORT or PORT of the monitor page, as (host, port); the default host is 127.0.0.1."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if port.isdecimal() and int(port) > 65535:
        raise ValueError(f"port {port} must be 0 to 65535")
    if not port.isdecimal():
        raise ValueError(f"{text!r} is not HOST:PORT or PORT, such as 127.0.0.1:8080")
    return host, int(port)


def board_mask(text: str) -> int:
    """Bit mask of the boards, bit b for board b; 0 for "merged", one stream of whole events."""
    right = "must be 4 (all boards), a list of boards such as 0,1, or merged"
    if text == "merged":
        return 0
    if text == "4":
        return 0xF
    parts = [part.strip() for part in text.split(",")]
    if not all(part in ("0", "1", "2", "3") for part in parts) or len(set(parts)) != len(parts):
        raise ValueError(right)
    return sum(1 << int(part) for part in parts)


def cpu_list(text: str) -> list[int]:
    """CPU numbers of a list with ranges: "0,2-3" gives [0, 2, 3]."""
    cpus: list[int] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError("must be CPU numbers such as 2,3 or 2-5")
        cpus += range(int(first), int(last if dash else first) + 1)
    return cpus


def device(text: str) -> str:
    """Name of a device: auto, cpu, cuda or cuda:N."""
    name, colon, number = text.partition(":")
    if text in ("auto", "cpu", "cuda") or (name == "cuda" and colon and number.isdecimal()):
        return text
    raise ValueError("must be auto, cpu, cuda or cuda:N")


def downscale_factors(text: str) -> list[int]:
    """Downscaling factors by number of rings (0, 1, 2, 3 or more): "0=10,1=2" gives [10, 2, 1, 1].

    Factor n: one in n primitives is sent; 0: none.
    """
    factors = [1, 1, 1, 1]
    given: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        kind, equals, value = (word.strip() for word in part.partition("="))
        if not equals or kind not in ("0", "1", "2", "3") or int(kind) in given:
            raise ValueError(f"{part!r} is not RINGS=FACTOR with RINGS 0, 1, 2 or 3 (or more), each once")
        if not value.isdecimal() or int(value) > MAX_DOWNSCALE:
            raise ValueError(f"the factor in {part!r} must be 0 (none is sent) to {MAX_DOWNSCALE}")
        given.add(int(kind))
        factors[int(kind)] = int(value)
    return factors


def farm_endpoint(text: str) -> tuple[str, int]:
    """HOST:PORT of the farm, which takes the next port too, as (host, port)."""
    host, port = endpoint(text)
    if port == 65535:
        raise ValueError("port must be 1 to 65534: the farm takes the next port too")
    return host, port


def trigger_masks(text: str) -> list[list[int]]:
    """Masks of the final trigger: "0x2000/0x2000/1/10" gives [[0x2000, 0x2000, 1, 10]].

    Care bits, value, type and downscaling factor of each, at most 16.
    """
    masks = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            care, value, kind, factor = (int(word, 0) for word in part.split("/"))
        except ValueError:
            raise ValueError(f"{part!r} is not CARE/VALUE/TYPE/N, such as 0x2000/0x2000/1/10") from None
        if not (0 <= care <= 0xFFFF and 0 <= value <= 0xFFFF and value & ~care == 0):
            raise ValueError(f"{part!r}: CARE and VALUE must have 16 bits, VALUE only bits of CARE")
        if not 1 <= kind <= 63 or not 1 <= factor <= MAX_DOWNSCALE:
            raise ValueError(f"{part!r}: TYPE must be 1 to 63, and N 1 to {MAX_DOWNSCALE}")
        masks.append([care, value, kind, factor])
    if not 1 <= len(masks) <= MAX_MASKS:
        raise ValueError(f"must be 1 to {MAX_MASKS} masks CARE/VALUE/TYPE/N by commas")
    return masks


def frame_ranges(text: str) -> list[tuple[int, int]]:
    """First frame and number of frames of each range: "100+50,400+10" gives [(100, 50), (400, 10)]."""
    ranges = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, plus, number = part.partition("+")
        if not (plus and first.isdecimal() and number.isdecimal() and int(number) > 0):
            raise ValueError(f"{part!r} is not FIRST+NUMBER, such as 100+50")
        if int(first) + int(number) > MAX_FRAME_NUMBER:
            raise ValueError(f"{part!r}: frames must be below {MAX_FRAME_NUMBER}")
        ranges.append((int(first), int(number)))
    return ranges


def faults(text: str) -> dict[str, float]:
    """Fault probabilities by name: "drop=0.1,dup=0.2" gives {"drop": 0.1, "dup": 0.2}."""
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or name.strip() not in FAULTS:
            raise ValueError(f"{part!r} is not NAME=PROBABILITY with NAME one of {', '.join(FAULTS)}")
        try:
            probability = float(value)
        except ValueError:
            probability = -1.0
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"the probability in {part!r} must be 0 to 1")
        found[name.strip()] = probability
    return found


def link_faults(text: str) -> dict[str, float]:
    """Faults of an emulated link by name: "link_loss=0.1%" gives {"link_loss": 0.001}.

    Probabilities as numbers or per cent; link_delay with its unit, in seconds in the result. Faults of the
    boards in the same text are checked and left out.
    """
    found: dict[str, float] = {}
    boards = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in LINK_FAULTS:
            boards.append(part)
            continue
        try:
            found[name] = _seconds(value) if name == "link_delay" else _probability(value)
        except ValueError:
            right = "a time up to 1 s such as 100us" if name == "link_delay" else "0 to 1, or 0% to 100%"
            raise ValueError(f"{part!r}: must be {right}") from None
    faults(",".join(boards))
    return found


def board_faults(text: str) -> str:
    """The part of a text of faults that concerns the boards."""
    parts = (part.strip() for part in text.split(","))
    return ",".join(part for part in parts if part.partition("=")[0].strip() not in LINK_FAULTS)


def _probability(value: str) -> float:
    number = float(value.removesuffix("%")) / (100.0 if value.endswith("%") else 1.0)
    if not 0.0 <= number <= 1.0:
        raise ValueError
    return number


def _seconds(value: str) -> float:
    for unit, size in (("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if value.endswith(unit):
            seconds = float(value.removesuffix(unit)) * size
            if not 0.0 <= seconds <= 1.0:
                raise ValueError
            return seconds
    raise ValueError


def torus_size(text: str) -> tuple[int, int, int]:
    """Nodes of a torus per dimension, such as 4x4x4; at most 64x32x32."""
    parts = text.lower().replace(",", "x").split("x")
    if len(parts) != 3 or not all(part.strip().isdecimal() for part in parts):
        raise ValueError(f"{text!r} must be three sizes, such as 4x4x4")
    x, y, z = (int(part) for part in parts)
    for part, limit, axis in ((x, 64, "x"), (y, 32, "y"), (z, 32, "z")):
        if not 1 <= part <= limit:
            raise ValueError(f"size of {axis}, {part}, must be 1 to {limit}")
    return x, y, z


def torus_loads(text: str) -> tuple[float, ...]:
    """Loads of a torus by commas, each above 0 and at most 1."""
    try:
        loads = tuple(float(part) for part in text.split(","))
    except ValueError:
        loads = ()
    if not loads or not all(0 < load <= 1 for load in loads):
        raise ValueError(f"{text!r} must be numbers above 0 and at most 1 by commas, such as 0.1,0.5")
    return loads
