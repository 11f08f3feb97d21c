# SPDX-License-Identifier: Apache-2.0
"""Command line: list of commands, exit statuses, output streams, cheap start."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from nanet.cli.app import COMMANDS, command_function
from nanet.report import output

import nanet as package
from nanet import _core


def strict(text: str) -> dict:
    """JSON without NaN and infinities."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_version(nanet) -> None:
    assert nanet("--version").stdout == f"nanet {package.__version__}\n"


def test_help_lists_every_command_and_each_exists(nanet) -> None:
    said = nanet("--help").stdout
    for name in COMMANDS:
        assert name in said
        assert callable(command_function(name))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_has_help(nanet, name: str) -> None:
    assert f"nanet {name}" in nanet(name, "--help").stdout


def test_no_command_shows_the_help_and_is_bad_usage(nanet) -> None:
    done = nanet(status=2)
    assert "trigger" in done.stdout + done.stderr


def test_unknown_command_suggests(nanet) -> None:
    done = nanet("triger", status=2)
    assert done.stderr == "nanet: triger: no such command (did you mean trigger?)\n"


@pytest.mark.parametrize(
    ("given", "placed"),
    [("-q", "nanet -q replay"), ("--verbose", "nanet -v replay"), ("--log", "nanet --log FILE replay")],
)
def test_option_of_nanet_after_the_command_is_placed(nanet, given: str, placed: str) -> None:
    done = nanet("replay", given, "run.pcap", status=2)
    assert done.stderr == f"nanet: {given} precedes the command: {placed} …\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["trigger", "--print-config"]])
def test_starting_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from nanet.cli import main; main(sys.argv[1:]);"
        "print([m for m in ('numpy', 'pyarrow', 'matplotlib', 'scipy') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_doctor_gives_a_verdict_with_reasons_and_remedies(nanet) -> None:
    done = nanet("doctor", "--json", "-")
    found = strict(done.stdout)
    assert found["real_time"] == all(reason["fit"] for reason in found["reasons"])
    assert (found["timeout_us"], found["deadline_us"]) == (
        (200.0, 1000.0) if found["real_time"] else (20_000.0, 50_000.0)
    )
    assert all(reason["remedy"] for reason in found["reasons"] if not reason["fit"])
    assert found["host"]["cores"] == len(os.sched_getaffinity(0))
    assert "real time" in done.stderr  # messages go to standard error when standard output carries the JSON


def test_port_in_use_is_one_sentence(nanet, free_udp_port) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        done = nanet(
            "trigger", "--listen", f"127.0.0.1:{port}", "--send", f"127.0.0.1:{free_udp_port()}", status=2
        )
    assert str(port) in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_address_of_another_host_is_one_sentence(nanet) -> None:
    done = nanet("trigger", "--listen", "192.0.2.1:7000", status=2)
    assert "192.0.2.1" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_cpu_variant_that_does_not_run_here_is_refused(nanet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NANET_SIMD", "sse")
    said = nanet("--version", status=2).stderr
    assert said.startswith("nanet: NANET_SIMD = sse: is not in this build; unset it, or choose one of: ")
    for name in _core.simd_variants():
        monkeypatch.setenv("NANET_SIMD", name)
        nanet("--version")


def test_cuda_is_refused_where_the_build_has_none(nanet) -> None:
    done = nanet("trigger", "--device", "cuda", status=2)
    assert "--device cpu" in done.stderr


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["missing.pcap"], ["missing.pcap", "No such file"]),
        (["text.pcap"], ["text.pcap"]),
        (["."], ["."]),
    ],
)
def test_replay_of_what_is_no_capture(nanet, tmp_path: Path, arguments: list[str], said: list[str]) -> None:
    (tmp_path / "text.pcap").write_text("this is no capture, but longer than a header of one")
    done = nanet("replay", *arguments, status=2)
    for part in said:
        assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_full_disk_is_one_sentence(nanet, tmp_path: Path) -> None:
    nanet("generate", "--events", "2000", "--out", "run.pcap", "--truth", "run.parquet")
    done = nanet("replay", "run.pcap", "--json", "/dev/full", status=2)
    assert "/dev/full" in done.stderr
    assert "No space left" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_trigger_drains_on_signals(nanet_program: str, free_udp_port, tmp_path: Path, number: int) -> None:
    result = tmp_path / "result.json"
    process = subprocess.Popen(
        [
            nanet_program, "trigger", "--listen", f"127.0.0.1:{free_udp_port()}",
            "--send", f"127.0.0.1:{free_udp_port()}", "--json", str(result),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        first = process.stdout.readline()
        assert "close after" in first and "due after" in first  # the timeouts are printed at the start
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "account closes" in out
    assert strict(result.read_text())["account_closes"] is True


def test_trigger_stops_after_its_duration(nanet, free_udp_port) -> None:
    began = time.monotonic()
    done = nanet(
        "trigger", "--listen", f"127.0.0.1:{free_udp_port()}", "--send", f"127.0.0.1:{free_udp_port()}",
        "--duration", "0.3", "--json", "-",
    )  # fmt: skip
    assert time.monotonic() - began >= 0.3
    assert strict(done.stdout)["packets_in"] == 0


def test_json_is_strict() -> None:
    assert output.plain({"a": float("nan"), "b": [float("inf"), 1.5], "c": (1, True)}) == {
        "a": None,
        "b": [None, 1.5],
        "c": [1, True],
    }
    with pytest.raises(TypeError):
        output.plain({"a": object()})


ACCOUNT = {
    "packets_in": 21, "packets_used": 10, "burst_markers": 2,
    "bad_packets": {"bad_version": 1, "oversized": 1},
    "lost": {
        "duplicate": 1, "late": 1, "replayed_sequence": 1, "overrun": 1, "segment_overflow": 1,
        "unconfirmed_jump": 1, "other_node": 1, "missing": 99, "socket_overflow": 99,
    },
    "frames_in": 5, "frames_out": 5, "frames_answered": 4, "frames_late": 1,
    "events_built": 9, "primitives_out": 4, "below_min_hits": 2, "mtp_overflow": 1, "in_late_frames": 2,
    "account_closes": True,
}  # fmt: skip


def test_account_is_computed_from_its_terms() -> None:
    assert output.account_closes(ACCOUNT)  # packets never received (missing, socket_overflow) are no terms
    assert not output.account_closes({**ACCOUNT, "account_closes": False})


@pytest.mark.parametrize(
    "key", [k for k, v in ACCOUNT.items() if isinstance(v, int) and not isinstance(v, bool)]
)
def test_account_notices_each_term(key: str) -> None:
    assert not output.account_closes({**ACCOUNT, key: ACCOUNT[key] + 1})


@pytest.mark.parametrize(
    "group, key",
    [("bad_packets", "bad_version"), ("lost", "late"), ("lost", "overrun"), ("lost", "segment_overflow"),
     ("lost", "duplicate"), ("lost", "replayed_sequence"), ("lost", "unconfirmed_jump"),
     ("lost", "other_node")],
)  # fmt: skip
def test_account_notices_each_named_loss(group: str, key: str) -> None:
    changed = {**ACCOUNT[group], key: ACCOUNT[group][key] + 1}
    assert not output.account_closes({**ACCOUNT, group: changed})
