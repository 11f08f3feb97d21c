# SPDX-License-Identifier: Apache-2.0
"""Configuration: refusals name key, value and remedy; accepted values are printed unchanged."""

import json
import socket
import tomllib
from pathlib import Path

import attrs
import jsonschema
import pytest
from nanet.config import sections, values
from nanet.config.file import load
from nanet.config.options import core_values, key_of, live_only
from nanet.errors import UsageError

WRONG = {
    "unknown key": ("[trigger]\nthread = 2", ["trigger.thread", "2", "threads"]),
    "unknown section": ("[triger]\nthreads = 2", ["[triger]", "trigger"]),
    "key of another section": ("[trigger]\nlisten = '127.0.0.1:1'", ["trigger.listen", "[card]"]),
    "wrong type": ("[trigger]\nthreads = 'two'", ["trigger.threads", '"two"', "whole number", "1 to 64"]),
    "fraction": ("[trigger]\nthreads = 1.5", ["trigger.threads", "1.5", "whole number"]),
    "true is no number": ("[trigger]\nthreads = true", ["trigger.threads", "true", "whole number"]),
    "number is no truth": ("[trigger]\nstrict = 1", ["trigger.strict", "1", "true or false"]),
    "too small": ("[trigger]\nthreads = 0", ["trigger.threads", "0", "1 to 64"]),
    "too large": ("[trigger]\nthreads = 65", ["trigger.threads", "65", "1 to 64"]),
    "not a number": ("[trigger]\nchi2_cut = nan", ["trigger.chi2_cut", "0 to"]),
    "infinite": ("[card]\ntimeout_us = inf", ["card.timeout_us", "0 to"]),
    "no such choice": ("[trigger]\nalgorithm = 'maths'", ["trigger.algorithm", '"maths"', "math"]),
    "no port": ("[card]\nlisten = 'localhost'", ["card.listen", "localhost", "HOST:PORT"]),
    "port 0": ("[card]\nlisten = '127.0.0.1:0'", ["card.listen", "0", "1 to 65535"]),
    "second endpoint": ("[card]\nlisten = ['127.0.0.1:1', 'x']", ["card.listen", "'x'", "HOST:PORT"]),
    "second node": ("[readout]\nto = '127.0.0.1:1;x'", ["readout.to", "'x'", "HOST:PORT"]),
    "65 nodes": (f"[readout]\nto = '{';'.join(['h:1'] * 65)}'", ["readout.to", "65 nodes", "at most 64"]),
    "no share": ("[card]\nnode = '1'", ["card.node", '"1"', "k/K"]),
    "share out of range": ("[card]\nnode = '2/2'", ["card.node", '"2/2"', "0 to K - 1"]),
    "no nodes": ("[l0tp]\nnodes = 0", ["l0tp.nodes", "0", "1 to 64"]),
    "board 4": ("[card]\nboards = '0,4'", ["card.boards", '"0,4"', "merged"]),
    "board twice": ("[card]\nboards = [1, 1]", ["card.boards", '"1,1"', "merged"]),
    "cpu list": ("[card]\npin = 'all'", ["card.pin", '"all"', "2,3"]),
    "device": ("[trigger]\ndevice = 'gpu'", ["trigger.device", '"gpu"', "cuda"]),
    "downscale kind": ("[trigger]\ndownscale = '4=10'", ["trigger.downscale", "4=10", "RINGS=FACTOR"]),
    "downscale factor": ("[trigger]\ndownscale = '0=-1'", ["trigger.downscale", "0=-1", "0 (none"]),
    "fault name": ("[readout]\nfault = 'lose=0.1'", ["readout.fault", "lose", "drop"]),
    "fault size": ("[readout]\nfault = 'drop=2'", ["readout.fault", "drop=2", "0 to 1"]),
    "algorithm parameter": ("[algorithm.math]\ncut = 'x'", ["algorithm.math.cut", "number"]),
    "section as a value": ("trigger = 3", ["trigger", "3", "[trigger]"]),
    "no TOML": ("[trigger\n", ["is not TOML"]),
    "endless number": (f"[demo]\nspeed = {'9' * 5000}\n", ["is not TOML: a number has too many digits"]),
    "endless brackets": (f"a = {'[' * 9000}{']' * 9000}", ["is not TOML: brackets are nested too deeply"]),
    "huge parameter": (f"[algorithm.math]\nr_max = 1{'0' * 400}\n", ["algorithm.math.r_max = 1000"]),
}


@pytest.mark.parametrize("text, said", WRONG.values(), ids=WRONG.keys())
def test_wrong_file_is_refused_with_key_value_and_remedy(tmp_path: Path, text: str, said: list[str]) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        load(str(path))
    message = str(error.value)
    assert "wrong.toml" in message
    for part in said:
        assert part in message, message
    assert "\n" not in message


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[demo]\nspeed = 0.5\n", encoding="utf-8-sig")
    assert load(str(tmp_path / "run.toml"))[sections.Demo].speed == 0.5


def test_every_command_checks_the_whole_file(nanet, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[demo]\nspeed = -1.0\n")
    done = nanet("trigger", "--config", "run.toml", "--print-config", status=2)
    assert "demo.speed = -1.0" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("section", sections.ALL, ids=lambda section: section.name)
def test_defaults_are_themselves_valid_and_print_as_toml(section: type) -> None:
    config = load(None)
    table = tomllib.loads(config.toml(section))[section.name]
    assert table == {key_of(f): getattr(config[section], f.name) for f in attrs.fields(section)}
    assert list(table) == [key_of(field) for field in attrs.fields(section)]


def test_printed_configuration_reads_back_to_the_same(nanet, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        "[card]\nlisten = ['127.0.0.1:7001', '127.0.0.1:7002']\nboards = 4\npin = [0, 1]\ntimeout_us = 100\n"
        "[trigger]\ndeadline_us = 900.5\nstrict = true\n[algorithm.math]\nsteps = 2\n"
    )
    first = nanet("trigger", "--config", "run.toml", "--print-config").stdout
    values = tomllib.loads(first)
    assert values["card"]["listen"] == "127.0.0.1:7001,127.0.0.1:7002"
    assert values["card"]["boards"] == "4"
    assert values["card"]["pin"] == "0,1"
    assert values["card"]["timeout_us"] == 100.0
    assert values["trigger"]["deadline_us"] == 900.5
    assert values["trigger"]["strict"] is True
    assert values["algorithm"]["math"] == {"steps": 2.0}
    (tmp_path / "again.toml").write_text(first)
    assert nanet("trigger", "--config", "again.toml", "--print-config").stdout == first


def test_command_line_wins_over_the_file(nanet, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[trigger]\nthreads = 3\nstrict = true\nmin_hits = 4\n")
    done = nanet(
        "trigger", "--config", "run.toml", "--threads", "2", "--no-strict", "--print-config"
    )  # fmt: skip
    values = tomllib.loads(done.stdout)["trigger"]
    assert (values["threads"], values["strict"], values["min_hits"]) == (2, False, 4)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--threads", "0"], ["trigger.threads", "0", "1 to 64"]),
        (["--threads", "many"], ["trigger.threads", "many", "whole number"]),
        (["--listen", "here"], ["card.listen", "here", "HOST:PORT"]),
        (["--algorithm", "maths"], ["trigger.algorithm", "maths", "math"]),
        (["--gather", "buffers"], ["card.gather", "buffers", "frame, packets"]),
        (["--threds", "2"], ["--threds", "--threads"]),
        (["--config", "missing.toml"], ["--config", "missing.toml", "No such file"]),
        (["--device", "cuda:x"], ["trigger.device", "cuda:x", "cuda:N"]),
        (["--timeout-us", "2000", "--deadline-us", "1000"], ["deadline_us", "1000", "timeout_us", "2000"]),
        (["--json", "no/such/folder.json"], ["--json", "no/such/folder.json", "can be written"]),
    ],
)
def test_wrong_option_exits_2_with_one_sentence(nanet, arguments: list[str], said: list[str]) -> None:
    done = nanet("trigger", *arguments, status=2)
    for part in said:
        assert part in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_boards_become_a_mask() -> None:
    assert [values.board_mask(text) for text in ("4", "merged", "0", "1,3")] == [0b1111, 0, 0b0001, 0b1010]


def test_every_option_reaches_the_core_under_one_key() -> None:
    card = core_values(sections.Card(boards="0,1", record_limit_mb=20))
    assert (card["boards"], card["record_limit_bytes"], card["listen"]) == (
        0b11,
        20_000_000,
        "127.0.0.1:58913",
    )
    readout = core_values(
        sections.Readout(boards="merged", slots="fixed", rings="mix", fault="drop=0.1, dup=0")
    )
    assert (readout["merged"], readout["fixed"], readout["rings"]) == (True, True, -1)
    assert readout["fault"] == "drop=0.1,dup=0" and readout["burst_frames"] == sections.MAX_FRAMES
    assert "strict" not in core_values(sections.Trigger())
    assert {"listen", "deadline_us", "record"} <= set(live_only(sections.Trigger, sections.Card))


def test_cpu_lists() -> None:
    assert values.cpu_list("0,2-4, 7") == [0, 2, 3, 4, 7]
    assert values.cpu_list("") == []


def test_algorithms_are_those_of_the_core() -> None:
    from nanet import _core

    assert list(sections.ALGORITHMS) == list(_core.algorithm_names())
    assert sections.Trigger().algorithm == "multiring"


def test_an_unknown_parameter_is_refused_with_the_known_ones(nanet, tmp_path: Path, free_udp_port) -> None:
    # Checks every algorithm in the file, not only the one in use.
    (tmp_path / "run.toml").write_text("[algorithm.math]\nr_mn = 40.0\n")
    done = nanet("trigger", "--config", "run.toml", "--listen", f"127.0.0.1:{free_udp_port()}", status=2)
    for part in ("run.toml: algorithm.math.r_mn = 40: ", "did you mean r_min?"):
        assert part in done.stderr


def test_check_opens_what_a_run_opens(nanet, tmp_path: Path, free_udp_port) -> None:
    port = free_udp_port()
    good = ("trigger", "--listen", f"127.0.0.1:{port}", "--check")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as running:
        running.bind(("127.0.0.1", port))  # as of a running trigger
        done = nanet(*good, "--monitor", "0", "--record", "records", "--keep-bad", "bad.pcap")
    assert done.stdout.startswith(f"accepted: 127.0.0.1:{port} -> multiring on ")
    for setting in ("locked memory", "CPU latency", "timer slack", "scheduler", "pinned CPUs"):
        assert f"\nrealtime: {setting} " in done.stdout
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    for wrong, said in (
        (("--listen", "192.0.2.1:58913"), "192.0.2.1:58913"),
        (("--listen", "lo:58913"), "card.listen: 'lo:58913' names an interface: give its address"),
        (("--monitor", "192.0.2.1:8080"), "192.0.2.1:8080"),
        (("--record", "file/x"), "file: Not a directory"),
        (("--keep-bad", "file/x"), "--keep-bad"),
        (("--burst-report", "file/x"), "--burst-report"),
        (("--algorithm", "./none.so"), "none.so"),
        (("--buffers", "3"), "buffers = 3"),
        (("--conditions", "none"), "none"),
        (("--pin", "4000"), "CPU 4000"),
    ):
        assert "\n[card]\n" in nanet(*good[:3], *wrong, "--print-config").stdout
        assert said in nanet(*good, *wrong, status=2).stderr


def test_an_error_of_the_card_names_the_source_of_the_value(nanet, tmp_path: Path) -> None:
    """The xdp card looks for the interface of its address before it needs any right."""
    (tmp_path / "site.toml").write_text('[card]\ntype = "xdp"\nlisten = "198.51.100.1:58913"\n')
    for given, source in (
        (("--config", "site.toml"), "site.toml: "),
        (("--config", "site.toml", "--listen", "198.51.100.2:58913"), "command line: "),
        (("--card", "xdp", "--listen", "198.51.100.2:58913"), "command line: "),
    ):
        address = "198.51.100.2" if "--listen" in given else "198.51.100.1"
        for check in ((), ("--check",)):
            text = nanet("trigger", "--device", "cpu", *given, *check, status=2).stderr
            assert f"{source}card.listen: {address} is no address of an interface; " in text
            assert "127.0.0.1 (lo)" in text
    config = load(str(tmp_path / "site.toml"))
    assert config.source("card", "segment") == "default: "


def test_the_schema_agrees_with_the_checks(nanet, root: Path, tmp_path: Path) -> None:
    schema = json.loads(nanet("schema").stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    assert validator.is_valid(tomllib.loads((root / "deploy" / "site.toml").read_text()))
    printed = nanet("trigger", "--print-config").stdout
    assert not list(validator.iter_errors(tomllib.loads(printed)))
    assert validator.is_valid({"card": {"boards": [0, 1], "pin": "2-5"}, "algorithm": {"mine": {"cut": 3}}})
    for table in (
        {"trigger": {"thread": 2}},
        {"triger": {}},
        {"trigger": {"threads": "two"}},
        {"trigger": {"threads": 65}},
        {"card": {"card": "sockets"}},
        {"algorithm": {"math": {"r_mn": 40}}},
    ):
        assert not validator.is_valid(table), table
