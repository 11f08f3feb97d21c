# SPDX-License-Identifier: Apache-2.0
"""Mailboxes in `nanet doctor`: the probe of this host, and advice from made results."""

from __future__ import annotations

import platform
from typing import Any

import pytest
from nanet.run import mailbox


@pytest.mark.skipif(platform.machine() != "x86_64", reason="mailboxes are for x86-64")
def test_no_unit_of_this_host_is_torn() -> None:
    read = 0
    while read < 10_000:
        (host, *_) = mailbox.probes()
        assert host["between_threads"]["torn"] == 0
        read += host["between_threads"]["read"]


def _gpu(memory: str, why: str = "", torn: int = 0, way: str = "") -> dict[str, Any]:
    counts = {"read": 1000, "torn": torn}
    found = {"name": "GPU 0, mailbox", "memory": memory, "way": way, "why": why}
    return found | {"to_gpu": counts, "to_host": counts}


def test_the_advice() -> None:
    fit, gdrdrv, pinned, torn, failed, module = mailbox.reasons(
        [
            _gpu("gpu", way="vulkan"),
            _gpu("gpu", way="gdrdrv"),
            _gpu("pinned", "no libvulkan"),
            _gpu("gpu", torn=2),
            {"name": "GPU 0, mailbox", "memory": "", "why": "cuda: no device"},
            {"name": "GPU 0, mailbox by gdrdrv", "memory": "", "why": "gdr_open"},
        ]
    )
    assert fit.fit and fit.found == "gpu memory (vulkan); units: 1000 to gpu, 1000 to host; torn: 0"
    assert gdrdrv.fit and gdrdrv.found.startswith("gpu memory (gdrdrv, not run with the driver); units")
    assert not pinned.fit and "no libvulkan" in pinned.found and "Vulkan" in pinned.remedy
    assert not torn.fit and "torn: 4" in torn.found and torn.remedy == "nanet trigger --mailbox off"
    assert not failed.fit and failed.found == "cuda: no device"
    assert not module.fit and "gdrdrv" in module.remedy
