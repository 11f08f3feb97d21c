# SPDX-License-Identifier: Apache-2.0
"""Simulated gateware card compared with the socket card: same capture, same primitives and account."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reference_trigger as ref
from reference_pcap import capture, pcap, udp_frame, write_pcap
from reference_rings import PLANE as PM_PLANE
from reference_traffic import EOB, SOB, Faults, Scenario, Sender, corrupt

from nanet import _core

PLANE = [(float(x), float(y)) for x, y in PM_PLANE]
# Keys that differ between the cards, and times.
OWN = {"latency_us", "elapsed_s", "events_per_s", "progress", "card", "card_figures", "account_checks"}

pytestmark = pytest.mark.skipif(
    bool(_core.gateware_missing()), reason=f"no simulated card: {_core.gateware_missing()}"
)


def replay(path: Path, card: str, options: dict[str, Any]) -> tuple[dict[str, Any], list[bytes], str]:
    """Result, payloads of the MTP packets, rings."""
    out = path.with_suffix(f".{card}")
    given = {"pcap": str(path), "mtp": str(out), "rings": True, "algorithm": "math", "card": card}
    core = _core.Replay(options | given)
    core.run()
    packets = [
        ref.payload(frame, length, int.from_bytes(frame[36:38], "big"))
        for frame, length in ref.records(str(out))
    ]
    rings = {name: column.tolist() for name, column in core.take_rings().items()}
    return core.result(), packets, repr(rings)


def check(path: Path, boards: tuple[int, ...] = (0, 1, 2, 3), **core: Any) -> dict[str, Any]:
    """Asserts that both cards agree with these options; returns the gateware's result.

    The merging gateware may leave further frames as segments, where its memory is full.
    """
    given = ref.Options(boards=boards).core() | core
    want, want_packets, want_rings = replay(path, "socket", given)
    got, packets, rings = replay(path, "gateware", given)
    own = OWN | {"frames_unmerged"}
    assert {k: v for k, v in got.items() if k not in own} == {k: v for k, v in want.items() if k not in own}
    assert got["frames_unmerged"] >= want["frames_unmerged"]
    assert packets == want_packets
    assert rings == want_rings
    assert got["account_closes"] and got["card"] == "gateware"
    return got


def check_scenario(scenario: Scenario, folder: Path, **core: Any) -> dict[str, Any]:
    path = folder / f"{scenario.seed}.pcap"
    datagrams = scenario.datagrams(PLANE)
    path.write_bytes(capture(datagrams, random.Random(scenario.seed), scenario.foreign))
    return check(path, scenario.boards, **core)


@pytest.mark.parametrize("boards", [(0, 1, 2, 3), (0xFF,), (1, 3)])
def test_bursts_from_sob_to_eob(boards: tuple[int, ...], tmp_path: Path) -> None:
    result = check_scenario(Scenario(5, boards, bursts=3, frames=40, first_burst=254), tmp_path)
    assert result["frames_answered"] == 120 and result["bursts"] == 3
    assert not any(result["bad_packets"].values())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_faults(seed: int, tmp_path: Path) -> None:
    """Drops, duplicates, reordered, corrupted and malformed packets, and frames of other kinds."""
    faults = Faults(drop=0.03, dup=0.03, reorder=0.1, corrupt=0.03, delay=0.01, malformed=0.03)
    result = check_scenario(
        Scenario(seed, bursts=2, frames=60, mean=1.5, faults=faults, foreign=0.05), tmp_path
    )
    assert (
        result["lost"]["duplicate"]
        and sum(result["bad_packets"].values())
        and sum(result["not_mgp"].values())
    )


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.complete)])
def test_merged_frames(seed: int, tmp_path: Path) -> None:
    """Merging in the card changes no answer; the gateware's memory may leave further frames as segments."""
    faults = Faults(drop=0.01, dup=0.03, reorder=0.1, corrupt=0.03, delay=0.01, malformed=0.03)
    scenario = Scenario(seed, bursts=2, frames=60, mean=1.5, faults=faults, foreign=0.05)
    path = tmp_path / "a.pcap"
    path.write_bytes(capture(scenario.datagrams(PLANE), random.Random(seed), scenario.foreign))
    got = check(path, merge=True)
    assert got["frames_unmerged"] < got["frames_in"] / 2


def test_an_open_frame_keeps_its_place_in_the_merging_memory(
    nanet: Callable[..., Any], tmp_path: Path
) -> None:
    """A replay has no timeout: a frame that misses a packet stays open. Every 64th after it has no room."""
    path, lossy = tmp_path / "all.pcap", tmp_path / "lossy.pcap"
    nanet("generate", "--events", 19_200, "--seed", 3, "--boards", "4", "--out", path)  # 300 frames
    frames = list(ref.records(str(path)))

    def lost(frame: bytes) -> bool:
        data = frame[42:]
        return data[1] == 2 and int.from_bytes(data[12:15], "little") == 20 and not data[3] & (SOB | EOB)

    kept = [record for record in frames if not lost(record[0])]
    assert len(kept) < len(frames)
    lossy.write_bytes(pcap(kept))
    assert check(path, merge=True)["frames_unmerged"] == 0
    result = check(lossy, merge=True)
    later = range(20 + 64, result["frames_in"], 64)
    assert result["frames_incomplete"] == 1 and result["frames_unmerged"] == len(later) == 4
    software, *_ = replay(lossy, "socket", ref.Options().core() | {"merge": True})
    assert software["frames_unmerged"] == 0


@pytest.mark.parametrize("seed", [4, 7, 11, 14])
def test_jumps_reboots_lost_markers_and_nonsense(seed: int, tmp_path: Path) -> None:
    faults = Faults(drop=0.02, dup=0.02, reorder=0.05, corrupt=0.02, delay=0.005, malformed=0.02, wild=0.02)
    boards = random.Random(seed).choice([(0, 1, 2, 3), (0xFF,), (2,)])
    check_scenario(
        Scenario(seed, boards, bursts=3, frames=12, mean=0.7, faults=faults, hostile=True, foreign=0.02),
        tmp_path,
    )


def test_numbers_that_jump_by_more_than_half_of_all(tmp_path: Path) -> None:
    """Missing numbers exceed 32 bits for each board: one board has the first number, and the last number."""
    packets = Scenario(21, bursts=3, frames=40, mean=1).datagrams(PLANE)
    numbers = [(data[15], data[1], int.from_bytes(data[8:12], "little")) for data in packets]
    last = {
        burst: max(number for b, board, number in numbers if (b, board) == (burst, 1)) for burst in range(3)
    }
    for at, (burst, board, number) in enumerate(numbers):
        by = (1 << 32) - 1 - last[burst] if board == 1 else 0x9000_0000 + (burst << 28)
        if board < 3 and number > 15:
            packets[at] = packets[at][:8] + (number + by).to_bytes(4, "little") + packets[at][12:]
    rng = random.Random(21)
    packets = Faults(drop=0.05, dup=0.02, reorder=0.2, delay=0.02).apply(packets, rng)
    path = tmp_path / "a.pcap"
    path.write_bytes(capture(packets, rng, foreign=0))
    result = check(path)
    assert result["lost"]["missing"] > 5 << 32
    assert result["lost"]["unconfirmed_jump"] and result["bursts"] == 3


def behind(packets: list[bytes], board: int, burst: int, places: int) -> list[bytes]:
    """The packets, with those of one board in one burst delayed by a number of positions."""
    slots = [
        (at + places * (data[1] == board and data[15] == burst), data) for at, data in enumerate(packets)
    ]
    return [data for _, data in sorted(slots, key=lambda slot: slot[0])]


def turned(data: bytes, rng: random.Random) -> bytes:
    """The packet with some bits changed, not its burst: two equal burst errors would end the burst."""
    return corrupt(data[:15], rng) + data[15:16] + corrupt(data[16:], rng)


@pytest.mark.complete
@pytest.mark.parametrize("merge", [False, True], ids=["segments", "merged"])
def test_ten_thousand_frames(merge: bool, tmp_path: Path) -> None:
    """Five bursts from SOB to EOB with every kind of fault; two boards are late, one of them too late."""
    rng = random.Random(10_000)
    packets = Scenario(9, bursts=5, frames=2100, mean=0.2).datagrams(PLANE)
    packets = behind(packets, board=2, burst=1, places=800)  # 200 frames
    packets = behind(packets, board=3, burst=3, places=6000)  # 1500 frames
    faults = Faults(drop=0.01, dup=0.01, reorder=0.05, delay=0.003, malformed=0.01)
    packets = [turned(data, rng) if rng.random() < 0.01 else data for data in faults.apply(packets, rng)]
    path = tmp_path / "a.pcap"
    path.write_bytes(capture(packets, rng, foreign=0.02))
    result = check(path, merge=merge)
    assert result["frames_answered"] == result["frames_in"] >= 10_000
    assert result["frames_unmerged"] > 0 if merge else result["frames_unmerged"] == 0
    assert result["bursts"] == 5 and result["burst_markers"] > 30
    assert 0 < result["frames_incomplete"] < result["frames_in"]
    assert result["primitives_out"] > 1000 and result["rings"] > 100
    assert all(result["not_mgp"].values())
    assert [name for name, count in result["bad_packets"].items() if not count] == ["wrong_burst"]
    for name in ("late", "duplicate", "replayed_sequence", "unconfirmed_jump", "missing"):
        assert result["lost"][name], name
    socket, gateware = (list(ref.records(str(path.with_suffix(f".{c}")))) for c in ("socket", "gateware"))
    assert gateware == socket  # with their Ethernet, IPv4 and UDP headers


@pytest.mark.parametrize(
    "mode",
    [
        {"gather": "packets", "packets": 5},
        {"devices": 4},
        {"gather": "packets", "packets": 1, "devices": 2},
    ],
    ids=["packets", "four queues", "packets, two queues"],
)
@pytest.mark.parametrize("seed", [2, 8])
def test_other_ways_to_gather(mode: dict[str, Any], seed: int, tmp_path: Path) -> None:
    """Payloads in order of arrival, and buffers for several queues in turn."""
    faults = Faults(drop=0.03, dup=0.03, reorder=0.1, corrupt=0.02, delay=0.01, malformed=0.02)
    scenario = Scenario(seed, bursts=3, frames=40, mean=1.0, faults=faults, hostile=seed == 8, foreign=0.02)
    result = check_scenario(scenario, tmp_path, **mode)
    assert result["bursts"] >= 3 and result["frames_answered"] > 80
    if "gather" in mode:  # counts buffers, not frames
        payloads = result["packets_used"] / mode["packets"]
        assert payloads <= result["frames_in"] <= payloads + result["frames_incomplete"]
        assert (result["frames_incomplete"] > 0) == (mode["packets"] > 1)


def test_a_frame_is_closed_when_the_window_has_passed_it(tmp_path: Path) -> None:
    sender = Sender(0)
    packets = [sender.sob(), *(sender.packet(0x20, frame, 0, []) for frame in range(1200)), sender.eob(1199)]
    result = check(write_pcap(tmp_path / "a.pcap", packets), boards=(0, 1))
    assert result["frames_incomplete"] == result["frames_answered"] == 1200


def test_the_end_of_a_capture_waits_for_consumers(tmp_path: Path) -> None:
    """The last packets open a frame whose buffer is held by the consumer."""
    board = [Sender(b) for b in range(4)]

    def packet(b: int, sequence: int, frame: int, burst: int) -> bytes:
        board[b].sequence, board[b].burst = sequence, burst
        return board[b].packet(0x20, frame, 0, [])

    packets = [packet(3, 45, 40, 4), packet(1, 47, 3000, 4), packet(1, 48, 3001, 4), packet(0, 19, 1043, 5)]
    packets += [
        packet(1, 19, 1042, 5),
        packet(0, 22, 1046, 5),
        packet(2, 20, 2068, 5),
        packet(0, 21, 1045, 5),
    ]
    result = check(write_pcap(tmp_path / "a.pcap", packets))
    assert result["packets_used"] == 6 and not result["lost"]["late"]


def test_bursts_of_few_frames(tmp_path: Path) -> None:
    """More frame numbers are in flight than a burst has; some are skipped."""
    sender = Sender(0)
    packets = [sender.sob(), *(sender.packet(0x20, frame, 0, []) for frame in range(200))]
    for sender.burst in (1, 2):
        packets += [sender.packet(0x20, frame, 0, []) for frame in range(150, 200)]
    result = check(write_pcap(tmp_path / "a.pcap", packets), boards=(0, 1), max_frames=200)
    assert result["frames_answered"] == 298 and result["bursts"] == 3


def test_every_frame_number_of_the_header(tmp_path: Path) -> None:
    sender, end = Sender(0), 1 << 24
    packets = [sender.sob(), *(sender.packet(0x20, frame, 0, []) for frame in (0, 1, end - 2, end - 1))]
    result = check(
        write_pcap(tmp_path / "a.pcap", [*packets, sender.eob(end - 1)]), boards=(0,), max_frames=end
    )
    assert result["packets_used"] == 3 and not result["bad_packets"]["frame_beyond_spill"]


def test_longer_than_any_frame_on_a_wire(tmp_path: Path) -> None:
    """Datagrams joined by the kernel, as recorded in captures."""
    sender = Sender(0xFF)
    packets = [sender.sob(), *sender.frame(0, [], random.Random(1))]
    long = sender.packet(0x60, 1, 0, [])
    packets += [long + bytes(20_000), bytes(16_383), b"\x1c" + bytes(65_506), sender.eob(0)]
    frames = [(frame, len(frame)) for frame in map(udp_frame, packets)]
    frames += [
        (frame, len(frame)) for frame in (udp_frame(bytes(40_000), protocol=6), frames[1][0] + bytes(40_000))
    ]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(frames))
    result = check(path, boards=(0xFF,))
    assert result["bad_packets"]["oversized"] == 1 and result["bad_packets"]["bad_version"] == 2
    assert result["not_mgp"]["not_udp"] == 1 and result["packets_in"] == 7


def test_what_only_a_capture_shows(tmp_path: Path) -> None:
    """Checksums left to the sending interface, runts, frames truncated in their padding."""
    sender = Sender(0xFF)
    sob, data, eob = (
        sender.sob(),
        *sender.frame(0, [(700, [(600, 1)], 1, 0)], random.Random(1)),
        sender.eob(0),
    )
    half = bytearray(udp_frame(data))
    pseudo = sum(int.from_bytes(half[at : at + 2], "big") for at in range(26, 34, 2)) + 17 + 8 + len(data)
    half[40:42] = ((pseudo & 0xFFFF) + (pseudo >> 16)).to_bytes(2, "big")
    whole = udp_frame(sob)
    frames = [(whole, len(whole)), (bytes(half), len(half)), (b"", 60), (whole[:9], 60), (whole, 70)]
    frames += [(udp_frame(b"", port) + bytes(18), 160) for port in (1, 58913)]  # headers only
    frames.append((udp_frame(eob), len(udp_frame(eob))))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(frames))
    result = check(path, boards=(0xFF,))
    assert result["packets_used"] == 1 and result["not_mgp"]["cut_short"] == 4


def test_the_card_reports_its_latency(tmp_path: Path) -> None:
    result = check_scenario(Scenario(1, bursts=1, frames=30), tmp_path)
    figures = result["card_figures"]
    assert figures["events"] == 30 and figures["tlb_misses"] >= 1 and figures["firmware_requests"] >= 8
    assert 20 < figures["closing_cycles_p50"] <= figures["closing_cycles_max"]


@pytest.mark.parametrize("mode", [[], ["--gather", "packets", "--devices", "4"]], ids=["frames", "packets"])
def test_live_from_boards_to_the_l0_trigger_processor(
    mode: list[str], nanet_program: str, tmp_path: Path, free_udp_port: Any
) -> None:
    card, answers = free_udp_port(), free_udp_port()

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([nanet_program, *arguments], cwd=tmp_path, stdout=subprocess.PIPE)

    l0tp = start("l0tp", "--listen", f"127.0.0.1:{answers}", "--json", "l0tp.json")
    trigger = start(
        "trigger", "--card", "gateware", "--listen", f"127.0.0.1:{card}", "--send", f"127.0.0.1:{answers}",
        "--algorithm", "math", "--device", "cpu", "--deadline-us", "26000",  # its longest
        "--status", "status.json", "--json", "trigger.json", *mode,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not (tmp_path / "status.json").exists() and time.monotonic() < end:
        time.sleep(0.05)
    subprocess.run(
        [nanet_program, "readout", "--to", f"127.0.0.1:{card}", "--events", "6000", "--speed", "0.0005",
         "--pool-frames", "100", "--json", "readout.json"],
        cwd=tmp_path, check=True, timeout=60, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(0.5)
    for program in (trigger, l0tp):
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == 0
        program.communicate()
    sent, seen, received = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("readout", "trigger", "l0tp")
    )
    assert seen["card"] == "gateware" and seen["account_closes"]
    assert seen["packets_in"] == sent["packets_sent"] and not any(seen["lost"].values())
    assert seen["frames_answered"] == seen["frames_in"] == received["packets"] > 10 and seen["bursts"] == 1
    assert seen["events_built"] > 0 and seen["primitives_out"] > 0
    if not mode:
        assert received["frames"] == seen["frames_in"] > 50
        assert received["primitives"] == seen["primitives_out"]


@pytest.mark.complete
def test_a_demo_report_shows_the_cards_times(nanet: Any, tmp_path: Path) -> None:
    done = nanet("demo", "--card", "gateware", "--duration", "1.5", "--report", str(tmp_path), timeout=120)
    page = (tmp_path / "index.html").read_text()
    assert "nothing was measured" not in page and "first packet → answer" not in page
    figures = json.loads((tmp_path / "run.json").read_text())["trigger"]["card_figures"]
    nanoseconds = figures["closing_cycles_p50"] * 6.4
    assert f"<b>{nanoseconds / 1000:.1f} µs</b><span>median, packet → event" in page
    assert "card: packet to event" in page and "card: packet to event" in done.stdout


def test_unsupported_options_of_the_card_are_refused(nanet: Any, free_udp_port: Any) -> None:
    for arguments, says in (
        (("--devices", "8"), "devices = 8"),
        (("--keep-bad", "bad.pcap"), "--card socket"),
        (("--card-threads", "2"), "card_threads"),
        (("--stops", "stops.json"), "no polling threads"),
        (("--deadline-us", "50000"), "8192"),
    ):
        here = ("--listen", f"127.0.0.1:{free_udp_port()}")
        done = nanet("trigger", "--card", "gateware", "--duration", "0.1", *here, *arguments, status=2)
        assert says in done.stderr, done.stderr
