# SPDX-License-Identifier: Apache-2.0
"""Kernel settings of a trigger host: examination, commands, and their application with a way back.

A setting is a file of /proc or /sys with the value that a trigger host needs. `nanet doctor` shows them,
`nanet doctor --fix` prints the commands, `nanet tune` writes those that the user may and keeps the former
values in a file, from which `nanet tune --undo` restores them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

import attrs

from nanet.run.host import cpu_numbers, read, siblings

SYSCTL = {
    "net/core/rmem_max": str(64 << 20),
    "net/core/wmem_max": str(64 << 20),
    "net/core/netdev_max_backlog": "250000",
    "kernel/numa_balancing": "0",
    "vm/swappiness": "0",
}  # the reasons: deploy/90-nanet.conf
# Up to Linux 6.11: without it, normal tasks get 50 ms of each second on the CPU of a polling SCHED_FIFO
# thread. Newer kernels have the fair server instead, which this setting leaves running.
THROTTLING = "/proc/sys/kernel/sched_rt_runtime_us"
FAIR_SERVER_SINCE = (6, 12)
AT_LEAST = {"net/core/rmem_max", "net/core/wmem_max", "net/core/netdev_max_backlog"}


@attrs.frozen
class Setting:
    """A kernel setting: its file, the value found, the value needed, and the reason."""

    name: str
    path: str
    found: str
    needed: str
    why: str

    @property
    def fit(self) -> bool:
        """Whether the value found is the value needed; a setting that the kernel lacks is fit."""
        if not self.found:
            return True
        if self.path.removeprefix("/proc/sys/") in AT_LEAST and self.found.isdecimal():
            return int(self.found) >= int(self.needed)
        return self.found == self.needed

    @property
    def command(self) -> str:
        """Shell command that applies the setting, for root."""
        return f"echo {self.needed} > {self.path}"


@attrs.frozen
class Finding:
    """A property that only a boot parameter or another program can change."""

    name: str
    fit: bool
    found: str
    remedy: str


def _release(text: str) -> tuple[int, int]:
    """Version of the kernel; an unknown one counts as new."""
    version = re.match(r"(\d+)\.(\d+)", text)
    return (int(version[1]), int(version[2])) if version else FAIR_SERVER_SINCE


def _bracketed(text: str) -> str:
    """The chosen word of a list such as: always [madvise] never."""
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen.group(1) if chosen else text


def settings(pinned: Iterable[int], root: Path = Path("/")) -> list[Setting]:
    """All settings for the given pinned CPUs. root: of /proc and /sys, for tests."""

    def seen(path: str) -> str:
        return read(str(root / path.lstrip("/")))

    pinned = sorted(pinned)
    found = [
        Setting(key.replace("/", "."), f"/proc/sys/{key}", seen(f"/proc/sys/{key}"), needed, "sysctl")
        for key, needed in SYSCTL.items()
    ]
    if _release(seen("/proc/sys/kernel/osrelease")) < FAIR_SERVER_SINCE:
        found.append(
            Setting(
                "kernel.sched_rt_runtime_us", THROTTLING, seen(THROTTLING), "-1",
                "throttling stops a polling SCHED_FIFO thread for 50 ms of each second",
            )
        )  # fmt: skip
    huge = "/sys/kernel/mm/transparent_hugepage/enabled"
    choice = _bracketed(seen(huge))
    if choice != "always":
        found.append(
            Setting("transparent huge pages", huge, choice, "madvise", "fewer TLB misses in the buffers")
        )
    for cpu in pinned:
        governor = f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"
        found.append(
            Setting(f"governor of CPU {cpu}", governor, seen(governor), "performance", "steady clock")
        )
        server = f"/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"
        found.append(
            Setting(
                f"fair server of CPU {cpu}", server, seen(server), "0",
                "Linux 6.12 and newer stop a SCHED_FIFO thread for normal tasks, also without throttling",
            )
        )  # fmt: skip
    found += _interrupts(pinned, root)
    return [setting for setting in found if setting.found]


def _interrupts(pinned: list[int], root: Path) -> list[Setting]:
    """Interrupts that may arrive on a pinned CPU, each with the list of the other CPUs."""
    online = cpu_numbers(read(str(root / "sys/devices/system/cpu/online")))
    others = ",".join(map(str, sorted(online - set(pinned))))
    if not pinned or not others:
        return []
    found = []
    for folder in sorted((root / "proc/irq").glob("[0-9]*"), key=lambda path: int(path.name)):
        effective = read(str(folder / "effective_affinity_list")) or read(str(folder / "smp_affinity_list"))
        if cpu_numbers(effective) & set(pinned):
            path = f"/proc/irq/{folder.name}/smp_affinity_list"
            found.append(
                Setting(
                    f"interrupt {folder.name}", path, effective, others, "interrupts stop a polling thread"
                )
            )
    return found


def findings(pinned: Iterable[int], root: Path = Path("/")) -> list[Finding]:
    """Properties of the pinned CPUs and of the kernel that no file of /proc or /sys can change."""

    def seen(path: str) -> str:
        return read(str(root / path.lstrip("/")))

    pinned, found = sorted(pinned), []
    text = ",".join(map(str, pinned))
    line = seen("/proc/cmdline")
    for name, path, parameter in (
        ("isolated CPUs", "/sys/devices/system/cpu/isolated", "isolcpus"),
        ("CPUs without timer tick", "/sys/devices/system/cpu/nohz_full", "nohz_full"),
    ):
        there = cpu_numbers(seen(path).replace("(null)", ""))
        missing = [cpu for cpu in pinned if cpu not in there]
        if pinned:
            value = seen(path).replace("(null)", "") or "none"
            found.append(Finding(name, not missing, value, f"kernel parameter {parameter}={text}"))
    if pinned:
        given = re.search(r"\brcu_nocbs=(\S+)", line)
        there = (
            cpu_numbers(given.group(1))
            if given
            else cpu_numbers(seen("/sys/devices/system/cpu/nohz_full").replace("(null)", ""))
        )
        found.append(
            Finding(
                "CPUs without RCU callbacks", set(pinned) <= there, given.group(1) if given else "none",
                f"kernel parameter rcu_nocbs={text}",
            )
        )  # fmt: skip
        shared = sorted({other for cpu in pinned for other in siblings(cpu)} - set(pinned))
        found.append(
            Finding(
                "hyper-threads of pinned CPUs", not shared,
                f"CPUs {','.join(map(str, shared))}" if shared else "none, or pinned too",
                "nosmt on the kernel's command line, or leave those CPUs idle (isolcpus)",
            )
        )  # fmt: skip
        apart = cpu_numbers(seen("/sys/devices/system/cpu/isolated").replace("(null)", ""))
        servers = [seen(f"/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime") for cpu in pinned]
        if _release(seen("/proc/sys/kernel/osrelease")) >= FAIR_SERVER_SINCE and not all(servers):
            found.append(
                Finding(
                    "fair server", set(pinned) <= apart, "not visible (debugfs, needs root)",
                    f"kernel parameter isolcpus={text}: without normal tasks the fair server stays idle",
                )
            )  # fmt: skip
    if seen("/proc/sys/kernel/osrelease"):
        real = seen("/sys/kernel/realtime") == "1"
        found.append(
            Finding(
                "PREEMPT_RT kernel",
                real,
                "yes" if real else "no",
                "boot a PREEMPT_RT kernel (linux-image-rt-amd64)",
            )
        )
    return found


def state_file() -> Path:
    """File of the former values."""
    runtime = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
    return Path(runtime) / f"nanet-tune-{os.geteuid()}.json"


@attrs.frozen
class Change:
    """Result of one write: whether it was made, and the reason if not."""

    setting: Setting
    done: bool
    reason: str = ""


def apply(wanted: Iterable[Setting], state: Path, root: Path = Path("/")) -> list[Change]:
    """Writes the settings that are not fit; keeps the former values in `state` before the first write."""
    changes = []
    former = _former(state)
    for setting in wanted:
        if setting.fit:
            continue
        known = setting.path in former
        try:
            _write(state, {**former, setting.path: former.get(setting.path, setting.found)})
            (root / setting.path.lstrip("/")).write_text(setting.needed)
        except OSError as error:
            if not known:
                _write(state, former)
            changes.append(Change(setting, False, os.strerror(error.errno or 0)))
            continue
        former.setdefault(setting.path, setting.found)
        changes.append(Change(setting, True))
    return changes


def undo(state: Path, root: Path = Path("/")) -> list[Change]:
    """Restores the former values; those that could not be restored stay in `state`."""
    changes, kept = [], {}
    for path, value in reversed(_former(state).items()):
        target = root / path.lstrip("/")
        setting = Setting(path, path, _bracketed(read(str(target))), value, "former value")
        try:
            target.write_text(value)
        except OSError as error:
            kept[path] = value
            changes.append(Change(setting, False, os.strerror(error.errno or 0)))
            continue
        changes.append(Change(setting, True))
    _write(state, kept)
    return changes


def _former(state: Path) -> dict[str, str]:
    try:
        values = json.loads(state.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(path): str(value) for path, value in values.items()} if isinstance(values, dict) else {}


def _write(state: Path, former: dict[str, str]) -> None:
    if not former:
        with contextlib.suppress(FileNotFoundError):
            state.unlink()
        return
    fresh = state.with_suffix(".new")
    fresh.write_text(json.dumps(former, indent=1), encoding="utf-8")
    fresh.replace(state)
