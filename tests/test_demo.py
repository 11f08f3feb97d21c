# SPDX-License-Identifier: Apache-2.0
"""`nanet demo` end to end, and parts of its view and report."""

import asyncio
import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import browser
import numpy as np
import pytest
from nanet.cli import replay
from nanet.config.file import Config
from nanet.config.sections import Card, Demo, Trigger
from nanet.errors import UsageError
from nanet.report import neighbours, output, plots, run_report, tables
from nanet.run import demo, live
from nanet.run.placement import placement_of
from rich.console import Console


def test_demo_runs_the_chain_and_leaves_a_report(nanet, tmp_path: Path) -> None:
    done = nanet(
        "demo", "--speed", "0.002", "--duration", "1.5", "--report", "out", "--json", "demo.json", timeout=120
    )  # fmt: skip
    result = json.loads((tmp_path / "demo.json").read_text())
    assert output.account_closes(result)
    assert result["speed"] == 0.002
    assert result["algorithm"] == "multiring"
    assert result["rings"] > 1.4 * result["events_built"]  # several rings per event are found
    assert result["packets_in"] > 0
    assert result["l0tp"]["frames"] == result["frames_out"]
    assert result["l0tp"]["primitives"] == result["primitives_out"]
    assert result["readout"]["events_sent"] == result["l0tp"]["primitives_expected"]
    assert "account closes" in done.stdout
    assert "report: out/index.html" in done.stdout
    page = (tmp_path / "out" / "index.html").read_text()
    assert_self_contained(page)
    assert "of these with a primitive" in page and "{&#x27;" not in page  # tables show no Python values
    assert "latency unknown" not in page and "buffer bytes" not in page  # no bare counters
    if browser.find() is not None:
        asyncio.run(assert_readable_on_a_phone(tmp_path / "out" / "index.html", tmp_path))


async def assert_readable_on_a_phone(page: Path, folder: Path) -> None:
    """At 390 px: nothing sticks out; figures of half the width fit, and no text of figures is tiny."""
    figures = (
        "[...document.querySelectorAll('figure svg')].map(e => [!!e.closest('.grid'), "
        "e.clientWidth / e.viewBox.baseVal.width, e.getBoundingClientRect().right])"
    )
    async with browser.browser(folder) as window:
        await window.open(page.as_uri(), width=390, height=844)
        await window.until("location.protocol == 'file:' && document.readyState == 'complete'")
        assert await window.value("document.documentElement.scrollWidth") == 390
        found = await window.value(figures)
        assert len(found) >= 9 and sum(half for half, *_ in found) >= 6
        for half, scale, right in found:
            assert scale * plots.plt.rcParams["font.size"] > 9
            assert right < 390 or not half
        broken = "[...document.querySelectorAll('.numbers td')].filter(e => e.clientHeight > 35).length"
        assert await window.value(broken) == 0


def assert_self_contained(page: str) -> None:
    """Asserts that the page loads nothing: no scripts, no addresses but XML name spaces and data."""
    assert page.startswith("<!doctype html>")
    assert "<script" not in page and "<link" not in page and "@import" not in page
    loads = re.findall(r'(?:src|href)="([^"#][^"]*)"', page)
    assert all(address.startswith("data:") for address in loads), loads
    for word in (
        "Where the time goes",
        "Hits and fitted rings",
        "The account",
        "Configuration",
        "packets in",
    ):
        assert word in page
    assert page.count("<svg") >= 9
    # Placeholder colours are all replaced, identifiers are unique.
    assert not re.search(r"#0[0-9a-f]0[0-9a-f]0[0-9a-f]", page)
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    for target in set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)):
        assert target in identifiers, target


def test_demo_ends_early_on_ctrl_c_and_still_reports(nanet_program: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [nanet_program, "demo", "--speed", "0.002", "--duration", "60", "--report", "",
         "--json", "demo.json"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    with process:
        for line in process.stdout:
            if re.match(r"\s*\d+\.\d s ", line):  # the run has started
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    result = json.loads((tmp_path / "demo.json").read_text())
    assert output.account_closes(result)
    assert result["l0tp"]["frames"] == result["frames_out"]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--speed", "-1"], ["demo.speed", "-1"]),
        (["--fault", "loss=1"], ["demo.fault", "loss", "drop"]),
        (["--report", "/proc/nowhere"], ["--report", "/proc/nowhere", "written"]),
        (["--device", "cuda"], ["--device cpu"]),
        (["--algorithm", "maths"], ["trigger.algorithm", "maths"]),
    ],
)
def test_wrong_options_are_found_before_anything_runs(nanet, arguments: list[str], said: list[str]) -> None:
    done = nanet("demo", *arguments, status=2, timeout=30)
    for part in said:
        assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_share_carried_counts_what_was_dropped_and_what_came_behind() -> None:
    def share(built: int, behind_s: float, boards_s: float = 0.5) -> float:
        seen = {"events_built": built, "latency_us": {"total": {"max": 1e6 * behind_s}}}
        return demo.carried_share(seen, {"events_sent": 1000, "elapsed_s": boards_s})

    assert share(1000, 0.0) == pytest.approx(1.0)
    assert share(250, 0.0) == pytest.approx(0.25)  # three of four events were dropped
    assert share(1000, 1.5) == pytest.approx(0.25)  # all were built, in four times the time
    assert share(1000, 0.0, boards_s=2.0) == pytest.approx(0.25)  # the boards took four times as long


@pytest.mark.serial
@pytest.mark.parametrize("algorithm", ["multiring", pytest.param("math", marks=pytest.mark.complete)])
def test_a_speed_is_found_that_the_host_carries(nanet, tmp_path: Path, algorithm: str) -> None:
    nanet(
        "demo", "--algorithm", algorithm, "--duration", "1", "--report", "", "--json", "demo.json",
        timeout=120,
    )  # fmt: skip
    result = json.loads((tmp_path / "demo.json").read_text())
    assert output.account_closes(result)
    assert demo.MIN_SPEED <= result["speed"] <= demo.MAX_SPEED
    assert "short trial" in result["speed_from"]
    assert result["packets_in"] > 0


@pytest.mark.complete
def test_faults_in_the_demo_are_named(nanet, tmp_path: Path) -> None:
    nanet(
        "demo", "--speed", "0.002", "--duration", "1", "--fault", "drop=0.05,corrupt=0.05", "--report", "",
        "--json", "demo.json",
    )  # fmt: skip
    result = json.loads((tmp_path / "demo.json").read_text())
    assert output.account_closes(result)
    assert result["lost"]["missing"] > 0
    assert sum(result["bad_packets"].values()) > 0
    assert result["frames_incomplete"] > 0


def test_neighbours_name_what_they_counted_and_losses_only_where_there_are_any() -> None:
    node = {"node": 0, "to": "a:1", "frames": 90, "frames_sent": 100, "frames_late": 0, "frames_missing": 10}
    sent = {
        "events_sent": 1000, "frames_sent": 100, "packets_sent": 400, "bytes_sent": 2_000_000, "bursts": 1,
        "events_per_s": 5e3, "behind_max_us": 0.0, "faults": {"drop": 7, "dup": 0}, "nodes": [node],
        "send_errors": {"refused": 2}, "messages": 400, "threads": 1,
    }  # fmt: skip
    rows = dict(neighbours.readout_rows(sent))
    assert rows["packets dropped on purpose"] == "7" and rows["send error: refused"] == "2"
    assert rows["payload"] == "2.0 MB" and not any("twice" in name or "node" in name for name in rows)

    received = {
        "frames": 90, "frames_late": 2, "frames_missing": 10, "primitives": 960, "rings": [50, 400, 300, 210],
        "primitives_expected": 1000, "primitives_paired": 950, "duplicates": 0, "out_of_order": 3,
        "unpaired": {"merged_with_neighbour": 0, "frame_late": 50}, "unexpected": {"other": 10},
        "bad_packets": {"bad_source": 4}, "socket_overflow": 0, "latency_unknown": 0, "stamps": "kernel",
        "nodes": [node, {**node, "node": 1, "frames_missing": 0}], "buffer_bytes": 212_992,
    }  # fmt: skip
    rows = dict(neighbours.l0tp_rows(received))
    assert rows["of these with a primitive"] == "950 (95.00%)"
    assert rows["without: the frame was late"] == "50"
    assert rows["primitives with 1 ring"] == "400" and rows["primitives with 3 or more rings"] == "210"
    assert rows["frames answered out of order"] == "3" and rows["bad packet: bad source"] == "4"
    assert rows["node 0: missing"] == "10" and "node 1: missing" not in rows
    shown = " ".join(rows)
    assert all(name not in shown for name in ("dropped by the kernel", "stamps", "buffer", "8 ns"))
    received |= {"primitives_expected": None, "primitives_paired": None}  # without the truth
    assert "of these with a primitive" not in dict(neighbours.l0tp_rows(received))


def test_shares_sum_the_fine_bins() -> None:
    upper, counts = np.array([1.5, 2.5, 15.0, 150.0]), np.array([1.0, 2.0, 3.0, 4.0])
    assert plots._share(upper, counts, np.array([1.0, 10.0, 100.0, 1000.0])).tolist() == [0.3, 0.3, 0.4]


def test_axis_holds_every_bin_and_the_deadline() -> None:
    low, high = plots._limits([(np.array([3.0, 70_000.0]), np.array([1, 1]))], 50_000.0)
    assert low <= 2.5 and high >= 70_000.0
    low, high = plots._limits([(np.array([3.0]), np.array([1]))], 50_000.0)
    assert high > 50_000.0


def test_events_for_the_report_show_each_ring_count_once_there() -> None:
    def event(rings: int, chi2: float) -> dict:
        ring = {"x": 0, "y": 0, "r": 180, "chi2_ndf": chi2, "hits": 8}
        return {"pm": list(range(12)), "rings": [ring] * rings}

    events = [event(0, 0)] + [event(1, c) for c in (9, 1, 5, 2)] + [event(2, 1), event(3, 1), event(4, 1)]
    chosen = run_report.pick_events(events)
    assert [len(e["rings"]) for e in chosen[:5]] == [1, 1, 2, 3, 4]
    assert [e["rings"][0]["chi2_ndf"] for e in chosen[:2]] == [1, 2]  # the ones with the best fit
    assert len(chosen) == 6
    assert len({id(e) for e in chosen}) == 6
    assert run_report.pick_events([]) == []


def test_bars_and_sparklines_keep_their_width() -> None:
    assert live.bar(0.0, 10) == " " * 10
    assert live.bar(1.0, 10) == "█" * 10
    assert live.bar(7.0, 10) == "█" * 10
    assert live.bar(0.55, 10) == "█████▌    "
    assert live.sparkline([0.0, 4.0, 8.0]) == " ▄█"
    assert live.sparkline([0.0, 0.0]) == ""


def test_every_view_describes_the_run_alike() -> None:
    snapshot = {
        "state": "burst", "burst": 7, "bursts": 3, "events_built": 10, "lost": {"late": 2}, "frames_late": 1,
        "choke": {"on": True, "raised": 2, "fill": 0.8, "fill_max": 0.9, "seconds": 0.5},
        "conditions": {"name": "abc", "masked": 3, "changes": 1, "refused": 0},
        "latency_us": {"total": {"p50": 300.0, "p99": 700.0, "p99_9": 800.0, "max": 900.0, "n": 5}},
    }  # fmt: skip
    said = (
        "state burst  burst 7  choke RAISED (buffers 80.0% full, raised 2 times)  conditions abc (3 masked)"
    )
    assert tables.run_state(snapshot) == said
    assert tables.run_state({}) == ""
    quiet = {**snapshot, "burst": None, "choke": {**snapshot["choke"], "on": False, "raised": 0}}
    assert tables.run_state(quiet).startswith("state burst  choke off (buffers 80.0% full)")
    for lost, where in ((1.0, "LOST, replaced by the CPU"), (0.0, "recovered")):
        on_gpu = {**quiet, "gpu_faults": 2.0, "gpu_lost": lost, "conditions": None}
        assert tables.run_state(on_gpu).endswith(f"full)  GPU {where} (lost 2 times)")
    view = live.View("title", 10.0)
    view.update(1.0, {"t": 1.0, "snapshot": snapshot}, {}, {})
    assert live.plain_line(view).endswith(said) and " late 1  lost 2 " in live.plain_line(view)
    line = live.TriggerLine()
    shown = []
    for what in (line, view):
        if what is line:
            assert not "".join(render(line).split())
            line.update(1.0, snapshot)
        shown.append(render(what))
    assert all(said in text for text in shown)
    assert "p50 300.0 µs" in shown[0]
    snapshot["latency_us"]["total"]["n"] = 0
    assert "p50 -  p99.9 -  max -" in live.plain_line(view)


def test_losses_are_whole_at_80_columns_largest_first() -> None:
    bad = {f"refusal_of_a_long_name_number_{n}": n for n in range(1, 8)}
    snapshot = {
        "bad_packets": bad, "lost": {"missing": 100}, "below_min_hits": 1000, "state": "burst", "burst": 3,
        "choke": {"on": True, "raised": 12, "fill": 0.8},
        "conditions": {"name": "0123456789ab", "masked": 3},
    }  # fmt: skip
    view = live.View("a title that is longer than the eighty columns of a usual terminal window", 10.0)
    view.update(1.0, {"t": 1.0, "snapshot": snapshot}, {}, {})
    text = render(view, 80)
    assert "…" not in text
    shown = re.findall(r"│ *(\d+) (?:missing|choke raised|bad packet)", text.partition("losses")[2])
    assert shown == ["100", "12", "7", "6", "5"]
    assert "and 4 more" in text
    assert "(3 masked)" in " ".join(text.split()) and "window" in text


def test_progress_lines_leave_nothing_behind() -> None:
    out = Console(width=80, file=io.StringIO(), force_terminal=True, color_system=None)
    with output.working(out, "a long line of work in progress …"):
        pass
    out.print("short")
    assert screen(out.file.getvalue()) == ["short"]
    plain = Console(width=80, file=io.StringIO(), force_terminal=False)
    with output.working(plain, "work …"):
        pass
    assert plain.file.getvalue() == "work …\n"


def screen(written: str) -> list[str]:
    """Lines of a terminal after this output: carriage return, newline, erased lines, cursor up."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", written):
        if part == "\r":
            column = 0
        elif part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif part.startswith("\x1b"):
            if part.endswith("K"):
                assert part == "\x1b[2K"
                lines[row] = ""
            elif part.endswith("A"):
                row -= int(part[2:-1] or 1)
        else:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + part + line[column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines if line.strip()]


def test_progress_of_a_replay_has_share_and_rate() -> None:
    snapshot = {"progress": 0.254, "events_built": 12_345}
    assert replay.progress_text("a.pcap", snapshot, None) == "replaying a.pcap: 25%, 12 345 events"
    assert replay.progress_text("a.pcap", snapshot, 2.5e6).endswith("12 345 events, 2.50 M/s")


def render(what: object, width: int = 200) -> str:
    """Output on a terminal, wide by default."""
    out = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    out.print(what)
    return out.file.getvalue()


@pytest.mark.serial
def test_the_trigger_shows_how_it_does_on_a_terminal(nanet_program: str, free_udp_port, tmp_path) -> None:
    main, side = pty.openpty()
    options = ["--listen", f"127.0.0.1:{free_udp_port()}", "--duration", "2", "--algorithm", "math"]
    process = subprocess.Popen(
        [nanet_program, "trigger", *options, "--device", "cpu"], cwd=tmp_path,
        stdin=side, stdout=side, stderr=side,
        env={**os.environ, "COLUMNS": "120", "TERM": "xterm"},
    )  # fmt: skip
    os.close(side)
    said = b""
    with contextlib.suppress(OSError):  # the terminal's end of the pipe
        while part := os.read(main, 4096):
            said += part
    os.close(main)
    assert process.wait(30) == 0, said
    assert b"state waiting  choke off" in said and b"the account closes" in said


def test_rates_are_differences_over_time() -> None:
    rates = live.Rates()
    for t, value in ((1.0, 100.0), (1.0, 100.0), (1.5, 400.0), (2.5, 500.0)):
        rates.update("events", t, value)
    assert list(rates.history) == [600.0, 100.0]


def test_separate_cores_for_card_and_boards(machine):
    machine(16)
    config = Config()
    config.set(Card, buffers=64)
    placed = placement_of(config)
    assert (placed.links, placed.card, placed.boards) == (4, [10, 11, 12, 13, 14, 15], [6, 7, 8, 9])
    card = config[Card]
    assert (card.card_threads, card.pin, card.busy) == (6, "10,11,12,13,14,15", "yes")
    assert (card.timeout_us, card.buffers, config[Trigger].deadline_us) == (800, 64, 1000)
    for section, values, text in (
        (Demo, {"nodes": 2}, "demo.nodes = 2"),
        (Card, {"card": "gateware"}, "card.type = 'gateware'"),
        (Card, {"boards": "merged"}, "card.boards = 'merged'"),
    ):
        config = Config()
        config.set(section, **values)
        with pytest.raises(UsageError, match=text):
            placement_of(config)
    machine(4)
    with pytest.raises(UsageError, match="7 are needed"):
        placement_of(Config())
