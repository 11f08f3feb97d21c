# SPDX-License-Identifier: Apache-2.0
"""Forwarder of Ethernet frames between two interfaces; loss, delay and reordering of UDP in one direction.

`python -m nanet.run.forwarder FROM TO FAULTS SEED` runs in a namespace with both interfaces until SIGTERM,
then prints its account as JSON. It emulates a link on kernels without netem. Other frames, and all frames
towards FROM, pass unchanged. Packet sockets carry virtio-net headers, so unfinished checksums stay so.
"""

from __future__ import annotations

import collections
import json
import random
import select
import signal
import socket
import struct
import sys
import time
from types import FrameType

# linux/if_packet.h, linux/if_ether.h
SOL_PACKET, PACKET_STATISTICS, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 6, 15, 23
ETH_P_ALL = 3
VNET_HEADER = 10
BUFFER = 1 << 16
RECEIVE_BUFFER = 64 << 20
BATCH = 64  # frames of one direction before the other is served
HOLD_S = 1e-3  # longest wait of a reordered frame for the next one


class Account:
    """Frames of the faulty direction by outcome; in = lost + sent + send_errors, and overflow is not in."""

    def __init__(self) -> None:
        self.packets = 0  # UDP received
        self.lost = 0
        self.reordered = 0
        self.sent = 0
        self.send_errors = 0
        self.overflow = 0  # frames dropped before they were received


def is_udp(frame: memoryview) -> bool:
    """Whether a frame behind its virtio-net header is IPv4 UDP."""
    at = VNET_HEADER
    return len(frame) > at + 34 and frame[at + 12 : at + 14] == b"\x08\x00" and frame[at + 23] == 17


class Link:
    """The faulty direction: frames wait in the order of their departure."""

    def __init__(self, out: socket.socket, faults: dict[str, float], seed: int) -> None:
        self.account = Account()
        self._out = out
        self._loss, self._reorder = faults.get("link_loss", 0.0), faults.get("link_reorder", 0.0)
        self._delay = faults.get("link_delay", 0.0)
        self._random = random.Random(seed)
        self._waiting: collections.deque[tuple[float, bytes, bool]] = collections.deque()
        self._held: tuple[float, bytes] | None = None

    def take(self, frame: memoryview, now: float) -> None:
        """Accepts a frame at `now` (s)."""
        udp = is_udp(frame)
        if udp:
            self.account.packets += 1
            if self._loss and self._random.random() < self._loss:
                self.account.lost += 1
                return
            if self._reorder and self._held is None and self._random.random() < self._reorder:
                self.account.reordered += 1
                self._held = (now + self._delay + HOLD_S, bytes(frame))
                return
        self._waiting.append((now + self._delay if udp else now, bytes(frame), udp))
        if udp and self._held is not None:
            self._waiting.append((now + self._delay, self._held[1], True))
            self._held = None

    def release(self, now: float) -> float | None:
        """Sends frames that are due; seconds until the next one, None without any."""
        while self._waiting and self._waiting[0][0] <= now:
            _, frame, udp = self._waiting.popleft()
            self._send(frame, udp)
        if self._held is not None and not self._waiting and self._held[0] <= now:
            self._send(self._held[1], True)
            self._held = None
        due = [self._waiting[0][0]] if self._waiting else []
        due += [self._held[0]] if self._held is not None else []
        return max(min(due) - now, 0.0) if due else None

    def _send(self, frame: bytes, udp: bool) -> None:
        try:
            self._out.send(frame)
            self.account.sent += udp
        except OSError:
            self.account.send_errors += udp


def packet_socket(interface: str) -> socket.socket:
    """Packet socket of an interface, for frames that arrive there."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    made.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    for option in (33, socket.SO_RCVBUF):  # SO_RCVBUFFORCE needs CAP_NET_ADMIN of the host
        try:
            made.setsockopt(socket.SOL_SOCKET, option, RECEIVE_BUFFER)
            break
        except PermissionError:
            continue
    made.bind((interface, ETH_P_ALL))
    made.setblocking(False)
    return made


def run(source: str, target: str, faults: dict[str, float], seed: int) -> Account:
    """Forwards until SIGTERM; the account of the direction from `source` to `target`."""
    stop: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        stop.append(number)

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with packet_socket(source) as one, packet_socket(target) as other:
        link = Link(other, faults, seed)
        print("ready", flush=True)
        buffer = memoryview(bytearray(VNET_HEADER + BUFFER))
        wait: float | None = None
        while True:
            ready, _, _ = select.select([one, other], [], [], 0.05 if wait is None else min(wait, 0.05))
            for reader in ready:
                for _ in range(BATCH):
                    try:
                        size = reader.recv_into(buffer)
                    except OSError:  # empty, or the interface is down
                        break
                    if reader is one:
                        link.take(buffer[:size], time.monotonic())
                    else:
                        _pass(one, buffer[:size])
            wait = link.release(time.monotonic())
            if stop and not ready and wait is None:
                break
        _, link.account.overflow = struct.unpack("II", one.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    return link.account


def _pass(out: socket.socket, frame: memoryview) -> None:
    try:
        out.send(frame)
    except OSError:
        return


if __name__ == "__main__":
    account = run(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]))
    print(json.dumps(vars(account)), flush=True)
