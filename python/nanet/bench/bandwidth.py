# SPDX-License-Identifier: Apache-2.0
"""`nanet bench bandwidth`: the measurements of the NaNet papers, on this host's sockets and GPU.

Sockets: a program registers buffers of P payloads, sends P packets, waits for the event and checks the data.
GPU: buffers of E events are copied in, fitted, and the primitives copied out. One buffer follows the other,
or two are in flight, so that copies overlap kernels.
"""

from __future__ import annotations

from nanet.bench import Row, Settings, Sheet

PAYLOADS = (1168, 1472)
PACKETS = (1, 2, 4, 8, 16, 32, 64)
EVENTS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
GPU_SECONDS = 0.2


def run(settings: Settings, sheet: Sheet) -> None:
    """Latency with one buffer in flight and throughput with two, by payload and P; then the GPU."""
    from nanet import _core

    rows = sheet.rows
    for payload in PAYLOADS:
        for packets in PACKETS:
            sheet(f"{payload} B x {packets} payloads per buffer")
            measured = _core.bench_bandwidth(payload, packets, settings.seconds or 1.0)
            if measured["wrong"]:
                raise RuntimeError(f"{measured['wrong']} buffers held wrong bytes")
            rows.append(
                {"payload": payload, "packets": packets, "buffer_bytes": payload * packets, **measured}
            )
    best = max(rows, key=lambda row: row["bytes_per_s"])
    sheet.figures |= {
        "bytes_per_s_max": best["bytes_per_s"],
        "packets_per_s_max": max(row["packets_per_s"] for row in rows),
        "p1_1472_p50_us": next(r["p50_us"] for r in rows if r["payload"] == 1472 and r["packets"] == 1),
    }
    if settings.device != "cpu":
        gpu = _gpu(settings, sheet)
        for mode in ("serialised", "overlapped"):
            mine = [row for row in gpu if row["gpu"] == mode]
            sheet.figures[f"gpu_{mode}_events_per_s_max"] = max(row["events_per_s"] for row in mine)
            sheet.figures[f"gpu_{mode}_16_p50_us"] = mine[0]["p50_us"]


def _gpu(settings: Settings, sheet: Sheet) -> list[Row]:
    """Throughput and latency against events per buffer, with copies and kernel in sequence and overlapped."""
    from nanet import _core

    number = int(settings.device.partition(":")[2] or 0)
    rows: list[Row] = []
    for mode in ("serialised", "overlapped"):
        sheet(f"{settings.device}: copy, kernel, copy, {mode}")
        for events in EVENTS:
            seconds = min(settings.seconds or GPU_SECONDS, 1.0)
            measured = _core.bench_buffers_cuda(events, mode == "overlapped", seconds, number)
            rows.append({"gpu": mode, "events": events, "buffer_bytes": 72 * events, **measured})
            sheet.rows.append(rows[-1])
    return rows
