# SPDX-License-Identifier: Apache-2.0
"""Network namespaces joined by veth pairs: several machines on one, for tests and benches."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import attrs

from nanet.errors import UsageError, describe_os_error

PREFIX_LENGTH = 24
MODERATION_NS = 50_000  # between two rounds of NAPI, as the interrupt moderation of a network card
# linux/sockios.h, linux/ethtool.h
_SIOCETHTOOL, _ETHTOOL_STXCSUM, _ETHTOOL_STSO, _ETHTOOL_SGRO = 0x8946, 0x17, 0x1F, 0x2C


def available() -> str:
    """Reason why namespaces cannot be made; empty if they can."""
    if os.geteuid():
        return "network namespaces need root or a user namespace"
    if not shutil.which("ip"):
        return "network namespaces need the program ip (Debian package iproute2)"
    return ""


def in_user_namespace() -> bool:
    """Whether this process is root of a user namespace only."""
    try:
        words = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    except OSError:
        return False
    return words[:3] != ["0", "0", "4294967295"]


def enter_user_namespace(arguments: Sequence[str]) -> None:
    """Without root rights, runs this program again as root of a new user namespace, in this process.

    It also has new network and mount namespaces. arguments: sys.argv of `nanet`. UsageError if the kernel
    refuses, or if another program called.
    """
    if not os.geteuid():
        return
    if Path(arguments[0]).name not in ("nanet", "__main__.py"):
        raise UsageError(available())
    unshare = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--"]
    remedy = "use sudo, or permit it (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, "
    remedy += "kernel.apparmor_restrict_unprivileged_userns=0)"
    # /run/netns must be writable and private.
    script = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'
    try:
        done = subprocess.run(
            [*unshare, "sh", "-c", script, "sh", "true"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UsageError(f"user namespace: {describe_os_error(error)}: use sudo") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UsageError(f"the kernel refuses a user namespace ({reason}): {remedy}")
    command = [*unshare, "sh", "-c", script, "sh", sys.executable, "-m", "nanet", *arguments[1:]]
    sys.stdout.flush()
    os.execvp(command[0], command)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@attrs.frozen
class End:
    """One end of a link: a namespace ("": the caller's), and its IPv4 address there ("": none)."""

    namespace: str
    address: str


class Namespaces:
    """Context manager: network namespaces joined by veth pairs.

    links: pairs of ends, each pair in a separate network of /24. An interface is named like the namespace at
    the other end of its link. queues: of each interface, in both directions.
    """

    def __init__(self, *links: tuple[End, End], queues: int = 1) -> None:
        self._links = links
        self._queues = ["numrxqueues", str(queues), "numtxqueues", str(queues)]
        self._token = secrets.token_hex(3)
        names = {end.namespace for link in links for end in link} - {""}
        self._full = {name: f"nanet-{self._token}-{name}" for name in sorted(names)}

    def __enter__(self) -> Namespaces:
        try:
            for full in self._full.values():
                _ip("netns", "add", full)
                _ip("-n", full, "link", "set", "lo", "up")
            for number, (one, other) in enumerate(self._links):
                names = [f"nanet{self._token}{number}{side}" for side in "ab"]
                _ip("link", "add", names[0], *self._queues, "type", "veth", "peer", "name", names[1],
                    *self._queues)  # fmt: skip
                for name, here, there in ((names[0], one, other), (names[1], other, one)):
                    self._join(name, here, there)
        except BaseException:
            self._remove()
            raise
        return self

    def _join(self, interface: str, here: End, there: End) -> None:
        where: list[str] = []
        if here.namespace:
            full = self._full[here.namespace]
            _ip("link", "set", interface, "netns", full)
            where = ["-n", full]
            name = there.namespace or "host"
            _ip(*where, "link", "set", interface, "name", name)
            interface = name
        if here.address:
            _ip(*where, "addr", "add", f"{here.address}/{PREFIX_LENGTH}", "dev", interface)
        _ip(*where, "link", "set", interface, "up")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for full in self._full.values():
            with contextlib.suppress(RuntimeError):
                _ip("netns", "del", full)

    def command(self, name: str, command: list[str]) -> list[str]:
        """The command that runs `command` in a namespace."""
        if in_user_namespace():  # a new /sys, as by ip, is often refused there
            return ["nsenter", f"--net=/run/netns/{self._full[name]}", "--", *command]
        return ["ip", "netns", "exec", self._full[name], *command]

    def without_trains(self, name: str, interface: str) -> None:
        """Datagrams leave an interface one by one: a train would be lost or delayed as a whole."""
        _in_namespace(self._full[name], lambda: _offload(interface, _ETHTOOL_STXCSUM, False))

    def start(
        self, name: str, command: list[str], *, pipe: bool = False, output: bool = False
    ) -> subprocess.Popen[str]:
        """Starts a command in a namespace. pipe: its standard streams are pipes; output: standard output."""
        if output:
            return subprocess.Popen(self.command(name, command), stdout=subprocess.PIPE, text=True)
        stream = subprocess.PIPE if pipe else None
        return subprocess.Popen(
            self.command(name, command),
            stdin=stream, stdout=stream, stderr=stream, text=True,
        )  # fmt: skip

    def threaded_napi(self, name: str, peer: str, cpu: int = -1) -> list[int]:
        """Moves the packet processing of `name` from `peer` into kernel threads, whose CPU time can be read.

        cpu: that they are pinned to. Returns their numbers.
        """
        # A veth interface uses NAPI with GRO, and for packets of a peer without TSO.
        _in_namespace(self._full[name], lambda: _offload(peer, _ETHTOOL_SGRO, True))
        _in_namespace(self._full[peer], lambda: _offload(name, _ETHTOOL_STSO, False))
        folder = f"/sys/class/net/{peer}"
        path = f"{folder}/threaded"
        orders = (
            f"echo {MODERATION_NS} > {folder}/gro_flush_timeout",
            f"echo 1 > {folder}/napi_defer_hard_irqs",
        )
        for order in (*orders, f"echo 1 > {path}"):
            subprocess.run(self.command(name, ["sh", "-c", order]), check=True)
        code = f"from nanet.run import nic; print(*nic.napi_threads({peer!r}))"
        listing = self.command(name, [sys.executable, "-c", code])
        printed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
        found = [int(number) for number in printed.split()] or _threads_named(f"napi/{peer}-"[:15])
        if not found:
            raise RuntimeError(f"interface {peer} has no NAPI threads after echo 1 > {path}")
        for thread in found:
            if cpu >= 0:
                os.sched_setaffinity(thread, {cpu})
        return found


def _threads_named(begin: str) -> list[int]:
    """Kernel threads by the begin of their name: also those of an equal interface elsewhere."""
    time.sleep(0.1)
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text(encoding="ascii").startswith(begin):
                found.append(int(process.name))
    return found


def _offload(interface: str, command: int, enabled: bool) -> None:
    """Switches an offload of an interface of this namespace."""
    value = ctypes.create_string_buffer(struct.pack("=II", command, enabled))
    request = struct.pack("16sP", interface.encode(), ctypes.addressof(value)).ljust(40, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device.fileno(), _SIOCETHTOOL, request)


def _in_namespace(full: str, action: Callable[[], None]) -> None:
    """Runs a function in a namespace, in a forked process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with open(f"/run/netns/{full}", "rb") as handle:
                if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), 0x40000000):  # CLONE_NEWNET
                    raise OSError(ctypes.get_errno(), "setns")
            action()
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError(f"namespace {full}: cannot set up its interface")
