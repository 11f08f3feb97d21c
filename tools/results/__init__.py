# SPDX-License-Identifier: Apache-2.0
"""Page generator: results/*.json to docs/results.md and the table of README.md; gateware/doc/modules.md.

    ./dev results                       # regenerates all
    ./dev results --check               # exit status 1 if they are out of date
    ./dev results --add FILE MACHINE    # copies a bench output into results/ first
                  [--label LABEL]

File names: BENCH-MACHINE[-LABEL].json, for example trigger-H200-60s.json. BENCH is the name of the
measurement (`nanet bench NAME --json FILE`, `nanet quality --json FILE`), MACHINE a key of
results/machines.json, LABEL separates several runs. A new measurement replaces the file of the same name, or
stands beside it under a label. README.md takes the round trip from latency-H200u.json and the rates from
rings-A.json and rings-H200.json (constants in readme.py). results/targets.json names the file of each target.

Keys of every file: `bench`, `command`, `date`, `commit`, `rows`, `figures`. Files with `transcribed_from`
hold figures copied from a page of the history; that key names page and commit. A missing figure is a dash.
gateware/syn/results.md, which ./dev synth writes, is the source of the synthesis summary.
"""
