# SPDX-License-Identifier: Apache-2.0
"""Options of all programs: one class per section of the TOML file, one declaration per option.

A declaration gives TOML key, command-line flag, default, check, help text, and the key and conversion for the
C++ core. Meanings: docs/configuration.md.
"""

from __future__ import annotations

from nanet.config.options import Section
from nanet.config.sections.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, names_a_plugin
from nanet.config.sections.card import Card, DetectorFile
from nanet.config.sections.emulation import Demo, Generate, L0tp, Readout
from nanet.config.sections.final import Final
from nanet.config.sections.shared import (
    DEFAULT_DEADLINE_US,
    DEFAULT_TIMEOUT_US,
    MAX_FRAMES,
    REAL_TIME_DEADLINE_US,
    REAL_TIME_TIMEOUT_US,
)
from nanet.config.sections.torus import Torus
from nanet.config.sections.trigger import Monitor, RealTime, Trigger

__all__ = [
    "ALGORITHMS",
    "ALL",
    "DEFAULT_ALGORITHM",
    "DEFAULT_DEADLINE_US",
    "DEFAULT_TIMEOUT_US",
    "MAX_FRAMES",
    "REAL_TIME_DEADLINE_US",
    "REAL_TIME_TIMEOUT_US",
    "Card",
    "Demo",
    "DetectorFile",
    "Final",
    "Generate",
    "L0tp",
    "Monitor",
    "Readout",
    "RealTime",
    "Torus",
    "Trigger",
    "names_a_plugin",
]

ALL: tuple[type[Section], ...] = (
    Trigger,
    Card,
    DetectorFile,
    RealTime,
    Monitor,
    Readout,
    L0tp,
    Final,
    Generate,
    Demo,
    Torus,
)
