# SPDX-License-Identifier: Apache-2.0
"""The helper process that brings a lost GPU back: a CUDA context of its own on the trigger's memory.

Run as a file, with the compiled core and the file descriptor that the trigger hands down; it loads nothing
else.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys


def command() -> list[str]:
    """What the trigger starts, the file descriptor aside."""
    from nanet import _core

    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(_core.__file__)]


def main() -> None:
    """Serves until it is told to leave; never returns."""
    core_file, descriptor = sys.argv[1:]
    loader = importlib.machinery.ExtensionFileLoader("nanet._core", core_file)
    spec = importlib.util.spec_from_file_location("nanet._core", core_file, loader=loader)
    assert spec
    core = importlib.util.module_from_spec(spec)
    loader.exec_module(core)
    os._exit(core.serve_helper(int(descriptor)))


if __name__ == "__main__":
    main()
