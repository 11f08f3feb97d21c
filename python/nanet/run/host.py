# SPDX-License-Identifier: Apache-2.0
"""What this host is: read from /proc and /sys, judged for real time, and written beside every result.

The rule for "fit for real time" (docs/configuration.md, Real time) is conservative: a host that nobody has
prepared is not fit, and then frames get 20 ms to come in and 50 ms to be answered instead of 200 µs and 1 ms.
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
    """One thing that was looked at: whether it is fit, what was found, and what would mend it."""

    name: str
    fit: bool
    found: str
    remedy: str = ""


def read(path: str) -> str:
    """A small file of /proc or /sys without its line end; empty where it is not there."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def cpus() -> list[int]:
    """The CPUs this process may run on."""
    return sorted(os.sched_getaffinity(0))


def siblings(cpu: int) -> set[int]:
    """The CPUs that are threads of the same core as `cpu`, itself included."""
    found = {cpu}
    text = read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            found.update(range(int(first), int(last or first) + 1))
    return found


def cores() -> list[int]:
    """One CPU of each core that this process may use: two threads of a core slow each other down."""
    apart: list[int] = []
    taken: set[int] = set()
    for cpu in cpus():
        if cpu not in taken:
            apart.append(cpu)
            taken |= siblings(cpu)
    return apart


def cpu_quota() -> float | None:
    """CPUs' worth of time that the control group grants, None without a limit."""
    parts = read("/sys/fs/cgroup/cpu.max").split()
    if len(parts) == 2 and parts[0].isdecimal() and parts[1].isdecimal():
        return int(parts[0]) / int(parts[1])
    return None


def governors() -> set[str]:
    """Frequency governors of our CPUs; empty where the kernel offers no frequency scaling."""
    found = {read(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus()}
    return found - {""}


def isolated() -> str:
    """CPUs kept free of other work (isolcpus=, cpusets), as the kernel lists them; empty: none."""
    text = read("/sys/devices/system/cpu/isolated")
    return "" if text == "(null)" else text


def rmem_max() -> int:
    """Largest receive buffer that an unprivileged socket gets, in bytes."""
    text = read("/proc/sys/net/core/rmem_max")
    return int(text) if text.isdecimal() else 0


def has_capability(bit: int) -> bool:
    """Whether this process holds a capability (its number in linux/capability.h)."""
    found = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", read("/proc/self/status"), re.M)
    return bool(found) and bool(int(found.group(1), 16) >> bit & 1)


def virtual() -> str:
    """What the machine is run by, where it is a virtual one; empty on bare metal."""
    if not re.search(r"^flags\s*:.*\bhypervisor\b", read("/proc/cpuinfo"), re.M):
        return ""
    return read("/sys/class/dmi/id/product_name") or read("/sys/class/dmi/id/sys_vendor") or "a hypervisor"


def clock_source() -> str:
    """The kernel's clock source: tsc, kvm-clock, ..."""
    return read("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def huge_pages() -> dict[str, Any]:
    """Reserved huge pages and the setting of transparent ones."""
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
    """Whether a train of datagrams crosses loopback in one piece: segmentation out, coalescing in."""
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
    """Names of the NVIDIA GPUs whose driver is loaded."""
    found = []
    for information in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        model = re.search(r"^Model:\s*(.+)$", read(str(information)), re.M)
        found.append(model.group(1).strip() if model else "NVIDIA GPU")
    return found


def gpu_driver() -> str:
    """Version of the NVIDIA kernel driver; empty where there is none."""
    found = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", read("/proc/driver/nvidia/version"))
    return found.group(1) if found else ""


def gpu_states() -> list[dict[str, Any]]:
    """Each NVIDIA GPU as found: name, PCIe link (generation, lanes; now and at most), clocks in MHz.

    The link is sysfs's; clocks are nvidia-smi's, 0 where it is not installed.
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
    """PCI address (and number) of each GPU -> clock of its multiprocessors now and at most, MHz."""
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
            clocks[parts[1].lower().removeprefix("0000")] = pair  # nvidia-smi writes domains of eight digits
    return clocks


def gpu_reasons() -> list[Reason]:
    """What of each GPU is not as it should be in the loop; nothing where there is none."""
    reasons = []
    for number, gpu in enumerate(gpu_states()):
        speed, lanes = gpu["link_gts"], gpu["lanes"]
        known = speed[1] > 0 and lanes[1] > 0
        reasons.append(
            Reason(
                f"GPU {number}, PCIe link",
                not known or (speed[0] >= speed[1] and lanes[0] >= lanes[1]),
                f"{speed[0]:g} GT/s x{lanes[0]} of {speed[1]:g} GT/s x{lanes[1]}" if known else "not visible",
                "an idle link may have slowed down and comes back under load; else: another slot, the BIOS",
            )
        )
        clock, most = gpu["clock_mhz"], gpu["clock_max_mhz"]
        reasons.append(
            Reason(
                f"GPU {number}, clock",
                not most or clock >= 0.75 * most,
                f"{clock} of {most} MHz" if most else "not visible (no nvidia-smi)",
                "an idle GPU has slowed down: the first frames are late; "
                f"nvidia-smi -i {number} -pm 1; nvidia-smi -i {number} -lgc {most}",
            )
        )
    return reasons


def memory_reason() -> Reason:
    """Whether buffers can lie in huge pages, which spare the GPU and the CPU many look-ups of addresses."""
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
    """What the compiled core finds: keys built, driver, trouble (why nothing), devices."""
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
    """The processor's name."""
    found = re.search(r"^model name\s*:\s*(.+)$", read("/proc/cpuinfo"), re.M)
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def fit_for_real_time() -> tuple[bool, list[Reason]]:
    """Whether this host may be asked for 200 µs and 1 ms, and what was looked at; fit if all of it is."""
    reasons = []
    count, quota = len(cpus()), cpu_quota()
    usable = min(count, quota) if quota is not None else count
    reasons.append(
        Reason(
            "CPUs",
            usable >= MIN_CPUS,
            f"{usable:g} CPUs usable" + (f" ({count} allowed, quota {quota:g})" if quota is not None else ""),
            f"needs {MIN_CPUS}: card, worker, sender and the rest of the system each want one",
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
            "isolate CPUs (kernel parameter isolcpus=2-5 nohz_full=2-5, then --pin 2-5) "
            "or hold the frequency (cpupower frequency-set -g performance)",
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
    """The host as results carry it (JSON key `host`)."""
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
