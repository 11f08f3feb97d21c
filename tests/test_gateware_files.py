# SPDX-License-Identifier: Apache-2.0
"""File list and FuseSoC core of the gateware."""

import subprocess
import sys
from pathlib import Path


def test_they_name_every_source_that_the_card_needs(root: Path) -> None:
    command = [sys.executable, root / "gateware" / "filelist.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    listed = (root / "gateware" / "nanet_card.f").read_text().split()
    assert "rtl/top/nanet_card_us.sv" in listed and not [name for name in listed if "torus" in name]


def test_a_missing_source_is_reported(root: Path, tmp_path: Path) -> None:
    for name in ("filelist.py", "nanet_card.core"):
        (tmp_path / name).write_text((root / "gateware" / name).read_text())
    text = (root / "gateware" / "nanet_card.f").read_text()
    (tmp_path / "nanet_card.f").write_text(text.replace("rtl/rx/tlb.sv\n", ""))
    (tmp_path / "rtl").symlink_to(root / "gateware" / "rtl")
    command = [sys.executable, tmp_path / "filelist.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "nanet_card.f is out of date" in done.stdout
