# SPDX-License-Identifier: Apache-2.0
"""Pools of workers: this process, a local cluster of processes, or the workers of a Dask scheduler."""

from __future__ import annotations

import contextlib
import logging
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from nanet import __version__
from nanet.errors import UsageError

A = TypeVar("A")
B = TypeVar("B")
WAIT_S = 20.0  # for the first worker of a scheduler
# Of a local cluster: no item waits at a worker, and one that two workers died with is suspected. A dead
# process is replaced however long that takes; Dask's default removes its worker for good after 15 s.
LOCAL = {
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": 1,
    "distributed.deploy.lost-worker-timeout": "3650 days",
}


class Pool(Protocol):
    """Applies a function to items; the function and the items can be pickled."""

    workers: int

    def run(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[tuple[int, B | Exception]]:
        """Yields (index, result), in any order. An exception: the worker died with this item repeatedly."""
        ...


class Here:
    """Pool of this process: one item after the other."""

    workers = 1

    def run(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[tuple[int, B | Exception]]:
        """Yields in order."""
        for index, item in enumerate(items):
            yield index, function(item)


class Dask:
    """Pool of a Dask client. A worker that dies is replaced, and its items run again elsewhere."""

    def __init__(self, client: Any, workers: int) -> None:
        self.client = client
        self.workers = workers

    def run(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[tuple[int, B | Exception]]:
        """Yields as items end; items that a worker died with run again, one at a time."""
        suspects = []
        for index, result in self._together(function, items, range(len(items))):
            if isinstance(result, Exception):
                suspects.append(index)  # or an item that waited at the same worker
            else:
                yield index, result
        for index in suspects:
            yield from self._together(function, items, [index])

    def _together(
        self, function: Callable[[A], B], items: Sequence[A], chosen: Iterable[int]
    ) -> Iterator[tuple[int, B | Exception]]:
        from distributed import as_completed

        futures = {self.client.submit(function, items[i], pure=False): i for i in chosen}
        try:
            for future in as_completed(list(futures)):
                index = futures.pop(future)
                if future.status == "finished":
                    yield index, future.result()
                else:
                    yield index, future.exception() or RuntimeError(f"the item was {future.status}")
        finally:
            self.client.cancel(list(futures))


@contextlib.contextmanager
def open_pool(workers: int | None, scheduler: str | None) -> Iterator[Pool]:
    """Pool of the options --workers and --scheduler; one worker without a scheduler is this process.

    UsageError: Dask is not installed, the scheduler does not answer, or a worker has another nanet.
    """
    if scheduler is None and (workers or 1) == 1:
        yield Here()
        return
    flag = f"--scheduler {scheduler}" if scheduler else f"--workers {workers}"
    try:
        import dask
        import distributed
    except ImportError:
        raise UsageError(
            f"{flag}: needs Dask: pip install 'nanet[cluster]', or ./dev build cluster in a checkout"
        ) from None
    with contextlib.ExitStack() as stack:
        if scheduler:
            if workers:
                raise UsageError(
                    f"--workers {workers}: is for a local cluster: leave it out with --scheduler"
                )
            try:
                client = stack.enter_context(distributed.Client(scheduler, timeout=WAIT_S))
                client.wait_for_workers(1, timeout=WAIT_S)
            except (OSError, ValueError, TimeoutError) as error:
                remedy = f"start `dask scheduler` and `dask worker {scheduler}`"
                raise UsageError(
                    f"{flag}: no scheduler with a worker ({_first_line(error)}): {remedy}"
                ) from None
            _check_versions(client, flag)
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
        else:
            stack.enter_context(_without_main())
            stack.enter_context(dask.config.set(LOCAL))
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            )
            client = stack.enter_context(distributed.Client(cluster))
            client.wait_for_workers(workers)
        yield Dask(client, workers or 1)


def _check_versions(client: Any, flag: str) -> None:
    """UsageError for a worker without nanet, or with another version."""
    for address, version in sorted(client.run(_version, on_error="return").items()):
        if version != __version__:
            seen = f"has nanet {version}" if isinstance(version, str) else "cannot import nanet"
            raise UsageError(f"{flag}: worker {address} {seen}: install nanet {__version__} there")


def _version() -> str:
    return __version__


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Hides the main module, which worker processes would import: it may be a script without a guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
