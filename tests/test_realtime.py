# SPDX-License-Identifier: Apache-2.0
"""Real-time settings of the process, and kernel settings of the host."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import attrs
import pytest
from nanet.cli import doctor
from nanet.cli.app import main
from nanet.config.sections import RealTime
from nanet.errors import UsageError
from nanet.run import host, realtime, tuning


def state_of(outcomes: list[realtime.Outcome]) -> dict[str, str]:
    return {outcome.name: outcome.state for outcome in outcomes}


def test_settings_off_change_nothing() -> None:
    off = RealTime(lock_memory="no", hold_cpu_latency="no", timer_slack_ns=0)
    with realtime.applied(off, [], fit=True) as settled:
        assert os.sched_getscheduler(0) == os.SCHED_OTHER
        assert set(state_of(settled.outcomes).values()) == {"off"}
        assert not settled.refused()


def test_fifo_reaches_new_threads_and_leaves_the_main_thread() -> None:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        pytest.skip("this user may not set SCHED_FIFO")
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with realtime.applied(RealTime(scheduler="fifo", priority=7), [], fit=False) as settled:
        seen: list[tuple[int, int]] = []
        thread = threading.Thread(
            target=lambda: seen.append((os.sched_getscheduler(0), os.sched_getparam(0).sched_priority))
        )
        thread.start()
        settled.started()
        thread.join()
        assert seen == [(os.SCHED_FIFO, 7)]
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_refusals_name_reason_and_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(realtime, "DMA_LATENCY", tmp_path / "missing")
    monkeypatch.setattr(host, "has_capability", lambda bit: False)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (65536, 65536))

    def refuse(*arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    wanted = RealTime(scheduler="fifo", lock_memory="yes", hold_cpu_latency="yes")
    with realtime.applied(wanted, [], fit=False) as settled:
        refused = {outcome.name: outcome for outcome in settled.refused()}
    assert set(refused) == {"scheduler", "locked memory", "CPU latency"}
    assert "EPERM" in refused["scheduler"].found and "LimitRTPRIO=50" in refused["scheduler"].remedy
    assert "65536 B" in refused["locked memory"].found and "LimitMEMLOCK" in refused["locked memory"].remedy
    assert "ENOENT" in refused["CPU latency"].found
    assert refused["scheduler"].sentence().startswith("realtime: scheduler refused: ")


def test_latency_request_is_held_and_released(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = tmp_path / "cpu_dma_latency"
    device.write_bytes(b"")
    monkeypatch.setattr(realtime, "DMA_LATENCY", device)

    def holders() -> list[str]:
        links = Path("/proc/self/fd").iterdir()
        return [str(link) for link in links if os.path.realpath(link) == str(device)]

    with realtime.applied(RealTime(hold_cpu_latency="yes"), [], fit=False) as settled:
        assert state_of(settled.outcomes)["CPU latency"] == "done"
        assert device.read_bytes() == bytes(4) and len(holders()) == 1
    assert not holders()


def test_timer_slack_is_inherited() -> None:
    code = (
        "from nanet.config.sections import RealTime\n"
        "from nanet.run import realtime\n"
        "import pathlib, threading\n"
        "with realtime.applied(RealTime(timer_slack_ns=5), [], fit=False):\n"
        "    t = threading.Thread(target=lambda: print(realtime._libc.prctl(30, 0, 0, 0, 0)))\n"
        "    t.start(); t.join()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "5"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A tree of /proc and /sys with two interrupts, one of them on CPU 2."""
    files = {
        "proc/sys/net/core/rmem_max": "212992",
        "proc/sys/net/core/wmem_max": "134217728",
        "proc/sys/kernel/sched_rt_runtime_us": "950000",
        "proc/sys/kernel/osrelease": "6.12.0",
        "proc/cmdline": "quiet isolcpus=2",
        "proc/irq/10/effective_affinity_list": "2",
        "proc/irq/10/smp_affinity_list": "0-3",
        "proc/irq/11/effective_affinity_list": "1",
        "proc/irq/11/smp_affinity_list": "0-3",
        "sys/devices/system/cpu/online": "0-3",
        "sys/devices/system/cpu/isolated": "2",
        "sys/devices/system/cpu/nohz_full": "(null)",
        "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "powersave",
        "sys/kernel/debug/sched/fair_server/cpu2/runtime": "50000000",
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
        "sys/kernel/realtime": "1",
    }
    for name, text in files.items():
        path = tmp_path / "machine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return tmp_path / "machine"


def test_settings_that_differ_are_named_with_their_commands(machine: Path) -> None:
    unfit = {s.path: s for s in tuning.settings([2], machine) if not s.fit}
    assert set(unfit) == {
        "/proc/sys/net/core/rmem_max",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
        "/sys/kernel/debug/sched/fair_server/cpu2/runtime",
        "/proc/irq/10/smp_affinity_list",
    }
    assert unfit["/proc/irq/10/smp_affinity_list"].command == "echo 0,1,3 > /proc/irq/10/smp_affinity_list"
    found = {finding.name: finding for finding in tuning.findings([2], machine)}
    assert found["isolated CPUs"].fit and found["PREEMPT_RT kernel"].fit
    assert found["CPUs without timer tick"].remedy == "kernel parameter nohz_full=2"


@pytest.mark.parametrize(
    ("release", "needed"), [("6.1.0-13-rt-amd64", True), ("6.11.9", True), ("7.0", False)]
)
def test_throttling_is_switched_off_before_the_fair_server_only(
    machine: Path, release: str, needed: bool
) -> None:
    (machine / "proc/sys/kernel/osrelease").write_text(release)
    unfit = [s.command for s in tuning.settings([2], machine) if not s.fit]
    assert ("echo -1 > /proc/sys/kernel/sched_rt_runtime_us" in unfit) == needed


def test_an_invisible_fair_server_needs_isolated_cpus(machine: Path) -> None:
    (machine / "sys/kernel/debug/sched/fair_server/cpu2/runtime").unlink()
    server = {finding.name: finding for finding in tuning.findings([2], machine)}["fair server"]
    assert server.fit  # CPU 2 is isolated
    (machine / "sys/devices/system/cpu/isolated").write_text("3")
    server = {finding.name: finding for finding in tuning.findings([2], machine)}["fair server"]
    assert not server.fit and "isolcpus=2" in server.remedy


def test_tune_writes_and_undo_restores(machine: Path, tmp_path: Path) -> None:
    state = tmp_path / "former.json"
    read = {s.path: s.found for s in tuning.settings([2], machine)}
    changes = tuning.apply(tuning.settings([2], machine), state, machine)
    assert all(change.done for change in changes) and len(changes) == 5
    assert (machine / "proc/sys/net/core/rmem_max").read_text() == str(64 << 20)
    assert (machine / "proc/irq/10/smp_affinity_list").read_text() == "0,1,3"
    assert set(json.loads(state.read_text())) == {change.setting.path for change in changes}
    (machine / "proc/sys/net/core/rmem_max").write_text("1")  # changed by somebody else, then tuned again
    tuning.apply(tuning.settings([2], machine), state, machine)
    assert all(change.done for change in tuning.undo(state, machine))
    assert (machine / "proc/sys/net/core/rmem_max").read_text() == read["/proc/sys/net/core/rmem_max"]
    assert not state.exists() and tuning.undo(state, machine) == []


def test_a_refused_write_is_reported_and_not_remembered(machine: Path, tmp_path: Path) -> None:
    target = machine / "proc/sys/net/core/rmem_max"
    setting = next(s for s in tuning.settings([], machine) if s.path.endswith("rmem_max"))
    target.unlink()
    target.mkdir()  # a write fails for every user
    (change,) = tuning.apply([setting], tmp_path / "former.json", machine)
    assert not change.done and change.reason
    assert not (tmp_path / "former.json").exists()


def test_the_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--pin", "0", "--fix"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert all(line.startswith("echo ") for line in printed)
    assert main(["tune", "--pin", "0", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == printed
    assert main(["tune", "--undo", "--state", str(tmp_path / "none")]) == 0
    assert "Nothing to undo" in capsys.readouterr().out
    assert main(["tune", "--pin", "a"]) == 2
    assert "--pin a: must be CPU numbers such as 2,3 or 2-5" in capsys.readouterr().err


def test_printed_commands_can_be_pasted(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command per line, whole in a narrow terminal, and the reason as a comment of the shell."""
    made = [
        {**attrs.asdict(setting), "fit": False, "command": setting.command}
        for setting in tuning.settings([2], machine)
    ]
    found = {**doctor.examine([]), "kernel_settings": made}
    monkeypatch.setattr(doctor, "examine", lambda pinned: found)
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["doctor", "--pin", "0"]) == 0
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("echo ", "nanet "))]
    interrupts = [one["name"].split()[-1] for one in made if one["name"].startswith("interrupt ")]
    plain = [one for one in made if not one["name"].startswith("interrupt ")]
    assert interrupts and plain
    *commands, last = printed
    for line, one in zip(commands, plain, strict=True):
        assert shlex.split(line, comments=True) == shlex.split(one["command"])
        assert line.endswith(f"# now {one['found']}; {one['why']}")
    assert shlex.split(last, comments=True) == ["nanet", "doctor", "--pin", "0", "--fix"]
    assert ", ".join(interrupts) in last
    assert main(["doctor", "--fix"]) == 0
    assert capsys.readouterr().out.splitlines() == [one["command"] for one in made]


def test_the_trigger_reports_its_settings(tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    arguments = ["trigger", "--duration", "0.2", "--listen", "127.0.0.1:58977", "--json", str(out)]
    arguments += ["--timer-slack-ns", "1000", "--lock-memory", "yes", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-m", "nanet", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    settings = {one["name"]: one for one in json.loads(out.read_text())["realtime_settings"]}
    assert settings["timer slack"] == {
        "name": "timer slack",
        "state": "done",
        "found": "1000 ns",
        "remedy": "",
    }
    assert settings["locked memory"]["state"] in ("done", "refused")
    assert settings["scheduler"]["state"] == "off"


def test_polling_fifo_threads_need_a_cpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cpus", lambda: [0, 1])
    core = {"busy": True, "card_threads": 1, "threads": 3, "pin": [0]}
    fifo = RealTime(scheduler="fifo")
    for pin in ([0], [0, 1, 1, 1], []):
        with pytest.raises(UsageError, match=r"card.pin = .* 4 polling threads .* --scheduler normal"):
            realtime.check_pinning(fifo, {**core, "pin": pin})
    realtime.check_pinning(fifo, {**core, "pin": [0, 1, 2, 3]})
    realtime.check_pinning(fifo, {**core, "threads": 1})
    realtime.check_pinning(fifo, {**core, "busy": False})
    realtime.check_pinning(RealTime(), core)


def test_the_example_of_isolation_has_cpus_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for cpus, example in (([0, 1], ""), (list(range(8)), "isolcpus=2,3,4,5 ")):
        monkeypatch.setattr(host, "cpus", lambda cpus=cpus: cpus)
        remedy = {reason.name: reason.remedy for reason in host.fit_for_real_time()[1]}["CPU steadiness"]
        assert ("isolcpus" in remedy) == bool(example) and example in remedy
        assert "cpupower" in remedy
