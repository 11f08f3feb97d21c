# SPDX-License-Identifier: Apache-2.0
"""L0TP endpoint of the benchmarks: keeps the answers of a trigger, by burst and frame."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator

LATE = 0xFF  # sub ID of a header-only answer at the deadline
LONGEST = 2048  # bytes of an answer
RCVBUFFORCE = 33  # SO_RCVBUFFORCE of asm-generic/socket.h


class Answers:
    """Socket that receives answers, in a thread from start() on; it can disconnect for a time.

    keep: leading bytes kept of each answer, whole words. reordered: frames that an answer may be behind an
    earlier one of its burst.
    """

    def __init__(self, host: str = "127.0.0.1", keep: int = LONGEST, reordered: int = 0) -> None:
        self._host, self._port, self._keep, self._reordered = host, 0, keep, reordered
        self._packets: list[bytes] = []
        self._ending = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.reconnect()
        self.address = f"{host}:{self._port}"

    def reconnect(self) -> None:
        """Opens the port, again at the same number."""
        self._socket: socket.socket | None = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        for option in (socket.SO_RCVBUF, RCVBUFFORCE):  # the second one without a limit, for root
            with contextlib.suppress(PermissionError):
                self._socket.setsockopt(socket.SOL_SOCKET, option, 16 << 20)
        self._socket.bind((self._host, self._port))
        self._port = self._socket.getsockname()[1]

    def disconnect(self) -> None:
        """Closes the port."""
        receiver, self._socket = self._socket, None
        if receiver is not None:
            receiver.close()

    def start(self) -> None:
        """Starts to read."""
        self._thread.start()

    def _read(self) -> None:
        while not self._ending:
            receiver = self._socket
            if receiver is None:
                time.sleep(0.002)
                continue
            with contextlib.suppress(OSError, ValueError):  # closed by disconnect
                select.select([receiver], [], [], 0.05)
                while not self._ending:  # until BlockingIOError: one call per answer
                    self._packets.append(receiver.recv(self._keep))

    def close(self) -> None:
        """Ends the thread and closes the port."""
        self._ending = True
        if self._thread.is_alive():
            self._thread.join()
        self.disconnect()

    def frames(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Closes; burst, frame and words of each answer. A frame below the one before begins a burst."""
        self.close()
        burst, before = 0, -1
        for packet in self._packets:
            words = struct.unpack(f"<{len(packet) // 4}I", packet[: len(packet) // 4 * 4])
            frame = words[0] & 0xFFFFFF
            burst += frame + self._reordered < before
            before = frame
            yield burst, frame, words
