# SPDX-License-Identifier: Apache-2.0
"""Detector in memory: positions of the channels, and every parameter with its value in effect."""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import numpy as np

NARROW_CHANNELS = 1952  # most channels of hit encoding 0, as NA62's
NA62_NAME = "NA62 RICH"
NA62_DIGEST = "d7682c4b96c8b246"  # of na62.toml; provenance of the default without reading the file

MASSES_GEV = {"e": 0.000510999, "mu": 0.1056584, "pi": 0.1395702, "K": 0.493677}


@attrs.frozen
class Optics:
    """Radiator and focus: radius and light of a ring."""

    focal_mm: float
    n_minus_1: float
    radiator_cm: float
    n0_per_cm: float

    def radius_mm(self, mass_gev: float, momentum_gev: float) -> float:
        """Radius of a ring in mm; 0 below the threshold. Momentum in GeV/c, infinite for beta = 1."""
        cosine = math.sqrt(1.0 + (mass_gev / momentum_gev) ** 2) / (1.0 + self.n_minus_1)
        return self.focal_mm * math.sqrt(1.0 - cosine * cosine) / cosine if cosine < 1.0 else 0.0

    def photoelectrons(self, radius_mm: float) -> float:
        """Mean number of photoelectrons of a ring: N0 L sin²θ."""
        tangent = radius_mm / self.focal_mm
        return self.n0_per_cm * self.radiator_cm * tangent**2 / (1.0 + tangent**2)

    @property
    def largest_mm(self) -> float:
        """Radius at beta = 1."""
        return self.radius_mm(0.0, math.inf)


@attrs.frozen
class MonteCarlo:
    """Parameters of the toy Monte Carlo, as in [monte_carlo]."""

    reach_mm: float
    optics_mm: float
    centre_mm: float
    centre_sigma_mm: float
    momentum_gev: tuple[float, float]
    particles: tuple[float, float, float, float]  # shares of e, mu, pi, K
    rings: tuple[float, ...]  # shares of 0 to 4 rings
    hit_sigma_ns: float
    board_offset_ns: float


@attrs.frozen
class RingModel:
    """Parameters that ring algorithms take from the detector, as in [rings]."""

    hit_sigma_mm: float
    reach_mm: float
    channel_area_mm2: float
    edge_mm: float


@attrs.frozen
class Display:
    """Drawing: limits of the common plane in mm, shape and size of a channel."""

    x_mm: tuple[float, float]
    y_mm: tuple[float, float]
    shape: str  # of a channel: hexagon or square
    pitch_mm: float


@attrs.frozen(eq=False)
class Detector:
    """A detector. Arrays are by channel (PM ID); positions are float32, as in the core."""

    name: str
    disks: tuple[str, ...]
    shifts: np.ndarray  # (disks, 2), mm: position on the disk minus position in the common plane
    position: np.ndarray  # (channels, 2), mm, on its disk
    disk: np.ndarray  # number of the disk
    board: np.ndarray  # number of the readout board
    optics: Optics
    rings: RingModel
    monte_carlo: MonteCarlo
    algorithms: dict[str, dict[str, float]]  # default parameters that differ from the algorithm's
    display: Display
    digest: str = attrs.field(init=False)

    @digest.default
    def _digest(self) -> str:
        content = json.dumps(self._content(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return len(self.position)

    @property
    def boards(self) -> int:
        """Number of readout boards."""
        return int(self.board[-1]) + 1

    @property
    def wide(self) -> bool:
        """Whether packets hold PM IDs of 16 bits and no hit times (hit encoding 1)."""
        return self.channels > NARROW_CHANNELS

    @property
    def common(self) -> np.ndarray:
        """Positions in the common plane, mm: float32, (channels, 2)."""
        import numpy as np  # commands start without it

        return self.position - self.shifts.astype(np.float32)[self.disk]

    @property
    def is_na62(self) -> bool:
        """Whether this is the compiled-in default."""
        return self.digest == NA62_DIGEST

    def first_of_boards(self) -> list[int]:
        """First channel of each board, and the number of channels."""
        import numpy as np  # commands start without it

        return [int(np.searchsorted(self.board, b)) for b in range(self.boards)] + [self.channels]

    def _content(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "x": self.position[:, 0].tolist(),
            "y": self.position[:, 1].tolist(),
            "disk": self.disk.tolist(),
            "shifts": self.shifts.tolist(),
            "boards": self.first_of_boards(),
            "optics": attrs.asdict(self.optics),
            "rings": attrs.asdict(self.rings),
            "monte_carlo": attrs.asdict(self.monte_carlo),
            "algorithms": self.algorithms,
        }

    def core(self) -> dict[str, Any] | None:
        """Dictionary for nanet._core; None: the compiled-in detector."""
        return None if self.is_na62 else self.dictionary()

    def dictionary(self) -> dict[str, Any]:
        """Dictionary for nanet._core, of any detector."""
        return {**self._content(), "digest": self.digest}
