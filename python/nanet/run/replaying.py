# SPDX-License-Identifier: Apache-2.0
"""Replay of the core in a thread, with its rings written and its progress shown meanwhile."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nanet.errors import UsageError, describe_os_error, starting

POLL_S = 0.1


def captures_in(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Captures among the file names of a folder, in order, and those of `--record` (raw-*) among them.

    The refused packets of `--record` are in bad-*.
    """
    captures = sorted(name for name in names if name.endswith((".pcap", ".pcapng")))
    return captures, [name for name in captures if name.startswith("raw-")]


def replay_files(
    captures: Sequence[str],
    settings: Mapping[str, Any],
    *,
    rings: str | None = None,
    mtp: str | None = None,
    advance: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Result of captures as one run, in order, with the keys of `nanet replay --json`. UsageError.

    settings: core_options, `port` and `detect_merged`. rings: Parquet file; mtp: pcap of the primitives.
    """
    from nanet import _core
    from nanet.files.pcapng import as_classic_pcap
    from nanet.files.provenance import check_captures, of_rings
    from nanet.files.rings import RingWriter

    check_captures(captures, settings.get("detector"))
    with contextlib.ExitStack() as stack:
        pcap, *more = (stack.enter_context(as_classic_pcap(file)) for file in captures)
        options = {**settings, "pcap": pcap, "mtp": mtp or "", "rings": rings is not None}
        if more:
            options["more"] = more
        with starting():
            core = _core.Replay(options)
        writer = None
        if rings is not None:
            writer = stack.enter_context(RingWriter(rings, of_rings(settings, captures)))
        run_core(core, writer, advance)
        result = core.result()
    result["captures"] = list(captures)
    result["truncated_files"] = [captures[number] for number in result.get("truncated_files", ())]
    return result


def run_core(core: Any, writer: Any, advance: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Runs the core in a thread; meanwhile writes its rings and passes its snapshots on. UsageError."""
    failure: list[BaseException] = []

    def work() -> None:
        try:
            core.run()
        except BaseException as error:  # raised again in the main thread
            failure.append(error)

    thread = threading.Thread(target=work, name="replay")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_S)
            if writer:
                writer.write(core.take_rings())
            if advance:
                advance(core.snapshot())
    finally:
        thread.join()
    if failure:
        if isinstance(failure[0], OSError):
            raise UsageError(describe_os_error(failure[0]))
        if isinstance(failure[0], ValueError | RuntimeError):
            raise UsageError(str(failure[0]))
        raise failure[0]
    if writer:
        writer.write(core.take_rings())
