# SPDX-License-Identifier: Apache-2.0
"""Free ports of 127.0.0.1 for programs that start later, reserved against other processes of nanet."""

from __future__ import annotations

import random
import socket
from collections import deque
from contextlib import suppress

# Below the range from which Linux takes ports for sockets that name none (net.ipv4.ip_local_port_range).
FIRST, END = 16_384, 32_768
_random = random.SystemRandom()  # a seed that a test sets would give all processes the same ports
# A name in the abstract namespace for each port: one process of a network namespace holds it, until it exits.
_reserved: deque[socket.socket] = deque(maxlen=256)


def _reserve(kind: socket.SocketKind, number: int) -> int:
    """Reserves `number` ports in a row; the first of them."""
    for _ in range(10_000):
        first = _random.randrange(FIRST, END - number + 1)
        names: list[socket.socket] = []
        with suppress(OSError):
            for port in range(first, first + number):
                names.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                names[-1].bind(f"\0nanet-port-{port}")
                with socket.socket(socket.AF_INET, kind) as one:
                    one.bind(("", port))
            _reserved.extend(names)
            return first
        for name in names:
            name.close()
    raise OSError(f"no free port from {FIRST} to {END - 1}; end programs that hold them")


def free_ports(number: int) -> list[int]:
    """Free UDP ports of 127.0.0.1, each handed out once."""
    return [_reserve(socket.SOCK_DGRAM, 1) for _ in range(number)]


def free_port_pair() -> int:
    """A free UDP port of 127.0.0.1 whose successor is free, too."""
    return _reserve(socket.SOCK_DGRAM, 2)


def free_tcp_port() -> int:
    """A free TCP port of 127.0.0.1."""
    return _reserve(socket.SOCK_STREAM, 1)
