# SPDX-License-Identifier: Apache-2.0
"""Notebooks run from beginning to end and produce their drawings."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient


@pytest.fixture
def executed(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nbformat.NotebookNode:
    """The notebook with its outputs, run in tmp_path."""
    for name in ("HOME", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    os.makedirs(tmp_path / "home")
    notebook = nbformat.read(root / "examples" / "notebooks" / "efficiency.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without its outputs"
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    return notebook


def test_from_a_capture_to_an_efficiency_plot(executed: nbformat.NotebookNode, tmp_path: Path) -> None:
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    text = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    assert "fragments make 19" in text and "20 000 events" in text and "\x1b" not in text
    shares = {
        line.split()[0]: [float(word) for word in line.split()[3:12:3]]
        for line in text.splitlines()
        if "rings" in line and "fakes" in line
    }
    assert set(shares) == {"math", "almagest", "multiring"}
    assert shares["multiring"][0] > 0.95
    assert shares["multiring"][1] > 0.85
    assert shares["math"][1] < shares["almagest"][1] < shares["multiring"][1]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 2
    assert "<svg" in (tmp_path / "efficiency.svg").read_text()
