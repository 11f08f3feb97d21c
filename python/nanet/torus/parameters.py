# SPDX-License-Identifier: Apache-2.0
"""Parameters of the APEnet+ curves: one set for all of them, each with its origin."""

from __future__ import annotations

import attrs

# Origins. published: INFN's talks and papers of 2013; fitted: to a published sum; estimate: ours.
PUBLISHED, FITTED, ESTIMATE = "published", "fitted", "estimate"


def _part(default: float, what: str, origin: str) -> float:
    return attrs.field(default=default, metadata={"what": what, "origin": origin})


@attrs.frozen(kw_only=True)
class Parameters:
    """A historic node: PCIe Gen2 x8, microcontroller, link at 28 Gb/s. Times in µs, rates in GB/s."""

    link_gbps: float = _part(28.0, "raw rate of a link, four lanes, 8b10b", PUBLISHED)
    link_efficiency: float = _part(0.784, "share of link words that carry payload: 2.2 GB/s", FITTED)
    card_gbytes: float = _part(2.4, "card without a link (loopback)", PUBLISHED)
    firmware_us: float = _part(2.56, "translation of a 4 KB packet by firmware: 1.6 GB/s", FITTED)
    tlb_us: float = _part(0.124, "translation by the TLB", PUBLISHED)
    gpu_window_us: float = _part(0.366, "switch of the GPU window per packet: 1.4 GB/s", FITTED)
    post_us: float = _part(0.5, "descriptor and doorbell", ESTIMATE)
    transmit_us: float = _part(1.2, "descriptor processing on the sending card", ESTIMATE)
    host_read_us: float = _part(0.9, "first read of host memory", ESTIMATE)
    gpu_read_us: float = _part(2.2, "first read of GPU memory: half round trip G-G 8.2 µs", FITTED)
    write_us: float = _part(0.5, "write of a packet to host or GPU memory", PUBLISHED)
    event_us: float = _part(0.7, "event entry, poll", ESTIMATE)
    copy_us: float = _part(5.1, "GPU copy for staging, each end: half round trip 16.8 µs", FITTED)
    copy_gbytes: float = _part(5.5, "rate of that copy", ESTIMATE)

    def rows(self) -> list[tuple[str, float, str, str]]:
        """(name, value, origin, meaning) of every parameter."""
        fields = attrs.fields(type(self))
        return [(f.name, getattr(self, f.name), f.metadata["origin"], f.metadata["what"]) for f in fields]

    @property
    def clock_hz(self) -> float:
        """Words per second of a link: 128 bit after 8b10b."""
        return self.link_gbps * 1e9 * 0.8 / 128

    @property
    def link_gbytes(self) -> float:
        """Payload rate of a link."""
        return self.clock_hz * 16 * self.link_efficiency / 1e9
