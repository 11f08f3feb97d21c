# SPDX-License-Identifier: Apache-2.0
"""Results as terminal tables: account with its identities, losses, latencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from nanet.report import counters, log
from nanet.report.output import account, account_closes

STAGES = ("gather", "queue", "build", "reconstruct", "post", "send", "total")
PERCENTILES = (
    ("p50", "p50"),
    ("p90", "p90"),
    ("p99", "p99"),
    ("p99_9", "p99.9"),
    ("p99_99", "p99.99"),
    ("max", "max"),
)


def count(value: float) -> str:
    """A count with thousands separators: 1 234 567."""
    return f"{int(value):,}".replace(",", " ")


def counted(value: float, noun: str) -> str:
    """A count with its noun: 1 burst, 2 bursts."""
    return f"{count(value)} {noun}{'s' * (int(value) != 1)}"


def rate(value: float, noun: str = "") -> str:
    """A rate per second with a prefix: 2.51 M/s, or 2.51 M events/s."""
    what = f" {noun}" if noun else ""
    for limit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.2f} {name}{what}/s"
    return f"{value:.0f}{what or ' '}/s"


def microseconds(value: float | None) -> str:
    """A latency (µs) in a readable unit."""
    if value is None:
        return "-"
    if value >= 1e6:
        return f"{value / 1e6:.2f} s"
    if value >= 1e4:
        return f"{value / 1e3:.1f} ms"
    if value >= 1e3:
        return f"{value / 1e3:.2f} ms"
    return f"{value:.1f} µs"


def duration(us: float) -> str:
    """A configured time (µs) without needless digits: 20 ms, 200 µs."""
    return f"{us / 1000:g} ms" if us >= 1000 else f"{us:g} µs"


def _plain_table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=bool(columns), header_style="dim")
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    return table


def term_name(name: str) -> str:
    """Display name of a term: `bad_packets.*` gives `bad packets`, `lost.late` gives `lost: late`."""
    return name.removesuffix(".*").replace(".", ": ").replace("_", " ")


def account_table(result: Mapping[str, Any]) -> Table:
    """Identities, each total with its non-zero terms."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(3):
        table.add_column(justify="right")
    table.add_column()
    for name, total, terms, agrees in account(result):
        mark = "[green]✓[/]" if agrees else "[bold red]does not close[/]"
        table.add_row(f"[bold]{term_name(name)}[/]", count(total), "=", f"{_sum(terms)}  {mark}")
    return table


def _sum(terms: list[tuple[str, int]]) -> str:
    shown = [f"{count(value)} [dim]{term_name(name)}[/]" for name, value in terms if value]
    return " + ".join(shown) or f"0 [dim]{term_name(terms[0][0])}[/]"


def losses(result: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Everything refused or lost: (name, non-zero count)."""
    rows = [(f"lost: {name}", value) for name, value in result.get("lost", {}).items()]
    rows += [(f"bad packet: {name}", value) for name, value in result.get("bad_packets", {}).items()]
    rows += [(f"downscaled: {name}", value) for name, value in result.get("downscaled", {}).items()]
    rows += [(f"not MGP: {name}", value) for name, value in result.get("not_mgp", {}).items()]
    rows += [(key, result.get(key, 0)) for key in counters.losses()]
    card = counters.inside(result, "final.card")
    rows += [(f"final trigger: {name}", card.get(name, 0)) for name in counters.of_card_trigger(faults=True)]
    downs = int(result.get("card_figures", {}).get("interface_downs", 0))
    rows.append(("interface went down", downs))
    rows.append(("choke raised", result.get("choke", {}).get("raised", 0)))
    recorded = result.get("recorded", {})
    rows += [(f"not recorded: {name}", recorded.get(name, 0)) for name in ("ring_full", "write_failed")]
    return [(name.replace("_", " "), value) for name, value in rows if value]


def run_state(snapshot: Mapping[str, Any]) -> str:
    """State of the run with the words and numbers of the JSON; empty before the first snapshot."""
    if "state" not in snapshot:
        return ""
    choke, conditions = snapshot["choke"], snapshot.get("conditions")
    words = [f"state {snapshot['state']}"]
    if snapshot["burst"] is not None:
        words.append(f"burst {snapshot['burst']}")
    raised = f", raised {counted(choke['raised'], 'time')}" if choke["raised"] else ""
    words.append(f"choke {'RAISED' if choke['on'] else 'off'} (buffers {choke['fill']:.1%} full{raised})")
    if faults := snapshot.get("gpu_faults"):
        where = "LOST, replaced by the CPU" if snapshot["gpu_lost"] else "recovered"
        words.append(f"GPU {where} (lost {counted(faults, 'time')})")
    if conditions:
        refused = f", {count(conditions['refused'])} refused" if conditions.get("refused") else ""
        words.append(f"conditions {conditions['name']} ({count(conditions['masked'])} masked{refused})")
    return "  ".join(words)


def latency_table(latency: Mapping[str, Mapping[str, float]], stages: tuple[str, ...] = STAGES) -> Table:
    """Percentiles by stage."""
    table = _plain_table("latency", *(shown for _, shown in PERCENTILES), "n")
    for stage in stages:
        values = latency.get(stage)
        if not values or not values.get("n"):
            continue
        style = "bold" if stage == "total" else ""
        row = [microseconds(values.get(key)) for key, _ in PERCENTILES]
        table.add_row(stage.replace("_", " "), *row, count(values["n"]), style=style)
    return table


def print_result(out: Console, result: Mapping[str, Any]) -> None:
    """Prints the account of a trigger or a replay."""
    out.print()
    out.print(account_table(result))
    small = losses(result)
    if small:
        table = _plain_table()
        for name, value in small:
            table.add_row(f"[dim]{name}[/]", count(value))
        out.print()
        out.print(Text("worth a look", style="bold"))
        out.print(table)
        log.line("info", "message", message=f"worth a look: {', '.join(f'{n} {v}' for n, v in small)}")
    if any(stage.get("n") for stage in result.get("latency_us", {}).values()):
        out.print()
        out.print(latency_table(result["latency_us"]))
    if figures := gateware_figures(result):
        out.print(f"\n{card_line(figures)}", highlight=False, markup=False)
    out.print()
    out.print(_summary(result))
    if result.get("bursts") and (state := run_state(result)):
        out.print(f"{counted(result['bursts'], 'burst')}; {state}", highlight=False, markup=False)
    refused = result["bad_packets"].get("bad_board", 0)
    if refused and refused == result["packets_in"]:
        out.print(
            "[yellow]every packet came from another board than those configured: see --boards (merged?)[/]"
        )


CARD_CYCLE_NS = 6.4  # clock of the gateware card, 156.25 MHz


def gateware_figures(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Figures of the gateware card's instruments; None for other cards."""
    figures = result.get("card_figures") or {}
    return figures if "closing_cycles_p50" in figures else None


def card_line(figures: Mapping[str, Any]) -> str:
    """The card's own measurements, in one line."""
    cycles = [figures[f"closing_cycles_{name}"] for name in ("p50", "p99", "max")]
    times = " / ".join(f"{value:.0f}" for value in cycles)
    nanoseconds = " / ".join(f"{value * CARD_CYCLE_NS:.0f}" for value in cycles)
    measured = f"packet to event {times} cycles = {nanoseconds} ns (p50 / p99 / max of the card's counters)"
    return (
        f"card: {measured if figures['events'] else 'no event'}; "
        f"{count(int(figures['firmware_requests']))} requests to the firmware; "
        f"simulated at {figures['cycles_per_s'] / 1e6:.2f} M cycles/s"
    )


def _summary(result: Mapping[str, Any]) -> RenderableType:
    closes = (
        "[green]the account closes[/]"
        if account_closes(result)
        else "[bold red]THE ACCOUNT DOES NOT CLOSE[/]"
    )
    return (
        f"{count(result['events_built'])} events, {count(result['rings'])} rings "
        f"in {result['elapsed_s']:.2f} s: {rate(result['events_per_s'], 'events')}; {closes}"
    )
