# SPDX-License-Identifier: Apache-2.0
"""Lattice-QCD balance of QUonG: bandwidth per node at which communication hides behind computation.

Balance model of Gottlieb and Babich, as in INFN's talk of 2013: a 64^3 x 128 lattice, single-precision half
spinors (48 B per site of a surface, sent both ways), 1320 floating-point operations per site.
"""

from __future__ import annotations

from typing import Any

TOTAL = (64, 64, 64, 128)
SPINOR_BYTES, SITE_FLOP = 48, 1320
GPU_GFLOPS = 135.0  # sustained by one GPU of QUonG

# Local lattice of a node, GPUs per node, required GB/s, GPUs in total: the published table.
PUBLISHED = (
    ((16, 16, 16, 32), 2, 4.3, 512),
    ((16, 16, 16, 64), 2, 4.0, 256),
    ((32, 32, 32, 64), 2, 2.1, 32),
    ((16, 16, 16, 128), 4, 7.4, 256),
    ((32, 32, 32, 128), 4, 3.7, 32),
)
# Host interfaces: usable GB/s in one direction: raw rate after coding, times 0.8 for headers.
HOSTS = {
    "Gen2 x8": 3.2,
    "Gen3 x8": 6.3,
    "Gen3 x16": 12.6,
    "Gen4 x16": 25.2,
    "Gen5 x16": 50.4,
}
# Torus links: raw Gb/s, payload share of the raw rate.
LINKS = {
    "28 Gb/s (8b10b)": (28.0, 0.8 * 0.784),
    "34 Gb/s (8b10b)": (34.0, 0.8 * 0.93),
    "100 Gb/s (64b66b)": (103.125, 64 / 66 * 0.93),
    "400 Gb/s (PAM4)": (425.0, 0.94 * 0.93),
}


def required(local: tuple[int, ...], gpus: int, gflops: float = GPU_GFLOPS) -> float:
    """GB/s per node for perfect overlap of computation and halo exchange."""
    surface = sum(1 / size for size, total in zip(local, TOTAL, strict=True) if size < total)
    return 2 * SPINOR_BYTES * gflops / SITE_FLOP * gpus * surface


def total_gpus(local: tuple[int, ...], gpus: int) -> int:
    """GPUs of the whole lattice."""
    nodes = 1
    for size, total in zip(local, TOTAL, strict=True):
        nodes *= total // size
    return nodes * gpus


def name(local: tuple[int, ...]) -> str:
    """Such as 16^3x32."""
    return f"{local[0]}^3x{local[3]}"


def table(gflops: float = GPU_GFLOPS) -> list[dict[str, Any]]:
    """Rows of the published table with the model's values."""
    rows = []
    for local, gpus, published, total in PUBLISHED:
        need = required(local, gpus)
        rows.append(
            {
                "local": name(local),
                "gpus": gpus,
                "required_gbytes": required(local, gpus, gflops),
                "published_gbytes": published,
                "total_gpus": total_gpus(local, gpus),
                "right": abs(need - published) < 0.0501 and total_gpus(local, gpus) == total,
            }
        )
    return rows


def halo_share() -> float:
    """Words per cycle at a node's port during a halo exchange of 4 KB packets, in the event-driven model."""
    from nanet import _core

    return _core.torus.Model((4, 4, 4), _core.torus.timing("router")).exchange(20, 4096)["accepted"]


def available(link: str, host: str, halo: float = 1.0) -> float:
    """GB/s per node: the host interface, or the node's port, which carries one word per cycle like a link."""
    raw, share = LINKS[link]
    return min(HOSTS[host], raw / 8 * share * halo)


def balanced(gflops: float = GPU_GFLOPS, halo: float = 1.0) -> list[dict[str, Any]]:
    """Per link and host: rows in balance, and the GPU speed in Gflop/s that balances the hardest row."""
    out = []
    for link in LINKS:
        for host in HOSTS:
            there = available(link, host, halo)
            needs = [required(local, gpus, gflops) for local, gpus, *_ in PUBLISHED]
            out.append(
                {
                    "link": link,
                    "host": host,
                    "available_gbytes": there,
                    "rows_in_balance": sum(need <= there for need in needs),
                    "gpu_gflops_in_balance": gflops * there / max(needs),
                }
            )
    return out
