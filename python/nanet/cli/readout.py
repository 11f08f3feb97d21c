# SPDX-License-Identifier: Apache-2.0
"""`nanet readout`: emulated boards that send generated or recorded events."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated, Any

import typer

from nanet.cli.l0tp import histograms
from nanet.cli.options import JsonFile, StatusFile, options
from nanet.config.file import Config
from nanet.config.options import core_values, named
from nanet.config.sections import DetectorFile, Final, Readout
from nanet.detector import load
from nanet.errors import UsageError, starting
from nanet.files.provenance import check_captures, of_detector
from nanet.report import log
from nanet.report.output import check_writable, console, write_json
from nanet.run import host
from nanet.run.core_options import usable_cpus
from nanet.run.final_trigger import refuse_final_options
from nanet.run.process import status_writer, stop_signals

POLL_S = 0.1
LATE_US = 100.0
# Of the sends. A busy kernel reports some refusals late, one for several packets.
REFUSED_SHARE = 0.5


@options(
    Readout, DetectorFile, Final,
    omit=("farm_boards", "time_source", "clock_speed", "late", "late_type", "late_downscale", "min_ticks",
          "close_ticks", "masks", "choke"),
)  # fmt: skip
def readout(
    config: Config,
    pcap: Annotated[
        str | None,
        typer.Option(
            "--pcap", metavar="FILE", help="Send this capture (pcap, pcapng) instead, with its timing."
        ),
    ] = None,
    times: Annotated[
        str | None,
        typer.Option(
            "--times", metavar="FILE", help="Share the send times in this file, for l0tp's latency."
        ),
    ] = None,
    late_packets: Annotated[
        str | None,
        typer.Option(
            "--late-packets",
            metavar="FILE",
            help="Write the packets sent --late-us after their frame's first: u64 frame, board, ns.",
        ),
    ] = None,
    late_us: Annotated[
        float | None,
        typer.Option("--late-us", metavar="X", help="Least lateness of --late-packets. [default: 100]"),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option("--truth", metavar="FILE", help="Write the truth of the events to this Parquet file."),
    ] = None,
    json_file: JsonFile = None,
    status_file: StatusFile = None,
) -> None:
    """Emulated readout boards: generated or recorded events, sent on time as MGP packets.

    Ends after --duration (wall clock), --events or --bursts, whichever comes first, else after one burst; a
    capture ends with its last packet. Ctrl-C and SIGTERM end it with an EOB. Exit status 1: no program
    listens at the destination.
    """
    from nanet import _core

    check_writable(json=json_file, truth=truth, late_packets=late_packets)
    check_late(late_packets, late_us, times)
    if pcap and truth:
        raise UsageError(f"--truth {truth}: the truth of a capture is the file from `nanet generate --truth`")
    section = config[Readout]
    if pcap and ";" in section.to:
        text = f"--pcap {pcap} with readout.to = {section.to!r}: a capture keeps its sequence numbers"
        raise UsageError(f"{text}, so it goes to one node: give --to once")
    limited = section.duration > 0 or section.events > 0 or section.bursts > 0
    given = config[DetectorFile].detector
    of_core = load(given).core() if given else None
    if pcap:
        check_captures([pcap], of_core)
    settings: dict[str, Any] = {
        **core_values(section),
        "bursts": section.bursts if limited or pcap else 1,
        "fault_seed": section.seed if section.fault_seed < 0 else section.fault_seed,
        "pin": usable_cpus("readout.pin", section.pin),
        "keep_truth": truth is not None,
        "times": times or "",
        "late_us": (LATE_US if late_us is None else late_us) if late_packets else 0.0,
        "detector": of_core,
        **final_settings(config[Final]),
    }
    if not config[Final].final_boards:
        refuse_final_options(config, "needs --final-boards")
    out = console(json_file)
    with contextlib.ExitStack() as stack:
        status = stack.enter_context(status_writer(status_file))
        stop = stack.enter_context(stop_signals())
        settings["pcap"] = ""
        if pcap:
            from nanet.files.pcapng import as_classic_pcap

            settings["pcap"] = stack.enter_context(as_classic_pcap(pcap))
        with config.sourced(), starting():
            core = _core.Readout(settings)
        if truth:
            _write_truth(truth, core, settings)
        core.start()
        out.print(start_line(settings, pcap), highlight=False, markup=False, soft_wrap=True)
        stopping = False
        while not core.join(POLL_S):
            if stop.signals and not stopping:
                core.request_stop()
                stopping = True
            if status and status.due():
                status.write({"snapshot": core.snapshot()})
        result = core.result()
        if status:
            status.write({"result": result, "histograms": histograms(core)})
        if late_packets:
            core.late_sends().tofile(late_packets)
    result["host"] = host.describe()
    print_result(out, result, settings)
    write_json(result, json_file)
    if trouble := refusal(result):
        log.line("error", "error", message=trouble)
        print(f"nanet: {trouble}", file=sys.stderr)
        raise typer.Exit(1)


def check_late(late_packets: str | None, late_us: float | None, times: str | None) -> None:
    """UsageError for a list of late packets without a limit or send times, and a limit without a list."""
    if late_us is not None and not late_packets:
        raise UsageError(f"--late-us {late_us:g} without --late-packets: give --late-packets FILE")
    if late_us is not None and late_us <= 0:
        raise UsageError(f"--late-us {late_us:g}: give microseconds above 0")
    if late_packets and not times:
        raise UsageError(
            f"--late-packets {late_packets}: needs the send times of the frames: give --times FILE"
        )


def final_settings(final: Final) -> dict[str, Any]:
    """Settings of the core for boards in final mode; empty without it."""
    if not final.final_boards:
        return {}
    if not final.farm or not final.latency_us:
        missing = "final.latency_us" if final.farm else "final.farm"
        text = f"{named(Final, 'final_boards')} = {final.final_boards!r}"
        raise UsageError(f"{text}: boards in final mode need {missing}: give it")
    return {name: getattr(final, name) for name in ("final_boards", "farm", "latency_us", "sync")}


def refusal(result: dict[str, Any]) -> str:
    """Sentence with the remedy if every node refused the packets; else empty."""
    nodes = result["nodes"]
    if any(node["refused_share"] < REFUSED_SHARE for node in nodes):
        return ""
    where = ";".join(node["to"] for node in nodes)
    return f"--to {where}: packets were refused, no program listens there; start nanet trigger first"


def start_line(settings: dict[str, Any], pcap: str | None) -> str:
    """Destination and speed, in one line."""
    what = pcap or f"{settings['rate'] / 1e6:g} MHz of events"
    speed = f"at {settings['speed']:g} × detector time" if settings["speed"] else "as fast as it goes"
    faults = f", faults {settings['fault']}" if settings["fault"] else ""
    return f"nanet readout: {what} -> {settings['to']}, {speed}{faults}"


def print_result(out: Any, result: dict[str, Any], settings: dict[str, Any]) -> None:
    """Prints packets sent, delays, faults and send errors."""
    from nanet.report.final import slack_words
    from nanet.report.tables import count, counted, microseconds, rate

    out.print(
        f"{count(result['events_sent'])} events in {count(result['packets_sent'])} packets and "
        f"{count(result['frames_sent'])} frames, {counted(result['bursts'], 'burst')}, in "
        f"{result['elapsed_s']:.2f} s: {rate(result['events_per_s'], 'events')}, "
        f"{rate(result['packets_per_s'], 'packets')}"
    )
    if settings["pad"] and settings["segmentation"] and not result["segmentation"]:
        out.print("[yellow]no segmentation offload here (UDP_SEGMENT): datagrams were sent one by one[/]")
    behind = result["behind_max_us"]
    if settings["speed"] and behind > 1000.0:
        out.print(f"[yellow]was behind by up to {microseconds(behind)}: lower --speed, or use --pad[/]")
    faults = {name: n for name, n in result["faults"].items() if n}
    if faults:
        out.print("faults: " + ", ".join(f"{count(n)} {name}" for name, n in faults.items()))
    if "final" in result:
        final = result["final"]
        out.print(
            f"final trigger: {count(final['answered'])} of {count(final['triggers'])} triggers answered by "
            f"the boards, {count(final['late'])} late; {slack_words(final['slack_us'])}"
        )
    for node in result["nodes"]:
        where = f" to node {node['node']} ({node['to']})" if len(result["nodes"]) > 1 else ""
        for name, n in node["send_errors"].items():
            out.print(f"[yellow]send errors{where}: {count(n)} {name.replace('_', ' ')}[/]", soft_wrap=True)


def _write_truth(path: str, core: Any, settings: dict[str, Any]) -> None:
    """The pool's truth; frame f of a burst holds the events of pool frame f mod nanet.period_frames."""
    from nanet.files.truth import write_truth

    write_truth(
        path, core.truth(), period_frames=settings["pool_frames"], metadata=of_detector(settings["detector"])
    )
