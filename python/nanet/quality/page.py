# SPDX-License-Identifier: Apache-2.0
"""Quality report as Markdown, alone or between the markers of docs/quality.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nanet.errors import UsageError, describe_os_error
from nanet.quality.results import ORACLES

BEGIN, END = "<!-- nanet quality: begin -->", "<!-- nanet quality: end -->"
LAST_TUNING_SEED = 99
CAPTIONS = {
    "quality-rings.svg": "Efficiency and ring count against the number of true rings.",
    "quality-counts.svg": "Found against true number of rings, per cent of the events with that true number.",
    "quality-hits.svg": "Efficiency against the hits of the ring and of the event.",
    "quality-radius.svg": "Efficiency and resolution against the radius; resolution against the ring's hits.",
    "quality-separation.svg": "Efficiency in events of two rings against the distance of their centres, and "
    "against √((Δcentre / 15 mm)² + (ΔR / 10 mm)²).",
    "quality-noise.svg": "The mix at other noise.",
}
Get = Callable[[Mapping[str, Any]], float]

ISOLATED_EVENTS = 100_000  # least number for a verdict
# Targets of multiring, isolated events: (figure, sign, limit, getter).
GOALS: tuple[tuple[str, str, float, Get], ...] = (
    *(
        (f"efficiency, {k} true ring{'s' * (k > 1)}", "≥", limit,
         lambda row, k=k: row["mix"]["isolated"]["efficiency"][str(k)])
        for k, limit in ((1, 0.99), (2, 0.95), (3, 0.90))
    ),
    ("fakes per event", "≤", 0.05, lambda row: row["mix"]["isolated"]["fakes_per_event"]),
    *(
        (f"fakes per ring-less event, noise {noise}", "≤", limit,
         lambda row, noise=noise: row["empty"][str(noise)]["isolated"]["fakes_per_event_noise_only"])
        for noise, limit in ((1, 0.01), (5, 0.05))
    ),
    *(
        (f"ring count right, {k} true ring{'s' * (k > 1)}", "≥", limit,
         lambda row, k=k: row["mix"]["isolated"]["ring_count_accuracy"][str(k)])
        for k, limit in ((1, 0.98), (2, 0.93), (3, 0.75))
    ),
    ("σ(R) / Cramér–Rao bound", "≤", 1.1,
     lambda row: row["mix"]["isolated"]["sigma_r_mm"] / row["mix"]["isolated"]["crlb_sigma_r_mm"]),
)  # fmt: skip


def markdown(result: Mapping[str, Any], command: str, images: str) -> str:
    """Report as Markdown. images: prefix of links to the figures ("images/" or "")."""
    rows = result["algorithms"]
    mix = next(iter(rows.values()))["mix"]
    parts = [
        f"    {command}",
        "",
        f"Standard mix, noise 1: {mix['events']} events, {mix['isolated']['events']} of them isolated. "
        f"Ring-less events: {_events(result, 'empty1')} at each noise; the mix at other noise: "
        f"{_events(result, 'noise0')} each. Seed {result['seed']} and following ones{_tuning(result)}. "
        f"{_changed(result)}",
        "",
        "**oracle**: geometric least-squares circle through exactly the hits of each true ring. "
        "**oracle with priors** also uses R ≤ 190.7 mm and the distribution of the centres. "
        "They miss rings of few hits on a short arc.",
        "",
    ]
    if "multiring" in rows:
        parts += ["### multiring against its targets", "", *_goal_table(rows), ""]
        parts += [*_few_hits_table(rows), "", *_spread_table(rows), ""]
    parts += ["### Isolated events", "", *_figure_table(rows, lambda row: row["isolated"]), ""]
    parts += ["### All events", "", *_figure_table(rows, lambda row: row), ""]
    parts += ["### Separable rings", "", *_separable_table(result["separable"]), ""]
    parts += ["### Curves", "", "Isolated events of the standard mix, where nothing else is said.", ""]
    for name, caption in CAPTIONS.items():
        parts += [f"![{Path(name).stem}]({images}{name})", "", caption, ""]
    return "\n".join(parts[:-1]) + "\n"


def _tuning(result: Mapping[str, Any]) -> str:
    return ", on which nothing was tuned" if result["seed"] > LAST_TUNING_SEED else ""


def _events(result: Mapping[str, Any], name: str) -> int:
    return next(sample["events"] for sample in result["samples"] if sample["name"] == name)


def _changed(result: Mapping[str, Any]) -> str:
    """Parameters that differ from the defaults."""
    changed = [
        f"`{name}.{key} = {value:g}`"
        for name, parameters in result.get("parameters", {}).items()
        for key, value in parameters.items()
    ]
    return f"Set: {', '.join(changed)}." if changed else "All parameters are the defaults."


def _title(name: str) -> str:
    return f"*{name.replace('_prior', ' with priors')}*" if name in ORACLES else f"`{name}`"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None or value != value else f"{value:.{digits}f}"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return [f"|{'|'.join(cells)}|" for cells in (head, ruler, *lines)]


def _goal_table(rows: Mapping[str, Any]) -> list[str]:
    """Targets; no verdict on fewer isolated events than ISOLATED_EVENTS."""
    lines = []
    too_few = rows["multiring"]["mix"]["isolated"]["events"] < ISOLATED_EVENTS
    for name, sign, limit, get in GOALS:
        found, bound = get(rows["multiring"]), get(rows["oracle"])
        digits = 4 if "fakes" in name else 3
        met = found <= limit if sign == "≤" else found >= limit
        ideal = "–" if "count" in name else _number(bound, digits)
        verdict = "–" if found != found or too_few else "yes" if met else "**no**"
        lines.append((name, f"{sign} {limit:g}", _number(found, digits), verdict, ideal))
    return _table(("isolated events", "target", "multiring", "met", "oracle"), lines)


BESIDE = ("multiring", *ORACLES)  # what the two tables below hold
FEW = 9  # hits: separate columns up to here, one for all others


def _few_hits_table(rows: Mapping[str, Any]) -> list[str]:
    """Efficiency for single rings by their hits, and the share of rings with that number."""
    text = "Single rings by their hits: share of the rings, and efficiency."
    head = ["hits of the ring", *(str(k) for k in range(4, FEW + 1)), f"{FEW + 1} and more"]
    lines = []
    for name in BESIDE:
        curve = rows[name]["curves"]["single_ring_hits"]
        points = list(zip(curve["low"], curve["n"], curve["value"], strict=True))
        bins = [[p for p in points if p[0] == k - 0.5] for k in range(4, FEW + 1)]
        bins.append([p for p in points if p[0] > FEW])
        n = [sum(p[1] for p in some) for some in bins]
        if not lines:
            lines.append(("share", *(_number(part / max(sum(n), 1), 3) for part in n)))
        matched = [sum(p[1] * p[2] for p in some) for some in bins]
        cells = [_number(m / part if part else None, 3) for m, part in zip(matched, n, strict=True)]
        lines.append((_title(name), *cells))
    return [text, "", *_table(head, lines)]


def _spread_table(rows: Mapping[str, Any]) -> list[str]:
    """The resolution of the radius over its bound by the number of rings in the event."""
    text = "σ(R) over its Cramér–Rao bound for a single ring, by the number of true rings:"
    lines = []
    for name in BESIDE:
        curve = rows[name]["curves"]["sigma_r_rings"]
        ratio = {
            low: sigma / bound
            for low, sigma, bound in zip(curve["low"], curve["value"], curve["bound"], strict=True)
        }
        lines.append((_title(name), *(_number(ratio.get(k - 0.5), 2) for k in range(1, 5))))
    return [text, "", *_table(("true rings", "1", "2", "3", "4"), lines)]


def _separable_table(separable: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Number of events with a ring that shares nearly all its hits."""
    text = (
        "A finder can count only rings with hits that no other ring of the event explains (within 12 mm). "
        "Share of the isolated events in which each ring has that many such hits:"
    )
    keys = list(next(iter(separable.values())))
    lines = [(f"at least {m}", *(_number(row[k], 3) for k in keys)) for m, row in separable.items()]
    head = ("separate hits", *(f"{k} true ring{'s' * (k != '1')}" for k in keys))
    return [text, "", *_table(head, lines)]


def _figure_table(
    rows: Mapping[str, Any], part: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> list[str]:
    """Figures as rows, algorithms as columns. part: selects all or isolated events of an evaluation."""
    lines: list[tuple[str, ...]] = []

    def line(title: str, digits: int, get: Get, *, finders_only: bool = False) -> None:
        cells = [
            "–" if finders_only and name in ORACLES else _number(get(row), digits)
            for name, row in rows.items()
        ]
        lines.append((title, *cells))

    for k in range(1, 5):
        title = f"efficiency, {k} true ring{'s' * (k > 1)}"
        line(title, 3, lambda row, k=k: part(row["mix"])["efficiency"][str(k)])
    line("fakes per event", 4, lambda row: part(row["mix"])["fakes_per_event"])
    for noise in (1, 5):
        line(
            f"fakes per ring-less event, noise {noise}", 4,
            lambda row, noise=noise: part(row["empty"][str(noise)])["fakes_per_event_noise_only"],
        )  # fmt: skip
    for k in range(5):
        line(
            f"ring count right, {k} true ring{'s' * (k != 1)}", 3,
            lambda row, k=k: part(row["mix"])["ring_count_accuracy"][str(k)], finders_only=True,
        )  # fmt: skip
    for key, title in (
        ("sigma_r_mm", "σ(R), mm"),
        ("sigma_r_mad_mm", "σ(R) from the median deviation, mm"),
        ("crlb_sigma_r_mm", "bound of σ(R) for the rings matched, mm"),
        ("bias_r_mm", "mean of found − true R, mm"),
        ("sigma_xy_mm", "σ of the centre per axis, mm"),
        ("crlb_sigma_xy_mm", "bound of it, mm"),
    ):
        line(title, 2, lambda row, key=key: part(row["mix"])[key])
    return _table(("", *map(_title, rows)), lines)


def between(page: Path) -> str:
    """Text between the markers of a page. UsageError if page or markers are missing."""
    return _split(page)[1]


def rewrite(page: Path, text: str) -> None:
    """Replaces the text between the markers of a page. UsageError if page or markers are missing."""
    head, _, tail = _split(page)
    text = text.strip("\n")
    try:
        page.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--docs {describe_os_error(error)}: give a folder that can be written") from None


def _split(page: Path) -> tuple[str, str, str]:
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--docs {describe_os_error(error)}: give the folder of quality.md") from None
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise UsageError(f"--docs: {page} must have the lines {BEGIN} and {END} once, in this order")
    head, rest = text.split(BEGIN)
    return head, *rest.split(END)
