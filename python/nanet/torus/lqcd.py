# SPDX-License-Identifier: Apache-2.0
"""Lattice-QCD balance of QUonG: bandwidth per node at which communication hides behind computation.

Balance model of Gottlieb and Babich, as in INFN's talk of 2013: a 64^3 x 128 lattice, single-precision half
spinors (48 B per site of a surface, sent both ways), 1320 floating-point operations per site.
"""

from __future__ import annotations

import itertools
import math
import operator
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
    return math.prod(blocks(local)) * gpus


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
                "torus": "x".join(map(str, torus_of(local))),
                "right": abs(need - published) < 0.0501 and total_gpus(local, gpus) == total,
            }
        )
    return rows


def blocks(local: tuple[int, ...]) -> tuple[int, ...]:
    """Local lattices along x, y, z and t."""
    return tuple(total // size for size, total in zip(local, TOTAL, strict=True))


def torus_of(local: tuple[int, ...]) -> tuple[int, int, int]:
    """Nodes of the torus on which the 4D blocks lie: x and t share its first dimension."""
    x, y, z, t = blocks(local)
    return x * t, y, z


def node_of(local: tuple[int, ...], block: tuple[int, ...]) -> int:
    """Node of a block. Rows of t follow each other in alternate directions, so both neighbours lie near."""
    t = blocks(local)[3]
    size = torus_of(local)
    along = block[0] * t + (block[3] if block[0] % 2 == 0 else t - 1 - block[3])
    return along + size[0] * (block[1] + size[1] * block[2])


def halo(local: tuple[int, ...], payload: int = 4096) -> list[tuple[int, int, int, int]]:
    """Packets of one halo exchange, for Model.play: each node sends faces to eight neighbours in turn."""
    grid, volume = blocks(local), math.prod(local)
    packets = []
    for block in itertools.product(*(range(n) for n in grid)):
        source, faces = node_of(local, block), []
        for d, step in itertools.product(range(4), (1, -1)):
            if grid[d] == 1:
                continue
            other = list(block)
            other[d] = (block[d] + step) % grid[d]
            length = SPINOR_BYTES * volume // local[d]
            cuts = range(0, length, payload)
            faces.append(
                [(0, source, node_of(local, tuple(other)), min(payload, length - at)) for at in cuts]
            )
        for turn in itertools.zip_longest(*faces):
            packets += [packet for packet in turn if packet is not None]
    return packets


def halo_share(local: tuple[int, ...]) -> float:
    """Words per node and cycle of that exchange in the event-driven model, headers and footers included."""
    from nanet import _core

    packets = halo(local)
    size = torus_of(local)
    done = _core.torus.Model(size, _core.torus.timing("router")).play(packets)
    words = sum(2 + -(-bytes_ // 16) for *_, bytes_ in packets)
    return words / math.prod(size) / max(tail for _, tail in done)


def halo_shares() -> list[float]:
    """halo_share() of each published row."""
    return [halo_share(local) for local, *_ in PUBLISHED]


def available(link: str, host: str, halo: float = 1.0) -> float:
    """GB/s per node: the host interface, or the node's port, which carries one word per cycle like a link."""
    raw, share = LINKS[link]
    return min(HOSTS[host], raw / 8 * share * halo)


def balanced(gflops: float = GPU_GFLOPS, halos: list[float] | None = None) -> list[dict[str, Any]]:
    """Per link and host: least GB/s, rows in balance, GPU speed in Gflop/s that balances the hardest row.

    halos: words per node and cycle of each row's exchange; by default one word.
    """
    out = []
    needs = [required(local, gpus, gflops) for local, gpus, *_ in PUBLISHED]
    for link in LINKS:
        for host in HOSTS:
            there = [available(link, host, share) for share in halos or [1.0] * len(needs)]
            out.append(
                {
                    "link": link,
                    "host": host,
                    "available_gbytes": min(there),
                    "rows_in_balance": sum(map(operator.le, needs, there)),
                    "gpu_gflops_in_balance": gflops * min(map(operator.truediv, there, needs)),
                }
            )
    return out
