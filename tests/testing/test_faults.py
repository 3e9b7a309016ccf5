"""Every planted fault is caught, by the clause that it belongs to and by no other."""

from __future__ import annotations

import faults
import faults_of_rows
import pytest
from planting import FAULTS, Fault
from sizes import first
from sound import Sound

from marlenv.testing import CHECKS, run_contract

assert faults, faults_of_rows  # they plant


def test_the_sound_env_keeps_every_clause() -> None:
    assert {r.name: r.says for r in run_contract(Sound) if r.verdict != "held"} == {}


@pytest.mark.parametrize("fault", first(FAULTS, 8), ids=lambda fault: fault.name)
def test_a_planted_fault_is_caught_by_its_clause(fault: Fault) -> None:
    results = list(run_contract(fault.make))
    assert {r.name: r.says for r in results if r.verdict == "broken"}.keys() == {fault.clause}
    (broken,) = (r for r in results if r.verdict == "broken")
    assert broken.mend == CHECKS[fault.clause].mend


def test_every_clause_has_a_fault() -> None:
    assert CHECKS.keys() == {fault.clause for fault in FAULTS}
    assert len(FAULTS) >= 40
