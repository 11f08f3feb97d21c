# SPDX-License-Identifier: Apache-2.0
"""Path between a NIC and GPU memory: dma-buf or peermem, IOMMU and ACS, ordering of the NIC's writes.

Sources: sysfs for bridges and IOMMU, attributes of the CUDA driver for the rest. A property that neither
reports is None and counts as fit.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

from nanet.run.host import Reason, read

# CUdevice_attribute (cuda.h).
ATTRIBUTES = {"gpu_direct": 116, "flush": 117, "ordering": 118, "dma_buf": 124}
# CUdevice attribute GPU_DIRECT_RDMA_WRITES_ORDERING: whose reads see a NIC's writes in order.
ORDERING = {0: "none", 100: "this GPU", 200: "all devices"}
_BRIDGE_CLASS = "0x0604"
_ACS = 0x000D  # PCIe extended capability
# Redirection of requests and completions between devices, and forwarding upstream (PCIe 6.0, 7.7.11.3).
_ACS_REDIRECT = 0x04 | 0x08 | 0x10


def driver_attributes() -> dict[str, dict[str, int | None]]:
    """PCI address of each GPU -> attributes of the CUDA driver; empty without the driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return {}
    found = {}
    for number in range(count.value):
        device, address = ctypes.c_int(), ctypes.create_string_buffer(32)
        if cuda.cuDeviceGet(ctypes.byref(device), number) or cuda.cuDeviceGetPCIBusId(address, 32, device):
            continue
        values: dict[str, int | None] = {}
        for name, which in ATTRIBUTES.items():
            value = ctypes.c_int()
            failed = cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device)
            values[name] = None if failed else value.value
        found[address.value.decode().lower()] = values
    return found


def _redirects(config: bytes) -> bool | None:
    """Whether ACS of a bridge sends traffic between devices through the root; None: no ACS or hidden."""
    at = 0x100 if len(config) >= 0x104 else 0
    while at:
        (head,) = struct.unpack_from("<I", config, at)
        if head & 0xFFFF == _ACS and at + 8 <= len(config):
            return bool(struct.unpack_from("<H", config, at + 6)[0] & _ACS_REDIRECT)
        following = head >> 20 & 0xFFC
        at = following if at < following <= len(config) - 4 else 0
    return None


def _bridges(device: Path, root: Path) -> list[dict[str, Any]]:
    """Bridges between a device and its root, the nearest first."""
    found = []
    for folder in device.resolve().parents:
        if folder == root.resolve():
            break
        if read(f"{folder}/class").startswith(_BRIDGE_CLASS):
            try:
                config = (folder / "config").read_bytes()
            except OSError:
                config = b""
            redirects = _redirects(config)
            found.append({"pci": folder.name, "redirects": redirects, "visible": len(config) > 0x100})
    return found


def paths(
    attributes: dict[str, dict[str, int | None]] | None = None, root: Path = Path("/")
) -> list[dict[str, Any]]:
    """Properties of the path to each NVIDIA GPU.

    attributes: as from driver_attributes(), which is the default. root: of /proc and /sys, for tests.
    """
    folders = sorted((root / "proc/driver/nvidia/gpus").glob("*"))
    if attributes is None:
        attributes = driver_attributes() if folders else {}
    peermem = any((root / "sys/module" / name).exists() for name in ("nvidia_peermem", "nv_peer_mem"))
    found = []
    for folder in folders:
        device = root / "sys/bus/pci/devices" / folder.name
        found.append(
            {
                "pci": folder.name,
                "peermem": peermem,
                "iommu": read(f"{device}/iommu_group/type") or None,
                "bridges": _bridges(device, root),
                **{**dict.fromkeys(ATTRIBUTES), **attributes.get(folder.name.lower(), {})},
            }
        )
    return found


def reasons(found: list[dict[str, Any]]) -> list[Reason]:
    """Properties of the paths that matter for a NIC that writes into GPU memory."""
    return [reason for number, one in enumerate(found) for reason in _reasons(number, one)]


def _reasons(number: int, one: dict[str, Any]) -> list[Reason]:
    ways = [name for name, there in (("dma-buf", one["dma_buf"]), ("peermem", one["peermem"])) if there]
    unknown = one["dma_buf"] is None and not ways
    redirecting = [bridge["pci"] for bridge in one["bridges"] if bridge["redirects"]]
    hidden = [bridge["pci"] for bridge in one["bridges"] if not bridge["visible"]]
    translated = (one["iommu"] or "").startswith("DMA")
    iommu = f"IOMMU: {one['iommu'] or 'none'}"
    acs = f"ACS redirects at {', '.join(redirecting)}" if redirecting else "ACS does not redirect"
    if hidden and not redirecting:
        acs = "ACS not visible (needs root)"
    remedies = [f"setpci -s {pci} ECAP_ACS+6.w=0000" for pci in redirecting]
    if translated:
        remedies.append("kernel parameter iommu=pt")
    ordering, flush = one["ordering"], one["flush"]
    return [
        Reason(
            f"GPU {number}, memory for NICs",
            unknown or bool(ways),
            "not visible (no CUDA driver)" if unknown else " and ".join(ways) or "none",
            "modprobe nvidia-peermem, or NVIDIA's open kernel modules (dma-buf)",
        ),
        Reason(
            f"GPU {number}, IOMMU and ACS",
            not translated and not redirecting,
            f"{iommu}; {acs}",
            "transfers between NIC and GPU take the way through the processor:  " + "; ".join(remedies),
        ),
        Reason(
            f"GPU {number}, order of writes",
            ordering is None or ordering > 0 or bool(flush),
            "not visible (no CUDA driver)"
            if ordering is None
            else f"seen in order by {ORDERING.get(ordering, str(ordering))}"
            + ("" if ordering else f"; flush: {'yes' if flush else 'no'}"),
            "a completion does not prove that a running kernel sees the payload: receive in host memory",
        ),
    ]
