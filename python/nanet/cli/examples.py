# SPDX-License-Identifier: Apache-2.0
"""Examples of each command, shown at the end of its help."""

from __future__ import annotations

import re

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "demo": (
        ("nanet demo", "ten seconds, at a speed that this host sustains"),
        ("nanet demo --algorithm math --duration 60", "one ring per event, many times as many events"),
        ("nanet demo --fault drop=0.01,corrupt=0.01 --report faults", "faults, and how they are counted"),
        ("nanet demo --final", "final trigger: boards send the selected events to a farm"),
    ),
    "trigger": (
        ("nanet trigger --listen 127.0.0.1:58913 --send 127.0.0.1:58914", "until Ctrl-C, then its account"),
        (
            "nanet trigger --config site.toml --strict --json run.json",
            "a site's configuration; exit status 1 after a loss or a late frame",
        ),
        (
            "nanet trigger --threads 3 --pin 2-5 --busy yes",
            "three workers beside the card, on separate CPUs",
        ),
    ),
    "readout": (
        ("nanet readout --to 127.0.0.1:58913 --speed 0.005 --duration 10", "50 000 events per second, 10 s"),
        (
            "nanet readout --pcap run.pcap --to 127.0.0.1:58913 --speed 0.002",
            "a capture with its own timing, slowed down",
        ),
        ("nanet readout --to 127.0.0.1:58913 --speed 0.005 --fault drop=0.01,reorder=0.05", "with faults"),
    ),
    "l0tp": (
        ("nanet l0tp --listen 127.0.0.1:58914", "counts frames and primitives until Ctrl-C"),
        (
            "nanet l0tp --listen 127.0.0.1:58914 --truth run.parquet --times /dev/shm/times",
            "checks, and latencies",
        ),
    ),
    "generate": (
        (
            "nanet generate --events 1e6 --seed 1 --out run.pcap --truth run.parquet",
            "0.1 s of detector time",
        ),
        (
            "nanet generate --rings 2 --noise 5 --out two.pcap --truth two.parquet",
            "two rings per event, high noise",
        ),
        (
            "nanet generate --boards merged --slots fixed --pad --out merged.pcap",
            "one stream of whole events",
        ),
        ("nanet generate --captures 100 --out month --truth truth --workers 8", "folders, by 8 processes"),
    ),
    "replay": (
        ("nanet replay run.pcap --out rings.parquet", "rings of every event"),
        (
            "nanet replay run.pcap --algorithm math --mtp answers.pcap --json -",
            "answers as a capture, numbers as JSON",
        ),
        (
            "nanet replay recorded/raw-000007-burst7.pcap recorded/raw-000008-burst8.pcap",
            "files of --record as one run; or give the folder",
        ),
        (
            "nanet replay run.pcap --boards merged --keep-bad bad.pcap",
            "a merged stream; refused packets kept",
        ),
        ("nanet replay month --out rings --workers 8", "each capture a run; one dataset"),
    ),
    "evaluate": (
        ("nanet evaluate --truth run.parquet --rings rings.parquet", "efficiency, fakes, resolutions"),
        (
            "nanet evaluate --truth run.parquet --rings rings.parquet --plots plots --json quality.json",
            "and figures",
        ),
        ("nanet evaluate --truth truth --rings rings --workers 8", "datasets, capture by capture"),
    ),
    "quality": (
        ("nanet quality", "every algorithm; report in nanet-quality/"),
        ("nanet quality --events 5000 --algorithms math,multiring --out look", "a quick look at two"),
    ),
    "export": (
        ("nanet export run.pcap rings.parquet run.parquet --out run.root", "trees events, rings, truth"),
        (
            "nanet export run.pcap --tables packets --out packets.parquet",
            "every packet of a capture, as a table",
        ),
    ),
    "detector": (
        ("nanet detector check plane.toml", "names the first mistake, or draws the plane"),
        ("nanet detector check na62 --out na62.svg", "the default detector as a figure"),
    ),
    "show": (
        ("nanet show run.pcap --event 17 --truth run.parquet", "in the terminal"),
        (
            "nanet show run.pcap --event 17 --rings rings.parquet --out event.svg",
            "with rings from a file; written as SVG",
        ),
    ),
    "build-algorithm": (
        (
            "nanet build-algorithm mine.hpp",
            "mine.so, for --algorithm ./mine.so; with nvcc also for GPUs",
        ),
        ("nanet build-algorithm mine.hpp --output /tmp/try.so --cuda off", "for CPUs only, to another file"),
    ),
    "mpirun": (
        ("nanet mpirun -n 4 ./program", "four processes with the MPI on the path"),
        ("nanet mpirun -n 2 --mpi /opt/mpi/bin/mpiexec python script.py", "with another MPI"),
    ),
    "dissector": (
        ("nanet dissector --install", "into the plugin folder of Wireshark and tshark"),
        ("tshark -X lua_script:$(nanet dissector) -r run.pcap -V", "without installation"),
    ),
    "torus": (
        ("nanet torus --size 8x8x8 --traffic uniform --plots plots", "latency against load, with a figure"),
        ("nanet torus --link reliable --payload 4096 --load 0.5", "4 KB packets over links with latency"),
        ("nanet torus curves", "half round trip and bandwidth of the historic card, with the parameters"),
        ("nanet torus lqcd --gflops 2000", "bandwidth that lattice QCD requires of a faster GPU"),
    ),
    "bench": (
        ("nanet bench latency", "round trips of one packet, beside a bare UDP echo"),
        ("nanet bench loopback --json loopback.json", "the largest lossless rate of the chain"),
    ),
    "schema": (("nanet schema > nanet.schema.json", "for the editor's TOML language server"),),
    "tune": (("nanet tune --pin 2-5 --dry-run", "the commands, without any change"),),
    "doctor": (
        ("nanet doctor", "is this host fit for real time, and if not, why"),
        ("nanet doctor --json -", "the same for a program"),
    ),
}


WIDTH = 76  # longest line of a command: with its margins, the narrowest usual terminal


def lines_of(command: str) -> list[str]:
    """A command as lines of a shell, continued before options."""
    lines = [""]
    for part in re.split(r" (?=--)", command):
        longer = f"{lines[-1]} {part}".strip()
        if len(longer) <= WIDTH or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(part)
    return [line + " \\" * (line is not lines[-1]) for line in lines]


def epilog(name: str) -> str | None:
    """Examples of a command as the end of its help: what it does as a comment, then lines to copy."""
    examples = EXAMPLES.get(name)
    if not examples:
        return None
    parts = ["\n".join([f"# {what}", *lines_of(command)]) for command, what in examples]
    return "\n\n".join(["Examples:", *parts])
