# SPDX-License-Identifier: SHL-2.1
"""Networks of nanet_torus_node: RDMA between all nodes over both link protocols; a UDP channel of one node
fills the CLOP of another."""

import os
import random

import cocotb
import pytest
import rdma_model as model
import reference_torus as torus
import torus_bench
from cocotb.triggers import ClockCycles, RisingEdge
from handshake import reset, start_clock
from rdma_host import Host
from simulate import simulate
from sources import GATEWARE

SIZE = tuple(map(int, os.environ.get("NANET_TORUS", "2x1x1").split("x")))
PAGES, FIRST = 6, 0x40_0000_0000


class View:
    """Signals of one node of a bench, and the common clock."""

    def __init__(self, dut, prefix: str):
        self.dut, self.prefix, self.clk = dut, prefix, dut.clk

    def __getattr__(self, name: str):
        return getattr(self.dut, self.prefix + name)


def interface(i: int, places: list[torus_bench.Node]) -> model.Interface:
    """Node i: a domain per source with a buffer to write and one to read, slots at the port of the source."""
    node = model.Interface(places[i], SIZE, port=i)
    for source in range(len(places)):
        domain = 16 * i + source
        first = FIRST + (source << 20)
        node.buffers += [
            model.Buffer(domain, first + 7, PAGES * 4096 - 100, model.WRITE),
            model.Buffer(domain, first + (64 << 12), PAGES * 4096, model.READ),
            model.Buffer(domain, first + (192 << 12), PAGES * 4096, 0),
        ]
        for page in range(PAGES):
            for at in (first, *(first + (k << 12) for k in (64, 128, 192))):
                node.pages[domain, at // 4096 + page] = (i + 1 << 16) + (at >> 12 & 0xFFFF) + page
        node.slots[source] = model.Slots(domain, first + (128 << 12), 12, 2, 3)
    return node


def delivered(words: list[int]) -> list[int]:
    """Packet as the router delivers it."""
    return [words[0] & ~0x1F, *words[1:]]


def play(nodes: dict[torus_bench.Node, model.Interface], host: Host, d: model.Descriptor) -> None:
    """Model a message: its packets, their replies, GET data and the replies to those."""
    source = host.model
    packets = [(d.node, words) for words in source.post(d, host.memory)]
    while packets:
        place, words = packets.pop(0)
        node = nodes[place]
        replies, gets = len(node.replies), len(node.gets)
        node.receive(delivered(words))
        packets += [(source.me, reply) for reply in node.replies[replies:]]
        for get in node.gets[gets:]:
            packets += [(source.me, data) for data in node.data_packets(get, node.bench_memory)]


def descriptor(rng: random.Random, i: int, places: list[torus_bench.Node], number: int) -> model.Descriptor:
    """Message from node i to a node, at times with a fault."""
    to = rng.randrange(len(places))
    kind = rng.choice((torus.PUT, torus.PUT, torus.SEND, torus.GET))
    domain, first = 16 * to + i, FIRST + (i << 20)
    own = FIRST + (i << 20)
    size = rng.choice((0, 1, 40, 300, 2000, 5000)) if kind != torus.SEND else rng.choice((0, 33, 600))
    remote = first + (64 << 12) * (kind == torus.GET) + 7 + rng.randrange(9000)
    if rng.random() < 0.12:
        domain += rng.choice((1, 64))
    if rng.random() < 0.12:
        remote += 0x8000
    flags = rng.choice((0, model.EVENT, model.EVENT | model.ACK, model.NOTIFY | model.ACK | model.EVENT))
    # Data to be sent are in the readable buffer; each GET has a place in the one without rights.
    local = own + (64 << 12) + rng.randrange(9000)
    if kind == torus.GET:
        local, size = own + (192 << 12) + 300 * number, min(size, 300)
    inline = rng.random() < 0.3 and kind != torus.GET
    size = min(size, 150) if inline else size
    payload = rng.randbytes(size) if inline else b""
    return model.Descriptor(
        *(kind, places[to], size, remote, local, domain, 16 * i + i, i, flags | int(inline)),
        *(number, rng.getrandbits(32), payload),
    )


async def network(dut, messages: int) -> None:
    """All nodes send to all; memories, events and counters equal the models'."""
    rng = random.Random(cocotb.RANDOM_SEED)
    places = torus_bench.nodes(SIZE)
    hosts = [Host(View(dut, f"n{i}_"), interface(i, places), i + 1, 0.9) for i in range(len(places))]
    nodes = {host.model.me: host.model for host in hosts}
    start_clock(dut)
    for host in hosts:
        host.log2_puts = 8
        host.configure(log2_gets=6)
    await reset(dut)
    for host in hosts:
        host.begin()
        for page in host.model.pages.values():
            host.memory.write(page * 4096, rng.randbytes(4096))
        host.model.bench_memory = host.memory
    used = sum((SIZE[port % 3] > 1) << port for port in range(6))
    while any(int(host.dut.up.value) & used != used for host in hosts):
        await RisingEdge(dut.clk)
    for number in range(messages):
        for i, host in enumerate(hosts):
            d = descriptor(rng, i, places, number)
            play(nodes, host, d)
            host.post(d)
    for host in hosts:
        host.dut.enable.value = 1
    for host in hosts:
        await host.settled(0, 30_000)
    await ClockCycles(dut.clk, 300)
    for host in hosts:
        host.compare()
        assert not host.model.open
    total = sum((host.model.counters for host in hosts), start=type(hosts[0].model.counters)())
    assert {f"refused_{r}" for r in (0, model.BAD_DOMAIN, model.OUT_OF_RANGE)} <= set(total), total


@cocotb.test()
async def every_message_ends(dut):
    await network(dut, int(os.environ["NANET_MESSAGES"]))


@pytest.mark.complete
@pytest.mark.parametrize(
    ("size", "compatible", "messages"),
    [((2, 1, 1), False, 30), ((2, 1, 1), True, 30), ((2, 2, 1), False, 20)],
)
def test_network(size, compatible, messages):
    name, source = torus_bench.network(size, compatible)
    env = {"NANET_TORUS": "x".join(map(str, size)), "NANET_MESSAGES": str(messages)}
    simulate(name, "test_nanet_torus_node", env=env, extra=[source])


@pytest.mark.complete
def test_clop_of_another_node(monkeypatch):
    monkeypatch.syspath_prepend(GATEWARE / "tb" / "rx" / "receive_path")  # for its bench
    name, source = torus_bench.clop()
    simulate(name, "torus_clop_case", extra=[source])
