# SPDX-License-Identifier: Apache-2.0
"""`nanet bench loopback`: largest lossless rate of boards -> trigger -> L0TP on this host."""

from __future__ import annotations

from nanet.bench import Row, Settings, Sheet, peers
from nanet.bench.chain import ChainResult, run_chain

PROBE_S = 3.0
FINAL_S = 20.0
STEP = 1.08  # final step of the search, as a ratio
TOP = 40e6  # events per second, above the capacity of any host


def run(settings: Settings, sheet: Sheet) -> None:
    """Packed packets of varied size, then padded trains; then the CPU cost of a packet, with peers."""
    final_s = settings.seconds or FINAL_S
    figures = sheet.figures
    for pad in (False, True):
        kind = "padded trains" if pad else "packed packets"
        best = search(pad, final_s, settings, sheet, kind)
        figures["lossless_events_per_s_padded" if pad else "lossless_events_per_s_packed"] = best
    figures["lossless_events_per_s"] = max(figures.values())
    costs = peers.cpu_per_packet(3.0, 150e3, sheet)
    cost = {(row["receiver"], row["load"]): row["packets_per_cpu_s"] for row in costs}
    figures.update(
        packets_per_cpu_s=cost["card", "trains"],
        packets_per_cpu_s_single=cost["card", "single"],
        recvmmsg_packets_per_cpu_s=cost["recvmmsg", "trains"],
        recvmmsg_packets_per_cpu_s_single=cost["recvmmsg", "single"],
        recvmmsg_gro_packets_per_cpu_s=cost["recvmmsg_gro", "trains"],
    )
    if ("spead2", "its own sender") in cost:
        figures["spead2_packets_per_cpu_s"] = cost["spead2", "its own sender"]


def search(pad: bool, final_s: float, settings: Settings, sheet: Sheet, kind: str) -> float:
    """Doubles the rate until losses, halves the interval, then confirms the best rate in long runs."""
    chosen = ["--device", "cpu", "--algorithm", settings.algorithm]

    def attempt(rate: float, seconds: float) -> bool:
        result = run_chain(seconds, rate / 10e6, pad=pad, trigger_options=chosen)
        sheet.rows.append(_row(kind, rate, seconds, result))
        lost = ", ".join(f"{name} {n:g}" for name, n in result.losses.items()) or "nothing lost"
        sheet(f"{kind}: {rate / 1e6:.2f} M events/s for {seconds:g} s: {lost}")
        return result.lossless

    def probe(rate: float) -> bool:
        # Two attempts per rate: a pause of the machine must not end the search too low.
        return attempt(rate, PROBE_S) or attempt(rate, PROBE_S)

    low, high = 0.0, 1e6
    while high < TOP and probe(high):
        low, high = high, high * 2
    while low and high / low > STEP:
        middle = (low * high) ** 0.5
        if probe(middle):
            low = middle
        else:
            high = middle
    while low > 1e5:  # three consecutive long runs, else a slightly lower rate
        if all(attempt(low, final_s) for _ in range(settings.runs)):
            return low
        low /= STEP
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
