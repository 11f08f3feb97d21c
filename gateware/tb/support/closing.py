# SPDX-License-Identifier: SHL-2.1
"""Bench helper for the modules that close buffers: clop_close and clop_packets_close."""

from dataclasses import dataclass


@dataclass
class Pace:
    """Activity rates of the neighbouring modules, as fractions of the cycles."""

    notices: float = 1.0
    tlb: float = 1.0
    translation: tuple[int, int] = (6, 6)
    memory: float = 1.0
    done: float = 1.0
    payloads: float = 1.0  # channels that write
    events: float = 1.0
