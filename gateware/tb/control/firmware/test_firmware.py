# SPDX-License-Identifier: SHL-2.1
"""Test of the firmware on the fast-path model, against the socket card's receiver, packet by packet.

Both get the same random sequences of sound packets and the same times. Counters, events and buffer contents
are compared after each packet.
"""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import reference_mgp as mgp
from firmware_emulated import TARGETS, EmulatedFirmware, cross_compiler
from firmware_host import FIRMWARE, STRICT, compile_shared, compiler, constants
from firmware_model import RECEIVE_DONE, Card, Counts, Event
from firmware_packets_model import PacketCard
from firmware_traffic import Traffic
from mgp import marker, packet

ROOT = Path(__file__).resolve().parents[4]
SOURCES = [
    "card/software/receiver.cpp",
    "card/software/frame_merger.cpp",
    "card/software/receiver_close.cpp",
    "card/software/packet_receiver.cpp",
    "card/software/segments_ahead.cpp",
    "wire/mgp.cpp",
    "contract/fragment_index.cpp",
    "contract/mailbox.cpp",
    "contract/memory.cpp",
    "os/region_allocator.cpp",
]


class RawEvent(ctypes.Structure):
    """ctypes mirror of contract::Event."""

    _fields_ = (
        ("kind", ctypes.c_uint8),
        ("stream", ctypes.c_uint8),
        ("flags", ctypes.c_uint16),
        ("buffer", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("frame", ctypes.c_uint32),
        ("time", ctypes.c_uint64),
        ("n", ctypes.c_uint32),
        ("lap", ctypes.c_uint32),
    )


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    """Load the socket card's receiver."""
    sources = [
        Path(__file__).with_name("reference.cpp"),
        *(ROOT / "src" / "nanet" / name for name in SOURCES),
    ]
    command = [compiler("c++"), "-std=c++20", "-O1", f"-I{ROOT / 'src'}"]
    lib = ctypes.CDLL(str(compile_shared("reference", sources, command)))
    u64, pointer = ctypes.c_uint64, ctypes.c_void_p
    lib.reference_new.restype = pointer
    lib.reference_new.argtypes = [ctypes.c_uint32] * 3 + [
        u64,
        u64,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint32,
    ]
    lib.reference_delete.argtypes = [pointer]
    lib.reference_packet.argtypes = [pointer, ctypes.c_char_p, u64, u64]
    lib.reference_expire.argtypes = lib.reference_drain.argtypes = [pointer, u64]
    lib.reference_counts.argtypes = [pointer, ctypes.POINTER(ctypes.c_int64)]
    lib.reference_event.argtypes = [pointer, ctypes.POINTER(RawEvent), ctypes.c_char_p]
    lib.reference_report.restype, lib.reference_report.argtypes = ctypes.c_uint32, [pointer]
    return lib


class Pair:
    """Sends the same packets to both implementations."""

    def __init__(self, library, boards, segment, replay=False, packets=0):
        self.lib, self.segment, self.packets = library, segment, packets
        shape, times = (boards, 64 if packets else 2048, segment), (1000, 100_000)
        self.reference = library.reference_new(*shape, *times, 751_500, int(replay), packets)
        options = {"boards": boards, "buffers": shape[1], "segment": segment, "replay": replay}
        self.card = PacketCard(packets, **options) if packets else Card(**options)
        size = segment * packets if packets else 64 + 4 * segment
        self.buffer = ctypes.create_string_buffer((size + 63) // 64 * 64)
        self.ended = 0

    def close(self) -> None:
        """Release the reference's memory."""
        self.lib.reference_delete(self.reference)

    def counts(self) -> dict[str, int]:
        """Return the reference's counters."""
        out = (ctypes.c_int64 * (len(Counts) + 1))()
        self.lib.reference_counts(self.reference, out)
        return dict(zip((*Counts, "missing"), out, strict=True))

    def events(self) -> list[Event]:
        """Return the reference's new events."""
        raw, out = RawEvent(), []
        while self.lib.reference_event(self.reference, ctypes.byref(raw), self.buffer):
            contents = b""
            if raw.kind == RECEIVE_DONE:
                contents = self.slots() if self.packets else self.frame()
            out.append(Event(raw.kind, raw.flags, raw.buffer, raw.bytes, raw.frame, raw.n, contents))
        return out

    def frame(self) -> bytes:
        """Return the contents of a frame's buffer."""
        contents = self.buffer.raw[:64]
        ends = [int.from_bytes(contents[8 + 4 * b : 10 + 4 * b], "little") for b in range(4)]
        for b, end in enumerate(ends):
            contents += _blank(bytearray(self.buffer.raw[64 + b * self.segment :][:end]))
        return contents

    def slots(self) -> bytes:
        """Return the payloads of a buffer, each zero-padded."""
        contents = b""
        for at in range(0, self.segment * self.packets, self.segment):
            length = int.from_bytes(self.buffer.raw[at + 4 : at + 6], "little")
            if length:
                contents += self.buffer.raw[at : at + length].ljust(self.segment, b"\0")
        return contents

    def packet(self, data: bytes, now: int) -> None:
        """Advance the time to `now`, then send the packet to both."""
        self.expire(now)
        self.lib.reference_packet(self.reference, data, len(data), now)
        self.card.packet(data, now)
        self.compare()

    def expire(self, now: int) -> None:
        """Advance the time of both."""
        self.lib.reference_expire(self.reference, now)
        self.card.expire(now)
        self.compare()

    def drain(self, now: int) -> None:
        """Announce the end of the input to both."""
        self.lib.reference_drain(self.reference, now)
        self.card.drain(now)
        self.compare()

    def compare(self) -> None:
        """Assert that both agree."""
        events = self.card.take()
        expected = self.events()
        assert events == expected
        assert self.card.counts | {"missing": self.card.missing()} == self.counts()
        while report := self.lib.reference_report(self.reference):
            # In a replay, a third burst ends the first one and replaces it at once.
            assert report & 0x7FFFFFFF in self.card.reports or self.card.replay
            self.ended += 1


def _blank(data: bytearray) -> bytes:
    """Zero the gaps between payloads; the socket card leaves old data there."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 6], "little")
        end = at + -(-length // 16) * 16
        data[at + length : end] = bytes(end - at - length)
        at = end
    return bytes(data)


@pytest.mark.parametrize("seed", range(24))
def test_decides_as_the_socket_card_does(library, seed):
    rng = random.Random(seed)
    boards = rng.choice([0xF, 0xF, 0xF, 0, 1, 0xA])
    ids = [b for b in range(4) if boards >> b & 1] or [0xFF]
    replay = seed % 4 == 3
    pair = Pair(library, boards, rng.choice([8192, 8192, 512]), replay)
    traffic = Traffic(rng, ids)
    now = 1_000_000
    for _ in range(600):
        for data in traffic.step():
            now += rng.choice([0, 1, 1, 10])
            pair.packet(data, now)
        if rng.random() < 0.02:
            now += rng.choice([300, 999, 1000, 1001, 99_999, 100_000, 250_000])
            pair.expire(now)
        if rng.random() < 0.002:
            pair.drain(now)
    pair.expire(now + 1000)
    pair.drain(now + 1000)
    assert pair.card.requests > 100
    assert pair.ended >= pair.card.counts["bursts"] - 1
    pair.close()


@pytest.mark.parametrize("seed", range(6))
def test_decides_as_the_socket_card_does_in_gather_mode_packets(library, seed):
    rng = random.Random(seed)
    boards = rng.choice([0xF, 0xF, 0, 5])
    ids = [b for b in range(4) if boards >> b & 1] or [0xFF]
    pair = Pair(library, boards, rng.choice([1472, 480]), packets=rng.choice([1, 7, 64]))
    traffic = Traffic(rng, ids, odd_sob=False)
    now = 1_000_000
    for _ in range(600):
        for data in traffic.step():
            now += rng.choice([0, 1, 1, 10])
            pair.packet(data, now)
        if rng.random() < 0.02:
            now += rng.choice([300, 999, 1000, 1001])
            pair.expire(now)
        if rng.random() < 0.002:
            pair.drain(now)
    pair.drain(now)
    assert pair.card.requests > 100
    assert pair.card.counts["bursts"] > 5
    pair.close()


def test_translates_by_the_list_of_pages():
    rng = random.Random(1)
    for shift in (12, 16, 21):
        clop = 0x7F12_3456_0000_0000 >> 21 << 21
        pages = {i: rng.getrandbits(52 - shift) << shift for i in range(40) if i not in (7, 30)}
        card = Card(pages=pages, clop=clop, page_shift=shift)
        asked = [
            (i, clop + (i << shift) + rng.randrange(1 << shift)) for i in [*range(40), 3, 40, 41, 1 << 33]
        ]
        asked.append((-1, clop - 1))
        card.misses.extend(vaddr for _, vaddr in asked)
        while card.misses:
            assert card.firmware.step()
        for (index, vaddr), (filled, paddr, ok) in zip(asked, card.fills, strict=True):
            # 7 and 30: the read fails, as without bus mastering
            assert (filled, ok) == (vaddr, index in pages)
            assert not ok or paddr == pages[index]


def test_a_packet_and_a_page_take_turns():
    """A waiting packet is decided although the firmware translates every address."""
    card = Card(pages={0: 0})
    card.misses.extend([0] * 10)
    card.rare = {"OTHER": True, "CHANNEL": 0}
    card.stamp = card.now = 5
    for _ in range(2):
        assert card.firmware.step()
    assert len(card.fills) == 1
    assert card.answer == constants()["AGAIN"]
    assert len(card.misses) == 9


def test_start_forgets_everything():
    rng = random.Random(3)
    card = Card()
    card.packet(marker(2, mgp.SOB, burst=9), 100)
    card.packet(packet(rng, 2, 0, 1, burst=9), 101)
    state = card.firmware.state.raw
    card.start = True
    while card.firmware.step():
        pass
    fresh = Card()
    assert card.firmware.state.raw != state
    # Excludes the bus, the first three pointers.
    assert card.firmware.state.raw[24:] == fresh.firmware.state.raw[24:]


def test_registers_are_those_of_the_port():
    """Compare addresses with firmware_port.sv, and enumerations shared with nanet_pkg."""
    fw = constants()
    rtl = FIRMWARE.parent / "rtl"
    port = dict(re.findall(r"Addr(\w+?)\s*= 8'h(\w+)", (rtl / "control" / "firmware_port.sv").read_text()))
    assert len(port) > 30
    for name, address in port.items():
        base, high = re.fullmatch(r"(\w+?)(High|Old|\d)?", name).groups()
        offset = 4 * int(high) if (high or "").isdigit() else 4 if high else 0
        base = {"Last": "NEWEST", "Filled": "FILLED"}.get(base, base.upper())
        assert fw[base] + offset == int(address, 16), name
    package = (rtl / "common" / "nanet_pkg.sv").read_text()
    shared = {f"Command{op.title()}": fw[op] for op in _between("BURST", "ANSWER")}
    shared |= {"PlacedUsed": fw["AGAIN"], "PlacedWrongBurst": fw["WRONG_BURST"]}
    shared |= {f"Placed{name.title()}": fw[name] for name in ("LATE", "REPLAYED", "MARKER", "JUMP", "ADMIT")}
    for name, value in shared.items():
        assert re.search(rf"\b{name}\s*= 4'd{value}\b", package), name
    for name in ("MARKER", "OTHER", "JUMP", "FAR", "WATCHED", "REPLAYED"):
        bit = fw[f"SLOWPATH_{name}"].bit_length() - 1
        assert re.search(rf"\bSlowpath{name.title()} = {bit};", package), name


def _between(first: str, last: str) -> list[str]:
    names = list(constants())
    return names[names.index(first) : names.index(last) + 1]


@pytest.mark.parametrize("target", ["riscv32-unknown-elf", "thumbv7m-none-eabi"])
def test_compiles_for_a_microcontroller(target, tmp_path):
    clang = shutil.which("clang") or shutil.which("clang-14")
    if not clang:
        pytest.skip("no cross compiler installed")
    out = tmp_path / "nanet_fw.o"
    flags = [f"--target={target}", "-Os", "-ffreestanding", *STRICT]
    subprocess.run([clang, *flags, "-c", str(FIRMWARE / "nanet_fw.c"), "-o", str(out)], check=True)
    assert out.stat().st_size < 16384


@pytest.mark.parametrize("target", list(TARGETS))
def test_decides_alike_on_a_microcontroller(library, monkeypatch, target):
    """The same comparison with cross-compiled firmware on an emulated processor."""
    if not cross_compiler():
        pytest.skip("no cross compiler installed")
    monkeypatch.setattr(EmulatedFirmware, "target", target)
    monkeypatch.setattr(Card, "processor", EmulatedFirmware)
    rng = random.Random(11)
    for packets in (0, 7):
        pair = Pair(library, 0xF, 1472, packets=packets)
        traffic = Traffic(rng, [0, 1, 2, 3], odd_sob=not packets)
        now = 1_000_000
        for _ in range(200):
            for data in traffic.step():
                now += rng.choice([0, 1, 1, 10])
                pair.packet(data, now)
            if rng.random() < 0.02:
                now += rng.choice([999, 1000, 1001, 100_000, 250_000])
                pair.expire(now)
        pair.expire(now + 1000)
        pair.drain(now + 1000)
        assert pair.card.requests > 30
        pair.close()


@pytest.mark.parametrize("target", list(TARGETS))
def test_a_request_takes_a_few_hundred_instructions(monkeypatch, target):
    """Instruction counts without initialisation; doc/firmware.md quotes them (pytest -s prints them)."""
    if not cross_compiler():
        pytest.skip("no cross compiler installed")
    monkeypatch.setattr(EmulatedFirmware, "target", target)
    monkeypatch.setattr(Card, "processor", EmulatedFirmware)
    rng = random.Random(1)
    card = Card(pages={i: i << 12 for i in range(8)})
    firmware, took = card.firmware, {}
    step = firmware.step

    def counted() -> bool:
        known = step()
        taken.append((firmware.instructions, firmware.accesses))
        return known

    firmware.step = counted
    for kind, work in {
        "translation": lambda: (card.misses.append(0x3008), firmware.step()),
        "first SOB of a burst": lambda: card.packet(marker(0, mgp.SOB, burst=9), 100),
        "second SOB of a burst": lambda: card.packet(marker(1, mgp.SOB, burst=9), 101),
        "jump": lambda: card.packet(packet(rng, 0, 0, 9000, burst=9), 102),
        "jump, confirmed": lambda: card.packet(packet(rng, 0, 0, 9001, burst=9), 103),
        "EOB": lambda: card.packet(marker(0, mgp.EOB, frame=0, burst=9), 104),
    }.items():
        taken: list[tuple[int, int]] = []
        work()
        took[kind] = taken[0]
    print(target, took)
    assert all(50 < instructions < 4000 and accesses >= 5 for instructions, accesses in took.values())
