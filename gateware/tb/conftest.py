# SPDX-License-Identifier: SHL-2.1
"""Lets the tests import the helpers in support/, and the reference models of the software's tests."""

import sys
from pathlib import Path

here = Path(__file__).resolve().parent
for folder in (here / "support", here.parent, here.parent.parent / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
