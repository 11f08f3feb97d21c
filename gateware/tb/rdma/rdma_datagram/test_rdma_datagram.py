# SPDX-License-Identifier: SHL-2.1
"""Bench of rdma_datagram: datagrams of one packet are sent, longer ones dropped and counted."""

import random

import cocotb
import pytest
import reference_torus as torus
from apenet import Datagram, packets
from cocotb.triggers import FallingEdge, RisingEdge
from handshake import reset, start_clock
from simulate import simulate
from sources import modules

ME, TO = (1, 2, 3), (4, 5, 6)


def node(at: tuple[int, int, int]) -> int:
    """Packed node."""
    return at[0] | at[1] << 6 | at[2] << 11


@cocotb.test()
async def whole_datagrams_are_sent(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    start_clock(dut)
    dut.in_req.value = 0
    dut.me.value, dut.node.value, dut.intra.value, dut.channel.value = node(ME), node(TO), 9, 0x1234
    dut.datagram_sent.value = 0
    await reset(dut)
    sent, expected, lost, dropped = [], [], 0, 0
    words, number = [], 0
    waiting = []
    for size in (0, 1, 64, 4064, 4065, 1472, 5000, 4096, 9000, 300, 4064, 16):
        parts = packets(Datagram(rng.randbytes(size)), 0)
        waiting += [(kind, word) for kind, word in parts]
        if len(parts) <= 256 and size <= 4096:
            expected.append([word for _, word in parts])
        else:
            lost += 1
    idle = 0
    while idle < 400:
        offer = waiting and int(dut.level.value) < 700 and rng.random() < 0.9
        kind, word = waiting[0] if offer else (0, 0)
        dut.in_req.value = int(bool(offer)) << 130 | kind << 128 | word
        if offer:
            waiting.pop(0)
        request = int(dut.datagram_req.value)
        ready = request >> 266 and len(words) < request >> 256 & 511 and rng.random() < 0.8
        dut.datagram_ready.value = int(bool(ready))
        finished = request >> 266 and words and len(words) == request >> 256 & 511
        dut.datagram_sent.value = int(bool(finished))
        if finished:
            head = torus.unpack(torus.HEADER, request >> 128 & (1 << 128) - 1)
            foot = torus.unpack(torus.FOOTER, request & (1 << 128) - 1)
            assert head["length"] == 16 * len(words) and head["type"] == torus.DATAGRAM
            assert (head["x"], head["y"], head["z"]) == TO and head["vchan"] == torus.INJECT
            assert (head["intra"], head["channel"]) == (9, 0x1234)
            assert foot["message"] == number and foot["flags"] & torus.LAST
            assert (foot["source_x"], foot["source_y"], foot["source_z"]) == ME
            sent.append(words)
            words, number = [], number + 1
        await FallingEdge(dut.clk)
        if ready and int(dut.datagram_valid.value):
            words.append(int(dut.datagram_data.value))
        dropped += int(dut.too_long.value)
        await RisingEdge(dut.clk)
        idle = 0 if waiting or finished or words else idle + 1
    assert [len(packet) for packet in sent] == [len(packet) for packet in expected]
    assert [packet[:-1] for packet in sent] == [packet[:-1] for packet in expected]
    assert dropped == lost


@pytest.mark.complete
def test_rdma_datagram():
    simulate("rdma_datagram", "test_rdma_datagram", extra=[modules()["rdma_datagram"]])
