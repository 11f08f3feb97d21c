# SPDX-License-Identifier: SHL-2.1
"""Bench of udp_receive_filters: each field bit by bit, wildcards, disabled filters, and their priority."""

import os
import random
from collections import Counter
from dataclasses import asdict, dataclass, replace

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from frames import FILTER_BITS, Filter
from handshake import start_clock
from simulate import simulate

FILTERS = int(os.environ.get("NANET_FILTERS", "2"))
OWN_IP, GROUP_IP, OTHER_IP = 0x0A000001, 0xE0000001, 0x0A000002


@dataclass
class Fields:
    """Fields of a frame that passes the filter `Filter()`."""

    vlan: int = 0
    vlan_id: int = 0
    src_ip: int = 0x0A000009
    dst_ip: int = OWN_IP
    src_port: int = 40000
    dst_port: int = 58913


def judge(filters, own_ip, frame):
    """Return the numbers of the filters that accept the tag; also the destination; also the rest."""
    tag = {
        i
        for i, f in enumerate(filters)
        if f.enable and (f.vlan, f.vlan and f.vlan_id) == (frame.vlan, f.vlan and frame.vlan_id)
    }
    ip = {i for i in tag if frame.dst_ip == (filters[i].dst_ip or own_ip)}
    whole = {
        i
        for i in ip
        if frame.dst_port == filters[i].dst_port
        and frame.src_ip & filters[i].src_mask == filters[i].src_ip & filters[i].src_mask
        and filters[i].src_port in (0, frame.src_port)
    }
    return tag, ip, whole


def verdict(tag, ip, whole):
    return bool(tag), bool(ip), min(whole, default=None)


class Bench:
    def __init__(self, dut):
        self.dut, self.off = dut, Filter(enable=0)

    async def set(self, filters, own_ip=OWN_IP):
        """Set filters; the unused ones match the usual frame but are disabled."""
        self.filters, self.own_ip = [*filters, *[self.off] * (FILTERS - len(filters))], own_ip
        self.dut.filter.value = sum(f.pack() << FILTER_BITS * i for i, f in enumerate(self.filters))
        self.dut.host_ip.value = own_ip
        self.dut.in_valid.value = 0
        await FallingEdge(self.dut.clk)

    async def ask(self, frame, valid=True):
        """Return the module's output a cycle after a frame: tag, destination, filter number."""
        dut = self.dut
        dut.in_valid.value = int(valid)
        for name, value in asdict(frame).items():
            getattr(dut, name).value = value
        await FallingEdge(dut.clk)
        number = int(dut.number.value) if int(dut.fits.value) else None
        return bool(int(dut.fits_tag.value)), bool(int(dut.fits_ip.value)), number

    async def want(self, frame, *expected):
        got = await self.ask(frame)
        assert got == expected == verdict(*judge(self.filters, self.own_ip, frame)), (got, expected, frame)


@cocotb.test()
async def every_bit_of_a_filter_counts(dut):
    start_clock(dut)
    bench, rng = Bench(dut), random.Random(cocotb.RANDOM_SEED)
    for last in {0, FILTERS // 2, FILTERS - 1}:
        mask = rng.getrandbits(32)
        frame = Fields(1, rng.getrandbits(12), *(rng.getrandbits(n) for n in (32, 32)), 0x5A5A, 0xC33C)
        only = Filter(0xC33C, 1, 1, frame.vlan_id, frame.dst_ip, frame.src_ip, mask, 0x5A5A)
        await bench.set([*[bench.off] * last, only])
        await bench.want(frame, True, True, last)
        for bit in range(32):
            flipped = {name: value ^ 1 << bit for name, value in asdict(frame).items()}
            here = last if not mask >> bit & 1 else None
            await bench.want(replace(frame, src_ip=flipped["src_ip"]), True, True, here)
            await bench.want(replace(frame, dst_ip=flipped["dst_ip"]), True, False, None)
            if bit < 16:
                await bench.want(replace(frame, src_port=flipped["src_port"]), True, True, None)
                await bench.want(replace(frame, dst_port=flipped["dst_port"]), True, True, None)
            if bit < 12:
                await bench.want(replace(frame, vlan_id=flipped["vlan_id"]), False, False, None)
        await bench.want(replace(frame, vlan=0), False, False, None)


@cocotb.test()
async def wildcards_and_filters_that_are_off(dut):
    start_clock(dut)
    bench, frame = Bench(dut), Fields()
    await bench.set([])
    await bench.want(frame, False, False, None)
    await bench.set([Filter(vlan_id=5)])  # a filter with a tag accepts only tagged frames
    await bench.want(frame, True, True, 0)
    await bench.want(replace(frame, vlan_id=7, src_ip=0, src_port=0), True, True, 0)
    await bench.want(replace(frame, vlan=1, vlan_id=5), False, False, None)
    # 0 stands for the card's address, not for any
    await bench.want(replace(frame, dst_ip=0), True, False, None)
    await bench.set([Filter(vlan=1)])
    await bench.want(replace(frame, vlan=1), True, True, 0)  # a priority tag has number 0
    await bench.want(replace(frame, vlan=1, vlan_id=1), False, False, None)
    await bench.want(frame, False, False, None)
    await bench.set([Filter(dst_ip=0xFFFFFFFF, src_port=9)])
    await bench.want(replace(frame, dst_ip=0xFFFFFFFF, src_port=9), True, True, 0)
    await bench.want(replace(frame, dst_ip=0xFFFFFFFF, src_port=0), True, True, None)
    await bench.want(frame, True, False, None)
    await bench.set([Filter(dst_port=0)])  # no wildcard
    await bench.want(frame, True, True, None)
    await bench.want(replace(frame, dst_port=0), True, True, 0)


@cocotb.test(skip=FILTERS == 1)
async def one_filter_takes_all_or_nothing_and_the_first_counts(dut):
    start_clock(dut)
    bench, frame = Bench(dut), Fields()
    for first in (0, FILTERS - 2):
        before = [bench.off] * first
        await bench.set([*before, Filter(dst_ip=GROUP_IP), Filter(vlan=1, vlan_id=5)])
        await bench.want(frame, True, False, None)  # one filter matches the tag, another the address
        await bench.set([*before, Filter(dst_port=1), Filter(dst_ip=GROUP_IP)])
        await bench.want(frame, True, True, None)
        await bench.want(replace(frame, dst_ip=GROUP_IP, dst_port=1), True, True, None)
        await bench.want(replace(frame, dst_ip=GROUP_IP), True, True, first + 1)
    for first in range(FILTERS):
        filters = [Filter(enable=int(i >= first)) for i in range(FILTERS)]
        await bench.set(filters)
        await bench.want(frame, True, True, first)


@cocotb.test()
async def random_filters_and_frames(dut):
    start_clock(dut)
    seen = Counter()
    pools = {
        "vlan": (0, 1),
        "vlan_id": (0, 5),
        "src_ip": (OWN_IP, GROUP_IP, OTHER_IP),
        "dst_ip": (OWN_IP, GROUP_IP, OTHER_IP),
        "src_port": (0, 9, 40000),
        "dst_port": (7, 58913),
    }
    for seed in range(40):
        bench, rng = Bench(dut), random.Random(cocotb.RANDOM_SEED + seed)
        rate = rng.choice([1.0, 0.5])
        filters = [
            Filter(
                **{name: rng.choice(pool) for name, pool in pools.items()},
                enable=int(seed < 2 or rng.random() < 0.8),
                src_mask=rng.choice([0, 0, 0xFFFFFFFF, 0xFF000000, 3]),
            )
            for _ in range(FILTERS)
        ]
        filters = [replace(f, dst_ip=rng.choice([f.dst_ip, 0])) for f in filters]
        if FILTERS > 1:  # plus a wider filter
            one, other = rng.sample(range(FILTERS), 2)
            filters[one] = replace(filters[other], src_mask=0, src_port=0)
        await bench.set(filters, rng.choice([OWN_IP, OTHER_IP]))
        held = None
        for _ in range(100):
            near = asdict(rng.choice(filters))
            near["dst_ip"] = near["dst_ip"] or bench.own_ip
            frame = Fields(**{name: near[name] for name in pools})
            for name in rng.sample(sorted(pools), rng.choice([0, 1, 1, 2, 6])):
                setattr(frame, name, rng.choice(pools[name]))
            valid = held is None or rng.random() < rate
            got = await bench.ask(frame, valid)
            if valid:
                found = judge(filters, bench.own_ip, frame)
                seen["several"] += len(found[2]) > 1
                for kind, numbers in zip(("tag", "ip", "whole"), found, strict=True):
                    seen[kind] += bool(numbers)
                    seen[f"no {kind}"] += not numbers
                held = verdict(*found)
            else:  # the result of the last frame is held
                seen["held"] += verdict(*judge(filters, bench.own_ip, frame)) != held
            assert got == held, (got, held, frame)
    kinds = ["tag", "ip", "whole", "no tag", "no ip", "no whole", "held", *["several"] * (FILTERS > 1)]
    assert all(seen[kind] > 20 for kind in kinds), seen


@pytest.mark.parametrize("filters", [1, 3, 16])
def test_udp_receive_filters(filters):
    simulate(
        "udp_receive_filters",
        "test_udp_receive_filters",
        {"FILTERS": filters},
        env={"NANET_FILTERS": str(filters)},
    )
