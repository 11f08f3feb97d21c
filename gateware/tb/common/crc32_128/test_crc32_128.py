# SPDX-License-Identifier: SHL-2.1
"""Bench of crc32_128 against zlib: messages of any length, with pauses and back to back."""

import random
import zlib

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge
from handshake import start_clock
from simulate import simulate


@cocotb.test()
async def it_is_that_of_zlib_two_cycles_later(dut):
    start_clock(dut)
    rng = random.Random(cocotb.RANDOM_SEED)
    for rate in (1.0, 0.5, 0.1):
        words, so_far = [], b""
        for size in [1, 1, 2, 256, *(rng.randrange(1, 12) for _ in range(30))]:
            plain = rng.random()
            for number in range(size):
                word = rng.randbytes(16) if plain < 0.8 else bytes([255 * (plain < 0.9)]) * 16
                words.append((number == 0, word))
        known = [None, None]  # expected after the cycle before the last one, and after the last one
        while words or known[0] != known[1]:
            valid = bool(words) and rng.random() < rate
            first, word = words.pop(0) if valid else (rng.random() < 0.5, rng.randbytes(16))
            dut.in_valid.value, dut.in_first.value = int(valid), int(first)
            dut.in_data.value = int.from_bytes(word, "little")
            await FallingEdge(dut.clk)
            assert known[0] is None or int(dut.crc.value) == known[0]
            if valid:
                so_far = word if first else so_far + word
                known = [known[1], zlib.crc32(so_far)]
            else:
                known = [known[1], known[1]]
            await RisingEdge(dut.clk)


def test_crc32_128():
    simulate("crc32_128", "test_crc32_128")
