# SPDX-License-Identifier: Apache-2.0
"""`nanet replay` against a reference written from the formats alone: every count, every MTP byte, every event."""

from __future__ import annotations

import random
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_trigger as ref
from hypothesis import given, settings
from hypothesis import strategies as st
from nanet import _core
from reference_traffic import (
    EOB,
    LAST,
    MALFORMED,
    PORT,
    Faults,
    Scenario,
    Sender,
    capture,
    edit,
    pcap,
    udp_frame,
    write_pcap,
)

PLANE = [(float(x), float(y)) for x, y in ref.PLANE]


def replay(path: Path, options: ref.Options, threads: int = 1) -> tuple[dict[str, Any], list[bytes], dict[str, Any]]:
    """Result, MTP packets and rings of the core."""
    out = path.with_suffix(f".{threads}.mtp")
    core = _core.Replay(
        options.core()
        | {"pcap": str(path), "mtp": str(out), "rings": True, "threads": threads, "algorithm": "math"}
    )
    core.run()
    packets = [ref.payload(frame, length, int.from_bytes(frame[36:38], "big")) for frame, length in ref.records(str(out))]
    assert all(isinstance(p, bytes) for p in packets)
    return core.result(), packets, {name: np.asarray(column) for name, column in core.take_rings().items()}


def differences(want: dict[str, Any], got: dict[str, Any], prefix: str = "") -> list[str]:
    """What of `want` is otherwise in `got`."""
    out = []
    for name, value in want.items():
        if isinstance(value, dict):
            out += differences(value, got[name], f"{prefix}{name}.")
        elif got[name] != value:
            out.append(f"{prefix}{name}: {got[name]}, reference {value}")
    return out


def check(path: Path, options: ref.Options | None = None, threads: tuple[int, ...] = (1,)) -> ref.Reference:
    """Holds the core against the reference; returns the reference."""
    options = options or ref.Options()
    want = ref.Reference(options).run(str(path))
    for number in threads:
        result, packets, rings = replay(path, options, number)
        if want.doubtful:
            assert abs(want.count["rings"] - result["rings"]) <= want.doubtful
            want.count["rings"] = result["rings"]
        wrong = differences(want.counts(), result)
        assert not wrong, wrong
        check_events(want, rings)
        check_packets(want, packets, rings)
        assert packets_and_records_agree(want)
    return want


def packets_and_records_agree(want: ref.Reference) -> bool:
    """The identities of the account, of the reference."""
    count, lost = want.count, want.lost
    came = sum(lost[n] for n in ref.LOST if n not in ("missing", "socket_overflow"))
    events = count["primitives_out"] + count["below_min_hits"] + count["mtp_overflow"]
    return (
        count["packets_in"] == count["packets_used"] + count["burst_markers"] + sum(want.bad.values()) + came
        and count["events_built"] == events
    )


def check_events(want: ref.Reference, rings: dict[str, Any]) -> None:
    """One row per event (MATH finds one ring at most), in order; where rounding may decide, either is right."""
    assert list(rings["event"]) == list(range(len(want.events)))
    for at, event in enumerate(want.events):
        row = {name: column[at] for name, column in rings.items()}
        told = f"event {at}: { {k: v.item() for k, v in row.items()} }, reference {event}"
        assert (row["burst"], row["event_hits"]) == (event.burst & 0xFFFF, len(event.pms)), told
        assert int(row["timestamp"]) * 256 + int(row["fine_time"]) == event.time, told
        assert (int(row["primitive"]) ^ event.primitive) & ~event.either == 0, told
        fit = event.fit
        if row["ring"] == 255:
            assert not fit.found or fit.doubtful, told
            assert (row["n_rings"], row["n_hits"]) == (0, 0), told
            assert all(np.isnan(row[name]) for name in ("x", "y", "r", "chi2_ndf")), told
        else:
            assert fit.found or fit.doubtful, told
            assert (row["ring"], row["n_rings"], row["n_hits"]) == (0, 1, len(event.pms)), told
            off = max(abs(row["x"] - fit.x), abs(row["y"] - fit.y), abs(row["r"] - fit.r))
            assert fit.doubtful or off < fit.slack, told
            assert fit.doubtful or abs(row["chi2_ndf"] - fit.chi2_ndf) < fit.slack * (1 + fit.chi2_ndf), told


def check_packets(want: ref.Reference, packets: list[bytes], rings: dict[str, Any]) -> None:
    """The MTP packets, byte for byte; check_events has held the primitive IDs against the reference."""
    sent = iter(int(word) for word in rings["primitive"] if word)
    expected = []
    for packet in want.mtp:
        words = list(struct.unpack(f"<{len(packet) // 4}I", packet))
        words[3:] = [next(sent) << 16 | word & 0xFFFF for word in words[3:]]
        expected.append(struct.pack(f"<{len(words)}I", *words))
    assert packets == expected
    assert next(sent, None) is None


def scenario_file(scenario: Scenario, folder: Path) -> Path:
    """The scenario as a capture."""
    path = folder / f"{scenario.seed}.pcap"
    rng = random.Random(scenario.seed)
    path.write_bytes(capture(scenario.datagrams(PLANE), rng, scenario.foreign))
    return path
