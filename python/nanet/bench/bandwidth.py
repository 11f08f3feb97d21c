# SPDX-License-Identifier: Apache-2.0
"""`nanet bench bandwidth`: the historic measurement of the NaNet papers, on this host's sockets.

One program registers buffers of P payloads, sends P packets, waits for the event and checks the data.
"""

from __future__ import annotations

from nanet.bench import Row, Say, Settings

PAYLOADS = (1168, 1472)
PACKETS = (1, 2, 4, 8, 16, 32, 64)


def run(settings: Settings, say: Say) -> tuple[list[Row], dict[str, float]]:
    """Latency with one buffer in flight and throughput with two, for each payload and P."""
    from nanet import _core

    rows: list[Row] = []
    for payload in PAYLOADS:
        for packets in PACKETS:
            say(f"{payload} B x {packets} payloads per buffer")
            measured = _core.bench_bandwidth(payload, packets, settings.seconds or 1.0)
            if measured["wrong"]:
                raise RuntimeError(f"{measured['wrong']} buffers did not hold the bytes that were sent")
            rows.append(
                {"payload": payload, "packets": packets, "buffer_bytes": payload * packets, **measured}
            )
    best = max(rows, key=lambda row: row["bytes_per_s"])
    figures = {
        "bytes_per_s_max": best["bytes_per_s"],
        "packets_per_s_max": max(row["packets_per_s"] for row in rows),
        "p1_1472_p50_us": next(r["p50_us"] for r in rows if r["payload"] == 1472 and r["packets"] == 1),
    }
    return rows, figures
