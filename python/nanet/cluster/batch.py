# SPDX-License-Identifier: Apache-2.0
"""A list of units on a pool, with a progress bar; failed units are named, the others run."""

from __future__ import annotations

import contextlib
import functools
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nanet.cluster.pool import open_pool
from nanet.cluster.units import Outcome, Unit, check_names, complete, only_writer

LINE_S = 10.0  # between lines of progress without a terminal


def run(
    units: Sequence[Unit], workers: int | None, scheduler: str | None, out: Any, label: str
) -> tuple[list[Outcome], dict[str, Any]]:
    """Completes all units; outcomes in the order of the units, and the common keys of --json.

    out: console for the progress and the names of failed units. UsageError: the pool cannot be opened.
    """
    check_names(units)
    started = time.monotonic()
    outcomes: dict[int, Outcome] = {}
    with contextlib.ExitStack() as stack:
        for folder in sorted({unit.records for unit in units} - {""}):
            stack.enter_context(only_writer(folder))
        pool = stack.enter_context(open_pool(workers, scheduler))
        advance = stack.enter_context(progress(out, label, len(units)))
        for index, outcome in pool.run(functools.partial(complete, uuid.uuid4().hex), units):
            if isinstance(outcome, Exception):
                reason = f"its worker process died repeatedly ({type(outcome).__name__})"
                outcome = Outcome(units[index].name, "failed", reason=reason)
            outcomes[index] = outcome
            advance(outcome)
    ordered = [outcomes[index] for index in range(len(units))]
    for outcome in ordered:
        for text in outcome.warnings:
            out.print(text, style="yellow", markup=False, soft_wrap=True)
    failed = [outcome for outcome in ordered if outcome.state == "failed"]
    for outcome in failed:
        out.print(f"failed: {outcome.name}: {outcome.reason}", style="red", markup=False, soft_wrap=True)
    return ordered, {
        "runs": len(units),
        "done": sum(outcome.state == "done" for outcome in ordered),
        "kept": sum(outcome.state == "kept" for outcome in ordered),
        "failed": [{"capture": one.name, "reason": one.reason} for one in failed],
        "workers": pool.workers,
        "elapsed_s": time.monotonic() - started,
    }


def summary(result: dict[str, Any]) -> str:
    """Numbers of done, kept and failed captures in words."""
    parts = [f"{result['done']} done"]
    if result["kept"]:
        parts.append(f"{result['kept']} finished before")
    if result["failed"]:
        parts.append(f"{len(result['failed'])} failed")
    return f"{result['runs']} captures: {', '.join(parts)}"


@contextlib.contextmanager
def progress(out: Any, label: str, total: int) -> Iterator[Callable[[Outcome], None]]:
    """Progress bar on a terminal, else a line at intervals of LINE_S."""
    if not out.is_terminal:
        began = last = time.monotonic()
        done = 0

        def line(outcome: Outcome) -> None:
            nonlocal done, last
            done += 1
            if time.monotonic() - last >= LINE_S:
                last = time.monotonic()
                out.print(f"{last - began:6.0f} s  {label}: {done} of {total}", style="dim")

        yield line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task(label, total=total)
        failed = 0

        def step(outcome: Outcome) -> None:
            nonlocal failed
            failed += outcome.state == "failed"
            text = f"{label}: [red]{failed} failed[/]" if failed else label
            bar.update(task, advance=1, description=text)

        yield step
