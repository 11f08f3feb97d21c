# SPDX-License-Identifier: Apache-2.0
"""`nanet bench fabric`: tagged messages between two processes, beside libfabric's own providers."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from nanet.bench import Row, Settings, Sheet, median
from nanet.errors import UsageError
from nanet.fabric import PROBE, environment, provider_folder

PEERS = ("shm", "tcp")
LIBRARY = "libfabric.so.1"
NOT_LOADED = 127  # exit status of a program whose libraries are missing
DEFAULT_SECONDS = 1.0
KEYS = ("half_round_trip_us", "bandwidth_bytes_per_s", "messages_per_s")


def run(settings: Settings, sheet: Sheet) -> None:
    """Half round trip of 8 B, bandwidth of 1 MiB messages, rate of 8 B messages; in turns, medians."""
    probe = find_probe()
    seconds = settings.seconds or DEFAULT_SECONDS
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in ("nanet", *PEERS)}
    for number in range(settings.runs):
        for provider, results in measured.items():
            sheet(f"{provider}, run {number + 1} of {settings.runs}")
            result = measure(probe, provider, seconds, required=provider == "nanet")
            if result is None:
                sheet(f"{provider}: this libfabric does not offer it: left out")
            else:
                results.append(result)
    for provider, results in measured.items():
        if results:
            middle: Row = {key: median([one[key] for one in results]) for key in KEYS}
            sheet.rows.append({"provider": provider, **middle})
            prefix = "" if provider == "nanet" else f"{provider}_"
            sheet.figures |= {f"{prefix}{key}": value for key, value in middle.items()}


def find_probe() -> Path:
    """Path of the probe; UsageError if it was not built."""
    probe = provider_folder() / PROBE
    if not probe.is_file():
        raise UsageError(
            f"{probe}: not built; install libfabric's headers (Debian: libfabric-dev), and build nanet again"
        )
    return probe


def measure(probe: Path, provider: str, seconds: float, *, required: bool) -> dict[str, float] | None:
    """Result of one run; None if the provider is not offered. UsageError without libfabric.

    RuntimeError if a required provider fails.
    """
    variables = environment() | {"FI_PROVIDER": provider}
    done = subprocess.run(
        [probe, provider, str(seconds)], capture_output=True, text=True, check=False,
        env={**os.environ, **variables}, timeout=120 + 30 * seconds,
    )  # fmt: skip
    if done.returncode == 0:
        return json.loads(done.stdout)
    if done.returncode == NOT_LOADED and LIBRARY in done.stderr:
        raise UsageError(f"{LIBRARY} is not installed; install libfabric (Debian: libfabric1)")
    if required:
        raise RuntimeError(f"provider {provider}: {done.stderr.strip()}")
    return None
