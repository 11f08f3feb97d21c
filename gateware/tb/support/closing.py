# SPDX-License-Identifier: SHL-2.1
"""What the two modules that close buffers have around them: clop_close and clop_packets_close."""

from dataclasses import dataclass


@dataclass
class Pace:
    """How much of the time its neighbours take part."""

    news: float = 1.0
    tlb: float = 1.0
    translation: tuple[int, int] = (6, 6)
    memory: float = 1.0
    done: float = 1.0
    payloads: float = 1.0  # channels write
    events: float = 1.0
