# SPDX-License-Identifier: SHL-2.1
"""The proofs of the modules, and that each of them finds the faults it is there to find."""

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
    """Nothing breaks an assertion."""
    assert holds(name)


@pytest.mark.complete
@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=[f"{name}-{fault[2]}" for name, fault in FAULTS])
def test_fault_is_found(name: str, fault: tuple[str, str, str]) -> None:
    """A module with this fault breaks one."""
    assert not holds(name, fault)
