# SPDX-License-Identifier: Apache-2.0
"""`nanet doctor`: real-time fitness of this host, with remedies."""

from __future__ import annotations

from typing import Annotated, Any

import attrs
import typer

from nanet.cli.options import JsonFile
from nanet.cli.tune import Pin, pinned_cpus
from nanet.config.sections import (
    DEFAULT_DEADLINE_US,
    DEFAULT_TIMEOUT_US,
    REAL_TIME_DEADLINE_US,
    REAL_TIME_TIMEOUT_US,
)
from nanet.report.output import check_writable, console, write_json
from nanet.run import gpu_path, host, mailbox, nic, placement, tuning


def examine(pinned: list[int]) -> dict[str, Any]:
    """Result of the examination, as the command's JSON. pinned: CPUs of the trigger's threads."""
    fit, reasons = host.fit_for_real_time()
    network, gpu_paths = nic.interfaces(), gpu_path.paths()
    mailboxes = mailbox.probes()
    return {
        "real_time": fit,
        "timeout_us": REAL_TIME_TIMEOUT_US if fit else DEFAULT_TIMEOUT_US,
        "deadline_us": REAL_TIME_DEADLINE_US if fit else DEFAULT_DEADLINE_US,
        "reasons": [
            {"name": r.name, "fit": r.fit, "found": r.found, "remedy": "" if r.fit else r.remedy}
            for r in reasons
        ],
        # Worth fixing, but no reason for longer timeouts.
        "advice": [
            {"name": r.name, "fit": r.fit, "found": r.found, "remedy": "" if r.fit else r.remedy}
            for r in (
                placement.chain_reason(),
                host.memory_reason(),
                *host.gpu_reasons(),
                *gpu_path.reasons(gpu_paths),
                *mailbox.reasons(mailboxes),
                *nic.reasons(network, pinned),
            )
        ],
        "kernel_settings": [
            {**attrs.asdict(setting), "fit": setting.fit, "command": setting.command}
            for setting in tuning.settings(pinned)
        ],
        "kernel_findings": [attrs.asdict(finding) for finding in tuning.findings(pinned)],
        "gpus": host.gpu_states(),
        "gpu_paths": gpu_paths,
        "mailboxes": mailboxes,
        "network": network,
        "host": host.describe(),
        "cpu_quota": host.cpu_quota(),
        "huge_pages": host.huge_pages(),
        "udp_offload": host.udp_offload(),
        "gpu_driver": host.gpu_driver(),
        "libcuda": host.has_libcuda(),
        "cuda": host.cuda(),
        "capabilities": {
            "net_admin": host.has_capability(host._CAP_NET_ADMIN),
            "sys_nice": host.has_capability(host._CAP_SYS_NICE),
        },
        "core": _core_version(),
    }


def _core_version() -> str:
    try:
        from nanet import _core
    except ImportError as error:
        return f"missing ({error})"
    return getattr(_core, "__version__", "present")


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    about, pages, offload = found["host"], found["huge_pages"], found["udp_offload"]
    yes = {True: "yes", False: "no"}
    gpu = ", ".join(about["gpu"]) or "none"
    if about["gpu"]:
        library = "there" if found["libcuda"] else "missing"
        gpu += f" (driver {found['gpu_driver'] or 'unknown'}, libcuda {library})"
    return [
        ("processor", f"{about['cpu']}, {about['cores']} CPUs"),
        ("kernel", about["kernel"]),
        ("load", " ".join(f"{value:g}" for value in about["load"])),
        ("GPU", gpu),
        ("CUDA", _cuda(found["cuda"])),
        ("UDP segmentation / coalescing", f"{yes[offload['gso']]} / {yes[offload['gro']]} (loopback)"),
        ("network", _network(found["network"])),
        ("huge pages", f"{pages['reserved']} reserved, transparent: {pages['transparent'] or 'unknown'}"),
        (
            "may set priorities / buffers",
            " / ".join(yes[v] for v in reversed(found["capabilities"].values())),
        ),
        ("compiled core", found["core"]),
    ]


def _network(interfaces: list[dict[str, Any]]) -> str:
    """Physical interfaces: driver, queues, XDP."""
    return (
        "; ".join(
            f"{one['name']} ({one['driver'] or 'no driver'}, {one['state']}, MTU {one['mtu']}, "
            f"receive queues: {one['receive_queues']}, XDP: {' '.join(one['xdp'] or ['none'])})"
            for one in interfaces
            if one["physical"]
        )
        or "no physical interface"
    )


def _cuda(cuda: dict[str, Any]) -> str:
    """Device that --device cuda selects, or the reason why there is none."""
    if cuda["trouble"]:
        remedy = "" if cuda["built"] else "; build with nvcc 12.8 or newer, without NANET_CUDA=OFF"
        return f"not usable: {cuda['trouble']}{remedy}"
    return ", ".join(
        f"cuda:{d['number']} {d['name']} ({d['compute_capability'][0]}.{d['compute_capability'][1]}, "
        f"{d['multiprocessors']} multiprocessors, {d['memory_bytes'] / 2**30:.0f} GiB)"
        for d in cuda["devices"]
    )


def _commands(unfit: list[dict[str, Any]], pin: str) -> list[str]:
    """Lines that can be pasted into a shell of root: a command per setting, those of interrupts as one."""
    lines = [
        f"{one['command']}   # now {one['found']}; {one['why']}"
        for one in unfit
        if not one["name"].startswith("interrupt ")
    ]
    interrupts = [one["name"].split()[-1] for one in unfit if one["name"].startswith("interrupt ")]
    if interrupts:
        listed = ", ".join(interrupts)
        lines.append(f"nanet doctor --pin {pin} --fix   # commands for interrupts {listed} on pinned CPUs")
    return lines


def doctor(
    pin: Pin = "",
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Print the commands that make the kernel settings fit, and nothing else."),
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Real-time fitness of this host: verdict, reasons and remedies."""
    from rich.table import Table

    check_writable(json=json_file)
    found = examine(pinned_cpus(pin))
    out = console(json_file)
    if fix:
        for command in [one["command"] for one in found["kernel_settings"] if not one["fit"]]:
            out.print(command, highlight=False, markup=False, soft_wrap=True)
        write_json(found, json_file)
        return
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in _facts(found):
        facts.add_row(name, value)
    out.print(facts)
    out.print()
    checks = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for reason in (*found["reasons"], *found["advice"]):
        mark = "[green]fit[/]" if reason["fit"] else "[yellow]not fit[/]"
        checks.add_row(mark, reason["name"], reason["found"])
        if reason["remedy"]:
            checks.add_row("", "", f"[dim]→ {reason['remedy']}[/]")
    for one in found["kernel_findings"]:
        checks.add_row("[green]fit[/]" if one["fit"] else "[yellow]not fit[/]", one["name"], one["found"])
        if not one["fit"]:
            checks.add_row("", "", f"[dim]→ {one['remedy']}[/]")
    unfit = [one for one in found["kernel_settings"] if not one["fit"]]
    checks.add_row(
        "[yellow]not fit[/]" if unfit else "[green]fit[/]",
        "kernel settings",
        f"{len(unfit)} of {len(found['kernel_settings'])} differ, for root:" if unfit else "as needed",
    )
    out.print(checks)
    for command in _commands(unfit, pin):
        out.print(command, highlight=False, markup=False, soft_wrap=True)
    out.print()
    verdict = (
        "[bold green]fit for real time[/]" if found["real_time"] else "[bold yellow]not fit for real time[/]"
    )
    out.print(
        f"This host is {verdict}: frames close after {found['timeout_us'] / 1000:g} ms and are due after "
        f"{found['deadline_us'] / 1000:g} ms, unless --timeout-us and --deadline-us are given."
    )
    write_json(found, json_file)
