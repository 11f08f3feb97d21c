# SPDX-License-Identifier: Apache-2.0
"""Settings of the final trigger for the core, and options that exclude each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nanet.config.file import Config
from nanet.config.options import Section, core_values, named
from nanet.config.sections import Card, Final, Monitor, RealTime, Trigger
from nanet.config.values import endpoints
from nanet.errors import UsageError
from nanet.run.core_options import check_late, check_latency

# Options of a trigger without effect at level 1.
WITHOUT_LEVEL1: dict[type[Section], tuple[str, ...]] = {
    Trigger: ("threads", "conditions", "burst_report", "downscale"),
    Card: ("card", "node", "gather", "merge", "card_threads", "pin", "keep_bad", "record"),
    RealTime: ("scheduler",),
    Monitor: ("monitor",),
    Final: ("final_boards", "close_ticks", "choke"),
}


def refuse_final_options(config: Config, remedy: str, where: str = "command line: ") -> None:
    """UsageError for an option of the final trigger on the command line without effect there.

    A section of the file may serve several programs. where, remedy: the text around key and value.
    """
    for name, value in config.given(Final).items():
        raise UsageError(f"{where}{named(Final, name)} = {value!r}: {remedy}")


def check_card_options(final: Final, releases: bool, remedy: str) -> None:
    """UsageError for options of a card that releases the triggers. remedy: options that give one."""
    for name, value in (("choke", final.choke), ("close_ticks", final.close_ticks)):
        if value and not releases:
            raise UsageError(f"final.{name} = {value!r}: needs {remedy}")


def final_settings(config: Config, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the core for the final trigger; empty without it. settings: of the core's Trigger."""
    final = config[Final]
    releases = bool(final.final_boards) and config[Card].card == "gateware"
    check_card_options(final, releases, "--final-boards and --card gateware")
    if not final.final_boards:
        refuse_final_options(config, "needs --final-boards")
        return {}
    given, boards = len(endpoints(final.final_boards)), settings["boards"].bit_count() or 1
    if given != boards:
        raise UsageError(
            f"{named(Final, 'final_boards')} = {final.final_boards!r}: {given} addresses are given; give one "
            f"for each of {boards} boards"
        )
    check_late(final, config[Card])
    if final.latency_us and (final.sync or releases):
        check_latency(final, final.latency_us, settings["timeout_us"], final.clock_speed)
    return core_values(final)


def check_level1(config: Config) -> None:
    """UsageError for an option of the trigger that level 1 does not read."""
    for section, names in WITHOUT_LEVEL1.items():
        values, default = config[section], section()
        for name in names:
            if (value := getattr(values, name)) != getattr(default, name):
                text = f"trigger.input = 'mep' with {named(section, name)} = {value!r}"
                raise UsageError(f"{text}: level 1 has no such option: leave it out")
    refuse_final_options(config, "level 1 has no such option: leave it out", "trigger.input = 'mep' with ")
