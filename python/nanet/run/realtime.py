# SPDX-License-Identifier: Apache-2.0
"""Real-time settings of the running process: scheduler, locked memory, CPU latency, timer slack.

Each setting is applied, or refused with a reason and a remedy; a refusal never ends the program. Threads
inherit scheduler and timer slack from the thread that starts them, so the settings precede the start of the
core's threads, and the main thread returns to the normal scheduler afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from nanet.config.sections import RealTime
from nanet.errors import UsageError

DMA_LATENCY = Path("/dev/cpu_dma_latency")

_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4  # bits/mman-linux.h
_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30  # linux/prctl.h
_CAP_IPC_LOCK = 14  # linux/capability.h

_libc = ctypes.CDLL(None, use_errno=True)


@attrs.frozen
class Outcome:
    """One setting: its state (done, refused or off), the reason for a refusal, and the remedy."""

    name: str
    state: str
    found: str
    remedy: str = ""

    def sentence(self) -> str:
        """A refusal as one line of text."""
        return self.line()

    def line(self) -> str:
        """The outcome as one line of text."""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"realtime: {self.name} {self.state}: {self.found}{remedy}"


def _off(name: str) -> Outcome:
    return Outcome(name, "off", "not requested")


def _reason(error: OSError) -> str:
    return f"{os.strerror(error.errno or 0)} ({errno.errorcode.get(error.errno or 0, 'error')})"


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _wanted(choice: str, fit: bool) -> bool:
    return choice == "yes" or (choice == "auto" and fit)


def lock_memory() -> Outcome:
    """Locks present and future pages in memory, so that no access waits for the pager."""
    name = "locked memory"
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    remedy = "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited"
    from nanet.run.host import has_capability  # host imports the sections

    if limit != resource.RLIM_INFINITY and not has_capability(_CAP_IPC_LOCK):
        # With a finite limit, later allocations would fail instead of this call.
        return Outcome(name, "refused", f"the limit of locked memory is {limit} B", remedy)
    try:
        _checked(_libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT))
    except OSError as error:
        return Outcome(name, "refused", _reason(error), remedy)
    return Outcome(name, "done", "present and future pages")


def set_timer_slack(nanoseconds: int) -> Outcome:
    """Sets the timer slack of this thread and of threads started later."""
    name = "timer slack"
    try:
        _checked(_libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(nanoseconds), 0, 0, 0))
    except OSError as error:
        return Outcome(name, "refused", _reason(error), "leave realtime.timer_slack_ns out")
    return Outcome(name, "done", f"{_libc.prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)} ns")


def set_fifo(priority: int) -> Outcome:
    """Sets SCHED_FIFO for this thread and for threads started later."""
    name = "scheduler"
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        remedy = (
            f"LimitRTPRIO={priority} in the unit, ulimit -r {priority}, or CAP_SYS_NICE; "
            "in a container also --cap-add SYS_NICE"
        )
        return Outcome(name, "refused", _reason(error), remedy)
    return Outcome(name, "done", f"SCHED_FIFO, priority {priority}")


@contextlib.contextmanager
def _latency_request(microseconds: int) -> Iterator[Outcome]:
    """Holds a limit of the CPUs' wake-up latency, which excludes deeper C-states."""
    name = "CPU latency"
    try:
        descriptor = os.open(DMA_LATENCY, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        remedy = (
            f"give the user write access to {DMA_LATENCY} (udev rule), or boot with processor.max_cstate=1"
        )
        yield Outcome(name, "refused", _reason(error), remedy)
        return
    try:
        os.write(descriptor, struct.pack("=i", microseconds))
        yield Outcome(name, "done", f"at most {microseconds} µs, held while the program runs")
    finally:
        os.close(descriptor)


def check_pinning(settings: RealTime, core: Mapping[str, Any]) -> None:
    """UsageError if polling threads under SCHED_FIFO would share a CPU. core: options of the core."""
    from nanet.run.host import cpus

    polling = core["busy"] or core["card_threads"] > 1
    threads = core["card_threads"] + (core["threads"] if core["threads"] > 1 else 0)
    apart = len(set(core["pin"]) or cpus())
    if settings.scheduler == "fifo" and polling and apart < threads:
        given = ",".join(map(str, core["pin"]))
        raise UsageError(
            f"card.pin = {given!r} with realtime.scheduler = 'fifo': {threads} polling threads need a CPU "
            f"each: give {threads} isolated CPUs, or use --scheduler normal"
        )


def pinning(cpus: list[int]) -> Outcome:
    """State of `card.pin`: CPUs outside the isolated ones share their time with other programs."""
    from nanet.run.host import cpu_numbers, isolated

    if not cpus:
        return Outcome("pinned CPUs", "off", "card.pin is empty", "--pin with isolated CPUs")
    shared = sorted(set(cpus) - cpu_numbers(isolated()))
    found = ",".join(map(str, cpus))
    if shared:
        found += f"; not isolated: {','.join(map(str, shared))}"
        return Outcome("pinned CPUs", "done", found, "isolcpus= on the kernel's command line")
    return Outcome("pinned CPUs", "done", f"{found}, isolated")


@contextlib.contextmanager
def applied(settings: RealTime, cpus: list[int], *, fit: bool) -> Iterator[RealTimeState]:
    """Context of a run: applies the settings, and withdraws the scheduler of the main thread on `started`.

    cpus: of card.pin. fit: whether the host is fit for real time, the meaning of `auto`.
    """
    with contextlib.ExitStack() as stack:
        outcomes = []
        if _wanted(settings.lock_memory, fit):
            outcomes.append(lock_memory())
            stack.callback(_libc.munlockall)
        else:
            outcomes.append(_off("locked memory"))
        if _wanted(settings.hold_cpu_latency, fit):
            outcomes.append(stack.enter_context(_latency_request(0)))
        else:
            outcomes.append(_off("CPU latency"))
        slack = settings.timer_slack_ns
        outcomes.append(set_timer_slack(slack) if slack else _off("timer slack"))
        outcomes.append(set_fifo(settings.priority) if settings.scheduler == "fifo" else _off("scheduler"))
        outcomes.append(pinning(cpus))
        state = RealTimeState(outcomes)
        stack.callback(state.started)
        yield state


class RealTimeState:
    """Outcomes of the real-time settings of this process."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self.outcomes = outcomes

    def started(self) -> None:
        """Returns the calling thread to the normal scheduler; the core's threads keep theirs."""
        if os.sched_getscheduler(0) == os.SCHED_FIFO:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def as_json(self) -> list[dict[str, Any]]:
        """The outcomes for a result (key `realtime_settings`)."""
        return [attrs.asdict(outcome) for outcome in self.outcomes]

    def refused(self) -> list[Outcome]:
        """Settings that were requested and could not be applied."""
        return [outcome for outcome in self.outcomes if outcome.state == "refused"]
