# SPDX-License-Identifier: Apache-2.0
"""`nanet bench rdma`: put with its event between two nodes, through the whole device library.

No card is behind the GPU: a resident block of threads for each node, and the copy engine, execute the
operations. Published times of APEnet+ stand beside ours; they are of another machine and of real cards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nanet.bench import Settings, Sheet
from nanet.errors import UsageError
from nanet.run import host
from nanet.torus import curves

if TYPE_CHECKING:
    from nanet import _core

KIB, MIB = 1 << 10, 1 << 20
SIZES = (8, 4 * KIB, 128 * KIB)
CURVE = (8, 64, 512, 4 * KIB, 32 * KIB, 128 * KIB, MIB)  # G-G alone
NAMES = {8: "", 4 * KIB: "_4k", 128 * KIB: "_128k"}
BANDWIDTH = (4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
SHARE_FROM = 16 * MIB
ROUNDS = 5000
# Half round trips of small messages.
PUBLISHED = {
    "APEnet+, GPU to GPU": curves.PUBLISHED["G-G_us"],
    "APEnet+, staged": curves.PUBLISHED["staged_us"],
}


def run(settings: Settings, sheet: Sheet) -> None:
    """Half round trips by memory and size; bandwidth of puts beside the copy engine."""
    from nanet import _core

    bench = _core.rdma_bench(*gpus(settings.device))
    on_gpu = settings.device != "cpu"
    sheet(f"card: {bench.card}; {bench.link}")
    sheet.rows.append({"card": bench.card, "between": bench.link})
    shown = {"G-G": CURVE, "H-G": SIZES, "H-H": SIZES, "staged": SIZES} if on_gpu else {"H-H": CURVE}
    for path, sizes in shown.items():
        for size in sizes:
            half_round_trip(bench, path, size, settings, sheet)
    if on_gpu:
        for name, value in PUBLISHED.items():
            sheet.rows.append({"published": name, "half_round_trip_us": value})
        sheet.figures["published_half_round_trip_us"] = PUBLISHED["APEnet+, GPU to GPU"]
        sheet.figures["published_staged_us"] = PUBLISHED["APEnet+, staged"]
    bandwidth(bench, sheet)


def gpus(device: str) -> tuple[int, int]:
    """GPUs of both nodes: the given one, and the next where there are two. Host threads: (-1, -1)."""
    if device == "cpu":
        return -1, -1
    first = int(device.partition(":")[2] or 0)
    count = len(host.cuda()["devices"])
    if first >= count:
        raise UsageError(f"--device {device}: there is no such GPU; use --device cpu")
    return first, (first + 1) % count


def half_round_trip(bench: _core.RdmaBench, path: str, size: int, settings: Settings, sheet: Sheet) -> None:
    """Median over the runs. RuntimeError for a message with wrong data."""
    sheet(f"{path}, {size} B")
    rounds = max(10, int(ROUNDS * min(settings.seconds, 1.0))) if settings.seconds else ROUNDS
    measured = [bench.half_round_trip(path, size, rounds) for _ in range(settings.runs)]
    if wrong := sum(one["wrong"] for one in measured):
        raise RuntimeError(f"{path}, {size} B: {wrong} messages were wrong")
    middle = sorted(measured, key=lambda one: one["p50_us"])[len(measured) // 2]
    sheet.rows.append(
        {
            "path": path,
            "bytes": size,
            "half_round_trip_us": middle["p50_us"],
            "p99_us": middle["p99_us"],
            "mean_us": middle["mean_us"],
            "rounds": rounds,
        }
    )
    if path == ("H-H" if bench.link == "host memory" else "G-G") and size in NAMES:
        sheet.figures[f"put_half_round_trip_us{NAMES[size]}"] = middle["p50_us"]
    elif path == "staged" and size in NAMES:
        sheet.figures[f"staged_half_round_trip_us{NAMES[size]}"] = middle["p50_us"]


def bandwidth(bench: _core.RdmaBench, sheet: Sheet) -> None:
    """Bandwidth by size; the share of the copy engine is the least of the large sizes."""
    shares = []
    for size in BANDWIDTH:
        sheet(f"bandwidth, {size} B")
        one = bench.bandwidth(size)
        if one.pop("wrong"):
            raise RuntimeError(f"bandwidth, {size} B: the data is wrong")
        share = one["put_bytes_per_s"] / one["copy_bytes_per_s"]
        sheet.rows.append({"put_bytes": size, **one, "share": share})
        if size >= SHARE_FROM:
            shares.append(share)
    sheet.figures["put_bandwidth_share"] = min(shares)
    sheet.figures["put_bytes_per_s"] = max(row["put_bytes_per_s"] for row in sheet.rows if "put_bytes" in row)
