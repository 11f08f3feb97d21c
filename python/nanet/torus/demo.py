# SPDX-License-Identifier: Apache-2.0
"""`nanet torus demo`: the model carries a parallel program while one link suffers bit errors.

The program is one of the model's own (`Demo`) or an MPI program (nanet.torus.mpi_demo).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

TICK_CYCLES = 2000  # of the model between two pictures
PACKETS, PAYLOAD_BYTES = 16, 1024  # to each neighbour, and of the transposition
COMPUTE_CYCLES = 1000
LATEST = 2**63
LINKS_SHOWN = 6 * 4096  # on the monitor page


@dataclass(frozen=True)
class Tick:
    """State after a tick. loads, resent: by node * 6 + port, words per cycle and cells in this tick."""

    count: Mapping[str, Any]  # result of Model.advance
    loads: np.ndarray[Any, Any]
    resent: np.ndarray[Any, Any]
    errors_on: bool


class Demo:
    """A program on a torus. The link X+ of the middle node has errors in its second third."""

    what = "halo exchange, transposition, sum"
    expected: int | None  # packets, where the number is known
    paced = False  # a tick lasts as long as the picture stands

    def __init__(
        self,
        size: tuple[int, int, int],
        timing: Mapping[str, Any],
        *,
        iterations: int,
        word_rate: float,
        balanced: bool = False,
        seed: int = 1,
    ) -> None:
        """word_rate: probability that the link damages a word. ValueError of the model."""
        from nanet import _core

        self.begin(size, iterations, word_rate)
        self.model = _core.torus.Model(size, dict(timing), balanced, seed)
        self.model.start(iterations, PACKETS, PAYLOAD_BYTES, COMPUTE_CYCLES)
        neighbours = 2 * sum(n > 1 for n in size)
        each = PACKETS * neighbours + sum(n - 1 for n in size)
        moved = self.nodes - size[0] * size[1] if size[0] == size[2] else 0  # by the transposition
        self.expected = iterations * (self.nodes * each + PACKETS * moved)

    def begin(self, size: tuple[int, int, int], iterations: int, word_rate: float) -> None:
        """Sets what programs of all kinds have in common."""
        self.size, self.iterations, self.word_rate = size, iterations, word_rate
        self.nodes = size[0] * size[1] * size[2]
        x, y, z = (n // 2 for n in size)
        self.bad = (x + size[0] * (y + size[1] * z), 0 if size[0] > 1 else 1 if size[1] > 1 else 2)
        self.errors_from = self.errors_to = 0  # cycles
        self.parts: list[tuple[int, int]] = []  # (cycle, words) at the start, at both ends of the errors, end

    def advance(self) -> dict[str, Any]:
        """Runs the program for a tick; counts as of Model.advance."""
        return self.model.advance(TICK_CYCLES)

    def choose_link(self, words: np.ndarray) -> None:
        """Chooses the link with errors. words: carried by each link so far, uint64 [node * 6 + port]."""

    def links(self) -> Any:
        """The source of loads per link and of errors."""
        return self.model

    def close(self) -> None:
        """Ends the program before its time."""

    def ticks(self) -> Iterator[Tick]:
        """Runs the program. RuntimeError in a deadlock."""
        words = np.zeros(self.nodes * 6, np.uint64)
        resent = np.zeros(self.nodes * 6, np.uint64)
        cycle, on = 0, False
        self.parts = [(0, 0)]
        while True:
            count = self.advance()
            if count["deadlocked"]:
                raise RuntimeError(f"the program is in deadlock at cycle {count['cycles']}")
            now, again = self.links().link_words(), self.links().link_resent()
            passed = max(1, count["cycles"] - cycle)
            yield Tick(count, (now - words) / passed, again - resent, on)
            cycle, words, resent = count["cycles"], now, again
            third = 3 * count["iterations"] // self.iterations
            if on != (third == 1) and self.word_rate:
                on = third == 1
                if on:
                    self.errors_from = cycle
                    self.choose_link(now)
                else:
                    self.errors_to = cycle
                self.parts.append((cycle, count["words"]))
                self.links().damage([(*self.bad, self.word_rate, 0, LATEST)] if on else [])
            if count["done"]:
                self.parts.append((cycle, count["words"]))
                return

    def snapshot(self, tick: Tick) -> dict[str, Any]:
        """State for the monitor; `links` of at most LINKS_SHOWN links."""
        links = tick.loads if tick.loads.size <= LINKS_SHOWN else tick.loads[:0]
        return {
            "program": self.counters(tick.count),
            "iterations": self.iterations,
            "packets_expected": self.expected,
            "links": links.round(4).tolist(),
            "load_max": float(tick.loads.max()),
            "load_mean": float(tick.loads.mean()),
            "errors_on": tick.errors_on,
            "bad": list(self.bad),
            **{key: tick.count[key] for key in ("cycles", "mean_cycles", "p99_cycles", "max_cycles")},
        }

    def starting(self, count: Mapping[str, Any]) -> str:
        """What a program without iterations waits for; empty once it runs."""
        return ""

    def line(self, tick: Tick) -> str:
        """The state as one line, for output without a terminal."""
        now = tick.count
        if waits := self.starting(now):
            return waits
        return (
            f"{now['iterations']} of {self.iterations} iterations  busiest link {tick.loads.max():.3f}  "
            f"cells damaged {now['cells_damaged']}  sent again {now['cells_resent']}"
        )

    @staticmethod
    def counters(counts: Mapping[str, Any]) -> dict[str, int]:
        """Counters of the core's list."""
        from nanet import _core

        names = [c["name"] for c in _core.counter_descriptions() if c["family"] == "program"]
        return {name: counts[name] for name in names}

    def right(self, last: Mapping[str, Any]) -> bool:
        """Whether a finished program has lost nothing."""
        return last["packets"] == self.expected

    def result(self, last: Mapping[str, Any]) -> dict[str, Any]:
        """Figures of the whole run; last: counts of the last tick."""
        from nanet import _core

        words = last["words"] / max(1, last["iterations"])  # of an iteration
        spans = [(b[0] - a[0]) / (b[1] - a[1]) * words for a, b in pairwise(self.parts) if b[1] > a[1]]
        clock = _core.torus.CLOCK_HZ
        return {
            "size": list(self.size),
            "carries": self.what,
            "program": self.counters(last),
            "packets_expected": self.expected,
            "complete": bool(last["done"]) and self.right(last),
            "cycles": last["cycles"],
            "microseconds": last["cycles"] / clock * 1e6,
            "accepted": last["words"] / last["cycles"] / self.nodes,
            **{key: last[key] for key in ("mean_cycles", "p99_cycles", "max_cycles")},
            "errors": {
                "node": self.bad[0],
                "port": self.bad[1],
                "word_rate": self.word_rate,
                "from_cycle": self.errors_from,
                "to_cycle": self.errors_to,
            },
            "cycles_per_iteration": spans,  # before, during, after the errors
            "events": last["events"],
        }
