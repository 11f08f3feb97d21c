# SPDX-License-Identifier: Apache-2.0
"""Path to GPU memory in `nanet doctor`: bridges, IOMMU and driver attributes of a made tree."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from nanet.cli import doctor
from nanet.run import gpu_path

GPU, BRIDGE, PORT = "0000:3b:00.0", "0000:3a:00.0", "0000:39:00.0"
READY = {"gpu_direct": 1, "flush": 1, "ordering": 100, "dma_buf": 1}


def config(acs: int | None) -> bytes:
    """4 KiB of configuration space: AER, and ACS with the given control word behind it."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | (0x148 << 20 if acs is not None else 0))
    if acs is not None:
        struct.pack_into("<IHH", space, 0x148, 0x000D | 1 << 16, 0x5F, acs)
    return bytes(space)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A GPU behind a switch port and a root port."""
    root = tmp_path / "machine"
    port = root / "sys/devices/pci0000:39" / PORT
    device = port / BRIDGE / GPU
    device.mkdir(parents=True)
    for folder, kind in ((port, "0x060400"), (port / BRIDGE, "0x060400"), (device, "0x030200")):
        (folder / "class").write_text(kind + "\n")
        (folder / "config").write_bytes(config(0))
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (devices / GPU).symlink_to(device)
    group = root / "sys/kernel/iommu_groups/7"
    group.mkdir(parents=True)
    (group / "type").write_text("identity\n")
    (device / "iommu_group").symlink_to(group)
    (root / "proc/driver/nvidia/gpus" / GPU).mkdir(parents=True)
    return root


def unfit(machine: Path, **changes: int | None) -> dict[str, gpu_path.Reason]:
    found = gpu_path.reasons(gpu_path.paths({GPU: {**READY, **changes}}, machine))
    return {reason.name.removeprefix("GPU 0, "): reason for reason in found if not reason.fit}


def test_a_prepared_path_is_fit(machine: Path) -> None:
    (one,) = gpu_path.paths({GPU: READY}, machine)
    assert [bridge["pci"] for bridge in one["bridges"]] == [BRIDGE, PORT]
    assert not unfit(machine)


def test_acs_of_a_bridge_is_named_with_its_command(machine: Path) -> None:
    port = machine / "sys/devices/pci0000:39" / PORT
    (port / BRIDGE / "config").write_bytes(config(0x1D))
    (port / "config").write_bytes(config(0x01))  # source validation alone does not redirect
    found = unfit(machine)
    assert list(found) == ["IOMMU and ACS"]
    assert f"setpci -s {BRIDGE} ECAP_ACS+6.w=0000" in found["IOMMU and ACS"].remedy
    assert PORT not in found["IOMMU and ACS"].remedy


@pytest.mark.parametrize("kind", ["DMA", "DMA-FQ"])
def test_a_translating_iommu_is_named(machine: Path, kind: str) -> None:
    (machine / "sys/kernel/iommu_groups/7/type").write_text(kind)
    assert "iommu=pt" in unfit(machine)["IOMMU and ACS"].remedy


def test_configuration_space_of_an_ordinary_user(machine: Path) -> None:
    port = machine / "sys/devices/pci0000:39" / PORT
    for folder in (port, port / BRIDGE):
        (folder / "config").write_bytes(config(0x1D)[:64])
    found = {r.name: r for r in gpu_path.reasons(gpu_path.paths({GPU: READY}, machine))}
    assert found["GPU 0, IOMMU and ACS"].fit and "needs root" in found["GPU 0, IOMMU and ACS"].found


def test_dma_buf_or_peermem(machine: Path) -> None:
    assert "nvidia-peermem" in unfit(machine, dma_buf=0)["memory for NICs"].remedy
    (machine / "sys/module/nvidia_peermem").mkdir(parents=True)
    assert not unfit(machine, dma_buf=0)


def test_unordered_writes_need_a_flush(machine: Path) -> None:
    assert not unfit(machine, ordering=0, flush=1)
    assert "order of writes" in unfit(machine, ordering=0, flush=0)


def test_without_the_driver_only_sysfs_is_judged(machine: Path) -> None:
    found = gpu_path.reasons(gpu_path.paths({}, machine))
    assert len(found) == 3 and all(reason.fit for reason in found)
    assert "not visible" in found[0].found and "not visible" in found[2].found


def test_damaged_capabilities_end_the_walk(machine: Path) -> None:
    space = bytearray(config(0x1D))
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x100 << 20)  # points to itself
    assert gpu_path._redirects(bytes(space)) is None
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0xFFC << 20)
    assert gpu_path._redirects(bytes(space[:0x200])) is None


def test_doctor_reports_the_paths(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = gpu_path.paths({GPU: {**READY, "dma_buf": 0}}, machine)
    monkeypatch.setattr(gpu_path, "paths", lambda: found)
    report = doctor.examine([])
    assert report["gpu_paths"] == found
    assert [one["name"] for one in report["advice"] if not one["fit"] and "GPU" in one["name"]] == [
        "GPU 0, memory for NICs"
    ]
