# SPDX-License-Identifier: Apache-2.0
"""GPU recovery process: a second CUDA context on the trigger's memory, after the GPU of the trigger failed.

The trigger runs this file with the path of the compiled core and a file descriptor. Nothing else is loaded.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys


def command() -> list[str]:
    """Command line of the recovery process, without the file descriptor."""
    from nanet import _core

    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(_core.__file__)]


def main() -> None:
    """Serves until the trigger stops it; never returns."""
    core_file, descriptor = sys.argv[1:]
    loader = importlib.machinery.ExtensionFileLoader("nanet._core", core_file)
    spec = importlib.util.spec_from_file_location("nanet._core", core_file, loader=loader)
    assert spec
    core = importlib.util.module_from_spec(spec)
    loader.exec_module(core)
    os._exit(core.serve_recovery(int(descriptor)))


if __name__ == "__main__":
    main()
