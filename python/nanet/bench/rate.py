# SPDX-License-Identifier: Apache-2.0
"""`nanet bench rate`: largest rate of four boards without losses and late frames."""

from __future__ import annotations

from nanet.bench import Settings, Sheet
from nanet.bench.chain import run_chain
from nanet.bench.trigger import board_options, kept_free, links, summary, trigger_options

PROBE_S, FINAL_S = 3.0, 20.0
STEP = 1.1  # final step of the search, as a ratio
LEAST, TOP = 0.1e6, 64e6
BUFFERS = 4096  # above 20 MHz, 1024 buffers are full after a pause of the host of 3.3 ms


def run(settings: Settings, sheet: Sheet) -> None:
    """Starts at --rate: doubles it until losses, or halves it until there are none; then halves the interval.

    The best rate is confirmed in `runs` long runs.
    """

    def attempt(rate: float, seconds: float) -> bool:
        result = run_chain(
            seconds,
            rate / 10e6,
            pad=True,
            trigger_options=trigger_options(settings, BUFFERS),
            board_options=board_options(settings),
            keep_off=kept_free(settings),
            links=links(settings),
        )
        row = {"events_per_s": rate, "seconds": seconds, **summary(settings, result)}
        row["behind_max_us"] = result.readout["behind_max_us"]
        sheet.rows.append(row)
        sheet(f"{rate / 1e6:.2f} M events/s for {seconds:g} s: losses: {row['losses']}")
        return result.lossless

    def probe(rate: float) -> bool:
        # Two attempts per rate: a pause of the machine must not end the search too low.
        return attempt(rate, PROBE_S) or attempt(rate, PROBE_S)

    low, high = 0.0, settings.rate
    while high > LEAST and not probe(high):
        high /= 2
    while high < TOP and (low == 0 or probe(high)):
        low, high = high, 2 * high
    while low and high / low > STEP:
        middle = (low * high) ** 0.5
        if probe(middle):
            low = middle
        else:
            high = middle
    while low > 1e5:
        if all(attempt(low, settings.seconds or FINAL_S) for _ in range(settings.runs)):
            sheet.figures["lossless_events_per_s"] = low
            return
        low /= STEP
    sheet.figures["lossless_events_per_s"] = 0.0
