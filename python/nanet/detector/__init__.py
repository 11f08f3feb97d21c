# SPDX-License-Identifier: Apache-2.0
"""Detectors as data: channels, disks, boards, ring and Monte Carlo parameters, from one file.

NA62's RICH is the default and is also compiled in. File format: docs/your-detector.md.
"""

from __future__ import annotations

from nanet.detector.model import NA62_DIGEST, NA62_NAME, Detector
from nanet.detector.reader import SHIPPED, as_detector, load, load_or_default

__all__ = ["NA62_DIGEST", "NA62_NAME", "SHIPPED", "Detector", "as_detector", "load", "load_or_default"]
