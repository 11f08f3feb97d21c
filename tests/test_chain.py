# SPDX-License-Identifier: Apache-2.0
"""The chain over loopback, boards -> trigger -> L0TP, and the round trip generate -> replay -> evaluate.

The account is added up here from the JSON, independently of the programs. Rates are low and deadlines long:
the tests follow packets, events and frames, not speed. The algorithm is math, the fastest, where rings do not
matter.
"""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PATIENT = ["--timeout-us", "100e3", "--deadline-us", "200e3", "--segment-bytes", "2048"]
QUICK = ["--algorithm", "math"]


def assert_account(result: dict[str, Any]) -> None:
    """Asserts the identities of docs/formats.md, term by term."""
    lost = result["lost"]
    came_in = (
        "duplicate", "late", "replayed_sequence", "overrun", "segment_overflow", "unconfirmed_jump",
        "other_node",
    )  # fmt: skip
    assert result["packets_in"] == (
        result["packets_used"]
        + result["burst_markers"]
        + sum(result["bad_packets"].values())
        + sum(lost[name] for name in came_in)
    )
    assert result["frames_in"] == result["frames_out"]
    assert result["frames_out"] == result["frames_answered"] + result["frames_late"]
    assert result["events_built"] == (
        result["primitives_out"]
        + result["below_min_hits"]
        + result["mtp_overflow"]
        + result["in_late_frames"]
    )
    assert result["account_closes"] is True


class Running:
    """A program of the chain that writes its JSON when stopped."""

    def __init__(self, program: str, folder: Path, name: str, *arguments: object) -> None:
        self.name = name
        self.json = folder / f"{name}.json"
        self.process = subprocess.Popen(
            [program, name, *map(str, arguments), "--json", str(self.json)],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.said = self.process.stdout.readline()  # waits until it listens

    def stop(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, f"{self.name}: {self.said}{out}"
        return json.loads(self.json.read_text())


@contextmanager
def running(program: str, folder: Path, name: str, *arguments: object) -> Iterator[Running]:
    one = Running(program, folder, name, *arguments)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


@pytest.fixture
def chain(nanet, nanet_program: str, tmp_path: Path, free_udp_port, silent_receiver: str):
    """chain(readout options, trigger options) runs the three programs and returns their results."""

    def run(readout: list[object], trigger: list[object] = ()) -> tuple[dict, dict, dict]:
        card, answers = free_udp_port(), free_udp_port()
        rate = ["--rate", "10e6", "--seed", 5, "--pool-frames", 256]
        nanet(
            "readout",
            "--to",
            silent_receiver,
            *rate,
            "--events",
            1,
            "--truth",
            "truth.parquet",
        )
        with (
            running(
                nanet_program, tmp_path, "l0tp", "--listen", f"127.0.0.1:{answers}",
                "--truth", "truth.parquet", "--times", "times",
            ) as l0tp,
            running(
                nanet_program, tmp_path, "trigger", "--listen", f"127.0.0.1:{card}", "--send",
                f"127.0.0.1:{answers}", *PATIENT, *QUICK, *trigger,
            ) as trigger_program,
        ):  # fmt: skip
            done = nanet(
                "readout", "--to", f"127.0.0.1:{card}", *rate, "--times", "times", "--json", "-", *readout
            )  # fmt: skip
            time.sleep(0.3)  # everything sent was received; the drain handles the rest
            result = trigger_program.stop()
            return json.loads(done.stdout), result, l0tp.stop()

    return run


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.complete), 2])
def test_everything_sent_is_answered(chain, threads: int) -> None:
    boards, trigger, l0tp = chain(["--speed", "0.01", "--events", 40_000], ["--threads", threads, "--strict"])
    assert_account(trigger)
    assert trigger["packets_in"] == boards["packets_sent"]
    assert sum(trigger["lost"].values()) == 0 and sum(trigger["bad_packets"].values()) == 0
    assert trigger["burst_markers"] == 8  # SOB and EOB of four boards
    assert trigger["frames_in"] == boards["frames_sent"] == l0tp["frames"]
    assert trigger["frames_late"] == 0 and trigger["frames_incomplete"] == 0
    assert trigger["events_in"] == boards["fragments_sent"]
    assert l0tp["primitives"] == trigger["primitives_out"]
    assert l0tp["frames_missing"] == 0 and l0tp["frames_late"] == 0
    assert l0tp["primitives_expected"] == boards["events_sent"]
    assert l0tp["primitives_paired"] >= 0.999 * l0tp["primitives_expected"]
    assert trigger["latency_us"]["total"]["n"] == trigger["frames_out"]
    assert trigger["events_per_s"] == pytest.approx(trigger["events_built"] / trigger["elapsed_s"])
    # External latencies exceed internal ones: the same clock, a longer path.
    assert l0tp["latency_us"]["from_first"]["n"] == l0tp["frames"]
    assert l0tp["latency_us"]["from_first"]["max"] >= trigger["latency_us"]["send"]["p50"]


def test_overload_answers_every_frame_once(chain) -> None:
    short = ["--algorithm", "multiring", "--timeout-us", "5e3", "--deadline-us", "20e3"]
    boards, trigger, l0tp = chain(["--speed", "0.05", "--events", 100_000], short)
    assert_account(trigger)
    assert trigger["frames_out"] == l0tp["frames"] <= boards["frames_sent"]
    assert trigger["frames_late"] == l0tp["frames_late"]
    assert l0tp["duplicates"] == l0tp["out_of_order"] == 0
    assert l0tp["primitives"] == trigger["primitives_out"]
    assert trigger["answers_after_deadline"] <= trigger["frames_late"]
    assert trigger["latency_us"]["header_only"]["n"] <= trigger["frames_late"]


def test_the_default_algorithm_keeps_up_and_finds_several_rings(
    nanet, nanet_program: str, tmp_path: Path, free_udp_port
) -> None:
    card, answers = free_udp_port(), free_udp_port()
    with (
        running(nanet_program, tmp_path, "l0tp", "--listen", f"127.0.0.1:{answers}") as l0tp,
        running(
            nanet_program, tmp_path, "trigger", "--listen", f"127.0.0.1:{card}", "--send",
            f"127.0.0.1:{answers}", *PATIENT, "--strict",
        ) as trigger_program,
    ):  # fmt: skip
        nanet("readout", "--to", f"127.0.0.1:{card}", "--speed", "0.001", "--events", 6000,
              "--pool-frames", 128)  # fmt: skip
        time.sleep(0.3)
        trigger, received = trigger_program.stop(), l0tp.stop()
    assert_account(trigger)
    assert trigger["algorithm"] == "multiring"
    assert trigger["frames_in"] == trigger["frames_answered"] == received["frames"]
    assert sum(trigger["lost"].values()) == 0
    # 1.66 per event of the mix; math would find 0.88.
    assert 1.4 < trigger["rings"] / trigger["events_built"] < 1.9


def test_faults_are_counted_by_name_and_the_account_closes(chain) -> None:
    faults = "drop=0.02,dup=0.02,reorder=0.02,corrupt=0.02"
    boards, trigger, l0tp = chain(["--speed", "0.005", "--events", 40_000, "--fault", faults])
    assert_account(trigger)
    injected = boards["faults"]
    for name in ("drop", "dup", "reorder", "corrupt"):
        assert injected[name] > 0, name
    again = trigger["lost"]["duplicate"] + trigger["lost"]["replayed_sequence"]
    # A duplicate of a corrupted packet is no duplicate; one of an answered frame is late.
    assert again + trigger["lost"]["late"] > 0.8 * injected["dup"]
    assert again <= injected["dup"] + injected["corrupt"]
    assert trigger["lost"]["missing"] >= 0.9 * injected["drop"]
    assert trigger["frames_in"] == boards["frames_sent"] == l0tp["frames"]  # each frame is answered anyway
    assert 0 < trigger["frames_incomplete"] <= injected["drop"] + injected["corrupt"]
    assert l0tp["primitives"] == trigger["primitives_out"]
    assert l0tp["frames_missing"] == 0


def test_merged_stream(chain) -> None:
    boards, trigger, l0tp = chain(
        ["--speed", "0.01", "--events", 20_000, "--boards", "merged"],
        ["--boards", "merged", "--segment-bytes", "8192"],
    )
    assert_account(trigger)
    assert trigger["packets_in"] == boards["packets_sent"]
    assert trigger["burst_markers"] == 2
    # One fragment is one event: nothing is merged or split.
    assert trigger["events_built"] == trigger["events_in"] == boards["events_sent"]
    assert l0tp["primitives"] == boards["events_sent"]


@pytest.mark.complete
def test_padded_trains_give_the_same_answers(chain) -> None:
    _, packed, _ = chain(["--speed", "0.01", "--events", 20_000])
    _, padded, _ = chain(["--speed", "0.01", "--events", 20_000, "--pad"])
    assert_account(padded)
    for key in ("packets_used", "events_in", "events_built", "hits_in", "rings", "primitives_out"):
        assert padded[key] == packed[key], key


def test_strict_fails_when_frames_are_lost(nanet, nanet_program: str, tmp_path: Path, free_udp_port) -> None:
    card = free_udp_port()
    arguments = [
        "trigger",
        "--listen",
        f"127.0.0.1:{card}",
        "--send",
        f"127.0.0.1:{(closed := free_udp_port())}",
        *PATIENT,
        *QUICK,
    ]
    with subprocess.Popen(
        [nanet_program, *arguments, "--strict", "--json", str(tmp_path / "strict.json")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        process.stdout.readline()
        nanet(
            "readout",
            "--to",
            f"127.0.0.1:{card}",
            "--speed",
            "0.01",
            "--events",
            20_000,
            "--fault",
            "dup=0.05",
        )
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    result = json.loads((tmp_path / "strict.json").read_text())
    assert_account(result)
    assert sum(result["lost"].values()) > 0
    assert process.returncode == 1
    remedy = f"no listener at 127.0.0.1:{closed}? Start it, or change trigger.send"
    rejected = result["send_errors"]
    assert rejected > 0 and f"send errors: {rejected} datagrams were rejected by the network: {remedy}" in (
        said
    )


def test_boards_name_their_send_errors(nanet, tmp_path: Path, free_udp_port) -> None:
    port = free_udp_port()
    done = nanet("readout", "--to", f"127.0.0.1:{port}", "--events", 2000, "--json", "sent.json", status=1)
    errors = json.loads((tmp_path / "sent.json").read_text())["nodes"][0]["send_errors"]
    assert errors["refused"] > 0 and f"send errors: {errors['refused']:,} refused" in done.stdout


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, nanet_program: str) -> Path:
    """Folder with a generated run: run.pcap and its truth."""
    folder = tmp_path_factory.mktemp("recorded")
    subprocess.run(
        [nanet_program, "generate", "--events", "30000", "--seed", "7", "--rings", "1", "--noise", "0",
         "--out", "run.pcap", "--truth", "run.parquet"],
        cwd=folder, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return folder


def test_replay_finds_what_was_generated(nanet, recorded: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    result = json.loads(
        nanet("replay", recorded / "run.pcap", "--out", "rings.parquet", "--json", "-").stdout
    )  # fmt: skip
    assert_account(result)
    assert result["algorithm"] == "multiring"
    assert result["frames_late"] == 0 and sum(result["lost"].values()) == 0
    rings = pq.read_table(tmp_path / "rings.parquet").to_pydict()
    assert rings["event"] == sorted(rings["event"])  # in order of burst, frame, time
    assert len(set(rings["event"])) == result["events_built"]
    found = [row for row, ring in enumerate(rings["ring"]) if ring != 255]
    assert len(found) == result["rings"]
    for row, ring in enumerate(rings["ring"]):
        nulls = [rings[name][row] is None for name in ("x", "y", "r", "chi2_ndf")]
        assert all(nulls) if ring == 255 else not any(nulls)
        if ring == 255:
            assert rings["n_rings"][row] == 0 and rings["n_hits"][row] == 0
    figures = json.loads(
        nanet(
            "evaluate", "--truth", recorded / "run.parquet", "--rings", "rings.parquet", "--json", "-"
        ).stdout
    )
    assert figures["isolated"]["efficiency"]["1"] > 0.97  # clean single rings
    assert figures["isolated"]["sigma_r_mad_mm"] < 3.0


def test_replay_by_default_finds_what_math_cannot(nanet, tmp_path: Path) -> None:
    """The standard mix with noise: several rings per event, and noise hits."""
    nanet("generate", "--events", 5000, "--seed", 11, "--out", "run.pcap", "--truth", "run.parquet")
    figures = {}
    for name, chosen in (("multiring", []), ("math", QUICK)):
        result = json.loads(
            nanet("replay", "run.pcap", *chosen, "--out", "rings.parquet", "--json", "-").stdout
        )  # fmt: skip
        assert_account(result)
        assert result["algorithm"] == name
        found = nanet("evaluate", "--truth", "run.parquet", "--rings", "rings.parquet", "--json", "-").stdout
        figures[name] = json.loads(found)["isolated"]
    best, least = figures["multiring"], figures["math"]
    for rings, efficiency in {"1": 0.95, "2": 0.90, "3": 0.85, "4": 0.75}.items():
        assert best["efficiency"][rings] > efficiency
        assert best["efficiency"][rings] > least["efficiency"][rings] + 0.25
    assert best["fakes_per_event"] < 0.1 < 0.4 < least["fakes_per_event"]
    assert best["ring_count_accuracy"]["2"] > 0.88
    assert best["sigma_r_mm"] < least["sigma_r_mm"] - 1


def payloads(path: Path) -> list[bytes]:
    """UDP payloads of a capture, without its times, which are the sending times."""
    import dpkt

    with open(path, "rb") as file:
        return [dpkt.ethernet.Ethernet(record).data.data.data for _, record in dpkt.pcap.Reader(file)]


def test_replay_is_the_same_with_any_number_of_threads(nanet, recorded: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    tables = []
    for threads in (1, 2):
        nanet(
            "replay", recorded / "run.pcap", "--threads", threads, "--out", "rings.parquet", "--mtp", "m.pcap"
        )
        tables.append((pq.read_table(tmp_path / "rings.parquet"), payloads(tmp_path / "m.pcap")))
    assert tables[0][0].equals(tables[1][0])
    assert tables[0][1] == tables[1][1]


def test_replayed_primitives_are_one_packet_per_frame(nanet, recorded: Path, tmp_path: Path) -> None:
    result = json.loads(nanet("replay", recorded / "run.pcap", "--mtp", "mtp.pcap", "--json", "-").stdout)
    assert result["card"] == "socket"
    frames, primitives = [], 0
    for payload in payloads(tmp_path / "mtp.pcap"):
        word = int.from_bytes(payload[0:4], "little")
        assert word >> 24 == 0x1C
        frames.append(word & 0xFFFFFF)
        primitives += payload[6]
    assert frames == list(range(result["frames_out"]))
    assert primitives == result["primitives_out"]
