# SPDX-License-Identifier: Apache-2.0
"""Wireshark dissectors compared with the decoder: fields of valid packets, refusals of bad ones."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import reference_trigger as ref
from nanet._core import wire
from nanet.cli.dissector import SOURCE
from reference_pcap import capture, pcap, udp_frame, write_pcap
from reference_rings import PLANE as PM_PLANE
from reference_traffic import EOB, LAST, MALFORMED, SOB, Faults, Scenario, Sender, bare, edit

from nanet import _core

PLANE = [(float(x), float(y)) for x, y in PM_PLANE]
MTP_PORT = 58914
TSHARK = shutil.which("tshark")
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed (Debian: tshark)")


def tshark(path: Path, fields: tuple[str, ...], **preferences: object) -> list[list[str]]:
    """Fields of every packet of a capture as text; repeated fields separated by commas."""
    command = [
        str(TSHARK),
        "-X",
        f"lua_script:{SOURCE}",
        "-r",
        str(path),
        "-T",
        "fields",
        "-E",
        "occurrence=a",
    ]
    for name, value in preferences.items():
        command += ["-o", f"{name.replace('_', '.', 1)}:{value}"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Lua" not in done.stderr, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def payloads(path: Path, port: int = wire.default_port) -> Iterator[bytes | None]:
    """Datagram of every record, None if it is not to the port."""
    for _, frame, original in wire.PcapReader(str(path)):
        yield wire.parse_udp_frame(frame, port, original)[1]


def numbers(text: str) -> list[int]:
    """Values of a field."""
    return [int(part, 0) for part in text.split(",") if part]


HEADER = ("source", "board", "version", "flags", "length", "events", "index", "encoding", "sequence", "frame")
FLAGS = ("sob", "eob", "truncated", "error", "fixed", "last", "padded")
EVENT = ("timestamp", "fine", "stored", "seen", "flags")
EOB_COUNTS = ("frames", "packets", "events", "hits")
MGP_FIELDS = (
    *(f"mgp.{name}" for name in (*HEADER, "burst")),
    *(f"mgp.flags.{name}" for name in FLAGS),
    *(f"mgp.event.{name}" for name in EVENT),
    *("mgp.hit.pm", "mgp.hit.time"),
    *(f"mgp.eob.{name}" for name in EOB_COUNTS),
    *("mgp.refusal", "_ws.malformed"),
)


def mgp_row(data: bytes) -> dict[str, Any]:
    """Expected output of tshark for a valid packet, from the core's decoder."""
    head = wire.decode_header(data)
    events = wire.fragments(data)
    hits = [hit for event in events for hit in event["hits"]]
    row: dict[str, Any] = {f"mgp.{name}": [head[name]] for name in (*HEADER, "burst")}
    row |= {f"mgp.flags.{name}": [head["flags"] >> bit & 1] for bit, name in enumerate(FLAGS)}
    row |= {f"mgp.event.{n}": [event[n] for event in events] for n in EVENT if n != "stored"}
    row["mgp.event.stored"] = [len(event["hits"]) for event in events]
    row["mgp.hit.pm"] = [pm for pm, _ in hits]
    row["mgp.hit.time"] = [lsb for _, lsb in hits]
    counts = wire.decode_eob(data) if head["flags"] & EOB else {}
    row |= {f"mgp.eob.{name}": [counts[name]] if counts else [] for name in EOB_COUNTS}
    return row | {"mgp.refusal": [], "_ws.malformed": []}


@needs_tshark
@pytest.mark.parametrize(
    "how", [(), ("--slots", "fixed", "--pad"), ("--boards", "merged"), ("--boards", "merged", "--pad")]
)
def test_every_field_of_the_generator(
    nanet: Callable[..., Any], tmp_path: Path, how: tuple[str, ...]
) -> None:
    path = tmp_path / "run.pcap"
    nanet("generate", "--events", 1500, "--seed", 11, "--max-frames", 14, "--out", path, *how)
    rows = tshark(path, MGP_FIELDS)
    seen: Counter[str] = Counter()
    for row, data in zip(rows, payloads(path), strict=True):
        assert data is not None
        assert dict(zip(MGP_FIELDS, map(numbers, row), strict=True)) == mgp_row(data)
        flags = data[3]
        seen.update(name for name, bit in (("SOB", SOB), ("EOB", EOB), ("last", LAST)) if flags & bit)
        seen["hits"] += len(numbers(row[MGP_FIELDS.index("mgp.hit.pm")]))
    assert seen["SOB"] == seen["EOB"] > 1
    assert seen["hits"] > 20_000


@needs_tshark
@pytest.mark.parametrize("boards", [(0, 1, 2, 3), (0xFF,)])
def test_every_malformation_is_named(tmp_path: Path, boards: tuple[int, ...]) -> None:
    rng = random.Random(7)
    good = [
        packet
        for packet in Scenario(3, boards, frames=8, mean=4).datagrams(PLANE)
        if not packet[3] & (SOB | EOB) and packet[6]
    ]
    datagrams, names = [], []
    for name, make in MALFORMED.items():
        for _ in range(40):
            datagrams += [good[0], make(rng.choice(good), rng)]
            names += ["", name]
    path = write_pcap(tmp_path / "bad.pcap", datagrams)
    merged = boards == (0xFF,)
    want = [wire.validate(data, 0 if merged else 0xF)[0] or "" for data in datagrams]
    experts = tuple(f"mgp.{name}" for name in wire.refusals)
    rows = tshark(path, ("mgp.refusal", *experts), mgp_boards="merged" if merged else "4")
    assert [row[0] for row in rows] == want
    for row in rows:  # exactly one expert information
        assert [name for name, flag in zip(wire.refusals, row[1:], strict=True) if flag] == [row[0]] * bool(
            row[0]
        )
    if not merged:
        assert want == names


@needs_tshark
@pytest.mark.parametrize("seed", range(6))
def test_hostile_captures_agree_with_the_decoder(tmp_path: Path, seed: int) -> None:
    boards = (0, 1, 2, 3) if seed % 3 else (0xFF,)
    faults = Faults(drop=0.02, dup=0.02, reorder=0.05, corrupt=0.1, malformed=0.2, wild=0.05)
    datagrams = Scenario(seed, boards, 2, 10, 1.5, faults, hostile=seed % 2 == 0).datagrams(PLANE)
    path = tmp_path / "hostile.pcap"
    path.write_bytes(capture(datagrams, random.Random(seed), 0.05))
    text = "4" if seed % 3 else "merged"
    # A replay has no clock that could detect a third burst, and neither has the dissector.
    rows = tshark(path, ("mgp.refusal",), mgp_boards=text, mgp_timeout_us=0)
    found: Counter[str] = Counter()
    for row, data in zip(rows, payloads(path), strict=True):
        if data is not None:
            assert row[0] == (wire.validate(data, 0xF if seed % 3 else 0)[0] or ""), data.hex()
            found[row[0]] += 1
    options = ref.Options(boards=boards).core()
    core = _core.Replay(options | {"pcap": str(path), "algorithm": "math"})
    core.run()
    counts = {name: count for name, count in core.result()["bad_packets"].items() if count}
    del found[""]
    assert counts == dict(found)


@needs_tshark
def test_recorded_traffic_agrees_with_the_trigger(nanet: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "recorded.pcap"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, wire.PcapWriter(str(path)) as writer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(0.2)
        faults = "drop=0.02,corrupt=0.2,dup=0.05,reorder=0.05"
        address = f"127.0.0.1:{sock.getsockname()[1]}"
        nanet("readout", "--to", address, "--speed", 0.002, "--events", 3000, "--pool-frames", 64,
              "--no-segmentation", "--fault", faults)  # fmt: skip
        for number in range(1 << 20):
            try:
                data = sock.recv(65536)
            except TimeoutError:
                break
            writer.write_udp(number * 1000, (0x7F000001, 4000), (0x7F000001, wire.default_port), data)
    options = ref.Options().core() | {"pcap": str(path), "algorithm": "math"}
    core = _core.Replay(options)
    core.run()
    result = core.result()
    rows = tshark(path, ("mgp.refusal",), mgp_boards="4")
    found = Counter(row[0] for row in rows if row[0])
    assert len(rows) == result["packets_in"] > 60
    assert dict(found) == {name: count for name, count in result["bad_packets"].items() if count}
    assert sum(found.values()) > 5


@needs_tshark
def test_a_third_burst_is_flagged_while_two_are_open(tmp_path: Path) -> None:
    def burst(number: int) -> list[bytes]:
        boards = [Sender(board, number) for board in range(4)]
        rng = random.Random(1)
        return [b.sob() for b in boards] + [p for b in boards for p in b.frame(0, [], rng)]

    ends = [edit(edit(bare(p), 3, EOB), 4, 40, 2) + bytes(24) for p in burst(1)[:4]]
    bursts = burst(1), burst(2)[:-3], burst(3)[:2]
    datagrams = [*bursts[0], *bursts[1], *bursts[2]]
    names = [[row[0] for row in tshark(write_pcap(tmp_path / "a.pcap", datagrams), ("mgp.refusal",))]]
    # After the end of burst 1 (its EOBs, or the SOBs of burst 2 from all boards) a third burst may start.
    datagrams = [*bursts[0], bursts[1][0], bursts[1][4], *bursts[2]]
    names += [[row[0] for row in tshark(write_pcap(tmp_path / "b.pcap", datagrams), ("mgp.refusal",))]]
    datagrams = [*bursts[0], *ends, bursts[1][0], bursts[1][4], *bursts[2]]
    names += [[row[0] for row in tshark(write_pcap(tmp_path / "c.pcap", datagrams), ("mgp.refusal",))]]
    datagrams = [*bursts[0], bursts[1][0], bursts[1][4], *bursts[2]]
    path = write_pcap(tmp_path / "d.pcap", datagrams)
    names += [[row[0] for row in tshark(path, ("mgp.refusal",), mgp_timeout_us=0)]]
    assert [[name for name in one if name] for one in names] == [[], ["wrong_burst"] * 2, [], []]


@needs_tshark
def test_any_bytes_are_judged_and_none_stops_the_dissector(tmp_path: Path) -> None:
    rng = random.Random(9)
    good = [p for p in Scenario(5, frames=6, mean=4).datagrams(PLANE) if len(p) > 40]
    datagrams = [rng.randbytes(rng.randrange(120)) for _ in range(300)]
    for _ in range(1500):  # valid headers with random contents, or valid packets with random changes
        data = bytearray(rng.choice(good))
        for _ in range(rng.choice((1, 2, 8, 60))):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 31, 32, 33, 127, 128, 255, rng.randrange(256)))
        datagrams.append(bytes(data[: rng.choice((len(data), rng.randrange(16, len(data))))]))
        if rng.random() < 0.5:  # with a matching length
            datagrams[-1] = edit(datagrams[-1], 4, len(datagrams[-1]), 2)
    rows = tshark(
        write_pcap(tmp_path / "any.pcap", datagrams),
        ("mgp.refusal", "_ws.malformed", "_ws.lua.error"),
        mgp_boards="4",
        mgp_timeout_us=0,
    )
    assert [row[0] for row in rows] == [wire.validate(data)[0] or "" for data in datagrams]
    assert all(bool(row[0]) == bool(row[1]) for row in rows)
    assert not any(row[2] for row in rows)
    assert len({row[0] for row in rows}) > 12


MTP_HEADER = ("source", "sub_id", "primitives", "length", "frame")
MTP_FIELDS = (
    *(f"mtp.{name}" for name in MTP_HEADER),
    "mtp.primitive.time",
    "mtp.primitive.id",
    "mtp.refusal",
)
ID_BITS = {
    "calibration": (15, 1), "valid": (14, 1), "rings": (12, 3), "saturated": (11, 1), "small": (10, 1),
    "multiplicity": (9, 1), "ambiguous": (8, 1), "incomplete": (7, 1), "chi2": (6, 1), "radius": (0, 63),
}  # fmt: skip


def mtp_rows(path: Path) -> Iterator[tuple[dict[str, str], tuple[str | None, Any, list[tuple[int, int]]]]]:
    """Output of tshark and of the core's decoder for each MTP packet."""
    fields = (*MTP_FIELDS, *(f"mtp.primitive.{name}" for name in ID_BITS), "mgp.refusal")
    for row, data in zip(tshark(path, fields), payloads(path, MTP_PORT), strict=True):
        assert data is not None
        yield dict(zip(fields, row, strict=True)), wire.mtp_decode(data)


@needs_tshark
def test_every_field_of_the_primitives(nanet: Callable[..., Any], tmp_path: Path) -> None:
    nanet("generate", "--events", 1500, "--seed", 12, "--max-frames", 14, "--out", tmp_path / "run.pcap")
    options = ref.Options().core()
    path = tmp_path / "mtp.pcap"
    core = _core.Replay(
        options | {"pcap": str(tmp_path / "run.pcap"), "mtp": str(path), "algorithm": "tripl"}
    )
    core.run()
    total, bits = 0, Counter[str]()
    for row, (reason, head, primitives) in mtp_rows(path):
        assert reason is None
        assert [int(row[f"mtp.{name}"], 0) for name in MTP_HEADER] == [head[name] for name in MTP_HEADER]
        assert numbers(row["mtp.primitive.time"]) == [time for time, _ in primitives]
        ids = [word for _, word in primitives]
        assert numbers(row["mtp.primitive.id"]) == ids
        for name, (shift, mask) in ID_BITS.items():
            values = [word >> shift & mask for word in ids]
            assert numbers(row[f"mtp.primitive.{name}"]) == values
            bits[name] += sum(map(bool, values))
        assert row["mtp.refusal"] == row["mgp.refusal"] == ""
        total += len(primitives)
    assert total == core.result()["primitives_out"] > 1000
    assert all(bits[name] for name in ("valid", "rings", "saturated", "small", "multiplicity", "radius"))


@needs_tshark
def test_numbers_of_rings_have_names(tmp_path: Path) -> None:
    words = [(0x4000 | rings << 12, 1, rings) for rings in range(4)]
    frame = udp_frame(bytes(wire.mtp_encode(7, words)), port=MTP_PORT)
    path = tmp_path / "rings.pcap"
    path.write_bytes(pcap([(frame, len(frame))]))
    command = [str(TSHARK), "-X", f"lua_script:{SOURCE}", "-r", str(path), "-V"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for number, name in enumerate(("none", "one", "two", "three or more")):
        assert f"Rings: {name} ({number})" in said
    assert "Unknown" not in said


@needs_tshark
def test_items_are_made_only_where_they_are_used(nanet: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "run.pcap"
    nanet("generate", "--events", 10_000, "--seed", 3, "--out", path)

    def cpu_s(*options: str) -> float:
        before = os.times().children_user
        command = [str(TSHARK), "-X", f"lua_script:{SOURCE}", "-r", str(path), *options]
        subprocess.run(command, check=True, capture_output=True)
        return os.times().children_user - before

    # Details take some 9 times as long as a list. CPU time: the load of the machine has little effect.
    assert cpu_s("-Y", "mgp.refusal") < 0.5 * cpu_s("-T", "fields", "-e", "mgp.hit.pm")


def mtp_packets(rng: random.Random) -> Iterator[bytes]:
    """MTP packets, most of them malformed."""
    for _ in range(300):
        frame = rng.randrange(1 << 24)
        times = sorted(rng.randrange(65536) for _ in range(rng.choice((0, 1, 2, 7))))
        ids = [(rng.randrange(256, 65536), time >> 8, time & 255) for time in times]
        data = bytearray(wire.mtp_encode(frame, ids, sub_id=rng.choice((0, 255))))
        yield bytes(data)
        yield bytes(data[: rng.randrange(len(data))])
        yield bytes(data) + rng.randbytes(rng.choice((1, 4, 8)))
        for _ in range(3):
            at = rng.randrange(len(data))
            yield bytes(data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :])
        # whole words in any order, with a header that matches in length and number
        words = [bytes(data[at : at + 4]) for at in range(8, len(data), 4)]
        rng.shuffle(words)
        del words[: rng.randrange(2)]
        head = bytearray(data[:8])
        head[4:6] = (8 + 4 * len(words)).to_bytes(2, "little")
        head[6] = sum(word[3] != 0 for word in words)
        yield bytes(head) + b"".join(words)


@needs_tshark
def test_every_mtp_malformation_is_named(tmp_path: Path) -> None:
    packets = list(mtp_packets(random.Random(5)))
    frames = [udp_frame(data, port=MTP_PORT) for data in packets]
    path = tmp_path / "mtp.pcap"
    path.write_bytes(pcap([(frame, len(frame)) for frame in frames]))
    found: Counter[str] = Counter()
    for row, (reason, _, _) in mtp_rows(path):
        assert row["mtp.refusal"] == (reason or "")
        found[reason or ""] += 1
    assert set(found) == {
        "", "short_header", "bad_source", "length_mismatch", "count_mismatch", "no_timestamp_word",
        "ends_with_timestamp", "not_in_order",
    }  # fmt: skip


@needs_tshark
def test_packets_cut_short_are_not_judged(tmp_path: Path) -> None:
    frame = udp_frame(Sender(1).sob() + bytes(40))
    path = tmp_path / "cut.pcap"
    path.write_bytes(
        pcap([(frame[: 42 + size], len(frame)) for size in range(1, 56)] + [(frame, len(frame))])
    )
    rows = tshark(path, ("mgp.refusal", "mgp.cut_short"))
    assert [row[0] for row in rows] == [""] * 55 + ["length_mismatch"]
    assert all(row[1] for row in rows[:-1])
    assert not rows[-1][1]


@needs_tshark
def test_boards_by_preference(tmp_path: Path) -> None:
    merged = Sender(0xFF).sob()
    path = write_pcap(tmp_path / "boards.pcap", [Sender(board).sob() for board in range(4)] + [merged])
    bad = "bad_board"
    for text, want in (
        ("4", ["", "", "", "", bad]),
        ("1,3", [bad, "", bad, "", bad]),
        ("merged", [bad, bad, bad, bad, ""]),
        ("auto", ["", "", "", "", bad]),
    ):
        assert [row[0] for row in tshark(path, ("mgp.refusal",), mgp_boards=text)] == want
    path = write_pcap(tmp_path / "merged.pcap", [merged, Sender(2).sob()])
    assert [row[0] for row in tshark(path, ("mgp.refusal",))] == ["", bad]


@needs_tshark
def test_other_ports_by_preference(tmp_path: Path) -> None:
    frame = udp_frame(Sender(2).sob(), port=4000)
    path = tmp_path / "port.pcap"
    path.write_bytes(pcap([(frame, len(frame))]))
    assert tshark(path, ("mgp.board",)) == [[""]]
    assert tshark(path, ("mgp.board",), mgp_port=4000) == [["2"]]


def test_the_dissector_is_installed_in_the_given_folder(nanet: Callable[..., Any], tmp_path: Path) -> None:
    printed = Path(nanet("dissector").stdout.strip())
    assert printed.read_bytes() == SOURCE.read_bytes()
    placed = Path(nanet("dissector", "--install", "--to", tmp_path / "a" / "b").stdout.strip())
    assert placed == tmp_path / "a" / "b" / "nanet.lua"
    assert placed.read_bytes() == SOURCE.read_bytes()
    assert "give --install too" in nanet("dissector", "--to", tmp_path, status=2).stderr
    (tmp_path / "file").touch()
    refused = nanet("dissector", "--install", "--to", tmp_path / "file" / "x", status=2)
    assert "--install" in refused.stderr


@needs_tshark
def test_an_installed_dissector_is_found(
    nanet: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    placed = Path(nanet("dissector", "--install").stdout.strip())
    assert placed.is_relative_to(tmp_path / "home")
    command = [str(TSHARK), "-r", str(write_pcap(tmp_path / "a.pcap", [Sender(3).sob()]))]
    done = subprocess.run(
        [*command, "-T", "fields", "-e", "mgp.board"], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["3"], done.stderr
