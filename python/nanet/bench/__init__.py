# SPDX-License-Identifier: Apache-2.0
"""The measurements of `nanet bench`: a module each, with a function `run(settings, sheet)`.

It fills the sheet as it goes, so that a measurement that is stopped leaves what it has.
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

# name -> what it measures
NAMES: dict[str, str] = {
    "replay": "Events per second of one core, from memory: decode, merge, fit, encode; beside memcpy.",
    "loopback": "Largest lossless rate boards -> trigger -> L0TP; packets per CPU second beside peers.",
    "latency": "Round trip of one packet through the trigger, CPU or GPU, beside bare echo and sockperf.",
    "rings": "Every ring algorithm on CPU and GPU: rate and time against events per batch, roofline.",
    "answers": "The same capture through every executor: primitives that differ from the CPU's, each listed.",
    "bandwidth": "The historic curve: throughput and latency against payloads per buffer, data checked.",
    "kernel": "Time of a frame's stages on the GPU against events, for each algorithm.",
    "trigger": "Four boards at --rate through the trigger: latency from first and last packet, losses.",
    "monitor": "Latency of the trigger with its monitor watched and without, in turns.",
    "soak": "Memory of trigger and monitor over ten minutes with a crowd of idle, slow and raving clients.",
    "record": "Recording to disk and to memory beside not recording: what is written, not written, latency.",
    "card": "The simulated gateware card: cycles to an event, by TLB and firmware; line rate.",
    "rate": "Largest rate of four boards with nothing lost and nothing late.",
}


@attrs.frozen(kw_only=True)
class Settings:
    """What a measurement may be told on the command line."""

    seconds: float = 0.0  # of each run; 0: the measurement's own choice
    samples: int = 200_000
    runs: int = 3  # in a row (loopback), passes (replay)
    algorithm: str = "math"
    only: str | None = None  # the algorithm, where one was given (rings)
    events: int = 0  # of the largest batch (rings), of the capture (answers); 0: the measurement's own choice
    rate: float = 10e6  # events per second (trigger)
    device: str = "auto"  # (latency, trigger, rate)
    card_threads: int = 0  # of the trigger's card (trigger, rate); 0: 6, 3 or 1, by the CPUs there are
    board_threads: int = 0  # of the boards (trigger, rate); 0: a thread for each where there are CPUs enough
    batch_us: float | None = None  # of the boards (trigger, rate); None: the measurement's own choice


class Sheet:
    """What a measurement has found so far; called with a text, it says how far it is."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.rows: list[Row] = []  # the full table: flat dictionaries
        self.figures: dict[str, float] = {}  # the names of docs/benchmarks.md

    def __call__(self, text: str) -> None:
        """Says how far it is."""
        self._say(text)


def median(values: list[float]) -> float:
    """The median of a list that is not empty."""
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
    except OSError:  # no git
        commit = ""
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"command": shlex.join(["nanet", *sys.argv[1:]]), "date": date, "commit": commit}
