# SPDX-License-Identifier: Apache-2.0
"""`nanet replay`: recorded traffic through the trigger, as fast as possible."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from nanet.cli.options import JsonFile, options
from nanet.config.file import Config
from nanet.config.options import live_only
from nanet.config.sections import Card, Trigger
from nanet.errors import UsageError, describe_os_error, starting
from nanet.report.output import account_closes, check_distinct, check_writable, console, write_json
from nanet.run import host
from nanet.run.core_options import core_options

POLL_S = 0.1


@options(Trigger, Card, omit=live_only(Trigger, Card))
def replay(
    config: Config,
    captures: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="pcap or pcapng; several files, or a folder, are one run in the given order.",
            show_default=False,
        ),
    ],
    out_file: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write the rings to this Parquet file.")
    ] = None,
    mtp_file: Annotated[
        str | None,
        typer.Option("--mtp", metavar="FILE", help="Write the primitive packets to this pcap."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="UDP destination port of the boards' packets.")
    ] = 58913,
    json_file: JsonFile = None,
) -> None:
    """Recorded traffic through the trigger, as fast as possible."""
    from nanet import _core
    from nanet.files.pcapng import as_classic_pcap

    files = captures_of(captures)
    keep_bad = config[Card].keep_bad or None
    check_distinct(out=out_file, mtp=mtp_file, json=json_file, keep_bad=keep_bad)
    for file in files:
        check_distinct(input=file, out=out_file, mtp=mtp_file, json=json_file, keep_bad=keep_bad)
    check_writable(out=out_file, mtp=mtp_file, json=json_file, keep_bad=keep_bad)
    out = console(json_file)
    with contextlib.ExitStack() as stack:
        pcap, *more = (stack.enter_context(as_classic_pcap(file)) for file in files)
        settings = {**core_options(config), "pcap": pcap, "mtp": mtp_file or "", "port": port}
        if more:
            settings["more"] = more
        settings["rings"] = out_file is not None
        settings["detect_merged"] = config[Card].boards == "4"  # a merged stream is recognised by its packets
        with starting():
            core = _core.Replay(settings)
        writer = None
        if out_file is not None:
            from nanet.files.provenance import of_rings
            from nanet.files.rings import RingWriter

            writer = stack.enter_context(RingWriter(out_file, of_rings(settings, files)))
        label = files[0] if not more else f"{len(files)} captures"
        run(core, writer, out, label)
        result = core.result()
    result["captures"] = files
    result["truncated_files"] = [files[number] for number in result.get("truncated_files", ())]
    result["host"] = host.describe()
    from nanet.report.tables import print_result

    print_result(out, result)
    for cut in result["truncated_files"]:
        out.print(
            f"{cut} ends within a record: the packets before it were replayed", style="yellow", markup=False
        )
    if "device_failed" in result:
        text = "the CPU continued, with the same answers"
        out.print(f"[yellow]{result['device']} failed: {result['device_failed']}; {text}[/]")
    if result["packets_in"] == 0:
        there = "the file has no packets"
        if any(result["not_mgp"].values()):
            there = f"no packet went to port {port}: give --port"
        out.print(f"{label}: {there}", style="yellow", markup=False)
    write_json(result, json_file)
    if not account_closes(result):
        raise typer.Exit(1)


def captures_of(given: list[str]) -> list[str]:
    """Capture files of the given files and folders, in order. UsageError for one that cannot be read.

    A folder stands for the captures of `--record` (raw-*.pcap, without the refused packets in
    bad-*.pcap), else for all its captures by name.
    """
    files: list[str] = []
    for name in given:
        try:
            files += _of_folder(name) if os.path.isdir(name) else [name]
            with open(files[-1], "rb"):
                pass
        except OSError as error:
            remedy = "give a pcap or pcapng file that can be read, or a folder of them"
            raise UsageError(f"{describe_os_error(error)}: {remedy}") from None
    return files


def _of_folder(folder: str) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if name.endswith((".pcap", ".pcapng")))
    recorded = [name for name in names if name.startswith("raw-")]
    if not names:
        raise UsageError(f"{folder}: there is no .pcap or .pcapng file in this folder")
    return [os.path.join(folder, name) for name in recorded or names]


def run(core: Any, writer: Any, out: Any, label: str) -> None:
    """Runs the core in a thread; meanwhile writes its rings and shows the progress on a terminal."""
    failure: list[BaseException] = []

    def work() -> None:
        try:
            core.run()
        except BaseException as error:  # raised again in the main thread
            failure.append(error)

    thread = threading.Thread(target=work, name="replay")
    with progress(out, label) as advance:
        thread.start()
        try:
            while thread.is_alive():
                thread.join(POLL_S)
                if writer:
                    writer.write(core.take_rings())
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


@contextlib.contextmanager
def progress(out: Any, label: str) -> Iterator[Any]:
    """Progress line during the replay, on a terminal only."""
    if not out.is_terminal:
        yield lambda snapshot: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from nanet.run.live import Rates

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    rates = Rates()
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task(f"replaying {label}")

        def advance(snapshot: dict[str, Any]) -> None:
            rates.update("events", time.monotonic(), snapshot["events_built"])
            bar.update(task, description=progress_text(label, snapshot, rates.now.get("events")))

        yield advance


def progress_text(label: str, snapshot: dict[str, Any], events_per_s: float | None) -> str:
    """Progress in words: share of the captures read, events, and their rate after the first interval."""
    from nanet.report.tables import count, rate

    text = f"replaying {label}: {snapshot['progress']:.0%}, {count(snapshot['events_built'])} events"
    return text if events_per_s is None else f"{text}, {rate(events_per_s)}"
