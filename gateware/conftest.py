# SPDX-License-Identifier: SHL-2.1
"""Lanes and kept results of the gateware's tests.

The default lane runs the first variant of each parametrised bench, which has the smallest parameters; the
others, and slow tests, are marked `complete`. A simulation or proof that is kept as passed is reported as
`cached`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "tb" / "support"))

import result_cache

# Benches of the whole card, which take longest: they start first, so that no worker ends late.
FIRST = (
    "nanet_card",
    "nanet_torus_card",
    "receive_path",
    "clop",
    "clop_packets",
    "firmware_path",
    "pcie_us_shim",
)

# Tests above half a minute whose subject a shorter test of the default lane covers: nanet_card, pcie_us_shim,
# and the benches of queue and FIFOs.
SLOW = frozenset(
    (
        "test_nanet_card_streams[short]",
        "test_nanet_card_us",
        "test_proof[async_fifo]",
        "test_proof[event_queue]",
        "test_proof[torus_vc_fifo]",
    )
)


@pytest.hookimpl(tryfirst=True)  # before the selection of -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests and all variants of a bench but the first, and put long benches first."""
    seen = set()
    for item in items:
        name = (item.path, getattr(item, "originalname", item.name))
        if item.name in SLOW or (name in seen and hasattr(item.module, "simulate")):
            item.add_marker(pytest.mark.complete)
        seen.add(name)
    items.sort(
        key=lambda item: FIRST.index(folder) if (folder := item.path.parent.name) in FIRST else len(FIRST)
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> pytest.TestReport:
    """Mark the report of a test whose result was kept."""
    report = yield
    if report.when == "call" and report.passed and result_cache.used:
        report.user_properties.append(("result", "cached"))
    result_cache.used = 0
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Report a kept result as such."""
    if report.when == "call" and report.passed and ("result", "cached") in report.user_properties:
        return "cached", "c", "CACHED"
    return None
