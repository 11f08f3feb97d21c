# SPDX-License-Identifier: Apache-2.0
"""Network interfaces of this host: XDP and time stamps, ring, coalescing, pause, queues, NUMA node.

Sources: generic netlink (families `netdev` and `ethtool`) and sysfs. A property that the kernel or the driver
does not report is None.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nanet.run.host import Reason, read

NETLINK_GENERIC, _CONTROL = 16, 16  # linux/netlink.h, GENL_ID_CTRL
_REQUEST, _DUMP = 1, 0x301
_DONE, _ERROR = 3, 2
# Bits of NETDEV_A_DEV_XDP_FEATURES (linux/netdev.h).
XDP_MODES = ("basic", "redirect", "ndo-xmit", "xsk-zerocopy", "hw-offload", "rx-sg", "ndo-xmit-sg")
_GET_RINGS, _GET_CHANNELS, _GET_COALESCE, _GET_PAUSE = 15, 17, 19, 21  # linux/ethtool_netlink.h
_GET_NAPI = 11  # linux/netdev.h
MOST_RX_USECS = 10  # of interrupt moderation: a tenth of a round trip
LEAST_RING = 1024

Attributes = dict[int, bytes]


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _attributes(data: bytes) -> Attributes:
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


class _Generic:
    """Generic netlink requests to one family. OSError if the kernel lacks it."""

    def __init__(self, family: str) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self._socket.bind((0, 0))
        self._socket.settimeout(1.0)
        try:
            found = list(self._ask(_CONTROL, 3, _attribute(2, family.encode() + b"\0"), _REQUEST))
            (self._family,) = struct.unpack_from("=H", found[0][1])
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> _Generic:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def get(self, command: int, attributes: bytes = b"", *, dump: bool = False) -> list[Attributes]:
        """Answers to a request. OSError: refused."""
        return list(self._ask(self._family, command, attributes, _DUMP if dump else _REQUEST))

    def _ask(self, family: int, command: int, attributes: bytes, flags: int) -> Iterator[Attributes]:
        body = struct.pack("=BBH", command, 1, 0) + attributes
        self._socket.send(struct.pack("=IHHII", 16 + len(body), family, flags, 1, 0) + body)
        while True:
            data = self._socket.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                message, data = data[16:length], data[(length + 3) & ~3 :]
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    (error,) = struct.unpack_from("=i", message)
                    if error:
                        raise OSError(-error, os.strerror(-error))
                    return
                yield _attributes(message[4:])
            if flags == _REQUEST:
                return


def _number(attributes: Attributes, kind: int) -> int | None:
    value = attributes.get(kind)
    return int.from_bytes(value, "little") if value is not None else None


def _xdp() -> dict[int, dict[str, Any]]:
    """Interface number -> XDP modes and hardware time stamps; empty before Linux 6.3."""
    found: dict[int, dict[str, Any]] = {}
    with contextlib.suppress(OSError, IndexError), _Generic("netdev") as netdev:
        for device in netdev.get(1, dump=True):
            modes, metadata = _number(device, 3) or 0, _number(device, 5) or 0
            found[_number(device, 1) or 0] = {
                "xdp": [name for bit, name in enumerate(XDP_MODES) if modes >> bit & 1],
                "zero_copy": bool(modes >> XDP_MODES.index("xsk-zerocopy") & 1),
                "xdp_stamps": bool(metadata & 1),
            }
    return found


def _ethtool(name: str) -> dict[str, Any]:
    """Settings of the driver."""
    found: dict[str, Any] = {}
    header = _attribute(1 | 0x8000, _attribute(2, name.encode() + b"\0"))
    with contextlib.suppress(OSError, IndexError), _Generic("ethtool") as ethtool:

        def get(command: int) -> Attributes:
            with contextlib.suppress(OSError):  # not of this driver
                return next(iter(ethtool.get(command, header)), {})
            return {}

        rings, channels = get(_GET_RINGS), get(_GET_CHANNELS)
        coalesce, pause = get(_GET_COALESCE), get(_GET_PAUSE)
        found = {
            "ring": _number(rings, 6),
            "ring_max": _number(rings, 2),
            "combined_queues": _number(channels, 9),
            "rx_usecs": _number(coalesce, 2),
            "adaptive": _flag(coalesce, 11),
            "pause_rx": _flag(pause, 3),
            "pause_tx": _flag(pause, 4),
        }
    return found


def _flag(attributes: Attributes, kind: int) -> bool | None:
    number = _number(attributes, kind)
    return None if number is None else bool(number)


def interfaces() -> list[dict[str, Any]]:
    """Properties of every interface but the loopback, physical ones first."""
    xdp = _xdp()
    found = []
    for folder in sorted(Path("/sys/class/net").glob("*")):
        if folder.name == "lo" or not (folder / "ifindex").exists():
            continue
        device = folder / "device"
        driver = device / "driver"
        node = read(f"{device}/numa_node")
        found.append(
            {
                "name": folder.name,
                "physical": device.exists(),
                "driver": driver.resolve().name if driver.exists() else "",
                "state": read(f"{folder}/operstate"),
                "mtu": int(read(f"{folder}/mtu") or 0),
                "receive_queues": len(list((folder / "queues").glob("rx-*"))),
                "numa_node": int(node) if node and int(node) >= 0 else None,
                **xdp.get(int(read(f"{folder}/ifindex") or 0), {"xdp": None, "zero_copy": None,
                                                                "xdp_stamps": None}),
                **_ethtool(folder.name),
            }
        )  # fmt: skip
    return sorted(found, key=lambda one: not one["physical"])


def napi_threads(interface: str) -> list[int]:
    """Kernel threads that process packets of an interface (NAPI in threads); empty before Linux 6.8."""
    device = _attribute(1, struct.pack("=I", socket.if_nametoindex(interface)))
    with contextlib.suppress(OSError, IndexError), _Generic("netdev") as netdev:
        found = [_number(napi, 4) for napi in netdev.get(_GET_NAPI, device, dump=True)]
        return [number for number in found if number]
    return []


def nodes_of(cpus: list[int]) -> set[int]:
    """NUMA nodes of CPUs."""
    found = set()
    for cpu in cpus:
        for node in Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node*"):
            found.add(int(node.name.removeprefix("node")))
    return found


def gpu_nodes() -> set[int]:
    """NUMA nodes of the NVIDIA GPUs."""
    texts = (
        read(f"/sys/bus/pci/devices/{folder.name}/numa_node")
        for folder in Path("/proc/driver/nvidia/gpus").glob("*")
    )
    return {int(text) for text in texts if text and int(text) >= 0}


def reasons(found: list[dict[str, Any]], pinned: list[int]) -> list[Reason]:
    """Properties of physical interfaces that matter for latency and losses. pinned: the trigger's CPUs."""
    out = []
    for one in found:
        if one["physical"]:
            out += _reasons(one, nodes_of(pinned), gpu_nodes())
    return out


def _reasons(one: dict[str, Any], cpu_nodes: set[int], gpus: set[int]) -> Iterator[Reason]:
    name = one["name"]
    modes = one["xdp"]
    yield Reason(
        f"NIC {name}, XDP",
        modes is None or "redirect" in modes,
        "not reported (Linux 6.3)" if modes is None else " ".join(modes) or "none",
        "no XDP in the driver: the xdp card takes the kernel's generic path; use --card socket",
    )
    if modes and "redirect" in modes:
        yield Reason(
            f"NIC {name}, zero copy",
            bool(one["zero_copy"]),
            ("yes" if one["zero_copy"] else "no") + f"; stamps: {'yes' if one['xdp_stamps'] else 'software'}",
            "the driver copies each packet into the card's memory: a newer kernel or another driver",
        )
    ring, most = one.get("ring"), one.get("ring_max")
    if ring is not None and most:
        wanted = min(most, LEAST_RING)
        yield Reason(
            f"NIC {name}, ring",
            ring >= wanted,
            f"{ring} of {most} packets",
            f"ethtool -G {name} rx {wanted}",
        )
    usecs, adaptive = one.get("rx_usecs"), one.get("adaptive")
    if usecs is not None:
        yield Reason(
            f"NIC {name}, coalescing",
            usecs <= MOST_RX_USECS and not adaptive,
            f"{usecs} us" + (", adaptive" if adaptive else ""),
            f"ethtool -C {name} adaptive-rx off rx-usecs 0",
        )
    if one.get("pause_tx") is not None:
        pausing = one["pause_rx"] or one["pause_tx"]
        yield Reason(
            f"NIC {name}, pause",
            not pausing,
            "on: frames of one receiver hold up the boards" if pausing else "off",
            f"ethtool -A {name} rx off tx off",
        )
    node = one["numa_node"]
    if node is not None:
        others = {"pinned CPUs": cpu_nodes, "GPU": gpus}
        apart = [what for what, nodes in others.items() if nodes and node not in nodes]
        yield Reason(
            f"NIC {name}, NUMA node",
            not apart,
            f"{node}" + "".join(f"; {what}: {sorted(others[what])}" for what in apart),
            "put NIC, GPU and pinned CPUs on one node (--pin; another slot)",
        )
