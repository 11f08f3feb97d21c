# SPDX-License-Identifier: Apache-2.0
"""Detector files: TOML with a table of channels, or CSV with the TOML keys in its leading comment lines.

Every UsageError names the file, the key, the value and the remedy.
"""

from __future__ import annotations

import csv
import functools
import io
import math
from collections.abc import Iterable
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


from nanet.detector.model import MASSES_GEV, Detector, Display, MonteCarlo, Optics, RingModel
from nanet.errors import UsageError, describe_os_error, near, parse_toml

SHIPPED = ("na62", "square", "hexagonal")  # names that stand for files of the package
MOST_CHANNELS, MOST_BOARDS, MOST_DISKS = 65536, 8, 8
MOST_STEPS = 1 << 24  # of a position; float32 holds these exactly
MOST_MM = 900.0  # float32 keeps the precision of the fits to here
COLUMNS = ("x", "y", "disk", "board")
SHAPES = ("hexagon", "square")
TOP = ("name", "unit_mm", "pitch_mm", "shape", "channels", "disk", "optics", "rings", "monte_carlo",
       "algorithm", "display")  # fmt: skip


def load(given: str) -> Detector:
    """Reads a detector file, or one of the package by name (na62, square, hexagonal). UsageError."""
    if given in SHIPPED:
        text = resources.files("nanet.detector").joinpath(f"{given}.toml").read_text(encoding="utf-8")
        return _File(f"{given}.toml", text).detector()
    try:
        with open(given, encoding="utf-8-sig") as file:
            text = file.read()
    except OSError as error:
        remedy = f"give a file that can be read, or one of {', '.join(SHIPPED)}"
        raise UsageError(f"--detector {describe_os_error(error, given)}: {remedy}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{given}: is not UTF-8 text: byte {error.start}") from None
    return _File(given, text).detector()


@functools.lru_cache(maxsize=8)
def _shipped(name: str) -> Detector:
    return load(name)


def load_or_default(given: str | None) -> Detector:
    """Detector of an option; NA62's for none."""
    return load(given) if given and given not in SHIPPED else _shipped(given or "na62")


def as_detector(given: str | Detector | None) -> Detector | None:
    """Detector of an argument; None for NA62's, which is compiled in. UsageError."""
    if not given:
        return None
    found = load_or_default(given) if isinstance(given, str) else given
    if not isinstance(found, Detector):
        raise UsageError(f"detector is {type(given).__name__}: must be a file, a name or a Detector")
    return None if found.is_na62 else found


class _File:
    """One detector file while it is read."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        is_csv = path.lower().endswith(".csv")
        lines = text.splitlines()
        head = [line[1:].removeprefix(" ") for line in lines if line.startswith("#")] if is_csv else lines
        where = "the comment lines are" if is_csv else "is"
        self.tables = parse_toml("\n".join(head), f"{path}: {where}")
        if is_csv:
            self._check("channels" not in self.tables, "channels", "a CSV file has them as rows")
            self.tables["channels"] = self._rows([line for line in lines if not line.startswith("#")])

    # ---- Values.

    def _check(self, good: bool, key: str, remedy: str) -> None:
        if not good:
            raise UsageError(f"{self.path}: {key}: {remedy}")

    def _known(self, table: dict[str, Any], prefix: str, known: Iterable[str]) -> None:
        for key in table:
            if key not in known:
                raise UsageError(f"{self.path}: {prefix}{key}: no such key{near(key, known)}")

    def _table(self, name: str, known: Iterable[str]) -> dict[str, Any]:
        table = self.tables.get(name, {})
        self._check(isinstance(table, dict), name, f"must be a table, [{name}]")
        self._known(table, f"{name}.", known)
        return table

    def _number(self, key: str, value: Any, low: float, high: float) -> float:
        good = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        self._check(good, f"{key} = {_shown(value)}", f"must be a number from {low:g} to {high:g}")
        return float(value)

    def _numbers(self, key: str, value: Any, count: int, low: float, high: float) -> tuple[float, ...]:
        good = isinstance(value, list) and len(value) == count
        self._check(good, f"{key} = {_shown(value)}", f"must be a list of {count} numbers")
        return tuple(self._number(f"{key}[{at}]", each, low, high) for at, each in enumerate(value))

    def _text(self, key: str, value: Any) -> str:
        good = isinstance(value, str) and 0 < len(value) <= 64 and value.isprintable()
        self._check(good, f"{key} = {_shown(value)}", "must be a text of 1 to 64 characters")
        return value

    # ---- Parts.

    def _rows(self, lines: list[str]) -> list[list[Any]]:
        """Rows of a CSV table: x, y, and disk and board where they have a column."""
        text = "\n".join(line for line in lines if line.strip())
        try:
            rows = list(csv.reader(io.StringIO(text)))
        except csv.Error as error:
            raise UsageError(f"{self.path}: the table: is not CSV: {error}") from None
        self._check(bool(rows), "the table", f"is missing: give a header line {','.join(COLUMNS)} and a row "
                    "for each channel")  # fmt: skip
        head = [name.strip() for name in rows[0]]
        self._known(dict.fromkeys(head), "column ", COLUMNS)
        for name in head:
            self._check(head.count(name) == 1, f"column {name}", f"occurs {head.count(name)} times")
        for name in ("x", "y"):
            self._check(name in head, f"column {name}", f"is missing in the header {','.join(head)}")
        at = [head.index(name) if name in head else None for name in COLUMNS]
        found = []
        for number, row in enumerate(rows[1:]):
            good = len(row) == len(head) and all(_whole(cell) for cell in row)
            right = f"must be {len(head)} whole numbers, as the header has"
            self._check(good, f"channel {number}: {_shown(','.join(row))}", right)
            found.append([int(row[column]) if column is not None else 0 for column in at])
        return found

    def _channels(self, disks: int) -> np.ndarray:
        """Table of channels, checked: (channels, 4), columns as COLUMNS."""
        import numpy as np  # commands start without it

        given = self.tables.get("channels")
        right = "must be a list of rows [x, y, disk, board], in steps of unit_mm"
        self._check(isinstance(given, list) and bool(given), "channels", right)
        limit = f"{len(given)} channels: a detector has at most {MOST_CHANNELS}"
        self._check(len(given) <= MOST_CHANNELS, "channels", limit)
        for number, row in enumerate(given):
            good = isinstance(row, list) and 2 <= len(row) <= 4 and all(type(v) is int for v in row)
            key = f"channels[{number}] = {_shown(row)}"
            self._check(good, key, "must be 2 to 4 whole numbers: x, y, disk, board")
            self._check(all(abs(v) <= MOST_STEPS for v in row), key, f"must be within {MOST_STEPS} steps")
        table = np.array([(*row, 0, 0)[:4] for row in given], dtype=np.int64)
        for column, most, what in ((2, disks, "disks"), (3, MOST_BOARDS, "boards")):
            wrong = np.flatnonzero((table[:, column] < 0) | (table[:, column] >= most))
            if len(wrong):
                key = f"channels[{wrong[0]}].{COLUMNS[column]} = {table[wrong[0], column]}"
                raise UsageError(f"{self.path}: {key}: must be 0 to {most - 1}: {what} count from 0")
        board = table[:, 3]
        self._check(board[0] == 0, f"channels[0].board = {board[0]}", "must be 0: boards count from 0")
        steps = np.diff(board, prepend=0)
        wrong = np.flatnonzero((steps < 0) | (steps > 1))
        if len(wrong):
            key = f"channels[{wrong[0]}].board = {board[wrong[0]]}"
            right = "boards serve consecutive channels, board 0 the first: order the channels by board"
            raise UsageError(f"{self.path}: {key}: {right}")
        _, first, back = np.unique(table[:, :3], axis=0, return_index=True, return_inverse=True)
        twice = np.flatnonzero(first[back.reshape(-1)] != np.arange(len(table)))
        if len(twice):
            x, y, disk, _ = table[twice[0]].tolist()
            other = int(first[back.reshape(-1)[twice[0]]])
            key = f"channels[{twice[0]}] = [{x}, {y}, {disk}]"
            raise UsageError(f"{self.path}: {key}: channel {other} is at the same place: move one of them")
        return table

    def _disks(self) -> tuple[tuple[str, ...], np.ndarray]:
        import numpy as np  # commands start without it

        given = self.tables.get("disk", [{}])
        good = isinstance(given, list) and 1 <= len(given) <= MOST_DISKS
        self._check(good and all(isinstance(d, dict) for d in given), "disk",
                    f"must be 1 to {MOST_DISKS} tables [[disk]]")  # fmt: skip
        names, shifts = [], []
        for number, disk in enumerate(given):
            key = f"disk[{number}]"
            self._known(disk, f"{key}.", ("name", "shift_mm"))
            names.append(self._text(f"{key}.name", disk.get("name", f"disk {number}")))
            shift = disk.get("shift_mm", [0.0, 0.0])
            shifts.append(self._numbers(f"{key}.shift_mm", shift, 2, -1e5, 1e5))
        return tuple(names), np.array(shifts, dtype=np.float64)

    def _optics(self) -> Optics:
        given = self._table("optics", ("focal_mm", "n_minus_1", "radiator_cm", "n0_per_cm"))
        limits = {"focal_mm": (1.0, 1e6), "n_minus_1": (1e-6, 1.0), "radiator_cm": (1e-3, 1e5),
                  "n0_per_cm": (1e-3, 1e4)}  # fmt: skip
        for key in limits:
            self._check(key in given, f"optics.{key}", "is missing: it sets radius and light of the rings")
        optics = Optics(**{key: self._number(f"optics.{key}", given[key], *limits[key]) for key in limits})
        right = f"gives rings of {optics.largest_mm:.1f} mm at beta = 1: must be 20 to 600 mm"
        self._check(20.0 <= optics.largest_mm <= 600.0, f"optics.focal_mm = {optics.focal_mm:g}", right)
        return optics

    def _monte_carlo(self, pitch: float, shape: str, optics: Optics) -> MonteCarlo:
        corner = pitch / math.sqrt(3.0 if shape == "hexagon" else 2.0)
        defaults: dict[str, Any] = {
            "reach_mm": math.ceil(corner * 10.0 - 1e-9) / 10.0, "optics_mm": 1.0, "centre_mm": 0.0,
            "centre_sigma_mm": 60.0, "momentum_gev": [12.0, 60.0],
            "particles": {"mu": 0.55, "pi": 0.35, "e": 0.10},
            "rings": [0.05, 0.45, 0.27, 0.18, 0.05], "hit_sigma_ns": 0.3, "board_offset_ns": 1.0,
        }  # fmt: skip
        given = {**defaults, **self._table("monte_carlo", defaults)}
        at = "monte_carlo"
        low, high = self._numbers(f"{at}.momentum_gev", given["momentum_gev"], 2, 0.01, 1e5)
        self._check(low < high, f"{at}.momentum_gev = [{low:g}, {high:g}]", "the first must be the smaller")
        particles = given["particles"]
        self._check(isinstance(particles, dict), f"{at}.particles", "must be a table of shares")
        self._known(particles, f"{at}.particles.", MASSES_GEV)
        shares = {p: self._number(f"{at}.particles.{p}", share, 0.0, 1.0) for p, share in particles.items()}
        for particle, share in shares.items():
            right = f"gives no light at {high:g} GeV/c: raise monte_carlo.momentum_gev, or set the share to 0"
            light = not share or optics.radius_mm(MASSES_GEV[particle], high) > 0
            self._check(light, f"{at}.particles.{particle} = {share:g}", right)
        rings = self._numbers(f"{at}.rings", given["rings"], 5, 0.0, 1.0)
        for key, total in (("particles", sum(shares.values())), ("rings", sum(rings))):
            self._check(abs(total - 1.0) < 1e-9, f"{at}.{key}", f"the shares add up to {total:g}: must be 1")
        number = functools.partial(self._part, at, given)
        return MonteCarlo(
            reach_mm=number("reach_mm", 0.1, 200.0), optics_mm=number("optics_mm", 0.0, 100.0),
            centre_mm=number("centre_mm", -MOST_MM, MOST_MM),
            centre_sigma_mm=number("centre_sigma_mm", 0.1, MOST_MM), momentum_gev=(low, high),
            particles=tuple(shares.get(p, 0.0) for p in MASSES_GEV), rings=rings,
            hit_sigma_ns=number("hit_sigma_ns", 0.0, 100.0),
            board_offset_ns=number("board_offset_ns", 0.0, 100.0),
        )  # fmt: skip

    def _part(self, table: str, given: dict[str, Any], key: str, low: float, high: float) -> float:
        return self._number(f"{table}.{key}", given[key], low, high)

    def _rings(self, pitch: float, shape: str, monte_carlo: MonteCarlo, largest_disk: int) -> RingModel:
        """[rings]; the defaults follow from pitch and shape, and are NA62's values for its lattice."""
        hexagon = shape == "hexagon"
        spread = pitch * math.sqrt(5.0 / 72.0 if hexagon else 1.0 / 12.0)  # of a uniform hit, per axis
        area = pitch**2 * (math.sqrt(0.75) if hexagon else 1.0)
        corner = pitch / math.sqrt(3.0 if hexagon else 2.0)
        defaults = {
            "hit_sigma_mm": round(math.hypot(spread, monte_carlo.optics_mm), 2),
            "reach_mm": round(corner + 1.6 * monte_carlo.optics_mm, 1),
            "channel_area_mm2": round(area, 3),
            "edge_mm": max(round(math.sqrt(largest_disk * area / math.pi) - 1.3 * pitch, 0), pitch),
        }
        given = {**defaults, **self._table("rings", defaults)}
        return RingModel(**{key: self._number(f"rings.{key}", given[key], 0.01, 1e5) for key in defaults})

    def _algorithms(self, optics: Optics, rings: RingModel, monte_carlo: MonteCarlo) -> dict[str, Any]:
        """Default parameters of the algorithms; for NA62's rings they are the algorithms' own."""
        largest = optics.largest_mm
        r_max, r_min = round(largest, 1), round(0.2622 * largest, 0)
        one = {"r_min": r_min, "r_max": round(r_max + 2.06 * rings.hit_sigma_mm, 0)}
        robust = {**one, "cut": rings.reach_mm}
        found: dict[str, dict[str, float]] = {
            "math": one,
            **{name: dict(robust) for name in ("tripl", "hough", "pomh", "domh", "almagest")},
            "multiring": {
                "r_min": round(0.236 * largest, 0), "r_max": r_max,
                "yield": round(optics.photoelectrons(largest), 1),
                "centre_x": monte_carlo.centre_mm, "centre_sigma": monte_carlo.centre_sigma_mm,
            },
        }  # fmt: skip
        given = self.tables.get("algorithm", {})
        self._check(isinstance(given, dict), "algorithm", "must be tables, [algorithm.NAME]")
        for name, parameters in given.items():
            self._check(isinstance(parameters, dict), f"algorithm.{name}", "must be a table")
            for key, value in parameters.items():
                number = self._number(f"algorithm.{name}.{key}", value, -1e9, 1e9)
                found.setdefault(name, {})[key] = number
        return dict(sorted(found.items()))

    def _display(self, common: np.ndarray, pitch: float, shape: str) -> Display:
        given = self._table("display", ("x_mm", "y_mm"))
        limits: list[tuple[float, ...]] = []
        for axis, key in enumerate(("x_mm", "y_mm")):
            low, high = float(common[:, axis].min()), float(common[:, axis].max())
            default = [math.floor(low - 0.55 * pitch), math.ceil(high + 0.55 * pitch)]
            pair = self._numbers(f"display.{key}", given.get(key, default), 2, -1e4, 1e4)
            self._check(pair[0] < pair[1], f"display.{key} = {list(pair)}", "the first must be the smaller")
            limits.append(pair)
        return Display(x_mm=limits[0], y_mm=limits[1], shape=shape, pitch_mm=pitch)  # type: ignore[arg-type]

    def detector(self) -> Detector:
        """The whole file, checked."""
        import numpy as np  # commands start without it

        self._known(self.tables, "", TOP)
        name = self._text("name", self.tables.get("name"))
        unit = self.tables.get("unit_mm", 1.0)
        pair = unit if isinstance(unit, list) else [unit, unit]
        step = np.array(self._numbers("unit_mm", pair, 2, 1e-4, 1e3), dtype=np.float32)
        pitch = self._number("pitch_mm", self.tables.get("pitch_mm"), 0.1, 200.0)
        shape = self.tables.get("shape", "hexagon")
        self._check(shape in SHAPES, f"shape = {_shown(shape)}", f"must be one of {', '.join(SHAPES)}")
        disks, shifts = self._disks()
        table = self._channels(len(disks))
        position = table[:, :2].astype(np.float32) * step
        disk = table[:, 2].astype(np.uint8)
        common = position - shifts.astype(np.float32)[disk]
        far = np.flatnonzero(np.abs(common).max(axis=1) > MOST_MM)
        if len(far):
            x, y = common[far[0]].tolist()
            key = f"channels[{far[0]}] = {table[far[0]].tolist()}"
            right = f"is at ({x:.1f}, {y:.1f}) mm of the common plane, must be within {MOST_MM:g} mm"
            raise UsageError(f"{self.path}: {key}: {right}: shift_mm moves a disk, unit_mm scales it")
        optics = self._optics()
        monte_carlo = self._monte_carlo(pitch, shape, optics)
        rings = self._rings(pitch, shape, monte_carlo, int(np.bincount(disk).max()))
        return Detector(
            name=name, disks=disks, shifts=shifts, position=position, disk=disk,
            board=table[:, 3].astype(np.uint8), optics=optics, rings=rings, monte_carlo=monte_carlo,
            algorithms=self._algorithms(optics, rings, monte_carlo),
            display=self._display(common, pitch, shape),
        )  # fmt: skip


def _whole(text: str) -> bool:
    digits = text.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 15


def _shown(value: Any) -> str:
    """A wrong value in an error, at most one line of a terminal."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
