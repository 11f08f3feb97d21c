# SPDX-License-Identifier: Apache-2.0
"""Mailboxes on this host: memory, and whether 16 B units arrive whole (docs/formats.md, Mailbox)."""

from __future__ import annotations

import ctypes
import platform
from typing import Any

from nanet.run.host import Reason, cuda

SECONDS = 0.1


def probes() -> list[dict[str, Any]]:
    """Result of the probe between two threads, and of that with each GPU; empty if not x86-64."""
    if platform.machine() != "x86_64":
        return []
    from nanet import _core

    found = [{"name": "16 B stores", **_core.mailbox_probe(-1, SECONDS)}]
    for device in cuda()["devices"]:
        number = device["number"]
        found.append(_of_gpu(number, "auto", f"GPU {number}, mailbox"))
        if found[-1].get("way") == "vulkan" and gdrcopy():  # not chosen: tested beside it
            found.append(_of_gpu(number, "gdrdrv", f"GPU {number}, mailbox by gdrdrv"))
    return found


def _of_gpu(number: int, memory: str, name: str) -> dict[str, Any]:
    from nanet import _core

    try:
        return {"name": name, **_core.mailbox_probe(number, SECONDS, memory)}
    except RuntimeError as error:
        return {"name": name, "memory": "", "why": str(error)}


def gdrcopy() -> bool:
    """Whether GDRCopy's library is installed."""
    try:
        ctypes.CDLL("libgdrapi.so.2")
    except OSError:
        return False
    return True


def reasons(found: list[dict[str, Any]]) -> list[Reason]:
    """Whether `--mailbox auto` gives the fastest form, with all units whole."""
    return [_reason(one) for one in found]


def _reason(one: dict[str, Any]) -> Reason:
    ways = {way: one[way] for way in ("between_threads", "to_gpu", "to_host") if way in one}
    torn = sum(counts["torn"] for counts in ways.values())
    units = ", ".join(f"{counts['read']} {way.replace('_', ' ')}" for way, counts in ways.items())
    words = [f"{one['memory']} memory"] if one["memory"] else []
    if one.get("way"):
        words[0] += f" ({one['way']}{'' if one['way'] == 'vulkan' else ', not run with the driver'})"
    if units:
        words.append(f"units: {units}; torn: {torn}")
    if one.get("why"):
        words.append(one["why"])
    return Reason(
        one["name"],
        not torn and not one.get("why"),
        "; ".join(words),
        "nanet trigger --mailbox off"
        if torn
        else "load the module gdrdrv of GDRCopy, or remove its library"
        if one["name"].endswith("gdrdrv")
        else "install the Vulkan library of NVIDIA's driver, or GDRCopy with its module gdrdrv (not run with "
        "the driver); until then pinned memory is used",
    )
