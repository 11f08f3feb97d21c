# SPDX-License-Identifier: Apache-2.0
"""Shared files of killed MPI processes, removed at the end of a job.

The next job would remove them too (src/nanet/fabric/shm/region.cpp), once they are a minute old.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from pathlib import Path

# Names of bell.cpp and region.cpp: the process number of a pipe, the port of a region.
NAME = re.compile(r"nanet-fi-(?P<user>\d+)-(?:bell-(?P<process>\d+)\.\d+|\d+\.\d+\.\d+\.(?P<port>\d+))")
INDEX_BITS = 9
NAMED = 1 << 31  # a port that the program chose
PATIENCE_S, TURN_S = 1.0, 0.05


def remove_after(folder: str, began: float) -> None:
    """Removes the files of a failed job that began at this time (seconds since 1970).

    Killed ranks may outlive their launcher for a moment.
    """
    end = time.monotonic() + PATIENCE_S
    while True:
        remove(folder)
        left = Path(folder).glob(f"nanet-fi-{os.getuid()}-*")
        if time.monotonic() > end or not any(_changed(path) >= began for path in left):
            return
        time.sleep(TURN_S)


def remove(folder: str) -> list[str]:
    """Removes the pipes and regions of dead processes of this user; returns their names."""
    removed = []
    for path in sorted(Path(folder).glob(f"nanet-fi-{os.getuid()}-*")):
        found = NAME.fullmatch(path.name)
        if found is None or (found["port"] and int(found["port"]) & NAMED):
            continue
        process = int(found["process"]) if found["process"] else int(found["port"]) >> INDEX_BITS
        with contextlib.suppress(OSError):
            if not _alive(process) and not _in_use(path):
                path.unlink()
                removed.append(path.name)
    return removed


def _changed(path: Path) -> float:
    """Time of the last change; 0 for a file that has gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _alive(process: int) -> bool:
    """Whether a process of this number runs; its files may be under construction."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"  # a zombie: the launcher ended before it


def _in_use(path: Path) -> bool:
    """Whether a pipe has a reader, or a region a lock: of a forked child, or in another PID namespace."""
    pipe = stat.S_ISFIFO(path.stat().st_mode)
    try:
        file = os.open(path, (os.O_WRONLY if pipe else os.O_RDWR) | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return not (pipe and error.errno == errno.ENXIO)
    try:
        if not pipe:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return pipe
    except OSError:
        return True
    finally:
        os.close(file)
