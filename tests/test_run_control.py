# SPDX-License-Identifier: Apache-2.0
"""Run control and recording: bursts as units, conditions, downscaling, replay of recorded packets."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import reference_trigger as ref
from nanet.config.conditions import LSB_NS, Watch, load
from nanet.errors import UsageError
from reference_pcap import write_pcap
from reference_traffic import Sender

from nanet import _core

BOARDS = (0, 1, 2, 3)


def burst(number: int, frames: int, events: int = 2, eob: bool = True) -> list[bytes]:
    """A burst of four boards; event e of a frame is one hit of PM e of each board, at 10000 e."""
    rng = random.Random(number)
    senders = [Sender(board, burst=number) for board in BOARDS]
    packets = [sender.sob() for sender in senders]
    for frame in range(frames):
        for board, sender in enumerate(senders):
            fragments = [
                ((frame << 16) + 10000 * e, [(512 * board + e % 400, 0)], 1, 0) for e in range(events)
            ]
            packets += sender.frame(frame, fragments, rng)
    return packets + ([sender.eob(frames - 1) for sender in senders] if eob else [])


class Live:
    """A trigger of the core with a socket that feeds it and one that receives its answers."""

    def __init__(self, port: int, **options: Any) -> None:
        self.answers = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.answers.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.answers.bind(("127.0.0.1", 0))
        self.answers.settimeout(10)
        self.feed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.to = ("127.0.0.1", port)
        self.core = _core.Trigger(
            {
                "listen": f"127.0.0.1:{port}",
                "send": f"127.0.0.1:{self.answers.getsockname()[1]}",
                "algorithm": "math",
                "timeout_us": 2e6,
                "deadline_us": 5e6,
                "buffers": 1 << 21,
                "segment_bytes": 1024,
                "burst_silence_us": 10e6,
            }
            | options
        )

    def send(self, packets: list[bytes]) -> None:
        for i, packet in enumerate(packets):
            self.feed.sendto(packet, self.to)
            if i % 16 == 15:
                time.sleep(0.001)

    def take(self, frames: int) -> list[bytes]:
        """Receives a number of answers."""
        return [self.answers.recv(2048) for _ in range(frames)]

    def wait_for(self, state: str) -> None:
        end = time.monotonic() + 10
        while self.core.snapshot()["state"] != state:
            assert time.monotonic() < end
            time.sleep(0.01)

    def stop(self) -> dict[str, Any]:
        self.core.request_stop()
        assert self.core.join(20)
        self.feed.close()
        self.answers.close()
        return self.core.result()


@pytest.fixture
def live(free_udp_port: Callable[[], int]) -> Iterator[Callable[..., Live]]:
    made: list[Live] = []

    def make(**options: Any) -> Live:
        made.append(
            Live(free_udp_port(), **{"buffers": 0, "deadline_us": 400e3, "timeout_us": 300e3} | options)
        )
        made[-1].core.start()
        return made[-1]

    yield make
    for one in made:
        one.core.request_stop()
        one.core.join(20)


def primitives(packet: bytes) -> list[tuple[int, int]]:
    """(primitive ID, time in the frame) of an MTP packet."""
    words = struct.unpack(f"<{len(packet) // 4}I", packet)
    return [(word >> 16, word & 0xFFFF) for word in words[3:]]


def test_reports_of_bursts_add_up(live: Callable[..., Live]) -> None:
    trigger = live()
    assert trigger.core.snapshot()["state"] == "waiting" and trigger.core.snapshot()["burst"] is None
    frames = (30, 50, 20)
    reports: list[dict[str, Any]] = []
    for number, count in enumerate(frames, 7):
        packets = burst(number, count, eob=number != 9)
        if number == 8:
            packets.insert(40, b"\0" * 5)
        trigger.send(packets)
        trigger.take(count)
        if number == 8:  # after its EOB the burst is over
            trigger.wait_for("waiting")
    assert trigger.core.snapshot()["state"] == "burst"
    result = trigger.stop()
    reports += trigger.core.take_bursts()
    assert result["state"] == "stopped" and result["burst"] == 9 and result["account_closes"]
    assert [r["burst"] for r in reports] == [7, 8, 9]
    assert [r["ended_by"] for r in reports] == ["eob", "eob", "drain"]
    assert [r["frames_answered"] for r in reports] == list(frames)
    assert [r["events_built"] for r in reports] == [2 * count for count in frames]
    assert [r["latency_us"]["total"]["n"] for r in reports] == list(frames)
    assert [r["eob_boards"] for r in reports] == [[0, 1, 2, 3], [0, 1, 2, 3], []]
    assert all(r["sob_boards"] == [0, 1, 2, 3] and r["account_closes"] for r in reports)
    for key in ("packets_in", "packets_used", "burst_markers", "bytes_in", "events_in", "hits_in"):
        assert sum(r[key] for r in reports) == result[key], key
    assert [sum(r["bad_packets"].values()) for r in reports] == [0, 1, 0]


def test_conditions_change_between_bursts(live: Callable[..., Live]) -> None:
    def offsets(lsb: int, name: str) -> dict[str, Any]:
        return {"masked": [], "t0_lsb": [lsb] * 1952, "name": name}

    for threads in (1, 2):
        trigger = live(threads=threads, conditions=offsets(0, "first"))
        trigger.send(burst(0, 20)[:44])
        trigger.wait_for("burst")
        trigger.core.offer_conditions(offsets(100, "second"))
        trigger.send(burst(0, 20)[44:])
        times = [primitives(p)[1][1] for p in trigger.take(20)]
        assert times == [10000] * 20
        trigger.send(burst(1, 20))
        assert [primitives(p)[1][1] for p in trigger.take(20)] == [9900] * 20
        assert trigger.core.snapshot()["conditions"] == {"name": "second", "masked": 0, "changes": 1}
        trigger.stop()
        assert [r["conditions"] for r in trigger.core.take_bursts()] == ["first", "second"]


@pytest.mark.parametrize("threads", [1, 2])
def test_recorded_bursts_replay_to_the_same_primitives(
    live: Callable[..., Live], tmp_path: Path, threads: int
) -> None:
    folder = tmp_path / "raw"
    trigger = live(record=str(folder), threads=threads, downscale_factors=[2, 2, 2, 2])
    answers: list[bytes] = []
    refused = [b"", b"\0" * 16, b"\xff" * 2000]
    for number in range(3):
        packets = burst(number, 40, events=5)
        packets[20:20] = refused
        trigger.send(packets)
        answers += trigger.take(40)
    result = trigger.stop()
    recorded = result["recorded"]
    assert recorded["bad_packets"] == sum(result["bad_packets"].values()) == 9
    assert recorded["packets"] + recorded["bad_packets"] == result["packets_in"]
    assert recorded["ring_full"] == recorded["write_failed"] == 0
    assert not any(result["lost"].values())
    raw = sorted(folder.glob("raw-*.pcap"))
    assert [path.name for path in raw] == [f"raw-00000{n + 1}-burst{n}.pcap" for n in range(3)]
    assert len(list(folder.glob("bad-*.pcap"))) == 1
    out = tmp_path / "again.pcap"
    again = _core.Replay(
        {"pcap": str(raw[0]), "more": list(map(str, raw[1:])), "mtp": str(out), "port": trigger.to[1]}
        | {"algorithm": "math", "downscale_factors": [2, 2, 2, 2], "boards": 0xF}
    )
    again.run()
    replayed = [ref.payload(frame, length, 58914) for frame, length in ref.records(str(out))]
    assert replayed == answers
    assert again.result()["downscaled"] == result["downscaled"]
    assert 0 < sum(result["downscaled"].values()) < result["events_built"]
    assert not any(again.result()["bad_packets"].values())


def test_several_captures_are_one_run(nanet: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    bursts = [burst(number, 30, events=3) for number in range(3)]
    for number, packets in enumerate(bursts):
        write_pcap(folder / f"raw-00000{number + 1}-burst{number}.pcap", packets)
    write_pcap(folder / "bad-000001.pcap", [b"\0" * 16])
    write_pcap(tmp_path / "whole.pcap", [packet for packets in bursts for packet in packets])
    parts = sorted(folder.glob("raw-*"))

    def replay(*captures: Any) -> dict[str, Any]:
        names = ("--algorithm", "math", "--device", "cpu", "--mtp", "m.pcap", "--out", "r.parquet")
        result = json.loads(nanet("replay", *captures, *names, "--json", "-").stdout)
        result["answers"] = (tmp_path / "m.pcap").read_bytes()
        result["rings_found"] = pq.read_table(tmp_path / "r.parquet").to_pydict()
        return result

    whole, several, all_of_it = replay("whole.pcap"), replay(*parts), replay("raw")
    assert all_of_it["captures"] == [f"raw/{part.name}" for part in parts]
    assert whole["events_built"] == 270 and whole["bursts"] == 3 and not any(whole["lost"].values())
    for key in (
        "packets_in",
        "bursts",
        "events_built",
        "primitives_out",
        "frames_out",
        "rings_found",
        "bad_packets",
    ):
        assert several[key] == all_of_it[key] == whole[key], key
    payloads = [
        [ref.payload(f, n, 58914) for f, n in records(r["answers"], tmp_path)]
        for r in (whole, several, all_of_it)
    ]
    assert payloads[0] == payloads[1] == payloads[2]
    # In reverse order each burst is older than the one before, and is ignored.
    assert replay(*reversed(parts))["lost"]["late"] == sum(map(len, bursts[:2]))
    # A truncated file is named, and the others are replayed.
    parts[0].write_bytes(parts[0].read_bytes()[:-1])
    cut = replay("raw")
    assert cut["truncated"] and cut["truncated_files"] == ["raw/raw-000001-burst0.pcap"]
    assert cut["packets_in"] == whole["packets_in"] - 1


def records(capture: bytes, folder: Path) -> list[tuple[bytes, int]]:
    """Frames of a capture and their lengths on the wire."""
    path = folder / "records.pcap"
    path.write_bytes(capture)
    return list(ref.records(str(path)))


def test_captures_that_cannot_be_read_are_named(nanet: Callable[..., Any], tmp_path: Path) -> None:
    write_pcap(tmp_path / "a.pcap", burst(0, 3))
    (tmp_path / "b.pcap").write_bytes(b"nothing of the kind" * 3)
    (tmp_path / "empty").mkdir()
    for given, said in (
        (["a.pcap", "none.pcap"], "none.pcap"),
        (["a.pcap", "b.pcap"], "b.pcap: not a pcap file"),
        (["empty"], "empty: there is no .pcap or .pcapng file"),
        (["a.pcap", "a.pcap", "--mtp", "a.pcap"], "--mtp a.pcap"),
    ):
        done = nanet("replay", *given, status=2)
        assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_choke_is_raised_while_buffers_fill(live: Callable[..., Live]) -> None:
    trigger = live(choke_high=0.001, choke_low=0.0005)
    assert trigger.core.snapshot()["buffers"] == 131072  # twice the frames of 400 ms
    packets = [p for p in burst(0, 400, events=1, eob=False) if p[1] != 3]  # board 3 is silent
    for packet in packets:
        trigger.feed.sendto(packet, trigger.to)
    end = time.monotonic() + 20
    most = 0.0
    while not trigger.core.snapshot()["choke"]["on"]:
        assert time.monotonic() < end
    while trigger.core.snapshot()["choke"]["on"]:  # frames close at their timeout
        most = max(most, trigger.core.snapshot()["choke"]["fill"])
        assert time.monotonic() < end
    result = trigger.stop()
    assert result["choke"]["raised"] == 1 and result["choke"]["seconds"] > 0
    assert result["choke"]["fill_max"] >= most >= 0.0005
    assert sum(r["choke_raised"] for r in trigger.core.take_bursts()) == 1
    assert result["account_closes"] and result["frames_incomplete"] == result["frames_in"]


CONDITIONS = """
mask = [3, "512-514"]
[t0_ns]
0 = 0.39
"1024-1025" = -1.2
"""


def test_conditions_file(tmp_path: Path) -> None:
    path = tmp_path / "conditions.toml"
    path.write_text(CONDITIONS)
    conditions = load(str(path))
    assert conditions.masked == (3, 512, 513, 514)
    offsets = {pm: lsb for pm, lsb in enumerate(conditions.t0_lsb) if lsb}
    assert offsets == {0: 4, 1024: -12, 1025: -12}
    path.write_text(f"t0_ns = {[round(pm * LSB_NS / 2, 6) for pm in range(1952)]}")
    assert load(str(path)).t0_lsb[1000] == 500
    assert load(str(path)).name != conditions.name


@pytest.mark.parametrize(
    "text, said",
    [
        ("masks = [1]", ["masks", "mask"]),
        ("mask = 3", ["mask", "3", "list"]),
        ("mask = [1952]", ["mask", "1952", "0 to 1951"]),
        ("mask = ['7-3']", ["mask", "7-3", "range"]),
        ("mask = [true]", ["mask", "True"]),
        ("t0_ns = [1, 2]", ["t0_ns", "2 values", "1952"]),
        ("[t0_ns]\n3 = 100", ["t0_ns.3", "100", "99.8 ns"]),
        ("[t0_ns]\n3 = nan", ["t0_ns.3", "nan"]),
        ("[t0_ns]\n3 = 1\n'0-5' = 2", ["t0_ns.0-5", "3", "already"]),
        ("[t0_ns]\nx = 1", ["t0_ns", "'x'", "512-519"]),
        ("mask = [", ["is not TOML"]),
    ],
)
def test_wrong_conditions_are_refused(tmp_path: Path, text: str, said: list[str]) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        load(str(path))
    assert all(part in str(error.value) for part in ["wrong.toml", *said]), error.value


def test_a_changed_file_is_read_once_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "conditions.toml"
    path.write_text(CONDITIONS)
    watch = Watch(str(path))
    assert watch.changed() is None
    path.write_text("mask = [1, ")
    assert watch.changed() is None  # it may be incomplete
    path.write_text("mask = [1, 2]")
    assert watch.changed() is None
    changed = watch.changed()
    assert changed is not None and changed.masked == (1, 2)
    assert watch.changed() is None
    path.write_text("mask = [")
    assert watch.changed() is None
    with pytest.raises(UsageError):
        watch.changed()
    assert watch.changed() is None  # one message only
    os.remove(path)
    assert watch.changed() is None


def test_masks_and_offsets_act_alike_in_every_executor(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "run.pcap", burst(0, 50, events=6))
    seen = []
    for threads in (1, 2, 3):
        out = tmp_path / f"{threads}.pcap"
        core = _core.Replay(
            {"pcap": str(path), "mtp": str(out), "algorithm": "math", "threads": threads, "boards": 0xF}
            | {"conditions": {"masked": [0, 512, 1024, 1536, 513], "t0_lsb": [8, 40] * 976, "name": "x"}}
        )
        core.run()
        result = core.result()
        assert (result["masked_hits"], result["below_min_hits"]) == (250, 50) and result["account_closes"]
        seen.append([ref.payload(f, n, 58914) for f, n in ref.records(str(out))])
    assert seen[0] == seen[1] == seen[2]
    # Event 1 has lost PM 513; the remaining hits are odd and 40 LSB late. Event 2: four even ones.
    assert [t for _, t in primitives(seen[0][5])][:2] == [9960, 19992]


def test_command_line(
    nanet: Callable[..., Any], nanet_program: str, free_udp_port: Callable[[], int], tmp_path: Path
) -> None:
    conditions = tmp_path / "conditions.toml"
    conditions.write_text("mask = [0]")
    port = free_udp_port()
    status = tmp_path / "status"
    options = f"--listen 127.0.0.1:{port} --send 127.0.0.1:{free_udp_port()} --algorithm math --device cpu"
    more = (
        "--conditions conditions.toml --burst-report bursts --record raw --downscale 0=1 --json result.json"
    )
    process = subprocess.Popen(
        [nanet_program, "trigger", *options.split(), *more.split(), "--status", "status"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    feed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(packets: list[bytes]) -> None:
        for packet in packets:
            feed.sendto(packet, ("127.0.0.1", port))
            time.sleep(0.0005)

    def lines() -> list[dict[str, Any]]:
        path = tmp_path / "bursts"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def until(done: Callable[[], Any]) -> None:
        end = time.monotonic() + 30
        while not done():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.02)

    def snapshots() -> list[dict[str, Any]]:
        text = status.read_text().splitlines() if status.exists() else []
        return [json.loads(line)["snapshot"] for line in text[:-1]]

    try:
        until(snapshots)
        send(burst(0, 10))
        until(lambda: len(lines()) == 1)
        first = lines()[0]
        (tmp_path / "next.toml").write_text("mask = [0, 1]")
        shutil.move(tmp_path / "next.toml", conditions)
        time.sleep(1.5)
        send(burst(1, 10))
        until(lambda: len(lines()) == 2)
        conditions.write_text("mask = [5000]")
        until(lambda: snapshots()[-1]["conditions"]["refused"] == 1)
        process.terminate()
        said = process.communicate(timeout=30)[0]
    finally:
        process.kill()
        feed.close()
    assert process.returncode == 0, said
    assert "5000" in said
    second = lines()[1]
    assert (first["masked_hits"], second["masked_hits"]) == (10, 20)
    assert first["conditions"] != second["conditions"] == load_name("mask = [0, 1]", tmp_path)
    assert first["config_hash"] == second["config_hash"]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["config_hash"] == first["config_hash"]
    assert result["conditions"] == {"name": second["conditions"], "masked": 2, "changes": 1, "refused": 1}
    assert result["recorded"]["packets"] == result["packets_in"] == sum(r["packets_in"] for r in lines())
    assert result["choke"]["raised"] == 0
    replay = ("replay", "raw/raw-000001-burst0.pcap", "--port", port, "--json", "-", "--algorithm", "math")
    again = json.loads(nanet(*replay, "--device", "cpu").stdout)
    assert (
        again["primitives_out"] == first["primitives_out"] + 0
    )  # the event of PM 0 keeps its other three hits


def load_name(text: str, folder: Path) -> str:
    """Name of conditions of that text in results."""
    path = folder / "named.toml"
    path.write_text(text)
    return load(str(path)).name


def test_wrong_usage_is_refused(
    nanet: Callable[..., Any], free_udp_port: Callable[[], int], tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text("mask = [9999]")
    for arguments, said in (
        (("--conditions", "c.toml"), "9999"),
        (("--conditions", "none.toml"), "none.toml"),
        (("--burst-report", "no/where"), "--burst-report no/where"),
        (("--choke-low", "0.9"), "trigger.choke_low"),
        (("--record", "/proc/no"), "/proc/no"),
    ):
        done = nanet("trigger", "--listen", f"127.0.0.1:{free_udp_port()}", *arguments, status=2)
        assert said in done.stderr, done.stderr
        assert done.stderr.count("\n") <= 2, done.stderr
