# SPDX-License-Identifier: Apache-2.0
"""Emulated links between namespaces: loss, delay and reordering, by netem or by the forwarder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from nanet.run.namespaces import Namespaces

NETEM_LIMIT = 1_000_000  # packets that wait in netem
REORDER_DELAY_S = 50e-6  # netem reorders delayed packets only


def netem_available() -> bool:
    """Whether the kernel has netem and the program tc is installed."""
    try:
        done = subprocess.run(
            ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem"],
            capture_output=True, check=False,
        )  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0


class NetemLink:
    """Faults of netem, on the interface `interface` of namespace `place`."""

    by = "netem"

    def __init__(self, net: Namespaces, place: str, interface: str, faults: Mapping[str, float]) -> None:
        self._net, self._place, self._interface = net, place, interface
        delay = faults.get("link_delay", 0.0) or (REORDER_DELAY_S if faults.get("link_reorder") else 0.0)
        words = ["limit", str(NETEM_LIMIT), "delay", f"{delay * 1e6:.0f}us"]
        for name in ("loss", "reorder"):
            if share := faults.get(f"link_{name}", 0.0):
                words += [name, f"{100 * share:g}%"]
        self._tc("qdisc", "add", "dev", interface, "root", "netem", *words)

    def _tc(self, *words: str) -> str:
        command = self._net.command(self._place, ["tc", *words])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"tc {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def account(self) -> dict[str, Any]:
        """Packets, and those lost."""
        (qdisc,) = json.loads(self._tc("-s", "-j", "qdisc", "show", "dev", self._interface))
        lost = qdisc["drops"]
        return {"by": self.by, "packets": qdisc["packets"] + lost, "lost": lost, "sent": qdisc["packets"]}

    def stop(self) -> None:
        """Nothing to end: the rule goes with its interface."""


class ForwarderLink:
    """Faults of the forwarder, in the namespace `place` between two others."""

    by = "forwarder"

    def __init__(
        self, net: Namespaces, place: str, source: str, target: str, faults: Mapping[str, float], seed: int
    ) -> None:
        words = [source, target, json.dumps(dict(faults)), str(seed)]
        self._process = net.start(place, [sys.executable, "-m", "nanet.run.forwarder", *words], output=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            self.stop()
            raise RuntimeError(f"the forwarder of {place} did not start")

    def account(self) -> dict[str, Any]:
        """Ends the forwarder; its account."""
        self._process.terminate()
        text, _ = self._process.communicate(timeout=30)
        return {"by": self.by, **json.loads(text)}

    def stop(self) -> None:
        """Kills the forwarder."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
