# SPDX-License-Identifier: Apache-2.0
"""Batch sizes of a curve, and the roofline model: rates against the limits of memory and arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

from nanet.bench import Row

MOST_EVENTS = 1 << 20  # of the largest batch


def batches(most: int) -> list[int]:
    """Batch sizes of a curve: 1, 4, 16 ... and `most`."""
    sizes = []
    size = 1
    while size < most:
        sizes.append(size)
        size *= 4
    return [*sizes, most]


def roofline(
    name: str,
    device: str,
    events_per_s: float,
    bytes_per_event: float,
    operations_per_event: float | None,
    limits: dict[str, float],
) -> Iterable[Row]:
    """Position of an algorithm between the limits of memory and arithmetic; nothing without a count.

    limits: memory_bytes_per_s and operations_per_s of the device. `share`: rate relative to the lower
    limit.
    """
    if operations_per_event is None:
        return
    memory, arithmetic = limits["memory_bytes_per_s"], limits["operations_per_s"]
    intensity = operations_per_event / bytes_per_event
    reached = events_per_s * operations_per_event
    yield {
        "algorithm": name,
        "device": device,
        "bytes_per_event": bytes_per_event,
        "operations_per_event": operations_per_event,
        "operations_per_byte": intensity,
        "operations_per_s": reached,
        "bytes_per_s": events_per_s * bytes_per_event,
        "limited_by": "memory" if intensity * memory < arithmetic else "arithmetic",
        "share": reached / min(intensity * memory, arithmetic),
    }
