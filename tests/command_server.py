# SPDX-License-Identifier: Apache-2.0
"""Fork server of the command line: runs `nanet` in forked processes that have its modules loaded.

A request is a line of JSON on standard input: `arguments`, `cwd`, `out`, `err` (files), `timeout` in seconds.
The answer is a line on standard output: the exit status, or `null` after the time-out. Start-up of the
interpreter and imports take most of the time of a short command.
"""

import gc
import importlib
import json
import os
import select
import signal
import sys
from typing import Any

MODULES = (
    "awkward",
    "matplotlib.pyplot",
    "nanet._core",
    "nanet.analysis",
    "nanet.files.export",
    "nanet.quality.evaluate_plots",
    "rich.markdown",
    "scipy.optimize",
    "scipy.special",
    "typer.rich_utils",
    "uproot",
)


def load() -> None:
    from nanet.cli import app

    for name in MODULES:
        importlib.import_module(name)
    for name in app.COMMANDS:
        app.command_function(name)
    # A collection in a child would write to each object, and so copy all pages of this process.
    gc.collect()
    gc.freeze()


def run(request: dict[str, Any]) -> None:
    """Runs one command in this process, which does not return."""
    os.chdir(request["cwd"])
    for path, flags, number in (
        (os.devnull, os.O_RDONLY, 0),
        (request["out"], os.O_WRONLY, 1),
        (request["err"], os.O_WRONLY, 2),
    ):
        os.dup2(os.open(path, flags), number)
    sys.argv = ["nanet", *request["arguments"]]
    status: object = 1
    try:
        from nanet.cli.app import main

        status = main()
    except SystemExit as end:
        status = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else int(status is not None))


def main() -> None:
    load()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            run(request)
        ended, _, _ = select.select([handle := os.pidfd_open(child)], [], [], request["timeout"])
        os.close(handle)
        if not ended:
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps(status if ended else None), flush=True)


if __name__ == "__main__":
    main()
