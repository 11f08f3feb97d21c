# SPDX-License-Identifier: Apache-2.0
"""Tails of a latency benchmark: ratios to the bare echo, stops of a loop, late frames and losses by cause."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np

from nanet.bench import Sheet
from nanet.run import host
from nanet.run.placement import BOARDS

RATIOS = ("p99_9", "p99_99")
ALONE_S = 2.0  # of the spinning loop before and after the load, without a spare core
STOP_NS = 50_000  # shorter stops explain no late frame and no loss
# A card counts the timeout from the kernel's arrival times, converted from another clock.
MARGIN_NS = 10_000
WATCHED_S = 0.1  # a thread that was watched for less gets no figures
FIGURES = (
    "p99_us", "p99_9_us", "p99_99_us", "longest_us", "over_10us_share", "over_50us_share", "over_100us_share",
)  # fmt: skip


def over_echo(figures: dict[str, float], before: str, measured: str, echo: str = "echo_") -> dict[str, float]:
    """Ratios of the figures `measured`P_us to `echo`P_us, named `before`P_over_echo; P: p99_9, p99_99."""
    return {f"{before}{p}_over_echo": figures[f"{measured}{p}_us"] / figures[f"{echo}{p}_us"] for p in RATIOS}


@attrs.define
class Stops:
    """Stops of a thread: begin and end, CLOCK_MONOTONIC ns, of those seen during the load."""

    begin: np.ndarray = attrs.field(factory=lambda: np.zeros(0, np.int64))
    end: np.ndarray = attrs.field(factory=lambda: np.zeros(0, np.int64))


@contextmanager
def spinning(spare: int | None, pinned: int, alone_s: float, sheet: Sheet) -> Iterator[Stops]:
    """Measures the stops of a spinning loop on the CPU `spare` during the body, which gets the other CPUs.

    spare None: on the CPU `pinned` (-1: any), `alone_s` before and after the body; the stops stay empty.
    Then adds a row and figures `stops_…`.
    """
    from nanet import _core

    probe, stops = _core.StopProbe(pinned if spare is None else spare), Stops()
    if spare is None:
        _alone(probe, alone_s)
        yield stops
        _alone(probe, alone_s)
    else:
        cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus - host.siblings(spare))
        probe.start()
        try:
            yield stops
        finally:
            probe.stop()
            os.sched_setaffinity(0, cpus)
            stops.begin, stops.end = probe.gaps()
    measured = probe.result()
    when = "before and after" if spare is None else "during the load"
    sheet.rows.append({"stops": when, "cpu": pinned if spare is None else spare, **measured})
    sheet.figures.update({f"stops_{name}": measured[name] for name in FIGURES})


def of_threads(threads: Sequence[Mapping[str, Any]], sheet: Sheet) -> list[Stops]:
    """Stops of the trigger's polling threads (`nanet trigger --stops`); adds a row and figures of each.

    A thread that was hardly watched, as one that sleeps or has much work in each pass, gets no figures.
    """
    found = []
    for thread in threads:
        row = {key: value for key, value in thread.items() if key not in ("thread", "begin", "end")}
        sheet.rows.append({"polling": thread["thread"], **row})
        name = thread["thread"].replace(" ", "_")
        for figure in ("over_50us_share", "longest_us") if thread["seconds"] >= WATCHED_S else ():
            sheet.figures[f"stops_{name}_{figure}"] = thread[figure]
        found.append(Stops(*(np.array(thread[key], np.int64) for key in ("begin", "end"))))
    return found


def _alone(probe: Any, seconds: float) -> None:
    probe.start()
    time.sleep(seconds)
    probe.stop()


@attrs.frozen
class FrameTimes:
    """Send times of each frame of a run, CLOCK_MONOTONIC ns, 0: not sent; numbers of the late frames.

    lost: frame, board, 1 if overrun, and arrival of each packet lost as late or overrun, as far as listed.
    sent_late: frame, board, and ns from the frame's first send to the end of the call that sent the board's
    packets, of late calls.
    """

    first: np.ndarray
    last: np.ndarray
    late: np.ndarray
    lost: np.ndarray = attrs.field(factory=lambda: np.zeros((0, 4), np.uint64))
    sent_late: np.ndarray = attrs.field(factory=lambda: np.zeros((0, 3), np.uint64))


@attrs.frozen(kw_only=True)
class Limits:
    """Times of trigger and boards, ns.

    window: of the buffers, until the first one is used again. together: largest number of frames that a
    board sends in one call.
    """

    frame: float
    timeout: int
    deadline: int
    window: int
    gathered: int = 0
    together: int = 1


@attrs.frozen
class Causes:
    """Late frames by cause, and lost packets by the boards and by stops; the others are lost by us.

    explained_share: share of all frames for which a stop or the boards would explain a late answer. It,
    by_stops and lost_by_stops are None where stops are not judged.
    """

    by_us: int
    by_stops: int | None
    by_boards: int
    lost_by_boards: int
    lost_by_stops: int | None
    explained_share: float | None


def due_times(first: np.ndarray, frame_ns: float) -> np.ndarray:
    """Due time of each frame: the schedule, through the earliest frame; boards are never early."""
    planned = np.rint(np.arange(len(first)) * frame_ns).astype(np.int64)
    sent = first > 0
    return planned + ((first - planned)[sent].min() if sent.any() else 0)


def meets(begin: np.ndarray, end: np.ndarray, threads: Sequence[Stops]) -> np.ndarray:
    """Whether each interval [begin, end) overlaps a stop [begin, end) of more than STOP_NS of any thread."""
    stops = np.concatenate([np.zeros((0, 2), np.int64), *(np.stack([s.begin, s.end], 1) for s in threads)])
    stops = stops[stops[:, 1] - stops[:, 0] > STOP_NS]
    stops = stops[np.argsort(stops[:, 0], kind="stable")]
    before = np.searchsorted(stops[:, 0], end)  # number of stops that begin before the end
    latest = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(stops[:, 1])])  # end of so many
    return latest[before] > begin


def stopped(begin: np.ndarray, end: np.ndarray, thread: Stops) -> np.ndarray:
    """Time of each interval [begin, end), ns, that lies in stops of more than STOP_NS of the thread."""
    judged = thread.end - thread.begin > STOP_NS
    begins, ends = thread.begin[judged], thread.end[judged]  # in order, without overlap
    total = np.concatenate([[0], np.cumsum(ends - begins)])

    def before(time: np.ndarray) -> np.ndarray:
        begun = np.searchsorted(begins, time)
        last = np.concatenate([[np.iinfo(np.int64).min // 2], ends])[begun]  # end of the last one begun
        return total[begun] - np.maximum(last - time, 0)

    return before(end) - before(begin)


def _largest_ahead(values: np.ndarray, frames: int) -> np.ndarray:
    """Largest value of each frame and of the `frames` after it."""
    largest = values.copy()
    for ahead in range(1, min(frames, len(values) - 1) + 1):
        np.maximum(largest[:-ahead], values[ahead:], out=largest[:-ahead])
    return largest


def lost_by_boards(frames: FrameTimes, timeout: int) -> np.ndarray:
    """Whether each lost packet is late, and its board sent it later than the timeout, ns, after the first."""
    late = frames.sent_late[frames.sent_late[:, 2].astype(np.int64) > timeout - MARGIN_NS]
    sent, lost = (table[:, 0] * BOARDS + table[:, 1] for table in (late, frames.lost))
    return np.isin(lost, sent) & (frames.lost[:, 2] == 0)


def lost_by_stops(frames: FrameTimes, threads: Sequence[Stops], limits: Limits) -> np.ndarray:
    """Whether stops explain each lost packet.

    Late: one from the due time of its frame to the timeout. Overrun: when its frame was sent, the one that
    had its buffer before, due a window earlier, was not finished; stops of one thread fill half of that time.
    """
    first = frames.first.astype(np.int64)
    due = due_times(first, limits.frame)
    known = frames.lost[:, 0] < len(first)
    frame, overrun = frames.lost[known, 0].astype(np.int64), frames.lost[known, 2] == 1
    begin, sent = due[frame], np.maximum(first, due)[frame]
    behind = np.zeros(len(frame), bool)
    for thread in threads:
        behind |= 2 * stopped(sent - limits.window, sent, thread) >= limits.window
    explained = np.zeros(len(known), bool)
    explained[known] = np.where(overrun, behind, meets(begin, sent + limits.timeout, threads))
    return explained


def causes(frames: FrameTimes, threads: Sequence[Stops] | None, limits: Limits, late: int) -> Causes:
    """Late frames and lost packets of a run by cause: the rule of docs/benchmarks.md, Stops and late frames.

    threads: stops of the spinning loop and of the trigger's threads; None: not judged. late: frames late, by
    the trigger.
    """
    first, last = frames.first.astype(np.int64), frames.last.astype(np.int64)
    due = due_times(first, limits.frame)
    sent = (first > 0) & (last > 0)
    # A send time is read before the call that sends: a stop in the call shows in the frames after it.
    behind = _largest_ahead(np.where(sent, last - due, 0), limits.together)
    by_boards = behind > limits.timeout + limits.gathered
    by_stops = meets(due, np.maximum(first, due) + limits.deadline, threads or []) & ~by_boards & sent
    found = frames.late[frames.late < len(first)].astype(np.int64)
    lost_held = lost_by_boards(frames, limits.timeout)
    lost_stopped = lost_by_stops(frames, threads or [], limits) & ~lost_held
    explained = float((by_stops | by_boards)[sent].mean()) if sent.any() else 0.0
    stopped, held = int(by_stops[found].sum()), int(by_boards[found].sum())
    return Causes(
        by_us=late - stopped - held,
        by_stops=None if threads is None else stopped,
        by_boards=held,
        lost_by_boards=int(lost_held.sum()),
        lost_by_stops=None if threads is None else int(lost_stopped.sum()),
        explained_share=None if threads is None else explained,
    )
