# SPDX-License-Identifier: Apache-2.0
"""`nanet generate`: toy Monte Carlo of the RICH, as MGP packets in a pcap, and the truth."""

from __future__ import annotations

import contextlib
import time
from typing import Annotated, Any

import typer

from nanet.config import JsonFile
from nanet.errors import UsageError, starting
from nanet.output import check_writable, console, write_json
from nanet.sections import MAX_FRAMES

CHUNK_FRAMES = 2048  # some 130 000 events at 10 MHz


def rings_of(text: str) -> int:
    """`mix` -> -1, or the number of rings of each event; UsageError."""
    if text == "mix":
        return -1
    if text.isdecimal() and int(text) <= 4:
        return int(text)
    raise UsageError(f"--rings {text}: must be mix, or a number of rings from 0 to 4")


def _choice(option: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UsageError(f"{option} {value}: must be {' or '.join(choices)}")
    return value


def generate(
    events: Annotated[int, typer.Option("--events", help="Events to generate.", show_default=False)],
    out_file: Annotated[str, typer.Option("--out", metavar="FILE", help="The pcap.", show_default=False)],
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same file.")] = 1,
    truth_file: Annotated[
        str | None, typer.Option("--truth", metavar="FILE", help="Write the true rings there, as Parquet.")
    ] = None,
    hits_file: Annotated[
        str | None,
        typer.Option("--truth-hits", metavar="FILE", help="Write the hits and who made them, as Parquet."),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Events per second of detector time.")] = 10e6,
    noise: Annotated[float, typer.Option("--noise", help="Mean noise hits per event.")] = 1.0,
    rings: Annotated[
        str, typer.Option("--rings", help="Rings per event: mix (0-4: 5/45/27/18/5 %), or 0 to 4.")
    ] = "mix",
    boards: Annotated[str, typer.Option("--boards", help="4, or merged: one stream of whole events.")] = "4",
    slots: Annotated[
        str, typer.Option("--slots", help="packed, or fixed: 32 hits' room per event.")
    ] = "packed",
    pad: Annotated[bool, typer.Option("--pad", help="Pad every datagram to --max-payload.")] = False,
    max_payload: Annotated[int, typer.Option("--max-payload", help="Largest datagram in bytes.")] = 1472,
    max_frames: Annotated[int, typer.Option("--max-frames", help="Frames of a burst.")] = MAX_FRAMES,
    json_file: JsonFile = None,
) -> None:
    """Toy Monte Carlo of the RICH: MGP packets in a pcap, and the truth."""
    from nanet import _core

    options: dict[str, Any] = {
        "events": _whole("--events", events),
        "rate": rate,
        "noise": noise,
        "rings": rings_of(rings),
        "seed": seed,
        "merged": _choice("--boards", boards, ("4", "merged")) == "merged",
        "fixed": _choice("--slots", slots, ("packed", "fixed")) == "fixed",
        "pad": pad,
        "max_payload": _whole("--max-payload", max_payload, 65507),
        "burst_frames": _whole("--max-frames", max_frames, 1 << 24),
        "truth": truth_file is not None,
        "truth_hits": hits_file is not None,
    }
    if seed >= 1 << 64:
        raise UsageError(f"--seed {seed}: must be below 2^64")
    check_writable(truth=truth_file, truth_hits=hits_file, json=json_file)
    with starting():
        core = _core.Capture(options, out_file)
    kept = {
        "seed": seed, "rate": rate, "noise": noise, "rings": rings, "boards": boards, "slots": slots,
        "burst_frames": max_frames,
    }  # fmt: skip
    begin = time.monotonic()
    _write(core, truth_file, hits_file, {f"nanet.{key}": value for key, value in kept.items()})
    result = {**core.totals(), **kept, "pad": pad, "elapsed_s": time.monotonic() - begin}
    result["events_per_s"] = result["events"] / max(result["elapsed_s"], 1e-9)
    out = console(json_file)
    from nanet.tables import count
    from nanet.tables import rate as per_second

    out.print(
        f"{out_file}: {count(result['events'])} events with {count(result['hits'])} hits in "
        f"{count(result['packets'])} packets, {count(result['frames'])} frames, {result['bursts']} burst(s), "
        f"{result['bytes'] / 1e6:.1f} MB; {per_second(result['events_per_s'])} events",
        markup=False,
        soft_wrap=True,
    )
    write_json(result, json_file)


def _whole(option: str, value: int, high: int = 10**12) -> int:
    if not 1 <= value <= high:
        raise UsageError(f"{option} {value}: must be from 1 to {high}")
    return value


def _write(core: Any, truth_file: str | None, hits_file: str | None, metadata: dict[str, Any]) -> None:
    """Runs the core to its end, writing the truth chunk by chunk."""
    truth = hits = None
    with contextlib.ExitStack() as stack:
        if truth_file or hits_file:
            from nanet import truth as tables

            if truth_file:
                truth = stack.enter_context(
                    tables.TruthWriter("--truth", truth_file, tables.RING_SCHEMA, metadata)
                )
            if hits_file:
                hits = stack.enter_context(
                    tables.TruthWriter("--truth-hits", hits_file, tables.HIT_SCHEMA, metadata)
                )
        while _next(core):
            if truth:
                truth.write(tables.ring_table(core.truth()))
            if hits:
                hits.write(tables.hit_table(core.hits()))


def _next(core: Any) -> bool:
    with starting():
        return core.next(CHUNK_FRAMES)
