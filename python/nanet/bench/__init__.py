# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of `nanet bench`: one module each, with a function `run(settings, sheet)`.

It fills the sheet step by step, so that an interrupted benchmark keeps its results.
"""

from __future__ import annotations

import datetime
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

Row = dict[str, Any]
Say = Callable[[str], None]

# Name -> help text.
NAMES: dict[str, str] = {
    "replay": "Events per second of one core, from memory: decode, merge, fit, encode; compared with memcpy.",
    "loopback": "Largest lossless rate boards -> trigger -> L0TP; packets per CPU second; peers.",
    "latency": "Round trip of one packet through the trigger, CPU or GPU, bare echo and sockperf too.",
    "rings": "Every ring algorithm on CPU and GPU: rate and time against events per batch, roofline.",
    "answers": "The same capture through every executor: list of primitives that differ from the CPU's.",
    "bandwidth": "Curve of the NaNet papers: throughput and latency by payloads per buffer, data checked.",
    "kernel": "Time of a frame's stages on the GPU against events, for each algorithm.",
    "merging": "Build stage on merged buffers and on segments of the same frames, CPU and GPU.",
    "trigger": "Four boards at --rate through the trigger: latency from first and last packet, losses.",
    "monitor": "Latency of the trigger with and without its monitor, in turns.",
    "soak": "Memory of trigger and monitor over ten minutes with many idle, slow and malformed clients.",
    "record": "Recording to disk, to memory, or off: packets written and not written, latency.",
    "card": "The simulated gateware card: cycles to an event, by TLB and firmware; line rate.",
    "stack": "Sockets and AF_XDP between two network namespaces: normal and real time, idle and loaded.",
    "cluster": "Captures through one and two worker processes of a local Dask cluster, in turns.",
    "torus": "Event-driven torus model: saturation of 4x4x4 and 8x8x8, events per second; lattice-QCD table.",
    "unica": "Simulated card: merging in cycles; final trigger; TTC bit errors; line rate at routed clock.",
    "fabric": "The fabric's half round trip, bandwidth and message rate beside libfabric's shm and tcp.",
    "rdma": "Puts by kernels between two GPUs: half round trip; bandwidth beside the copy engine.",
    "overload": "Frames answered in time at 1.5 and 2 times the capacity; recovery from overload and a stop.",
    "faults": "The chain through twelve faults: losses beyond each fault, time to recover.",
    "detector": "NA62's detector from its file against the compiled one; arrays of hits.",
    "rate": "Largest rate of four boards without losses and late frames.",
}


_CHAIN = ("algorithm", "rate", "device", "card_threads", "board_threads", "batch_us")
# Name -> options of the command line that it uses.
OPTIONS: dict[str, tuple[str, ...]] = {
    "replay": ("runs", "algorithm"),
    "loopback": ("seconds", "runs", "algorithm"),
    "latency": ("samples", "algorithm", "device"),
    "rings": ("seconds", "runs", "algorithm", "events"),
    "answers": ("algorithm", "events", "device"),
    "bandwidth": ("seconds", "device"),
    "kernel": ("algorithm", "device"),
    "merging": ("runs", "algorithm", "events", "device"),
    "trigger": ("seconds", "samples", *_CHAIN),
    "monitor": ("seconds", "samples", "runs", *_CHAIN),
    "soak": ("seconds", *_CHAIN),
    "record": ("seconds", *_CHAIN),
    "card": ("samples",),
    "stack": ("seconds", "runs", "algorithm"),
    "cluster": ("runs", "algorithm", "events"),
    "torus": ("runs",),
    "unica": ("events",),
    "fabric": ("seconds", "runs"),
    "rdma": ("seconds", "runs", "device"),
    "overload": ("seconds", "runs", "algorithm", "device", "card"),
    "faults": ("algorithm", "device"),
    "detector": ("runs", "algorithm", "events"),
    "rate": ("seconds", "runs", *_CHAIN),
}


@attrs.frozen(kw_only=True)
class Settings:
    """Command-line settings of a benchmark."""

    seconds: float = 0.0  # of each run; 0: the benchmark's default
    samples: int = 200_000
    runs: int = 3  # consecutive runs (loopback), passes (replay)
    algorithm: str = "math"
    only: str | None = None  # algorithm, if one was given (rings)
    events: int = 0  # largest batch (rings), capture (answers, unica), decisions (unica); 0: the default
    rate: float = 10e6  # events per second (trigger)
    device: str = "auto"  # (latency, trigger, rate)
    card: str = "socket"  # of the trigger (overload)
    card_threads: int = 0  # of the trigger's card (trigger, rate); 0: 6, 3 or 1, by the number of CPUs
    board_threads: int = 0  # of the boards (trigger, rate); 0: one per board on a host with enough CPUs
    batch_us: float | None = None  # of the boards (trigger, rate); None: the benchmark's default


class Sheet:
    """Results of a benchmark so far; a call with a text reports progress."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.rows: list[Row] = []  # the full table: flat dictionaries
        self.figures: dict[str, float] = {}  # names of docs/benchmarks.md
        self.verdict = ""  # a sentence that ends the output

    def __call__(self, text: str) -> None:
        """Reports progress."""
        self._say(text)


def median(values: list[float]) -> float:
    """Median of a non-empty list."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def provenance() -> dict[str, str]:
    """`command`, `date` (UTC) and `commit` of a measurement; `commit` is empty outside a source tree."""
    here = Path(__file__).resolve().parent
    try:
        found = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty", "--exclude=*"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        commit = found.stdout.strip()
    except OSError:  # git is not installed
        commit = ""
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"command": shlex.join(["nanet", *sys.argv[1:]]), "date": date, "commit": commit}
