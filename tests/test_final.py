# SPDX-License-Identifier: Apache-2.0
"""Final trigger: the loop closed on one host, late triggers, level 1, options."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nanet.cli.demo import check_final
from nanet.cli.readout import final_settings
from nanet.config.file import Config
from nanet.config.sections import Card, Demo, Final, Trigger
from nanet.config.values import trigger_masks
from nanet.errors import UsageError
from nanet.monitor.metrics import TriggerCollector, counters, family, present
from nanet.monitor.state import State
from nanet.report import run_report
from nanet.report.counters import DECISIONS, of_card_trigger
from nanet.report.final import (
    CARD_OUTCOMES,
    CARD_REFUSED,
    OUTCOMES,
    boards_latency_us,
    closed_loop,
    decisions_line,
    default_latency_us,
    loop_line,
    print_choke_beyond,
    print_final,
)
from nanet.report.tables import count, losses
from nanet.run.control import RunControl
from nanet.run.core_options import check_latency
from nanet.run.final_trigger import final_settings as settings_of_trigger
from nanet.run.live import View
from nanet.run.ports import free_port_pair, free_ports, free_tcp_port
from rich.console import Console

from nanet import _core

PATIENCE_S = 60.0
RUN = ("--algorithm", "math", "--device", "cpu", "--monitor", "", "--json", "-")


def check_loop(result: dict[str, Any]) -> dict[str, Any]:
    """Identities of the loop, which hold on a host of any speed; the account."""
    loop, boards, farm = result["final"], result["readout"]["final"], result["l0tp"]["farm"]
    card = loop.get("card", {})
    refused = sum(card.get(name, 0) for name in CARD_REFUSED)
    assert loop["decisions"] == loop["triggers"] + loop["joined"] + loop["dead"] + refused
    for board in boards["boards"]:
        assert board["triggers"] == sum(board[name] for name in OUTCOMES)
        assert board["early"] == 0
    assert farm["triggered"] == farm["complete"] + farm["incomplete"] == loop["triggers"] > 0
    # Every event has the fragments that caused its trigger, unless the host stopped the boards for long.
    assert farm["empty"] <= boards["fragments_overwritten"]
    assert sum(farm["answers"]) == boards["answered"]
    assert result["events_incomplete"] == farm["incomplete"]
    assert result["events_twice"] == farm["twice"] == 0
    assert farm["untriggered"] == farm["wrong_time"] == 0
    share = boards["answered"] / (4 * (loop["triggers"] + refused))
    assert result["triggers_in_time_share"] == pytest.approx(share)
    return loop


@pytest.mark.serial
def test_the_loop_closes_and_keeps_what_the_masks_select(nanet: Callable[..., Any]) -> None:
    # Every event is a trigger; L is two seconds of this host.
    done = nanet(
        "demo", "--final", "--speed", "0.0005", "--duration", "1", "--latency-us", "1000",
        "--masks", "0/0/1/1", "--min-ticks", "1", "--report", "", *RUN,
    )  # fmt: skip
    result = json.loads(done.stdout)
    loop = check_loop(result)
    assert loop["latency_us"] == pytest.approx(1000, abs=0.03)
    assert loop["kept_share"] > 0.85  # the others share a period
    if not loop["late"]:
        assert result["events_incomplete"] == 0
        assert result["triggers_in_time_share"] == 1.0
        assert sum(row["kept"] for row in loop["kept_by_rings"]) > 0.98 * loop["triggers"]
    assert "final trigger: L" in done.stderr


@pytest.mark.serial
@pytest.mark.complete
def test_delayed_triggers_are_late_and_never_answered(nanet: Callable[..., Any], tmp_path: Path) -> None:
    page = free_tcp_port()
    done = nanet(
        "demo", "--final", "--speed", "0.0005", "--duration", "1.5", "--fault", "delay=0.3",
        "--masks", "0/0/1/5", "--report", "report", *RUN, "--monitor", f"127.0.0.1:{page}", status=None,
    )  # fmt: skip
    result = json.loads(done.stdout)
    loop = check_loop(result)
    assert loop["late"] > 0
    assert loop["late_by_us"]["n"] == loop["late"]
    assert result["events_incomplete"] > 0
    assert result["triggers_in_time_share"] < 1
    report = (tmp_path / "report" / "index.html").read_text()
    assert "Final trigger" in report
    assert "Slack of the triggers" in report
    assert "% of the triggers answered<" in report
    assert "[final]" in report and "masks = &quot;0/0/1/5&quot;" in report


@pytest.mark.serial
def test_the_loop_by_hand_of_the_documentation(root: Path, nanet_program: str, tmp_path: Path) -> None:
    """The commands of docs/ttc.md, on free ports and slower: the farm has every event of the trigger."""
    block = re.search(r"```\n(B=.*?)```", (root / "docs" / "ttc.md").read_text(encoding="utf-8"), re.S)
    assert block
    variables, *commands = block[1].splitlines()
    names = [word.split("=") for word in variables.split()]
    given = [address for _, value in names for address in value.split(",")]
    free = [*free_ports(4), free_port_pair()]
    listen, send = (f"127.0.0.1:{port}" for port in free_ports(2))
    ports = dict(zip(given, (f"127.0.0.1:{port}" for port in free), strict=True))
    values = {f"${name}": ",".join(ports[one] for one in value.split(",")) for name, value in names}
    more = {
        "l0tp": ("--listen", send),
        "trigger": ("--listen", listen, "--send", send, "--algorithm", "math", "--device", "cpu"),
        "readout": ("--to", listen, "--speed", "0.0005", "--duration", "1"),
    }
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        for command in commands:
            program, *words = [values.get(w, w) for w in shlex.split(command, comments=True)]
            if program == "kill":
                continue
            assert program == "nanet"
            name, *options = [word for word in words if word != "&"]
            running[name] = subprocess.Popen(
                [nanet_program, name, *options, *more[name], "--json", f"{name}.json"], cwd=tmp_path,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert any(f"nanet {name}: " in line for line in iter(running[name].stdout.readline, ""))
        said = {"readout": running["readout"].communicate(timeout=PATIENCE_S)[0]}
        for name in ("trigger", "l0tp"):
            running[name].send_signal(signal.SIGTERM)
            said[name] = running[name].communicate(timeout=PATIENCE_S)[0]
    finally:
        for process in running.values():
            process.kill()
    assert list(running) == ["l0tp", "trigger", "readout"]
    found = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in running}
    sent, boards, farm = found["trigger"]["final"], found["readout"]["final"], found["l0tp"]["farm"]
    assert sent["decisions"] == sent["triggers"] + sent["joined"] + sent["dead"]
    assert f"decisions = {count(sent['triggers'])} sent" in said["trigger"]
    assert farm["triggered"] == sent["triggers"] == farm["complete"] + farm["incomplete"] > 0
    assert sum(farm["answers"]) == boards["answered"] > 0
    assert farm["twice"] == farm["untriggered"] == 0


def check_card(loop: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Account of a card that releases the triggers."""
    card = loop["card"]
    assert card["decisions"] == sum(card[name] for name in CARD_OUTCOMES)
    assert card["sent"] == loop["triggers"]
    # Every release is exact within a cycle of the card's clock, and is the one that software decides.
    assert card["release_cycles"]["max"] - card["release_cycles"]["min"] <= 1
    assert card["overflow"] == card["missed"] == card["time_lost"] == card["early"] == 0
    assert card["specials"]["sob"] == card["specials"]["eob"] == 1
    assert result["card"] == "gateware"
    assert result["account_closes"]
    return card


gateware = pytest.mark.skipif(bool(_core.gateware_missing()), reason="no simulated card in this build")


@gateware
@pytest.mark.serial
def test_the_simulated_card_releases_the_triggers(nanet: Callable[..., Any]) -> None:
    done = nanet(
        "demo", "--final", "--card", "gateware", "--speed", "0.0005", "--duration", "0.6", "--latency-us",
        "200", "--close-ticks", "300", "--masks", "0x4000/0x4000/1/1,0x200/0x200/2/3", "--min-ticks", "2",
        "--report", "", *RUN, timeout=200,
    )  # fmt: skip
    result = json.loads(done.stdout)
    loop = check_loop(result)
    card = check_card(loop, result)
    assert loop["latency_us"] == pytest.approx(200, abs=0.03)
    assert loop["boards_latency_us"] > 200 + 500
    # The card's time stands while the consumer works, so the speed of this host makes no decision late.
    assert card["late"] == card["untimed"] == card["flushed"] == card["differs"] == card["choked"] == 0
    assert card["specials"]["choke_on"] == card["specials"]["choke_off"] == 0
    assert loop["slack_us"]["min"] > 0
    # Packets have their times: no frame closes before its last one.
    assert result["frames_incomplete"] == 0
    if not loop["late"]:
        assert result["events_incomplete"] == 0
        assert result["triggers_in_time_share"] == 1.0
        assert sum(row["kept"] for row in loop["kept_by_rings"]) > 0.98 * loop["triggers"]
    assert "released at t + L + " in done.stderr


@gateware
@pytest.mark.serial
def test_a_choked_card_releases_nothing_until_l_after(nanet: Callable[..., Any], tmp_path: Path) -> None:
    # L is 16 frames of 47; the choke begins after the first releases.
    done = nanet(
        "demo", "--final", "--card", "gateware", "--speed", "0.0005", "--duration", "0.6", "--latency-us",
        "100", "--close-ticks", "300", "--masks", "0/0/1/5", "--choke", "24+4,90000+5", "--merge",
        "--report", "report", *RUN,
        timeout=200,
    )  # fmt: skip
    result = json.loads(done.stdout)
    loop = check_loop(result)
    card = check_card(loop, result)
    assert card["choked"] > 0
    assert card["sent"] > 0
    assert card["specials"] == {"sob": 1, "eob": 1, "choke_on": 1, "choke_off": 1}
    assert result["choke"]["raised"] == 1
    assert result["triggers_in_time_share"] < 1
    assert f"{card['choked']} choked" in done.stderr
    assert "final.choke: 90000+5 was not reached" in done.stderr and "24+4" not in done.stderr
    assert result["merge"] is True
    # Choked decisions are no triggers for the boards.
    if not loop["late"]:
        assert loop["answered_share"] == 1.0
        assert "boards answered 100.00 %" in done.stderr
    run = json.loads((tmp_path / "report" / "run.json").read_text())
    assert sum(run["slack"]["slack"]["counts"]) == card["slack_us"]["n"] > 0
    assert min(run["slack"]["slack"]["edges_us"]) > card["slack_us"]["min"]
    assert "in the card to t + L, by the card's clock" in (tmp_path / "report" / "index.html").read_text()


@gateware
@pytest.mark.serial
@pytest.mark.complete
def test_frames_without_an_answer_in_time_have_no_triggers(nanet: Callable[..., Any], tmp_path: Path) -> None:
    # Every third frame lacks a packet, and closes shortly before its answer is due.
    page = free_tcp_port()
    done = nanet(
        "demo", "--final", "--card", "gateware", "--duration", "3", "--latency-us", "240",
        "--fault", "drop=0.1", "--masks", "0/0/1/1", "--report", "report", *RUN,
        "--monitor", f"127.0.0.1:{page}", status=None, timeout=300,
    )  # fmt: skip
    result = json.loads(done.stdout)
    loop = check_loop(result)
    card = check_card(loop, result)
    assert result["frames_incomplete"] > 0
    assert card["late"] == 0  # the sender's deadline is before that of the triggers
    assert card["sent"] > 0
    report = (tmp_path / "report" / "index.html").read_text()
    assert "in the card" in report


@gateware
def test_a_latency_beyond_the_memory_of_the_card_is_refused(nanet: Callable[..., Any]) -> None:
    boards = ",".join(f"127.0.0.1:{port}" for port in free_ports(4))
    done = nanet(
        "trigger", "--card", "gateware", "--final-boards", boards, "--latency-us", "900", "--duration", "0.1",
        "--listen", f"127.0.0.1:{free_ports(1)[0]}", *RUN, status=2,
    )  # fmt: skip
    assert "final.latency_us = 899.98" in done.stderr and "give 0.249510 to 817.5" in done.stderr


def test_late_frames_are_passed_by_ttc_time() -> None:
    # A frame without a packet would close after 45 ms; its answer is due 25 ms after its first period begins.
    boards = ",".join(f"127.0.0.1:{port}" for port in free_ports(4))
    sync, farm = f"127.0.0.1:{free_ports(1)[0]}", f"127.0.0.1:{free_port_pair()}"
    speed, latency = 0.001, {"latency_us": 45.0, "sync": sync}
    trigger = _core.Trigger(
        {"listen": "127.0.0.1:0", "send": f"127.0.0.1:{free_ports(1)[0]}", "algorithm": "math",
         "timeout_us": 45e3, "deadline_us": 50e3, "final_boards": boards, "time_source": "ptp",
         "clock_speed": speed, "late": "pass", "late_type": 5, "late_downscale": 2, "min_ticks": 1,
         **latency}
    )  # fmt: skip
    readout = _core.Readout(
        to=trigger.listening[0], speed=speed, duration=1.0, pool_frames=64, rate=10e6, fault="drop=0.1",
        final_boards=boards, farm=farm, **latency,
    )  # fmt: skip
    trigger.start()
    readout.start()
    readout.join()
    trigger.request_stop()
    trigger.join(PATIENCE_S)
    result, final = trigger.result(), trigger.result()["final"]
    assert result["account_closes"]
    assert final["syncs"] > 0 and final["syncs_refused"] == 0
    assert result["frames_late"] > 0
    assert result["latency_us"]["header_only"]["n"] == result["frames_late"]
    assert final["passed"] > 0
    assert final["decisions"] == final["passed"]  # no masks
    assert final["decisions"] == final["triggers"] + final["joined"] + final["dead"]
    # Half of the periods with events, of frames with 256 periods at most.
    assert final["passed"] <= 128 * result["frames_late"]
    for board in readout.result()["final"]["boards"]:
        assert board["triggers"] == sum(board[name] for name in OUTCOMES)


def test_level_1_reconstructs_the_answers() -> None:
    level1 = _core.Level1({"listen": "127.0.0.1:0", "algorithm": "math"})
    boards = ",".join(f"127.0.0.1:{port}" for port in free_ports(4))
    trigger = _core.Trigger(
        {"listen": "127.0.0.1:0", "send": f"127.0.0.1:{free_ports(1)[0]}", "algorithm": "math",
         "final_boards": boards, "masks": [[0, 0, 1, 3]]}
    )  # fmt: skip
    readout = _core.Readout(
        to=trigger.listening[0], speed=0.001, duration=1.0, pool_frames=64, rate=10e6,
        final_boards=boards, farm=level1.listening, latency_us=500.0,
    )  # fmt: skip
    level1.start()
    trigger.start()
    readout.start()
    readout.join()
    end = time.monotonic() + PATIENCE_S
    while trigger.snapshot()["frames_out"] < readout.result()["frames_sent"] and time.monotonic() < end:
        time.sleep(0.05)
    trigger.request_stop()
    trigger.join(PATIENCE_S)
    level1.stop()
    sent, answered, seen = trigger.result()["final"], readout.result()["final"], level1.snapshot()
    assert sent["triggers"] > 0
    assert seen["events_complete"] + seen["events_incomplete"] <= sent["triggers"]
    assert seen["events_complete"] > 0 or answered["late"] > 0
    if answered["answered"] == 4 * sent["triggers"] and not answered["fragments_overwritten"]:
        assert seen["events_complete"] == sent["triggers"]
        assert seen["events_incomplete"] == seen["events_empty"] == 0
    assert sum(seen["rings_per_event"]) == seen["events_reconstructed"]
    assert seen["events_twice"] == seen["wrong_time"] == seen["bad_data"] == 0
    assert not any(seen["bad_packets"].values())


def test_level_1_is_a_command(nanet: Callable[..., Any]) -> None:
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    done = nanet("trigger", "--input", "mep", "--listen", listen, "--duration", "0.2", "--json", "-")
    assert json.loads(done.stdout)["events_complete"] == 0
    done = nanet("trigger", "--input", "mep", "--device", "cuda:0", status=2)
    assert "level 1 runs on the CPU" in done.stderr


@pytest.mark.parametrize(
    ("option", "named"),
    [
        (("--record", "raw"), "card.record = 'raw'"),
        (("--monitor", "8080"), "monitor.listen (--monitor) = '8080'"),
        (("--burst-report", "bursts"), "trigger.burst_report = 'bursts'"),
        (("--merge",), "card.merge = True"),
        (("--card", "gateware"), "card.type (--card) = 'gateware'"),
        (("--threads", "2"), "trigger.threads = 2"),
        (("--final-boards", "127.0.0.1:9"), "final.boards (--final-boards) = '127.0.0.1:9'"),
    ],
)
def test_level_1_refuses_options_that_it_does_not_read(
    nanet: Callable[..., Any], option: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    for check in ((), ("--check",)):
        done = nanet("trigger", "--input", "mep", "--device", "cpu", *option, *check, status=2)
        assert f"trigger.input = 'mep' with {named}: level 1 has no such option" in done.stderr
    assert not list(tmp_path.iterdir())


def test_options_that_do_not_fit_are_named(nanet: Callable[..., Any], tmp_path: Path) -> None:
    boards = ",".join(["127.0.0.1:7000"] * 4)
    trigger = ("trigger", "--device", "cpu", "--check")
    for arguments, text in (
        (("readout", "--final-boards", boards, "--farm", "127.0.0.1:9"), "final.latency_us"),
        (("demo", "--final", "--nodes", "2"), "demo.nodes = 2"),
        ((*trigger, "--masks", "0/0/1/1"), "final.masks = '0/0/1/1': needs --final-boards"),
        ((*trigger, "--input", "mep", "--farm", "127.0.0.1:9"), "level 1 has no such option"),
        (("readout", "--farm", "127.0.0.1:9"), "final.farm = '127.0.0.1:9': needs --final-boards"),
        (("demo", "--latency-us", "100"), "final.latency_us = 100: needs --final"),
        ((*trigger, "--choke", "5+1"), "final.choke = '5+1': needs --final-boards and --card gateware"),
        ((*trigger, "--final-boards", boards, "--close-ticks", "300"), "final.close_ticks = 300: needs"),
        (
            (*trigger, "--final-boards", boards + ",127.0.0.1:7004"),
            "5 addresses are given; give one for each of 4 boards",
        ),
        (
            (*trigger, "--final-boards", boards, "--boards", "0,1"),
            "4 addresses are given; give one for each of 2 boards",
        ),
        (
            ("readout", "--final-boards", "127.0.0.1:0", "--farm", "127.0.0.1:9", "--latency-us", "10"),
            "final.boards (--final-boards)",
        ),
        ((*trigger, "--boards", "0,1", "--merge"), "give --segment-bytes 12288, or leave --merge out"),
    ):
        assert text in nanet(*arguments, status=2).stderr
    nanet(*trigger, "--boards", "0,1", "--merge", "--segment-bytes", "12288")
    # A file may serve boards, trigger and farm.
    (tmp_path / "run.toml").write_text('[final]\nfarm = "127.0.0.1:9"\nmasks = "0/0/1/1"\n')
    nanet(*trigger, "--config", "run.toml")
    with pytest.raises(UsageError, match=r"final\.boards \(--final-boards\) = .* need final\.farm"):
        final_settings(Final(final_boards=boards))
    for values, text in (
        ({"farm": "127.0.0.1:65535"}, "takes the next port too"),
        ({"final_boards": "here"}, r"final\.boards \(--final-boards\) = \"here\""),
        ({"masks": "1/2/1/1"}, "VALUE only bits of CARE"),
    ):
        with pytest.raises(UsageError, match=text):
            Final(**values)
    with pytest.raises(UsageError, match=r"demo\.nodes = 2"):
        check_final(Demo(final=True, nodes=2), Card(), Final())
    for card, demo in ((Card(), Demo(final=True)), (Card(card="gateware"), Demo())):
        with pytest.raises(UsageError, match=r"final\.choke = '5\+1'"):
            check_final(demo, card, Final(choke="5+1"))
    with pytest.raises(UsageError, match=r"final\.late = 'pass' with card\.type = 'gateware'"):
        check_final(Demo(final=True), Card(card="gateware"), Final(late="pass"))
    # L leaves no time between a frame's timeout, which is of this host, and the deadline of its answer.
    for final, latency_us, timeout_us, speed in (
        (Final(), 219.9, 200.0, 1.0),
        (Final(), 219.9, 20_000.0, 0.01),
        (Final(close_ticks=256), 32.7, 200.0, 1.0),
    ):
        with pytest.raises(UsageError, match=rf"final\.latency_us = {latency_us}.*give at least"):
            check_latency(final, latency_us, timeout_us, speed)
        check_latency(final, latency_us + 0.2, timeout_us, speed)
    config = Config()
    config.set(Final, final_boards=boards, latency_us=100.0)
    settings = {"timeout_us": 200.0, "boards": (1 << len(boards.split(","))) - 1}
    assert settings_of_trigger(config, settings)["latency_us"] == 100.0  # without the boards' time
    config.set(Final, sync="127.0.0.1:9")
    with pytest.raises(UsageError, match=r"card\.timeout_us = 200 closes"):
        settings_of_trigger(config, settings)
    for wrong in ("5", "5+0", "-5+1", "5+1+1", f"{1 << 62}+1"):
        with pytest.raises(UsageError, match=r"final\.choke"):
            Final(choke=wrong)


@gateware
def test_a_card_that_cannot_merge_names_one_remedy(nanet: Callable[..., Any]) -> None:
    trigger = ("trigger", "--device", "cpu", "--check", "--boards", "0,1", "--merge")
    for more in ((), ("--segment-bytes", "12288")):
        done = nanet(*trigger, "--card", "gateware", *more, status=2)
        assert "merge = true with 2 boards: the gateware card merges from 3 boards on" in done.stderr
        assert "leave --merge out, or give --card socket --segment-bytes 12288" in done.stderr


def test_page_and_metrics_show_the_loop(tmp_path: Path) -> None:
    file = tmp_path / "loop.json"
    control = RunControl(None, Trigger(), None, "", loop=str(file))
    decisions = {"triggers": 5, "joined": 1, "dead": 2}
    assert control.result({"final": decisions})["final"] == decisions  # not written yet
    board = {"answered": 19, "late": 1, "early": 0, "untimed": 0, "flushed": 0}
    events = {"events_complete": 4, "events_incomplete": 1, "events_twice": 0, "events_untriggered": 0}
    file.write_text(json.dumps({**board, **events}))
    final = control.result({"final": decisions})["final"]
    of_loop = TriggerCollector(State())._loop(final)
    values = {one.name: {s.labels["outcome"]: s.value for s in one.samples} for one in of_loop}
    assert values == {
        "nanet_final_board_triggers": board,
        "nanet_final_events": {name.removeprefix("events_"): n for name, n in events.items()},
    }
    assert metrics_of(final) == {DECISIONS: decisions}


def metrics_of(final: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Decisions and faults among the metrics of a final trigger's JSON: by outcome, else under ''."""
    result = {"final": final}
    found = {
        metric: present(lines, result) for metric, lines in counters().items()
        if metric == DECISIONS or lines[0]["family"] == "final.card"
    }  # fmt: skip
    families = [family(metric, lines, result) for metric, lines in found.items() if lines]
    return {one.name: {s.labels.get("outcome", ""): s.value for s in one.samples} for one in families}


def test_boards_in_final_mode_refuse_what_they_cannot_keep() -> None:
    pair = free_port_pair()
    final = {"final_boards": "127.0.0.1:0", "farm": f"127.0.0.1:{pair}", "latency_us": 10.0}
    with pytest.raises(ValueError, match="one for each of 4 boards"):
        _core.Readout(pool_frames=1, events=1, **final)
    with pytest.raises(ValueError, match="speed above 0"):
        _core.Readout(pool_frames=1, events=1, speed=0.0, **final)


def test_masks() -> None:
    assert trigger_masks("0x2000/0x2000/1/10, 0/0/2/1") == [[0x2000, 0x2000, 1, 10], [0, 0, 2, 1]]
    for wrong in ("", "1/1/1", "0x10000/0/1/1", "0/0/64/1", "0/0/1/0", ",".join(["0/0/1/1"] * 17)):
        with pytest.raises(ValueError):
            trigger_masks(wrong)


def test_account_of_a_loop_that_has_not_begun() -> None:
    assert closed_loop({}, {}, {}, 1.0) == {}
    assert default_latency_us(50_000, 0.01) == pytest.approx(500 + 5 * 6.387449)
    board = dict.fromkeys(("triggers", *OUTCOMES), 0)
    none = {"p50": 0.0, "p1": 0.0, "p0_1": 0.0, "min": None, "n": 0}
    loop = closed_loop(
        {"final": dict.fromkeys(("primitives", "decisions", "triggers", "joined", "dead"), 0)},
        {"final": {**board, "boards": [board], "latency_us": 10.0, "slack_us": none, "late_by_us": none}},
        {"farm": {"complete": 0, "incomplete": 0, "twice": 0, "untriggered": 0, "kept_by_rings": []}},
        0.1,
    )
    assert loop["triggers_in_time_share"] == 0.0
    assert "slack: no trigger" in loop_line(loop) and loop_line(loop).endswith("no trigger for the boards")
    view = View("title", 10.0)
    view.loop = loop
    console = Console(record=True, width=120)
    console.print(view)
    assert "final trigger" in console.export_text()


def test_account_of_a_loop_with_a_card() -> None:
    assert boards_latency_us(200, 0.0005) > 200 + 500
    counts = dict.fromkeys((*CARD_OUTCOMES, *of_card_trigger(faults=True)), 0)
    slack = {"p50": 100.0, "p1": 90.0, "p0_1": 80.0, "min": 70.0, "n": 8}
    card = {
        **counts, "decisions": 10, "sent": 8, "late": 2, "differs": 1, "latency_us": 200.0,
        "slack_us": slack, "release_cycles": {"min": 10, "max": 11},
    }  # fmt: skip
    board = {**dict.fromkeys(("triggers", *OUTCOMES), 0), "triggers": 8, "answered": 8}
    loop = closed_loop(
        {"final": {"primitives": 20, "decisions": 10, "triggers": 8, "joined": 0, "dead": 0, "card": card}},
        {"final": {**board, "boards": [board], "latency_us": 900.0, "slack_us": {}, "late_by_us": {"n": 0}}},
        {"farm": {"complete": 8, "incomplete": 0, "twice": 0, "untriggered": 0, "kept_by_rings": []}},
        0.001,
    )
    assert loop["triggers_in_time_share"] == pytest.approx(0.8)
    assert (loop["latency_us"], loop["boards_latency_us"], loop["slack_us"]) == (200.0, 900.0, slack)
    assert "late 2" in loop_line(loop)
    odd = {**loop, "latency_us": 96.93450000000001, "latency_wall_us": 74565.0}
    assert loop_line(odd).startswith("L 96.93 µs (74.56 ms here) · ")
    assert loop["answered_share"] == 1.0  # the card's late decisions are no triggers for the board
    said = decisions_line(loop["card"])
    assert said == "10 decisions = 8 sent + 2 late; released at t + L + 10 to 11 cycles; differs 1"
    assert losses({"final": {"card": card}})[-1] == ("final trigger: differs", 1)
    result = {**loop, "triggers": 8, "card": {**card, "missed": 3, "primitives": 20}, "datagrams": 1}
    values = metrics_of({**result, "send_errors": 0})
    assert values[DECISIONS] == {
        "triggers": 8, "joined": 0, "dead": 0, "late": 2, "early": 0, "choked": 0, "untimed": 0, "flushed": 0,
    }  # fmt: skip
    assert values["nanet_final_releases_missed"] == {"": 3}
    assert values["nanet_final_releases_differing"] == {"": 1}
    assert len(values) == 1 + len(of_card_trigger(faults=True))


def test_the_report_has_a_verdict_on_the_triggers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_report, "account_closes", lambda result: True)
    result = {"frames_late": 0, "lost": {}, "bad_packets": {}, "deadline_us": 1e3, "latency_us": {}}
    run = run_report.Run(
        trigger=result, histograms={}, monitor={}, readout={}, l0tp={}, host={}, config="", command="",
        when="", rate=1e7, speed=1.0,
        final={"triggers_in_time_share": 1.0, "events_incomplete": 0, "events_twice": 0},
    )  # fmt: skip
    assert (True, "every trigger answered at t + L") in run_report.verdicts(run)
    run.final |= {"triggers_in_time_share": 0.9542, "events_incomplete": 3}
    assert (False, "95.42 % of the triggers answered") in run_report.verdicts(run)
    run.final |= {"triggers_in_time_share": 1.0, "events_incomplete": 0, "events_twice": 1}
    assert (False, "events answered twice") in run_report.verdicts(run)


def test_the_trigger_prints_the_account_of_its_decisions() -> None:
    console = Console(record=True, width=200)
    software = {"primitives": 200, "decisions": 20, "triggers": 16, "joined": 3, "dead": 1}
    print_final(console, software)
    card = {
        **dict.fromkeys((*CARD_OUTCOMES, *of_card_trigger(faults=True)), 0), "decisions": 10, "sent": 7,
        "choked": 2, "time_lost": 1, "slack_us": {"p50": 100.0, "p0_1": 80.0, "min": 70.0, "n": 9},
        "release_cycles": {"min": 10, "max": 11},
    }  # fmt: skip
    print_final(console, {"primitives": 20, "triggers": 7, "card": card})
    card |= {"decisions": 0, "sent": 0, "choked": 0, "time_lost": 0, "slack_us": {"min": None, "n": 0}}
    print_final(console, {"primitives": 0, "triggers": 0, "card": card})
    print_choke_beyond(console, [(10, 5), (40, 2)], 40)
    assert console.export_text().splitlines() == [
        "final trigger: 20 decisions = 16 sent + 3 joined + 1 dead; kept 8.00 % of 200 primitives",
        "final trigger: 10 decisions = 7 sent + 2 choked + 1 held; released at t + L + 10 to 11 cycles; "
        "time lost 1; kept 35.00 % of 20 primitives; slack: median 100.0 µs, 99.9 % above 80.0 µs, "
        "least 70.0 µs",
        "final trigger: 0 decisions = 0 sent; kept 0.00 % of 0 primitives; slack: no trigger",
        "final.choke: 40+2 was not reached: the run had 40 frames",
    ]
