# SPDX-License-Identifier: SHL-2.1
"""Bench of torus_registers: described registers, configuration, keys and pages, reset, counters."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from handshake import reset, start_clock
from rdma_host import COUNTERS
from register_map import RegisterBus
from simulate import simulate

RELIABLE = ["down", "cut", "dropped", "damaged", "accepted", "resent", "sent", "received", "unconfirmed"]
COMPATIBLE = ["credit_bad", "fatal", "corrected", "cut", "dropped", "received", "sent"]
HALF = {"down", "cut", "credit_bad", "fatal", "corrected"}  # of 16 bits


async def begin(dut) -> RegisterBus:
    start_clock(dut)
    bus = RegisterBus(dut, "nanet_torus_regs")
    for name in (
        "bus_master",
        "idle",
        "up",
        "compatible_counters",
        "reliable_counters",
        "astray",
        "overflow",
    ):
        getattr(dut, name).value = 0
    for name in ("counters", "miss_vaddr", "key_miss_domain", "key_miss_address", "key_miss_bytes"):
        getattr(dut, name).value = 0
    dut.fill_ready.value = dut.key_fill_ready.value = 1
    await reset(dut)
    return bus


def packed(names: list[str], rng: random.Random) -> tuple[int, dict[str, int]]:
    """Random counters of one link: packed, and by name; the first name has the lowest bits."""
    value, at, by_name = 0, 0, {}
    for name in names:
        bits = 16 if name in HALF else 32
        by_name[name] = rng.getrandbits(bits)
        value |= by_name[name] << at
        at += bits
    return value, by_name


@cocotb.test()
async def every_register(dut):
    """Reset values, writable bits, and address decoding."""
    bus, rng, want = await begin(dut), random.Random(1), {}
    known = {
        n: r for n, r in bus.registers.items() if n not in ("status", "built") and not n.startswith("now")
    }
    assert len({r.address for r in bus.registers.values()}) == len(bus.registers) > 150
    for name, r in known.items():
        assert await bus.access(r.address, False) == r.reset & r.reads, name
    for name, r in known.items():
        data = rng.getrandbits(32) & ~(0x10300 if name == "control" else 0)
        await bus.access(r.address, True, data)
        want[name] = (r.reset & ~r.writes | data & r.writes) & r.reads
    for name, value in want.items():
        assert await bus.read(name) == value, name
    assert await bus.access(0x400, False) == 0  # beyond the registers
    assert await bus.access(bus.registers["id"].address, False, bar=2) == 0
    assert await bus.read("built") == 1 | 4 << 8 | 6 << 16 | 6 << 24


@cocotb.test()
async def configuration(dut):
    """Every field of the configuration comes from the bits that the map names."""
    bus, rng = await begin(dut), random.Random(2)
    x, y, z, port = rng.randrange(64), rng.randrange(32), rng.randrange(32), rng.randrange(16)
    await bus.write("node", x=x, y=y, z=z, port=port)
    await bus.write("size", x=64, y=17, z=32)
    await bus.write("links", connected=0x2A, apelink=0x15, capacity=777)
    await bus.write("apelink_threshold", data=0x2F1, header=0xA5)
    await bus.write("apelink_credit", waiting=0x31, cycle=0x72, make_header=1, check_credit=1)
    pairs = {"put.base": "put_base", "get.base": "get_base", "event_queue.base": "event_base"}
    pairs["event_queue.finished"] = "finished_addr"
    values = {path: rng.getrandbits(64) for path in pairs}
    for path, value in values.items():
        await bus.write_pair(path, value)
    words = {"put.posted": "put_posted", "event_queue.poll_cycles": "poll_cycles", "timeout": "timeout"}
    words |= {"put.log2": "log2_puts", "get.log2": "log2_gets", "event_queue.log2": "log2_events"}
    for path in words:
        values[path] = rng.getrandbits(32 if "log2" not in path else 5)
        await bus.write(path, values[path])
    await bus.write("tables", log2_page=21, log2_granule=33)
    slots = 0
    for p in range(4):
        low, high, posted, domain = (rng.getrandbits(n) for n in (32, 16, 32, 16))
        await bus.write(f"slots[{p}].low", low)
        await bus.write(f"slots[{p}].shape", high=high, log2_stride=12 - p, log2_slots=p + 3, enable=p & 1)
        await bus.write(f"slots[{p}].domain", domain)
        await bus.write(f"slots[{p}].posted", posted)
        one = ((p & 1) << 16 | domain) << 48 | high << 32 | low
        slots |= (((one << 5 | 12 - p) << 4 | p + 3) << 32 | posted) << 106 * p
    await bus.write("control", enable=1, balanced=1)
    assert int(dut.me.value) == x | y << 6 | z << 11 and int(dut.intra.value) == port
    assert int(dut.size.value) == 64 | 17 << 7 | 32 << 13
    assert (int(dut.connected.value), int(dut.compatible.value), int(dut.capacity.value)) == (0x2A, 0x15, 777)
    assert int(dut.settings.value) == 0b1001 << 34 | 0x2F1 << 24 | 0xA5 << 16 | 0x31 << 8 | 0x72
    for path, signal in (pairs | words).items():
        assert int(getattr(dut, signal).value) == values[path], path
    assert (int(dut.log2_page.value), int(dut.log2_granule.value)) == (21, 33)
    assert int(dut.slots.value) == slots
    assert int(dut.enable.value) == int(dut.balanced.value) == 1


@cocotb.test()
async def keys_and_pages(dut):
    """A miss is held until its answer; fills wait for the tables; other fills leave the miss open."""
    bus = await begin(dut)
    assert int(dut.miss_pending.value) == 0
    dut.key_miss_valid.value, dut.key_miss_domain.value = 1, 0xBEEF
    dut.key_miss_address.value, dut.key_miss_bytes.value = 0x1234_5678_9ABC, 0xDEF0
    dut.miss_valid.value, dut.miss_vaddr.value = 1, 0xF00D_0BAD_CAFE_1000
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    # The next miss waits.
    dut.key_miss_address.value, dut.miss_vaddr.value = 5, 7
    assert int(dut.key_miss_ready.value) == int(dut.miss_ready.value) == 0
    assert int(dut.miss_pending.value) == 1
    assert await bus.read("status", "key_miss") == await bus.read("status", "page_miss") == 1
    assert await bus.read("key_miss.low") == 0x5678_9ABC
    assert await bus.read("key_miss.high") == 0xBEEF_1234
    assert await bus.read("key_miss.bytes") == 0xDEF0
    assert await bus.read_pair("page_miss") == 0xF00D_0BAD_CAFE_1000

    dut.fill_ready.value = dut.key_fill_ready.value = 0
    await bus.write_pair("key.first", 0x1234_5678_0123)
    await bus.write_pair("key.limit", 0x1_0000_0000_0000)
    await bus.write("key.low", 0x5678_9ABC)
    await bus.write("key.high", high=0x1234, domain=0xBEEF)
    for answer in (0, 1):
        await bus.write("key.fill", answer=answer, found=1, rights=2, reason=5)
        assert await bus.read("status", "key_filled") == 0
        assert int(dut.key_fill_valid.value) == 1 and int(dut.key_fill_answer.value) == answer
        assert (int(dut.key_fill_found.value), int(dut.key_fill_rights.value)) == (1, 2)
        assert (int(dut.key_fill_reason.value), int(dut.key_fill_domain.value)) == (5, 0xBEEF)
        assert int(dut.key_fill_address.value) == 0x1234_5678_9ABC
        assert int(dut.key_fill_first.value) == 0x1234_5678_0123
        assert int(dut.key_fill_limit.value) == 0x1_0000_0000_0000
        dut.key_fill_ready.value = 1
        await RisingEdge(dut.clk)
        dut.key_fill_ready.value = 0
        assert await bus.read("status", "key_filled") == 1
        assert await bus.read("key_miss.low") == (5 if answer else 0x5678_9ABC)
    await bus.write_pair("page.address", 0xF00D_0BAD_CAFE_1000)
    await bus.write_pair("page.bus", 0x0123_4567_89AB_C000)
    for answer in (0, 1):
        await bus.write("page.fill", answer=answer, ok=1 - answer)
        assert await bus.read("status", "page_filled") == 0
        assert int(dut.fill_valid.value) == 1 and int(dut.fill_ok.value) == 1 - answer
        assert int(dut.fill_vaddr.value) == 0xF00D_0BAD_CAFE_1000
        assert int(dut.fill_paddr.value) == 0x0123_4567_89AB_C000
        dut.fill_ready.value = 1
        await RisingEdge(dut.clk)
        dut.fill_ready.value = 0
        assert await bus.read("page_miss.low") == (7 if answer else 0xCAFE_1000)


@cocotb.test()
async def pulses(dut):
    """Flushes last a cycle; a reset lasts 16, and drops an open miss and the node's counters."""
    bus, seen = await begin(dut), {"key_flush": 0, "tlb_flush": 0, "node_rst": 0}

    async def count():
        while True:
            await RisingEdge(dut.clk)
            for name in seen:
                seen[name] += int(getattr(dut, name).value)

    await ClockCycles(dut.clk, 4)
    cocotb.start_soon(count())
    dut.astray.value = 0b1010001
    await RisingEdge(dut.clk)
    dut.astray.value = 0
    assert await bus.read("astray") == 3
    await bus.write("control", flush_keys=1)
    await bus.write("control", flush_pages=1)
    await ClockCycles(dut.clk, 4)
    assert seen == {"key_flush": 1, "tlb_flush": 1, "node_rst": 0}
    dut.miss_valid.value = 1
    await RisingEdge(dut.clk)
    dut.miss_valid.value = 0
    assert await bus.read("status", "page_miss") == 1
    await bus.write("control", reset=1)
    assert await bus.read("status", "resetting") == 1
    while await bus.read("status", "resetting"):
        pass
    assert seen["node_rst"] == 16
    assert await bus.read("status", "page_miss") == 0
    assert await bus.read("astray") == 0


@cocotb.test()
async def state_and_counters(dut):
    bus, rng = await begin(dut), random.Random(3)
    values = {name: rng.getrandbits(32) for name in COUNTERS}
    dut.counters.value = sum(value << 32 * i for i, value in enumerate(values.values()))
    links = [(packed(RELIABLE, rng), packed(COMPATIBLE, rng)) for _ in range(6)]
    bits = sum(16 if name in HALF else 32 for name in RELIABLE)
    dut.reliable_counters.value = sum(r[0] << bits * i for i, (r, _) in enumerate(links))
    bits = sum(16 if name in HALF else 32 for name in COMPATIBLE)
    dut.compatible_counters.value = sum(c[0] << bits * i for i, (_, c) in enumerate(links))
    dut.up.value, dut.idle.value, dut.bus_master.value = 0x29, 1, 1
    for name, value in values.items():
        if name.startswith("refused_"):
            name = f"refused[{name.removeprefix('refused_')}]"
        if name != "datagrams_lost":
            assert await bus.read(name) == value, name
    for i, ((_, r), (_, c)) in enumerate(links):
        for name in RELIABLE[2:]:
            assert await bus.read(f"link[{i}].{name}") == r[name], name
        assert await bus.read(f"link[{i}].lost") == r["cut"] | r["down"] << 16
        for name in ("sent", "received", "dropped"):
            assert await bus.read(f"link[{i}].apelink_{name}") == c[name], name
        assert await bus.read(f"link[{i}].apelink_headers") == c["cut"] | c["corrected"] << 16
        assert await bus.read(f"link[{i}].apelink_errors") == c["fatal"] | c["credit_bad"] << 16
    assert await bus.read("status") & 0x3FF == 0x29 | 1 << 8 | 1 << 9
    first = await bus.read("now.low")
    assert first < await bus.read("now.low") < first + 40


def test_torus_registers():
    simulate("torus_registers", "test_torus_registers")
