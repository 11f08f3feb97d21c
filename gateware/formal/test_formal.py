# SPDX-License-Identifier: SHL-2.1
"""Tests of the formal proofs and of their planted faults."""

import pytest
from prove import PROOFS, holds

FAULTS = [(name, fault) for name, proof in PROOFS.items() for fault in proof.faults]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.complete] if proof.slow else [])
        for name, proof in PROOFS.items()
    ],
)
def test_proof(name: str) -> None:
    """All assertions hold."""
    assert holds(name)


@pytest.mark.complete
@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=[f"{name}-{fault[2]}" for name, fault in FAULTS])
def test_fault_is_found(name: str, fault: tuple[str, str, str]) -> None:
    """The planted fault violates an assertion."""
    assert not holds(name, fault)
