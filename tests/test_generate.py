# SPDX-License-Identifier: Apache-2.0
"""`nanet generate`: packets match the truth in every mode, and a seed gives identical files."""

import json
from collections import defaultdict

import dpkt
import numpy as np
import pyarrow.parquet as pq
import pytest

from nanet import _core

LSB_NS = 0.097464731802
FRAME_NS = LSB_NS * 65536


def packets(path):
    """(time in s, source port, destination port, UDP payload) of a capture, read with another library."""
    with open(path, "rb") as file:
        for time, frame in dpkt.pcap.Reader(file):
            udp = dpkt.ethernet.Ethernet(frame).data.data
            yield float(time), udp.sport, udp.dport, bytes(udp.data)


def fragments(payload):
    """Header fields and events of a packet, decoded from docs/formats.md."""
    assert payload[0] == 0x1C
    assert payload[2] == 1
    head = {
        "board": payload[1], "flags": payload[3], "length": int.from_bytes(payload[4:6], "little"),
        "events": payload[6], "index": payload[7] & 15, "sequence": int.from_bytes(payload[8:12], "little"),
        "frame": int.from_bytes(payload[12:15], "little"), "burst": payload[15],
    }  # fmt: skip
    events, at = [], 16
    for _ in range(head["events"]):
        timestamp, fine, stored, seen, flags = (
            int.from_bytes(payload[at : at + 4], "little"), *payload[at + 4 : at + 8],
        )  # fmt: skip
        words = np.frombuffer(payload, "<u2", 32 if head["flags"] & 16 else stored, at + 8)
        assert (words[stored:] == 0xFFFF).all()
        at += 8 + 2 * len(words)
        pm = words[:stored] & 0x7FF
        difference = (words[:stored].astype(np.int16) >> 11).astype(int) * 4
        events.append((timestamp * 256 + fine, pm, difference, seen, flags))
    if not head["flags"] & 3:
        assert at == head["length"]
    return head, events


def check_run(folder, boards, fixed=False, pad=False, max_frames=751_500):
    """Asserts valid packets in sequence, and every true hit sent once, at its time. Returns the numbers."""
    truth = pq.read_table(folder / "run.parquet").to_pydict()
    hits = pq.read_table(folder / "hits.parquet")
    sent = defaultdict(list)  # (burst, board, PM) -> times in LSB
    next_sequence, counted, eobs, last_time = {}, defaultdict(lambda: [0, 0, 0, 0]), 0, 0.0
    truncated = 0
    for time, sport, dport, payload in packets(folder / "run.pcap"):
        head, events = fragments(payload)
        board = head["board"]
        assert dport == 58913
        assert sport == 50000 + (0 if board == 255 else board)
        assert time >= last_time
        last_time = time
        if head["flags"] & 1:
            next_sequence[board], counted[board] = 0, [0, 0, 0, 0]
            assert len(payload) == head["length"] == 16
        assert head["sequence"] == next_sequence[board]
        next_sequence[board] += 1
        counted[board][1] += 1
        counted[board][0] += bool(head["flags"] & 32)
        counted[board][2] += len(events)
        counted[board][3] += sum(len(pm) for _, pm, *_ in events)
        assert head["frame"] < max_frames
        if head["flags"] & 2:
            eobs += 1
            assert len(payload) == head["length"] == 40
            stated = [
                int.from_bytes(payload[a:b], "little") for a, b in ((16, 20), (20, 24), (24, 32), (32, 40))
            ]
            assert stated == counted[board]
            continue
        if head["flags"] & 1:
            continue
        assert bool(head["flags"] & 16) == fixed
        assert bool(head["flags"] & 64) == pad
        assert len(payload) == (1472 if pad else head["length"])
        assert not any(payload[head["length"] :])
        assert [t for t, *_ in events] == sorted(t for t, *_ in events)
        for event_time, pm, difference, seen, flags in events:
            assert event_time >> 16 == head["frame"]
            assert list(pm) == sorted(set(pm))
            assert (flags & 1) == (seen > len(pm))
            truncated += seen > len(pm)
            if boards == 4:
                assert (pm // 512 == board).all()
            for one, delta in zip(pm, difference, strict=True):
                sent[head["burst"], int(one)].append(event_time + delta)
    # True hits as seen by the boards: one per PM of an event, at the earliest time.
    columns = hits.to_pydict()
    first = {}
    for event, pm, time in zip(columns["event"], columns["pm"], columns["time"], strict=True):
        first[event, pm] = min(time, first.get((event, pm), np.inf))
    burst_of = dict(zip(truth["event"], truth["burst"], strict=True))
    wanted = defaultdict(list)
    for (event, pm), time in first.items():
        wanted[burst_of[event], pm].append(time)
    missing, total = 0, sum(map(len, sent.values()))
    for channel, times in wanted.items():
        there = iter(sorted(sent[channel]))
        now = next(there, np.inf)
        for time in sorted(times):  # one to one in order of time, without truncated hits
            if now * LSB_NS < time + 2.5 * LSB_NS:
                assert now * LSB_NS > time - 2.5 * LSB_NS
                now = next(there, np.inf)
            else:
                missing += 1
    return {
        "truth": truth,
        "true_hits": len(first),
        "sent": total,
        "missing": missing,
        "truncated": truncated,
        "eobs": eobs,
    }


def generate(nanet, *arguments):
    done = nanet(
        "generate", "--out", "run.pcap", "--truth", "run.parquet", "--truth-hits", "hits.parquet",
        "--json", "-", *arguments,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_packets_hold_what_the_truth_says(nanet, tmp_path):
    result = generate(nanet, "--events", 1500, "--seed", 5)
    run = check_run(tmp_path, boards=4)
    assert run["missing"] == 0
    assert run["sent"] == run["true_hits"] == result["hits"]
    assert run["eobs"] == 4
    assert result["events"] == len(set(run["truth"]["event"])) == 1500
    assert result["packets"] == sum(1 for _ in packets(tmp_path / "run.pcap"))


@pytest.mark.parametrize("slots", ["packed", "fixed"])
def test_merged_stream_is_cut_at_32_hits(nanet, tmp_path, slots):
    generate(nanet, "--events", 800, "--boards", "merged", "--slots", slots)
    run = check_run(tmp_path, boards="merged", fixed=slots == "fixed")
    assert run["eobs"] == 1
    assert 0.10 < run["truncated"] / 800 < 0.20  # the standard mix: some 15 %
    assert run["sent"] + run["missing"] == run["true_hits"]


def test_fixed_slots_and_padding(nanet, tmp_path):
    generate(nanet, "--events", 600, "--slots", "fixed", "--pad")
    run = check_run(tmp_path, boards=4, fixed=True, pad=True)
    assert run["missing"] == 0


def test_bursts_follow_each_other(nanet, tmp_path):
    result = generate(nanet, "--events", 3000, "--max-frames", 10)
    run = check_run(tmp_path, boards=4, max_frames=10)
    assert result["bursts"] == -(-result["frames"] // 10) >= 4
    assert run["eobs"] == 4 * result["bursts"]
    assert max(run["truth"]["timestamp"]) < 10 * 256
    assert sorted(set(run["truth"]["burst"])) == list(range(result["bursts"]))
    assert len(set(run["truth"]["event"])) == 3000
    assert run["missing"] <= 2 * result["bursts"]  # a fragment may fall into the other burst at an edge


def test_truth_files(nanet, tmp_path):
    generate(nanet, "--events", 4000, "--seed", 9)
    table = pq.read_table(tmp_path / "run.parquet")
    assert [(f.name, str(f.type)) for f in table.schema] == [
        ("burst", "uint16"), ("timestamp", "uint32"), ("fine_time", "uint8"), ("event", "uint64"),
        ("ring", "uint8"), ("x", "float"), ("y", "float"), ("r", "float"), ("particle", "string"),
        ("momentum", "float"), ("n_hits", "uint8"), ("event_hits", "uint16"),
    ]  # fmt: skip
    assert table.schema.metadata[b"nanet.seed"] == b"9"
    truth = table.to_pydict()
    ringless = np.array(truth["ring"]) == 255
    for name in ("x", "y", "r", "particle", "momentum"):
        assert [value is None for value in truth[name]] == ringless.tolist()
    assert 0.03 < ringless.sum() / 4000 < 0.09
    events = np.array(truth["event"])
    assert set(events) == set(range(4000))
    assert (np.unique(events[ringless], return_counts=True)[1] == 1).all()
    assert np.array(truth["n_hits"])[~ringless].min() >= 1
    for particle, momentum, r in zip(truth["particle"], truth["momentum"], truth["r"], strict=True):
        if particle is not None:
            assert 12 <= momentum <= 60
            assert r == pytest.approx(_core.ring_radius_mm(particle, momentum), abs=0.01)

    hits = pq.read_table(tmp_path / "hits.parquet")
    assert [(f.name, str(f.type)) for f in hits.schema] == [
        ("event", "uint64"), ("ring", "uint8"), ("pm", "uint16"), ("time", "double"),
    ]  # fmt: skip
    hits = hits.to_pydict()
    owned, distinct = defaultdict(int), defaultdict(set)
    for event, ring, pm in zip(hits["event"], hits["ring"], hits["pm"], strict=True):
        owned[event, ring] += 1
        distinct[event].add(pm)
    for event, ring, n, all_hits in zip(
        truth["event"], truth["ring"], truth["n_hits"], truth["event_hits"], strict=True
    ):
        assert n == (owned[event, ring] if ring != 255 else 0)
        assert all_hits == len(distinct[event])
    per_event = np.array([len(distinct[event]) for event in range(4000)])
    assert per_event.mean() == pytest.approx(19.7, abs=0.7)


def test_rings_and_noise(nanet, tmp_path):
    generate(nanet, "--events", 500, "--rings", 3, "--noise", 0)
    hits = pq.read_table(tmp_path / "hits.parquet")["ring"].to_numpy()
    assert set(hits) == {0, 1, 2}
    generate(nanet, "--events", 500, "--rings", 0, "--noise", 5)
    hits = pq.read_table(tmp_path / "hits.parquet")["ring"].to_numpy()
    assert set(hits) == {255}
    assert len(hits) / 500 == pytest.approx(5, abs=0.4)
    truth = pq.read_table(tmp_path / "run.parquet").to_pydict()
    assert truth["ring"] == [255] * 500
    assert 0 in truth["event_hits"]  # an event without hits has a row, too


def test_a_seed_gives_the_same_files(nanet, tmp_path):
    contents = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        nanet(
            "generate", "--events", 300, "--seed", seed, "--out", f"{name}.pcap", "--truth", f"{name}.parquet"
        )
        contents.append(
            ((tmp_path / f"{name}.pcap").read_bytes(), (tmp_path / f"{name}.parquet").read_bytes())
        )
    assert contents[0] == contents[1]
    assert contents[0][0] != contents[2][0]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--events", 0), "generate.events = 0: must be 1 to"),
        (("--rings", "5"), 'generate.rings = "5": must be one of mix, 0, 1, 2, 3, 4'),
        (("--boards", "3"), 'generate.boards = "3": must be one of 4, merged'),
        (("--slots", "loose"), 'generate.slots = "loose": must be one of packed, fixed'),
        (("--noise", -1), "generate.noise = -1.0: must be 0 to 64"),
        (("--rate", 0), "generate.rate = 0.0: must be 1 to"),
        (("--max-frames", 0), "generate.max_frames = 0: must be 1 to 16777216"),
        (("--max-payload", 40), "generate.max_payload = 40: must be 100 to"),
        (("--out", "nowhere/run.pcap"), "nowhere/run.pcap"),
        (("--truth", "nowhere/run.parquet"), "nowhere/run.parquet"),
        (("--out", "/dev/full"), "No space left on device"),
    ],
)
def test_wrong_usage_is_one_sentence(nanet, arguments, text):
    done = nanet("generate", "--events", 10, "--out", "run.pcap", *arguments, status=2)
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
