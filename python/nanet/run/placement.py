# SPDX-License-Identifier: Apache-2.0
"""Placement of the chain's threads on one host: cores of the card, cores of the boards."""

from __future__ import annotations

import attrs

from nanet.config.file import Config
from nanet.config.sections import Card, Demo, Trigger
from nanet.errors import UsageError
from nanet.run import host

BOARDS = 4
# Cores for the chain on one host with separate threads of the card: three, or six; four are left to the rest.
OTHERS = 4
CHAIN_CORES, FULL_CORES = 3 + OTHERS, 14
MANY_CPUS = 12  # enough for one thread per board beside the other threads of the chain
# Real-time values (docs/formats.md, Clocks) on any host, since the threads have separate cores. A thread of
# the boards suspended by the host is no silent board: the trigger waits as long as the deadline permits.
TIMEOUT_US, PATIENT_US, DEADLINE_US = 200.0, 800.0, 1000.0
BUFFERS = 1024  # six times the deadline; 2048 packets of a board do not fit a second-level cache of 2 MiB
# Largest number of frames sent together after a suspension of the thread: boards do not send their backlog at
# once.
CATCH_UP = 2
TRAINS_US = 100.0  # gathering time of one thread at 10 MHz: trains of 15 frames per board


@attrs.frozen
class Placement:
    """Cores of the threads; empty lists: shared with everything else."""

    card: list[int]
    boards: list[int]  # one CPU per sending thread
    board_threads: int

    @classmethod
    def of_host(cls, card_threads: int = 0, board_threads: int = 0) -> Placement:
        """The last cores for the card, those before for the boards; 0 threads: what the host permits."""
        cores = host.cores()
        # Three sustain 10 MHz but cannot catch up; six give one reading thread per link.
        threads = card_threads or (6 if len(cores) >= FULL_CORES else 3 if len(cores) >= CHAIN_CORES else 0)
        card = cores[-threads:] if 0 < threads <= len(cores) - OTHERS else []
        sending = board_threads or (BOARDS if len(host.cpus()) >= MANY_CPUS else 1)
        taken = set().union(*(host.siblings(cpu) for cpu in card))
        left = [cpu for cpu in cores if cpu not in taken]
        boards = left[-sending:] if 1 < sending < len(left) else []  # one core stays for everything else
        return cls(card, boards, sending)

    @property
    def kept_free(self) -> list[int]:
        """CPUs of the card, and the other threads of their cores."""
        return sorted(set().union(*(host.siblings(cpu) for cpu in self.card)))

    @property
    def links(self) -> int:
        """Ports of the trigger: one, or one per reading thread, at most one per board."""
        return min(max(len(self.card) - 2, 1), BOARDS)

    @property
    def timeout_us(self) -> float:
        """Timeout of a frame."""
        return TIMEOUT_US if self.board_threads == 1 else PATIENT_US

    def board_options(self, batch_us: float) -> list[str]:
        """Options of `nanet readout`. batch_us: gathering time of frames; 0: each leaves when it is due."""
        options = ["--batch-us", f"{batch_us:g}"]
        if batch_us == 0:
            options += ["--batch-frames", str(CATCH_UP)]
        if self.board_threads > 1:
            options += ["--threads", str(self.board_threads)]
        if self.boards:
            options += ["--pin", ",".join(map(str, self.boards))]
        return options

    def when_due(self) -> list[str]:
        """board_options of boards that need not gather if they have a thread each."""
        return self.board_options(TRAINS_US if self.board_threads == 1 else 0.0)


def too_few_cores(card_threads: int) -> str:
    """Why a chain on this host has one card thread instead of `card_threads`; empty: it has them."""
    cores, needed = len(host.cores()), card_threads + OTHERS
    if card_threads < 2 or cores >= needed:
        return ""
    return f"the card has one thread: {card_threads} threads require {needed} cores, this host has {cores}"


def chain_reason() -> host.Reason:
    """Whether the whole chain fits on this host with separate cores, as benchmarks and demo run it."""
    cores = len(host.cores())
    return host.Reason(
        "cores for the whole chain",
        cores >= CHAIN_CORES,
        f"{cores} usable",
        f"nanet bench and nanet demo run trigger, boards and L0TP on one host: {CHAIN_CORES} cores for three "
        f"threads of the card, {FULL_CORES} for six; a trigger alone needs {host.MIN_CPUS}",
    )


def placement_of(config: Config) -> Placement:
    """Separate cores for the threads of card and boards, set in `config` where it leaves them open."""
    demo, card = config[Demo], config[Card]
    for wrong, text in (
        (demo.nodes > 1, f"demo.nodes = {demo.nodes}"),
        (card.card != "socket", f"card.type = {card.card!r}"),
        (card.boards == "merged", "card.boards = 'merged'"),
    ):
        if wrong:
            raise UsageError(f"demo.cores = 'own' with {text}: leave one of them out")
    placement = Placement.of_host(card.card_threads if card.card_threads > 1 else 0)
    if not placement.card:
        raise UsageError(
            f"demo.cores = 'own': this host has {len(host.cores())} usable cores, {CHAIN_CORES} are needed; "
            "leave it out"
        )
    config.set(
        Card,
        card_threads=len(placement.card),
        pin=",".join(map(str, placement.card)),
        busy="yes",
        timeout_us=card.timeout_us or placement.timeout_us,
        buffers=card.buffers or BUFFERS,
    )
    config.set(Trigger, deadline_us=config[Trigger].deadline_us or DEADLINE_US)
    return placement
