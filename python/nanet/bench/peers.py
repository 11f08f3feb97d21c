# SPDX-License-Identifier: Apache-2.0
"""CPU time per received packet: the card, a bare recvmmsg loop, and spead2's receiver, at equal sizes.

Every receiver runs in one thread and blocks when idle. The load is the same: frames of four boards, datagrams
of 1168 B, sent in trains (UDP_SEGMENT) or one by one. spead2 has a different protocol, so its own sender
provides the load, at the same packet size and rate.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading

from nanet.bench import Row, Sheet

PAYLOAD = 1168
RECEIVERS = ("recvmmsg", "recvmmsg_gro", "card")


def cpu_per_packet(seconds: float, packets_per_s: float, sheet: Sheet) -> list[Row]:
    """One row per receiver and kind of load, added to the sheet and returned."""
    from nanet import _core

    first = len(sheet.rows)
    for segment in (False, True):
        for kind in RECEIVERS:
            sheet(f"{kind}, {'trains' if segment else 'single datagrams'}, {packets_per_s:.0f} packets/s")
            probe = _core.ReceiveProbe(kind)
            load = {
                "to": f"127.0.0.1:{probe.port}",
                "payload": PAYLOAD,
                "seconds": seconds,
                "packets_per_s": packets_per_s,
                "segment": segment,
            }
            sender = threading.Thread(target=_core.bench_blast, kwargs=load)
            sender.start()
            got = probe.run()
            sender.join()
            sheet.rows.append(_row(kind, "trains" if segment else "single", got))
    if importlib.util.find_spec("spead2"):
        sheet("spead2's receiver")
        sheet.rows.append(_row("spead2", "its own sender", spead2(seconds, packets_per_s)))
    else:
        sheet("spead2 is not installed (pip install spead2): left out")
    return sheet.rows[first:]


def _row(receiver: str, load: str, got: dict[str, float]) -> Row:
    return {
        "receiver": receiver,
        "load": load,
        "packets": got["packets"],
        "overflow": got["overflow"],
        "cpu_s": got["cpu_s"],
        "packets_per_cpu_s": got["packets"] / got["cpu_s"] if got["cpu_s"] else 0.0,
    }


def spead2(seconds: float, packets_per_s: float) -> dict[str, float]:
    """Packets and CPU time of spead2's receiver, in a separate process."""
    receiver = subprocess.Popen(
        [sys.executable, "-m", "nanet.bench.spead2_peer", "receive"], stdout=subprocess.PIPE, text=True
    )
    assert receiver.stdout is not None
    try:
        port = receiver.stdout.readline().strip()
        send = ["send", port, str(seconds), str(packets_per_s), str(PAYLOAD)]
        subprocess.run(
            [sys.executable, "-m", "nanet.bench.spead2_peer", *send], check=True, stderr=subprocess.DEVNULL
        )
        text, _ = receiver.communicate(timeout=seconds + 30)
    finally:
        receiver.kill()
        receiver.wait()
    return json.loads(text)
