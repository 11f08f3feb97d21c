# SPDX-License-Identifier: SHL-2.1
"""pytest configuration: import paths of the bench helpers and of the software's reference models."""

import sys
from pathlib import Path

here = Path(__file__).resolve().parent
for folder in (here / "support", here.parent, here.parent.parent / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
