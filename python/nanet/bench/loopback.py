# SPDX-License-Identifier: Apache-2.0
"""`nanet bench loopback`: largest lossless rate of boards -> trigger -> L0TP on this host."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from nanet.bench import Row, Settings, Sheet, peers
from nanet.bench.chain import ChainResult, run_chain, write_truth

PROBE_S = 2.0
FINAL_S = 20.0
FINAL_RUNS = 3
STEP = 1.08  # final step of the search, as a ratio
FIRST, TOP = 1e6, 40e6  # events per second; the second is above the capacity of any host
LIMIT_S = (
    285.0  # of the whole benchmark with the default lengths; a rate not confirmed until then is left out
)
START_S = 4.0  # of the programs of a run, and of their end


def run(settings: Settings, sheet: Sheet) -> None:
    """CPU cost of a packet, with peers; then packed packets of varied size, and padded trains.

    RuntimeError if no rate was confirmed within the time limit: the host is under other load.
    """
    final_s = settings.seconds or FINAL_S
    long_runs = 2 * (settings.runs * final_s - FINAL_RUNS * FINAL_S)
    limit = time.monotonic() + LIMIT_S + max(long_runs, 0.0)
    figures = sheet.figures
    costs = peers.cpu_per_packet(2.0, 150e3, sheet)
    cost = {(row["receiver"], row["load"]): row["packets_per_cpu_s"] for row in costs}
    best: dict[str, float] = {}
    first = FIRST
    with tempfile.TemporaryDirectory(prefix="nanet-loopback-") as folder:
        for number, (kind, pad) in enumerate({"packed": False, "padded": True}.items()):
            until = limit if number else (time.monotonic() + limit) / 2
            found = search(Load(kind, pad, Path(folder), settings, sheet), first, final_s, until)
            if found:
                best[kind] = figures[f"lossless_events_per_s_{kind}"] = found
                first = found
    if best:
        figures["lossless_events_per_s"] = max(best.values())
    figures.update(
        packets_per_cpu_s=cost["card", "trains"],
        packets_per_cpu_s_single=cost["card", "single"],
        recvmmsg_packets_per_cpu_s=cost["recvmmsg", "trains"],
        recvmmsg_packets_per_cpu_s_single=cost["recvmmsg", "single"],
        recvmmsg_gro_packets_per_cpu_s=cost["recvmmsg_gro", "trains"],
    )
    if ("spead2", "its own sender") in cost:
        figures["spead2_packets_per_cpu_s"] = cost["spead2", "its own sender"]
    if len(best) < 2:
        lacking = ", ".join(kind for kind in ("packed", "padded") if kind not in best)
        raise RuntimeError(f"no rate of {lacking} packets was confirmed in {LIMIT_S:g} s: the host is loaded")


class Load:
    """Traffic of one kind, and its truth, which all runs share."""

    def __init__(self, kind: str, pad: bool, folder: Path, settings: Settings, sheet: Sheet) -> None:
        self.kind = {"packed": "packed packets", "padded": "padded trains"}[kind]
        self.runs = settings.runs
        self._pad = pad
        self._sheet = sheet
        self._options = ["--device", "cpu", "--algorithm", settings.algorithm]
        self._truth = folder / f"{kind}.parquet"
        write_truth(self._truth, pad=pad)

    def attempt(self, rate: float, seconds: float) -> bool:
        """Whether a run at `rate` was lossless."""
        result = run_chain(
            seconds, rate / 10e6, pad=self._pad, trigger_options=self._options, truth=self._truth,
            longest=1.5 * seconds,
        )  # fmt: skip
        self._sheet.rows.append(_row(self.kind, rate, seconds, result))
        lost = ", ".join(f"{name} {n:g}" for name, n in result.losses.items()) or "nothing lost"
        self._sheet(f"{self.kind}: {rate / 1e6:.2f} M events/s for {seconds:g} s: {lost}")
        return result.lossless


def search(load: Load, first: float, final_s: float, until: float) -> float:
    """Doubles the rate until losses, halves the interval, then confirms the best rate in long runs.

    until: time (monotonic) at which no further long runs begin. 0: no rate was confirmed.
    """
    final = load.runs * (final_s + START_S)

    def probe(rate: float) -> bool:
        # Two attempts per rate: a pause of the machine must not end the search too low.
        return load.attempt(rate, PROBE_S) or load.attempt(rate, PROBE_S)

    def time_left(reserve: float = 0.0) -> bool:
        return time.monotonic() + final + reserve < until

    spare = final_s + START_S  # for a long run that fails
    low, high = 0.0, first
    while high < TOP and time_left(spare) and probe(high):
        low, high = high, high * 2
    low = low or first / 2
    while high / low > STEP and time_left(spare):
        middle = (low * high) ** 0.5
        if probe(middle):
            low = middle
        else:
            high = middle
    lower = STEP
    while low > 1e5 and time_left():  # consecutive long runs, else a lower rate, in growing steps
        if all(load.attempt(low, final_s) for _ in range(load.runs)):
            return low
        low /= lower
        lower *= STEP
    return 0.0


def _row(kind: str, rate: float, seconds: float, result: ChainResult) -> Row:
    trigger, l0tp = result.trigger, result.l0tp
    return {
        "traffic": kind,
        "events_per_s": rate,
        "seconds": seconds,
        "lossless": result.lossless,
        "events_built": trigger["events_built"],
        "packets_in": trigger["packets_in"],
        "primitives_expected": l0tp["primitives_expected"],
        "primitives_paired": l0tp["primitives_paired"],
        "unpaired": l0tp["unpaired"],
        "trigger_cpu_s": result.trigger_cpu_s,
        "behind_max_us": result.readout["behind_max_us"],
        "losses": result.losses,
    }
