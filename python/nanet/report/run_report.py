# SPDX-License-Identifier: Apache-2.0
"""Report of a run: one self-contained HTML file, for light and dark themes."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import attrs

from nanet.detector import load_or_default
from nanet.errors import UsageError, describe_os_error
from nanet.report.final import decisions_line, loop_line
from nanet.report.neighbours import l0tp_rows, readout_rows
from nanet.report.output import account, account_closes, packets_lost, plain
from nanet.report.tables import (
    CARD_CYCLE_NS,
    PERCENTILES,
    STAGES,
    card_line,
    count,
    duration,
    gateware_figures,
    losses,
    microseconds,
    rate,
    term_name,
)


@attrs.define
class Run:
    """Data of one run for the report."""

    trigger: dict[str, Any]  # result of the trigger
    histograms: dict[str, dict[str, Any]]  # stage -> edges_us, counts
    monitor: dict[str, Any]  # sampled physics histograms
    readout: dict[str, Any]
    l0tp: dict[str, Any]
    host: dict[str, Any]
    config: str  # TOML in effect
    command: str
    when: str  # date and time of the start
    rate: float  # events per second of detector time
    speed: float  # detector seconds per wall-clock second
    speed_why: str = ""
    series: list[dict[str, float]] = attrs.field(factory=list)  # t, events, lost
    detector: str = ""  # its file; "": NA62's
    final: dict[str, Any] = attrs.field(factory=dict)  # account of the closed loop
    slack: dict[str, Any] = attrs.field(factory=dict)  # histograms of slack and late_by
    notes: list[str] = attrs.field(factory=list)  # reasons for an unfit host, and other notes


def write(run: Run, folder: str | Path) -> Path:
    """Writes index.html and run.json to the folder (created if needed); returns the path of the page."""
    folder = Path(folder)
    page = folder / "index.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page.write_text(render(run), encoding="utf-8")
        data = json.dumps(plain(attrs.asdict(run)), allow_nan=False)
        (folder / "run.json").write_text(data, encoding="utf-8")
    except OSError as error:
        text = f"--report {describe_os_error(error, str(folder))}; give a folder that can be written"
        raise UsageError(text) from None
    return page


def render(run: Run) -> str:
    """The page as HTML text."""
    style = resources.files("nanet.report").joinpath("report.css").read_text(encoding="utf-8")
    body = "\n".join(
        [
            _head(run),
            _final(run),
            _latency(run),
            _physics(run),
            _events(run),
            _account(run),
            _neighbours(run),
            _about(run),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>nanet: {html.escape(run.when)}</title><style>{style}</style></head>\n"
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def verdicts(run: Run) -> list[tuple[bool, str]]:
    """Checks of the run: (passed, text)."""
    result, l0tp = run.trigger, run.l0tp
    late, lost = result["frames_late"], packets_lost(result["lost"])
    bad = sum(result["bad_packets"].values())
    total = result.get("latency_us", {}).get("total", {})
    closes = account_closes(result)
    deadline = duration(result["deadline_us"])
    found = [
        (closes, "the account closes" if closes else "the account does not close"),
        (
            not late,
            f"deadline of {deadline} held"
            if not late
            else f"{count(late)} frames missed the deadline of {deadline}",
        ),
        (not lost, "no packet lost" if not lost else f"{count(lost)} packets lost"),
    ]
    if bad:
        found.append((False, f"{count(bad)} bad packets refused"))
    if l0tp.get("primitives_expected"):
        share = l0tp["primitives_paired"] / l0tp["primitives_expected"]
        found.append((share >= 0.999, f"{100 * share:.2f} % of the true events answered in time"))
    if loop := run.final:
        share = loop["triggers_in_time_share"]
        whole = share == 1.0 and not loop["events_incomplete"]
        text = "every trigger answered at t + L" if whole else f"{100 * share:.2f} % of the triggers answered"
        found.append((whole, text))
        if loop["events_twice"]:
            found.append((False, "events answered twice"))
    figures = gateware_figures(result)
    if not (figures["events"] if figures else total.get("n")):
        found.append((False, "nothing was measured"))
    return found


def steady_rate(run: Run) -> float:
    """Events per second while events arrived; the series excludes waiting times before and after."""
    first, last = (run.series[0], run.series[-1]) if len(run.series) > 2 else ({}, {})
    seconds = last["t"] - first["t"] if first else 0.0
    return (last["events"] - first["events"]) / seconds if seconds > 0 else run.trigger["events_per_s"]


def _head(run: Run) -> str:
    result = run.trigger
    total = result.get("latency_us", {}).get("total", {})
    badges = "".join(
        f'<span class="badge {"good" if good else "bad"}">{html.escape(text)}</span>'
        for good, text in verdicts(run)
    )
    if figures := gateware_figures(result):
        # The card has a separate clock: the time from packet to answer would mix two clocks.
        of_cycles = [figures[f"closing_cycles_{name}"] * CARD_CYCLE_NS / 1e3 for name in ("p50", "max")]
        times = [
            (microseconds(of_cycles[0]), "median, packet → event, card clock"),
            (microseconds(of_cycles[1]), "the longest of these"),
        ]
    else:
        times = [
            (microseconds(total.get("p50")), "median, first packet → answer"),
            (microseconds(total.get("p99_99")), "99.99 % of frames within"),
        ]
    tiles = [
        (rate(steady_rate(run)), "events, wall-clock"),
        (f"{run.speed:.3g} ×", "speed of detector time"),
        *times,
        (count(result["events_built"]), "events"),
        (count(result["rings"]), "rings"),
    ]
    shown = "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for value, name in tiles)
    why = f" ({html.escape(run.speed_why)})" if run.speed_why else ""
    return (
        "<h1>nanet: boards → trigger → L0 trigger processor</h1>"
        f'<p class="muted">{html.escape(run.when)} · {html.escape(run.host.get("cpu", ""))}, '
        f"{run.host.get('cores', '?')} CPUs · "
        f"{html.escape(result['algorithm'])} on {html.escape(result['device'])} · "
        f"{run.rate / 1e6:g} MHz of events in detector time, slowed to {run.speed:.3g} of it{why}</p>"
        f'<div class="badges">{badges}</div><div class="tiles">{shown}</div>'
    )


def _figure(title: str, draw: Callable[[], str], caption: str = "") -> str:
    text = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure><h3>{title}</h3>{draw()}{text}</figure>"


def _grid(*figures: str) -> str:
    return f'<div class="grid">{"".join(figures)}</div>'


def _latency(run: Run) -> str:
    from nanet.report import plots

    result = run.trigger
    deadline, timeout = float(result["deadline_us"]), float(result["timeout_us"])
    times = [point["t"] for point in run.series]
    events = [point["events"] for point in run.series]
    lost = [point["lost"] for point in run.series]
    parts = ["<h2>Latency and rate</h2>"]
    rates = _figure(
        "Rate",
        lambda: plots.rate_over_time(times, events, lost),
        "Marked where packets were lost or frames late.",
    )
    if figures := gateware_figures(result):
        parts.append(f"<p>{html.escape(card_line(figures))}</p>{_grid(rates)}")
    elif "total" in run.histograms:
        parts.append(
            _figure(
                "Where the time goes",
                lambda: plots.stages(run.histograms, deadline, timeout),
                "From a frame's first packet in the kernel to its answer handed to the kernel. Each row is "
                "scaled to its own peak. Gathering lasts as long as the boards take to send the frame.",
            )
        )
        parts.append(
            _grid(
                _figure("How often it takes longer", lambda: plots.tail(run.histograms, deadline)),
                rates,
            )
        )
    parts.append(_latency_rows(result.get("latency_us", {}), STAGES))
    return "".join(parts)


def _latency_rows(latency: Mapping[str, Mapping[str, float]], stages: Sequence[str]) -> str:
    head = "".join(f"<th>{name}</th>" for _, name in PERCENTILES)
    rows = ""
    for stage in stages:
        values = latency.get(stage)
        if not values or not values.get("n"):
            continue
        cells = "".join(f"<td>{microseconds(values.get(key))}</td>" for key, _ in PERCENTILES)
        rows += (
            f"<tr><td>{html.escape(stage.replace('_', ' '))}</td>{cells}<td>{count(values['n'])}</td></tr>"
        )
    return (
        f'<div class="box"><table class="numbers"><tr><th>latency</th>{head}<th>n</th></tr>'
        f"{rows}</table></div>"
        if rows
        else ""
    )


def _final(run: Run) -> str:
    if not run.final:
        return ""
    from nanet.report import plots

    loop = run.final
    rows = [
        *([("in the card", decisions_line(loop["card"]))] if "card" in loop else []),
        ("events complete", f"{count(loop['events_complete'])} of {count(loop['triggers'])}"),
        ("incomplete, answered twice, untriggered",
         f"{count(loop['events_incomplete'])}, {count(loop['events_twice'])}, "
         f"{count(loop['events_untriggered'])}"),
        *((f"kept of {count(row['expected'])} true events with {row['rings']}"
           f"{' or more' if row['rings'] == 3 else ''} {'ring' if row['rings'] == 1 else 'rings'}",
           f"{100 * row['kept'] / row['expected']:.2f} %")
          for row in loop["kept_by_rings"] if row["expected"]),
    ]  # fmt: skip
    slack = _figure(
        "Slack",
        lambda: plots.slack(run.slack),
        "Time from a decision in the card to t + L, by the card's clock. Late decisions are counted only."
        if "card" in loop
        else "Time from a trigger's arrival at a board to t + L, by the board's clock. Left of zero: late, "
        "never answered.",
    )
    return f"<h2>Final trigger</h2><p>{html.escape(loop_line(loop))}</p>{_grid(slack, _rows(rows))}"


def _physics(run: Run) -> str:
    from nanet.report import plots

    m = run.monitor
    if not m or not sum(m["hits_per_event"]):
        return ""
    detector = load_or_default(run.detector)
    return (
        "<h2>Physics</h2>"
        '<p class="muted">From a sample of the events.</p>'
        + _grid(
            _figure("Hits", lambda: plots.hits_per_event(m["hits_per_event"])),
            _figure("Rings", lambda: plots.rings_per_event(m["rings_per_event"])),
            _figure("Radius", lambda: plots.radius(m["radius"])),
            _figure("Ring centres", lambda: plots.centres(m["centre"])),
        )
        + _figure(
            "Photomultipliers",
            lambda: plots.occupancy(m["pm_occupancy"], detector),
            "Sampled hits, each on its own disk."
            + ("" if run.detector else " Mirrors shift the images by 127 and 177 mm."),
        )
    )


def pick_events(events: Sequence[Mapping[str, Any]], number: int = 6) -> list[Mapping[str, Any]]:
    """Events for display: two each with one, two, three or more rings, two more clear ones, any others."""

    def clarity(event: Mapping[str, Any]) -> float:
        rings = event["rings"]
        return max((ring["chi2_ndf"] for ring in rings), default=0.0) if len(event["pm"]) >= 8 else 1e9

    found = [event for event in events if len(event["rings"])]
    clear = sorted(found, key=clarity)
    groups = [[event for event in clear if min(len(event["rings"]), 3) == rings][:2] for rings in (1, 2, 3)]
    order = [*(event for group in groups for event in group), *clear[2:4], *found, *events]
    chosen: dict[int, Mapping[str, Any]] = {}
    for event in order:
        chosen.setdefault(id(event), event)
    return list(chosen.values())[:number]


def _events(run: Run) -> str:
    from nanet import _core
    from nanet.report import plots

    chosen = pick_events(run.monitor.get("events", []) if run.monitor else [])
    if not chosen:
        return ""
    alone = (
        ""
        if run.trigger["algorithm"] not in _core.algorithm_names()
        or _core.algorithm_traits(run.trigger["algorithm"])["rejects_noise"]
        else f" The algorithm {run.trigger['algorithm']} takes all hits of an event for one ring."
    )
    detector = load_or_default(run.detector)
    dots = ", ".join(
        f'of {html.escape(name)} <span style="color:var(--s{plots.DISK_SERIES[disk]})">●</span>'
        for disk, name in enumerate(detector.disks[: len(plots.DISK_SERIES)])
    )
    return "<h2>Events</h2>" + _figure(
        "Hits and fitted rings",
        lambda: plots.events(chosen, detector),
        f"Common plane: photomultipliers of all disks, each shifted by its mirrors. Hits {dots}; "
        "circles are the rings that the trigger fitted." + alone,
    )


def _account(run: Run) -> str:
    rows = ""
    for name, total, terms, agrees in account(run.trigger):
        shown = " + ".join(
            f'<span class="term">{count(value)} <i>{html.escape(term_name(term))}</i></span>'
            for term, value in terms
        )
        mark = '<span class="good">✓</span>' if agrees else '<span class="bad">does not close</span>'
        total_cell = f'<td class="term">{count(total)}</td>'
        rows += f"<tr><td><b>{term_name(name)}</b></td>{total_cell}<td>= {shown}</td><td>{mark}</td></tr>"
    named = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{count(value)}</td></tr>" for name, value in losses(run.trigger)
    )
    more = f'<div class="box"><table>{named}</table></div>' if named else ""
    return (
        "<h2>The account</h2><p>Each total on the left "
        "must equal the sum on its right.</p>"
        f'<div class="box"><table class="identity">{rows}</table></div>{more}'
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested values as rows, without zeros of objects (faults, refusals)."""
    rows = []
    for key, value in values.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{key}: ")
        elif isinstance(value, bool):
            rows.append((name, "yes" if value else "no"))
        elif isinstance(value, int):
            if value or not prefix:
                rows.append((name, count(value)))
        elif isinstance(value, float):
            rows.append((name, count(value) if value >= 1e4 else f"{value:.4g}"))
        elif isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
            for part in value:
                at = f" {part['node']}" if "node" in part else ""
                others = {of: number for of, number in part.items() if of != "node"}
                rows += _flat(others, f"{prefix}{key.removesuffix('s')}{at}: ")
        elif isinstance(value, list):
            rows.append((name, ", ".join(str(part) for part in value) or "none"))
        else:
            rows.append((name, str(value) or "none"))
    return rows


def _rows(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in rows
    )
    return f'<div class="box"><table>{cells}</table></div>'


def _neighbours(run: Run) -> str:
    sides = (("Readout boards", readout_rows(run.readout)), ("L0 trigger processor", l0tp_rows(run.l0tp)))
    columns = "".join(f"<div><h3>{title}</h3>{_rows(rows)}</div>" for title, rows in sides)
    parts = ["<h2>Readout and L0 trigger processor</h2>", f'<div class="grid">{columns}</div>']
    parts.append(_latency_rows(run.l0tp.get("latency_us", {}), ("from_first", "from_last")))
    parts.append(
        '<p class="muted">Measured outside by one clock: from sending a frame\'s first and last packet '
        "to the arrival of its primitives. All counters: run.json.</p>"
    )
    return "".join(parts)


def _realtime(settings: Sequence[Mapping[str, str]]) -> str:
    if not settings:
        return ""
    rows = [
        (one["name"], f"{one['state']}: {one['found']}" + (f"; {one['remedy']}" if one["remedy"] else ""))
        for one in settings
    ]
    return f"<h3>Real-time settings</h3>{_rows(rows)}"


def _about(run: Run) -> str:
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in run.notes)
    listed = f'<ul class="muted">{notes}</ul>' if notes else ""
    simulated = (
        " The card is simulated: its times are from the simulated clock."
        if gateware_figures(run.trigger)
        else ""
    )
    fit = "fit for real time" if run.trigger.get("real_time") else "not fit for real time"
    return (
        f"<h2>Host</h2><p>This host is {fit}: frames close {duration(run.trigger['timeout_us'])} after the "
        f"first packet and are due after {duration(run.trigger['deadline_us'])}.{simulated}</p>{listed}"
        f"{_rows(_flat(run.host))}{_realtime(run.trigger.get('realtime_settings', []))}"
        f'<h2>Configuration</h2><div class="box"><pre>$ {html.escape(run.command)}</pre>'
        f"<pre>{html.escape(run.config)}</pre></div>"
    )
