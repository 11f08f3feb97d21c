# SPDX-License-Identifier: Apache-2.0
"""`nanet bench cluster`: the same captures through one and two worker processes, in turns.

Both sides use Dask: the ratio shows how the work is shared. `speedup`: wall-clock time of one worker divided
by that of two, in adjacent turns. Other programs of the host distort it; each row has their share of the CPUs
(`foreign_cpus`), and the figure is the median of the pairs with the smallest shares. `speedup_cpu` is free of
them: twice the ratio of CPU times, times the balance of the two workers.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nanet.bench import Row, Settings, Sheet, median
from nanet.bench.replay import generate_capture
from nanet.cluster.pool import Pool, open_pool
from nanet.cluster.units import Unit
from nanet.config.sections import Trigger
from nanet.run.replaying import replay_files

CAPTURES = 16
EVENTS = 50_000  # of each capture
PAIRS = 5
KEPT = 3  # pairs with the least foreign load


def run(settings: Settings, sheet: Sheet) -> None:
    """Pairs of turns, one worker then two; figure `two_workers_over_one`."""
    events = settings.events or EVENTS
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="nanet-cluster-", dir=memory) as folder:
        sheet(f"generating {CAPTURES} captures of {events} events")
        captures = [str(Path(folder) / f"{number}.pcap") for number in range(CAPTURES)]
        for path in captures:
            generate_capture(path, events, "4", "packed")
        options = {"algorithm": settings.only or Trigger().algorithm, "boards": 0xF}
        units = [Unit(path, replay, (path,), {}, options) for path in captures]
        with open_pool(2, None) as two:
            turns = {1: One(two), 2: two}
            for number in range(max(settings.runs, PAIRS)):
                for workers, pool in sorted(turns.items(), reverse=bool(number % 2)):  # ABBA
                    sheet(f"pair {number + 1} of {max(settings.runs, PAIRS)}, workers: {workers}")
                    sheet.rows.append({"pair": number, "workers": workers, **turn(pool, units, workers)})
    by_pair = zip(sheet.rows[::2], sheet.rows[1::2], strict=True)
    pairs = [sorted(pair, key=lambda row: row["workers"]) for pair in by_pair]
    for one, other in pairs:
        other["speedup"] = one["wall_s"] / other["wall_s"]
        one["speedup"] = 1.0
        other["speedup_cpu"] = 2 * one["cpu_s"] / other["cpu_s"] * other["balance"]
        one["speedup_cpu"] = 1.0
    quiet = sorted(pairs, key=lambda pair: pair[0]["foreign_cpus"] + pair[1]["foreign_cpus"])[:KEPT]
    sheet.figures["two_workers_over_one"] = median([other["speedup"] for _, other in quiet])
    sheet.figures["two_workers_over_one_cpu"] = median([other["speedup_cpu"] for _, other in pairs])
    sheet.figures["foreign_cpus"] = median([pair[1]["foreign_cpus"] for pair in quiet])


class One:
    """One worker of a pool of two: the other one stays idle."""

    workers = 1

    def __init__(self, pool: Any) -> None:
        self._client = pool.client
        self._worker = sorted(self._client.scheduler_info(n_workers=-1)["workers"])[0]

    def run(self, function: Any, items: Any) -> Any:
        """Yields (index, result)."""
        from distributed import as_completed

        futures = {
            self._client.submit(function, item, pure=False, workers=[self._worker]): index
            for index, item in enumerate(items)
        }
        for future in as_completed(list(futures)):
            yield futures[future], future.result()


def replay(unit: Unit) -> dict[str, float]:
    """Replays one capture in a worker: events, and the CPU time and process of this call."""
    before = time.process_time()
    result = replay_files(unit.inputs, unit.settings)
    if not result["account_closes"]:
        raise RuntimeError(f"the account of {unit.name} does not close")
    cpu_s = time.process_time() - before
    return {"events": result["events_built"], "cpu_s": cpu_s, "process": os.getpid()}


def turn(pool: Pool, units: list[Unit], workers: int) -> Row:
    """All captures once."""
    busy = host_cpu_s()
    began = time.monotonic()
    results: list[Mapping[str, float]] = [result for _, result in pool.run(replay, units)]
    wall_s = time.monotonic() - began
    by_process: dict[float, float] = {}
    for result in results:
        by_process[result["process"]] = by_process.get(result["process"], 0.0) + result["cpu_s"]
    own = sum(by_process.values())
    return {
        "events_per_s": sum(result["events"] for result in results) / wall_s,
        "wall_s": wall_s,
        "cpu_s": own,
        "balance": own / workers / max(by_process.values()),
        "foreign_cpus": max(host_cpu_s() - busy - own, 0.0) / wall_s,
    }


def host_cpu_s() -> float:
    """CPU time of all programs of the host so far (s), with time stolen by its hypervisor."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")
