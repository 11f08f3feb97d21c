# SPDX-License-Identifier: SHL-2.1
"""Bench of clop_sequence: back-to-back packets of two bursts, against clop_model's sequence numbers."""

import random
from dataclasses import dataclass, field

import cocotb
from clop_model import FRAME_WINDOW, WINDOW, Sequence
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from handshake import reset, signed_words, start_clock
from simulate import simulate

TOP = (1 << 32) - 1
DECISIONS = ("take", "admit", "escalated", "restart", "at_frame", "watch")


@dataclass
class Board:
    """State of a board in a burst."""

    sequence: Sequence = field(default_factory=Sequence)
    frame: int | None = None
    ordinary: bool = False
    watch: bool = False


class Bench:
    """Module in clop's steps: `read`, three more, `decide`; the next `read` may follow in the next cycle."""

    def __init__(self, dut):
        self.dut, self.rng = dut, random.Random(cocotb.RANDOM_SEED)
        self.boards = {(half, board): Board() for half in (0, 1) for board in range(4)}
        self.before = [0] * 4  # missing numbers of removed bursts
        self.burst = [[False, 0], [False, 0]]  # started, newest frame

    async def start(self):
        dut = self.dut
        start_clock(dut)
        dut.clear.value = dut.flush.value = 0
        for name in DECISIONS:
            getattr(dut, name).value = 0
        dut.half.value = dut.board.value = dut.number.value = dut.frame.value = 0
        await reset(dut)
        dut.clear.value = 1
        for word in range(1024):
            dut.clear_addr.value = word
            await RisingEdge(dut.clk)
        dut.clear.value = 0
        await RisingEdge(dut.clk)

    async def step(self, half, board, number, frame, decide, pause=0):
        """Look up a number; `decide` maps the result to an action. Return the result."""
        dut, one = self.dut, self.boards[half, board]
        started, newest = self.burst[half]
        dut.half.value, dut.board.value, dut.number.value, dut.frame.value = half, board, number, frame
        dut.started.value, dut.last_known.value = int(started), newest
        for _ in range(4):
            await RisingEdge(dut.clk)
            for name in DECISIONS:
                getattr(dut, name).value = 0
        await FallingEdge(dut.clk)
        look = one.sequence.look(number)
        reference = newest if one.frame is None else one.frame
        got = {
            name: bool(int(getattr(dut, name).value)) for name in ("replayed", "jump", "watched", "ordinary")
        }
        got["far_ahead"] = bool(int(dut.far_ahead.value))
        assert got == {
            "replayed": look == "replayed",
            "jump": look == "jump",
            "watched": one.watch and number == 1,
            "ordinary": one.ordinary,
            "far_ahead": (one.frame is not None or started) and frame - reference > FRAME_WINDOW,
        }, f"{half} {board}: {number}, newest {one.sequence.newest}"
        decisions = decide(got)
        flag = self.rng.getrandbits(1)
        for name in decisions:
            getattr(dut, name).value = 1
        dut.watch_flag.value = flag
        self.note(one, number, frame, decisions, flag, half)
        await ReadOnly()
        await RisingEdge(dut.clk)
        for name in DECISIONS:
            getattr(dut, name).value = 0
        for _ in range(pause):
            dut.number.value = self.rng.getrandbits(32)
            await RisingEdge(dut.clk)
        return got

    def note(self, one, number, frame, decisions, flag, half):
        if "take" in decisions:
            one.sequence.accept(number)
        if "admit" in decisions:
            one.ordinary, one.watch = True, False
            one.frame = frame if one.frame is None else max(one.frame, frame)
            self.burst[half] = [True, max(self.burst[half][1], frame)]
        if "escalated" in decisions:
            one.ordinary = False
        if "restart" in decisions:
            one.sequence.restart()
        if "at_frame" in decisions:
            one.frame = one.frame or 0
            self.burst[half][0] = True
        if "watch" in decisions:
            one.watch = bool(flag)

    async def forget(self, half):
        """Start a burst in this half."""
        self.dut.flush.value, self.dut.flush_half.value = 1, half
        await RisingEdge(self.dut.clk)
        self.dut.flush.value = 0
        for board in range(4):
            self.before[board] += self.boards[half, board].sequence.missing
            self.boards[half, board] = Board()
        self.burst[half] = [False, 0]

    async def compare_missing(self):
        await RisingEdge(self.dut.clk)
        await FallingEdge(self.dut.clk)
        got = signed_words(self.dut.missing)
        for board in range(4):
            want = self.before[board] + sum(self.boards[half, board].sequence.missing for half in (0, 1))
            assert got[board] == want, f"board {board}"
        await RisingEdge(self.dut.clk)


@cocotb.test()
async def numbers_of_all_kinds(dut):
    """New, old and skipped numbers, jumps, starts: each decision is visible to the next packet."""
    bench = Bench(dut)
    await bench.start()
    rng, seen = bench.rng, {"replayed": 0, "jump": 0, "watched": 0, "ordinary": 0, "far_ahead": 0}

    def decide(got):
        if rng.random() < 0.02:
            return ["restart"]
        if rng.random() < 0.06:
            return [rng.choice(["watch", "at_frame", "escalated"])]
        if got["replayed"]:
            return []
        if got["jump"] or got["far_ahead"]:
            return ["take"] if rng.random() < 0.4 else ["escalated"]
        return rng.choice([["take", "admit"], ["take", "admit"], ["take", "admit"], ["take"], []])

    half, board = 0, 0
    for turn in range(6000):
        if rng.random() < 0.4:
            half, board = rng.getrandbits(1), rng.randrange(4)
        one = bench.boards[half, board]
        newest = (
            one.sequence.newest if one.sequence.newest is not None else rng.choice([0, 1, 5, 60, 1 << 20])
        )
        edge = rng.choice([WINDOW - 1, WINDOW, WINDOW + 1, -WINDOW, 1 - WINDOW, 2 * WINDOW, 100_000])
        near = [1, 1, 1, 1, 2, 0, -1, rng.randrange(-70, 70), rng.randrange(-64, 64) * 64]
        ahead = rng.choice([*near, edge])
        number = 1 if rng.random() < 0.02 else min(max(newest + ahead, 0), TOP)
        reference = one.frame if one.frame is not None else bench.burst[half][1]
        far = rng.choice([0, 0, 0, 1, 1, 2, -3, FRAME_WINDOW, FRAME_WINDOW + 1]) if turn % 3 == 0 else 0
        frame = min(max(reference + far, 0), (1 << 24) - 1)
        got = await bench.step(half, board, number, frame, decide, rng.choice([0, 0, 0, 0, 1, 2]))
        for name in seen:
            seen[name] += got[name]
        if turn % 50 == 0:
            await bench.compare_missing()
        if rng.random() < 0.003:
            await bench.forget(rng.getrandbits(1))
    await bench.compare_missing()
    assert all(seen.values()), seen


@cocotb.test()
async def a_ring_is_gone_round(dut):
    """Every number of three rings of 8192 without each third one: entries of an older lap are invalid."""
    bench = Bench(dut)
    await bench.start()
    take = lambda got: [] if got["replayed"] else ["take", "admit"]  # noqa: E731
    for number in range(1, 3 * 8192, 64):
        for step in (0, 1, 63):
            got = await bench.step(1, 2, number + step, 0, take)
            assert not got["replayed"] and not got["jump"]
        got = await bench.step(1, 2, number + 1, 0, take)
        assert got["replayed"]
        if number > WINDOW:  # skipped, within the window; then just beyond it
            assert not (await bench.step(1, 2, number + 63 - WINDOW + 31, 0, lambda got: []))["replayed"]
            assert (await bench.step(1, 2, number + 63 - WINDOW, 0, lambda got: []))["replayed"]
    await bench.compare_missing()


def test_clop_sequence():
    simulate("clop_sequence", "test_clop_sequence")
