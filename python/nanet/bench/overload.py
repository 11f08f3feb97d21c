# SPDX-License-Identifier: Apache-2.0
"""`nanet bench overload`: frames answered in time above the trigger's capacity, and its recovery.

Capacity: largest rate of frames without losses, in short runs. Then 1.5 and 2 times the capacity; then the
load falls from twice to 0.8 of it, and at 0.8 the trigger is stopped (SIGSTOP) for half a second. Recovered:
begin of the first 0.1 s in which 99 % of the frames are answered in time.

Answered are frames with the packets of all boards.

`--card xdp`: the trigger runs in a network namespace, behind a veth pair. `--card gateware`: times of the
trigger are those of the simulated clock, rates those of the wall clock.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from nanet.bench import Settings, Sheet, median
from nanet.bench.chain import Programs, wait_for_port
from nanet.bench.receiver import LATE, Answers
from nanet.errors import UsageError
from nanet.report.output import packets_lost
from nanet.run.namespaces import End, Namespaces, available
from nanet.run.ports import free_ports

FRAME_S = 256 * 256 * 0.097464731802e-9  # docs/formats.md, Time
PROBE_S, RUN_S = 2.0, 5.0
BURST_FRAMES = 1 << 24  # each run is one burst at any rate
FIRST, MOST = 50.0, 1e6  # frames per second: of the first run; upper limit of the search
STEP = 1.04  # final step of the search, as a ratio
RELAXED, STOP_S = 0.8, 0.5  # load in share of the capacity; length of a stop
HEADER_BYTES = 8  # of an answer
BOARDS, TRIGGER = "10.78.0.1", "10.78.0.2"  # with a card that needs an interface
REORDERED = 1024  # frames by which a header-only answer may be behind
WINDOW_S, RECOVERED_S, ANSWERED = 0.01, 0.1, 0.99


@attrs.define
class Run:
    """A trigger process and the port of its boards."""

    programs: Programs
    process: Any
    to: str
    answers: Answers

    def boards(self, frames_per_s: float, seconds: float, **more: Any) -> Any:
        """Emulated boards, ready to start."""
        from nanet import _core

        speed = frames_per_s * FRAME_S
        options = {"speed": speed, "duration": seconds, "pad": True, "burst_frames": BURST_FRAMES}
        return _core.Readout({"to": self.to, **options, **more})

    def result(self) -> dict[str, Any]:
        """Ends the trigger; its result."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        return self.programs.result("trigger")


@contextmanager
def open_trigger(settings: Settings) -> Iterator[Run]:
    """A running trigger whose answers are kept."""
    with ExitStack() as opened:
        boards = trigger = "127.0.0.1"
        prefix: list[str] = []
        if settings.card == "xdp":
            boards, trigger = BOARDS, TRIGGER
            net = opened.enter_context(Namespaces((End("", boards), End("trigger", trigger))))
            prefix = net.command("trigger", [])
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        programs = opened.enter_context(Programs(Path(folder)))
        answers = opened.enter_context(closing(Answers(boards, keep=HEADER_BYTES, reordered=REORDERED)))
        (port,) = free_ports(1)
        to = f"{trigger}:{port}"
        options = ["--card", settings.card, "--device", settings.device, "--max-frames", str(BURST_FRAMES)]
        if settings.only:
            options += ["--algorithm", settings.only]
        ports = ["--listen", to, "--send", answers.address]
        process = programs.start("trigger", *ports, *options, prefix=prefix)
        wait_for_port(port, process)
        yield Run(programs, process, to, answers)


def _finish(boards: Any) -> dict[str, Any]:
    while not boards.join(0.1):
        pass
    return boards.result()


def _load(settings: Settings, frames_per_s: float, seconds: float) -> dict[str, Any]:
    """One run at a constant rate: rates, losses, header-only answers."""
    with open_trigger(settings) as run:
        boards = run.boards(frames_per_s, seconds)
        boards.start()
        sent = _finish(boards)
        result = run.result()
    if not result["account_closes"]:
        raise RuntimeError("the trigger's account does not close")
    elapsed = sent["elapsed_s"]
    stages = result["latency_us"]
    return {
        "frames_per_s": sent["frames_sent"] / elapsed,
        # Also after the boards' end; without answers for frames of which a board is missing.
        "answered_per_s": max(result["frames_answered"] - result["frames_incomplete"], 0)
        / max(elapsed, result["elapsed_s"]),
        "late": result["frames_late"],
        "incomplete": result["frames_incomplete"],
        "lost": float(packets_lost(result["lost"])),
        "service_us": sum(stages[stage]["p50"] for stage in ("build", "reconstruct", "post")),
        "header_only_p99_ms": stages["header_only"]["p99"] / 1e3,
        "total_p99_ms": stages["total"]["p99"] / 1e3,
        "deadline_ms": result["deadline_us"] / 1e3,
        "behind_max_ms": sent["behind_max_us"] / 1e3,
    }


def _late(answers: Answers, burst: int, frames: int) -> np.ndarray:
    """Whether each frame of a burst was late, not received or without primitives. Closes the answers."""
    late = np.ones(frames, bool)
    for number, frame, words in answers.frames():
        if number == burst and frame < frames:
            late[frame] = words[1] >> 24 == LATE or words[1] >> 16 & 0xFF == 0
    return late


def recovery_ms(sent_ns: np.ndarray, late: np.ndarray, from_ns: int) -> float:
    """Time from `from_ns` to the begin of the first 0.1 s in which 99 % of the frames were answered."""
    after = (sent_ns >= from_ns) & (sent_ns > 0)
    since = (sent_ns[after].astype(np.int64) - from_ns) * 1e-9
    if since.size == 0:
        return float("inf")
    bins = int(since.max() / WINDOW_S) + 1
    of = (since / WINDOW_S).astype(np.int64)
    frames = np.bincount(of, minlength=bins)
    missed = np.bincount(of, weights=late[after], minlength=bins)
    width = round(RECOVERED_S / WINDOW_S)
    for begin in range(bins - width + 1):
        there = frames[begin : begin + width].sum()
        if there and missed[begin : begin + width].sum() <= (1 - ANSWERED) * there:
            return begin * WINDOW_S * 1e3
    return float("inf")


def _recovery(settings: Settings, capacity: float, seconds: float, stop: bool) -> float:
    """Recovery time (ms) after the load has fallen or after a stop."""
    with open_trigger(settings) as run, tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times"
        heavy = None if stop else run.boards(2 * capacity, seconds)
        light = run.boards(RELAXED * capacity, seconds, times=str(times), first_burst=0 if stop else 1)
        run.answers.start()
        from_ns = 0
        if heavy is not None:
            heavy.start()
            _finish(heavy)
        light.start()
        if stop:
            time.sleep(seconds / 4)
            run.process.send_signal(signal.SIGSTOP)
            time.sleep(STOP_S)
            run.process.send_signal(signal.SIGCONT)
            from_ns = time.monotonic_ns()
        _finish(light)
        run.result()
        first = np.fromfile(times, np.uint64).reshape(-1, 2)[:, 0]
        late = _late(run.answers, 0 if stop else 1, len(first))
    return recovery_ms(first, late, from_ns or int(first[first > 0].min()))


def _capacity(settings: Settings, sheet: Sheet) -> float:
    """Largest rate of frames (1/s) without losses."""

    def attempt(rate: float) -> bool:
        row = _load(settings, rate, PROBE_S)
        sheet.rows.append({"run": "capacity", **row})
        sheet(f"{rate:.0f} frames/s: {row['late']} late, {row['lost']:.0f} packets lost")
        return row["late"] == 0 and row["lost"] == 0 and row["incomplete"] == 0

    def probe(rate: float) -> bool:
        # Two attempts per rate: a pause of the machine must not end the search too low.
        return attempt(rate) or attempt(rate)

    attempt(FIRST)
    low = high = 1e6 / sheet.rows[-1]["service_us"]  # one frame after the other, nothing else
    while not probe(low):
        high, low = low, low / 1.25
        if low < FIRST:
            raise RuntimeError(f"losses even at {high:.0f} frames/s")
    while low == high and low < MOST:  # several workers, or a GPU
        if probe(2 * high):
            low = high = 2 * high
        else:
            high = 2 * high
    while high / low > STEP:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if probe(middle) else (low, middle)
    return low


def run(settings: Settings, sheet: Sheet) -> None:
    """Figures answered_share_at_1_5, answered_share_at_2, header_only_p99_after_deadline_ms, recovery_ms."""
    if settings.card == "xdp" and (why := available()):
        raise UsageError(f"bench overload --card xdp: {why}")
    seconds = settings.seconds or RUN_S
    figures = sheet.figures
    capacity = figures["capacity_frames_per_s"] = _capacity(settings, sheet)
    late = []
    for load, name in ((1.5, "1_5"), (2.0, "2")):
        shares = []
        for _ in range(settings.runs):
            row = _load(settings, load * capacity, seconds)
            share = row["answered_per_s"] / capacity
            sheet.rows.append({"run": f"{load:g} x capacity", **row})
            sheet(f"{load:g} x capacity: {share:.2f} of it answered in time")
            shares.append(share)
            late.append(row["header_only_p99_ms"])
        figures[f"answered_share_at_{name}"] = median(shares)
    figures["header_only_p99_after_deadline_ms"] = max(late)
    for name, stop in (("load", False), ("stop", True)):
        found = []
        for _ in range(settings.runs):
            found.append(_recovery(settings, capacity, max(seconds / 2, 2.0), stop))
            sheet.rows.append({"after": "a stop" if stop else "the load fell", "recovery_ms": found[-1]})
            sheet(f"recovered {found[-1]:.0f} ms after {sheet.rows[-1]['after']}")
        figures[f"recovery_{name}_ms"] = median(found)
    figures["recovery_ms"] = max(figures["recovery_load_ms"], figures["recovery_stop_ms"])
