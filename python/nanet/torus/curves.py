# SPDX-License-Identifier: Apache-2.0
"""Curves of the historic card: half round trip and bandwidth against message size.

One set of parameters. The stages form a pipeline of 4 KB packets; the event-driven model gives the network.
"""

from __future__ import annotations

from typing import Any

from nanet.torus.parameters import Parameters

PACKET = 4096
LATENCY_SIZES = tuple(32 << n for n in range(13))  # 32 B - 128 KB
BANDWIDTH_SIZES = tuple(1 << n for n in range(5, 23))  # 32 B - 4 MB

# Kind -> (source in GPU memory, destination in GPU memory, staged by copies through host memory).
KINDS: dict[str, tuple[bool, bool, bool]] = {
    "H-H": (False, False, False),
    "H-G": (False, True, False),
    "G-G": (True, True, False),
    "staged": (False, False, True),
}
# Published figures that the curves meet: name -> value, in µs or GB/s.
PUBLISHED = {
    "G-G_us": 8.2,
    "staged_us": 16.8,
    "host_firmware_gbytes": 1.6,
    "gpu_firmware_gbytes": 1.4,
    "host_tlb_gbytes": 2.2,
    "loopback_tlb_gbytes": 2.4,
}


def network_us(parameters: Parameters) -> float:
    """Header of a packet from card to neighbouring card, from the model's stage times."""
    from nanet import _core

    timing = _core.torus.timing("apelink")
    head, _ = _core.torus.Model((2, 1, 1), timing).play([(0, 0, 1, 0)])[0]
    return head / parameters.clock_hz * 1e6


def packet_us(p: Parameters, gpu: bool, tlb: bool, loopback: bool = False) -> dict[str, float]:
    """Time that each stage needs for a full packet, in µs."""
    stages = {
        "card": PACKET / p.card_gbytes / 1e3,
        "translation": (p.tlb_us if tlb else p.firmware_us) + (p.gpu_window_us if gpu else 0.0),
    }
    if not loopback:
        stages["link"] = PACKET / p.link_gbytes / 1e3
    return stages


def bandwidth(p: Parameters, size: int, gpu: bool, tlb: bool, loopback: bool = False) -> float:
    """GB/s of back-to-back messages of a size; a message costs at least the sender's descriptor time."""
    packets = -(-size // PACKET)
    last = size - (packets - 1) * PACKET
    stages = packet_us(p, gpu, tlb, loopback)
    fixed = stages.pop("translation")
    flow = max(stages.values())
    time = (packets - 1) * max(flow, fixed) + max(flow * last / PACKET, fixed, p.transmit_us)
    return size / time / 1e3


def half_round_trip(p: Parameters, size: int, kind: str, tlb: bool = False) -> float:
    """µs from the post of a message to its event at the other node."""
    from_gpu, to_gpu, staged = KINDS[kind]
    stages = packet_us(p, to_gpu, tlb)
    packets = -(-size // PACKET)
    flow = max(stages["card"], stages["link"])
    first = min(size, PACKET) / PACKET * flow
    rest = (packets - 1) * max(flow, stages["translation"])
    time = p.post_us + p.transmit_us + (p.gpu_read_us if from_gpu else p.host_read_us) + network_us(p)
    time += stages["translation"] + p.write_us + p.event_us + first + rest
    if staged:  # the copies of a large message overlap with the transfer, but for one packet at each end
        time += 2 * (p.copy_us + min(size, PACKET) / p.copy_gbytes / 1e3)
    return time


def curves(p: Parameters) -> dict[str, Any]:
    """All curves, and the figures beside the published ones."""
    latency = [
        {"bytes": size, **{kind: half_round_trip(p, size, kind) for kind in KINDS}} for size in LATENCY_SIZES
    ]
    ways = {
        "host_firmware": (False, False, False),
        "gpu_firmware": (True, False, False),
        "host_tlb": (False, True, False),
        "loopback_tlb": (False, True, True),
    }
    rates = [
        {"bytes": size, **{name: bandwidth(p, size, *way) for name, way in ways.items()}}
        for size in BANDWIDTH_SIZES
    ]
    figures = {f"{name}_gbytes": rates[-1][name] for name in ways}
    figures |= {f"{kind}_us": latency[0][kind] for kind in KINDS}
    figures["staged_faster_from_bytes"] = next(
        (row["bytes"] for row in latency if row["staged"] < row["G-G"]), 0
    )
    return {
        "parameters": {name: value for name, value, *_ in p.rows()},
        "half_round_trip_us": latency,
        "bandwidth_gbytes": rates,
        "figures": figures,
        "published": PUBLISHED,
    }
