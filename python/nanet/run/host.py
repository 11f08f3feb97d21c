# SPDX-License-Identifier: Apache-2.0
"""Properties of this host from /proc and /sys, its real-time fitness, and the `host` object of results.

The rule for "fit for real time" (docs/configuration.md, Real time) is conservative: an unprepared host is not
fit. Frames then close after 20 ms and are due after 50 ms, instead of 200 µs and 1 ms.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import attrs

MIN_CPUS = 4
MIN_RMEM = 4 << 20
STEADY_CLOCKS = ("tsc", "arch_sys_counter")

_UDP_SEGMENT, _UDP_GRO, _SOL_UDP = 103, 104, 17  # linux/udp.h
_CAP_NET_ADMIN, _CAP_SYS_NICE = 12, 23  # linux/capability.h


@attrs.frozen
class Reason:
    """One examined property: whether it is fit, the value found, and the remedy."""

    name: str
    fit: bool
    found: str
    remedy: str = ""


def read(path: str) -> str:
    """A small file of /proc or /sys without its line end; empty if it does not exist."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def cpus() -> list[int]:
    """CPUs in the affinity mask of this process."""
    return sorted(os.sched_getaffinity(0))


def cpu_numbers(text: str) -> set[int]:
    """CPUs of a list as the kernel prints it: 2-5,8."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            found.update(range(int(first), int(last or first) + 1))
    return found


def siblings(cpu: int) -> set[int]:
    """CPUs of the core of `cpu`, itself included."""
    return {cpu} | cpu_numbers(read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))


def cores() -> list[int]:
    """One CPU per core of this process: two threads of a core slow each other down."""
    apart: list[int] = []
    taken: set[int] = set()
    for cpu in cpus():
        if cpu not in taken:
            apart.append(cpu)
            taken |= siblings(cpu)
    return apart


@contextlib.contextmanager
def apart(cpus: Collection[int]) -> Iterator[None]:
    """Moves the calling thread, and what it starts, to other CPUs than these, if there are any."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, before - set(cpus) or before)
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_quota() -> float | None:
    """CPU time granted by the control group, in CPUs; None without a limit."""
    parts = read("/sys/fs/cgroup/cpu.max").split()
    if len(parts) == 2 and parts[0].isdecimal() and parts[1].isdecimal():
        return int(parts[0]) / int(parts[1])
    return None


def governors() -> set[str]:
    """Frequency governors of the usable CPUs; empty without frequency scaling."""
    found = {read(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus()}
    return found - {""}


def isolated() -> str:
    """CPUs isolated from other work (isolcpus=, cpusets), as the kernel lists them; empty: none."""
    text = read("/sys/devices/system/cpu/isolated")
    return "" if text == "(null)" else text


def rmem_max() -> int:
    """Largest receive buffer of an unprivileged socket, in bytes."""
    text = read("/proc/sys/net/core/rmem_max")
    return int(text) if text.isdecimal() else 0


def has_capability(bit: int) -> bool:
    """Whether this process has a capability (number in linux/capability.h)."""
    found = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", read("/proc/self/status"), re.M)
    return bool(found) and bool(int(found.group(1), 16) >> bit & 1)


def virtual() -> str:
    """Name of the hypervisor; empty on bare metal."""
    if not re.search(r"^flags\s*:.*\bhypervisor\b", read("/proc/cpuinfo"), re.M):
        return ""
    return read("/sys/class/dmi/id/product_name") or read("/sys/class/dmi/id/sys_vendor") or "a hypervisor"


def clock_source() -> str:
    """The kernel's clock source: tsc, kvm-clock, ..."""
    return read("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def huge_pages() -> dict[str, Any]:
    """Number of reserved huge pages, and the setting of transparent ones."""
    memory = read("/proc/meminfo")
    count = re.search(r"^HugePages_Total:\s*(\d+)", memory, re.M)
    free = re.search(r"^HugePages_Free:\s*(\d+)", memory, re.M)
    choice = re.search(r"\[(\w+)\]", read("/sys/kernel/mm/transparent_hugepage/enabled"))
    return {
        "reserved": int(count.group(1)) if count else 0,
        "free": int(free.group(1)) if free else 0,
        "transparent": choice.group(1) if choice else "",
    }


def udp_offload() -> dict[str, bool]:
    """Whether a train of datagrams crosses loopback as one packet (UDP_SEGMENT, UDP_GRO)."""
    result = {"gso": False, "gro": False}
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(0.2)
        with contextlib.suppress(OSError):
            receiver.setsockopt(_SOL_UDP, _UDP_GRO, 1)
        try:
            sender.setsockopt(_SOL_UDP, _UDP_SEGMENT, 256)
            sender.sendto(bytes(1024), receiver.getsockname())
            data, ancillary, _, _ = receiver.recvmsg(65536, socket.CMSG_SPACE(4))
            result["gso"] = len(data) in (256, 1024)
            result["gro"] = len(data) == 1024 and any(
                level == _SOL_UDP and kind == _UDP_GRO for level, kind, _ in ancillary
            )
        except OSError:
            pass
    return result


def gpus() -> list[str]:
    """Names of the NVIDIA GPUs with a loaded driver."""
    found = []
    for information in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        model = re.search(r"^Model:\s*(.+)$", read(str(information)), re.M)
        found.append(model.group(1).strip() if model else "NVIDIA GPU")
    return found


def gpu_driver() -> str:
    """Version of the NVIDIA kernel driver; empty without one."""
    found = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", read("/proc/driver/nvidia/version"))
    return found.group(1) if found else ""


def gpu_states() -> list[dict[str, Any]]:
    """State of each NVIDIA GPU: name, PCIe link (generation, lanes; current and maximum), clocks in MHz.

    Sources: sysfs for the link, nvidia-smi for the clocks (0 if it is not installed).
    """
    clocks = _gpu_clocks()
    found = []
    for number, folder in enumerate(sorted(Path("/proc/driver/nvidia/gpus").glob("*"))):
        information = read(str(folder / "information"))
        model = re.search(r"^Model:\s*(.+)$", information, re.M)
        device = f"/sys/bus/pci/devices/{folder.name}"
        speeds = [read(f"{device}/{which}_link_speed") for which in ("current", "max")]
        lanes = [read(f"{device}/{which}_link_width") for which in ("current", "max")]
        sm, sm_max = clocks.get(folder.name.lower(), clocks.get(str(number), (0, 0)))
        found.append(
            {
                "name": model.group(1).strip() if model else "NVIDIA GPU",
                "pci": folder.name,
                "link_gts": [_leading_number(speed) for speed in speeds],
                "lanes": [int(_leading_number(count)) for count in lanes],
                "clock_mhz": sm,
                "clock_max_mhz": sm_max,
            }
        )
    return found


def _leading_number(text: str) -> float:
    found = re.match(r"[\d.]+", text)
    return float(found.group()) if found else 0.0


def _gpu_clocks() -> dict[str, tuple[int, int]]:
    """PCI address and number of each GPU -> multiprocessor clock, current and maximum, MHz."""
    if not shutil.which("nvidia-smi"):
        return {}
    query = "--query-gpu=index,pci.bus_id,clocks.sm,clocks.max.sm"
    try:
        text = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=10
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    clocks: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 4 and parts[2].isdecimal() and parts[3].isdecimal():
            pair = (int(parts[2]), int(parts[3]))
            clocks[parts[0]] = pair
            clocks[parts[1].lower().removeprefix("0000")] = (
                pair  # nvidia-smi writes domains with eight digits
            )
    return clocks


def gpu_reasons() -> list[Reason]:
    """Properties of each GPU that matter for the trigger's latency; empty without a GPU."""
    reasons = []
    for number, gpu in enumerate(gpu_states()):
        speed, lanes = gpu["link_gts"], gpu["lanes"]
        known = speed[1] > 0 and lanes[1] > 0
        reasons.append(
            Reason(
                f"GPU {number}, PCIe link",
                not known or (speed[0] >= speed[1] and lanes[0] >= lanes[1]),
                f"{speed[0]:g} GT/s x{lanes[0]} of {speed[1]:g} GT/s x{lanes[1]}" if known else "not visible",
                "an idle link may run slower until it has load; else check slot and BIOS",
            )
        )
        clock, most = gpu["clock_mhz"], gpu["clock_max_mhz"]
        reasons.append(
            Reason(
                f"GPU {number}, clock",
                not most or clock >= 0.75 * most,
                f"{clock} of {most} MHz" if most else "not visible (no nvidia-smi)",
                "an idle GPU runs slower and answers the first frames late;  "
                f"nvidia-smi -i {number} -pm 1; nvidia-smi -i {number} -lgc {most}",
            )
        )
    return reasons


def memory_reason() -> Reason:
    """Whether buffers can use huge pages, which reduce TLB misses of GPU and CPU."""
    pages = huge_pages()
    return Reason(
        "huge pages",
        pages["transparent"] in ("always", "madvise"),
        f"transparent: {pages['transparent'] or 'unknown'}, reserved: {pages['reserved']}",
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    )


def has_libcuda() -> bool:
    """Whether the driver's user library can be loaded."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def cuda() -> dict[str, Any]:
    """GPU properties from the compiled core. Keys: built, driver, trouble (reason for no device), devices."""
    try:
        from nanet import _core
    except ImportError as error:
        return {
            "built": False,
            "driver": 0,
            "trouble": f"the compiled core is missing ({error})",
            "devices": [],
        }
    return _core.cuda_devices()


def cpu_model() -> str:
    """Model name of the processor."""
    found = re.search(r"^model name\s*:\s*(.+)$", read("/proc/cpuinfo"), re.M)
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _isolation() -> str:
    """Remedy with CPUs of this host: the first two stay with the system; empty if it has no others."""
    apart = ",".join(map(str, cpus()[2:6]))
    if not apart:
        return ""
    return f"isolate CPUs (kernel parameters isolcpus={apart} nohz_full={apart}, then --pin {apart}) or "


def fit_for_real_time() -> tuple[bool, list[Reason]]:
    """Whether 200 µs and 1 ms are realistic on this host, and the properties examined; all must be fit."""
    reasons = []
    count, quota = len(cpus()), cpu_quota()
    usable = min(count, quota) if quota is not None else count
    reasons.append(
        Reason(
            "CPUs",
            usable >= MIN_CPUS,
            f"{usable:g} CPUs usable" + (f" ({count} allowed, quota {quota:g})" if quota is not None else ""),
            f"needs {MIN_CPUS}: card, worker, sender and the rest of the system need one each",
        )
    )
    apart, governor = isolated(), governors()
    held = governor == {"performance"}
    seen = ", ".join(sorted(governor)) or "not visible"
    reasons.append(
        Reason(
            "CPU steadiness",
            bool(apart) or held,
            f"isolated CPUs: {apart or 'none'}; frequency governor: {seen}",
            _isolation() + "hold the frequency (cpupower frequency-set -g performance)",
        )
    )
    machine = virtual()
    reasons.append(
        Reason(
            "bare metal",
            not machine,
            f"virtual machine ({machine})" if machine else "yes",
            "a hypervisor may take a CPU away at any moment: run on the machine itself",
        )
    )
    forced = has_capability(_CAP_NET_ADMIN)
    reasons.append(
        Reason(
            "socket buffer",
            rmem_max() >= MIN_RMEM or forced,
            f"net.core.rmem_max = {rmem_max()} B" + (", overridden by privilege" if forced else ""),
            f"sysctl -w net.core.rmem_max={64 << 20}",
        )
    )
    clock = clock_source()
    reasons.append(
        Reason(
            "clock source",
            clock in STEADY_CLOCKS,
            clock or "unknown",
            "a steady CPU counter reads in nanoseconds: echo tsc to .../clocksource0/current_clocksource",
        )
    )
    return all(reason.fit for reason in reasons), reasons


def describe() -> dict[str, Any]:
    """Host object of results (JSON key `host`)."""
    return {
        "cpu": cpu_model(),
        "cores": len(cpus()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "gpu": gpus(),
        "virtual": virtual(),
        "governor": sorted(governors()),
        "isolated": isolated(),
        "rmem_max": rmem_max(),
        "clock_source": clock_source(),
        "load": [round(value, 2) for value in os.getloadavg()],
    }
