# SPDX-License-Identifier: Apache-2.0
"""Conditions file: masked photomultipliers and time offsets of channels (docs/files.md)."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import attrs

from nanet.errors import UsageError, describe_os_error, near, parse_toml

PM_COUNT = 1952
LSB_NS = 0.097464731802
MAX_T0_LSB = 1024
MAX_T0_NS = MAX_T0_LSB * LSB_NS


@attrs.frozen
class Conditions:
    """Conditions of the detector.

    masked: PM IDs; t0_lsb: offsets of all channels (LSB), or empty; name: hash of the file.
    """

    masked: tuple[int, ...]
    t0_lsb: tuple[int, ...]
    name: str

    def core(self) -> dict[str, Any]:
        """Dictionary for nanet._core."""
        return {"masked": list(self.masked), "t0_lsb": list(self.t0_lsb), "name": self.name}


def load(path: str, channels: int = PM_COUNT) -> Conditions:
    """Reads a file. channels: of the detector. UsageError names the key and the wrong value."""
    try:
        with open(path, "rb") as file:
            content = file.read()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(
            f"trigger.conditions: {describe_os_error(error, path)}: give a file that can be read"
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text: byte {error.start}") from None
    tables = parse_toml(text, f"{path}: is")
    for key in tables:
        if key not in ("mask", "t0_ns"):
            raise UsageError(f"{path}: {key}: no such key{near(key, ('mask', 't0_ns'))}")
    return Conditions(
        masked=_mask(path, tables.get("mask", []), channels),
        t0_lsb=_offsets(path, tables.get("t0_ns", {}), channels),
        name=hashlib.sha256(content).hexdigest()[:12],
    )


def _channels(path: str, key: str, text: Any, most: int) -> range:
    """Channels of 17, "17" or "512-519". UsageError for anything else."""
    right = f"must be a photomultiplier, 0 to {most - 1}, or a range of them such as 512-519"
    if isinstance(text, int) and not isinstance(text, bool):
        text = str(text)
    if not isinstance(text, str):
        raise UsageError(f"{path}: {key} = {text!r}: {right}")
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise UsageError(f"{path}: {key} = {text!r}: {right}")
    channels = range(int(first), int(last if dash else first) + 1)
    if not channels or channels[-1] >= most:
        raise UsageError(f"{path}: {key} = {text!r}: {right}")
    return channels


def _mask(path: str, given: Any, most: int) -> tuple[int, ...]:
    if not isinstance(given, list):
        raise UsageError(f'{path}: mask = {given!r}: must be a list, such as [17, "512-519"]')
    return tuple(sorted({channel for part in given for channel in _channels(path, "mask", part, most)}))


def _lsb(path: str, key: str, value: Any) -> int:
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_T0_NS
    if not good:
        raise UsageError(f"{path}: {key} = {value!r}: must be {-MAX_T0_NS:.1f} to {MAX_T0_NS:.1f} ns")
    return round(value / LSB_NS)


def _offsets(path: str, given: Any, most: int) -> tuple[int, ...]:
    if isinstance(given, list):
        if len(given) != most:
            raise UsageError(f"{path}: t0_ns has {len(given)} values: must have {most}, or be a table")
        values = [_lsb(path, f"t0_ns[{channel}]", value) for channel, value in enumerate(given)]
        return tuple(values)
    if not isinstance(given, dict):
        raise UsageError(f"{path}: t0_ns = {given!r}: must be a table, [t0_ns], or a list of {most}")
    if not given:
        return ()
    offsets: dict[int, int] = {}
    for key, value in given.items():
        lsb = _lsb(path, f"t0_ns.{key}", value)
        for channel in _channels(path, "t0_ns", key, most):
            if channel in offsets:
                raise UsageError(f"{path}: t0_ns.{key}: channel {channel} has an offset already")
            offsets[channel] = lsb
    return tuple(offsets.get(channel, 0) for channel in range(most))


class Watch:
    """Watches the file for changes; a change counts once the file is the same in two looks."""

    def __init__(self, path: str, channels: int = PM_COUNT) -> None:
        self._path = path
        self._channels = channels
        self._read = self._seen = self._signature()

    def _signature(self) -> tuple[int, ...] | None:
        try:
            state = os.stat(self._path)
        except OSError:
            return None
        return (state.st_mtime_ns, state.st_size, state.st_ino)

    def changed(self) -> Conditions | None:
        """New conditions, or None. UsageError, once per change, for a file that is refused."""
        before, self._seen = self._seen, self._signature()
        if self._seen is None or self._seen == self._read or self._seen != before:
            return None
        self._read = self._seen
        return load(self._path, self._channels)
