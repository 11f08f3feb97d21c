# SPDX-License-Identifier: Apache-2.0
"""`nanet readout` into a plain socket, and a plain sender into `nanet l0tp`."""

import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

LSB_NS = 0.097464731802
FRAME_NS = LSB_NS * 65536
SOB, EOB, LAST, PADDED = 1, 2, 32, 64


class Sink:
    """Receives datagrams in a thread until the end of the sender."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.1)
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.datagrams: list[bytes] = []
        self._ended = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while True:
            ended = self._ended
            try:
                self.datagrams.append(self.socket.recv(65536))
            except TimeoutError:
                if ended:
                    return

    def end(self) -> list[bytes]:
        self._ended = True
        self._thread.join()
        self.socket.close()
        return self.datagrams


@pytest.fixture
def sink():
    sink = Sink()
    yield sink
    sink.end()


def header(datagram: bytes) -> SimpleNamespace:
    source, board, version, flags, length, events, index, sequence, frame_burst = struct.unpack_from(
        "<BBBBHBBII", datagram
    )
    return SimpleNamespace(
        source=source, board=board, version=version, flags=flags, length=length, events=events,
        index=index & 15, sequence=sequence, frame=frame_burst & 0xFFFFFF, burst=frame_burst >> 24,
    )  # fmt: skip


def fragments(datagram: bytes) -> list[tuple[int, int, int]]:
    """(timestamp, fine time, hits) of each event of a packed packet."""
    h, at, found = header(datagram), 16, []
    for _ in range(h.events):
        timestamp, fine, stored = struct.unpack_from("<IBB", datagram, at)
        found.append((timestamp, fine, stored))
        at += 8 + 2 * stored
    assert at == h.length
    return found


def mtp(frame: int, times: list[int], sub_id: int = 0, rings: int = 1) -> bytes:
    """A primitive packet; times in LSB after the start of the frame, ascending."""
    words = [0x1C << 24 | frame, sub_id << 24 | len(times) << 16 | 8 + (4 + 4 * len(times) if times else 0)]
    if times:
        words += [frame] + [(0x4000 | rings << 12) << 16 | time for time in times]
    return struct.pack(f"<{len(words)}I", *words)


class L0tp:
    """`nanet l0tp` as a process with a plain socket as sender."""

    def __init__(self, program: str, port: int, folder: Path, *arguments: object):
        self.json = folder / "l0tp.json"
        self.process = subprocess.Popen(
            [
                program,
                "l0tp",
                "--listen",
                f"127.0.0.1:{port}",
                "--json",
                str(self.json),
                *map(str, arguments),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert "listening" in self.process.stdout.readline()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))

    def send(self, *datagrams: bytes):
        for datagram in datagrams:
            self.socket.send(datagram)

    def end(self) -> dict:
        self.socket.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return json.loads(self.json.read_text())


@pytest.fixture
def l0tp(nanet_program, free_udp_port, tmp_path):
    started = []

    def start(*arguments):
        started.append(L0tp(nanet_program, free_udp_port(), tmp_path, *arguments))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()
        one.socket.close()


@pytest.mark.parametrize("threads", [1, 4])
def test_readout_sends_whole_bursts_and_reports_them(nanet, sink, tmp_path, threads):
    nanet(
        "readout", "--to", sink.address, "--bursts", 2, "--max-frames", 150, "--speed", 0.05,
        "--pool-frames", 64, "--burst-gap", 0.02, "--threads", threads, "--json", "out.json",
    )  # fmt: skip
    datagrams = sink.end()
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["packets_sent"] == len(datagrams)
    assert result["bytes_sent"] == sum(map(len, datagrams))
    assert result["frames_sent"] == 300
    assert result["bursts"] == 2
    assert result["threads"] == threads
    assert result["faults"] == dict.fromkeys(("drop", "dup", "reorder", "corrupt", "delay"), 0)
    assert result["send_errors"] == {}
    # 300 frames and a gap, at a twentieth of detector time: never early.
    assert result["elapsed_s"] >= 300 * FRAME_NS * 1e-9 / 0.05 + 0.02
    assert result["events_per_s"] == pytest.approx(result["events_sent"] / result["elapsed_s"])

    streams = defaultdict(list)
    for datagram in datagrams:
        streams[header(datagram).burst, header(datagram).board].append(datagram)
    assert set(streams) == {(burst, board) for burst in range(2) for board in range(4)}
    sent = 0
    for packets in streams.values():
        heads = [header(packet) for packet in packets]
        assert [h.sequence for h in heads] == list(range(len(packets)))
        assert heads[0].flags == SOB and len(packets[0]) == 16
        assert heads[-1].flags == EOB and len(packets[-1]) == 40 and heads[-1].frame == 149
        data = packets[1:-1]
        found = [fragments(packet) for packet in data]
        for packet, some in zip(data, found, strict=True):
            assert all(timestamp >> 8 == header(packet).frame for timestamp, _, _ in some)
        assert [h.frame for h in heads[1:-1] if h.flags & LAST] == list(range(150))
        count, hits = sum(map(len, found)), sum(stored for some in found for *_, stored in some)
        assert struct.unpack_from("<IIQQ", packets[-1], 16) == (150, len(packets), count, hits)
        sent += count
    assert result["fragments_sent"] == sent
    # The second burst repeats the pool from its start.
    for board in range(4):
        first, second = (
            [(t & 0xFF, fine, n) for p in streams[burst, board][1:-1] for t, fine, n in fragments(p)]
            for burst in range(2)
        )
        assert first == second


def test_readout_truth_is_what_it_sends(nanet, sink, tmp_path):
    nanet(
        "readout", "--to", sink.address, "--events", 20000, "--speed", 0.05, "--pool-frames", 500, "--truth",
        "truth.parquet", "--json", "out.json",
    )  # fmt: skip
    datagrams = sink.end()
    truth = pq.read_table(tmp_path / "truth.parquet")
    assert truth.schema.metadata[b"nanet.period_frames"] == b"500"
    result = json.loads((tmp_path / "out.json").read_text())
    frames = result["frames_sent"]
    assert frames < 500
    times = defaultdict(set)  # times of the events with hits (LSB), by frame
    events = set()
    for row in truth.to_pylist():
        frame = row["timestamp"] >> 8
        if row["event_hits"] and frame < frames:
            events.add(row["event"])
            times[frame].add(row["timestamp"] << 8 | row["fine_time"])
    assert result["events_sent"] == len(events) >= 20000
    # Clocks of boards are off by at most a nanosecond, hits are spread by 0.3 ns each.
    near = total = 0
    for datagram in datagrams:
        h = header(datagram)
        if not h.flags & (SOB | EOB):
            for timestamp, fine, _ in fragments(datagram):
                time_lsb = timestamp << 8 | fine
                candidates = times[h.frame] | times[h.frame - 1] | times[h.frame + 1]
                near += min(abs(time_lsb - true) for true in candidates) * LSB_NS < 3
                total += 1
    assert near / total > 0.999


def test_padded_trains_are_of_one_size(nanet, sink):
    nanet("readout", "--to", sink.address, "--bursts", 1, "--max-frames", 300, "--speed", 0.2, "--pad")
    datagrams = [d for d in sink.end() if not header(d).flags & (SOB | EOB)]
    assert {len(d) for d in datagrams} == {1472}
    assert all(header(d).flags & PADDED and not any(d[header(d).length :]) for d in datagrams)


def test_faults_are_counted_and_repeat(nanet, tmp_path):
    def run(name: str, threads: int) -> tuple[dict, dict]:
        sink = Sink()
        nanet(
            "readout", "--to", sink.address, "--bursts", 1, "--max-frames", 400, "--speed", 0.05, "--fault",
            "drop=0.05,dup=0.05,reorder=0.05,corrupt=0.05,delay=0.05", "--fault-seed", 3,
            "--threads", threads, "--json", name,
        )  # fmt: skip
        by_board = defaultdict(list)
        for datagram in sink.end():
            by_board[datagram[1] if len(datagram) > 1 else -1].append(datagram)
        return json.loads((tmp_path / name).read_text()), by_board

    result, streams = run("a.json", 1)
    again, same = run("b.json", 3)
    assert result["faults"] == again["faults"]
    assert all(result["faults"].values())
    assert all(streams[board] == same[board] for board in range(4))
    assert sum(map(len, streams.values())) == result["packets_sent"]
    # EOB holds the generated numbers: dropped packets are missing from it, duplicates are in excess.
    made = sum(
        struct.unpack_from("<II", stream[-1], 16)[1] for board, stream in streams.items() if board in range(4)
    )
    assert result["packets_sent"] == made - result["faults"]["drop"] + result["faults"]["dup"]


def test_readout_replays_a_capture(nanet, sink, tmp_path):
    nanet("generate", "--events", 20000, "--seed", 5, "--out", "run.pcap", "--truth", "run.parquet")
    nanet("readout", "--to", sink.address, "--pcap", "run.pcap", "--speed", 0.05, "--json", "out.json")
    datagrams = sink.end()
    recorded, data, at = [], (tmp_path / "run.pcap").read_bytes(), 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        recorded.append(data[at + 16 + 42 : at + 16 + size])
        at += 16 + size
    assert datagrams == recorded
    result = json.loads((tmp_path / "out.json").read_text())
    rows = pq.read_table(tmp_path / "run.parquet", columns=["event", "event_hits"]).to_pylist()
    with_hits = len({row["event"] for row in rows if row["event_hits"]})
    assert result["events_sent"] == pytest.approx(with_hits, rel=1e-3)


def test_readout_stops_with_eob_on_a_signal(nanet_program, sink, tmp_path):
    process = subprocess.Popen(
        [
            nanet_program,
            "readout",
            "--to",
            sink.address,
            "--speed",
            "0.01",
            "--json",
            str(tmp_path / "out.json"),
        ],
        stdout=subprocess.DEVNULL,
    )
    while len(sink.datagrams) < 100:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    last = sink.end()[-4:]
    assert [header(d).flags for d in last] == [EOB] * 4
    assert json.loads((tmp_path / "out.json").read_text())["bursts"] == 1


def test_send_times_cover_every_frame(nanet, sink, tmp_path):
    before = time.monotonic_ns()
    nanet(
        "readout", "--to", sink.address, "--bursts", 2, "--max-frames", 100, "--speed", 0.05,
        "--times", "times", "--duration", 100,
    )  # fmt: skip
    words = struct.unpack(f"<{2 * 200}Q", (tmp_path / "times").read_bytes())
    first, last = words[0::2], words[1::2]
    assert all(before < a <= b < time.monotonic_ns() for a, b in zip(first, last, strict=True))
    assert list(first) == sorted(first)
    assert all(time_ns - before >= frame * FRAME_NS / 0.05 for frame, time_ns in enumerate(first))


def test_l0tp_pairs_with_the_truth_of_a_readout(nanet, silent_receiver, l0tp, tmp_path):
    nanet("readout", "--to", silent_receiver, "--events", 1, "--pool-frames", 200, "--truth", "truth.parquet")
    truth = defaultdict(set)
    for row in pq.read_table(tmp_path / "truth.parquet").to_pylist():
        if row["event_hits"]:
            key = row["timestamp"] >> 8
            truth[key].add((row["event"], (row["timestamp"] & 0xFF) << 8 | row["fine_time"]))
    receiver = l0tp("--truth", tmp_path / "truth.parquet")
    late = 17
    for burst in range(2):
        for frame in range(1200):
            if frame in (5, 6) and burst == 0:
                continue  # lost in transit
            # A trigger whose times are slightly off, in the same order.
            times = sorted(min(time + 9, 65535) for _, time in truth[frame % 200])
            receiver.send(mtp(frame, [], 0xFF) if frame == late else mtp(frame, times))
            if frame % 50 == 0:
                time.sleep(0.001)
    result = receiver.end()
    per_pass = [len(truth[frame]) for frame in range(200)]
    sent = 2 * 6 * sum(per_pass) - per_pass[5] - per_pass[6]
    assert result["frames"] == 2398
    assert result["frames_missing"] == 2
    assert result["frames_late"] == 2
    assert result["bursts"] == 2
    assert result["primitives_expected"] == sent
    assert result["primitives"] == sent - 2 * per_pass[late]
    assert result["primitives_expected"] == result["primitives_paired"] + sum(result["unpaired"].values())
    assert result["unpaired"]["frame_late"] == pytest.approx(2 * per_pass[late], abs=4)
    assert result["primitives_paired"] >= 0.999 * (sent - 2 * per_pass[late])
    assert sum(result["unexpected"].values()) <= 0.001 * sent
    assert result["rings"] == [0, result["primitives"], 0, 0]
    assert result["socket_overflow"] == result["out_of_order"] == result["duplicates"] == 0


def test_l0tp_names_what_it_refuses_and_misses(l0tp):
    receiver = l0tp()
    good = mtp(3, [10, 20])
    receiver.send(
        mtp(0, []), mtp(1, [5]), good, good, mtp(2, [7]), b"", good[:-1], b"\0" * 8, mtp(4, [20, 10]),
        os.urandom(1) * 2000,
    )  # fmt: skip
    result = receiver.end()
    assert result["frames"] == 4
    assert result["frames_missing"] == 0
    assert result["out_of_order"] == 1
    assert result["duplicates"] == 1
    assert result["primitives"] == 4
    refused = {name: n for name, n in result["bad_packets"].items() if n}
    assert refused.pop("short_header") == 1
    assert refused.pop("not_in_order") == 1
    assert sum(refused.values()) == 3
    assert result["packets"] == 10
    assert result["primitives_expected"] is None  # nothing is expected without a truth


def test_l0tp_measures_from_first_and_last_packet(l0tp, tmp_path):
    times = tmp_path / "times"
    receiver = l0tp("--times", times)
    frames = 200
    with open(times, "wb+") as file:  # created while l0tp runs, before the first packet
        file.truncate(16 * frames)
        for frame in range(frames):
            now = time.monotonic_ns()
            if frame != 7:
                file.seek(16 * frame)
                file.write(struct.pack("<QQ", now - 5_000_000, now - 1_000_000))
                file.flush()
            receiver.send(mtp(frame, []))
        result = receiver.end()
    first, last = result["latency_us"]["from_first"], result["latency_us"]["from_last"]
    assert first["n"] == last["n"] == frames - 1  # frame 7 was never sent
    assert result["latency_unknown"] == 1
    assert (
        5000
        <= first["p50"]
        <= first["p90"]
        <= first["p99"]
        <= first["p99_9"]
        <= first["p99_99"]
        <= first["max"]
    )
    assert 1000 <= last["p50"] < first["p50"]
    assert first["p50"] - last["p50"] == pytest.approx(4000, rel=0.2)


def test_l0tp_ends_when_idle_or_after_its_duration(nanet, free_udp_port):
    nanet("l0tp", "--listen", f"127.0.0.1:{free_udp_port()}", "--duration", 0.2, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["readout", "--to", "nowhere"], ["to", "nowhere", "HOST:PORT"]),
        (["readout", "--to", "127.0.0.1:99999"], ["to", "99999", "65535"]),
        (["readout", "--pcap", "missing.pcap"], ["missing.pcap"]),
        (["readout", "--times", "no/such/folder/times", "--duration", 1], ["times", "no/such/folder/times"]),
        (["readout", "--fault", "lose=1"], ["fault", "lose", "drop"]),
        (["readout", "--truth", "no/such/folder/t.parquet"], ["truth", "no/such/folder/t.parquet"]),
        (["readout", "--speed", "-1"], ["speed", "-1"]),
        (["readout", "--threads", 5], ["threads", "5", "1 to 4"]),
        (["readout", "--threads", 2, "--boards", "merged"], ["threads", "2", "give 1"]),
        (["readout", "--pin", "4095"], ["readout.pin", "4095", "take from"]),
        (["l0tp", "--listen", "127.0.0.1"], ["listen", "127.0.0.1", "HOST:PORT"]),
        (["l0tp", "--listen", "192.0.2.1:45000"], ["192.0.2.1:45000", "0.0.0.0"]),
        (["l0tp", "--truth", "missing.parquet"], ["truth", "missing.parquet"]),
        (["l0tp", "--truth", "text.parquet"], ["truth", "text.parquet", "generate"]),
    ],
)
def test_errors_are_one_sentence(nanet, tmp_path, arguments, words):
    (tmp_path / "text.parquet").write_text("no parquet")
    said = nanet(*arguments, status=2).stderr
    assert len(said.strip().splitlines()) == 1
    for word in words:
        assert word in said


def test_a_taken_port_is_reported(nanet, silent_receiver):
    said = nanet("l0tp", "--listen", silent_receiver, status=2).stderr
    assert silent_receiver in said
    assert "another port" in said


def test_a_file_that_is_no_capture_is_reported(nanet, tmp_path):
    (tmp_path / "text.pcap").write_text("this is not a capture, only some text")
    said = nanet("readout", "--pcap", "text.pcap", status=2).stderr
    assert "text.pcap" in said


def test_readout_towards_a_closed_port_fails_with_a_remedy(nanet_program, free_udp_port, tmp_path):
    to = f"127.0.0.1:{free_udp_port()}"
    done = subprocess.run(
        [nanet_program, "readout", "--to", to, "--max-frames", "50", "--speed", "0.05", "--json", "out.json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert f"--to {to}: packets were refused, no program listens there; start nanet trigger" in done.stderr
    (node,) = json.loads((tmp_path / "out.json").read_text())["nodes"]
    assert node["refused_share"] > 0.5
