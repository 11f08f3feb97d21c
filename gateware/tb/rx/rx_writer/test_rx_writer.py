# SPDX-License-Identifier: SHL-2.1
"""Bench of rx_writer: placement requests, address of every byte, and completion reports."""

import random
from dataclasses import dataclass, field

import apenet
import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from dma_model import MemorySlave, known, physical
from handshake import Stepped, reset, start_clock
from simulate import simulate

WORDS = 1024
LOOK, COMMIT, BOTH = range(3)
SHORT = 80  # up to this size a single request
NONE = 17  # no refusal


@dataclass
class Pace:
    """Activity rates and delays of the neighbouring modules."""

    words: float = 1.0
    place: float = 1.0
    answer: tuple[int, int] = (7, 7)
    tlb: float = 1.0
    translation: tuple[int, int] = (6, 6)
    memory: float = 1.0
    done: float = 1.0
    defer: float = 0.2


PACES = {
    "nothing_waits": Pace(),
    "words_come_late": Pace(words=0.1),
    "placement_is_slow": Pace(place=0.1, answer=(20, 200)),
    "translation_is_slow": Pace(tlb=0.1, translation=(1, 60)),
    "memory_is_slow": Pace(memory=0.15),
    "memory_says_late_that_it_is_done": Pace(done=0.02),
    "everything_pauses": Pace(0.7, 0.5, (1, 30), 0.5, (1, 20), 0.5, 0.2, 0.5),
}


@dataclass
class Packet:
    """Datagram with its expected and observed state."""

    datagram: apenet.Datagram
    written_length: int  # length in its MGP header
    asked: list[int] = field(default_factory=list)
    looked: bool = False  # look answered and not deferred
    accepted: bool = False  # result of the look
    used: bool = False
    placed_at: int = 0
    decided_at: int = 0
    writes: int = 0  # number of writes up to and including this packet's

    @property
    def sound(self) -> bool:
        return self.datagram.verdict == 0 and self.datagram.refusal == NONE


def packet(rng, size=None, wrong=0.25):
    """Return a datagram, sound or with a random fault."""
    if size is None:
        size = rng.choice([16, 17, 40, 79, 80, 81, 96, 97, 256, 272, 600, 1472, rng.randrange(16, 1500)])
        size = rng.choice([4095, 4096, 4097, 8192, 8972]) if rng.random() < 0.03 else size
    length, claimed, verdict, refusal = size, None, 0, NONE
    if rng.random() < 0.2:  # padding is not written
        length = rng.randrange(16, size + 1)
    if rng.random() < wrong:
        way = rng.randrange(4)
        verdict, refusal = (4, NONE) if rng.random() < 0.4 else (0, rng.randrange(17))
        if way == 0:  # truncated: shorter than its headers announce
            length = claimed = size + rng.randrange(1, 2000)
        elif way == 1:
            length = rng.randrange(16)
        elif way == 2:
            size = rng.randrange(16)
    header = bytearray(rng.randbytes(16))
    header[4:6] = length.to_bytes(2, "little")
    payload = (bytes(header) + rng.randbytes(max(size - 16, 0)))[:size]
    if size < 6:
        length = int.from_bytes((payload + bytes(6))[4:6], "little")
    return Packet(
        apenet.Datagram(
            payload,
            stamp=rng.getrandbits(32),
            verdict=verdict,
            refusal=refusal,
            hits=rng.getrandbits(16),
            length=claimed,
        ),
        length,
    )


def whole(rng, size):
    """Return a sound packet without padding."""
    while True:
        one = packet(rng, size, 0)
        if one.written_length == size:
            return one


class Bench(Stepped):
    """Module with NaNet controller, placement, translation and memory."""

    def __init__(self, dut, pace):
        self.dut, self.pace = dut, pace
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.packets: list[Packet] = []
        self.waiting: list[list[tuple[int, int]]] = []  # words by datagram
        self.words: list[tuple[int, int]] = []
        self.now, self.level, self.entered = 0, 0, []
        self.next = self.checked = self.done = 0
        self.answer = self.translation = None  # (cycle, answer)
        self.expected, self.skipped, self.untranslated = [], 0, 0
        self.refused, self.profiles, self.last_words = [], [], []
        self.last_done: list[int] = []  # cycle in which the n-th write completed
        self.place = lambda: self.rng.getrandbits(60) << 4
        self.defers = lambda: self.rng.random() < self.pace.defer
        self.accepts = lambda: self.rng.random() < 0.8

    async def start(self):
        start_clock(self.dut)
        self.drive()
        await reset(self.dut)
        self.slave = MemorySlave(
            self.dut, rate=self.pace.memory, rng=self.rng, read=False, done_rate=self.pace.done
        )
        cocotb.start_soon(self.run())

    def put(self, packets):
        for one in packets:
            self.packets.append(one)
            self.waiting.append(apenet.packets(one.datagram, 0))

    async def finish(self, cycles=200_000, prompt=False):
        """Wait until all packets are done, then make the final checks.

        prompt: every packet is done as soon as it is decided and written.
        """
        for _ in range(cycles):
            if self.checked == len(self.packets) and int(self.dut.idle.value):
                break
            await RisingEdge(self.dut.clk)
        assert self.checked == len(self.packets), f"{self.checked} of {len(self.packets)} are done"
        await ClockCycles(self.dut.clk, 10)
        assert int(self.dut.idle.value)
        got = self.slave.writes
        for number, (have, want) in enumerate(zip(got, self.expected, strict=False)):
            assert have == want, f"write {number}: {have[0]:x} {len(have[1])} for {want[0]:x} {len(want[1])}"
        assert len(got) == len(self.expected)
        assert self.untranslated == self.skipped
        assert self.refused == [
            one.datagram.refusal
            for one in self.packets
            if one.datagram.verdict == 0 and one.datagram.refusal != NONE
        ]
        used = [(i, one) for i, one in enumerate(self.packets) if one.used]
        assert len(self.profiles) == len(used)
        for (written, placed, controller, start), (i, one) in zip(self.profiles, used, strict=True):
            assert start == one.datagram.stamp and controller == self.entered[i] and placed == one.placed_at
            ready = max(one.decided_at, self.last_done[one.writes - 1] if one.writes else 0)
            assert ready < written
            if prompt:
                assert written <= ready + 12, f"{written} for {ready}"

    # ------------------------------------------------------------ once per cycle

    def drive(self):
        dut, rng, pace = self.dut, self.rng, self.pace
        dut.now.value = self.now
        if not self.words and self.waiting and self.level + len(self.waiting[0]) + 6 <= WORDS:
            self.words = self.waiting.pop(0)
        valid = bool(self.words) and rng.random() < pace.words
        dut.in_valid.value = int(valid)
        if valid:
            kind, word = self.words.pop(0)
            if kind == apenet.FOOTER:
                word |= self.now << 96
                if not self.words:
                    self.entered.append(self.now)
            dut.in_kind.value, dut.in_data.value = kind, word
        dut.place_ready.value = int(rng.random() < pace.place)
        answers = self.answer and self.answer[0] <= self.now
        dut.placed_valid.value = int(bool(answers))
        if answers:
            dut.placed_accept.value, dut.placed_defer.value, dut.placed_vaddr.value = self.reply()
            self.answer = None
        else:  # invalid
            dut.placed_accept.value = dut.placed_defer.value = rng.getrandbits(1)
            dut.placed_vaddr.value = rng.getrandbits(64)
        dut.tlb_ready.value = int(rng.random() < pace.tlb)
        answers = self.translation and self.translation[0] <= self.now
        dut.tlb_resp_valid.value = int(bool(answers))
        dut.tlb_resp_ok.value, dut.tlb_resp_paddr.value = rng.getrandbits(1), rng.getrandbits(64)
        if answers:
            vaddr = self.translation[1]
            dut.tlb_resp_ok.value, dut.tlb_resp_paddr.value = int(known(vaddr)), physical(vaddr)
            self.translation = None

    def look(self):
        dut = self.dut
        self.level = int(dut.level.value)
        if int(dut.place_valid.value) and int(dut.place_ready.value):
            assert self.answer is None, "one request at a time"
            self.question(int(dut.place.value))
            self.answer = (self.now + self.rng.randint(*self.pace.answer),)
        if int(dut.tlb_valid.value) and int(dut.tlb_ready.value):
            assert self.translation is None
            self.translation = (
                self.now + self.rng.randint(*self.pace.translation),
                int(dut.tlb_vaddr.value),
            )
        if int(dut.wr_valid.value) and int(dut.wr_ready.value) and int(dut.wr_last.value):
            self.last_words.append(self.now)
        if int(dut.refused.value):
            self.refused.append(int(dut.refusal.value))
        self.untranslated += int(dut.untranslated.value)
        if int(dut.profile_valid.value):
            value = int(dut.profile.value)
            self.profiles.append([value >> 32 * i & 0xFFFFFFFF for i in (3, 2, 1, 0)])
        done = int(dut.done_serial.value)
        while self.checked < done:
            one = self.packets[self.checked]
            if not one.sound and not one.looked:
                self.pass_over(self.checked + 1)
            assert one.looked or self.next > self.checked, "done before any decision"
            assert self.done >= one.writes, f"packet {self.checked} is not written"
            self.checked += 1
        if int(dut.idle.value):
            assert len([at for at in self.entered if at < self.now - 4]) <= done, "idle with a pending packet"
        if int(dut.wr_done_valid.value):
            self.done += 1
            self.last_done.append(self.now)

    # ------------------------------------------------------------ placement

    def pass_over(self, until):
        """Skip packets without a request: unsound ones without a look."""
        while self.next < until:
            one = self.packets[self.next]
            assert not one.sound and not one.looked, f"no request for packet {self.next}"
            one.writes = len(self.expected)
            self.next += 1

    def question(self, value):
        serial, kind = value >> 176 & 0xFFFFFF, value >> 202
        self.pass_over(serial)
        assert serial == self.next
        one = self.packets[serial]
        payload = one.datagram.payload
        assert (value & (1 << 128) - 1).to_bytes(16, "little") == (payload + bytes(16))[:16]
        assert value >> 128 & 0xFFFFFFFF == one.datagram.stamp
        total = one.datagram.length or len(payload)
        if kind == LOOK:
            assert total > SHORT and not one.asked, "short packets have a single request"
        else:
            assert len(self.entered) > serial, "commit before the end of the packet"
            assert kind == (COMMIT if one.looked else BOTH)
            assert bool(value >> 201 & 1) == one.sound and (one.looked or one.sound)
            assert value >> 160 & 0xFFFF == one.datagram.hits
            assert kind == BOTH or bool(value >> 200 & 1) == one.accepted
        one.asked.append(kind)

    def reply(self):
        """Return accept, defer and address; record their consequences."""
        one, vaddr = self.packets[self.next], self.place()
        kind, accept = one.asked[-1], self.accepts()
        if kind == LOOK and self.defers():
            return int(accept), 1, vaddr
        if kind == LOOK:
            one.looked, one.placed_at = True, self.now
            one.accepted = accept and one.written_length >= 16
            self.order(one, one.accepted, vaddr)
            return int(accept), 0, vaddr
        one.decided_at = self.now
        self.next += 1
        if kind == COMMIT:
            one.used = accept = one.sound and one.accepted and self.rng.random() < 0.9
            return int(accept), 0, vaddr
        one.used, one.placed_at = accept, self.now
        self.order(one, accept, vaddr)
        return int(accept), 0, vaddr

    def order(self, one, accept, vaddr):
        payload = one.datagram.payload
        came = (payload + bytes(-len(payload) % 16))[: one.written_length]
        while accept and came:
            size = 256 - vaddr % 256
            if known(vaddr):
                self.expected.append((physical(vaddr), came[:size]))
            else:
                self.skipped += 1
            came, vaddr = came[size:], vaddr + size
        one.writes = len(self.expected)


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES))
async def every_byte_goes_to_its_address(dut, pace):
    bench = Bench(dut, PACES[pace])
    await bench.start()
    bench.put(packet(bench.rng) for _ in range(120))
    await bench.finish()
    asked = [one.asked for one in bench.packets]
    assert [] in asked and [BOTH] in asked
    # With slow neighbours, all packets are completely received before their requests.
    assert [LOOK, COMMIT] in asked or pace in ("placement_is_slow", "translation_is_slow")
    assert bench.skipped and bench.refused and bench.profiles


@cocotb.test()
async def small_packets_without_a_pause(dut):
    """Packets of three words back to back: the side queues hold as many packets as the buffer."""
    bench = Bench(dut, Pace(answer=(40, 40)))
    await bench.start()
    bench.place = lambda: bench.rng.getrandbits(8) << 4 | 0x1000
    bench.put(packet(bench.rng, 16, 0.1) for _ in range(250))
    await bench.finish(prompt=True)


@cocotb.test()
@cocotb.parametrize(translation=[1, 6, 20])
async def a_piece_takes_ten_cycles_and_its_translation(dut, translation):
    bench = Bench(dut, Pace(answer=(300, 300), translation=(translation, translation)))
    bench.place, bench.defers, bench.accepts = lambda: 0x1000, lambda: False, lambda: True
    await bench.start()
    bench.put([whole(bench.rng, 4096 - 256)])
    await bench.finish()
    gaps = [b - a for a, b in zip(bench.last_words, bench.last_words[1:], strict=False)]
    assert len(gaps) >= 8 and set(gaps[2:-1]) == {max(10 + translation, 16)}, gaps


@cocotb.test()
async def a_piece_leaves_before_its_packet_ends(dut):
    """Early requests: all but the last one or two writes are done before the packet ends."""
    bench = Bench(dut, Pace(words=0.5))
    bench.place, bench.defers, bench.accepts = lambda: 0x1000, lambda: False, lambda: True
    await bench.start()
    one = whole(bench.rng, 1472)
    bench.put([one])
    await bench.finish()
    assert one.asked == [LOOK, COMMIT]
    assert sum(at < bench.entered[0] for at in bench.last_words) >= 4
    assert bench.last_words[-1] - bench.entered[0] < 30


@cocotb.test()
async def deferred_packets_are_requested_again_at_their_end(dut):
    bench = Bench(dut, Pace(words=0.7))
    bench.defers = lambda: True
    await bench.start()
    bench.put(packet(bench.rng, 400, 0.3) for _ in range(40))
    await bench.finish()
    for one in bench.packets:
        assert one.asked in ([[LOOK, BOTH], [BOTH]] if one.sound else [[LOOK], []])
    assert any(len(one.asked) == 2 for one in bench.packets)


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(before=range(5, 12))
async def a_packet_cut_where_a_piece_ends_while_no_piece_can_go(dut, before):
    """Writes stall on a page miss, a packet of 400 B is truncated at 192: others keep their addresses."""
    bench = Bench(dut, Pace(answer=(3, 3), translation=(700, 700), words=1.0))
    bench.defers, bench.accepts = lambda: False, lambda: True
    bench.place = lambda: 0x1000 if len(bench.packets) <= before else 0x1040
    await bench.start()
    bench.put([whole(bench.rng, 48) for _ in range(before)])
    await ClockCycles(dut.clk, 300)
    header = bytearray(bench.rng.randbytes(16))
    header[4:6] = (400).to_bytes(2, "little")
    payload = bytes(header) + bench.rng.randbytes(192 - 16)
    bench.pace.words = 0.3
    bench.put([Packet(apenet.Datagram(payload, stamp=5, verdict=0, refusal=5), 400)])
    await ClockCycles(dut.clk, 100)
    bench.put([whole(bench.rng, 64) for _ in range(6)])
    bench.pace.translation = (6, 6)
    await bench.finish(20000)


def test_rx_writer():
    simulate("rx_writer", "test_rx_writer", {"BUFFER_WORDS": WORDS})
