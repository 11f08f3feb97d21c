# SPDX-License-Identifier: Apache-2.0
"""Network interfaces in `nanet doctor`: properties from the kernel by netlink, and the advice on them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from nanet.cli.app import main
from nanet.run import nic
from nanet.run.namespaces import End, Namespaces, available

READY = {
    "name": "eth7", "physical": True, "driver": "ice", "state": "up", "mtu": 1500, "receive_queues": 4,
    "numa_node": None, "xdp": ["basic", "redirect", "xsk-zerocopy"], "zero_copy": True, "xdp_stamps": True,
    "ring": 4096, "ring_max": 8160, "combined_queues": 4, "rx_usecs": 0, "adaptive": False,
    "pause_rx": False, "pause_tx": False,
}  # fmt: skip


def unfit(**changes: Any) -> dict[str, str]:
    found = nic.reasons([{**READY, **changes}], [0])
    return {reason.name.removeprefix("NIC eth7, "): reason.remedy for reason in found if not reason.fit}


@pytest.mark.parametrize(
    ("changes", "name", "remedy"),
    [
        ({"xdp": []}, "XDP", "--card socket"),
        ({"zero_copy": False}, "zero copy", "driver"),
        ({"ring": 256}, "ring", "ethtool -G eth7 rx 1024"),
        ({"rx_usecs": 50}, "coalescing", "ethtool -C eth7 adaptive-rx off rx-usecs 0"),
        ({"adaptive": True}, "coalescing", "ethtool -C eth7 adaptive-rx off rx-usecs 0"),
        ({"pause_rx": True}, "pause", "ethtool -A eth7 rx off tx off"),
    ],
)
def test_each_property_has_a_remedy(changes: dict[str, Any], name: str, remedy: str) -> None:
    found = unfit(**changes)
    assert list(found) == [name]
    assert remedy in found[name]


def test_a_ready_interface_and_unknown_properties_are_fit() -> None:
    assert not unfit()
    unknown = dict.fromkeys(("xdp", "ring", "rx_usecs", "pause_tx"), None)
    assert not unfit(**unknown)
    assert not nic.reasons([{**READY, "physical": False, "xdp": []}], [])


def test_another_numa_node_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nic, "nodes_of", lambda cpus: {0} if cpus else set())
    assert "NUMA node" in unfit(numa_node=1)
    assert not unfit(numa_node=0)


def test_the_kernel_reports_a_veth_interface() -> None:
    if why := available():
        pytest.skip(why)
    try:
        with Namespaces((End("left", "10.78.0.1"), End("right", "10.78.0.2"))) as net:
            code = "import json; from nanet.run import nic; print(json.dumps(nic.interfaces()))"
            output, _ = net.start("left", [sys.executable, "-c", code], pipe=True).communicate(timeout=60)
    except RuntimeError as error:
        pytest.skip(f"no network namespaces here: {error}")
    (veth,) = (one for one in json.loads(output) if one["name"] == "right")
    assert veth["mtu"] == 1500 and veth["receive_queues"] == 1 and not veth["physical"]
    assert veth["xdp"] is None or "redirect" in veth["xdp"]


def test_doctor_lists_the_interfaces(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["network"]] == [one["name"] for one in nic.interfaces()]
