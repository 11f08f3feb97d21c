# SPDX-License-Identifier: Apache-2.0
"""`nanet torus demo` with an MPI program (heat.c): one rank per node, on cards that the model connects."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nanet import fabric
from nanet.errors import UsageError
from nanet.fabric import leftovers
from nanet.torus import serve
from nanet.torus.demo import Demo

TICK_S = 0.03
END_S = 10  # limit for ranks to end
MOST_RANKS = 128  # processes on this host
SOURCE = Path(__file__).with_name("heat.c")
RIGHT = 1e-9  # largest error of the result
LINES_KEPT = 20


def missing(ranks: int) -> str:
    """Why this host cannot run the MPI program; empty if it can."""
    if ranks > MOST_RANKS:
        return f"{ranks} ranks; at most {MOST_RANKS}: choose a smaller torus.size"
    try:
        fabric.provider_folder()
        launcher = fabric.find_mpi().launcher
    except UsageError as error:
        return str(error)
    if fabric.compiler_of(launcher) is None:
        return f"{launcher} comes without mpicc: install it (Debian: libopenmpi-dev)"
    return ""


class MpiDemo(Demo):
    """An MPI program on a torus; the busiest link X+ or Y+ has errors in its second third."""

    what = "heat in a box, MPI: faces to six neighbours, sum over all ranks"
    expected = None
    paced = True

    def __init__(
        self,
        size: tuple[int, int, int],
        timing: Mapping[str, Any],
        *,
        iterations: int,
        word_rate: float,
        balanced: bool = False,
        seed: int = 1,
    ) -> None:
        """Compiles and starts the program. ValueError of the model; RuntimeError if it does not compile."""
        from nanet import _core

        self.begin(size, iterations, word_rate)
        if self.nodes == 1:
            raise ValueError("size: a program needs neighbours; choose at least two nodes")
        self.path = serve.control_file()
        self.mpi = fabric.find_mpi()
        self.error = float("inf")
        self.lines: list[str] = []  # the program's last ones
        self.cards = _core.torus.Cards(self.path, size, dict(timing), balanced, seed)
        self.folder = tempfile.TemporaryDirectory()
        try:
            self.process = self._start()
        except BaseException:
            self.folder.cleanup()
            raise
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _start(self) -> subprocess.Popen[str]:
        program = Path(self.folder.name) / "heat"
        compiler = fabric.compiler_of(self.mpi.launcher)
        assert compiler is not None
        done = subprocess.run(
            [compiler, "-O2", "-o", program, SOURCE, "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{compiler} cannot compile {SOURCE.name}: {done.stderr.strip()}")
        # A launcher may forward output late.
        self.progress = Path(self.folder.name) / "iterations"
        self.progress.touch()
        self.began = time.time()
        settings = {**fabric.job_environment(self.mpi), "FI_NANET_TORUS": self.path}
        return subprocess.Popen(
            [self.mpi.launcher, "-n", str(self.nodes), program, str(self.iterations), self.progress],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=settings, start_new_session=True,
        )  # fmt: skip

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            match line.split():
                case ["error", number]:
                    self.error = float(number)
                case _:
                    self.lines = [*self.lines[1 - LINES_KEPT :], line]

    def advance(self) -> dict[str, Any]:
        """Plays the cards for a tick. RuntimeError if the program failed."""
        self.cards.run(TICK_S)
        status = self.process.poll()
        if status is not None:
            self.reader.join()
            if status:
                raise RuntimeError(f"the MPI program ended with status {status}\n{''.join(self.lines)}")
        iterations = self.progress.stat().st_size
        return {**self.cards.progress(), "iterations": iterations, "done": status is not None}

    def starting(self, count: Mapping[str, Any]) -> str:
        """The start of many ranks takes a while on few cores."""
        return "" if count["iterations"] else f"{self.nodes} ranks are starting"

    def choose_link(self, words: np.ndarray) -> None:
        """The busiest link X+ or Y+: ranks take any nodes, so a given link may carry nothing."""
        if (loads := words.reshape(self.nodes, 6)[:, :2]).any():
            self.bad = divmod(int(loads.argmax()), 2)

    def links(self) -> Any:
        """The source of loads per link and of errors."""
        return self.cards

    def right(self, last: Mapping[str, Any]) -> bool:
        """Whether the result of the program is that of the exact solution."""
        return last["iterations"] == self.iterations and self.error < RIGHT

    def result(self, last: Mapping[str, Any]) -> dict[str, Any]:
        """Figures of the whole run, and `mpi`."""
        figures = super().result(last)
        # The network's clock stops while no packet is under way: its cycles are not the program's time.
        for key in ("microseconds", "cycles_per_iteration", "accepted"):
            del figures[key]
        mpi = {"launcher": self.mpi.launcher, "kind": self.mpi.kind, "ranks": self.nodes, "error": self.error}
        return {**figures, "mpi": mpi}

    def close(self) -> None:
        """Ends the program and removes its files."""
        if self.process.poll() is None:
            self.process.terminate()
            for _ in range(int(END_S / TICK_S)):
                self.cards.run(TICK_S)
                if self.process.poll() is not None:
                    break
            else:
                self.process.kill()
        self.process.wait()
        self.reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.folder.cleanup()
        del self.cards
        for left in Path(self.path).parent.glob(Path(self.path).name + ".*"):
            with contextlib.suppress(OSError):
                left.unlink()
        if self.process.returncode:
            leftovers.remove_after(serve.folder(), self.began)
